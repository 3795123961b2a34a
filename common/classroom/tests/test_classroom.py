"""The student's commands, marking, and the export."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import types
import unittest
import unittest.mock
import zipfile

from common.classroom import (
    batch,
    catalogue,
    export,
    formats,
    gate,
    grade,
    grading,
    handout,
    student,
)
from common.classroom.catalogue import Fault
from common.classroom.plan import PLAN, Plan
from common.classroom.stage import stages_of
from common.classroom.tests.support import ROOT, exercise, said, toolchain
from common.classroom.toolchain import Toolchain


class Folder(unittest.TestCase):
    """A course of its own, so that no student's work is touched."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name).resolve() / "course"
        self.root.mkdir()
        for path in ROOT.glob("[0-9][0-9]_*"):
            (self.root / path.name).symlink_to(path)

    def learn(self, *arguments):
        return said(student.main, list(arguments), self.root, toolchain)

    def file(self, one):
        return self.root / "my_exercises" / one.id / one.file


class Student(Folder):
    def test_a_student_starts_checks_asks_for_hints_and_passes(self):
        one = exercise("03_one_step")
        status, text = self.learn("start", "one_step")
        self.assertEqual(status, 0)
        self.assertIn("my_exercises/03_one_step/one_step.hpp", text)
        status, text = self.learn("check")
        self.assertEqual(status, 1)
        self.assertIn("do not take in the new key", text)
        for number in (1, 2, 3, 3):
            self.assertIn(f"Hint {number} of 3", self.learn("hint")[1])
        status, text = self.learn("solution")
        self.assertEqual(status, 1)
        self.assertNotIn("rescale * x.l", text)
        self.assertIn("+    x.l = rescale * x.l + p;", self.learn("solution", "--anyway")[1])
        self.file(one).write_text(one.solution())
        status, text = self.learn("check")
        self.assertEqual(status, 0)
        self.assertIn("Next: ./learn exercise start 03_merge", text)
        self.assertIn("identical to the solution", self.learn("solution")[1])
        self.assertIn("1 of ", self.learn("list")[1])
        status, text = self.learn()
        self.assertEqual(status, 0)
        self.assertRegex(text, r"^\[#*\.+\]  1 of \d+ exercises")
        self.assertIn("Begin      ./learn exercise start 01_softmax_rows", text)
        self.assertEqual(self.learn("watch")[0], 0)
        self.assertIn("kept in one_step.before_1.hpp", self.learn("reset")[1])
        self.assertEqual(self.file(one).read_text(), one.start())
        self.assertEqual(self.learn("start", "one_step")[0], 0)
        self.assertTrue(
            json.loads((self.root / "my_exercises/progress.json").read_text())["03_one_step"][
                "passed"
            ]
        )

    def test_the_next_exercise_is_the_first_open_one_of_the_lesson(self):
        two = exercise("03_merge")
        self.learn("start", two.id)
        self.file(two).write_text(two.solution())
        self.assertIn("Next: ./learn exercise start 03_one_step", self.learn("check", two.id)[1])

    def test_without_a_command_the_current_exercise_is_shown(self):
        self.learn("start", "one_step")
        text = self.learn()[1]
        self.assertIn("You are at 03_one_step", text)
        self.assertIn("./learn exercise watch 03_one_step", text)

    def test_a_complete_lesson_prints_the_ability(self):
        self.learn("start", "one_step")
        progress = self.root / "my_exercises" / "progress.json"
        progress.write_text(
            json.dumps(
                {
                    e.id: {"passed": True, "checks": 1, "hints": 0, "last": 1}
                    for e in catalogue.exercises()
                    if e.lesson.startswith("03")
                }
            )
        )
        self.assertIn("You can now compute attention", " ".join(self.learn()[1].split()))

    def test_start_does_not_overwrite_a_file(self):
        one = exercise("03_one_step")
        self.learn("start", one.id)
        self.file(one).write_text("mine")
        self.learn("start", one.id)
        self.assertEqual(self.file(one).read_text(), "mine")

    def test_a_compiler_error_names_the_students_own_file(self):
        one = exercise("03_one_step")
        self.learn("start", one.id)
        self.file(one).write_text(
            one.solution().replace("const auto m =", "const auto m = nonsense +")
        )
        status, text = self.learn("check", one.id)
        self.assertEqual(status, 1)
        self.assertIn("my_exercises/03_one_step/one_step.hpp:", text)
        self.assertIn("nonsense", text)
        self.assertNotIn("classroom-", text)

    def test_a_finding_names_the_students_own_file(self):
        one = exercise("04_missing_barrier")
        self.learn("start", one.id)
        text = self.learn("check", one.id)[1]
        self.assertIn("no answer yet", text)
        self.assertIn("(not reached)", text)
        self.assertNotIn("barrier is missing", text)
        self.file(one).write_text(one.start().replace("answer: ?", "answer: 2, 3"))
        self.assertIn("not found", self.learn("check", one.id)[1])
        self.file(one).write_text(one.start().replace("answer: ?", "answer: 21, 29"))
        text = self.learn("check", one.id)[1]
        self.assertIn("race: my_exercises/04_missing_barrier/missing_barrier.cuh:", text)

    def test_a_puzzle_is_drawn_from_the_students_own_trace(self):
        one = exercise("04_guard")
        self.learn("start", one.id)
        self.file(one).write_text(one.solution().replace("if (i < n)", "if (i <= n)"))
        text = self.learn("check", one.id)[1]
        self.assertIn("outside: y[5] is written by thread 5", text)
        self.file(one).write_text(one.solution().replace("= threadIdx.x", "= n - 1 - threadIdx.x"))
        text = self.learn("check", one.id)[1]
        self.assertRegex(text, r"x, read +\[0\] +\[1\] .*\n +thread +4 +3 +2 +1 +0\n")

    def test_damaged_progress_is_kept_aside(self):
        self.learn("start", "03_one_step")
        (self.root / "my_exercises/progress.json").write_text("{")
        self.assertIn("progress.damaged.json", self.learn("list")[1])

    def test_progress_behind_a_link_stays_there(self):
        (self.root / "my_exercises").mkdir()
        kept = self.root / "elsewhere.json"
        (self.root / "my_exercises" / "progress.json").symlink_to(kept)
        self.learn("start", "one_step")
        self.assertIn("03_one_step", json.loads(kept.read_text()))
        self.assertTrue((self.root / "my_exercises" / "progress.json").is_symlink())
        self.assertEqual(
            [p.name for p in (self.root / "my_exercises").iterdir() if p.is_file()],
            ["progress.json"],
        )

    def test_a_terminal_gets_no_control_characters(self):
        self.assertEqual(
            student.wrapped("red \x1b[31m\n  \ttab"), "        red \\x1b[31m\n                tab"
        )

    def test_commands_on_exercises_that_were_not_begun_are_refused(self):
        for arguments, words in (
            (["check"], "no exercise was begun"),
            (["hint"], "no exercise was begun"),
            (["check", "03_merge"], "03_merge was not begun"),
            (["start", "x"], "no exercise 'x'"),
            (["start", "03"], "name one of them"),
        ):
            with self.subTest(arguments), self.assertRaisesRegex(Fault, words):
                self.learn(*arguments)


class MovedClone(unittest.TestCase):
    def test_a_build_is_used_where_its_clone_is_now_and_graders_stay_valid(self):
        here, one = toolchain(), exercise("04_map")
        with tempfile.TemporaryDirectory() as folder:
            moved = pathlib.Path(folder).resolve() / "build" / "learn"
            (moved / "classroom").mkdir(parents=True)
            (moved / "common").symlink_to(here.build / "common")
            for name in ("classroom/toolchain.json", "compile_commands.json"):
                text = (here.build / name).read_text(encoding="utf-8")
                text = text.replace(str(here.build), "/old/build")
                text = text.replace(str(ROOT), "/old")
                (moved / name).write_text(text, encoding="utf-8")
            there = Toolchain(moved)
            self.assertEqual(there.confine, here.confine.replace(str(here.build), str(moved)))
            self.assertIn(f"-I{ROOT}", there.flags["lab"])
            self.assertNotIn("/old", repr(vars(there) | {"made_in": ""}))
            self.assertEqual(there.key(one), here.key(one))


class Linker(unittest.TestCase):
    def test_where_the_quick_linker_fails_the_default_one_links(self):
        tools, one = toolchain(), exercise("03_one_step")
        tools.linker = ["-fuse-ld=absent"]
        results = grading.grade(tools, one, one.solution())
        self.assertTrue(all(result.passed for result in results), [r.message for r in results])
        self.assertEqual(tools.linker, [])


class Gate(unittest.TestCase):
    def setUp(self):
        self.tools, self.one = toolchain(), exercise("03_one_step")
        _, _, self.stage, self.says, self.wrong = grading.wrong_answers(self.tools, self.one)[0]

    def test_answers_that_are_compiled_together_are_graded_as_alone(self):
        right = self.one.solution()
        broken, other = right + "\nint x = ;\n", "#include <map>\n" + right
        faulty = right.replace("const auto m =", "const auto m = nonsense +")
        answers = [right, self.wrong, broken, faulty, other]
        self.tools.made = batch.programs(self.tools, self.one, answers)
        self.assertEqual(set(self.tools.made), {right, self.wrong})
        self.assertIsNone(gate.first_refusal(grading.grade(self.tools, self.one, right)))
        refusal = gate.first_refusal(grading.grade(self.tools, self.one, self.wrong))
        self.assertEqual(refusal.name, self.stage)
        self.assertIn(self.says, refusal.message)

    def test_an_error_of_the_compiler_tells_its_answer_where_it_can(self):
        output = """student/a.hpp: In function 'void student_4::f()':
student/a.hpp:3:1: warning: unused variable 'x'
student/a.cuh: In instantiation of 'void fa::on_lab::answer_12::f(T) [with T = int]':
entry.cpp:4:1:   required from here
student/a.cuh:5:1: error: 'nonsense' was not declared"""
        self.assertEqual(batch.blamed(output), {12})
        self.assertEqual(batch.blamed("student/a.hpp:3:1: error: expected ';'"), set())

    def test_an_answer_with_another_verdict_than_is_meant_is_a_fault(self):
        cases = [
            ("wrong", "accepted", self.one.solution(), self.stage, self.says),
            ("mutant", "accepted", self.one.solution(), "", ""),
            ("right", "refused", self.wrong, None, ""),
            ("wrong", "by another stage", self.wrong, "compiles", self.says),
            ("wrong", "for another reason", self.wrong, self.stage, "no such words"),
            ("wrong", "as is meant", self.wrong, self.stage, self.says),
        ]
        rows = gate.grade_cases(self.tools, (self.one, cases))
        self.assertEqual([bool(row["fault"]) for row in rows], [True] * 5 + [False])

    def test_the_stages_that_a_start_passes_must_be_those_of_lesson_json(self):
        one = exercise("02_invariance")
        start = ("start", "the start", one.start(), *one.start_fails)
        for passes, fault in ((["easy"], False), ([], True), (["easy", "odd"], True)):
            one.start_passes = passes
            self.assertEqual(bool(gate.grade_case(self.tools, one, *start)["fault"]), fault)


class Grade(Folder):
    def setUp(self):
        super().setUp()
        self.students = self.root.parent / "students"
        one, numbers = exercise("03_one_step"), exercise("03_first_departure")
        self.wrong = {w[0]: w[4] for w in grading.wrong_answers(toolchain(), one)}
        for name, text in (
            ("ada", one.solution()),
            ("bob", self.wrong["l_not_rescaled"]),
            ("cat", "no code"),
        ):
            folder = self.students / name / one.id
            folder.mkdir(parents=True)
            (folder / one.file).write_text(text)
        (self.students / "ada" / numbers.file).write_text(grading.solution(toolchain(), numbers))

    def grade(self, *arguments):
        status, text = said(grade.main, [*map(str, arguments)], ROOT, toolchain)
        self.assertEqual(status, 0, text)
        return text

    def test_a_folder_of_students(self):
        text = self.grade(self.students, "--exercises", "03_one_step")
        points = [line.split()[1] for line in text.split("\n") if "03_one_step" in line]
        self.assertEqual(points, ["10", "4", "0"])
        self.assertIn("the sum l was not rescaled", text)

    def test_one_student_and_files_beside_each_other(self):
        text = self.grade(self.students / "ada", "--exercises", "03_one_step", "03_first_departure")
        self.assertIn("20 of 20", " ".join(text.split()).replace("in all ", ""))

    def test_common_mistakes_of_a_class(self):
        one = exercise("03_one_step")
        for name in ("dan", "eli"):
            (self.students / name / one.id).mkdir(parents=True)
            (self.students / name / one.id / one.file).write_text(self.wrong["l_not_rescaled"])
        text = self.grade(self.students, "--exercises", one.id, "--mistakes")
        self.assertIn("03_one_step: 1 of 5 passed", text)
        most = text.split("\n")[3]
        self.assertRegex(most, r"^ +3 .*the sum l was not rescaled")
        self.assertNotIn("case:", text)
        self.assertIn("bob, dan, eli", text)

    def test_points_of_the_teacher(self):
        points = self.root.parent / "points.json"
        points.write_text('{"03_one_step": {"easy": 30, "proof": 0}, "03_first_departure": 0}')
        text = self.grade(
            self.students / "bob",
            "--points",
            points,
            "--exercises",
            "03_one_step",
            "03_first_departure",
        )
        self.assertIn("31 of 34", " ".join(text.split()))
        for wrong, words in (
            ('{"x": 0}', "no exercise 'x'"),
            ('{"03_one_step": {"x": 1}}', "no stage 'x'"),
            ('{"03_one_step": {"easy": -1}}', "allowed are numbers"),
            ("{", "not a file of points"),
        ):
            points.write_text(wrong)
            with self.subTest(wrong), self.assertRaisesRegex(Fault, words):
                self.grade(self.students, "--points", points)

    def test_files_of_marks(self):
        out = self.root.parent / "out"
        self.grade(
            self.students, "--exercises", "03_one_step", "--format", "gradescope", "--output", out
        )
        self.assertEqual(
            sorted(path.name for path in out.iterdir()), ["ada.json", "bob.json", "cat.json"]
        )
        self.assertEqual(json.loads((out / "ada.json").read_text())["score"], 10)

    def test_an_output_that_cannot_be_written_is_refused_before_marking(self):
        target = pathlib.Path(self.folder.name) / "file"
        target.write_text("in the way")
        for output in (
            target / "marks",
            target.parent,
        ):  # below a file, and a folder in place of a file
            with self.assertRaises(OSError):
                grade.main(
                    [
                        str(self.students / "ada"),
                        "--exercises",
                        "03_one_step",
                        "--output",
                        str(output),
                    ],
                    ROOT,
                    lambda: None,
                )

    def test_each_submission_gets_its_marks_whatever_the_others_are(self):
        one = exercise("03_one_step")
        names = [b"m\xfcller", b"x" * 250, "\u202eevil\n<b>".encode(), b"zoe"]
        for name in names:
            folder = os.fsencode(self.students) + b"/" + name
            os.mkdir(folder)
            with open(folder + b"/" + one.file.encode(), "wb") as file:
                file.write(b"// M\xfcller\n" + one.solution().encode())

        def all_pass(_toolchain, an_exercise, _answer, stop):
            self.assertFalse(stop)
            results = stages_of(an_exercise)
            for result in results:
                result.verdict = "passed"
            return results

        patch = unittest.mock.patch.object(grading, "grade", all_pass)
        patch.start()
        self.addCleanup(patch.stop)
        for form in (*formats.WRITERS, *formats.OF_CLASS, "text"):
            out = self.root.parent / f"marks_{form}"
            text = self.grade(
                self.students, "--exercises", one.id, "--format", form, "--output", out
            )
            self.assertNotIn("not graded", text)
            if form in formats.OF_CLASS:
                self.assertEqual(out.read_text().count("zoe"), 1)
            else:
                self.assertEqual(len(list(out.iterdir())), 7)
        marks = (self.root.parent / "marks_csv").read_text(encoding="utf-8")
        self.assertEqual(marks.count(",10,10,10\n"), 7)

    def test_a_check_that_fails_itself_is_said_and_the_next_one_is_graded(self):
        calls = []

        def run_once(*arguments, **options):
            calls.append(1)
            if len(calls) <= 2:  # both attempts
                raise RuntimeError("can't start new thread")
            return usual(*arguments, **options)

        usual = grading.grade
        with (
            unittest.mock.patch.object(grading, "grade", run_once),
            unittest.mock.patch.object(grade.time, "sleep"),
        ):
            status, text = said(
                grade.main, [str(self.students), "--exercises", "03_one_step"], ROOT, toolchain
            )
        self.assertEqual(status, 2)
        self.assertIn("ada, 03_one_step: not graded, the check itself failed", text)
        self.assertIn("the sum l was not rescaled", text)

    def test_links_are_no_submissions(self):
        (self.students / "eve" / "03_one_step").mkdir(parents=True)
        (self.students / "eve" / "03_one_step" / "one_step.hpp").symlink_to(
            self.students / "ada" / "03_one_step" / "one_step.hpp"
        )
        text = self.grade(self.students, "--exercises", "03_one_step")
        self.assertEqual(
            [line.split()[1] for line in text.split("\n") if "03_one_step" in line][3], "0"
        )

    def test_a_suspicious_submission_is_reported(self):
        file = self.students / "ada" / "03_one_step" / "one_step.hpp"
        file.write_text(file.read_text() + "\nstatic const int child = fork();\n")
        text = self.grade(self.students / "ada", "--exercises", "03_one_step")
        self.assertIn("ada, 03_one_step: it has 'fork'", text)
        file.write_text('#define FILE "03_online_softmax/recurrence.hpp"\n#include FILE\n')
        text = self.grade(self.students / "ada", "--exercises", "03_one_step")
        self.assertIn("ada, 03_one_step: it includes a file that it may not use", text)

    def test_suspicious_words_are_found_and_no_answer_has_any(self):
        for attack in (
            '#include "03_online_softmax/exercises/one_step/frame.txt"',
            '#include "common/classroom/grader.hpp"',
            "#include </dev/stdin>",
            "#include_next <vector>",
            "#define private public",
            "#define JOIN(a, b) a##b",
            'extern "C" int memcmp(const void*, const void*, unsigned long) { return 0; }',
            "void* operator new(std::size_t n);",
            '[[gnu::section(".init_array")]] static void (*p)() = go;',
            "__attribute__((constructor)) static void go() {}",
            "static const int x = (std::exit(0), 0);",
            'FILE* const f = fopen("x", "w");',
            "fa::lab::current = nullptr;",
            "namespace quiet = fa::lab; quiet::observer = nullptr;",
            "#define HIDDEN lab\nnamespace quiet = fa::HIDDEN;",
            "namespace quiet = fa::la\\\nb;",
            "%:define JOIN(a, b) a%:%:b",
            '#pragma GCC optimize("no-sanitize=thread")',
            "using namespace lab;",
            "int x = 1'0; g(\"' // \"); fork();",
            'auto s = R"(/*)"; fork(); /* */',
        ):
            self.assertTrue(grade.suspicious(attack), attack)
        for right in (
            "// main (first) pass: fork here? see /proc, asm and the constructor\nint x;",
            '/* system() */ #include <cstdio>\nstd::printf("%g // \\n", x);',
            "__attribute__((aligned(16))) float tile[4]; [[gnu::always_inline]] void f();",
            "const int n = 1'000'000; // it's a kill()\n",
        ):
            self.assertEqual(grade.suspicious(right), [], right)
        for one in catalogue.exercises():
            if not one.predicts:
                right = [text for _name, text in one.right_answers()]
                for text in (one.start(), one.solution(), *right):
                    self.assertEqual(grade.suspicious(text), [], one.id)

    def test_an_answer_that_hides_accesses_from_the_lab_is_refused(self):
        one = exercise("04_transpose")
        kernel = "__global__ void transpose_tiles"
        for word in ("FA_UNWATCHED", "[[gnu::no_sanitize_thread]]"):
            answer = one.solution().replace(kernel, f"{word} {kernel}")
            results = grading.grade(toolchain(), one, answer)
            self.assertEqual((results[0].name, results[0].verdict), ("compiles", "refused"))
            self.assertIn("keeps accesses from the lab", results[0].message)

    def test_a_folder_without_submissions_is_refused(self):
        with self.assertRaisesRegex(Fault, "is not a folder"):
            self.grade(self.root / "nothing")
        with self.assertRaisesRegex(Fault, "has no file"):
            self.grade(self.root / "03_online_softmax", "--exercises", "03_one_step")


class Chosen(unittest.TestCase):
    def test_without_a_choice_what_anybody_handed_in_is_marked(self):
        with tempfile.TemporaryDirectory() as folder:
            for student_name, name in (("ada", "02_row_max"), ("bob", "03_one_step")):
                one = exercise(name)
                file = pathlib.Path(folder) / student_name / name / one.file
                file.parent.mkdir(parents=True)
                file.write_text("")
            marked = []

            def mark(_tools, one, submission):
                marked.append((submission.name, one.id))
                return [types.SimpleNamespace(message="")]

            marks = unittest.mock.patch.object(grade, "mark", mark)
            with marks, unittest.mock.patch.object(formats, "plain", lambda name, marks: name):
                said(grade.main, [folder], ROOT, lambda: None)
                both = ["02_row_max", "03_one_step"]
                self.assertEqual(marked, [(who, one) for who in ("ada", "bob") for one in both])
                marked.clear()
                said(grade.main, [folder, "--exercises", "02"], ROOT, lambda: None)
                self.assertIn(("ada", "02_log_sum_exp"), marked)


class Handout(unittest.TestCase):
    def test_a_handout_has_the_tasks_and_no_solution(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "week.html"
            words = ["02_row_max", "03_one_step", "--title", "Week <2>", "--output", str(file)]
            self.assertEqual(said(handout.main, words, ROOT, None)[0], 0)
            text = file.read_text(encoding="utf-8")
            self.assertEqual(text.count("<section>"), 2)
            self.assertIn("<h1>Week &lt;2&gt;</h1>", text)
            self.assertNotIn("Hint", text)
            self.assertNotIn("NaN &gt; m is false", text)  # a line of the solution
            with self.assertRaisesRegex(Fault, "neither with .pdf nor with .html"):
                handout.main(["02_row_max", "--output", "week.txt"], ROOT, None)

    @unittest.skipUnless(any(map(shutil.which, handout.BROWSERS)), "needs Chromium")
    def test_a_handout_is_printed(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "week.pdf"
            self.assertEqual(
                said(handout.main, ["02_row_max", "--output", str(file)], ROOT, None)[0], 0
            )
            self.assertTrue(file.read_bytes().startswith(b"%PDF"))


class Export(unittest.TestCase):
    def test_an_export_with_and_without_solutions(self):
        with tempfile.TemporaryDirectory() as folder:
            whole, bare = pathlib.Path(folder) / "whole", pathlib.Path(folder) / "bare"
            self.assertEqual(said(export.main, [str(whole)], ROOT, None)[0], 0)
            self.assertEqual(
                said(export.main, [str(bare), "--without-solutions"], ROOT, None)[0], 0
            )
            self.assertTrue((whole / "03_online_softmax/exercises/one_step/frame.txt").exists())
            self.assertTrue((whole / "learn").stat().st_mode & 0o100)
            self.assertEqual(list(bare.glob("*/exercises/*/frame.txt")), [])
            one = next(e for e in catalogue.exercises(bare) if e.id == "03_one_step")
            self.assertEqual(one.start(), exercise("03_one_step").start())
            with self.assertRaisesRegex(Fault, "without solutions"):
                one.solution()
            with self.assertRaisesRegex(Fault, "not empty"):
                export.main([str(whole)], ROOT, None)
        with self.assertRaisesRegex(Fault, "in the course itself"):
            export.main([str(ROOT / "build" / "copy")], ROOT, None)

    def test_one_file_makes_what_a_class_needs(self):
        with tempfile.TemporaryDirectory() as folder:
            plan, target = pathlib.Path(folder) / "plan.yaml", pathlib.Path(folder) / "course"
            plan.write_text(
                "title: Kernels & more\nseed: spring\nweeks:\n"
                "  - {title: Two, due: 2027-03-08, exercises: {02_row_max: 2, 03_one_step: 0.5}}\n"
            )
            archive = pathlib.Path(folder) / "autograder.zip"
            words = [str(target), "--class", str(plan), "--zip", str(archive)]
            status, text = said(export.main, words, ROOT, lambda: None)
            self.assertEqual(status, 0, text)
            with zipfile.ZipFile(archive) as packed:
                for script in ("setup.sh", "run_autograder", "learn"):
                    self.assertTrue(packed.getinfo(script).external_attr >> 16 & 0o100, script)
                self.assertIn("results.json", packed.read("run_autograder").decode())
            printed = (target / "class" / "handout.html").read_text(encoding="utf-8")
            self.assertIn("Kernels &amp; more", printed)
            self.assertIn("a maximum that is not one", printed)
            self.assertNotIn("Hint", printed)
            self.assertNotIn("NaN &gt; m is false", printed)  # a line of the solution
            schedule = (target / "class" / "schedule.md").read_text(encoding="utf-8")
            self.assertRegex(schedule, r"2027-03-08 \| Two \| `02_row_max`.* \| 15 \| 2 \|")
            for script in ("setup.sh", "run_autograder"):
                self.assertTrue(os.access(target / script, os.X_OK))
                subprocess.run(["bash", "-n", target / script], check=True)
            self.assertEqual(len(list((target / ".github" / "workflows").iterdir())), 1)
            self.assertFalse(list(target.glob("*/exercises/*/frame.txt")))
            self.assertEqual(catalogue.seed_of(target), "spring")
            chosen = Plan(target / PLAN, catalogue.exercises(target)).exercises()
            self.assertEqual([sum(one.points.values()) for one in chosen], [16, 5])
            for wrong, words in (
                ("weeks: [{title: a, due: soon, exercises: {}}]", "a date is written"),
                ("weeks: [{title: a, due: 2027-01-01, exercises: {x: 1}}]", "no exercise 'x'"),
                ("weeks: [{title: a, due: 2027-01-01, exercises: {02_row_max: -1}}]", "weight -1"),
                ("weeks: 3", "not a class's file"),
                ("- [", "not a class's file"),
            ):
                plan.write_text(wrong)
                with self.subTest(wrong), self.assertRaisesRegex(Fault, words):
                    Plan(plan, catalogue.exercises())

    def test_an_export_keeps_the_seed(self):
        with tempfile.TemporaryDirectory() as folder:
            bare = pathlib.Path(folder) / "bare"
            said(export.main, [str(bare), "--without-solutions", "--seed", "c3"], ROOT, None)
            one = next(e for e in catalogue.exercises(bare) if e.id == "01_memory")
            there = catalogue.choose(["01_memory"], seed="c3")[0]
            self.assertEqual((one.variant, one.start()), (there.variant, there.start()))
            self.assertNotEqual(one.start(), exercise("01_memory").start())
