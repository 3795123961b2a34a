"""Tests of navigation.py, check_pages.py and reading_time.py: the order of the
pages, the links between them, what is wrong with them, and the times that the maps promise."""

import unittest

from common.classroom import catalogue
from common.testing.tree import ROOT, TreeTest
from docs.site import check, navigation, reading_time
from docs.site.excerpts import read_lines

FOOT = "\n<!-- navigation -->\n"


class ChaptersTest(TreeTest):
    def setUp(self):
        super().setUp()
        self.write("README.md", "# The course\n")
        links = "[a](1_one.md) [b](2_two.md#part) [c](appendix_proof.md)\n"
        self.write("01_a/README.md", f"# 01. First *lesson*\n{links}{FOOT}")
        self.write("01_a/1_one.md", f"# 1. One\n{FOOT}")
        self.write("01_a/2_two.md", f"# 2. Two\n\n## Part\n{FOOT}")
        self.write("01_a/appendix_proof.md", f"# Appendix: proof\n{FOOT}")
        self.write("01_a/notes.md", "# No chapter\n")
        self.write("02_b/README.md", f"# 02. Second lesson\n{FOOT}")
        self.write("docs/results/README.md", "# Results\n")

    def check(self):
        return self.run_main(check.main, "chapters", "--root", self.root)

    def assert_fault(self, *sentences):
        status, out, _ = self.check()
        self.assertEqual(status, 1, out)
        self.assertIn(f", {len(sentences)} faults.", out)
        for sentence in sentences:
            self.assertIn(sentence, out)

    def test_links_to_the_neighbours(self):
        for page, line in {
            "01_a/README.md": "[Course](../README.md) · Next: [1. One](1_one.md)",
            "01_a/1_one.md": "[Course](../README.md) · [01. First *lesson*](README.md) · "
            "Next: [2. Two](2_two.md)",
            "01_a/2_two.md": "[Course](../README.md) · [01. First *lesson*](README.md) · "
            "Previous: [1. One](1_one.md) · Next: [02. Second lesson](../02_b/README.md)",
            "01_a/appendix_proof.md": "[Course](../README.md) · [01. First *lesson*](README.md)",
            "02_b/README.md": "[Course](../README.md) · "
            "Previous: [01. First *lesson*](../01_a/README.md) · "
            "Next: [Results](../docs/results/README.md)",
        }.items():
            self.assertEqual(navigation.foot(self.root, page), line)
        for page in ("01_a/notes.md", "README.md", "03_c/README.md"):
            with self.assertRaisesRegex(ValueError, f"{page} is not the page of a lesson"):
                navigation.foot(self.root, page)

    def test_good(self):
        status, out, _ = self.check()
        self.assertEqual((status, out), (0, "2 lessons, 3 chapters, 0 faults.\n"))

    def test_every_chapter_is_on_the_map_in_order(self):
        self.write("01_a/README.md", f"# L\n[b](2_two.md) [a](1_one.md){FOOT}")
        self.assert_fault(
            "01_a/README.md: there is no link to the chapter appendix_proof.md.",
            "01_a/README.md: the chapters are linked in the order 2_two.md, 1_one.md.",
        )

    def test_ten_chapters(self):
        names = [f"{k}_{word}.md" for k, word in enumerate(("nine", "ten"), 9)]
        for name in names:
            self.write(f"01_a/{name}", f"# {name[:-3].replace('_', '. ')}\n{FOOT}")
        both = [f"01_a/{name}" for name in names]
        found = navigation.chapters(self.root, "01_a/README.md")
        self.assertEqual(found[-3:], [*both, "01_a/appendix_proof.md"])
        self.assertEqual(navigation.numbered_title(self.root, both[1]), "1.10 ten")
        links = "[a](1_one.md) [b](2_two.md) [c](appendix_proof.md)"
        self.write("01_a/README.md", f"# L\n{links} [i](9_nine.md) [j](10_ten.md){FOOT}")
        self.assertEqual(self.check()[0], 0)
        self.write("01_a/README.md", f"# L\n{links} [j](10_ten.md) [i](9_nine.md){FOOT}")
        self.assert_fault("linked in the order 1_one.md, 2_two.md, 10_ten.md, 9_nine.md.")

    def test_lengths(self):
        self.write("01_a/1_one.md", "# O\n" + "word " * 3499 + "\n| |\n|---|\n" + FOOT)
        self.write("01_a/appendix_proof.md", "# A\n" + "word " * 9999 + FOOT)
        self.write("02_b/README.md", "# L\n" + "word " * 9999)  # a lesson without chapters
        self.assert_fault("01_a/1_one.md: the page has 3501 words; allowed are 3500.")

    def test_long_tables(self):
        table = "\n| a | b |\n| --- | --- |\n" + "| 1 | 2 |\n" * 13
        printed = f"<!-- generated: x -->\n{table}\n<!-- /generated -->\n"
        short = printed.replace("| 1 | 2 |\n", "", 1)
        self.write("01_a/1_one.md", f"# O\n{printed}{FOOT}")
        self.write("01_a/2_two.md", f"# O\n\n## Part\n{table}\n{short}{table}{FOOT}")
        self.assert_fault("01_a/1_one.md:6: the table has 13 rows; allowed are 12.")

    def test_a_page_without_its_links(self):
        self.write("01_a/1_one.md", "# O\n")
        self.assert_fault("01_a/1_one.md: the page must end with <!-- navigation -->.")

    def test_a_page_without_a_title(self):
        self.write("01_a/1_one.md", "text\n")
        with self.assertRaisesRegex(ValueError, "01_a/1_one.md has no title"):
            navigation.foot(self.root, "01_a/README.md")

    def test_which_chapter_sets_an_exercise(self):
        task = "01_a/exercises/sum/task.md"
        self.write("01_a/1_one.md", f"# 1. One\n\n01_sums\n{FOOT}")
        self.assertEqual(navigation.asked_by(self.root, task), "01_a/README.md")
        self.write("01_a/2_two.md", f"# 2. Two\n\n`01_sum` (20)\n{FOOT}")
        self.assertEqual(navigation.asked_by(self.root, task), "01_a/2_two.md")

    def test_a_page_that_cannot_be_read(self):
        self.write("01_a/1_one.md", b"\xff")
        self.assertEqual(self.check()[0], 2)


class CourseMapTest(TreeTest):
    def test_hours_of_the_lessons_and_of_all(self):
        row = "| [1. One](1_one.md) | a | {} minutes | {} minutes |\n"
        self.write("01_a/README.md", "# 01. First *one*\n\n" + row.format(90, 120))
        self.write("02_b/README.md", "# 02. Second\n\n" + row.format(30, 15) * 2)
        self.write("01_a/exercises/lesson.json", '{"ability": "add.", "exercises": {}}')
        lines = reading_time.course_map(self.root)
        self.assertEqual(lines[2].split("  ")[0], "01. First one")
        rows = [[cell.strip() for cell in line.split("  ") if cell] for line in lines[2:5]]
        self.assertEqual(rows[0][1:], ["add", "1 h 30", "2 h 00", "3.5"])
        self.assertEqual(rows[1][-3:], ["1 h 00", "0 h 30", "1.5"])
        self.assertEqual(rows[2][-3:], ["2 h 30", "2 h 30", "5.0"])


def exercise_minutes(lines):
    """The sum over the last column of a map's chapters."""
    rows = [match for line in lines if (match := reading_time.MAP_ROW.fullmatch(line))]
    return sum(int(match[2]) for match in rows if match[2])


class CourseTimesTest(unittest.TestCase):
    def test_sum_of_a_map(self):
        lines = [
            "| [1. One](1_one.md) | a | 45 minutes | 80 minutes |",
            "| [2. Two](2_two.md) | b | 5 min | 10 min, of which 5 for puzzles |",
        ]
        self.assertEqual(exercise_minutes(lines), 90)

    def test_maps_promise_what_their_exercises_take(self):
        minutes = {}
        for exercise in catalogue.choose([]):
            minutes[exercise.id[:2]] = minutes.get(exercise.id[:2], 0) + exercise.minutes
        self.assertGreater(len(minutes), 5)
        for page in navigation.lessons(reading_time.ROOT):
            said = exercise_minutes(read_lines(reading_time.ROOT / page))
            self.assertEqual(said, minutes.get(page[:2], 0), page)


class Parents(unittest.TestCase):
    def test_results_explorers_and_the_lab_stand_below_their_first_page(self):
        for folder, name in (
            ("docs/results", "05_decoding"),
            ("docs/explorers", "banks"),
            ("common/lab", "order"),
        ):
            above = [f"{folder}/README.md"]
            self.assertEqual(navigation.parents(ROOT, f"{folder}/{name}.md"), above)
            self.assertEqual(navigation.parents(ROOT, above[0]), [])
        self.assertEqual(navigation.parents(ROOT, "docs/theory/01_memory_hierarchy.md"), [])


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
