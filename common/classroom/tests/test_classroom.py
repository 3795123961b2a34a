"""The student's commands, marks, and the export."""

import csv
import json
import os
import subprocess
import unittest
import unittest.mock

from common.classroom import catalogue, grade, grading, student, teacher
from common.classroom.catalogue import Fault
from common.classroom.tests.support import ROOT, exercise, said, toolchain
from common.classroom.toolchain import Toolchain, digest, remove
from common.testing.tree import TreeTest


class Folder(TreeTest):
    """A course of its own, so that no student's work is touched."""

    def setUp(self):
        super().setUp()
        for path in ROOT.glob("[0-9][0-9]_*"):
            (self.root / path.name).symlink_to(path)


class Student(Folder):
    def learn(self, *arguments):
        return said(student.main, list(arguments), self.root, toolchain)

    def file(self, one):
        return self.root / "my_exercises" / one.id / one.file

    def check(self, one, text):
        """Checks another text of an exercise that was begun."""
        self.file(one).write_text(text)
        return self.learn("check", one.id)

    def test_a_student_starts_checks_asks_for_hints_and_passes(self):
        one = exercise("03_one_step")
        status, text = self.learn("start", "one_step")
        self.assertEqual((status, self.file(one).read_text()), (0, one.start()))
        self.assertIn("my_exercises/03_one_step/one_step.hpp", text)
        self.assertEqual(self.learn("check")[0], 1)
        for number in (1, 2, 3, 3):
            self.assertIn(f"Hint {number} of 3", self.learn("hint")[1])
        status, text = self.learn("solution")
        self.assertEqual((status, "rescale * x.l" in text), (1, False))
        self.assertIn("+    x.l = rescale * x.l + p;", self.learn("solution", "--anyway")[1])
        self.assertIn("You are at 03_one_step", self.learn()[1])
        status, text = self.check(one, one.solution())
        self.assertEqual(status, 0)
        self.assertIn("start 03_merge", text)
        self.assertIn("identical", self.learn("solution")[1])
        self.assertNotIn("--anyway", self.learn("hint")[1])
        self.assertIn("1 of ", self.learn("list")[1])
        self.assertIn("start 01_softmax_rows", self.learn()[1])
        self.assertEqual(self.learn("watch")[0], 0)
        self.assertIn("one_step.before_1.hpp", self.learn("reset")[1])
        self.assertEqual(self.file(one).read_text(), one.start())
        self.file(one).write_text("mine")
        self.assertEqual(self.learn("start", one.id)[0], 0)
        self.assertEqual(self.file(one).read_text(), "mine")
        progress = json.loads(self.read("my_exercises/progress.json"))
        self.assertTrue(progress[one.id]["passed"])

    def test_watch_goes_on_after_a_pass_and_obeys_keys(self):
        one = exercise("03_one_step")
        self.learn("start", one.id)
        for text, pressed, words in (
            (one.start(), b"hnq", ("Keys:", "Hint 1 of 3", "# 03_merge")),
            (one.solution(), b"q", ("Passed.", "# 03_merge")),
        ):
            self.file(one).write_text(text)
            master, slave = os.openpty()
            os.write(master, pressed)
            with open(slave, closefd=True) as terminal, unittest.mock.patch("sys.stdin", terminal):
                status, said = self.learn("watch", one.id)
            os.close(master)
            self.assertEqual(status, 0)
            for word in words:
                self.assertIn(word, said)

    def test_messages_name_the_students_own_file(self):
        one = exercise("03_one_step")
        self.learn("start", one.id)
        broken = one.solution().replace("const auto m =", "const auto m = nonsense +")
        status, text = self.check(one, broken)
        self.assertEqual(status, 1)
        self.assertIn("my_exercises/03_one_step/one_step.hpp:", text)
        self.assertIn("nonsense", text)
        self.assertNotIn("classroom-", text)

    def test_what_is_missing_is_named_with_the_students_file(self):
        for name, replaced, words in (
            ("03_one_step", ("namespace student", "namespace studnet"), "student"),
            ("04_map", ("__global__ void to_", "__global__ void two_"), "to_fahrenheit"),
            ("03_one_step", ("#pragma once", "int f(int);\nstatic int g = f(1);"), "f(int)"),
            ("03_one_step", ("#pragma once", "int main() { return 0; }"), "main"),
            ("03_one_step", ("}  // namespace student", ""), "`namespace student {`"),
        ):
            one = exercise(name)
            self.learn("start", one.id)
            self.assertIn(replaced[0], one.solution())
            for text in (one.solution().replace(*replaced), ""):
                status, said = self.check(one, text)
                self.assertEqual((status, "entry.cpp" in said), (1, False), said)
                self.assertIn(words if text else f"my_exercises/{one.id}/{one.file}", said)

    def test_editors_are_told_how_a_students_file_compiles(self):
        for name in ("03_one_step", "04_map"):
            one = exercise(name)
            self.learn("start", one.id)
            text = (self.root / "my_exercises/.clangd").read_text()
            part = next(part for part in text.split("---") if f"[.]{one.file[-3:]}" in part)
            words = json.loads(part.partition("Add: ")[2])
            command = [toolchain().compiler, *words, "-w", "-fsyntax-only", str(self.file(one))]
            done = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_mistyped_name_gets_the_nearest(self):
        with self.assertRaisesRegex(Fault, "03_one_step") as caught:
            self.learn("start", "one_stpe")
        self.assertLess(len(str(caught.exception)), 120)

    def test_a_bug_hunt_asks_for_evidence_and_then_shows_the_race(self):
        one = exercise("04_missing_barrier")
        self.learn("start", one.id)
        race = "race: my_exercises/04_missing_barrier/missing_barrier.cuh:"
        for answer, words in (("?", "no answer"), ("2, 3", "not found"), ("21, 29", race)):
            text = one.start().replace("answer: ?", f"answer: {answer}")
            self.assertIn(words, self.check(one, text)[1])

    def test_a_puzzle_is_drawn_from_the_students_own_trace(self):
        one = exercise("04_guard")
        self.learn("start", one.id)
        beyond = one.solution().replace("if (i < n)", "if (i <= n)")
        self.assertIn("outside: y[5]", self.check(one, beyond)[1])
        reversed_ = one.solution().replace("= threadIdx.x", "= n - 1 - threadIdx.x")
        self.assertRegex(self.check(one, reversed_)[1], r"\n +\[0\] +4 +3 +2 +1 +0\n")

    def test_damaged_progress_is_kept_aside(self):
        self.learn("start", "03_one_step")
        (self.root / "my_exercises/progress.json").write_text("{")
        self.assertIn("progress.damaged.json", self.learn("list")[1])

    def test_a_terminal_gets_no_control_characters(self):
        self.assertEqual(student.wrapped("red \x1b[31m"), "        red \\x1b[31m")

    def test_exercises_that_were_not_begun_are_refused(self):
        for words in ("check", "hint", "check 03_merge", "start x", "start 3"):
            with self.subTest(words), self.assertRaises(Fault):
                self.learn(*words.split())


class Grade(Folder):
    def setUp(self):
        super().setUp()
        self.students, one = self.root / "students", exercise("03_one_step")
        self.out = self.root / "out"
        wrong = {w[0]: w[4] for w in grading.wrong_answers(toolchain(), one)}
        self.wrong = wrong["l_not_rescaled"]
        self.hand_in("ada/03_one_step", one.solution())
        self.hand_in("bob/my_exercises/03_one_step", self.wrong)
        self.hand_in("cat", "no code")

    def hand_in(self, folder, text, file="one_step.hpp"):
        self.write(f"students/{folder}/{file}", text)

    def grade(self, *arguments, status=0):
        result, text = said(grade.main, [*map(str, arguments)], ROOT, toolchain)
        self.assertEqual(result, status, text)
        return text

    def test_a_folder_of_students_and_one_student(self):
        text = self.grade(self.students)
        points = [line.split()[1] for line in text.split("\n") if "03_one_step" in line]
        self.assertEqual(points, ["10", "4", "0"])
        self.assertIn("10 of 10", " ".join(self.grade(self.students / "ada").split()))

    def test_a_class_as_csv_and_its_common_mistakes(self):
        self.hand_in("=dan", self.wrong)
        self.grade(self.students, "--format", "csv", "--output", self.out)
        rows = list(csv.reader(self.out.read_text().splitlines()))
        self.assertEqual(rows[0], ["student", "03_one_step", "points", "of"])
        self.assertEqual(rows[1], ["'=dan", "4", "4", "10"])
        self.assertEqual(rows[2], ["ada", "10", "10", "10"])
        text = self.grade(self.students, "--mistakes")
        self.assertIn("1 of 4 passed", text)
        self.assertRegex(text.split("\n")[1], r"^ +2 .*the sum l was not rescaled")
        self.assertIn("=dan, bob", text)

    def test_files_of_marks(self):
        self.grade(self.students, "--output", self.out)
        self.assertIn("4 of 10", " ".join((self.out / "bob.txt").read_text().split()))
        # Gradescope names the file, whatever folders a student has uploaded.
        results = self.root / "results.json"
        for upload, points in (("03_one_step", 10), ("a/b/03_one_step", 10), ("notes", 0)):
            folder = self.root / upload.replace("/", "_")
            self.write(folder / upload / "read.me", "")
            (folder / "other").mkdir()
            if points:
                solution = exercise("03_one_step").solution()
                self.write(folder / upload / "one_step.hpp", solution)
            self.grade(folder, "--format", "gradescope", "--output", results)
            marks = json.loads(results.read_text())
            self.assertEqual((marks["score"], len(marks["tests"])), (points, 4 if points else 0))
            self.assertIn("read.me", marks["output"])
        (self.root / "empty").mkdir()
        self.grade(self.root / "empty", "--format", "gradescope", "--output", results)
        self.assertEqual(json.loads(results.read_text())["score"], 0)

    def test_points_of_the_teacher(self):
        points = self.root / "points.json"
        points.write_text('{"03_one_step": {"easy": 30, "proof": 0}, "03_merge": 0}')
        text = self.grade(self.students / "bob", "--points", points)
        self.assertIn("31 of 34", " ".join(text.split()))
        for wrong in (
            '{"x": 0}',
            '{"03_one_step": {"x": 1}}',
            '{"03_one_step": {"easy": -1}}',
            "{",
        ):
            points.write_text(wrong)
            with self.subTest(wrong), self.assertRaisesRegex(Fault, "points.json"):
                self.grade(self.students, "--points", points)

    def test_a_book_keeps_marks_and_an_interrupted_run_goes_on(self):
        usual, calls, book = grading.grade, [], self.root / "marks.json"

        def interrupted(_tools, one, answer, **options):
            calls.append(answer)
            if len(calls) == 2:
                raise KeyboardInterrupt
            return usual(_tools, one, answer, **options)

        with unittest.mock.patch.object(grading, "grade", interrupted):
            with self.assertRaises(KeyboardInterrupt):
                self.grade(self.students, "--book", book)
            self.assertEqual(list(json.loads(book.read_text())), ["ada"])
            self.grade(self.students, "--book", book)
            self.assertEqual(len(calls), 4)  # bob again, and cat
            text = self.grade(self.students, "--book", book, "--format", "csv")
            self.assertEqual(len(calls), 4)
            self.hand_in("ada/03_one_step", self.wrong)
            self.grade(self.students, "--book", book)
            self.assertEqual(len(calls), 5)
        self.assertEqual([row.split(",")[1] for row in text.split()[1:]], ["10", "4", "0"])
        text = self.grade(self.students / "ada", "--book", book)
        self.assertIn("the sum l was not rescaled", text)
        for due, is_late in (("2001-01-01", True), ("2999-01-01", False)):
            words = ("--book", book, "--due", due, "--format", "csv")
            self.assertEqual("03_one_step" in self.grade(self.students, *words)[40:], is_late)
        self.assertEqual(list(json.loads(book.read_text())), ["ada", "bob", "cat"])
        for damaged in ("{", '{"ada": {"03_one_step": {}}}', "[]"):
            book.write_text(damaged)
            with self.assertRaisesRegex(Fault, "marks.json"):
                self.grade(self.students, "--book", book)

    def test_students_side_by_side_get_the_same_marks_in_the_same_order(self):
        self.hand_in("eve", exercise("03_one_step").solution() + "\nstatic int x = fork();\n")
        sleeps = exercise("03_one_step").solution() + "\nstatic int x = sleep(3);\n"
        self.hand_in("aaron", "#include <unistd.h>\n" + sleeps)
        one, four = (self.grade(self.students, "--jobs", jobs) for jobs in (1, 4))
        self.assertIn("eve, 03_one_step: it has 'fork", four)
        self.assertEqual(sorted(one.split("\n")), sorted(four.split("\n")))
        marks = four.replace("eve, 03_one_step", "")
        self.assertLess(marks.index("aaron"), marks.index("ada"))

    def test_hidden_tests_of_a_teacher_give_points_and_show_students_no_more(self):
        hidden = self.root / "hidden/03_one_step"
        self.write(hidden / "more.cpp", '#include "words.inc"\nFA_STAGE(far) { check_far(); }\n')
        refuses = 'check_row({100, -100});\n  refuse("the teacher\'s secret");'
        self.write(hidden / "words.inc", f"static void check_far() {{\n  {refuses}\n}}\n")
        words = (self.students, "--hidden", hidden.parent, "--book", self.root / "marks.json")
        text = " ".join(self.grade(*words).split())
        self.assertIn("10 of 11", text)
        self.assertIn("hidden: does not pass", text)
        self.assertNotIn("secret", text)
        self.assertIn("secret", (self.root / "marks.json").read_text())
        ada = (self.students / "ada", *words[1:], "--format", "gradescope")
        self.assertNotIn("secret", self.grade(*ada))
        self.assertEqual(json.loads(self.grade(*ada))["tests"][-1]["name"], "03_one_step: hidden")
        self.write(hidden / "words.inc", "static void check_far() {}\n")
        digest.cache_clear()  # as in the next run
        points = self.root / "points.json"
        points.write_text('{"03_one_step": {"far": 5}, "01_memory": 0}')
        text = " ".join(self.grade(*words, "--points", points, "--exercises", "03").split())
        self.assertIn("15 of 15", text)
        for name, code in (
            *(("03_one_stpe", ""), ("01_memory", "FA_STAGE(a) {}")),
            *((hidden, ""), (hidden, "FA_STAGE(odd) {}"), (hidden, "FA_STAGE(b) { typo(); }")),
        ):
            self.write(hidden.parent / name / "other.cpp", code)
            with self.subTest(name), self.assertRaisesRegex(Fault, "hidden"):
                self.grade(*words)
            remove(hidden.parent / name)

    def test_a_check_that_fails_itself_is_said_and_the_next_one_is_graded(self):
        usual, calls = grading.grade, []

        def fails_first(*arguments, **options):
            calls.append(1)
            if len(calls) == 1:
                raise RuntimeError("no thread")
            return usual(*arguments, **options)

        with unittest.mock.patch.object(grading, "grade", fails_first):
            text = self.grade(self.students, status=2)
        self.assertIn("ada, 03_one_step: not graded", text)
        self.assertIn("the sum l was not rescaled", text)

    def test_a_class_with_a_seed_is_marked_with_its_numbers(self):
        one = catalogue.choose(["01_memory"], seed="c3")[0]
        self.hand_in(f"fay/{one.id}", grading.solution(toolchain(), one), one.file)
        full = f"{sum(one.points.values())} of {sum(one.points.values())}"
        for words, right in ((["--seed", "c3"], True), ([], False)):
            text = self.grade(self.students / "fay", *words)
            self.assertEqual(full in " ".join(text.split()), right, text)

    def test_a_student_whose_time_is_over_is_not_graded_and_the_next_one_is(self):
        sleeps = exercise("03_merge").solution() + "\nstatic int x = sleep(9);\n"
        self.hand_in("ada/03_merge", "#include <unistd.h>\n" + sleeps, "merge.hpp")
        words = (self.students, "--exercises", "03_merge", "03_one_step", "--seconds", "5")
        text = self.grade(*words, status=2)
        self.assertRegex(text, r"ada, 03_\w+: not graded.*--seconds")
        self.assertIn("the sum l was not rescaled", text)

    def test_what_no_answer_needs_is_reported(self):
        for attack in (
            "#define JOIN(a, b) a##b",
            "namespace quiet = fa::lab;",
            "(std::exit(0), 0)",
        ):
            self.assertTrue(grade.SUSPICIOUS.search(attack), attack)
        for one in catalogue.exercises():
            for _, text in one.right_answers():
                self.assertIsNone(grade.SUSPICIOUS.search(text), one.id)

    def test_where_it_cannot_mark_it_says_so_before_it_marks(self):
        file = self.students / "ada/03_one_step/one_step.hpp"
        for arguments in ([self.root / "nothing"], [self.students, "--output", file]):
            with self.subTest(arguments), self.assertRaises((Fault, OSError)):
                self.grade(*arguments)


class Export(TreeTest):
    def test_an_export_with_and_without_solutions(self):
        whole, bare = self.root / "whole", self.root / "bare"
        words = [str(bare), "--without-solutions", "--seed", "c3"]
        self.assertEqual(said(teacher.export, [str(whole)], ROOT, None)[0], 0)
        self.assertEqual(said(teacher.export, words, ROOT, None)[0], 0)
        self.assertTrue((whole / "learn").stat().st_mode & 0o100)
        for one, there in zip(catalogue.exercises(whole), catalogue.exercises(bare)):
            self.assertEqual(there.grader.read_text().count("FA_SOLUTION"), 0)
            self.assertEqual((there.answers("right"), there.answers("wrong")), ([], []))
            if not one.predicts:
                self.assertEqual(there.start(), one.start())
                self.assertEqual(there.entry, one.entry)
            with self.assertRaises(Fault):
                grading.solution(toolchain(), there)
        seeded = catalogue.choose(["01_memory"], seed="c3")[0]
        self.assertEqual(catalogue.choose(["01_memory"], bare)[0].start(), seeded.start())
        self.assertNotEqual(seeded.start(), exercise("01_memory").start())
        with self.assertRaisesRegex(Fault, "not empty"):
            teacher.export([str(whole)], ROOT, None)
        with self.assertRaisesRegex(Fault, "in the course itself"):
            teacher.export([str(ROOT / "build" / "copy")], ROOT, None)


class MovedClone(TreeTest):
    def test_a_build_is_used_where_its_clone_is_now_and_graders_stay_valid(self):
        here, one = toolchain(), exercise("04_map")
        moved = self.root / "build" / "learn"
        for name in ("classroom/toolchain.json", "compile_commands.json"):
            text = (here.build / name).read_text(encoding="utf-8")
            text = text.replace(str(here.build), "/old/build").replace(str(ROOT), "/old")
            self.write(moved / name, text)
        (moved / "common").symlink_to(here.build / "common")
        there = Toolchain(moved)
        self.assertIn(f"-I{ROOT}", there.flags["lab"])
        self.assertNotIn("/old", repr(vars(there) | {"made_in": ""}))
        self.assertEqual(there.key(one), here.key(one))
