"""./learn classroom export: writes a course repository."""

import argparse
import json
import pathlib
import shutil
import subprocess

from common.classroom import catalogue
from common.classroom.catalogue import Fault
from common.data.files import write_file


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


def main(arguments, root, _toolchain):
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
        if not (bare and pathlib.Path(name).match("exercises/*/frame.txt")):
            to = target / name
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, to)
    if options.seed:
        write_file(target / catalogue.SEED, json.dumps({"seed": options.seed}) + "\n")
    for exercise in catalogue.exercises(root, options.seed or None) if bare else ():
        to = target / exercise.folder.relative_to(root) / "start.txt"
        to.write_text(exercise.start(), encoding="utf-8")
    if bare:
        print(
            "Without solutions. The lessons' own code is in it, and with it the lines that fill "
            "the holes: a lesson is a worked example."
        )
    print(f"Next: cd {target} && git init && git add -A && git commit -m 'The course'")
    return 0
