"""Asks ncu what a step waits for, and which units of the GPU it keeps busy.

    python3 -m common.bench.limits [LESSON/STEP...] [--json FILE] [--commit ID]
    python3 -m common.bench.limits [LESSON/STEP...] --table FILE

The step's one file, with a main() that also times it (ablations.py), runs under ncu. Of its first
launches the longest counts: it is the step's main kernel on the problem that is timed. Without
steps: those of STEPS. The second form prints a record.

Exit status: 0 done, 2 a step cannot be compiled or ncu fails, 77 nvcc, ncu or a GPU is missing.
"""

import concurrent.futures
import os
import pathlib
import re
import sys
import tempfile

from common.bench import recorder
from common.bench.ablations import OPTIONS, timed
from common.bench.recorder import compiled
from common.data.records import Problem, aligned, source_lines
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


def points(steps):
    """Of STEPS without steps."""
    steps = steps or [step for text in STEPS for step in steps_of(text)]
    return {f"{lesson}/{step}": {"lesson": lesson[:2], "kernel": step} for lesson, step in steps}


def measure(nvcc, names):
    """Rows of the record."""
    steps = [name.split("/") for name in names]
    with tempfile.TemporaryDirectory() as folder:

        def build(step):
            program = pathlib.Path(folder, f"{step[0][:2]}_{step[1]}")
            return compiled(nvcc, timed(*step), program, *OPTIONS)

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            programs = list(pool.map(build, steps))
        for program, step in zip(programs, steps):
            yield [count(program, step)]


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


def table(record, wanted):
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


def steps_of(text):
    return [flatten.find_step(*text.split("/", 1))]


def main(arguments):
    return recorder.main(arguments, "limits", points, measure, table, ("ncu",), steps_of)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
