"""What a pass keeps busy, and for how many clock cycles, as NVIDIA's ncu counts it: whatever the clock is to which the
limit of power holds the GPU. ncu runs each kernel alone and with cold caches.

ncu starts the example again, with the same arguments. That one makes the calls, each behind a kernel that marks it, and
writes down what they are.
"""

import json
import os
import pathlib
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "common" / "lab"))
import nvidia_tools  # noqa: E402

CYCLES = "sm__cycles_elapsed.max"
SHARES = {  # per cent of the most that a part of the GPU can do, by names in a record
    "tensor": "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "shared": "l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.pct_of_peak_sustained_elapsed",
    "l2": "lts__t_sectors.avg.pct_of_peak_sustained_elapsed",
    "dram": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
}
LABELS = "FA_COUNTED_CALLS"  # the variable that names the file for what is called
MARK = "spin_kernel"  # of torch.cuda._sleep(), which nobody else calls
SECONDS = 1200


class Uncounted(Exception):
    """Why nothing was counted, in a sentence."""


def under_ncu():
    """Whether this process makes the calls that ncu counts."""
    return LABELS in os.environ


def launch(torch, call, label):
    """Makes a call that ncu counts; `label` is what a record says of it."""
    call()  # what the first one prepares does not count
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStart()
    torch.cuda._sleep(1)
    call()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()
    with open(os.environ[LABELS], "a", encoding="utf-8") as file:
        file.write(json.dumps(label) + "\n")


def count():
    """Starts this program again under ncu. Returns rows for the record."""
    toolkit = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    ncu = shutil.which("ncu") or shutil.which("ncu", path=f"{toolkit}/bin")
    if ncu is None:
        raise Uncounted("ncu, of the CUDA Toolkit, is not installed here")
    metrics = ",".join([CYCLES, *SHARES.values()])
    command = [ncu, "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none"]
    command += ["--profile-from-start", "off", "--metrics", metrics, sys.executable, *sys.argv]
    with tempfile.TemporaryDirectory() as folder:
        labels = pathlib.Path(folder, "labels")
        labels.touch()
        outcome = nvidia_tools.run(command, SECONDS, **{LABELS: str(labels)})
        if outcome.status is None:
            raise Uncounted(f"ncu took more than {SECONDS} s")
        if outcome.status != 0:
            raise Uncounted(f"ncu ended with status {outcome.status}: {reason(outcome)}")
        try:
            return rows_of(outcome.output, labels.read_text(encoding="utf-8"))
        except Uncounted as error:
            raise Uncounted(f"{error}; it says: {reason(outcome)}") from None


def reason(outcome):
    """What says best why nothing was counted: the example's own sentence, else ncu's first error, else the last words
    that are no row of a table."""
    lines = [line.strip() for line in (outcome.error + "\n" + outcome.output).splitlines()]
    said = [line for line in lines if line and not line.startswith('"')]
    own = [line for line in said if line.startswith("example.py: ")]
    errors = [line.replace("==ERROR==", "").strip() for line in said if "==ERROR==" in line]
    return (own[-1:] or errors[:1] or said[-1:] or ["nothing"])[0]


def rows_of(printed, labels):
    """Rows for a record from what ncu printed and from the labels of the calls, a line each."""
    calls = []
    for kernel in nvidia_tools.parse_ncu(printed):
        if MARK in kernel["function"]:
            calls.append([])
        elif calls:
            calls[-1].append(kernel["metrics"])
    labels = [json.loads(line) for line in labels.splitlines()]
    if not labels or len(calls) != len(labels) or not all(calls):
        raise Uncounted(f"ncu counted {sum(map(bool, calls))} calls of {len(labels)}")
    rows = []
    for label, kernels in zip(labels, calls):
        for name in (CYCLES, *SHARES.values()):
            if any(metrics.get(name) is None for metrics in kernels):
                raise Uncounted(f"ncu does not count {name} on this GPU")
        longest = max(kernels, key=lambda metrics: metrics[CYCLES])
        row = {"what": "counters", **label, "kernels": len(kernels)}
        row["cycles"] = sum(metrics[CYCLES] for metrics in kernels)
        row.update({name: round(longest[metric], 2) for name, metric in SHARES.items()})
        rows.append(row)
    return rows


def print_counters(problems, headings, ours):
    """Prints a table with a line for each problem in bfloat16.

    problems: {(type, head_dim, mask, length): {back end: row of a record}}; headings: of the back ends' columns; ours:
    the back end whose kernels are looked at more closely.
    """
    others = [backend for backend in headings if backend != ours]
    print("Clock cycles of all kernels of a pass, by ncu. Then, of the kernel that takes longest, what parts of")
    print("the GPU do of the most that they can.")
    groups = [
        ("million cycles", [f"{h:>9}" for h in headings.values()]),
        ("over ours", [f"{headings[b]:>11}" for b in others]),
        ("tensor cores, %", [f"{h:>9}" for h in headings.values()]),
        ("in ours, %", [f"{h:>8}" for h in ("shared", "L2", "DRAM")]),
    ]
    groups = [group for group in groups if group[1]]  # perhaps nobody is beside us
    cells = ["".join(columns) for _, columns in groups]
    print((" " * 16 + "".join(f"{title:>{len(cell)}}" for (title, _), cell in zip(groups, cells))).rstrip())
    print(f"{'D':>3} {'mask':<6}{'N':>6}" + "".join(cells))
    for (dtype, head_dim, mask, length), of in problems.items():
        if dtype != "bfloat16":
            continue

        def figures(backends, width, digits, value):
            return "".join(f"{value(of[b]):{width}.{digits}f}" if b in of else f"{'-':>{width}}" for b in backends)

        print(
            f"{head_dim:>3} {mask:<6}{length:>6}"
            + figures(headings, 9, 3, lambda row: row["cycles"] / 1e6)
            + figures(others, 11, 2, lambda row: row["cycles"] / of[ours]["cycles"])
            + figures(headings, 9, 0, lambda row: row["tensor"])
            + "".join(f"{of[ours][name]:>8.0f}" for name in ("shared", "l2", "dram"))
        )
