"""What the tests of the classroom share."""

import os
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "common"))

from classroom import catalogue, judging  # noqa: E402

if not all(one.has_solution() for one in catalogue.exercises()):
    raise unittest.SkipTest("this copy of the course was made without solutions")
BUILD = os.environ.get("FA_CLASSROOM_BUILD", str(ROOT / "build" / "learn"))


def toolchain():
    """Of the build that is tested."""
    return judging.Toolchain(BUILD)


def exercise(name):
    """One exercise."""
    return catalogue.choose([name])[0]
