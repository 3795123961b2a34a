"""Asks ncu what a step waits for, and which units of the GPU it keeps busy.

    python3 -m common.bench.limits [LESSON/STEP...] [--json FILE] [--commit ID]
    python3 -m common.bench.limits [LESSON/STEP...] --table FILE

The step's one file, with a main() that also times it (ablations.py), runs under ncu. Of its first
launches the longest counts: it is the step's main kernel on the problem that is timed. Without
steps: those of STEPS. The second form prints a record.

Exit status: 0 done, 2 a step cannot be compiled or ncu fails, 77 nvcc, ncu or a GPU is missing.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import sys
import tempfile

from common.bench.ablations import head, run, timed
from common.data.files import write_file
from common.data.records import Problem, aligned, read, source_lines, text_of
from common.flatten import flatten
from common.lab import nvidia_tools

STEPS = ("04/12", "04/16", "04/20", "04/21", "04/22", "05/02", "05/17", "06/04")
LAUNCHES = 12  # those of the check and the first timed ones
STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
SHARE = "{}.avg.pct_of_peak_sustained_{}"
GLOBAL_LOADS = "l1tex__t_{}_pipe_lsu_mem_global_op_ld.sum"
# Of a record: percent of the cycles; warps of an SM; for each instruction that is issued, the warps
# that wait meanwhile: for global memory, for shared memory, at a barrier, for a unit's queue, for
# the units of arithmetic, for a fixed number of cycles.
METRICS = {
    "issue": SHARE.format("smsp__issue_active", "active"),
    "tensor": SHARE.format("sm__pipe_tensor_op_hmma_cycles_active", "elapsed"),
    "shared": SHARE.format("l1tex__data_pipe_lsu_wavefronts_mem_shared", "elapsed"),
    "dram": SHARE.format("dram__throughput", "elapsed"),
    "warps": "sm__warps_active.avg.per_cycle_active",
    "global_wait": STALL.format("long_scoreboard"),
    "shared_wait": STALL.format("short_scoreboard"),
    "barrier_wait": STALL.format("barrier"),
    "queue_wait": STALL.format("mio_throttle"),
    "math_wait": STALL.format("math_pipe_throttle"),
    "fixed_wait": STALL.format("wait"),
}
SECTORS = {"sectors": GLOBAL_LOADS.format("sectors"), "requests": GLOBAL_LOADS.format("requests")}
DURATION = "gpu__time_duration.sum"
HEADINGS = ("issue, %", "tensor, %", "shared, %", "DRAM, %", "sectors of a load", "warps")
WAITS = ("global", "shared", "barrier", "queue", "math", "fixed")


def build(folder, nvcc, step):
    """The program of a step, compiled."""
    text, file = timed(*step), pathlib.Path(folder, f"{step[0][:2]}_{step[1]}.cu")
    file.write_text(text, encoding="utf-8")
    arch = re.search(r"-arch=\w+", text)[0]
    program = file.with_suffix("")
    run(nvcc, arch, "-O3", "--expt-relaxed-constexpr", str(file), "-o", str(program))
    return program


def count(program, step):
    """A row of the record."""
    metrics = ",".join([DURATION, *METRICS.values(), *SECTORS.values()])
    command = ["ncu", "--csv", "--page", "raw", "--print-units", "base", "-c", LAUNCHES]
    outcome = nvidia_tools.run([*command, "--metrics", metrics, program], 120)
    launches = nvidia_tools.parse_ncu(outcome.output)
    if not launches:
        raise Problem(f"ncu failed: {outcome.last_words()}")
    longest = max(launches, key=lambda launch: launch["metrics"][DURATION])
    values = longest["metrics"]
    row = {"what": "limits", "lesson": step[0][:2], "kernel": step[1]}
    row["function"] = re.split(r"[<(]", longest["function"])[0].removeprefix("void ")
    row |= {name: round(values[metric], 2) for name, metric in METRICS.items()}
    sectors, requests = (values[metric] for metric in SECTORS.values())
    return row | {"sectors": round(sectors / requests, 1) if requests else None}


def table(record, wanted=()):
    """Lines of a record, of all steps or of those (lesson, step) that are wanted."""
    cells = [["step", *HEADINGS, *(f"wait: {name}" for name in WAITS)]]
    for row in record["measurements"]:
        step = (row["lesson"], row["kernel"])
        if not wanted or step in {(lesson[:2], name) for lesson, name in wanted}:
            cells.append(
                [
                    "/".join(step),
                    *(f"{row[name]:.0f}" for name in ("issue", "tensor", "shared", "dram")),
                    "-" if row["sectors"] is None else f"{row['sectors']:.1f}",
                    f"{row['warps']:.1f}",
                    *(f"{row[f'{name}_wait']:.2f}" for name in WAITS),
                ]
            )
    title = "Percent of the cycles; sectors; warps of an SM; warps that wait per issued instruction"
    return [title, *aligned(cells, 1), *source_lines(record)]


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("steps", nargs="*", metavar="LESSON/STEP", help="see above")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="the record to write")
    parser.add_argument("--commit", default="unknown", metavar="ID", help="for the record")
    parser.add_argument("--table", type=pathlib.Path, metavar="FILE", help="print a record")
    given = parser.parse_args(arguments)
    try:
        wanted = [flatten.find_step(*text.split("/", 1)) for text in given.steps]
        if given.table:
            print("\n".join(table(read(given.table), wanted)))
            return 0
        steps = wanted or [flatten.find_step(*text.split("/")) for text in STEPS]
        nvcc = flatten.find_nvcc()
        if nvcc is None or not all(map(shutil.which, ("ncu", "nvidia-smi"))):
            print("limits: it needs nvcc, ncu and an NVIDIA GPU", file=sys.stderr)
            return 77
        record = head(nvcc, given.commit, "common.bench.limits")
        with tempfile.TemporaryDirectory() as folder:
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                programs = list(pool.map(lambda step: build(folder, nvcc, step), steps))
            rows = [count(program, step) for program, step in zip(programs, steps)]
        if given.json:
            write_file(given.json, text_of(record, rows))
        print("\n".join(table({**record, "measurements": rows})))
    except (KeyError, LookupError, Problem, TypeError, ValueError) as problem:
        print(f"limits: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
