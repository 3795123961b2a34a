"""Times step 15 of lesson 05 with a part of its exponentials by FMAs, as step 18 computes them.

    python3 -m common.bench.exponentials FOLDER [--json FILE --commit ID] [--seconds N]

Compiles the variants to FOLDER, those that are not there yet, and prints registers, spills and
exponentials of the special function units in the machine code. With --json it checks them, times
them in turn, and writes a record. Exit status: 0 done, 1 a result is wrong, 2 nvcc fails.
"""

import argparse
import concurrent.futures
import datetime
import os
import pathlib
import re
import shlex
import statistics
import subprocess
import sys
import time

from common.data.records import text_of
from common.flatten import flatten

LESSON, STEP = "05_flash_forward", "15_warpgroup_tiles"
PARTS = (0, 4, 8, 16)  # of 16 exponentials so many are computed by FMAs
HEAD_DIMS = (64, 128)
LENGTH = 4096  # of OneSize, timed


def run(*command):
    """What a command prints, in both of its streams."""
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def replaced(text, old, new):
    """The text with its only such part replaced."""
    if text.count(old) != 1:
        raise ValueError(f"'{old}' stands in the code {text.count(old)} times, not once")
    return text.replace(old, new)


def variant(head_dim, part):
    """The step's one file, for these columns and bfloat16."""
    text = flatten.flatten(LESSON, STEP)
    text = replaced(text, "HeadDims<64, 96, 128, 192, 256>", f"HeadDims<{head_dim}>")
    text = replaced(
        text, '"skip masked tiles per warpgroup", half{},', '"skip masked tiles per warpgroup",'
    )
    step_18 = (flatten.ROOT / LESSON / "kernels/18_tensor_memory.cuh").read_text(encoding="utf-8")
    function = re.search(r"//! \[exp2_fma\]\n(.*)//! \[exp2_fma\]\n", step_18, re.DOTALL)[1]
    head = "template <bool masked, int r>\n__device__ void exp_scores("
    text = replaced(text, head, f"{function}{head}")
    old = "x = exp2_approx(x * exponent_scale - offset);\n      sums[i % 2]"
    return replaced(
        text,
        old,
        f"x = x * exponent_scale - offset;\n      x = i % 16 < {part} ? exp2_fma(x) : "
        "exp2_approx(x);\n      sums[i % 2]",
    )


def built(folder, head_dim, part):
    """Compiles a variant. Returns (program, what its machine code takes, release of nvcc)."""
    program = folder / f"d{head_dim}_{part}"
    source, log = program.with_suffix(".cu"), program.with_suffix(".log")
    if not log.exists():
        source.write_text(variant(head_dim, part), encoding="utf-8")
        options = "-O3 -arch=sm_90a --expt-relaxed-constexpr -Xptxas -v".split()
        said = run("nvcc", *options, str(source), "-o", str(program))
        code = run(os.environ.get("CUOBJDUMP", "cuobjdump"), "-sass", str(program))
        said += f"MUFU.EX2 {code.count('MUFU.EX2')}\n{run('nvcc', '--version')}"
        log.write_text(said, encoding="utf-8")
    kernel = re.search(r"flash_warpgroup_tiles.*", log.read_text(encoding="utf-8"), re.DOTALL)[0]
    fields = {
        "registers": r"Used (\d+) registers",
        "spilled_bytes": r"(\d+) bytes spill stores",
        "exponentials": r"MUFU.EX2 (\d+)",
    }
    takes = {name: int(re.search(what, kernel)[1]) for name, what in fields.items()}
    return program, takes, re.search(r"release ([\d.]+)", kernel)[1]


def timed(programs, seconds):
    """{variant: medians of (no mask, causal mask) in milliseconds}; they run in turn."""
    times, begin = {one: [] for one in programs}, time.monotonic()
    while time.monotonic() - begin < seconds:
        for one, program in programs.items():
            found = re.findall(r"([\d.]+) ms", run(str(program), "time"))
            times[one].append([float(ms) for ms in found])
    return {one: [statistics.median(ms) for ms in zip(*found)] for one, found in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path, help="of the programs")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="the record to write")
    parser.add_argument("--commit", default="unknown", metavar="ID", help="of the code")
    parser.add_argument("--seconds", type=float, default=25, help="to time (default 25)")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    variants = [(d, part) for d in HEAD_DIMS for part in PARTS]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = dict(zip(variants, pool.map(lambda one: built(args.folder, *one), variants)))
        if args.json:
            print(*pool.map(run, (str(program) for program, *_ in found.values())))
    for (d, part), (_, takes, _) in found.items():
        print(f"D {d:3}, {part:2} of 16 by FMAs: {takes}")
    if args.json is None:
        return 0
    times = timed({one: program for one, (program, *_) in found.items()}, args.seconds)
    rows = []
    for causal in (0, 1):
        for (d, part), (_, takes, toolkit) in found.items():
            group, ms = f"bfloat16, D {d}" + ", causal" * causal, times[d, part][causal]
            title = f"{group}, B = 4, H = {2048 // d}, N = {LENGTH}"
            flops = 4 * 4 * 2048 * LENGTH**2 / (1 + causal)
            row = {"group": group, "title": title, "kernel": f"{part} of 16", "length": LENGTH}
            rows.append({**row, "milliseconds": ms, "tflops": round(flops / ms / 1e9, 2), **takes})
            print(rows[-1])
    smi = run("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    gpu, driver = smi.splitlines()[0].split(", ")
    head = {
        "gpu": gpu,
        "driver": driver,
        "toolkit": toolkit,
        "commit": args.commit,
        "date": datetime.date.today().isoformat(),
        "command": shlex.join(["python3", "-m", "common.bench.exponentials", *sys.argv[1:]]),
    }
    args.json.write_text(text_of(head, rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        print(f"exponentials: {error}\n{getattr(error, 'stdout', '')}", file=sys.stderr)
        sys.exit(1 if getattr(error, "returncode", 2) == 1 else 2)
