"""The frame of programs that compile with nvcc, ask the GPU or NVIDIA's tools, and keep what they
say as a record.

    python3 -m common.bench.PROGRAM [LESSON/STEP...] [--json FILE] [--commit ID]
    python3 -m common.bench.PROGRAM [LESSON/STEP...] --table FILE

The second form prints a record. Exit status: 0 done, 2 something cannot be compiled or fails, 3
--limit came before the last point, 77 nvcc, a tool or a GPU is missing.
"""

import argparse
import datetime
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

from common.bench import record
from common.bench.command import Failure
from common.data.records import Problem, read
from common.flatten import flatten


def run(*command):
    """What a command prints; a Problem where it fails."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        name = pathlib.Path(command[0]).name
        raise Problem(f"{name} failed:\n{done.stdout}{done.stderr}".strip())
    return done.stdout


def compiled(nvcc, text, program, *options):
    """Compiles a step's one file, whose comment names the architecture."""
    source = program.with_suffix(".cu")
    source.write_text(text, encoding="utf-8")
    run(nvcc, re.search(r"-arch=\w+", text)[0], *options, str(source), "-o", str(program))
    return str(program)


def head(nvcc, args, program):
    """What a record says of the machine and the code."""
    release = re.search(r"release ([\d.]+)", run(nvcc, "--version"))
    smi = [shutil.which("nvidia-smi"), "--query-gpu=name,driver_version", "--format=csv,noheader"]
    gpu, driver = run(*smi).splitlines()[0].rsplit(", ", 1)
    return {
        "gpu": gpu,
        "driver": driver,
        "toolkit": release[1] if release else "unknown",
        "commit": record.commit_of(args),
        "date": datetime.date.today().isoformat(),
        "command": shlex.join(["python3", "-m", f"common.bench.{program}", *sys.argv[1:]]),
    }


def main(arguments, program, points, measure, table, tools=(), steps_of=None, show=None):
    """Runs a program; returns the exit status.

    points(steps) gives {name: point} of what is measured, see Record; measure(nvcc, names) yields
    the rows of one after the other; table(record, steps) gives lines. `tools` are needed beside
    nvcc. steps_of(text) gives the steps, (lesson, step), that an argument means. show(record,
    name): lines of a part of a record, for --show.
    """
    parser = argparse.ArgumentParser(description=sys.modules[measure.__module__].__doc__)
    if steps_of:
        parser.add_argument("steps", nargs="*", metavar="LESSON/STEP", help="see above")
    record.add_options(parser)
    parser.add_argument("--table", type=pathlib.Path, metavar="FILE", help="print a record")
    if show:
        parser.add_argument("--show", nargs=2, metavar=("FILE", "NAME"), help="print one part")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    given, status = parser.parse_args(arguments), 0
    try:
        steps = [step for text in getattr(given, "steps", ()) for step in steps_of(text)]
        if given.table:
            lines = table(read(given.table), steps)
        elif show and given.show:
            lines = show(read(given.show[0]), given.show[1])
        elif given.list:
            return record.Record(given).print_list(points(steps))
        else:
            nvcc, needed = flatten.find_nvcc(), (*tools, "nvidia-smi")
            if nvcc is None or not all(map(shutil.which, needed)):
                also = ", ".join(["nvcc", *tools])
                print(f"{program}: it needs {also} and an NVIDIA GPU", file=sys.stderr)
                return 77
            kept, wanted = record.Record(given, head(nvcc, given, program)), points(steps)
            measured = measure(nvcc, [name for name in wanted if not kept.has(wanted[name])])
            for name in kept.left(wanted):
                kept.put(wanted[name], next(measured))
            status = kept.status()
            lines = table({**kept.head, "measurements": kept.rows}, steps)
        print("\n".join(lines))
    except (Failure, LookupError, Problem, TypeError, ValueError) as problem:
        print(f"{program}: {problem}", file=sys.stderr)
        return 2
    return status
