"""Writes a step of a ladder as one CUDA file, which nvcc compiles without the repository.

    python3 -m common.flatten.flatten [LESSON [STEP]] [--out FILE]    for example: 05 08

Without a step it lists those that there are. The file is build/flatten/LESSON/STEP.cu, or FILE. It
holds the step and every file of the course that it includes, each once, in place of its first
#include; then the lesson's src/one_problem.cuh, whose main() reads the step's row: it fills inputs,
launches, and compares with plain loops.

Exit status: 0 the file is written, 2 there is no such step or no place for it.
"""

import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The host's side by CUDA alone, and nothing of the lab.
REPLACED = {
    "common/gpu/launch.cuh": "common/flatten/host.cuh",
    "common/gpu/tensor_map.cuh": "common/flatten/tensor_map.cuh",
}
LEFT_OUT = re.compile(r".*_lab\.hpp|fmt/.*")


def lessons():
    """Lessons whose steps can be written."""
    return sorted(path.parts[-3] for path in ROOT.glob("0*_*/src/one_problem.cuh"))


def steps(lesson):
    """Names of a lesson's steps."""
    return sorted(path.stem for path in (ROOT / lesson / "kernels").glob("[0-9]*.cuh"))


def find(kind, wanted, names):
    """The one of the names that is wanted, given that or its number."""
    for name in names:
        if wanted in (name, name[:2], name[:2].lstrip("0")):
            return name
    raise LookupError(f"there is no {kind} '{wanted}'; allowed are {', '.join(names)}")


def inlined(path, seen):
    """The text of a file, with the files that it includes in their places, each once."""
    path = REPLACED.get(path, path)
    if path in seen or LEFT_OUT.fullmatch(path):
        return ""
    seen.add(path)

    def included(found):
        own = found[1] == '"' or LEFT_OUT.fullmatch(found[2])
        return inlined(found[2], seen) if own else found[0]

    text = (ROOT / path).read_text(encoding="utf-8")
    text = re.sub(r"^#pragma once\n|^ *//! \[\w+\]\n|^ *// clang-format .*\n", "", text, flags=re.M)
    text = re.sub(r'^#include ([<"])([^">]+)[">].*\n', included, text, flags=re.M)
    return f"// ---- {path} ".ljust(78, "-") + f"\n{text.strip()}\n\n"


def flatten(lesson, step):
    """The text of the file for a step, given full names."""
    seen, own = set(), f"{lesson}/kernels/{step}.cuh"
    text = inlined(own, seen) + inlined(f"{lesson}/src/one_problem.cuh", seen)
    sm = "90a" if "common/gpu/hopper.cuh" in seen else "80"
    sm = "100a" if "common/gpu/blackwell.cuh" in seen else sm
    command = f"nvcc -arch=sm_{sm} --expt-relaxed-constexpr {step}.cu -o {step} && ./{step}"
    return (
        f"// Step {step} of lesson {lesson} in one file, written by ./learn flatten.\n"
        f"//   {command}\n#pragma nv_diag_suppress 177  // constants that it does not use\n"
        f"#define FA_STEP {int(step[:2])}\n\n{text}"
    )


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("lesson", nargs="?", help="number or name")
    parser.add_argument("step", nargs="?", help="number or name")
    parser.add_argument("--out", type=pathlib.Path, metavar="FILE", help="the file to write")
    given = parser.parse_args(arguments)
    try:
        chosen = [find("lesson", given.lesson, lessons())] if given.lesson else lessons()
        if given.step is None:
            print(*(f"{name[:2]} {step}" for name in chosen for step in steps(name)), sep="\n")
            return 0
        lesson, step = chosen[0], find("step", given.step, steps(chosen[0]))
        text = flatten(lesson, step)
        out = given.out or ROOT / "build" / "flatten" / lesson / f"{step}.cu"
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, encoding="utf-8")
    except (LookupError, OSError) as error:
        print(f"learn: {error}", file=sys.stderr)
        return 2
    print(f"{out}: {len(text.splitlines())} lines")
    options, program = re.search(r"-arch.*constexpr", text)[0], out.with_suffix("")
    print(f"Compile and run it: nvcc {options} {out} -o {program} && {program}")
    if "-arch=sm_100a" not in options:  # the lab has tcgen05 as functions, not as PTX
        print(f"Without a GPU: ./learn lab {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
