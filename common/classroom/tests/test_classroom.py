"""Exercises, the student's commands, marks and their formats, and the export."""

import contextlib
import io
import json
import os
import pathlib
import tempfile
import unittest
import xml.etree.ElementTree as xml

from common.classroom import catalogue, export, formats, gate, grade, grading, mutants, student
from common.classroom.catalogue import Fault
from common.classroom.tests.support import ROOT, exercise, toolchain


def said(function, *arguments):
    """What a function returns, and what it prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        result = function(*arguments)
    return result, out.getvalue()


class Frames(unittest.TestCase):
    def frame(
        self,
        text,
        source="a\n//! [all]\n  one\n  //! [in]\n    two\n  //! [in]\n  three\n//! [all]\n",
    ):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "code.hpp").write_text(source)
            return catalogue.Frame(pathlib.Path(folder), text, "frame")

    def test_a_hole_is_filled_in_the_solution_and_open_at_the_start(self):
        frame = self.frame("x\n  //@ from code.hpp#all\n  //@ hole in\n// TODO\n  //@ end\ny")
        self.assertEqual(frame.solution, ["x", "  one", "    two", "  three", "y"])
        self.assertEqual(frame.start, ["x", "  one", "  // TODO", "  three", "y"])

    def test_a_whole_region_may_be_the_hole(self):
        frame = self.frame("//@ from code.hpp#in\n//@ hole in\nTODO\n//@ end")
        self.assertEqual((frame.solution, frame.start), (["two"], ["TODO"]))

    def test_without_a_hole_both_have_the_region(self):
        frame = self.frame("//@ from code.hpp#in\n//@ end")
        self.assertEqual((frame.solution, frame.start), (["two"], ["two"]))

    def test_what_no_lesson_has_stands_in_the_frame(self):
        frame = self.frame("//@ solution\nours\n//@ start\nTODO\n//@ end")
        self.assertEqual((frame.solution, frame.start), (["ours"], ["TODO"]))

    def test_faults_are_named(self):
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

    def test_a_wrong_answer_must_fit_the_solution(self):
        wrong = catalogue.read_answers(
            "# one: two\n@ easy: three\n- b\n+   B\n- c\n+ C\n", "wrong.txt"
        )[0]
        self.assertEqual(wrong.text("a\n  b\nc"), "a\n  B\nC")
        for solution in ("a", "b\nb\nc"):
            with self.assertRaisesRegex(Fault, "not once"):
                wrong.text(solution)
        with self.assertRaisesRegex(Fault, "needs a description"):
            catalogue.read_answers("# one: two\n- b\n", "wrong.txt")

    def test_every_start_differs_from_its_solution(self):
        for one in catalogue.exercises():
            if not one.predicts:
                self.assertNotEqual(one.start(), one.solution(), one.id)
                self.assertIn("TODO" if one.kind != "bug hunt" else "Exercise", one.start(), one.id)

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

    def test_names_of_exercises(self):
        self.assertEqual(exercise("one_step").id, "03_one_step")
        self.assertEqual({e.lesson for e in catalogue.choose(["3"])}, {"03_online_softmax"})
        with self.assertRaisesRegex(Fault, "no exercise 'nothing'; there are 01_"):
            catalogue.choose(["nothing"])


class Numbers(unittest.TestCase):
    def test_digits_and_products(self):
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
            self.assertEqual(grading.number_of(text), number)

    def test_what_is_no_number_is_refused(self):
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
                grading.number_of(text)

    def test_comments_and_unknown_lines(self):
        self.assertEqual(
            grading.read_numbers("# a\nx = 2 # two\nnothing\ny = ?"), {"x": 2, "y": None}
        )


class Marks(unittest.TestCase):
    """Formats, with texts that must not break them."""

    def setUp(self):
        one = exercise("03_one_step")
        self.marks = [
            (
                one,
                [
                    grading.StageResult("compiles", "it compiles", 1, "passed", "", [], 1.25),
                    grading.StageResult(
                        "easy",
                        'right <&> "easy"',
                        3,
                        "refused",
                        "l & m < 3\x1b[31m\x00\nline",
                        [["a", 2]],
                        0.5,
                    ),
                    grading.StageResult("odd", "odd", 3, "skipped", "no lab", [], 0),
                    grading.StageResult("proof", "proof", 3, "not reached"),
                ],
            )
        ]

    def test_text_for_people(self):
        text = formats.plain("a\x1b]da", self.marks)
        self.assertEqual(text.split("\n")[0], "a\\x1b]da")
        self.assertIn("l & m < 3\\x1b[31m\\x00\n", text)

    def test_gradescope(self):
        """Fields, types and values that its page on results.json allows."""
        result = json.loads(formats.gradescope("ada", self.marks))
        allowed = {
            "score": (int, float),
            "output_format": str,
            "stdout_visibility": str,
            "tests": list,
            "execution_time": (int, float),
            "output": str,
            "visibility": str,
            "extra_data": dict,
        }
        for field, value in result.items():
            self.assertIsInstance(value, allowed[field])
        self.assertEqual(result["score"], 4)
        self.assertIn(
            result["stdout_visibility"], ("hidden", "after_due_date", "after_published", "visible")
        )
        of_test = {
            "score": (int, float),
            "max_score": (int, float),
            "status": str,
            "name": str,
            "name_format": str,
            "number": str,
            "output": str,
            "output_format": str,
            "tags": list,
            "visibility": str,
            "extra_data": dict,
        }
        for test in result["tests"]:
            for field, value in test.items():
                self.assertIsInstance(value, of_test[field])
            self.assertIn(test["status"], ("passed", "failed"))
            self.assertIn(test["output_format"], ("text", "html", "simple_format", "md", "ansi"))
            self.assertIn(
                test["visibility"], ("hidden", "after_due_date", "after_published", "visible")
            )
            self.assertTrue(all(isinstance(tag, str) for tag in test["tags"]))
            self.assertNotIn("\x1b", test["output"])
            self.assertLessEqual(test["score"], test["max_score"])
        self.assertEqual([t["score"] for t in result["tests"]], [1, 0, 3, 0])

    def test_classroom50(self):
        """The table of fields of the result.json contract, schema classroom50/result/v1."""
        os.environ["CLASSROOM"] = "flash"
        try:
            result = json.loads(formats.classroom50("ada", self.marks))
        finally:
            del os.environ["CLASSROOM"]
        fields = {
            "schema": str,
            "classroom": str,
            "assignment": str,
            "assignment_type": str,
            "owner": str,
            "submission": str,
            "commit": str,
            "release": str,
            "review": str,
            "datetime": str,
            "graded_at": str,
            "score": int,
            "max-score": int,
            "tests": list,
        }
        self.assertEqual(set(result), set(fields))
        for field, kind in fields.items():
            self.assertIs(type(result[field]), kind, field)
            self.assertTrue(result[field], field)
        self.assertEqual(
            (result["schema"], result["classroom"]), ("classroom50/result/v1", "flash")
        )
        self.assertIn(result["assignment_type"], ("individual", "group"))
        self.assertRegex(result["datetime"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertEqual((result["score"], result["max-score"]), (4, 10))
        for test in result["tests"]:
            self.assertLessEqual({"test-name", "passed", "score", "max-score"}, set(test))
            self.assertIs(type(test["passed"]), bool)
            self.assertIs(type(test["score"]), int)
        self.assertEqual(result["score"], sum(t["score"] for t in result["tests"]))
        self.marks[0][1][0].points = 0.5
        with self.assertRaisesRegex(ValueError, "whole points only"):
            formats.classroom50("ada", self.marks)

    def test_junit(self):
        """Elements and attributes of the schema junit-10.xsd."""
        root = xml.fromstring(formats.junit("ada & co", self.marks))
        attributes = {
            "testsuites": {"name", "time", "tests", "failures", "errors", "disabled"},
            "testsuite": {
                "name",
                "tests",
                "failures",
                "errors",
                "group",
                "time",
                "skipped",
                "timestamp",
                "hostname",
                "id",
                "package",
                "file",
                "log",
                "url",
                "version",
            },
            "testcase": {"name", "time", "classname", "group"},
            "failure": {"type", "message"},
            "skipped": {"type", "message"},
        }
        children = {
            "testsuites": {"testsuite"},
            "testsuite": {"testcase"},
            "testcase": {"failure", "skipped"},
        }
        for element in root.iter():
            self.assertLessEqual(set(element.attrib), attributes[element.tag])
            self.assertLessEqual({child.tag for child in element}, children.get(element.tag, set()))
        suite = root.find("testsuite")
        self.assertEqual([suite.get(a) for a in ("tests", "failures", "skipped")], ["4", "1", "2"])
        self.assertEqual(suite[1].find("failure").get("message"), "l & m < 3 [31m ")
        self.assertEqual(suite[0].get("time"), "1.250")


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
    def test_the_way_of_a_student(self):
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

    def test_next_is_the_first_open_exercise_of_the_lesson(self):
        two = exercise("03_merge")
        self.learn("start", two.id)
        self.file(two).write_text(two.solution())
        self.assertIn("Next: ./learn exercise start 03_one_step", self.learn("check", two.id)[1])

    def test_where_one_is(self):
        self.learn("start", "one_step")
        text = self.learn()[1]
        self.assertIn("You are at 03_one_step", text)
        self.assertIn("./learn exercise watch 03_one_step", text)

    def test_a_complete_lesson_says_what_one_can_do(self):
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

    def test_start_leaves_a_file_alone(self):
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

    def test_what_was_not_begun(self):
        for arguments, words in (
            (["check"], "no exercise was begun"),
            (["hint"], "no exercise was begun"),
            (["check", "03_merge"], "03_merge was not begun"),
            (["start", "x"], "no exercise 'x'"),
            (["start", "03"], "name one of them"),
        ):
            with self.subTest(arguments), self.assertRaisesRegex(Fault, words):
                self.learn(*arguments)


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

    def test_marks_that_cannot_be_written_are_refused_before_work(self):
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

    def test_links_are_no_submissions(self):
        (self.students / "eve" / "03_one_step").mkdir(parents=True)
        (self.students / "eve" / "03_one_step" / "one_step.hpp").symlink_to(
            self.students / "ada" / "03_one_step" / "one_step.hpp"
        )
        text = self.grade(self.students, "--exercises", "03_one_step")
        self.assertEqual(
            [line.split()[1] for line in text.split("\n") if "03_one_step" in line][3], "0"
        )

    def test_what_looks_like_an_attack_is_named(self):
        file = self.students / "ada" / "03_one_step" / "one_step.hpp"
        file.write_text(file.read_text() + "\nstatic const int child = fork();\n")
        text = self.grade(self.students / "ada", "--exercises", "03_one_step")
        self.assertIn("ada, 03_one_step: it has 'fork'", text)
        file.write_text('#define FILE "03_online_softmax/recurrence.hpp"\n#include FILE\n')
        text = self.grade(self.students / "ada", "--exercises", "03_one_step")
        self.assertIn("ada, 03_one_step: it includes a file that it may not use", text)

    def test_what_no_answer_needs_is_reported_and_no_answer_is(self):
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

    def test_accesses_are_not_hidden_from_the_lab(self):
        one = exercise("04_transpose")
        kernel = "__global__ void transpose_tiles"
        for word in ("FA_UNWATCHED", "[[gnu::no_sanitize_thread]]"):
            answer = one.solution().replace(kernel, f"{word} {kernel}")
            results = grading.grade(toolchain(), one, answer)
            self.assertEqual((results[0].name, results[0].verdict), ("compiles", "refused"))
            self.assertIn("keeps accesses from the lab", results[0].message)

    def test_what_is_no_submission(self):
        with self.assertRaisesRegex(Fault, "is not a folder"):
            self.grade(self.root / "nothing")
        with self.assertRaisesRegex(Fault, "has no file"):
            self.grade(self.root / "03_online_softmax", "--exercises", "03_one_step")


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

    def test_an_export_keeps_the_seed(self):
        with tempfile.TemporaryDirectory() as folder:
            bare = pathlib.Path(folder) / "bare"
            said(export.main, [str(bare), "--without-solutions", "--seed", "c3"], ROOT, None)
            one = next(e for e in catalogue.exercises(bare) if e.id == "01_memory")
            there = catalogue.choose(["01_memory"], seed="c3")[0]
            self.assertEqual((one.variant, one.start()), (there.variant, there.start()))
            self.assertNotEqual(one.start(), exercise("01_memory").start())


class MutantsOfSolutions(unittest.TestCase):
    def test_what_is_changed(self):
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


class Export(unittest.TestCase):
    def test_with_and_without_solutions(self):
        with tempfile.TemporaryDirectory() as folder:
            whole, bare = pathlib.Path(folder) / "whole", pathlib.Path(folder) / "bare"
            self.assertEqual(said(export.main, [str(whole)], ROOT, None)[0], 0)
            self.assertEqual(
                said(export.main, [str(bare), "--without-solutions"], ROOT, None)[0], 0
            )
            self.assertTrue((whole / "03_online_softmax/exercises/one_step/frame.txt").exists())
            self.assertTrue((whole / "learn").stat().st_mode & 0o100)
            self.assertEqual(
                [p for n in export.NOT_WITHOUT for p in bare.glob(f"*/exercises/*/{n}")], []
            )
            one = next(e for e in catalogue.exercises(bare) if e.id == "03_one_step")
            self.assertEqual(one.start(), exercise("03_one_step").start())
            with self.assertRaisesRegex(Fault, "without solutions"):
                one.solution()
            with self.assertRaisesRegex(Fault, "not empty"):
                export.main([str(whole)], ROOT, None)
        with self.assertRaisesRegex(Fault, "in the course itself"):
            export.main([str(ROOT / "build" / "copy")], ROOT, None)


if __name__ == "__main__":
    unittest.main()
