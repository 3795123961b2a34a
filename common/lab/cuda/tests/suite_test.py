"""Tests of how a suite is graded; the suite itself is run by a test of its own."""

import unittest

from common.lab import suite


def finding(kind, where, other=""):
    return {"kind": kind, "where": where, "other": other}


class Suite(unittest.TestCase):
    def verdicts(self, words, *findings):
        return list(suite.verdicts(suite.Label("f.cu", words.split()), findings))

    def test_a_kind_is_found_or_missed_in_one_of_two_lines(self):
        found = finding("race", "f.cu:3", "f.cu:7")
        for words, verdict in (("race", "found"), ("race@7", "found"), ("race@8", "missed")):
            self.assertEqual(self.verdicts(words, found), [("race", verdict)])
        self.assertEqual(self.verdicts("race"), [("race", "missed")])

    def test_another_kind_is_a_false_alarm_unless_it_is_allowed(self):
        found = finding("out of bounds", "f.cu:3")
        self.assertEqual(self.verdicts("none", found), [("out-of-bounds", "false")])
        self.assertEqual(self.verdicts("race ?out-of-bounds", found), [("race", "missed")])

    def test_labels_are_read_without_comments(self):
        labels = suite.read_labels("# first\n\na.cu none # right\nb/c.cu race ?warp\n")
        self.assertEqual([label.name for label in labels], ["a.cu", "b/c.cu"])
        self.assertEqual(labels[1].allowed, {"warp"})
        for text in ("a.cu\n", "a.cu none race\n", "# nothing\n"):
            with self.subTest(text), self.assertRaises(suite.BadLabels):
                suite.read_labels(text)


if __name__ == "__main__":
    unittest.main()
