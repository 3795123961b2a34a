"""./learn grade: finds submissions and marks them, offline.

A submission is a folder as the student's own: my_exercises, what is in it, or the files directly.
A folder of submissions has one folder for each student.
"""

import argparse
import csv
import io
import json
import os
import pathlib
import re
import sys
import xml.etree.ElementTree as xml

from common.classroom import catalogue, grading, sandbox, student
from common.classroom.catalogue import Fault
from common.data.files import check_writable, printable, write_file

LONGEST = 200_000  # bytes of a student's file
# No answer needs it, and an attack on the grader does: reported to the teacher, and not refused.
SUSPICIOUS = re.compile(
    r"\b(?:asm|syscall|fork|exec[lv]p?e?|system|ptrace|mmap|dlsym|fopen|_?_[eE]xit|exit|FA_ENTRY|main)"
    r"\s*\(|\bclassroom\b|\blab::\w*|\bnamespace\s+\w+\s*=|##|%:|<(?:unistd|fcntl|csignal)\b|/proc/"
    r"|\bextern\s*\"C\"|\boperator\s+new\b|\bconstructor\b|\binit_array\b|\bpragma\s+GCC\b"
    r"|\bexercise\.cpp|\bdefine\s+private\b|\binclude_next\b"
)
CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
NOT_GRADED = "not graded, the check itself failed"


# ---------------------------------------------------------------- submissions


def answer_of(submission, exercise):
    """The student's text for an exercise; None when there is none, or it is not a regular file of a
    sensible size."""
    own = pathlib.Path(exercise.id) / exercise.file
    for path in (student.WORK / own, own, pathlib.Path(exercise.file)):
        parts = [submission / part for part in (path, *path.parents[:-1])]
        # A link could show the marks the grader's own files.
        if any(part.is_symlink() for part in parts) or not parts[0].is_file():
            continue
        if parts[0].stat().st_size <= LONGEST:
            return parts[0].read_bytes().decode("utf-8-sig", "replace")
    return None


def handed_in(folder, exercises):
    """Whether a folder holds a student's file for one of the exercises."""
    return any(answer_of(folder, exercise) is not None for exercise in exercises)


def students_in(folder, exercises):
    """The submissions in a folder: itself, or those of several students."""
    if not folder.is_dir():
        raise Fault(f"'{folder}' is not a folder; a submission is one, with files of exercises")
    if handed_in(folder, exercises):
        return [folder]
    found = [path for path in sorted(folder.iterdir()) if path.is_dir() and not path.is_symlink()]
    if not any(handed_in(path, exercises) for path in found):
        raise Fault(f"'{folder}' has no file of these exercises, and neither has a folder in it")
    return [path for path in found if not path.name.startswith(".")]


def read_points(path, exercises):
    """Applies a teacher's points: {"03_one_step": {"easy": 5}, "01_memory": 0}; 0 leaves an
    exercise out. Returns the exercises that are left."""
    try:
        points = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Fault(f"{path} is not a file of points: {error}") from error
    by_id = {exercise.id: exercise for exercise in exercises}
    for name, stages in points.items():
        if name not in by_id:
            raise Fault(f"{path}: there is no exercise '{name}'; there are {', '.join(by_id)}")
        allowed = by_id[name].points
        if stages == 0:
            del by_id[name]
            continue
        for stage, number in stages.items():
            if stage not in allowed or type(number) not in (int, float) or number < 0:
                words = f"has the stages {', '.join(allowed)}, each with a number from 0"
                raise Fault(f"{path}: {name} {words}, not '{stage}': {number!r}")
        allowed.update(stages)
    return list(by_id.values())


# ---------------------------------------------------------------- marks


def mark(toolchain, exercise, submission):
    """The stages of one exercise of one student."""
    answer = answer_of(submission, exercise)
    if answer is None:
        results = grading.stages_of(exercise)
        for result in results:
            result.message = "no submission"
        return results
    name = f"{printable(submission.name)}, {exercise.id}"
    for word in sorted(set(SUSPICIOUS.findall(answer))):
        print(f"{name}: it has '{word}', which no answer needs; look at it", file=sys.stderr)
    try:
        return grading.marks(toolchain, exercise, answer)
    except Exception as error:  # whatever it is, the next submission is marked all the same
        results = grading.stages_of(exercise)
        results[0].verdict = "refused"
        results[0].message = f"{NOT_GRADED}: {printable(repr(error))}; grade it again"
        print(f"{name}: {results[0].message}", file=sys.stderr)
        return results


def given(results):
    """Points for some stages."""
    return sum(result.points for result in results if result.passed)


def said(result):
    """The message of a stage for the student, without what XML and terminals cannot have."""
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
            tried += results[0].message != "no submission"
            passed += given(results) == sum(result.points for result in results)
            if refusal:  # without its case and its numbers
                says = re.sub(r"\(.*|\d+ of \d+: |; the worst is.*|\n.*", "", refusal.message)
                wrong.setdefault(f"{refusal.title}: {says.strip()}", []).append(name)
        lines.append(f"{exercise.id}: {passed} of {tried} passed")
        for says, names in sorted(wrong.items(), key=lambda item: -len(item[1]))[:most]:
            lines.append(f"  {len(names):>3}  {printable(says)}\n       {', '.join(names)}")
    return "\n".join(lines)


# ---------------------------------------------------------------- formats


def plain(name, marks):
    """For people."""
    lines, everything = [name], [result for _, results in marks for result in results]
    for exercise, results in marks:
        full = sum(result.points for result in results)
        lines.append(f"  {exercise.id:<28} {given(results):>5g} of {full:<5g} {exercise.title}")
        for result in results:
            if result.verdict == "refused":
                lines.append(f"      {result.title}: {printable(result.message.split(chr(10))[0])}")
    full = sum(result.points for result in everything)
    return "\n".join([*lines, f"  {'in all':<28} {given(everything):>5g} of {full:g}"])


def gradescope(_name, marks):
    """results.json of Gradescope. Source: its Autograder Specifications, "Output format"."""
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
    return json.dumps({"score": sum(test["score"] for test in tests), "tests": tests}, indent=1)


def junit(name, marks):
    """JUnit XML. Source: the schema junit-10.xsd of the Jenkins xUnit plugin."""
    suites = xml.Element("testsuites", name=CONTROL.sub(" ", name))
    for exercise, results in marks:
        failed = sum(result.verdict == "refused" for result in results)
        passed = sum(result.verdict == "passed" for result in results)
        counts = {"tests": len(results), "failures": failed, "errors": 0}
        counts["skipped"] = len(results) - failed - passed
        counts = {what: str(count) for what, count in counts.items()}
        suite = xml.SubElement(suites, "testsuite", name=exercise.id, **counts)
        for result in results:
            case = xml.SubElement(suite, "testcase", classname=exercise.id, name=result.title)
            message = said(result)
            if result.verdict == "refused":
                first = message.split("\n")[0]
                failure = xml.SubElement(case, "failure", message=first, type=result.name)
                failure.text = message
            elif result.verdict != "passed":
                xml.SubElement(case, "skipped", message=message)
    xml.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + xml.tostring(suites, encoding="unicode")


def comma_separated(everyone):
    """A class as CSV: a row for each student. A name that a spreadsheet would take for a formula
    gets an apostrophe."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["student", *(exercise.id for exercise, _ in everyone[0][1]), "points", "of"])
    for name, marks in everyone:
        points = [given(results) for _, results in marks]
        full = sum(result.points for _, results in marks for result in results)
        safe = f"'{name}" if name[:1] in "=+-@" else name
        writer.writerow([safe, *(f"{x:g}" for x in (*points, sum(points), full))])
    return text.getvalue().rstrip("\n")


WRITERS = {"text": (plain, ".txt"), "gradescope": (gradescope, ".json"), "junit": (junit, ".xml")}


# ---------------------------------------------------------------- the command


def read_options(arguments):
    """The command's options."""
    parser = argparse.ArgumentParser(
        prog="./learn grade",
        description="Marks a submission, or a folder of them, without a network and within "
        "limits of time and memory.",
    )
    add = parser.add_argument
    words = f"of one student, or of several ({student.WORK})"
    add("folder", nargs="?", default=student.WORK, help=words)
    words = "only these, or lessons; default: every exercise that was handed in"
    add("--exercises", nargs="+", default=[], metavar="ID", help=words)
    add("--format", choices=(*WRITERS, "csv"), default="text")
    words = "JSON: exercise -> stage -> points; 0 leaves an exercise out"
    add("--points", metavar="FILE", help=words)
    words = "file for one student and for csv, folder for several students; else printed"
    add("--output", metavar="PATH", help=words)
    words = "print the most common mistakes of all students, and no marks"
    add("--mistakes", action="store_true", help=words)
    words = "print which layers of protection this computer has, and end"
    add("--layers", action="store_true", help=words)
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
    chosen = catalogue.choose(options.exercises, root)
    if options.points:
        chosen = read_points(options.points, chosen)
    students = students_in(pathlib.Path(options.folder), chosen)
    if not options.exercises:
        chosen = [one for one in chosen if any(handed_in(path, [one]) for path in students)]
    of_class = options.mistakes or options.format == "csv"
    writer, suffix = WRITERS.get(options.format, (None, ""))
    files = [pathlib.Path(options.output) if options.output else None] * len(students)
    if options.output and len(students) > 1 and not of_class:
        files[0].mkdir(parents=True, exist_ok=True)
        names = [os.fsencode(path.name)[:200] + os.fsencode(suffix) for path in students]
        files = [files[0] / os.fsdecode(name) for name in names]
    for file in filter(None, files):
        check_writable(file)  # before the long work begins
    tools, everyone = toolchain(), []
    for submission, file in zip(students, files):
        name = printable(submission.resolve().name)
        marks = [(exercise, mark(tools, exercise, submission)) for exercise in chosen]
        everyone.append((name, marks))
        if not of_class:
            show(writer(name, marks), file)
    if of_class:
        show(mistakes(everyone) if options.mistakes else comma_separated(everyone), files[0])
    failed = any(r[0].message.startswith(NOT_GRADED) for _, marks in everyone for _, r in marks)
    return 2 if failed else 0


def show(text, file):
    """Prints a text, or writes it into a file."""
    if file:
        write_file(file, text + "\n")
    else:
        print(text, flush=True)
