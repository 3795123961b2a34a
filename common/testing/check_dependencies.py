"""Fails on a dependency that docs/contributing.md, section "Dependencies", forbids.

    python3 -m common.testing.check_dependencies [--root DIRECTORY]

Reads every #include and #if in C++ and CUDA, and every import in Python. Exit status: 0 no rule is
broken, 1 at least one is, 2 there is nothing to check.
"""

import argparse
import pathlib
import re
import sys

SOURCE = re.compile(r"(?!build|my_exercises/|\.).*\.(cpp|hpp|h|cu|cuh|py)")
USED = re.compile(  # what a line includes or imports
    r'\s*#\s*include\s*["<](?P<file>[^">]+)|\s*(?:from|import) +(?P<module>[\w.]+)'
    r'( +import +(?P<name>\w+))?|.*import_module\("(?P<named>[\w.]+)"'
)
MADE = re.compile(r"student/|steps/")  # the build writes these files
GPU, LAB, ATTENTION = "common/gpu/", "common/lab/", "common/attention/"
# Name, what it says, and whether it forbids the file `a` to use `b`.
RULES = [
    ("lesson", "a lesson uses common and earlier lessons only",
     lambda a, b: lesson(a) and not b.startswith("common/") and not 0 < lesson(b) <= lesson(a)),
    ("common", "common uses no lesson and nothing of docs",
     lambda a, b: a.startswith("common/") and not b.startswith("common/")),
    ("foundation", "common/tensor and common/check use neither common/gpu nor common/lab",
     lambda a, b: a.startswith(("common/tensor/", "common/check/")) and b.startswith((GPU, LAB))),
    ("surface", "common/gpu uses common/lab only in its half for the lab, *_lab.hpp",
     lambda a, b: a.startswith(GPU) and b.startswith(LAB) and not a.endswith("_lab.hpp")),
    ("kernel", "a kernel uses common/gpu, common/attention and its own lesson's kernels only",
     lambda a, b: kernels(a) not in ("", kernels(b)) and not b.startswith((GPU, ATTENTION))),
    ("step", "a numbered kernel uses earlier numbers only",
     lambda a, b: kernels(a) == kernels(b) and 0 < step(a) <= step(b)),
]  # fmt: skip
# The same for the text of a line.
LINES = [
    ("root", "an include and an import begin at the repository's root",
     lambda a, line: re.match(r"\s*from \.\.", line) if a.endswith(".py") else lost(line)),
    ("backend", "only common/gpu, tests and the classroom's lab ask which backend it is",
     lambda a, line: re.match(r"\s*#\s*(el)?if", line) and not a.startswith(GPU)
     and "/tests/" not in a and a != "common/classroom/launches.cpp"
     and re.search(r"\b(__CUDA\w*|__NVCC__|CUDART_VERSION|FA_(LAB|CUDA|GPU)\w*)\b", line)),
    ("path", "Python programs run in the repository's root and change no path",
     lambda a, line: a.endswith(".py") and "/testing/" not in a
     and re.search(r"\bsys\.path\b|from sys import.*\bpath\b|[\"']PYTHONPATH", line)),
]  # fmt: skip
root = pathlib.Path()


def lesson(path):
    """The number of the lesson that `path` is in, or 0."""
    return int(path[:2]) if re.match(r"0\d_\w+/", path) else 0


def kernels(path):
    """The lesson whose kernels, or library of kernels, have `path`, or ""."""
    found = re.match(r"(0\d_\w+/)(kernels|library)/", path)
    return found[1] if found else ""


def step(path):
    """The number of a kernel, or 0 for a file that several share."""
    found = re.match(r"0\d_\w+/kernels/(\d\d)_", path)
    return int(found[1]) if found else 0


def lost(line):
    """Whether it includes a file that is not there, except for what the build writes."""
    used = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
    return used and not MADE.match(used[1]) and not (root / used[1]).is_file()


def target(line):
    """The file or folder of the repository that a line uses, or ""."""
    used = USED.match(line)
    if not used:
        return ""
    module = used["module"] or used["named"] or ""
    modules = [name.replace(".", "/") for name in (f"{module}.{used['name']}", module)]
    for name in [used["file"], *modules]:
        if name and any((root / (name + end)).exists() for end in ("", ".py")):
            return name if used["file"] else name + "/"
    return ""


def check(name):
    """A message for each line of a file that breaks a rule."""
    lines = (root / name).read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        for rest in lines[number:]:
            if not line.endswith("\\"):
                break
            line = line[:-1] + rest
        used = target(line) if name.endswith(".py") or "include" in line else ""
        broken = [rule for rule in RULES if used and rule[2](name, used)]
        for rule, says, _ in broken + [rule for rule in LINES if rule[2](name, line)]:
            yield f"{name}:{number}: {' '.join(line.split())}: {says} [{rule}]"


def main(arguments):
    global root
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, metavar="DIRECTORY",
                        default=pathlib.Path(__file__).resolve().parents[2])  # fmt: skip
    root = parser.parse_args(arguments).root.resolve()
    names = [path.relative_to(root).as_posix() for path in sorted(root.rglob("*.*"))]
    names = [name for name in names if SOURCE.fullmatch(name)]
    broken = [message for name in names for message in check(name)]
    print(*broken, f"{len(names)} files, {len(broken)} forbidden dependencies", sep="\n")
    return 2 if not names else 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
