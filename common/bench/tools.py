"""What NVIDIA's tools say of two steps of lesson 05, kept as they print it.

    python3 -m common.bench.tools [--json FILE] [--commit ID]
    python3 -m common.bench.tools --table FILE
    python3 -m common.bench.tools --show FILE NAME

The first form writes the steps as one file each (./learn flatten), compiles them, and runs each
command of SESSIONS. The second prints a record, the third one session of it.

Exit status: 0 done, 2 a tool or the record is not as expected, 77 nvcc, a tool or a GPU is missing.
"""

import argparse
import pathlib
import re
import shlex
import shutil
import sys
import tempfile

from common.bench.ablations import head
from common.data.files import write_file
from common.data.records import Problem, read, rows_with, source_lines, text_of
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
    program.with_suffix(".cu").write_text(text.replace(left_out, "") if left_out else text)
    arch = re.search(r"-arch=\w+", text)[0]
    built = nvidia_tools.run(
        [nvcc, arch, "-lineinfo", program.with_suffix(".cu"), "-o", program], 300
    )
    if built.status != 0:
        raise Problem(f"nvcc failed: {built.last_words()}")
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


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="the record to write")
    parser.add_argument("--commit", default="unknown", metavar="ID", help="for the record")
    parser.add_argument("--table", type=pathlib.Path, metavar="FILE", help="print a record")
    parser.add_argument("--show", nargs=2, metavar=("FILE", "NAME"), help="print one of a record")
    given = parser.parse_args(arguments)
    try:
        if given.table:
            record = read(given.table)
            lines = [line for name in SESSIONS for line in [*shown(record, name, False), ""]]
            print("\n".join(lines + source_lines(record)))
            return 0
        if given.show:
            print("\n".join(shown(read(given.show[0]), given.show[1])))
            return 0
        nvcc = flatten.find_nvcc()
        if nvcc is None or not all(map(shutil.which, ("ncu", "compute-sanitizer", "nvidia-smi"))):
            print("tools: it needs nvcc, ncu, compute-sanitizer and an NVIDIA GPU", file=sys.stderr)
            return 77
        record = head(nvcc, given.commit, "common.bench.tools")
        with tempfile.TemporaryDirectory() as folder:
            rows = [record_session(name, pathlib.Path(folder), nvcc) for name in SESSIONS]
        if given.json:
            write_file(given.json, text_of(record, rows))
        record["measurements"] = rows
        for name in SESSIONS:
            print("\n".join(shown(record, name)), end="\n\n")
    except (Problem, LookupError, ValueError) as problem:
        print(f"tools: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
