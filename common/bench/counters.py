"""Counts with NVIDIA's ncu how many clock cycles a pass takes and which units of the GPU it keeps
busy. Cycles do not depend on the clock, which the power limit lowers. ncu runs each kernel alone
and with cold caches.

ncu starts the example again, with the same arguments. That process makes the calls, each after a
kernel that marks it, and writes a label for each.
"""

import json
import os
import pathlib
import shutil
import sys
import tempfile

from common.bench.command import Failure, module
from common.bench.peers import FOR_HOPPER, OURS
from common.bench.pytorch import torch
from common.lab import nvidia_tools

CYCLES = "sm__cycles_elapsed.max"
SHARES = {  # percent of the peak of a unit of the GPU, by name in a record
    "tensor": "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "shared": "l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.pct_of_peak_sustained_elapsed",
    "l2": "lts__t_sectors.avg.pct_of_peak_sustained_elapsed",
    "dram": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
}
READ = "dram__bytes_read.sum"  # what all kernels of a call read from global memory
LABELS = "FA_COUNTED_CALLS"  # the variable that names the file for what is called
MARK = "spin_kernel"  # of torch.cuda._sleep(), which has no other caller
SECONDS = 1200


class Uncounted(Failure):
    """Why nothing was counted; the text is the message."""


def under_ncu():
    """Whether this process makes the calls that ncu counts."""
    return LABELS in os.environ


def launch(call, label):
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
    options = "--csv --page raw --print-units base --clock-control none --profile-from-start off"
    metrics = ["--metrics", ",".join([CYCLES, READ, *SHARES.values()])]
    again = [sys.executable, "-B", "-m", module(), *sys.argv[1:]]
    command = [ncu, *options.split(), *metrics, *again]
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
    """What says best why nothing was counted: the example's own sentence, else ncu's first error,
    else the last words that are no row of a table."""
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
        for name in (CYCLES, READ, *SHARES.values()):
            if any(metrics.get(name) is None for metrics in kernels):
                raise Uncounted(f"ncu does not count {name} on this GPU")
        longest = max(kernels, key=lambda metrics: metrics[CYCLES])
        row = {"what": "counters", **label, "kernels": len(kernels)}
        row["cycles"] = sum(metrics[CYCLES] for metrics in kernels)
        row["read_bytes"] = sum(metrics[READ] for metrics in kernels)
        row.update({name: round(longest[metric], 2) for name, metric in SHARES.items()})
        rows.append(row)
    return rows


def count_problems(prepare, points):
    """Counts calls with ncu. Returns rows for the record. prepare() as of an Example."""
    if not under_ncu():
        return count()
    for point in points:
        for dtype in (getattr(torch, name) for name in point.types):
            tensors = point.problem(dtype).tensors("cuda")
            calls, _, _ = prepare((OURS,) + FOR_HOPPER, *tensors, point.causal)
            for name, call in calls.items():
                launch(call, point.label(name, dtype))
    return []
