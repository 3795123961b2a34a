"""Tests of write_file.py: files that appear whole or not at all."""

import concurrent.futures
import os
import pathlib
import stat
import tempfile
import threading
import unittest

from common.files.write_file import check_writable, printable, write_file


class WriteFile(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.file = self.folder / "file"

    def names(self):
        return sorted(os.listdir(self.folder))

    def mode(self, path):
        return stat.S_IMODE(path.stat().st_mode)

    def test_text_and_bytes_with_the_usual_mode(self):
        before = os.umask(0o027)
        self.addCleanup(os.umask, before)
        write_file(self.file, "größer\n")
        self.assertEqual(self.file.read_bytes(), "größer\n".encode())
        self.assertEqual(self.mode(self.file), 0o640)
        self.file.chmod(0o604)
        write_file(self.file, b"\xff")
        self.assertEqual(self.file.read_bytes(), b"\xff")
        self.assertEqual(self.mode(self.file), 0o604)
        self.assertEqual(self.names(), ["file"])

    def test_what_a_link_leads_to_is_written(self):
        (self.folder / "deep").mkdir()
        for there in (False, True):
            with self.subTest(there=there):
                link = self.folder / f"link_{there}"
                target = self.folder / "deep" / f"target_{there}"
                if there:
                    target.write_text("old")
                link.symlink_to(f"deep/{target.name}")
                write_file(link, "new")
                self.assertTrue(link.is_symlink())
                self.assertEqual(target.read_text(), "new")

    def device(self, name):
        """One to write to: for the superuser a copy, so that no mistake can replace that of the
        machine."""
        path = pathlib.Path("/dev", name)
        if not path.is_char_device():
            self.skipTest(f"there is no {path} here")
        if os.geteuid() == 0:
            copy = self.folder / name
            try:
                os.mknod(copy, stat.S_IFCHR | 0o600, path.stat().st_rdev)
                os.close(os.open(copy, os.O_WRONLY))
            except OSError:
                self.skipTest("devices cannot be made here")
            path = copy
        return path

    def test_devices_stay_what_they_are(self):
        null = self.device("null")
        check_writable(null)
        write_file(null, "text")
        self.assertTrue(null.is_char_device())

    def test_fifos_stay_what_they_are(self):
        os.mkfifo(self.file)
        read = []
        reader = threading.Thread(target=lambda: read.append(self.file.read_bytes()))
        reader.start()
        write_file(self.file, "through it")
        reader.join()
        self.assertEqual(read, [b"through it"])
        self.assertTrue(stat.S_ISFIFO(self.file.stat().st_mode))

    def test_a_full_device_is_noticed(self):
        full = self.device("full")
        with self.assertRaises(OSError):
            write_file(full, "text")
        self.assertTrue(full.is_char_device())

    def test_what_cannot_be_written(self):
        for path in (self.folder, self.folder / "no" / "file"):
            for attempt in (lambda: write_file(path, "text"), lambda: check_writable(path)):
                with self.assertRaises(OSError):
                    attempt()
        self.assertEqual(self.names(), [])

    @unittest.skipIf(os.geteuid() == 0, "the superuser may write everywhere")
    def test_what_must_not_be_written(self):
        self.file.write_text("old")
        self.file.chmod(0o444)
        with self.assertRaises(PermissionError):
            check_writable(self.file)
        with self.assertRaises(PermissionError):
            write_file(self.file, "new")
        self.folder.chmod(0o555)
        self.addCleanup(self.folder.chmod, 0o755)
        with self.assertRaises(PermissionError):
            check_writable(self.folder / "other")
        self.assertEqual(self.file.read_text(), "old")

    def test_a_check_touches_nothing(self):
        check_writable(self.file)
        self.assertEqual(self.names(), [])
        self.file.write_text("old")
        check_writable(self.file)
        self.assertEqual(self.file.read_text(), "old")
        self.assertEqual(self.names(), ["file"])

    def test_a_failure_leaves_the_old_file(self):
        self.file.write_text("old")
        with self.assertRaises(TypeError):
            write_file(self.file, 3)
        self.assertEqual(self.file.read_text(), "old")
        self.assertEqual(self.names(), ["file"])

    def test_several_at_once(self):
        texts = [str(i) * 100000 for i in range(8)]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda text: write_file(self.file, text), texts * 4))
        self.assertIn(self.file.read_text(), texts)
        self.assertEqual(self.names(), ["file"])


class Printable(unittest.TestCase):
    def test_controls_are_shown_and_the_rest_stays(self):
        self.assertEqual(printable("a\x1b[2Jb\n\x7f\x9b"), "a\\x1b[2Jb\\x0a\\x7f\\x9b")
        self.assertEqual(printable("größer QKᵀ 日本 \\x1b"), "größer QKᵀ 日本 \\x1b")
        self.assertEqual(printable("\u202e" + os.fsdecode(b"\xff")), "\\u202e\\udcff")

    def test_every_character_can_be_printed_afterwards(self):
        for code in (*range(0x3000), *range(0xD700, 0xE100), 0x10FFFF):
            shown = printable(chr(code))
            if not shown.isascii():
                shown.encode("utf-8")
                self.assertEqual(shown, chr(code))
            self.assertFalse(any(ord(c) < 32 or 127 <= ord(c) < 160 for c in shown))


if __name__ == "__main__":
    unittest.main()
