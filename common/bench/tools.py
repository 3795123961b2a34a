"""What NVIDIA's tools say of two steps of lesson 05, kept as they print it.

    python3 -m common.bench.tools [--json FILE] [--commit ID]
    python3 -m common.bench.tools --table FILE
    python3 -m common.bench.tools --show FILE NAME

The first form writes the steps as one file each (./learn flatten), compiles them, and runs each
command of SESSIONS. The second prints a record, the third one session of it.

Exit status: 0 done, 2 a tool or the record is not as expected, 77 nvcc, a tool or a GPU is missing.
"""

import pathlib
import re
import shlex
import sys
import tempfile

from common.bench import recorder
from common.bench.recorder import compiled
from common.data.records import Problem, rows_with, source_lines
from common.flatten import flatten
from common.lab import nvidia_tools

LESSON = "05_flash_forward"
SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
BARRIER = "__syncthreads();  // all warps are done with the tiles"
# {name: (step, the line of its file that is left out, the command behind which its program stands)}
SESSIONS = {
    "wavefronts_05": ("05_tensor_cores", "", f"ncu -c 1 --metrics {SHARED},{CONFLICTS}"),
    "wavefronts_06": ("06_swizzle", "", f"ncu -c 1 --metrics {SHARED},{CONFLICTS}"),
    "races_05": ("05_tensor_cores", "", "compute-sanitizer --tool racecheck"),
    "races_no_barrier": (
        "05_tensor_cores",
        BARRIER,
        "compute-sanitizer --tool racecheck --print-limit 1",
    ),
}
# What says nothing of the kernel: processes and progress, and each further access of a race.
NOISE = re.compile(
    r"==PROF==|\[\d+\]|=+\s*$|=+ +(and|COMPUTE-|Target)|PASS|no mask|causal mask"
    r"|\s*(Section:|Metric Name|-+ -|$)"
)


def file_of(name):
    """The name of the file that a session compiles."""
    step, left_out, _ = SESSIONS[name]
    return f"step{step[:2]}{'_broken' if left_out else ''}"


def record_session(name, folder, nvcc):
    """A row of the record."""
    step, left_out, command = SESSIONS[name]
    text, program = flatten.flatten(LESSON, step), folder / file_of(name)
    if left_out and text.count(left_out) != 1:
        raise Problem(f"{step} has not one line '{left_out}'")
    compiled(nvcc, text.replace(left_out, "") if left_out else text, program, "-lineinfo")
    outcome = nvidia_tools.run([*shlex.split(command), program])
    lines = [line.rstrip() for line in outcome.output.splitlines() if not NOISE.match(line)]
    if not lines:
        raise Problem(f"{command} failed: {outcome.last_words()}")
    return {"what": "session", "name": name, "ran": f"{command} ./{program.name}", "lines": lines}


def shown(record, name, with_source=True):
    """Lines of a session: the command, and what it printed."""
    (row,) = rows_with(record, what="session", name=name)
    lines = [line for line in row["lines"] if not NOISE.match(line)]
    return [f"$ {row['ran']}", *lines, *(source_lines(record) if with_source else [])]


def points(_):
    return {name: {"name": name} for name in SESSIONS}


def measure(nvcc, names):
    """A row for each session."""
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            yield [record_session(name, pathlib.Path(folder), nvcc)]


def table(record, _):
    """Lines of a record."""
    lines = [line for name in SESSIONS for line in [*shown(record, name, False), ""]]
    return lines + source_lines(record)


def main(arguments):
    tools = ("ncu", "compute-sanitizer")
    return recorder.main(arguments, "tools", points, measure, table, tools, show=shown)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
