"""./learn grade: marks submissions, offline.

A submission is a folder as the student's own my_exercises: one folder for each exercise with the
student's file, or the files directly. A folder of submissions has one folder for each student.
"""

import argparse
import hashlib
import json
import os
import pathlib
import re
import sys
import time

from common.classroom import catalogue, formats, grading, sandbox, student
from common.classroom.catalogue import Fault
from common.classroom.plan import Plan
from common.classroom.stage import stages_of
from common.data.files import check_writable, printable, write_file

LONGEST = 200_000  # bytes of a student's file
# What no answer needs but an attack on the grader does: not refused, but reported to the teacher.
SUSPICIOUS = re.compile(
    r"(\bmain\s*\(|\b(?:asm|__asm__|v?fork|exec[lv]p?e?|popen|socket|syscall|ptrace|mmap|dlopen|dlsym"
    r"|fopen|fwrite|freopen|fdopen|dprintf|FA_ENTRY|fa::classroom|classroom|getenv|setenv|_?_[eE]xit"
    r"|quick_exit|atexit|include_next|__has_include|__FILE__|verdict|FA_UNWATCHED|\w*sanitize\w*)\b"
    r"|\b(?:system|kill|raise|exit|longjmp)\s*\(|<(?:unistd|fcntl|signal|csignal|thread|fstream|dirent)\b"
    r"|\bstd::j?thread\b|\blab\b|\boperator\s+(?:new|delete)\b|\bextern\s*\"C\"|##|%:|\b_Pragma\b|\bpragma\s+(?!once|unroll)\w+"
    r"|\bdefine\s+(?:private|protected)\b|/(?:proc|dev)/|\bframe\.txt|\bgrad(?:er|ing)\b"
    r"|__attribute__(?!\s*\(\(\s*(?:aligned|always_inline|noinline|unused|packed)\b)"
    r"|\bgnu::(?!aligned|always_inline|noinline|unused|packed)\w+)"
)

NOT_GRADED = "not graded, the check itself failed"
# What the compiler says of a file that is closed to submissions.
FORBIDDEN = re.compile(r"(?:fatal error:|Error:).*: Permission denied|which it may not use$")


def answer_of(submission, exercise):
    """The student's text for an exercise; None when there is none, or it is not a regular file of a
    sensible size."""
    for path in (submission / exercise.id / exercise.file, submission / exercise.file):
        try:
            # A link could show the marks the grader's own files.
            if path.is_symlink() or path.parent.is_symlink() or not path.is_file():
                continue
            if path.stat().st_size > LONGEST:
                return None
            return path.read_bytes().decode("utf-8-sig", "replace")
        except OSError:
            continue
    return None


def handed_in(folder, exercise):
    """Has a student's folder an answer to an exercise?"""
    return answer_of(folder, exercise) is not None


def is_submission(folder, exercises):
    """Whether a folder holds a student's files, rather than students."""
    return any(handed_in(folder, exercise) for exercise in exercises)


def read_points(path, exercises):
    """Applies a teacher's points: {"03_one_step": {"easy": 5}, "01_sums": 0}; 0 leaves an exercise
    out."""
    try:
        points = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Fault(f"{path} is not a file of points: {error}") from error
    by_id = {exercise.id: exercise for exercise in exercises}
    for name, value in points.items():
        if name not in by_id:
            raise Fault(f"{path}: there is no exercise '{name}'; there are {', '.join(by_id)}")
        exercise = by_id[name]
        if value == 0:
            exercises.remove(exercise)
            continue
        if not isinstance(value, dict):
            raise Fault(f"{path}: '{name}' has {value!r}; allowed are 0 and an object of stages")
        for stage, number in value.items():
            if stage not in exercise.points:
                raise Fault(
                    f"{path}: {name} has no stage '{stage}'; it has {', '.join(exercise.points)}"
                )
            if not isinstance(number, (int, float)) or isinstance(number, bool) or number < 0:
                raise Fault(f"{path}: {name}, {stage} has {number!r}; allowed are numbers from 0")
            exercise.points[stage] = number


def suspicious(answer):
    """What no answer needs, in order; comments may hold it."""
    return sorted({word.strip("( ") for word in SUSPICIOUS.findall(grading.code_of(answer))})


def mark(toolchain, exercise, submission):
    """The stages of one exercise of one student."""
    answer = answer_of(submission, exercise)
    if answer is None:
        results = stages_of(exercise)
        for result in results:
            result.message = "no submission"
        return results
    name = f"{printable(submission.name)}, {exercise.id}"
    for word in suspicious(answer):
        print(f"{name}: it has '{word}', which no answer needs; look at it", file=sys.stderr)
    try:
        results = graded(toolchain, exercise, answer)
    except Exception as error:  # whatever it is, the next submission is marked all the same
        results = stages_of(exercise)
        results[0].verdict = "refused"
        results[0].message = f"{NOT_GRADED}: {printable(repr(error))}; grade it again"
        print(f"{name}: {results[0].message}", file=sys.stderr)
    if FORBIDDEN.search(results[0].message):
        print(f"{name}: it includes a file that it may not use; look at it", file=sys.stderr)
    return results


def graded(toolchain, exercise, answer):
    """grading.marks(), tried twice: a computer that lacks something may have it a moment later."""
    try:
        return grading.marks(toolchain, exercise, answer)
    except (OSError, RuntimeError, MemoryError):
        time.sleep(3)
        return grading.marks(toolchain, exercise, answer)


def misconception(message):
    """A refusal's message without what differs between students: its case, places, numbers."""
    first = message.split("\n")[0]
    first = re.sub(r" ?\((?:allowed difference|case:)[^)]*\)", "", first)
    first = re.sub(r"my_exercises/\S+|[\w./]+\.(?:hpp|cuh|h):\d+(?::\d+)?", "FILE", first)
    return re.sub(r"; the worst is .*", "", re.sub(r"\d+ of \d+: ", "", first)).strip()


def common_mistakes(marks, most=3):
    """A report over several students: how many passed each exercise, and what was wrong most often.

    @param marks (name, [(exercise, stages)]) of each student
    @param most  so many mistakes of an exercise
    """
    tried, passed, mistakes = {}, {}, {}
    for name, exercises in marks:
        for exercise, results in exercises:
            if results[0].message == "no submission":
                continue
            tried.setdefault(exercise.id, []).append(name)
            refusals = [r for r in results if r.verdict == "refused"]
            passed[exercise.id] = passed.get(exercise.id, 0) + (not refusals)
            if refusals:
                key = (refusals[0].title, misconception(refusals[0].message))
                mistakes.setdefault(exercise.id, {}).setdefault(key, []).append(name)
    lines = ["Common mistakes"]
    for one, names in tried.items():
        lines.append(f"\n{one}: {passed[one]} of {len(names)} passed")
        found = sorted(mistakes.get(one, {}).items(), key=lambda item: (-len(item[1]), item[0]))
        for (title, says), who in found[:most]:
            lines.append(f"  {len(who):>3}  {title}: {printable(says)}")
            lines.append(f"       {printable(', '.join(sorted(who)))}")
    return "\n".join(lines)


def read_options(arguments):
    """The command's options."""
    parser = argparse.ArgumentParser(
        prog="./learn grade",
        description="Marks a submission, or a folder of them, without a network and within "
        "limits of time and memory.",
    )
    add = parser.add_argument
    add(
        "folder",
        nargs="?",
        default=student.WORK,
        help=f"of one student, or of several ({student.WORK})",
    )
    add(
        "--exercises",
        nargs="+",
        default=[],
        metavar="ID",
        help="only these, or lessons; default: every exercise that was handed in",
    )
    add("--format", choices=("text", *formats.WRITERS, *formats.OF_CLASS), default="text")
    words = "JSON: exercise -> stage -> points; 0 leaves an exercise out"
    add("--points", metavar="FILE", help=words)
    words = "a class's weeks and weights, see ./learn classroom export --help: only its exercises"
    add("--class", dest="plan", metavar="FILE", help=words)
    words = "file for one student and for csv and html, folder for several students; else printed"
    add("--output", metavar="PATH", help=words)
    words = "print the most common mistakes of all students, and no marks"
    add("--mistakes", action="store_true", help=words)
    words = "print which layers of protection this computer has, and end"
    add("--layers", action="store_true", help=words)
    return parser.parse_args(arguments)


def students_in(folder, exercises):
    """The submissions in a folder, and whether it is itself the only one."""
    if not folder.is_dir():
        raise Fault(
            f"'{folder}' is not a folder; a submission is one, with the files of the exercises"
        )
    if is_submission(folder, exercises):
        return [folder], True
    found = sorted(
        path
        for path in folder.iterdir()
        if path.is_dir() and not path.is_symlink() and not path.name.startswith(".")
    )
    if not any(is_submission(path, exercises) for path in found):
        raise Fault(f"'{folder}' has no file of these exercises, and neither has a folder in it")
    return found, False


def file_name(submission, suffix):
    """A name for a student's marks, which may be no longer than file systems allow."""
    name = os.fsencode(submission.resolve().name)
    if len(name) > 200:
        name = name[:180] + b"-" + hashlib.sha256(name).hexdigest()[:12].encode()
    return os.fsdecode(name) + suffix


def output_files(students, alone, options):
    """Where the marks of each student go; None for those that are printed. Checked before the long
    work begins."""
    if not options.output:
        return [None] * len(students)
    output = pathlib.Path(options.output)
    if options.format in formats.OF_CLASS:
        check_writable(output)
        return [None] * len(students)
    suffix = {"junit": ".xml", "text": ".txt", "rubric": ".md"}.get(options.format, ".json")
    if not alone:
        output.mkdir(parents=True, exist_ok=True)
    files = [output if alone else output / file_name(path, suffix) for path in students]
    for file in files:
        check_writable(file)
    return files


def main(arguments, root, toolchain):
    """Marks; returns the exit status: 0 when it could mark, whatever the marks are; else 2, when
    all others are marked."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    options = read_options(arguments)
    if options.layers:
        print("\n".join(sandbox.layers(toolchain().confine)))
        return 0
    chosen = catalogue.choose(options.exercises, root)
    if options.plan:
        planned = Plan(options.plan, catalogue.exercises(root)).exercises()
        chosen = [one for one in planned if one in chosen]
    if options.points:
        read_points(options.points, chosen)
    if not chosen:
        raise Fault("no exercise is left to mark")
    students, alone = students_in(pathlib.Path(options.folder), chosen)
    if not (options.exercises or options.plan):
        chosen = [one for one in chosen if any(handed_in(path, one) for path in students)]
    files = output_files(students, alone, options)
    tools, everyone, status = toolchain(), [], 0
    for submission, file in zip(students, files):
        name = printable(submission.resolve().name)
        marks = [(exercise, mark(tools, exercise, submission)) for exercise in chosen]
        everyone.append((name, marks))
        if options.mistakes or options.format in formats.OF_CLASS:
            continue
        text = formats.WRITERS.get(options.format, formats.plain)(name, marks)
        try:
            if file:
                write_file(file, text + "\n")
            else:
                print(text)
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            print(f"{name}: the marks cannot be written: {error}", file=sys.stderr)
            status = 2
        sys.stdout.flush()
    if options.mistakes:
        print(common_mistakes(everyone))
    elif options.format in formats.OF_CLASS:
        text = formats.OF_CLASS[options.format](everyone)
        if options.output:
            write_file(options.output, text + "\n")
        else:
            print(text)
    failed = any(r[0].message.startswith(NOT_GRADED) for _, marks in everyone for _, r in marks)
    return 2 if failed else status
