"""Grades an answer to an exercise, stage by stage."""

import ast
import contextlib
import dataclasses
import hashlib
import json
import math
import operator
import os
import pathlib
import re
import shlex
import shutil
import signal
import tempfile

from common.classroom import catalogue, sandbox
from common.classroom.catalogue import Fault
from common.files.write_file import write_file

COMPILE = sandbox.Limits(seconds=60, memory=4096, file=512, stranger=False)
RUN = sandbox.Limits()
COMPILE_LINES = 14  # of a compiler's messages
# Warnings in the course's own code do not concern a student.
UNWANTED = re.compile(r"-Werror.*|-Winvalid-pch|-Wconversion|-Wshadow|-Wnon-virtual-dtor")


@dataclasses.dataclass
class StageResult:
    """How one stage ended."""

    name: str
    title: str
    points: float
    verdict: str  # passed, refused, skipped, or not reached
    message: str = ""
    notes: list = dataclasses.field(default_factory=list)
    seconds: float = 0

    @property
    def passed(self):
        """Whether its points are given; what this machine cannot grade costs nothing."""
        return self.verdict in ("passed", "skipped")


def everyone_may_read(path):
    """Whether every user can read a file."""
    return bool(os.stat(path).st_mode & 0o004) and all(
        os.stat(parent).st_mode & 0o001 for parent in path.parents
    )


class Toolchain:
    """How graders are compiled: what CMake wrote into a build directory."""

    def __init__(self, build):
        self.build = pathlib.Path(build).resolve()
        try:
            files = json.loads(
                (self.build / "classroom" / "toolchain.json").read_text(encoding="utf-8")
            )
            commands = json.loads(
                (self.build / "compile_commands.json").read_text(encoding="utf-8")
            )
        except (OSError, ValueError) as error:
            raise Fault(
                f"{self.build} is not a build of this course with the target classroom: {error}"
            ) from error
        self.confine, self.libraries, self.flags = files["confine"], {}, {}
        for machine in ("cpu", "lab"):
            self.libraries[machine] = files[machine]
            found = [
                c for c in commands if c["file"].endswith(f"common/classroom/prelude_{machine}.cpp")
            ]
            if not found:
                raise Fault(
                    f"{self.build}/compile_commands.json does not say how graders are compiled"
                )
            words = shlex.split(found[0]["command"])
            where = [i for i, word in enumerate(words) if word in ("-o", "-c")]
            for i in sorted(where, reverse=True):
                del words[i : i + 2]
            self.flags[machine] = [word for word in words if not UNWANTED.fullmatch(word)]
        # A compiler that is not root cannot show what only root may read.
        self.readable = everyone_may_read(pathlib.Path(__file__).resolve()) and everyone_may_read(
            self.build / "classroom" / "toolchain.json"
        )
        # Only without a watched lab may a stage be left without a verdict.
        self.watched = any("FA_LAB_WATCHED" in flag for flag in self.flags["lab"])
        self.cache = self.build / "classroom" / "graders"

    def compile(self, exercise, scratch):
        """Compiles the grader with the student's file in scratch/student.

        @return the sandbox's outcome; the program is scratch/grader
        """
        flags = self.flags[exercise.machine]
        limits = dataclasses.replace(
            COMPILE, stranger=self.readable and everyone_may_read(exercise.grader)
        )
        scratch_object = scratch / "grader.o"
        compilation = sandbox.run(
            self.confine,
            [
                *flags,
                *exercise.defines,
                f"-I{scratch}",
                "-o",
                scratch_object,
                "-c",
                exercise.grader,
            ],
            scratch,
            limits,
        )
        if compilation.status != 0:
            return compilation
        # Without the flags: -fsanitize=thread would bring its own library.
        link = [
            flags[0],
            "-o",
            scratch / "grader",
            scratch_object,
            *self.libraries[exercise.machine],
            "-pthread",
        ]
        linking = sandbox.run(self.confine, link, scratch, limits)
        linking.seconds += compilation.seconds
        sandbox.take_back(scratch)  # no stage may change the program of the next
        return linking


@contextlib.contextmanager
def scratch_folder():
    """A folder that goes away, even when it was filled with what cannot be removed at once."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="classroom-")).resolve()
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        for parent, names, _files in os.walk(
            folder
        ):  # from the top: what may not be listed is made so first
            for name in names:
                inner = os.path.join(parent, name)
                if not os.path.islink(inner):  # the mode of what it leads to is not ours
                    with contextlib.suppress(OSError):
                        os.chmod(inner, 0o700)
        shutil.rmtree(folder, ignore_errors=True)


def compiler_says(outcome, scratch, shown):
    """The first lines of a compiler that a student can use."""
    if outcome.timed_out:
        return "the compiler did not finish within its time limit"
    lines = []
    for line in outcome.output.replace(f"{scratch}/student/", "student/").split("\n"):
        if "error:" in line or lines:
            lines.append(line)
    lines = lines or outcome.output.strip().split("\n")
    text = "\n".join(lines[:COMPILE_LINES])
    return f"it does not compile:\n\n{renamed(text, scratch, shown)}"


def renamed(text, scratch, shown):
    """A message with the student's own path in place of the copy's."""
    text = text.replace(f"{scratch}/student/", "student/").replace(f"{catalogue.ROOT}/", "")
    return re.sub(r"(?<![\w/.])(?:\.\./)*(?:tmp/[\w./-]*)?student/(?=[\w.]+)", shown, text)


def ended(outcome, limits):
    """Why a program gave no result."""
    if outcome.timed_out:
        return f"it was still running after {limits.seconds} seconds: an endless loop?"
    reasons = {
        signal.SIGSEGV: "it accessed memory that is not its own: an index out of range?",
        signal.SIGABRT: "it called abort(), or the C++ library did",
        signal.SIGFPE: "it divided an integer by zero",
        signal.SIGXFSZ: "it wrote a file that is larger than allowed",
        signal.SIGKILL: "it was killed: too much memory or too much time",
        signal.SIGBUS: "it accessed memory that is not mapped",
    }
    if outcome.status < 0:
        number = -outcome.status
        reason = reasons.get(number, "for an unknown reason")
        if assertion := re.search(r"Assertion `(.*?)' failed", outcome.output, re.DOTALL):
            library = "an Eigen" if "/Eigen/" in outcome.output else "an"
            reason = f"{library} assertion failed, `{assertion[1]}`: an index out of range?"
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = f"signal {number}"
        return f"your program crashed ({name}): {reason}"
    if "bad_alloc" in outcome.output:
        return "it requested more memory than a check may use"
    words = outcome.output.strip().split("\n")[-1][:200]
    return f"it exited with status {outcome.status} before the check was complete" + (
        f"; its last output: {words}" if words else ""
    )


def run_stage(toolchain, program, folder, stage, limits=RUN):
    """Runs one stage of a compiled grader; returns what it said, and for how long it ran."""
    outcome = sandbox.run(toolchain.confine, [program, stage], folder, limits, channel=True)
    try:
        said = json.loads(outcome.result)
    except ValueError:
        said = {"verdict": "refused", "message": ended(outcome, limits), "notes": []}
    return said, outcome.seconds


def grade(toolchain, exercise, answer, stop=True, shown=None, inspect=None):
    """Grades an answer.

    @param answer the text of the student's file
    @param stop   at the first stage that refuses, as for students; else only what needs a right
        result is left out
    @param shown  what to call the folder of the student's file in messages, with its slash
    @param inspect called with the path of the compiled grader, before the stages are run
    """
    shown = "" if shown is None else shown
    if exercise.predicts:
        return grade_numbers(toolchain, exercise, answer)
    results = [
        StageResult(name, exercise.titles.get(name, name), points, "not reached")
        for name, points in exercise.points.items()
    ]
    with scratch_folder() as scratch:
        (scratch / "student").mkdir()
        (scratch / "student" / exercise.file).write_text(answer, encoding="utf-8")
        outcome = toolchain.compile(exercise, scratch)
        results[0].seconds = outcome.seconds
        if outcome.status != 0:
            results[0].verdict = "refused"
            results[0].message = compiler_says(outcome, scratch, shown)
            return results
        results[0].verdict = "passed"
        if inspect:
            inspect(scratch / "grader")
        for result in results[1:]:
            folder = (
                scratch / f"work_{result.name}"
            )  # each its own: what a stage leaves may not be removable
            folder.mkdir()
            said, result.seconds = run_stage(toolchain, scratch / "grader", folder, result.name)
            result.verdict, result.notes = said["verdict"], said.get("notes", [])
            result.message = renamed(said.get("message", ""), scratch, shown)
            if result.verdict == "skipped" and (toolchain.watched or exercise.machine != "lab"):
                result.verdict = "refused"
                result.message = (
                    "the stage ended without a verdict, which is allowed only without a lab"
                )
            if result.verdict not in ("passed", "refused", "skipped"):
                result.verdict = "refused"
            if not result.passed and (stop or result is results[1]):
                break
    return results


# ---------------------------------------------------------------- numbers

OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
}


def number_of(text):
    """The number that an answer means: digits, or a small sum such as 4 * 64 * 64."""

    def value(node):
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return float(node.value)
        if isinstance(node, ast.UnaryOp) and type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)](value(node.operand))
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)](value(node.left), value(node.right))
        raise ValueError(text)

    if len(text) > 200:
        raise ValueError("too long")
    try:
        result = value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ArithmeticError, RecursionError, MemoryError) as error:
        raise ValueError(str(error)) from error
    if isinstance(result, complex) or not math.isfinite(result):
        raise ValueError(text)
    return result


def read_numbers(text):
    """name -> number, or None for what cannot be read as a number, of a file of answers."""
    numbers = {}
    for line in text.split("\n")[:1000]:
        name, equals, rest = line.partition("#")[0].partition("=")
        if equals:
            try:
                numbers[name.strip()] = number_of(rest)
            except ValueError:
                numbers[name.strip()] = None
    return numbers


def questions(toolchain, exercise):
    """The questions with the truth, which the grader counts. It holds no student's code and is
    kept."""
    key = hashlib.sha256()
    for part in (exercise.grader.read_bytes(), repr(toolchain.flags[exercise.machine]).encode()):
        key.update(part)
    for path in toolchain.libraries[exercise.machine]:
        key.update(str(os.stat(path).st_mtime_ns).encode())
    for header in sorted((exercise.root / exercise.lesson).rglob("*.[hc]*")):
        key.update(str(os.stat(header).st_mtime_ns).encode())
    kept = toolchain.cache / f"{exercise.id}-{key.hexdigest()[:16]}.json"
    if kept.exists():
        return json.loads(kept.read_text(encoding="utf-8"))
    with scratch_folder() as scratch:
        outcome = toolchain.compile(exercise, scratch)
        if outcome.status != 0:
            raise Fault(
                f"the grader of {exercise.id} does not compile: {outcome.output.strip()[:2000]}"
            )
        folder = scratch / "work"
        folder.mkdir()
        said, _ = run_stage(toolchain, scratch / "grader", folder, "questions")
    if said["verdict"] == "skipped":
        return []
    if said["verdict"] != "questions":
        raise Fault(f"the grader of {exercise.id} gives no answers: {said['message']}")
    toolchain.cache.mkdir(parents=True, exist_ok=True)
    for old in toolchain.cache.glob(f"{exercise.id}-*.json"):
        old.unlink(missing_ok=True)
    write_file(kept, json.dumps(said["questions"]))
    return said["questions"]


def near(number, truth, within):
    """Whether a number is right, up to a share of it."""
    return number == truth or abs(number - truth) <= within * abs(truth)


def grade_numbers(toolchain, exercise, answer):
    """Grades a file of answers: a stage for each question."""
    results = [
        StageResult(name, exercise.titles.get(name, name), points, "not reached")
        for name, points in exercise.points.items()
    ]
    numbers = read_numbers(answer)
    names = [name for name in exercise.points if name != "complete"]
    missing = [name for name in names if numbers.get(name) is None]
    if len(missing) == len(names) or missing:
        results[0].verdict = "refused"
        results[0].message = (
            "no number yet for: "
            + ", ".join(missing)
            + "; write digits or a small product such as 4 * 64 * 64"
        )
        return results
    results[0].verdict = "passed"
    asked = {question["name"]: question for question in questions(toolchain, exercise)}
    for result in results[1:]:
        if not asked:
            result.verdict, result.message = (
                "skipped",
                "this machine has no watched lab, which needs Linux",
            )
            continue
        question, number = asked[result.name], numbers[result.name]
        if near(number, question["truth"], question["within"]):
            result.verdict = "passed"
            continue
        result.verdict = "refused"
        more = "too large" if number > question["truth"] else "too small"
        result.message = f"{number:.10g} is {more}; count again, with the task's own sizes"
        for value, says in question["mistakes"]:
            if near(number, value, question["within"]):
                result.message = says
                break
    return results


def digits(number):
    """A number as one would type it."""
    return str(int(number)) if number == int(number) else repr(number)


def filled(exercise, numbers):
    """The file of answers with these numbers."""
    lines = []
    for line in exercise.start().split("\n"):
        name = line.partition("#")[0].partition("=")[0].strip()
        lines.append(f"{name} = {digits(numbers[name])}" if name in numbers else line)
    return "\n".join(lines)


def solution(toolchain, exercise):
    """The solution of any exercise."""
    if not exercise.predicts:
        return exercise.solution()
    if not exercise.has_solution():
        raise Fault("this copy of the course was made without solutions; ask your teacher")
    return filled(exercise, {q["name"]: q["truth"] for q in questions(toolchain, exercise)})


def wrong_answers(toolchain, exercise):
    """Typical wrong answers: name, description, stage that refuses, part of its message, text of
    the file."""
    if not exercise.predicts:
        right = exercise.solution()
        return [(w.name, w.about, w.stage, w.says, w.text(right)) for w in exercise.wrong_answers()]
    asked = questions(toolchain, exercise)
    truth = {question["name"]: question["truth"] for question in asked}
    return [
        (
            f"{q['name']} = {digits(value)}",
            says,
            q["name"],
            says,
            filled(exercise, {**truth, q["name"]: value}),
        )
        for q in asked
        for value, says in q["mistakes"]
    ]
