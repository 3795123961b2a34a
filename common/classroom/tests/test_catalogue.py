"""Exercises: frames, answers, variants, mutants, numbers, records."""

import contextlib
import io
import pathlib
import re
import tempfile
import time
import unittest

from common.classroom import catalogue, gate, grading, mutants, numbers, record, table, unset
from common.classroom.catalogue import Fault
from common.classroom.tests.support import exercise, said, toolchain


class Frames(unittest.TestCase):
    def frame(
        self,
        text,
        source="a\n//! [all]\n  one\n  //! [in]\n    two\n  //! [in]\n  three\n//! [all]\n",
    ):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "code.hpp").write_text(source)
            return catalogue.Frame(pathlib.Path(folder), text, "frame")

    def test_the_solution_fills_a_hole_and_the_start_leaves_it_open(self):
        frame = self.frame("x\n  //@ from code.hpp#all\n  //@ hole in\n// TODO\n  //@ end\ny")
        self.assertEqual(frame.solution, ["x", "  one", "    two", "  three", "y"])
        self.assertEqual(frame.start, ["x", "  one", "  // TODO", "  three", "y"])

    def test_a_whole_region_may_be_the_hole(self):
        frame = self.frame("//@ from code.hpp#in\n//@ hole in\nTODO\n//@ end")
        self.assertEqual((frame.solution, frame.start), (["two"], ["TODO"]))

    def test_a_region_without_a_hole_is_in_both(self):
        frame = self.frame("//@ from code.hpp#in\n//@ end")
        self.assertEqual((frame.solution, frame.start), (["two"], ["two"]))

    def test_a_frame_holds_the_lines_that_no_lesson_has(self):
        frame = self.frame("//@ solution\nours\n//@ start\nTODO\n//@ end")
        self.assertEqual((frame.solution, frame.start), (["ours"], ["TODO"]))

    def test_faults_of_a_frame_are_reported(self):
        for text, words in (
            ("//@ from code.hpp#none\n//@ end", "0 marks"),
            ("//@ from other.hpp#all\n//@ end", "cannot be read"),
            ("//@ from code.hpp#all\n//@ hole none\n//@ end", "has no region none"),
            ("//@ from code.hpp#all", "'//@ end' is missing"),
            ("//@ frmo code.hpp#all", "no such directive"),
            ("//@ from code.hpp#all\nlost\n//@ end", "only a hole"),
        ):
            with self.subTest(text), self.assertRaisesRegex(Fault, words):
                self.frame(text)

    def test_an_answer_must_fit_the_solution(self):
        text = "# one: two\n@ easy: three\n- b\n+   B\n- c\n+ C\n"
        wrong = catalogue.read_answers(text, "frame.txt")[0]
        self.assertEqual((wrong.kind, wrong.stage, wrong.says), ("wrong", "easy", "three"))
        self.assertEqual(wrong.apply("a\n  b\nc"), "a\n  B\nC")
        for solution in ("a", "b\nb\nc"):
            with self.assertRaisesRegex(ValueError, "not once"):
                wrong.apply(solution)

    def test_a_list_of_answers_has_three_kinds(self):
        change = "- b\n+ B\n"
        text = f"# a: b\n@ odd: c\n{change}# d: e\n@ right\n{change}# why\n@ equivalent\n{change}"
        kinds = [answer.kind for answer in catalogue.read_answers(text, "frame.txt")]
        self.assertEqual(kinds, ["wrong", "right", "equivalent"])
        for faulty, words in (
            (f"# a: b\n{change}", "needs a line '@ '"),
            ("# a: b\n@ right\n", "needs a line '@ ' and a line '- CODE'"),
            (f"# a: b\n@ wrong\n{change}", "allowed are STAGE: TEXT, right and equivalent"),
            (f"# a\n@ right\n{change}", "needs a name and a description"),
            (f"# a: b\n@ right\n{change}B", "frame.txt:5: a line begins with"),
        ):
            with self.subTest(faulty), self.assertRaisesRegex((Fault, ValueError), words):
                catalogue.read_answers(faulty, "frame.txt")

    def test_hints_are_no_part_of_the_task(self):
        for one in catalogue.exercises():
            self.assertEqual(len(one.hints()), 3, one.id)
            self.assertNotIn("<details>", one.task() + "".join(one.hints()), one.id)
            self.assertNotIn(one.hints()[2], one.task(), one.id)

    def test_questions_are_in_the_students_file_and_not_in_the_task(self):
        for one in catalogue.exercises():
            if one.predicts:
                asked = [name for name in one.points if name != "complete"]
                self.assertEqual(re.findall(r"(?m)^(\w+) = \?$", one.start()), asked, one.id)
                self.assertNotIn(" = ?", one.task(), one.id)

    def test_every_folder_is_listed(self):
        self.assertEqual(gate.unlisted(catalogue.ROOT), [])
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "01_a/exercises/sum").mkdir(parents=True)
            (root / "01_a/exercises/sum/task.md").write_text("# sum")
            (root / "01_a/exercises/lesson.json").write_text('{"exercises": {}}')
            self.assertRegex(gate.unlisted(root)[0], "/sum is not listed in lesson.json$")

    def test_every_start_differs_from_its_solution(self):
        for one in catalogue.exercises():
            if not one.predicts:
                self.assertNotEqual(one.start(), one.solution(), one.id)
                self.assertIn("TODO" if one.kind != "bug hunt" else "Exercise", one.start(), one.id)

    def test_an_entry_has_the_students_file_once_and_nothing_of_the_grader(self):
        for each in catalogue.exercises():
            if each.predicts:
                continue
            with self.subTest(each.id):
                self.assertEqual(each.entry.count('#include "student/'), 1)
                self.assertNotRegex(each.entry, r"FA_STAGE|classroom/(grader|lab)\.hpp|/grading/")

    def test_an_exercise_needs_right_answers_in_other_styles(self):
        everything = catalogue.exercises()
        self.assertEqual(gate.few_styles(everything), [])
        one = exercise("04_dot")
        one.right_answers = lambda: [("loops", one.solution())]
        self.assertEqual(
            gate.few_styles([one]),
            ["04_dot has 1 right answers in other styles; at least two are needed"],
        )
        numbers = [e for e in everything if e.predicts]
        self.assertTrue(numbers)
        self.assertEqual(gate.few_styles(numbers), [])

    def test_an_exercise_is_found_by_its_name_or_lesson(self):
        self.assertEqual(exercise("one_step").id, "03_one_step")
        self.assertEqual({e.lesson for e in catalogue.choose(["3"])}, {"03_online_softmax"})
        with self.assertRaisesRegex(Fault, "no exercise 'nothing'; there are 01_"):
            catalogue.choose(["nothing"])


class Numbers(unittest.TestCase):
    def test_digits_and_expressions_are_numbers(self):
        for text, number in (
            ("12", 12),
            (" 4 * 64*64 ", 16384),
            ("2**10 // 3", 341),
            ("-1.5e2", -150),
            ("1,179,648", 1179648),
            ("4 * 1'024", 4096),
            ("1 179 648", 1179648),
            ("384^2*64", 9437184),
            ("sqrt(2^28)", 16384),
            ("log2(8)", 3),
        ):
            self.assertEqual(numbers.number_of(text), number)

    def test_text_that_is_not_a_number_is_refused(self):
        for text in (
            "?",
            "",
            "__import__('os')",
            "a",
            "1 / 0",
            "2 ** 0.5j",
            "9**9**9**9",
            "1," * 150,
            "1,17",
            "True + x",
            "sqrt(-1)",
            "sqrt(2, 3)",
            "open(1)",
            "sqrt(2**0.5j)",
        ):
            with self.subTest(text), self.assertRaises(ValueError):
                numbers.number_of(text)

    def test_comments_and_unknown_lines_are_ignored(self):
        self.assertEqual(
            numbers.read_numbers("# a\nx = 2 # two\nnothing\ny = ?"), {"x": 2, "y": None}
        )


class Variants(unittest.TestCase):
    def test_a_seed_chooses_and_the_course_has_the_first(self):
        variants = [{"n": 1}, {"n": 2}, {"n": 3}]
        self.assertEqual(catalogue.variant_of(variants, "", "a"), {"n": 1})
        self.assertEqual(catalogue.variant_of([], "autumn", "a"), {})
        seen = {catalogue.variant_of(variants, f"seed {i}", "a")["n"] for i in range(40)}
        self.assertEqual(seen, {1, 2, 3})

    def test_texts_and_solutions_follow_the_variant(self):
        for seed in ("", "autumn", "spring", "c3"):
            one = catalogue.choose(["01_memory"], seed=seed)[0]
            for text in (one.task(), one.start(), *one.hints()):
                self.assertNotIn("{{", text)
            self.assertIn(f"{one.variant['tokens']} tokens", one.start())
            solved = grading.solution(toolchain(), one)
            size = one.variant["tokens"] * one.variant["heads"] * one.variant["head_dim"] * 4
            self.assertIn(f"q_bytes = {size}", solved)


class MutantsOfSolutions(unittest.TestCase):
    def test_a_mutant_changes_operators_words_numbers_and_statements(self):
        change = mutants.changed
        self.assertIn("  if (i <= n) {", change("  if (i < n) {  // guard"))
        self.assertIn("__syncwarp();", change("__syncthreads();"))
        self.assertIn("", change("__syncthreads();  // done"))
        self.assertIn("a[y] = 3;", change("a[x] = 3;"))
        self.assertIn("a[x] = 4;", change("a[x] = 3;"))
        self.assertEqual(change("// only < words + here"), [])

    def test_only_lines_of_the_student_are_changed(self):
        one = exercise("03_one_step")
        start = one.start().split("\n")
        found = mutants.mutants(one)
        self.assertTrue(found)
        for mutant in found:
            self.assertNotIn(mutant.before, start)
            self.assertNotEqual(mutant.text, one.solution())

    def test_a_sample_is_always_the_same(self):
        found = mutants.mutants(exercise("04_transpose"))
        self.assertEqual(mutants.sample(found, 3), mutants.sample(found[::-1], 3))
        self.assertEqual(len(mutants.sample(found, 3)), 3)

    def test_default_messages(self):
        self.assertTrue(mutants.is_default("2 of 4 numbers are wrong; the worst is x = 1"))
        self.assertFalse(mutants.is_default("2 of 4: every sign is inverted; the worst is x = 1"))


class Table(unittest.TestCase):
    def test_it_counts_the_answers_that_the_gate_grades(self):
        status, text = said(table.main, ["03_merge", "04_dot", "--answers"])
        self.assertEqual(status, 0)
        rows = {row[0]: row[1:] for row in map(str.split, text.splitlines())}
        total = [0, 0, 0, 0]
        for one in map(exercise, ("03_merge", "04_dot")):
            kinds = [len(one.answers(kind)) for kind in ("wrong", "right", "equivalent")]
            counts = [len(one.points), *kinds]
            self.assertEqual(rows[one.id], [str(count) for count in counts])
            total = [sum(pair) for pair in zip(total, counts)]
        self.assertGreater(total[3], 0)
        self.assertEqual(rows["2"], ["exercises", *map(str, total)])


class Record(unittest.TestCase):
    def test_figures_of_several_runs_are_in_one_record_in_the_order_of_the_course(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "record.json"
            record.note(path, "c++", {"03_merge": {"mutants": 7, "mutants_refused": 7}})
            record.note(path, "c++", {"01_gradient": {"first_seconds": 1.52}})
            record.note(path, "c++", {"03_merge": {"mutants": 9, "first_seconds": 2.0}})
            status, text = said(record.main, [str(path)])
        self.assertEqual(status, 0)
        rows = [re.split(r"  +", line) for line in text.splitlines()]
        heads, _, first, second, sums = rows[:5]
        self.assertEqual(first[0], "01_gradient")
        self.assertEqual(dict(zip(heads, first))["first"], "1.5 s")
        self.assertEqual(dict(zip(heads, first))["mutants refused"], "-")
        self.assertEqual(second[0], "03_merge")
        self.assertEqual(dict(zip(heads, second))["mutants refused"], "7 of 9")
        self.assertEqual(
            dict(zip(heads, second))["right"], str(len(exercise("03_merge").answers("right")))
        )
        self.assertEqual(sums[0], "2 exercises")

    def test_what_is_no_record_is_refused(self):
        for arguments in ([], ["absent.json"]):
            with contextlib.redirect_stderr(io.StringIO()) as says:
                self.assertEqual(record.main(arguments), 2)
            self.assertIn("record", says.getvalue())


class Unset(unittest.TestCase):
    def test_declarations_without_a_value_are_found(self):
        for statement, names in (
            ("  float sum", ["sum"]),
            ("float q[d] = {}, o[d], m = -INFINITY, l", ["o", "l"]),
            ("Accumulators<Tile, d> o", ["o"]),
            ("for (int i = 0", []),
            ("if (a) { float x", ["x"]),
            ("const std::vector<double> e", ["e"]),
            ("float m[3] = {x[3 * at], x[3 * at], x[at]}", []),
            ("return x", []),
            ("using T = float", []),
            ("__shared__ float tile[4]", []),
            ("x.l = rescale * x.l + p", []),
            ("float s = a ? b : c, t = f(x, y)", []),
            ("const double s = a > 0 ? f(b) : c", []),
        ):
            self.assertEqual(unset.names_in(statement), names, statement)

    def test_a_value_is_put_behind_each_of_several_statements(self):
        text, names = unset.filled(exercise("04_map"), "  float a, b[2]; int c;  // here;")
        self.assertEqual(names, ["a", "b", "c"])
        self.assertTrue(
            text.endswith(
                "  float a, b[2]; ::fa_fill(a); ::fa_fill(b); int c; ::fa_fill(c);  // here;"
            )
        )

    def test_no_text_takes_long(self):
        one = exercise("03_one_step")
        for text in ("int " * 70, "a<b> " * 59, "int " + "a," * 140 + "b;", "int " + "{" * 290):
            began = time.monotonic()
            unset.filled(one, (text + ";\n") * 500)
            self.assertLess(time.monotonic() - began, 10, text)
