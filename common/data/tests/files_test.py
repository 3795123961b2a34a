"""Tests of files.py: files that appear whole or not at all."""

import concurrent.futures
import os
import pathlib
import stat
import tempfile
import threading
import unittest

from common.data.files import check_writable, printable, write_file


class WriteFile(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.file = self.folder / "file"

    def names(self):
        return sorted(os.listdir(self.folder))

    def test_a_new_file_has_the_usual_mode_and_an_old_one_keeps_its_own(self):
        self.addCleanup(os.umask, os.umask(0o027))
        for data, mode in (("größer\n", 0o640), (b"\xff", 0o604)):
            check_writable(self.file)
            write_file(self.file, data)
            self.assertEqual(stat.S_IMODE(self.file.stat().st_mode), mode)
            self.file.chmod(0o604)
        self.assertEqual(self.file.read_bytes(), b"\xff")
        self.assertEqual(self.names(), ["file"])

    def test_the_file_that_links_lead_to_is_written(self):
        for old in ("", "old"):
            link, target = self.folder / f"link_{old}", self.folder / f"target_{old}"
            if old:
                target.write_text(old)
            link.symlink_to(target.name)
            write_file(link, "new")
            self.assertTrue(link.is_symlink())
            self.assertEqual(target.read_text(), "new")

    def test_a_fifo_stays_a_fifo(self):
        os.mkfifo(self.file)
        read = []
        reader = threading.Thread(target=lambda: read.append(self.file.read_bytes()))
        reader.start()
        check_writable(self.file)
        write_file(self.file, "through it")
        reader.join()
        self.assertEqual(read, [b"through it"])
        self.assertTrue(stat.S_ISFIFO(self.file.stat().st_mode))

    def test_a_failure_leaves_the_old_file_and_no_trace(self):
        self.file.write_text("old")
        for path in (self.folder, self.folder / "no" / "file"):
            for attempt in (lambda: write_file(path, "text"), lambda: check_writable(path)):
                with self.assertRaises(OSError):
                    attempt()
        with self.assertRaises(TypeError):
            write_file(self.file, 3)
        if os.geteuid() != 0:  # the superuser may write everywhere
            self.file.chmod(0o444)
            for attempt in (
                lambda: write_file(self.file, "new"),
                lambda: check_writable(self.file),
            ):
                with self.assertRaises(PermissionError):
                    attempt()
        self.assertEqual(self.file.read_text(), "old")
        self.assertEqual(self.names(), ["file"])

    def test_several_at_once_do_not_interfere(self):
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
        for code in (*range(0x3000), *range(0xD700, 0xE100), 0x10FFFF):
            shown = printable(chr(code))
            if not shown.isascii():
                shown.encode("utf-8")
                self.assertEqual(shown, chr(code))
            self.assertFalse(any(ord(c) < 32 or 127 <= ord(c) < 160 for c in shown))
