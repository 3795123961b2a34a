"""Tests of reading_time.py: what is counted on a page, and the minutes in tables of chapters."""

import unittest

from docs.site import reading_time
from docs.site.tests.test_sync_pages import SyncTest

PAGE = """\
# A title
Four words stand here.
<!-- listing: a.cpp#b -->
```cpp
int a;

int b;
```
```math
x = y
```
| head | of |
| --- | ---: |
| a | 1 |
![words](a.svg)
**Predict.**
What? 1. is no question here
## Questions
**1.**
Which?
2. Why?
""".splitlines()


class CountsTest(unittest.TestCase):
    def test_each_kind_is_counted_once(self):
        found = reading_time.counts(PAGE)
        expected = {"lines": 2, "rows": 2, "formulas": 1, "drawings": 1, "predictions": 1}
        self.assertEqual({kind: found[kind] for kind in expected}, expected)
        self.assertEqual(found["questions"], 2)
        self.assertEqual(found["words"], 2 + 4 + 1 + 6 + 1 + 1 + 1 + 2)

    def test_minutes_grow_with_the_page(self):
        self.assertEqual(reading_time.minutes([]), 5)
        self.assertEqual(reading_time.minutes(["word " * 100] * 10), 10)
        self.assertEqual(reading_time.minutes(["word " * 100] * 30 + ["**Predict.**"] * 5), 50)

    def test_only_rows_of_pages_with_minutes_are_filled(self):
        def lines_of(page):
            self.assertEqual(page, "1_one.md")
            return ["**Predict.**"] * 5

        row = "| [1. One](1_one.md) | a, b | 7 minutes | 80 minutes |"
        filled = row.replace("7 m", "20 m")
        self.assertEqual(reading_time.filled(row, lines_of), filled)
        for other in ("| --- |", "| [A](a.md) | b | when you need it | |", "| `04_tail` | 5 min |"):
            self.assertEqual(reading_time.filled(other, lines_of), other)

    def test_the_factors_are_said(self):
        self.assertTrue(reading_time.said().startswith("100 words a minute, 15 s for a line"))


class ReadingTimesTest(SyncTest):
    def test_the_table_below_the_comment_is_filled(self):
        self.write("1_one.md", "**Predict.**\n" * 5)
        table = (
            "| a | b | c | d |\n|---|---|---|---|\n| [1](1_one.md) | x | {} minutes | 3 minutes |\n"
        )
        text = "<!-- reading times -->\n" + table
        self.assertEqual(self.synced(text.format(1) + "\nend\n"), text.format(20) + "\nend\n")
        without = table.format(1)  # a table without the comment stays
        self.assertEqual(self.synced(without), without)

    def test_what_stands_in_the_way(self):
        self.assert_problem("<!-- reading times -->\n\n", "page.md:1", "must begin a table")
        row = "<!-- reading times -->\n| [1](2_two.md) | x | 1 minutes | |\n"
        self.assert_problem(row, "page.md:1", "a chapter cannot be read")
