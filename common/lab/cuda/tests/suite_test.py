"""Tests of how a suite is graded, and of the table beside a GPU's; the suite itself is run by a
test of its own."""

import os
import pathlib
import tempfile
import unittest
from unittest import mock

from common.lab import beside, suite


def finding(kind, where, other=""):
    return {"kind": kind, "where": where, "other": other}


class Labels(unittest.TestCase):
    def verdicts(self, words, *findings):
        return list(suite.verdicts(suite.Label("f.cu", words.split()), findings))

    def test_a_kind_is_found_or_missed(self):
        self.assertEqual(self.verdicts("race", finding("race", "f.cu:3")), [("race", "found")])
        self.assertEqual(self.verdicts("race"), [("race", "missed")])

    def test_a_line_must_be_one_of_the_two(self):
        self.assertEqual(
            self.verdicts("race@7", finding("race", "f.cu:3", "f.cu:7")), [("race", "found")]
        )
        self.assertEqual(
            self.verdicts("race@8", finding("race", "f.cu:3", "f.cu:7")), [("race", "missed")]
        )

    def test_another_kind_is_a_false_alarm_unless_it_is_allowed(self):
        found = finding("out of bounds", "f.cu:3")
        self.assertEqual(self.verdicts("none", found), [("out-of-bounds", "false")])
        self.assertEqual(self.verdicts("race ?out-of-bounds", found), [("race", "missed")])

    def test_labels_are_read_without_comments(self):
        labels = suite.read_labels("# first\n\na.cu none # right\nb/c.cu race ?warp\n")
        self.assertEqual([label.name for label in labels], ["a.cu", "b/c.cu"])
        self.assertEqual(labels[1].allowed, {"warp"})

    def test_a_line_without_an_expectation_is_refused(self):
        for text in ("a.cu\n", "a.cu none race\n", "# nothing\n"):
            with self.subTest(text), self.assertRaises(suite.BadLabels):
                suite.read_labels(text)

    def test_precision_and_recall(self):
        verdicts = [["race", "found"], ["race", "missed"], ["race", "false"], ["race", "found"]]
        kinds = suite.summary([{"verdicts": [v]} for v in verdicts])
        self.assertAlmostEqual(kinds["race"]["precision"], 2 / 3)
        self.assertAlmostEqual(kinds["race"]["recall"], 2 / 3)


class BesideAGpu(unittest.TestCase):
    def reports_of(self, summary):
        with tempfile.TemporaryDirectory() as folder:
            tool = pathlib.Path(folder, "compute-sanitizer")
            tool.write_text(f"#!/bin/sh\necho '{summary}'\n", encoding="utf-8")
            tool.chmod(0o755)
            path = f"{folder}:{os.environ['PATH']}"
            with mock.patch.dict(os.environ, {"PATH": path}):
                return beside.reports("racecheck", "program")[0]

    def test_a_tool_reports_something_or_nothing_or_does_not_run(self):
        self.assertTrue(self.reports_of("========= ERROR SUMMARY: 5 errors"))
        self.assertTrue(self.reports_of("== RACECHECK SUMMARY: 1 hazard displayed (0 errors)"))
        self.assertFalse(self.reports_of("========= ERROR SUMMARY: 0 errors"))
        self.assertIsNone(self.reports_of("Device not supported"))

    def test_the_table_says_what_did_not_run(self):
        times = {"watched lab": 1.5, "lab": 0.5, "GPU": 0.25}
        rows = [
            {"file": "r/a.cu", "expected": [], "lab": [], "seconds": times, "same_output": True},
            {"file": "b/b.cu", "expected": ["spin"], "lab": ["spin"], "seconds": {}},
        ]
        head = dict.fromkeys(("gpu", "toolkit", "commit", "date"), "x")
        text = beside.table({**head, "measurements": rows})
        self.assertRegex(text, r"a +yes +0\.50 +1\.50 +0\.25 +- +-")
        self.assertRegex(text, r"b +spin +not run")


if __name__ == "__main__":
    unittest.main()
