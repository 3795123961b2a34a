"""./learn classroom, for teachers: export writes a course repository, gate tests the graders."""

import argparse
import functools
import json
import os
import pathlib
import shutil
import subprocess
import time

from common.classroom import catalogue, grading
from common.classroom.catalogue import Fault
from common.data.files import write_file

# ---------------------------------------------------------------- the gate


def grade_case(tools, exercise, kind, name, answer, stage="", says=""):
    """Grades one answer; returns its name, what became of it, and the fault if it is not as meant.

    @param kind  start, solution, right or wrong
    @param stage that must refuse it, with a message that holds `says`
    """
    results = grading.grade(tools, exercise, answer, stop=kind != "start")
    refusal = next((result for result in results if result.verdict == "refused"), None)
    passed = [result.name for result in results[1:] if result.passed]
    fault, message = "", " ".join(refusal.message.split()) if refusal else "passes"
    if kind in ("solution", "right"):
        fault = f"must pass, and {refusal.name} says: {message}" if refusal else ""
    elif not refusal or refusal.name != stage or " ".join(says.split()) not in message:
        by = f"{refusal.name} says: {message}" if refusal else "it passes"
        fault = f"must be refused by {stage} with '{says}', and {by}"
    elif kind == "start" and passed != exercise.start_passes:
        fault = f"start_passes is {exercise.start_passes}, and the start passes {passed}"
    return name, refusal.name if refusal else "passes", message, fault


def grade_all(tools, exercise):
    """Grades all answers to an exercise."""
    case = functools.partial(grade_case, tools, exercise)
    solution = grading.solution(tools, exercise)
    found = [
        case("start", "the start", exercise.start(), *exercise.start_fails),
        case("solution", "the solution", solution),
    ]
    if len(exercise.hints()) != 3:
        found.append(("hints", "", "", f"three are needed, and there are {len(exercise.hints())}"))
    for name, answer in exercise.right_answers():
        found.append(case("right", name, answer))
    for name, _about, stage, says, answer in grading.wrong_answers(tools, exercise):
        found.append(case("wrong", name, answer, stage, says))
    return found


def unlisted(root):
    """Faults: folders of exercises that the lesson's lesson.json does not have."""
    tasks = {task.parent for task in root.glob("[0-9][0-9]_*/exercises/*/task.md")}
    missing = tasks - {exercise.folder for exercise in catalogue.exercises(root)}
    return [f"{folder} is not listed in lesson.json" for folder in sorted(missing)]


def gate(arguments, root, toolchain):
    """Runs the gate; returns 0 when all holds."""
    parser = argparse.ArgumentParser(
        prog="./learn classroom gate", description="Tests the graders with right and wrong answers."
    )
    add = parser.add_argument
    add("names", nargs="*", metavar="ID", help="only these exercises or lessons")
    add("--seed", help="the variants that a class with this seed has")
    add("--jobs", type=int, default=os.cpu_count() or 1, help="exercises at a time")
    add("--messages", action="store_true", help="print the message of each refusal")
    options = parser.parse_args(arguments)
    chosen = catalogue.choose(options.names, root, options.seed)
    if not all(exercise.has_solution for exercise in chosen):
        print("This copy of the course was made without solutions: there is nothing to test with.")
        return 77
    began, count, faults = time.monotonic(), 0, unlisted(root)
    work = functools.partial(grade_all, toolchain())
    for at, rows in grading.side_by_side(work, chosen, options.jobs):
        print(f"\n{chosen[at].id}")
        count += len(rows)
        for name, caught, message, fault in rows:
            print(f"  {name:<32} {caught}{'  FAULT' if fault else ''}")
            if options.messages and caught != "passes":
                print(f"      {message[:90]}")
            if fault:
                faults.append(f"{chosen[at].id}, {name}: {fault}")
    seconds = time.monotonic() - began
    print(f"\n{len(chosen)} exercises, {count} answers, {len(faults)} faults, {seconds:.0f} s")
    print("\n".join(f"FAULT: {fault}" for fault in faults))
    return 1 if faults else 0


# ---------------------------------------------------------------- the export


def files_of(root):
    """What git tracks, or without git everything but builds and a student's work."""
    if (root / ".git").exists() and shutil.which("git"):
        words = ["git", "-C", str(root), "ls-files", "-z"]
        listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        found = [path for path in listed.split("\0") if path]
    else:
        skip = {"build", "my_exercises", "__pycache__"}
        paths = [path.relative_to(root) for path in root.rglob("*")]
        found = [str(path) for path in paths if not skip & set(path.parts)]
    return [path for path in found if (root / path).is_file()]


def export(arguments, root, _toolchain):
    """Writes the copy; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="./learn classroom export", description="Writes a course repository."
    )
    add = parser.add_argument
    add("folder", metavar="DIR", help="that is made, or is empty")
    words = "leave out the solutions and wrong answers of exercises"
    add("--without-solutions", action="store_true", help=words)
    words = "gives this class its own numbers in the exercises that have variants"
    add("--seed", metavar="WORD", default="", help=words)
    options = parser.parse_args(arguments)
    target, bare = pathlib.Path(options.folder), options.without_solutions
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise Fault(f"'{target}' exists and is not empty")
    if root == target.resolve() or root in target.resolve().parents:
        raise Fault(f"'{target}' lies in the course itself; choose a folder outside of it")
    for name in files_of(root):
        to = target / name
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, to)
    if bare or options.seed:
        settings = {"seed": options.seed, "solutions": not bare}
        write_file(target / catalogue.SETTINGS, json.dumps(settings) + "\n")
    if bare:
        for exercise in catalogue.exercises(root, options.seed or None):
            to = target / exercise.grader.relative_to(root)
            to.write_text(exercise.without_solution(), encoding="utf-8")
        print(
            "Without solutions. The lessons' own code is in it, and with it the lines that fill "
            "the holes: a lesson is a worked example."
        )
    print(f"Next: cd {target} && git init && git add -A && git commit -m 'The course'")
    return 0
