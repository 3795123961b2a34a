"""Tests of records.py and files.py: old names in records, what is refused, and files that appear
whole or not at all."""

import json
import os
import stat
import threading
import unittest

from common.data import records
from common.data.files import check_writable, printable, write_file
from common.testing.tree import ROOT, TreeTest

RECORDS = sorted((ROOT / "docs" / "results").glob("*.json"))


class Names(unittest.TestCase):
    def test_kernels_and_fields_get_todays_names(self):
        old = {
            "command": "05_flash_forward --kernel 08_finish",
            "measurements": [
                {"kernel": "08_finish", "percent_hidden": 3, "blocks": 2},
                {"kernel": "15_shares, bfloat16, 64 columns", "note": "beside 08_finish"},
                {"kernel": "08_finished"},
            ],
        }
        self.assertEqual(
            records.renamed(old),
            {
                "command": "05_flash_forward --kernel 08_finish",
                "measurements": [
                    {"kernel": "08_edge_masks", "percent_masked": 3, "blocks": 2},
                    {
                        "kernel": "15_warpgroup_tiles, bfloat16, 64 columns",
                        "note": "beside 08_edge_masks",
                    },
                    {"kernel": "08_finished"},
                ],
            },
        )

    def test_no_record_is_read_with_an_old_name(self):
        found = set()
        self.assertTrue(RECORDS)
        for path in RECORDS:
            found.update(records.KERNEL.findall(path.read_text(encoding="utf-8")))
            record = {**records.read(path), "command": ""}
            self.assertNotRegex(json.dumps(record), records.KERNEL, path.name)
        # Every entry of the table is one that a record needs.
        self.assertEqual(found, set(records.KERNELS))


class Read(TreeTest):
    def test_what_is_not_a_record_is_refused(self):
        path = self.root / "record.json"
        with self.assertRaisesRegex(records.Problem, "record.json cannot be read: No such"):
            records.read(path)
        for text in ("[]", "nothing", '{"measurements": ['):
            self.write("record.json", text)
            with self.assertRaisesRegex(records.Problem, "record.json is not a record: "):
                records.read(path)

    def test_the_program_of_old_and_new_records(self):
        for command, program in (
            ("05_flash_forward --section time", "05_flash_forward"),
            ("python3 common/bench/record.py --build x", "common.bench.record"),
            ("python3 -m common.bench.record --build x", "common.bench.record"),
        ):
            self.assertEqual(records.program({"command": command}), program)
        self.assertEqual(records.program({}), "")

    def test_the_source_names_a_machine_once_with_all_commits(self):
        record = {"gpu": "GPU 1", "driver": "2.3", "toolkit": "4.5", "date": "2026-01-02"}
        one, other = {**record, "commit": "0123456789ab"}, {**record, "commit": "feed"}
        self.assertEqual(
            records.source(one, {**other, "date": "2026-01-03T01:02"}),
            "GPU 1, driver 2.3, CUDA 4.5, commit 0123456 and feed, 2026-01-02 and 2026-01-03",
        )
        self.assertIn("; GPU 2, ", records.source(one, {**other, "gpu": "GPU 2"}))


class WriteFile(TreeTest):
    def setUp(self):
        super().setUp()
        self.file = self.root / "file"

    def names(self):
        return sorted(os.listdir(self.root))

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
            link, target = self.root / f"link_{old}", self.root / f"target_{old}"
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
        for path in (self.root, self.root / "no" / "file"):
            for attempt in (lambda: write_file(path, "text"), lambda: check_writable(path)):
                with self.assertRaises(OSError):
                    attempt()
        self.assertEqual(self.file.read_text(), "old")
        self.assertEqual(self.names(), ["file"])


class Printable(unittest.TestCase):
    def test_controls_are_shown_and_the_rest_stays(self):
        self.assertEqual(printable("a\x1b[2Jb\n\x7f\x9b"), "a\\x1b[2Jb\\x0a\\x7f\\x9b")
        self.assertEqual(printable("größer QKᵀ 日本 \\x1b"), "größer QKᵀ 日本 \\x1b")
        self.assertEqual(printable("\u202e" + os.fsdecode(b"\xff")), "\\u202e\\udcff")
