"""Breaks a lesson's formulas, one at a time, and names the tests that notice.

    python3 -m common.testing.mutants 01_naive_attention 03_online_softmax
    python3 -m common.testing.mutants --fit          only whether the lists of all lessons fit the
    code

Each lesson lists its mutants in tests/mutants.txt, in the form of changes.py; a line @ names the
file.

The work is done in a copy of the repository. Exit status: 0 every mutant is caught by a named test
or static_assert, 1 one survives (or does not compile for another reason, so that no test ran on
it), 2 a list does not fit the code.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from common.data.changes import read_changes

ROOT = Path(__file__).resolve().parents[2]
BUILD_SECONDS, TEST_SECONDS = 600, 300


def run(command, seconds, **options):
    """As subprocess.run(), with what was printed until then when time is up; nothing that it began
    goes on."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    )
    try:
        output, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return subprocess.CompletedProcess(command, 124, process.communicate()[0], "")
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def failing_tests(build):
    """Names of the ctest tests that fail."""
    result = run(
        ["ctest", "--test-dir", build, "-j", str(os.cpu_count()), "--timeout", "120"], TEST_SECONDS
    )
    return re.findall(
        r"Test\s+#\d+: (.*?) \.+\**(?:Failed|Exception|Subprocess|Timeout)", result.stdout
    )


def failing_assertions(compilation):
    """Where the static_asserts stand that stopped a compilation: they are tests as well."""
    places = re.findall(
        r"^(\S+:\d+):\d+: error: (?:static assertion failed|non-constant condition for static "
        r"assertion"
        r"|static_assert failed|static_assert expression is not an integral constant expression)",
        compilation.stdout + compilation.stderr,
        re.M,
    )
    return [
        f"the compiler, at {'/'.join(place.split('/')[-2:])}" for place in dict.fromkeys(places)
    ]


def fitting_mutants(lesson):
    """A lesson's mutants, each of which fits the code."""
    path = ROOT / lesson / "tests" / "mutants.txt"
    mutants = read_changes(path.read_text(encoding="utf-8"), path)
    for mutant in mutants:
        mutant.apply((ROOT / mutant.mark).read_text(encoding="utf-8"))
    return mutants


def test_mutants(lesson):
    """Prints one line for each mutant of a lesson; returns the number of survivors."""
    mutants = fitting_mutants(lesson)  # all of them, before the long work begins
    survivors = 0
    with tempfile.TemporaryDirectory() as scratch:
        copy, build = Path(scratch) / "copy", str(Path(scratch) / "build")
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", "build", "build-*"))
        configured = run(["cmake", "-S", str(copy / lesson), "-B", build], BUILD_SECONDS)
        compile_all = ["cmake", "--build", build, "-j", str(os.cpu_count())]
        if (
            configured.returncode
            or run(compile_all, BUILD_SECONDS).returncode
            or failing_tests(build)
        ):
            raise ValueError(f"{lesson}: does not build and pass as it is")
        for mutant in mutants:
            path = copy / mutant.mark
            source = path.read_text(encoding="utf-8")
            path.write_text(mutant.apply(source), encoding="utf-8")
            compilation = run(compile_all, BUILD_SECONDS)
            compiled = compilation.returncode == 0
            caught = failing_tests(build) if compiled else failing_assertions(compilation)
            path.write_text(source, encoding="utf-8")
            survivors += not caught
            verdict = "caught by" if caught else "SURVIVES" if compiled else "DOES NOT COMPILE"
            print(f"{lesson}: {mutant.what}: {verdict}")
            for name in caught[:3]:
                print(f"    {name}")
            if len(caught) > 3:
                print(f"    and {len(caught) - 3} more")
            sys.stdout.flush()
    return survivors


def main(lessons):
    only_fit = lessons == ["--fit"]
    if only_fit:
        lessons = sorted(path.parents[1].name for path in ROOT.glob("*/tests/mutants.txt"))
    if not lessons or any(
        not (ROOT / lesson / "tests" / "mutants.txt").exists() for lesson in lessons
    ):
        print(
            "usage: mutants.py --fit, or mutants.py LESSON..., each a directory with "
            "tests/mutants.txt",
            file=sys.stderr,
        )
        return 2
    try:
        if only_fit:
            print(f"{sum(len(fitting_mutants(lesson)) for lesson in lessons)} mutants fit the code")
            return 0
        survivors = sum(test_mutants(lesson) for lesson in lessons)
    except ValueError as error:
        print(f"mutants.py: {error}", file=sys.stderr)
        return 2
    print(f"{survivors} mutants survive" if survivors else "every mutant is caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
