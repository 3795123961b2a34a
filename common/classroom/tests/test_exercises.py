"""What an exercise is: the student's file, answers, variants, numbers; and the gate."""

import re
import unittest
from unittest import mock

from common.classroom import catalogue, grading, numbers, teacher
from common.classroom.catalogue import Fault
from common.classroom.tests.support import exercise, toolchain
from common.classroom.toolchain import FILL
from common.testing.tree import TreeTest


class StudentsFile(TreeTest):
    SOURCE = "a\n//! [all]\n  one\n#pragma p\n  //! [in]\n    two\n  //! [in]\n//! [all]\n"

    def filled(self, text, solution=True):
        self.write("code.hpp", self.SOURCE)
        return catalogue.filled(self.root, text, solution)[0]

    def test_the_solution_fills_what_the_start_leaves_open(self):
        text = "x\n#ifdef FA_SOLUTION\n  // listing: code.hpp#in\n#else\nTODO\n#endif\ny"
        self.assertEqual(self.filled(text), "x\n  two\ny")
        self.assertEqual(self.filled(text, False), "x\nTODO\ny")
        self.assertEqual(self.filled("// listing: code.hpp#all", False), "one\n#pragma p\n  two")

    def test_a_repair_begins_as_its_piece_and_ends_as_the_twin(self):
        start, end = (self.filled("// museum: parity_of_the_ring", s) for s in (False, True))
        self.assertEqual(end, start.replace("= tile / 3 % 2;", "= tile % 2;"))
        self.assertNotIn("main", end)

    def test_what_cannot_be_listed_is_reported(self):
        for place, words in (("code.hpp#none", "none"), ("other.hpp#all", "other.hpp")):
            with self.subTest(place), self.assertRaisesRegex((Fault, OSError), words):
                self.filled(f"// listing: {place}")

    def test_an_answer_is_the_solution_with_some_lines_replaced(self):
        text = "# one: two\n@ easy: three\n- b\n+   B\n\n# four: five\n@ right\n- b\n+ C\n"
        wrong, right = catalogue.read_answers(text, "list")
        self.assertEqual((wrong.kind, wrong.stage, wrong.says), ("wrong", "easy", "three"))
        self.assertEqual((right.kind, right.name), ("right", "four"))
        self.assertEqual(wrong.apply("a\n  b\nc"), "a\n  B\nc")
        for solution in ("a", "b\nb\nc"):  # its line must be there once
            with self.assertRaises(ValueError):
                wrong.apply(solution)
        for faulty in ("# a: b\n- b\n", "# a: b\n@ odd\n- b\n", "# a\n@ right\n- b\n"):
            with self.subTest(faulty), self.assertRaises((Fault, ValueError)):
                catalogue.read_answers(faulty, "list")


class Exercises(unittest.TestCase):
    def test_a_grader_is_compiled_anew_when_that_of_another_lesson_changes(self):
        with mock.patch("common.classroom.toolchain.digest", return_value=b"") as read:
            toolchain().key(exercise("06_repair_delta"))
        grader = catalogue.ROOT / "04_tiled_matmul/exercises/grading/repair.hpp"
        self.assertIn(mock.call(grader), read.mock_calls)

    def test_each_exercise_is_complete(self):
        self.assertEqual(teacher.unlisted(catalogue.ROOT), [])
        for one in catalogue.exercises():
            with self.subTest(one.id):
                self.assertEqual(len(one.hints()), 3)
                self.assertNotIn("<details>", one.task())
                if one.predicts:
                    self.assertEqual(one.start().count(" = ?"), len(one.points) - 1)
                    self.assertNotIn(" = ?", one.task())
                    continue
                self.assertLessEqual(max(map(len, one.start().split("\n"))), 100)
                self.assertNotEqual(one.start(), one.solution())
                self.assertTrue(one.answers("right") and one.answers("wrong"))
                self.assertEqual(one.entry.count('#include "student/'), 1)
                self.assertNotRegex(
                    one.entry, r"FA_STAGE|classroom/(grader|lab)\.hpp|/grading/|FA_GRADER"
                )

    def test_variables_that_were_never_set_are_not_right_by_chance(self):
        tools = toolchain()
        if FILL not in tools.flags["lab"]:
            self.skipTest("the compiler does not fill local variables")
        for name, line, forgotten in (
            ("02_row_max", "double m = -std::numeric_limits<double>::infinity();", "double m;"),
            ("02_log_sum_exp", "double l = 0;", "double l;"),
            ("04_warp_merge", "float m = -INFINITY, l = 0;", "float m = -INFINITY, l;"),
            ("05_rescale", "o[d] = {}, m =", "o[d], m ="),
            ("05_rescale", "m = -INFINITY, l = 0;", "m, l = 0;"),
        ):
            with self.subTest(name, forgotten=forgotten):
                one, pragma = exercise(name), "#pragma once\n"
                answer = one.solution().replace(pragma, pragma + "struct Sums { float m, l; };\n")
                self.assertEqual(answer.count(line), 1)
                results = grading.grade(tools, one, answer.replace(line, forgotten))
                self.assertEqual(results[0].verdict, "passed")
                self.assertIn("refused", [result.verdict for result in results])

    def test_formula_blocks_of_tasks_keep_their_lines(self):
        for one in catalogue.exercises():
            text = (one.folder / "task.md").read_text(encoding="utf-8")
            for line in re.findall(r"^ {4}\S.*", text, re.MULTILINE):
                with self.subTest(one.id, line=line):
                    self.assertLessEqual(len(line), 78)
                    # A second definition stands in a line of its own.
                    self.assertLessEqual(len(re.findall(r" = ", line)), 1)

    def test_an_exercise_is_found_by_its_name_or_lesson(self):
        self.assertEqual(exercise("one_step").id, "03_one_step")
        self.assertEqual({e.lesson for e in catalogue.choose(["3"])}, {"03_online_softmax"})
        with self.assertRaisesRegex(Fault, "nothing"):
            catalogue.choose(["nothing"])

    def test_a_seed_chooses_a_variant_and_the_course_has_the_first(self):
        variants = [{"n": 1}, {"n": 2}, {"n": 3}]
        self.assertEqual(catalogue.variant_of(variants, "", "a"), {"n": 1})
        seen = {catalogue.variant_of(variants, f"seed {i}", "a")["n"] for i in range(40)}
        self.assertEqual(seen, {1, 2, 3})
        for seed in ("", "autumn", "c3"):
            one = catalogue.choose(["01_memory"], seed=seed)[0]
            for text in (one.task(), one.start(), *one.hints()):
                self.assertNotIn("{{", text)
            size = one.variant["tokens"] * one.variant["heads"] * one.variant["head_dim"] * 4
            self.assertIn(f"q_bytes = {size}", grading.solution(toolchain(), one))


class Numbers(unittest.TestCase):
    def test_digits_and_expressions_are_numbers(self):
        for text, number in (
            *((" 4 * 64*64 ", 16384), ("2**10 // 3", 341), ("-1.5e2", -150), ("1,179", 1179)),
            *(("4 * 1'024", 4096), ("384^2*64", 9437184), ("sqrt(2^28)", 16384)),
        ):
            self.assertEqual(numbers.number_of(text), number)

    def test_what_is_not_a_number_is_refused(self):
        for text in (
            *("?", "", "a", "1 / 0", "2 ** 0.5j", "9**9**9**9", "1,17", "True", "sqrt(-1)"),
            *("__import__('os')", "1," * 150, "sqrt(2, 3)", "open(1)", "(-8) ** 0.5", "1e999"),
        ):
            with self.subTest(text), self.assertRaises(ValueError):
                numbers.number_of(text)


class Gate(unittest.TestCase):
    def test_an_answer_with_another_verdict_than_is_meant_is_a_fault(self):
        tools, one = toolchain(), exercise("03_one_step")
        _, _, stage, says, wrong = grading.wrong_answers(tools, one)[0]
        for kind, answer, by, words, fault in (
            ("solution", one.solution(), "", "", False),
            ("wrong", one.solution(), stage, says, True),
            ("right", wrong, "", "", True),
            ("wrong", wrong, "compiles", says, True),
            ("wrong", wrong, stage, "no such words", True),
            ("wrong", wrong, stage, says, False),
        ):
            row = teacher.grade_case(tools, one, kind, "name", answer, by, words)
            self.assertEqual(bool(row[3]), fault, row)

    def test_the_stages_that_a_start_passes_must_be_those_of_lesson_json(self):
        tools, one = toolchain(), exercise("02_invariance")
        start = ("start", "the start", one.start(), *one.start_fails)
        for passes, fault in ((["easy"], False), ([], True)):
            one.start_passes = passes
            self.assertEqual(bool(teacher.grade_case(tools, one, *start)[3]), fault)
