"""Tests of the examples of lessons 05 and 06 as programs, as far as they need neither PyTorch nor a
GPU."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LESSONS = ("05_flash_forward", "06_flash_backward")


def run(*arguments):
    """Exit status, output and errors of Python with these arguments."""
    words = [sys.executable, "-B", *map(str, arguments)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


class Starting(unittest.TestCase):
    def test_a_missing_option_gives_one_message(self):
        for lesson in LESSONS:
            status, _, err = run("-m", f"{lesson}.interface.example")
            self.assertEqual(status, 2)
            self.assertRegex(err, r"^example.py: .*Give --library PATH\n$")


class Records(unittest.TestCase):
    def table(self, lesson, record):
        return run("-m", f"{lesson}.interface.example", "--table", record)

    def test_the_record_of_another_program_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            record = pathlib.Path(folder, "record.json")
            for text in ('{"command": "06_flash_backward --section time"}', "{}", "[]", "nothing"):
                record.write_text(text, encoding="utf-8")
                status, _, err = self.table("06_flash_backward", record)
                self.assertEqual((status, err.count("\n")), (2, 1), err)
                self.assertIn("record.json", err)
            status, _, err = self.table("05_flash_forward", pathlib.Path(folder, "none"))
            self.assertEqual((status, err.count("none"), err.count("\n")), (2, 1, 1), err)

    def test_a_record_of_its_own_is_printed(self):
        for lesson in LESSONS:
            record = ROOT / "docs" / "results" / f"h200_{lesson[:2]}_interface.json"
            status, out, err = self.table(lesson, record)
            self.assertEqual((status, err), (0, ""))
            self.assertRegex(out, r"bfloat16 +4 +16 +128 +causal +4096")
            self.assertRegex(out, r"points: least .*, median 1\.0")
