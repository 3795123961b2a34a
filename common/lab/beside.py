"""Runs labelled CUDA files in the lab and on a GPU, there alone and under NVIDIA's
compute-sanitizer: do their outputs agree, which tool finds what, and how long does it take?

    python3 -m common.lab.beside FOLDER LABELS --json RECORD    as of common.lab.suite
    python3 -m common.lab.beside --table RECORD

The lab must have been built by `./learn lab`; nvcc, compute-sanitizer and a GPU are needed. Files
that are labelled as endless do not run on the GPU. Exit status: 0; 1 where a file without a mistake
gives another output on the GPU, or none; 2 bad use.
"""

import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile
import time

from common.data import records
from common.lab import nvidia_tools, suite
from common.lab.cuda import lab

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
ENDLESS = {"spin", "time-limit", "deadlock"}
SECONDS = 60
UNWATCHED = {"-fsanitize=thread"}  # without it the compiler inserts no calls of the observer


def timed(function):
    """(result, seconds) of a call."""
    begin = time.monotonic()
    result = function()
    return result, round(time.monotonic() - begin, 3)


def in_the_lab(compiler, path, scratch):
    """(result, seconds) of a file's run."""
    program = compiler.compile([path], scratch)
    return timed(
        lambda: lab.run(program, [], path.parent, SECONDS, subprocess.PIPE, subprocess.DEVNULL)
    )


def reports(tool, program):
    """(whether a tool of compute-sanitizer reports something, seconds)."""
    outcome, seconds = timed(
        lambda: nvidia_tools.run(["compute-sanitizer", "--tool", tool, program], SECONDS)
    )
    lines = [line for line in outcome.output.splitlines() if "SUMMARY: " in line]
    if not lines:
        return None, seconds
    return any(line.split("SUMMARY: ")[1].split()[0] != "0" for line in lines), seconds


def measure(compiler, folder, label, scratch):
    """A row of the record."""
    path = (folder / label.name).resolve()
    watched, seconds = in_the_lab(compiler, path, scratch)
    row = {"what": "file", "file": label.name, "expected": sorted(label.lines),
           "lab": watched.kinds, "seconds": {"watched lab": seconds}}  # fmt: skip
    flags = compiler.command
    compiler.command = [flag for flag in flags if flag not in UNWATCHED]
    if not label.lines:
        plain, seconds = in_the_lab(compiler, path, scratch)
        if plain.status == 0:  # a loop that waits for a flag needs the observer, which yields
            row["seconds"]["lab"] = seconds
    compiler.command = flags
    program = scratch / "on_gpu"
    command = ["nvcc", "-O2", "-lineinfo", "-std=c++17", "-arch=native", path, "-o", program]
    compiled = nvidia_tools.run(command, 300)
    if compiled.status != 0:
        row["error"] = compiled.last_words()
    elif not ENDLESS & set(label.lines):
        nvidia_tools.run([program], SECONDS)  # warm-up
        outcome, row["seconds"]["GPU"] = timed(lambda: nvidia_tools.run([program], SECONDS))
        if not label.lines:
            row["same_output"] = outcome.status == 0 and outcome.output == watched.output
        # Where times are shown one runs after the other.
        with concurrent.futures.ThreadPoolExecutor(4 if label.lines else 1) as pool:
            found = dict(zip(TOOLS, pool.map(lambda tool: reports(tool, program), TOOLS)))
        row["compute-sanitizer"] = [tool for tool, (any_report, _) in found.items() if any_report]
        row["seconds"].update({tool: seconds for tool, (_, seconds) in found.items()})
    return row


def table(record):
    """Two tables: files without a mistake, and the others."""
    rows = record["measurements"]
    names = ("lab", "watched lab", "GPU", "memcheck", "racecheck")
    right = [["file, s", "same output", *names]]
    broken = [["file", "the lab", "compute-sanitizer"]]
    for row in rows:
        name = pathlib.PurePath(row["file"]).stem
        if row["expected"]:
            theirs = row.get("compute-sanitizer")
            broken.append([name, ", ".join(row["lab"]) or "-",
                           "not run" if theirs is None else ", ".join(theirs) or "-"])  # fmt: skip
        else:
            times = [f"{row['seconds'][n]:.2f}" if n in row["seconds"] else "-" for n in names]
            right.append([name, "yes" if row.get("same_output") else "no", *times])
    end = f"{record['gpu']}, {record['toolkit']}, commit {record['commit']}, {record['date']}"
    tables = ["\n".join(records.aligned(cells, 1)) for cells in (right, broken) if len(cells) > 1]
    return "\n\n".join([*tables, end])


def head_of_record(commit):
    def words(*command):
        try:
            lines = nvidia_tools.run(command).output.splitlines()
            return next(line for line in lines if "release" in line or len(lines) == 1)
        except (OSError, StopIteration):
            return ""

    return {
        "gpu": words("nvidia-smi", "--query-gpu=name", "--format=csv,noheader"),
        "toolkit": words("nvcc", "--version"),
        "commit": commit,
        "date": time.strftime("%Y-%m-%d"),
        "command": "python3 -m " + " ".join(["common.lab.beside", *map(str, sys.argv[1:])]),
    }


def run_files(options, folder, labels, compiler):
    """Runs the files and prints a row of the record for each."""
    rows = []
    for label in labels:
        with tempfile.TemporaryDirectory(prefix="lab-") as scratch:
            rows.append(measure(compiler, folder, label, pathlib.Path(scratch)))
        print(json.dumps(rows[-1]), flush=True)
    right = all(row.get("same_output", True) and "error" not in row for row in rows)
    return head_of_record(options.commit), rows, right


if __name__ == "__main__":
    options = suite.parser("common.lab.beside", __doc__)
    options.add_argument("--commit", default="", help="of the code, for the record")
    sys.exit(suite.main(sys.argv[1:], options, table, run_files))
