"""What the tests of the classroom share."""

import contextlib
import io
import os
import unittest

from common.classroom import catalogue
from common.classroom.toolchain import Toolchain

if not all(one.has_solution for one in catalogue.exercises()):
    raise unittest.SkipTest("this copy of the course was made without solutions")
ROOT = catalogue.ROOT
BUILD = os.environ.get("FA_CLASSROOM_BUILD", str(ROOT / "build" / "learn"))


def toolchain():
    """Of the build that is tested."""
    return Toolchain(BUILD)


def exercise(name):
    """One exercise."""
    return catalogue.choose([name])[0]


def said(function, *arguments):
    """What a function returns, and what it prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        result = function(*arguments)
    return result, out.getvalue()
