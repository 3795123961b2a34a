"""Breaks a lesson's formulas, one at a time, and names the tests that notice.

    python3 -m common.testing.mutants 01_naive_attention 03_online_softmax
    python3 -m common.testing.mutants 05_flash_forward --only "step 08"    those so described
    python3 -m common.testing.mutants --fit    only whether the lists of all lessons fit the code

Each lesson lists its mutants in tests/mutants.txt, in the form of changes.py; a line @ names the
file.

The work is done in a copy of the repository, and needs `timeout` of GNU coreutils. Exit status: 0
every mutant is caught by a named test or static_assert, 1 one survives (or does not compile for
another reason, so that no test ran on it), 2 a list does not fit the code.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from common.data.changes import read_changes

ROOT = Path(__file__).resolve().parents[2]
BUILD_SECONDS, TEST_SECONDS = "600", "300"
FAILED = re.compile(r"Test\s+#\d+: (.*?) \.+\**(?:Failed|Exception|Subprocess|Timeout)")
ASSERTION = re.compile(
    r"^\S*?([^/:\s]+/[^/:\s]+:\d+):\d+: error: (?:static assertion failed|static_assert|"
    r"non-constant condition for static assertion)",
    re.M,
)


def run(seconds, *command):
    """What a command prints, and whether it succeeds; it and what it began ends when time is up."""
    command = ["timeout", "--kill-after=1", seconds, *command]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout, done.returncode == 0


def noticed(build):
    """Compiles and runs the tests: the tests that fail, or the static_asserts that stopped the
    compilation, which are tests as well; and whether it compiles."""
    cores = str(os.cpu_count())
    output, compiled = run(BUILD_SECONDS, "cmake", "--build", build, "-j", cores)
    if not compiled:
        places = dict.fromkeys(ASSERTION.findall(output))
        return [f"the compiler, at {place}" for place in places], False
    tests = ["ctest", "--test-dir", build, "-j", cores, "--timeout", "120"]
    return FAILED.findall(run(TEST_SECONDS, *tests)[0]), True


def fitting_mutants(lesson):
    """A lesson's mutants, each of which fits the code."""
    path = ROOT / lesson / "tests" / "mutants.txt"
    mutants = read_changes(path.read_text(encoding="utf-8"), path)
    for mutant in mutants:
        mutant.apply((ROOT / mutant.mark).read_text(encoding="utf-8"))
    return mutants


def test_mutants(lesson, only):
    """Prints one line for each mutant of a lesson that is so described; returns the number of
    survivors."""
    mutants = [mutant for mutant in fitting_mutants(lesson) if only in mutant.what]
    if not mutants:
        raise ValueError(f"{lesson}: no mutant is described by {only!r}")
    survivors = 0
    with tempfile.TemporaryDirectory() as scratch:
        copy, build = Path(scratch) / "copy", str(Path(scratch) / "build")
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", "build", "build-*"))
        run(BUILD_SECONDS, "cmake", "-S", str(copy / lesson), "-B", build)
        if noticed(build) != ([], True):
            raise ValueError(f"{lesson}: does not build and pass as it is")
        for mutant in mutants:
            path = copy / mutant.mark
            source = path.read_text(encoding="utf-8")
            path.write_text(mutant.apply(source), encoding="utf-8")
            caught, compiled = noticed(build)
            path.write_text(source, encoding="utf-8")
            survivors += not caught
            verdict = "caught by" if caught else "SURVIVES" if compiled else "DOES NOT COMPILE"
            print(f"{lesson}: {mutant.what}: {verdict}", *caught[:3], sep="\n    ", flush=True)
            if len(caught) > 3:
                print(f"    and {len(caught) - 3} more")
    return survivors


def main():
    parser = argparse.ArgumentParser(prog="mutants.py", description=__doc__.split("\n")[0])
    parser.add_argument("lessons", nargs="*", metavar="LESSON", help="its folder")
    parser.add_argument("--only", default="", metavar="TEXT", help="those whose description has it")
    parser.add_argument("--fit", action="store_true", help="whether all lists fit the code")
    given = parser.parse_args()
    try:
        if given.fit:
            lists = sorted(ROOT.glob("*/tests/mutants.txt"))
            fitting = sum(len(fitting_mutants(path.parents[1].name)) for path in lists)
            print(f"{fitting} mutants fit the code")
            return 0
        if not given.lessons:
            raise ValueError("takes lessons, or --fit")
        survivors = sum(test_mutants(lesson, given.only) for lesson in given.lessons)
    except (OSError, ValueError) as error:
        print(f"mutants.py: {error}", file=sys.stderr)
        return 2
    print(f"{survivors} mutants survive" if survivors else "every mutant is caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
