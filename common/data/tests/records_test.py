"""Tests of records.py: old names in records, and what is refused."""

import json
import pathlib
import re
import tempfile
import unittest

from common.data import records

ROOT = pathlib.Path(__file__).resolve().parents[3]
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

    def test_new_names_are_final(self):
        for table in (records.KERNELS, records.FIELDS):
            self.assertFalse(set(table) & set(table.values()))
            self.assertEqual(len(set(table.values())), len(table))
        for old, new in records.KERNELS.items():
            self.assertTrue(re.fullmatch(r"\d\d_[a-z0-9_]+", new), new)
            self.assertEqual(old[:3], new[:3])


class Read(unittest.TestCase):
    def test_what_is_not_a_record_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "record.json")
            with self.assertRaisesRegex(records.Problem, "record.json cannot be read: No such"):
                records.read(path)
            for text in ("[]", "nothing", '{"measurements": ['):
                path.write_text(text, encoding="utf-8")
                with self.assertRaisesRegex(records.Problem, "record.json is not a record: "):
                    records.read(path)

    def test_the_program_of_old_and_new_records(self):
        for command, program in (
            ("05_flash_forward --section time", "05_flash_forward"),
            ("python3 common/lab/fidelity.py --build x", "common.lab.fidelity"),
            ("python3 -m common.lab.fidelity --build x", "common.lab.fidelity"),
        ):
            self.assertEqual(records.program({"command": command}), program)
        self.assertEqual(records.program({}), "")

    def test_the_source_names_a_machine_once_with_all_commits(self):
        record = {
            "gpu": "GPU 1",
            "driver": "2.3",
            "toolkit": "4.5",
            "commit": "0123456789ab",
            "date": "2026-01-02",
        }
        machine = "GPU 1, driver 2.3, CUDA 4.5"
        self.assertEqual(records.source(record, record), f"{machine}, commit 0123456, 2026-01-02")
        self.assertEqual(
            records.source(record, dict(record, commit="feed", date="2026-01-03T01:02")),
            f"{machine}, commit 0123456 and feed, 2026-01-02 and 2026-01-03",
        )
        both = dict(record, commit="0123456 (float32) and fedcba9876")
        self.assertIn("commit 0123456 and fedcba9, ", records.source(record, both))
        self.assertIn("; GPU 2, ", records.source(record, dict(record, gpu="GPU 2")))
