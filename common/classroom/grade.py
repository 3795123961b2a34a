"""./learn grade: marks submissions, offline; submissions.py finds them."""

import argparse
import csv
import datetime
import functools
import hashlib
import io
import json
import os
import pathlib
import re
import sys
import time

from common.classroom import catalogue, grading, sandbox, student, submissions
from common.classroom.catalogue import Fault
from common.classroom.toolchain import digest
from common.data.files import check_writable, printable, write_file

# No answer needs it, and an attack on the grader does: reported to the teacher, and not refused.
SUSPICIOUS = re.compile(
    r"\b(?:asm|__asm\w*|syscall|fork|exec[lv]p?e?|system|ptrace|mmap|dlsym|fopen|_?_[eE]xit|exit|FA_ENTRY|main)"
    r"\s*\(|\bclassroom\b|\blab::\w*|\bnamespace\s+\w+\s*=|##|%:|<(?:unistd|fcntl|csignal)\b|/proc/"
    r"|\bextern\s*\"C\"|\boperator\s+new\b|\bconstructor\b|\binit_array\b|\bpragma\s+GCC\b"
    r"|\bexercise\.cpp|\bdefine\s+private\b|\binclude_next\b"
    r"|\bi(?:nclude|mport)\b[^\w\n]*[\"<]\s*/|#\W*include\s+\w"
)
CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
EACH = 30  # seconds by the clock for an exercise, on the average of a student's
NOTHING = "no submission"
NOT_GRADED = "not graded, the check itself failed"


# ---------------------------------------------------------------- marks


def one_of(exercises, name, where):
    """The exercise with an ID that a teacher's file or folder has."""
    found = next((one for one in exercises if one.id == name), None)
    if not found:
        raise Fault(f"{where}: {catalogue.unknown(name, exercises)}")
    return found


def read_hidden(folder, exercises):
    """Adds a teacher's stages to the exercises: see Exercise.take_hidden()."""
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            one_of(exercises, path.name, folder).take_hidden(folder)


def read_points(path, exercises):
    """Applies a teacher's points: {"03_one_step": {"easy": 5}, "01_memory": 0}; 0 leaves an
    exercise out. Returns the exercises that are left."""
    try:
        points = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Fault(f"{path} is not a file of points: {error}") from error
    left = list(exercises)
    for name, stages in points.items():
        one = one_of(exercises, name, path)
        allowed = one.points
        if stages == 0:
            left.remove(one)
            continue
        for stage, number in stages.items():
            if stage not in allowed or type(number) not in (int, float) or number < 0:
                words = f"has the stages {', '.join(allowed)}, each with a number from 0"
                raise Fault(f"{path}: {name} {words}, not '{stage}': {number!r}")
        allowed.update(stages)
    return left


class Book:
    """Marks, which a file may keep between runs: student -> ID -> key, stages."""

    def __init__(self, path, toolchain):
        """@param path of the file, of JSON; may be None"""
        self.path, self.toolchain, self.of = path, toolchain, {}
        if path and os.path.exists(path):
            try:
                self.of = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
                _ = [(m["key"], m["stages"]) for of in self.of.values() for m in of.values()]
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise Fault(f"{path} holds no marks of --book: {error!r}") from error

    def key(self, exercise, answer):
        """A hash of what the marks of an answer depend on, except the points."""
        own = [*pathlib.Path(__file__).parent.glob("*.py"), *self.toolchain.objects["entry"]]
        texts = "\0".join([self.toolchain.key(exercise), *exercise.points, answer])
        parts = [*map(digest, sorted(own, key=str)), texts.encode("utf-8", "replace")]
        return hashlib.sha256(b"".join(parts)).hexdigest()

    def find(self, submission, exercise):
        """The stages of an exercise as they are kept, or without an answer; None: grade it."""
        results, answer = grading.stages_of(exercise), submission.answers.get(exercise.id)
        kept = self.of.get(submission.name, {}).get(exercise.id)
        if answer is not None and (not kept or kept["key"] != self.key(exercise, answer)):
            return None
        for result in results:
            result.message = NOTHING
            if answer is not None:
                result.verdict, result.message, result.notes = kept["stages"][result.name]
        return results

    def keep(self, submission, exercises, results):
        """Takes what was graded of a submission, and writes the file."""
        marks = self.of.setdefault(submission.name, {})
        for one, stages in zip(exercises, results):
            if not not_graded(stages):
                key = self.key(one, submission.answers[one.id])
                said_of = {s.name: [s.verdict, s.message, s.notes] for s in stages}
                marks[one.id] = {"key": key, "stages": said_of}
        if self.path and results:
            write_file(self.path, json.dumps(self.of, indent=1) + "\n")


def not_graded(results):
    """Whether the check of an exercise has failed itself."""
    return results[0].message.startswith(NOT_GRADED)


def graded(toolchain, seconds, task):
    """The stages of each exercise of one student.

    @param seconds by the clock, after which nothing of this student is graded; may be None
    @param task    the submission and the exercises
    """
    submission, exercises = task
    end = time.monotonic() + (seconds or EACH * max(4, len(submission.answers)))
    marks = []
    for one in exercises:
        try:
            if time.monotonic() > end:
                raise Fault("the time for this student is over, see --seconds")
            marks.append(grading.marks(toolchain, one, submission.answers[one.id]))
        except Exception as error:  # whatever it is, the next submission is marked all the same
            marks.append(grading.stages_of(one))
            marks[-1][0].verdict = "refused"
            marks[-1][0].message = f"{NOT_GRADED}: {printable(repr(error))}; grade it again"
    return marks


def report(submission, marks, due):
    """Tells the teacher what to look at, and notes what is late."""
    for one, results in marks:
        if due and (when := submission.times.get(one.id, 0)) > due.timestamp():
            when = datetime.datetime.fromtimestamp(when)
            results[0].notes = [*results[0].notes, ("late", f"{when:%Y-%m-%d %H:%M}")]
        answer = grading.SPLICE.sub("", submission.answers.get(one.id, ""))
        words = sorted(set(SUSPICIOUS.findall(answer)))
        found = [f"it has '{word}', which no answer needs; look at it" for word in words]
        for says in [*found, results[0].message] if not_graded(results) else found:
            print(f"{printable(submission.name)}, {one.id}: {says}", file=sys.stderr)


def late(results):
    """When an exercise was last changed, if that is after it was due; else nothing."""
    return dict(results[0].notes).get("late", "")


def given(results):
    """Points for some stages."""
    return sum(result.points for result in results if result.passed)


def said(result):
    """The message of a stage for the student, without what terminals obey."""
    if result.hidden:
        return ""
    words = {"not reached": "not reached", "skipped": "not graded here, points given"}
    parts = [words.get(result.verdict, ""), result.message]
    parts += [f"{name}: {number}" for name, number in result.notes]
    return CONTROL.sub(" ", "\n".join(part for part in parts if part))


def mistakes(everyone, most=3):
    """A report over several students: how many passed each exercise, and what was wrong most
    often."""
    lines = []
    for at, (exercise, _) in enumerate(everyone[0][1]):
        tried, passed, wrong = 0, 0, {}
        for name, marks in everyone:
            results = marks[at][1]
            refusal = next((r for r in results if r.verdict == "refused"), None)
            tried += results[0].message != NOTHING
            passed += given(results) == sum(result.points for result in results)
            if refusal:  # without its case and its numbers
                says = re.sub(r"\(.*|\d+ of \d+: |; the worst is.*|\n.*", "", refusal.message)
                wrong.setdefault(f"{refusal.title}: {says.strip()}", []).append(name)
        lines.append(f"{exercise.id}: {passed} of {tried} passed")
        for says, names in sorted(wrong.items(), key=lambda item: -len(item[1]))[:most]:
            lines.append(f"  {len(names):>3}  {printable(says)}\n       {', '.join(names)}")
    return "\n".join(lines)


# ---------------------------------------------------------------- formats


def plain(submission, marks):
    """For people."""
    everything = [result for _, results in marks for result in results]
    lines = [printable(submission.name)]
    for exercise, results in marks:
        full, more = sum(result.points for result in results), exercise.title
        if exercise.id not in submission.answers:
            more = NOTHING
        elif late(results):
            more += f" (late: {late(results)})"
        lines.append(f"  {exercise.id:<28} {given(results):>5g} of {full:<5g} {more}")
        for result in results:
            if result.verdict == "refused":  # of a compiler the error, not what led to it
                told = (said(result) or "does not pass").split("\n")
                first = next((line for line in told if ": error:" in line), told[0])
                lines.append(f"      {result.title}: {printable(first)}")
    full = sum(result.points for result in everything)
    return "\n".join([*lines, f"  {'in all':<28} {given(everything):>5g} of {full:g}"])


def gradescope(submission, marks):
    """results.json of Gradescope, for one student. Source: its Autograder Specifications, "Output
    format"."""
    tests = [
        {
            "name": f"{exercise.id}: {result.title}",
            "score": given([result]),
            "max_score": result.points,
            "status": "passed" if result.passed else "failed",
            "output": said(result),
        }
        for exercise, results in marks
        for result in results
    ]
    unread = "\n".join(f"not read: {words}" for words in submission.unread[:20])
    marks = {"score": sum(test["score"] for test in tests), "output": unread, "tests": tests}
    return json.dumps(marks, indent=1)


def comma_separated(everyone, due=None):
    """A class as CSV: a row for each student, and where `due` is given a column of what was late. A
    name that a spreadsheet would take for a formula gets an apostrophe."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [exercise.id for exercise, _ in everyone[0][1]]
    writer.writerow(["student", *names, "points", "of", *(["late"] if due else [])])
    for name, marks in everyone:
        points = [given(results) for _, results in marks]
        full = sum(result.points for _, results in marks for result in results)
        safe = f"'{name}" if name[:1] in "=+-@" else name
        after = [" ".join(exercise.id for exercise, results in marks if late(results))]
        numbers = [f"{x:g}" for x in (*points, sum(points), full)]
        writer.writerow([safe, *numbers, *(after if due else [])])
    return text.getvalue().rstrip("\n")


WRITERS = {"text": plain, "gradescope": gradescope}


# ---------------------------------------------------------------- the command


def read_options(arguments):
    """The command's options."""
    parser = argparse.ArgumentParser(
        prog="./learn grade",
        description="Marks a submission, or a folder of them, without a network and within "
        "limits of time and memory.",
    )
    add = parser.add_argument
    words = f"or archive, of one student; or a folder of several ({student.WORK})"
    add("folder", nargs="?", default=student.WORK, help=words)
    words = "only these, or lessons; default: every exercise that was handed in"
    add("--exercises", nargs="+", default=[], metavar="ID", help=words)
    add("--format", choices=(*WRITERS, "csv"), default="text")
    add("--points", metavar="FILE", help="JSON: exercise -> stage -> points; 0 leaves one out")
    words = "also mark what was changed after this time, as 2026-03-31T18:00, as late"
    add("--due", metavar="TIME", type=datetime.datetime.fromisoformat, help=words)
    words = f"for all of a student; default: {EACH} for each exercise"
    add("--seconds", type=float, metavar="S", help=words)
    add("-j", "--jobs", type=int, default=1, metavar="N", help="students at a time")
    add("--book", metavar="FILE", help="JSON: keep marks in it, and grade only what has changed")
    words = "more stages, DIR/ID/*.cpp, that students do not see"
    add("--hidden", metavar="DIR", type=pathlib.Path, help=words)
    add("--seed", metavar="WORD", help="of a class: its own numbers; default: this copy's")
    add("--output", metavar="PATH", help="file; folder for texts of several students")
    add("--mistakes", action="store_true", help="print the most common mistakes, and no marks")
    add("--layers", action="store_true", help="print which layers of protection there are")
    return parser.parse_args(arguments)


def main(arguments, root, toolchain):
    """Marks; returns the exit status: 0 when it could mark, whatever the marks are; else 2, when
    all others are marked."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    options = read_options(arguments)
    if options.layers:
        print("\n".join(sandbox.layers()))
        return 0
    alone = options.format == "gradescope"  # it runs the autograder for each student
    everything = catalogue.exercises(root, options.seed)
    students = submissions.students_in(pathlib.Path(options.folder), everything, alone)
    named = [one.id for one in catalogue.choose(options.exercises, root)]
    if options.hidden:
        read_hidden(options.hidden, everything)
    left = read_points(options.points, everything) if options.points else everything
    chosen = sorted((x for x in left if x.id in named), key=lambda x: named.index(x.id))
    there = [one for one in chosen if any(one.id in s.answers for s in students)]
    if not there and not alone:
        raise Fault(f"'{options.folder}' has no file of these exercises, nor has a folder in it")
    chosen = chosen if options.exercises else there
    of_class = options.mistakes or options.format == "csv"
    files = [pathlib.Path(options.output) if options.output else None] * len(students)
    if options.output and len(students) > 1 and not of_class:
        files[0].mkdir(parents=True, exist_ok=True)
        names = [os.fsencode(one.name)[:200] + b".txt" for one in students]
        files = [files[0] / os.fsdecode(name) for name in names]
    for file in filter(None, [*files, options.book]):
        check_writable(file)  # before the long work begins
    tools = toolchain()
    if options.hidden and {*options.hidden.resolve().parents} & {*tools.system()}:
        raise Fault(f"students' programs can read '{options.hidden}': choose another folder")
    list(grading.side_by_side(tools.grader, there, options.jobs))  # none is made twice
    book, done, everyone = Book(options.book, tools), {}, []
    tasks = [(one, [each for each in chosen if not book.find(one, each)]) for one in students]
    work = functools.partial(graded, tools, options.seconds)
    for at, results in grading.side_by_side(work, tasks, options.jobs):
        book.keep(*tasks[at], results)
        done[at] = dict(zip((each.id for each in tasks[at][1]), results))
        while (now := len(everyone)) in done:  # in the order of students
            one, fresh = students[now], done[now]
            marks = [(each, fresh.get(each.id) or book.find(one, each)) for each in chosen]
            report(one, marks, options.due)
            everyone.append((printable(one.name), marks))
            if not of_class:
                show(WRITERS[options.format](one, marks), files[now])
    if options.mistakes:
        show(mistakes(everyone), files[0])
    elif of_class:
        show(comma_separated(everyone, options.due), files[0])
    return 2 if any(not_graded(r) for _, marks in everyone for _, r in marks) else 0


def show(text, file):
    """Prints a text, or writes it into a file."""
    if file:
        write_file(file, text + "\n")
    else:
        print(text, flush=True)
