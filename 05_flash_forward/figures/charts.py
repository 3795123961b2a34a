"""Prints a chart of recorded measurements as SVG:

    python3 -m 05_flash_forward.figures.charts tiles docs/results/h200_05_experiments.json
    python3 -m 05_flash_forward.figures.charts lengths docs/results/h200_05_experiments.json

Exit status: 0, or 2 when a record lacks what the chart shows.
"""

import sys

from common.data.records import print_named, rows_with, source
from common.drawing import charts


def lines(rows, name_of):
    """A series for each name, in the order of the rows."""
    groups = {}
    for row in rows:
        groups.setdefault(name_of(row), []).append((row["length"], row["tflops"]))
    # Where the 16-bit types lie on one another, both are seen.
    return [
        charts.Series(name, points, dashed="bfloat16" in name) for name, points in groups.items()
    ]


def tiles(record):
    """Rates by tile, without a mask and with the causal one."""
    panels = []
    for head_dim in (64, 128):
        groups = {}
        for i, mask in enumerate(("", ", causal")):
            for row in rows_with(record, group=f"tiles, bfloat16, D {head_dim}{mask}"):
                values, _ = groups.setdefault(row["kernel"], ([None, None], row["note"]))
                values[i] = row.get("tflops")
        bars = [(name, *found, found[1] == "rung 08") for name, found in groups.items()]
        panels.append((f"D = {head_dim}", bars))
    return charts.bar_chart(
        "TFLOP/s of rung 08 with its own tile and with others, without a mask and causal",
        panels,
        ["no mask", "causal"],
        "bold: the tile of rung 08",
        "TFLOP/s, bfloat16, N = 4096",
        source(record),
    )


def lengths(record):
    """Rates by length, for each type."""
    rows = rows_with(record, group="lengths, D 64")
    series = lines(rows, lambda row: f"{row['kernel']}, {row['type']}")
    title = "TFLOP/s by length, for the kernels in float32 and for the 16-bit types"
    panels = [("D = 64, no mask, 16384 tokens in all", series)]
    return charts.line_chart(
        title, panels, "length N", "TFLOP/s, logarithmic", source(record), True
    )


CHARTS = {"tiles": (tiles, 1), "lengths": (lengths, 1)}


if __name__ == "__main__":
    sys.exit(print_named(sys.modules[__name__], CHARTS, sys.argv[1:]))
