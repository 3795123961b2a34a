"""Prints a chart of the theory chapters as SVG: python3 -m docs.theory.figures.drawings NAME
[RECORD...]

Exit status: 0, or 2 when a record lacks what the picture shows.
"""

import math
import sys

from common.data.records import print_named, source
from common.drawing import charts
from common.drawing.charts import COLOURS, stroke
from common.drawing.svg import Drawing
from docs.theory import examples


def roofline(matmul, forward):
    peaks = examples.machine(matmul)
    float32, bfloat16, memory = peaks
    kernels = examples.kernels(matmul, forward)
    left, top, right, bottom = 56, 30, 388, 390
    low, high = -2 + math.log10(4), math.log10(5000)  # of the intensity
    floor, ceiling = -1.0, math.log10(2000)  # of the rate in TFLOP/s

    def at(intensity, rate):
        x = left + (math.log10(intensity) - low) / (high - low) * (right - left)
        y = bottom - (math.log10(rate / 1e12) - floor) / (ceiling - floor) * (bottom - top)
        return x, y

    below = 18 * len(kernels)
    d = Drawing(charts.NARROW, bottom + 96 + below, "Measured kernels and the roofline of an H200")
    for power in range(-1, 4):
        _, y = at(1, 10.0**power * 1e12)
        d.line(left, y, right, y, charts.GRID, 1)
        d.right(left - 8, y + 4, f"{10.0**power:g}")
    for power in range(-1, 4):
        x, _ = at(10.0**power, 1e12)
        d.line(x, top, x, bottom, charts.GRID, 1)
        d.text(x, bottom + 18, f"{10.0**power:g}")
    d.line(left, bottom, right, bottom, "#222222", 1)
    d.text((left + right) / 2, bottom + 38, "operations per byte that must be moved")
    middle = (top + bottom) / 2
    d.text(18, middle, "TFLOP/s", transform=f"rotate(-90 18 {middle:g})")
    for peak, name in ((float32, "float32"), (bfloat16, "bfloat16, tensor cores")):
        ridge = peak / memory
        points = [at(10**low, 10**low * memory), at(ridge, peak), at(10**high, peak)]
        stroke(d, points, "#444444", False)
        words = f"{name}: {peak / 1e12:.0f} TFLOP/s"
        # Where no kernel is.
        place, anchor = (1.6 * ridge, "start") if peak == float32 else (10**high, "end")
        x, y = at(place, peak)
        d.text(x, y - 6, words, text_anchor=anchor)
    x, y = at(0.3, 0.3 * memory)
    slope = -math.degrees(
        math.atan2((bottom - top) / (ceiling - floor), (right - left) / (high - low))
    )
    turn = f"rotate({slope:.1f} {x:.2f} {y - 8:.2f})"
    d.text(x, y - 8, f"memory: {memory / 1e12:.1f} TB/s", transform=turn)
    for i, kernel in enumerate(kernels):
        colour = COLOURS[0] if kernel.kind == "float32" else COLOURS[1]

        def disc(x, y, r):
            d.element("circle", cx=x, cy=y, r=r, fill="#ffffff", stroke=colour, stroke_width=2)
            d.text(x, y + 4, i + 1, font_weight="bold")

        disc(*at(kernel.intensity, kernel.rate), 9.5)
        x, y = 24, bottom + 66 + 18 * i
        disc(x, y - 4, 9)
        d.left(x + 16, y, f"{kernel.name}, {kernel.kind}")
    charts.footed(d, 16, bottom + 70 + below, source(matmul, forward), charts.NARROW)
    return d


def occupancy(matmul, forward):
    def rows_of(record, group):
        rows = [row for row in record["measurements"] if row["group"] == group]
        return [row for row in rows if "registers" in row and row.get("length", 4096) == 4096]

    panels = []
    for heading, rows in (
        ("matmuls in float32", rows_of(matmul, "matmul")),
        (
            "bfloat16: matmuls, attention",
            rows_of(matmul, "mma") + rows_of(forward, "bfloat16, D 64"),
        ),
    ):
        groups = []
        for row in rows:
            values = [row["percent_of_warps"], row["percent_of_peak"]]
            groups.append((row["kernel"].replace("_matmul", ""), values, "", False))
        panels.append((heading, groups))
    return charts.bar_chart(
        "Occupancy and speed of the rungs",
        panels,
        ["% of the warps", "% of the peak rate"],
        "",
        "%",
        source(matmul, forward),
    )


PICTURES = {  # name: (function, how many records)
    "roofline": (roofline, 2),
    "occupancy": (occupancy, 2),
}


def main(arguments):
    return print_named(sys.modules[__name__], PICTURES, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
