"""./learn classroom export: writes a course repository."""

import argparse
import json
import pathlib
import shutil
import subprocess
import zipfile

from common.classroom import catalogue
from common.classroom.catalogue import Fault
from common.classroom.plan import Plan, files
from common.data.files import write_file


def files_of(root):
    """What git tracks, or without git everything but builds and a student's work."""
    listed = None
    if (root / ".git").exists() and shutil.which("git"):
        listed = subprocess.run(
            ["git", "-C", str(root), "ls-files", "-z"], capture_output=True, text=True
        )
    if listed is not None and listed.returncode == 0:
        return [path for path in listed.stdout.split("\0") if path]
    skip = ("build", "my_exercises", ".git", "__pycache__")
    return [
        str(path.relative_to(root))
        for path in sorted(root.rglob("*"))
        if path.is_file()
        and not any(
            part in skip or part.startswith("build-") for part in path.relative_to(root).parts
        )
    ]


def packed(folder, file):
    """Packs the content of a folder, with the modes of its files."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(folder))


def parsed(arguments):
    """The options."""
    parser = argparse.ArgumentParser(
        prog="./learn classroom export", description="Writes a course repository."
    )
    parser.add_argument("folder", metavar="DIR", help="that is made, or is empty")
    parser.add_argument(
        "--without-solutions",
        action="store_true",
        help="leave out the solutions and wrong answers of exercises",
    )
    parser.add_argument(
        "--seed",
        metavar="WORD",
        default="",
        help="gives this class its own numbers in the exercises that have variants",
    )
    parser.add_argument(
        "--class",
        dest="plan",
        metavar="FILE",
        help="weeks, dates and weights: adds a schedule, a handout, and autograders for Gradescope "
        "and GitHub Classroom; without solutions, with the seed of FILE",
    )
    parser.add_argument(
        "--zip",
        metavar="FILE",
        help="packs the copy as well: with --class, what Gradescope takes as an autograder",
    )
    return parser.parse_args(arguments)


def copy_files(root, target, options, plan):
    """Copies what git knows, except what the options leave out; returns how many files."""
    count = 0
    for name in files_of(root):
        path = pathlib.PurePosixPath(name)
        if plan and path.parts[:2] == (".github", "workflows"):
            continue  # those of the course itself
        if options.without_solutions and "exercises" in path.parts and path.name == "frame.txt":
            continue
        if not (root / name).exists():
            continue
        to = target / name
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, to)
        count += 1
    return count


def main(arguments, root, _toolchain):
    """Writes the copy; returns the exit status."""
    options = parsed(arguments)
    plan = Plan(options.plan, catalogue.exercises(root)) if options.plan else None
    if plan:
        options.without_solutions, options.seed = True, options.seed or plan.seed
        plan = Plan(options.plan, catalogue.exercises(root, options.seed or None))
    target = pathlib.Path(options.folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise Fault(f"'{target}' exists and is not empty")
    if root == target.resolve() or root in target.resolve().parents:
        raise Fault(f"'{target}' lies in the course itself; choose a folder outside of it")
    count = copy_files(root, target, options, plan)
    if options.seed:
        write_file(target / catalogue.SEED, json.dumps({"seed": options.seed}) + "\n")
    for name, text in files(plan).items() if plan else ():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        write_file(target / name, text)
        (target / name).chmod(0o755 if text.startswith("#!") else 0o644)
        count += 1
    starts = 0
    if options.without_solutions:
        for exercise in catalogue.exercises(root, options.seed or None):
            to = target / exercise.folder.relative_to(root) / "start.txt"
            to.write_text(exercise.start(), encoding="utf-8")
            starts += 1
    if options.zip:
        packed(target, options.zip)
    print(
        f"{count + starts} files in {target}"
        + (", without solutions" if options.without_solutions else "")
    )
    if options.without_solutions:
        print(
            "The lessons' own code is in it, and with it the lines that fill the holes: a "
            "lesson is a worked example."
        )
    print(f"Next: cd {target} && git init && git add -A && git commit -m 'The course'")
    return 0
