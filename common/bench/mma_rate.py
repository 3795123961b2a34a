"""Measures which part of the tensor cores' rate mma.sync reaches, beside wgmma.

    python3 -m common.bench.mma_rate [--json FILE] [--commit ID]
    python3 -m common.bench.mma_rate --table FILE

The first form compiles mma_rate.cu and runs it on a Hopper GPU; FLOPs are counted per clock of an
SM, so the GPU's clock does not matter. The second form prints a record.

Exit status: 0 done, 2 it cannot be compiled or the record is not as expected, 77 nvcc or a GPU is
missing.
"""

import pathlib
import sys
import tempfile

from common.bench import recorder
from common.bench.recorder import run
from common.data.records import aligned, formatted, source_lines
from common.flatten.flatten import ROOT

# FLOPs of dense matmuls per clock and SM: NVIDIA H100 Tensor Core GPU Architecture, white paper.
RATES = {"bf16": 4096, "tf32": 2048}
FIELDS = ("instruction", "shape", "type", "warps", "flops_per_clock")


def rows_of(output):
    """Rows of a record from what the program prints."""
    rows = []
    for line in output.splitlines():
        row = dict(zip(FIELDS, line.split(), strict=True))
        row["warps"], flops = int(row["warps"]), float(row["flops_per_clock"])
        row["flops_per_clock"] = flops
        row["percent"] = round(100 * flops / RATES[row["type"]], 1)
        rows.append(row)
    return rows


def points(_):
    return {"all": {}}


def measure(nvcc, _):
    """Compiles and runs the program."""
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder, "mma_rate")
        target = ("-gencode", "arch=compute_90a,code=sm_90a", "-std=c++17", f"-I{ROOT}")
        source = ROOT / "common" / "bench" / "mma_rate.cu"
        run(nvcc, *target, "-O3", "--expt-relaxed-constexpr", str(source), "-o", str(program))
        yield rows_of(run(str(program)))


def table(record, _):
    """Lines of a record."""
    cells = [["instruction", "shape", "type", "warps", "FLOPs per clock", "of the peak, %"]]
    for row in record["measurements"]:
        cells.append(formatted("{} {} {} {} {:.0f} {:.1f}", *map(row.get, (*FIELDS, "percent"))))
    return [
        "Matmuls on one SM, all others busy as well; peak: 4096 FLOPs of bf16, 2048 of TF32",
        *aligned(cells, 1, 3),
        *source_lines(record),
    ]


def main(arguments):
    return recorder.main(arguments, "mma_rate", points, measure, table)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
