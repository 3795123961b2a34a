"""Who may include and import whom: docs/contributing.md, section "Dependencies"."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
SOURCE = re.compile(r"\.(cpp|hpp|h|cu|cuh|py)")
USES = re.compile(
    r'^\s*(?:#\s*include\s*"|(?:from|import) +)((?:0\d_\w+|common|docs)[/.][\w/.]*)', re.M
)
GPU, LAB, ATTENTION = "common/gpu/", "common/lab/", "common/attention/"


def lesson(path):
    """The number of the lesson that a path is in, or 0."""
    return int(path[:2]) if path.startswith("0") else 0


def kernels(path):
    """The lesson whose kernels, or library of kernels, have a path, or ""."""
    found = re.match(r"(0\d_\w+/)(kernels|library)/", path)
    return found[1] if found else ""


def step(path):
    """The number of a kernel, or 0 for a file that several share."""
    found = re.match(r"0\d_\w+/kernels/(\d\d)_", path)
    return int(found[1]) if found else 0


# What a rule says, and whether it forbids the file `a` to use `b`.
RULES = [
    ("a lesson uses common and earlier lessons only",
     lambda a, b: lesson(a) and not b.startswith("common/") and not 0 < lesson(b) <= lesson(a)),
    ("common uses no lesson and nothing of docs",
     lambda a, b: a.startswith("common/") and not b.startswith("common/")),
    ("common/tensor and common/check use neither common/gpu nor common/lab",
     lambda a, b: a.startswith(("common/tensor/", "common/check/")) and b.startswith((GPU, LAB))),
    ("common/gpu uses common/lab only in its half for the lab, *_lab.hpp",
     lambda a, b: a.startswith(GPU) and b.startswith(LAB) and not a.endswith("_lab.hpp")),
    ("a kernel uses common/gpu, common/attention and its own lesson's kernels only",
     lambda a, b: kernels(a) not in ("", kernels(b)) and not b.startswith((GPU, ATTENTION))),
    ("a numbered kernel uses earlier numbers only",
     lambda a, b: kernels(a) == kernels(b) and 0 < step(a) <= step(b)),
]  # fmt: skip


class Dependencies(unittest.TestCase):
    def test_no_file_breaks_a_rule(self):
        used, broken = 0, []
        folders = (folder for name in ("0*", "common", "docs") for folder in ROOT.glob(name))
        for path in (path for folder in folders for path in folder.rglob("*")):
            if not SOURCE.fullmatch(path.suffix):
                continue
            a = path.relative_to(ROOT).as_posix()
            for b in USES.findall(path.read_text(encoding="utf-8")):
                b = b if "/" in b else b.replace(".", "/") + "/"
                used += 1
                broken += [f"{a}: {b}: {says}" for says, forbids in RULES if forbids(a, b)]
        self.assertEqual(broken, [])
        self.assertGreater(used, 1000)
