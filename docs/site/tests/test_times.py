"""Tests of times.py: sums over a map's chapters, and the two ways in which a map can be wrong."""

import unittest

from common.testing.tree import TreeTest
from docs.site import times

MAP = """# 01. Lesson

| | You learn | Read and run | Exercises |
|---|---|---|---|
| [1. One](1_one.md) | a | 45 minutes | 80 minutes |
| [2. Two](2_two.md) | `b` | 30 min | |
| [Appendix](appendix.md) | more | 500 minutes | 5 minutes |
"""


class TimesTest(TreeTest):
    def test_sums_without_appendices(self):
        self.assertEqual(times.of_map(MAP.splitlines()), (75, 80))

    def test_a_table_with_all_lessons(self):
        self.write("01_one/README.md", MAP)
        self.write("02_two/README.md", MAP.replace("80 minutes", ""))
        lines = times.table(self.root, {"01": 80})
        self.assertEqual(lines[2].split(), ["01", "75", "80", "2.5"])
        self.assertEqual(lines[4].split(), ["all", "150", "80", "4"])

    def test_a_map_that_contradicts_the_catalogue(self):
        self.write("01_one/README.md", MAP)
        with self.assertRaisesRegex(ArithmeticError, "80 minutes, the catalogue 95"):
            times.table(self.root, {"01": 95})

    def test_a_map_without_times(self):
        for text in ("# 01. Lesson\n", MAP.replace("30 min", "")):
            self.write("01_one/README.md", text)
            with self.assertRaises(times.Fault):
                times.table(self.root, {"01": 80})


if __name__ == "__main__":
    unittest.main()
