"""What a student opens to understand a step of lessons 04 to 06: the files of lessons and of
common/attention that it includes, itself counted.

    python3 -m common.testing.closure            every step: files and lines
    python3 -m common.testing.closure 06 18      the files of one step

The test common.closure_py compares with closure.txt, which has each step's limits.
Exit status: 0 success, 2 there is no such step.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMITS = pathlib.Path(__file__).with_name("closure.txt")


def steps(root=ROOT):
    """Paths of all steps, from the root."""
    return sorted(
        path.relative_to(root).as_posix() for path in root.glob("0*/kernels/**/[0-9]*.cuh")
    )


def closure(start, root=ROOT):
    """{file: lines} of `start` and of what it includes of lessons and common/attention."""
    seen, todo, mine = set(), [start], {}
    while todo:
        name = todo.pop(0)
        if name in seen or not (root / name).is_file():
            continue
        seen.add(name)
        text = (root / name).read_text(encoding="utf-8")
        todo += re.findall(r'^#\s*include "([^"]+)"', text, re.M)
        if re.match(r"0\d_|common/attention/", name):
            mine[name] = len(text.splitlines())
    return mine


def limits():
    """{step: (files, lines)} of closure.txt."""
    rows = LIMITS.read_text(encoding="utf-8").splitlines()
    cells = [row.split() for row in rows if not row.startswith("#")]
    return {step: (int(files), int(lines)) for step, files, lines in cells}


def main(arguments):
    if not arguments:
        for step in steps():
            files = closure(step)
            print(step, len(files), sum(files.values()))
        return 0
    lesson, step = (argument.zfill(2)[:2] for argument in (*arguments, "", "")[:2])
    found = [name for name in steps() if re.match(rf"{lesson}_\w+/kernels/{step}_", name)]
    if len(arguments) != 2 or not found:
        print("closure: a lesson and a step are needed, such as 06 18", file=sys.stderr)
        return 2
    files = closure(found[0])
    for name, lines in files.items():
        print(f"{lines:5}  {name}")
    print(f"{sum(files.values()):5}  in {len(files)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
