"""Tests of records.py and pages.py with a record and a page of paper, and of all facts."""

import json
import unittest
from unittest import mock

from common.testing.tree import TreeTest
from docs.facts import pages, records

ROWS = [
    {"group": "bfloat16, D 64", "kernel": f"{step}_step", "length": n, "tflops": base + n / 1000}
    for step, base in (("01", 10), ("02", 20))
    for n in (1000, 2000)
]
ROWS += [{**ROWS[0], "group": "bfloat16, D 64, causal", "tflops": 5}]
PAGE = """# A page

<!-- generated: PROGRAM -->

**one title**

| step | N | cycles |
|---|---:|---:|
| 01\\_step | 8 | **1,200** |
| 02\\_step | 8 | 900 |

**other title**

| step | cycles |
|---|---:|
| 01\\_step | 7 |

<!-- /generated -->
"""


class Case(TreeTest):
    """A repository with one record and one page."""

    def setUp(self):
        super().setUp()
        self.write("docs/results/paper.json", json.dumps({"measurements": ROWS}))
        self.write("PAGE.md", PAGE)
        patch = mock.patch.object(records, "ROOT", self.root)
        patch.start()
        self.addCleanup(patch.stop)
        self.addCleanup(records.rows.cache_clear)
        records.rows.cache_clear()
        self.paper = records.Ladder("paper")


class Records(Case):
    def test_a_single_row_is_a_number_and_several_are_points(self):
        self.assertEqual(records.points("paper", "tflops", kernel="01_*", length=2000), 12)
        both = records.points("paper", "tflops", kernel="01_*")
        self.assertEqual(both, {(("length", "1000"),): 11, (("length", "2000"),): 12})

    def test_rows_with_the_causal_mask_are_chosen_only_when_asked_for(self):
        self.assertEqual(records.points("paper", "tflops", True, kernel="01_*"), 5)
        self.assertEqual(len(records.points("paper", "tflops", None, kernel="01_*")), 3)

    def test_points_are_paired_by_what_both_have(self):
        self.assertEqual(
            records.each(self.paper.gain("02", "01", "64", "from_2000")), [100 * 10 / 12]
        )
        self.assertAlmostEqual(records.each(self.paper.speedup("02", "01", "64"))[0], 21 / 11)

    def test_points_that_have_no_pair_are_an_error(self):
        lengths = records.points("paper", "tflops", kernel="01_*")
        masks = records.points("paper", "tflops", None, kernel="01_*")
        with self.assertRaises(records.Problem):
            records.over(lengths, masks)

    def test_rows_that_nothing_tells_apart_are_an_error(self):
        records.rows("paper").append(dict(records.rows("paper")[0]))
        with self.assertRaisesRegex(records.Problem, "several rows"):
            records.points("paper", "tflops", kernel="01_*")

    def test_a_record_or_row_that_is_missing_is_an_error(self):
        for record, kernel in (("none", "01_*"), ("paper", "07_*")):
            with self.assertRaisesRegex(records.Problem, f"{record}"):
                records.points(record, "tflops", kernel=kernel)

    def test_a_cell_of_a_printed_table_is_found_by_row_column_and_title(self):
        self.assertEqual(records.cells("PAGE.md", "01_*", "cycles", N="8"), 1200)
        self.assertEqual(records.cells("PAGE.md", "01_*", "cycles", "other*"), 7)
        self.assertEqual(records.each(records.cells("PAGE.md", "*", "cycles")), [1200, 900])
        with self.assertRaisesRegex(records.Problem, "PAGE.md"):
            records.cells("PAGE.md", "03_*", "cycles")


class Pages(Case):
    def with_facts(self, text, **known):
        """(the text with these facts, what was reported, what does not hold)."""
        reported, refuted = [], []
        known = {name: lambda *_, value=value: value for name, value in known.items()}
        with mock.patch.object(pages, "facts", lambda: known):
            text = pages.with_facts(
                text, lambda *problem: reported.append(problem), lambda *fact: refuted.append(fact)
            )
        return text, reported, refuted

    def test_a_number_is_written_in_the_form_of_the_old_one(self):
        for value, old, new in [
            (391.4, "7", "391"),
            (0.7071, "1.00", "0.71"),
            (12500.2, "1,000", "12,500"),
            (3.14e-6, "1.0e-01", "3.1e-06"),
            (4, "Two", "Four"),
            (records.Points(a=2.2, b=6.1), "1", "2 to 6"),
            ([2.2, 2.3], "1 to 9", "2"),
            (-0.01, "1.0", "0.0"),
        ]:
            text, reported, refuted = self.with_facts(
                f"Is <!-- fact: x -->{old}<!-- /fact -->.", x=value
            )
            self.assertEqual(text, f"Is <!-- fact: x -->{new}<!-- /fact -->.")
            self.assertEqual((reported, refuted), ([], []))

    def test_a_truth_that_does_not_hold_and_a_negative_number_are_reported(self):
        _, reported, refuted = self.with_facts("Faster. <!-- fact: x -->\n", x=False)
        self.assertEqual((reported, refuted), ([], [(1, "x does not hold.")]))
        _, _, refuted = self.with_facts("By <!-- fact: x -->3<!-- /fact --> %", x=-3)
        self.assertEqual(refuted[0][0], 1)

    def test_what_cannot_be_read_is_reported(self):
        for text in [
            "No <!-- fact: y -->1<!-- /fact -->",
            "A truth <!-- fact: x -->",
            "Old <!-- value: [06 12] -->1<!-- /value -->",
            "<!-- fact: x -->1<!-- /fact --> begins a line",
            "No number <!-- fact: x -->much<!-- /fact -->",
        ]:
            new, reported, _ = self.with_facts(text, x=1)
            self.assertEqual((new, len(reported)), (text, 1), text)

    def test_listings_are_left_alone(self):
        text = "```md\n<!-- fact: y -->1<!-- /fact -->\n```"
        self.assertEqual(self.with_facts(text), (text, [], []))


class Facts(unittest.TestCase):
    def test_each_fact_says_what_it_is_of(self):
        for name, fact in pages.facts().items():
            self.assertTrue(fact.__doc__, name)
