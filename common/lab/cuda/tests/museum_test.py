"""Tests of the museum's program; the pieces are run by a test of their own."""

import difflib
import unittest

from common.lab import suite
from common.lab.museum import museum


class Museum(unittest.TestCase):
    def test_each_piece_has_a_question_an_answer_and_a_report(self):
        files = {path.name for path in museum.FOLDER.glob("*.cu")}
        found = museum.pieces()
        self.assertEqual(sorted(piece.file for piece in found), sorted(files))
        for piece in found:
            with self.subTest(piece.name):
                self.assertRegex(piece.task, r"\w+.*\.$")
                self.assertRegex(piece.answer, r"\w+.*\.$")
                self.assertRegex(piece.report, r"^https://github\.com/\S+ \(.*202[456]\)$")
                self.assertTrue(piece.section)

    def test_the_two_forms_of_a_piece_differ_and_have_all_of_it(self):
        for piece in museum.pieces():
            with self.subTest(piece.name):
                forms = [piece.code(False), piece.code(True)]
                self.assertNotEqual(*forms)
                text = set(piece.body) - {"#ifdef FIXED", "#ifndef FIXED", "#else", "#endif"}
                self.assertLessEqual(text, set(forms[0]) | set(forms[1]))
                self.assertFalse([line for form in forms for line in form if "FIXED" in line])
                change = [line for line in piece.change() if line[:1] in "+-"]
                expected = [
                    line for line in difflib.ndiff(*forms) if line[:2] in ("+ ", "- ")
                ]  # fmt: skip
                self.assertEqual(len(change), len(expected))

    def test_an_unknown_name_is_bad_use(self):
        with self.assertRaises(suite.BadLabels):
            museum.pieces(["no_such_piece"])

    def test_summaries_of_compute_sanitizer(self):
        for text, said in (
            ("========= ERROR SUMMARY: 0 errors\n", ""),
            ("========= ERROR SUMMARY: 12 errors\n", "12"),
            ("========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n", ""),
            ("========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n", "1"),
            ("========= RACECHECK SUMMARY: 4 hazards displayed (1 error, 3 warnings)\n", "1+3w"),
        ):
            self.assertEqual(museum.said(text), said)
        with self.assertRaises(suite.BadLabels):
            museum.said("no GPU\n")

    def test_a_command_that_hangs_is_ended_with_what_it_started(self):
        self.assertEqual(
            museum.command(["sh", "-c", "sleep 60 & echo a; sleep 60"], 0.2), ("a\n", None)
        )
        self.assertEqual(museum.command(["sh", "-c", "echo b; exit 3"], 5), ("b\n", 3))


if __name__ == "__main__":
    unittest.main()
