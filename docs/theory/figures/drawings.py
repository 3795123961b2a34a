"""Prints a picture of the theory chapters as SVG: python3 -m docs.theory.figures.drawings NAME
[RECORD...]

Exit status: 0, or 2 when a record lacks what the picture shows.
"""

import math
import sys

from common.data.records import print_named, source
from common.drawing import charts
from common.drawing.charts import COLOURS, stroke
from common.drawing.svg import COLOURS as PALE
from common.drawing.svg import RED, Drawing
from docs.theory import examples


def hierarchy():
    d = Drawing(700, 330, "The memory hierarchy of a GPU")
    levels = [
        (270, "registers", "64 Ki of 32 bits per SM", "a thread", PALE[2]),
        (340, "shared memory", "228 KB per SM", "a block", PALE[1]),
        (410, "level 2 cache", "50 MB", "all SMs, automatic", PALE[4]),
        (480, "global memory", "141 GB", "all SMs", PALE[0]),
    ]
    d.text(280, 24, "level, and its size on an H200", font_weight="bold")
    d.text(622, 24, "visible to", font_weight="bold")
    for i, (width, name, size, who, colour) in enumerate(levels):
        y = 40 + 68 * i
        d.box(280 - width / 2, y, width, 48, colour)
        d.text(280, y + 20, name, font_weight="bold")
        d.text(280, y + 38, size)
        d.text(622, y + 28, who)
        if i:
            d.vertical_arrow(262, y - 20, y)
            d.vertical_arrow(298, y, y - 20)
    d.vertical_arrow(36, 60, 280)
    d.text(30, 170, "larger, slower", transform="rotate(-90 24 170)")
    words = "A kernel manages registers and shared memory; the hardware manages the cache."
    d.text(350, 316, words)
    return d


def roofline(matmul, forward):
    peaks = examples.machine(matmul)
    float32, bfloat16, memory = peaks
    kernels = examples.kernels(matmul, forward)
    left, top, right, bottom = 62, 30, 682, 350
    low, high = -2 + math.log10(4), math.log10(5000)  # of the intensity
    floor, ceiling = -1.0, math.log10(2000)  # of the rate in TFLOP/s

    def at(intensity, rate):
        x = left + (math.log10(intensity) - low) / (high - low) * (right - left)
        y = bottom - (math.log10(rate / 1e12) - floor) / (ceiling - floor) * (bottom - top)
        return x, y

    below = 18 * ((len(kernels) + 1) // 2)
    d = Drawing(700, bottom + 80 + below, "Measured kernels and the roofline of an H200")
    for power in range(-1, 4):
        _, y = at(1, 10.0**power * 1e12)
        d.line(left, y, right, y, charts.GRID, 1)
        d.text(left - 8, y + 4, f"{10.0**power:g}", text_anchor="end")
    for power in range(-1, 4):
        x, _ = at(10.0**power, 1e12)
        d.line(x, top, x, bottom, charts.GRID, 1)
        d.text(x, bottom + 18, f"{10.0**power:g}", font_size=11)
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
        place, anchor = (1.2 * ridge, "start") if peak == float32 else (10**high, "end")
        x, y = at(place, peak)
        d.text(x, y - 6, words, text_anchor=anchor, font_size=11)
    x, y = at(0.3, 0.3 * memory)
    slope = -math.degrees(
        math.atan2((bottom - top) / (ceiling - floor), (right - left) / (high - low))
    )
    turn = f"rotate({slope:.1f} {x:.2f} {y - 8:.2f})"
    d.text(x, y - 8, f"memory: {memory / 1e12:.1f} TB/s", font_size=11, transform=turn)
    for i, kernel in enumerate(kernels):
        colour = COLOURS[0] if kernel.kind == "float32" else COLOURS[1]

        def disc(x, y, r):
            d.element("circle", cx=x, cy=y, r=r, fill=colour)
            d.text(x, y + 4, i + 1, fill="#ffffff", font_size=11, font_weight="bold")

        disc(*at(kernel.intensity, kernel.rate), 8.5)
        x, y = left + i % 2 * 320, bottom + 66 + 18 * (i // 2)
        disc(x, y - 4, 8)
        d.text(x + 16, y, f"{kernel.name}, {kernel.kind}", text_anchor="start")
    footer = source(matmul, forward)
    d.text(682, bottom + 66 + below, footer, text_anchor="end", font_size=10, fill="#666666")
    return d


def fusion():
    d = Drawing(700, 300, "Attention as three kernels and as one")

    def colour(name):
        return RED if name in "SP" else "#222222"

    def memory(left, width, y):
        d.cell(left, y, width, 40, PALE[0], "global memory", dy=5)

    d.text(215, 24, "three kernels", font_weight="bold")
    d.text(590, 24, "one kernel", font_weight="bold")
    memory(20, 395, 226)
    memory(500, 180, 226)
    kernels = [
        (20, "S = Q K^T", ["Q, K"], "S"),
        (155, "P = softmax(S)", ["S"], "P"),
        (290, "O = P V", ["P", "V"], "O"),
    ]
    for left, name, reads, writes in kernels:
        d.box(left, 62, 125, 52, PALE[1])
        d.text(left + 62, 93, name, font_weight="bold")
        for k, place in enumerate(reads):
            x = left + 24 + 28 * k
            d.vertical_arrow(x, 226, 114)
            d.text(x + 4, 190 - 18 * k, place, text_anchor="start", fill=colour(place))
        d.vertical_arrow(left + 100, 114, 226)
        d.text(left + 105, 160, writes, text_anchor="start", fill=colour(writes))
    d.cell(500, 62, 180, 52, PALE[2], "tiles of S and P are made,", dy=-4, font_size=11)
    d.text(590, 100, "used and dropped on chip", font_size=11)
    d.vertical_arrow(530, 226, 114)
    d.text(536, 178, "Q, K, V", text_anchor="start")
    d.vertical_arrow(650, 114, 226)
    d.text(656, 166, "O", text_anchor="start")
    d.text(350, 290, "Red: N x N elements per head. All others have N x d.")
    return d


def tiling():
    d = Drawing(700, 300, "A tile of a matmul, and what is loaded for it")
    side = 150
    for left, name, t in ((40, "tiles of 1/6", 25), (380, "tiles of 1/3", 50)):
        a_left, c_left, top = left, left + 120, 120
        d.text(left + 130, 24, name, font_weight="bold")
        d.box(c_left, top - 84, side, 76, "#ffffff")
        d.box(a_left + 36, top, 76, side, "#ffffff")
        d.box(c_left, top, side, side, "#ffffff")
        d.box(c_left + 50, top - 84, t, 76, PALE[1])
        d.box(a_left + 36, top + 50, 76, t, PALE[0])
        for k in range(side // t):
            d.line(c_left + k * t, top, c_left + k * t, top + side, "#bbbbbb", 0.6)
            d.line(c_left, top + k * t, c_left + side, top + k * t, "#bbbbbb", 0.6)
        d.box(c_left + 50, top + 50, t, t, PALE[2], RED, 1.6)
        d.text(a_left + 24, top + 80, "A")
        d.text(c_left + side + 12, top - 46, "B")
        d.text(c_left + side + 12, top + 80, "C")
        count = side // t
        d.text(left + 194, top + side + 18, f"each strip is loaded {count} times")
    return d


def merging():
    d = Drawing(700, 260, "A chain of steps and a tree of merges give the same state")
    d.text(170, 24, "sequential", font_weight="bold")
    d.text(530, 24, "as a tree", font_weight="bold")
    for k in range(8):
        x = 34 + 38 * k
        d.cell(x, 40, 30, 24, PALE[0], f"s{k + 1}", dy=5)
        d.box(x, 130, 30, 24, PALE[2])
        d.vertical_arrow(x + 15, 64, 130)
        if k:
            d.line(x - 8, 142, x, 142)
    words = [
        "8 steps. The state (m, l, O) passes from key",
        "to key: one worker for the whole row.",
    ]
    d.lines_of_text(34, 186, words, text_anchor="start")
    left = 392
    d_row = 40
    xs = [left + 15 + 38 * k for k in range(8)]
    for k, x in enumerate(xs):
        d.box(x - 15, d_row, 30, 24, PALE[0])
        d.text(x, d_row + 17, f"s{k + 1}")
    y = d_row + 24
    while len(xs) > 1:
        above = xs
        xs = [(a + b) / 2 for a, b in zip(above[::2], above[1::2])]
        for i, x in enumerate(xs):
            for parent in above[2 * i : 2 * i + 2]:
                d.line(parent, y, x, y + 28, "#222222", 1.2)
            d.box(x - 15, y + 28, 30, 18, PALE[2])
        y += 46
    words = ["3 levels of merges. Halves run in parallel:", "on lanes, warps, blocks or GPUs."]
    d.lines_of_text(392, 226, words, text_anchor="start")
    return d


def bits():
    d = Drawing(700, 236, "The bits of the types")
    unit = 14
    rows = [("float32", 8, 23), ("TF32", 8, 10), ("float16", 5, 10), ("bfloat16", 8, 7)]
    for i, (name, exponent, fraction) in enumerate(rows):
        y = 34 + 44 * i
        d.text(84, y + 17, name, text_anchor="end", font_weight="bold")
        x = 96
        for letter, count, colour in (
            ("s", 1, PALE[7]),
            ("e", exponent, PALE[0]),
            ("f", fraction, PALE[1]),
        ):
            for _ in range(count):
                d.box(x, y, unit, 24, colour)
                x += unit
            d.text(x - unit * count / 2, y + 17, letter)
        words = f"{1 + exponent + fraction} bits: 1 + {exponent} + {fraction}"
        d.text(x + 10, y + 17, words, text_anchor="start")
    words = "s: sign; e: exponent, the range; f: fraction, the precision"
    d.text(96, 218, words, text_anchor="start")
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


def pipeline():
    copy, compute, count = 8, 4, 6
    d = Drawing(700, 316, "When tiles are copied and computed, with 1, 2 and 3 stages")
    unit, left = 7.6, 84
    for i, number in enumerate((1, 2, 3)):
        y = 34 + 88 * i
        times = examples.schedule(count, copy, compute, number)
        words = f"{number} stage{'s' * (number > 1)}"
        d.text(left - 10, y + 26, words, text_anchor="end", font_weight="bold")
        for tile, (asked, arrived, begun, done) in enumerate(times):
            row = y + 17 * (tile % number)
            d.box(left + asked * unit, row, (arrived - asked) * unit, 15, PALE[1])
            d.text(left + (asked + arrived) / 2 * unit, row + 12, tile + 1, font_size=11)
            d.box(left + begun * unit, y + 54, (done - begun) * unit, 18, PALE[0])
            d.text(left + (begun + done) / 2 * unit, y + 67, tile + 1, font_size=11)
        end = times[-1][3]
        d.text(left + end * unit + 8, y + 67, f"{end}", text_anchor="start", font_weight="bold")
    d.text(
        left,
        306,
        f"blue: copy in flight, {copy} units; orange: tile computed, {compute} units",
        text_anchor="start",
    )
    return d


def reverse():
    d = Drawing(700, 262, "A chain of Jacobians, multiplied from either end")
    unit = 60

    def matrix(x, y, width, height, name, colour):
        d.cell(x, y, width, height, colour, name)

    def result(x, y, words):
        d.text(x, y + 50, "=", font_size=16)
        d.text(x + 104, y + 50, words, text_anchor="start")

    bold = {"text_anchor": "start", "font_weight": "bold"}
    d.text(96, 30, "from the left: a row times a matrix, n x n each time", **bold)
    x = 96
    matrix(x, 68, unit, 16, "u", PALE[0])
    for name in ("J3", "J2", "J1"):
        x += unit + 14
        matrix(x, 46, unit, unit, name, PALE[1])
    matrix(x + unit + 46, 68, unit, 16, "", PALE[2])
    result(x + unit + 26, 30, "every step is a gradient")
    d.text(96, 152, "from the right: a matrix times a matrix, n x n x n", **bold)
    x = 96
    matrix(x, 190, unit, 16, "u", PALE[0])
    matrix(x + unit + 14, 168, unit, unit, "J3", PALE[1])
    x += 2 * (unit + 14)
    for name in ("J2", "J1"):
        matrix(x, 168, unit, unit, name, PALE[1])
        x += unit + 14
    d.box(x - 2 * unit - 35, 161, 2 * unit + 28, unit + 14, "none", RED, 1.6)
    matrix(x + 32, 168, unit, unit, "J2 J1", PALE[6])
    result(x + 12, 152, "first comes a whole matrix")
    return d


def tensor_memory():
    """The columns of tensor memory in FlashAttention-4's forward pass, and who works on them."""
    d = Drawing(560, 372, "FlashAttention-4 on Blackwell: tensor memory between the warps")
    bold = {"font_size": 14, "font_weight": "bold"}
    small = {"font_size": 13}

    def boxed(x, y, width, height, colour, name, *words):
        d.box(x, y, width, height, colour)
        d.text(x + width / 2, y + 20, name, **bold)
        for k, line in enumerate(words):
            d.text(x + width / 2, y + 38 + 18 * k, line, **small)

    boxed(20, 16, 230, 48, PALE[1], "1 load warp (TMA)", "Q, K, V to shared memory")
    boxed(310, 16, 230, 48, PALE[1], "1 MMA warp (tcgen05.mma)", "one thread issues all matmuls")
    d.arrow(250, 40, 310)
    d.text(280, 112, "tensor memory: 128 lanes, columns 0 to 511 of 32 bits", **bold)
    names = [("S0, then P0", PALE[2]), ("S1, then P1", PALE[2]), ("O0", PALE[0]), ("O1", PALE[0])]
    for i, (name, colour) in enumerate(names):
        x = 20 + 130 * i
        d.cell(x, 124, 130, 76, colour, name, "#666666", 1, dy=-4, **bold)
        d.text(x + 65, 180, f"{128 * i} to {128 * i + 127}", **small)
    d.pointer(425, 64, 425, 98)
    for x in (85, 215, 345, 475):
        d.pointer(x - 12, 202, x - 12, 240)
        d.pointer(x + 12, 240, x + 12, 202)
    for x, number in ((20, 0), (154, 1)):
        boxed(x, 242, 126, 66, PALE[4], f"softmax {number}", "4 warps", "reads S, writes P")
    of_o = ("4 warps", "rescales O, divides it at the end")
    boxed(288, 242, 252, 66, PALE[3], "correction", *of_o)
    d.text(280, 336, "0 and 1: two tiles of 128 queries of one block, computed in turn.", **small)
    d.text(280, 356, "One more warp stores the finished output.", **small)
    return d


PICTURES = {  # name: (function, how many records)
    "hierarchy": (hierarchy, 0),
    "roofline": (roofline, 2),
    "fusion": (fusion, 0),
    "tiling": (tiling, 0),
    "merging": (merging, 0),
    "bits": (bits, 0),
    "occupancy": (occupancy, 2),
    "pipeline": (pipeline, 0),
    "reverse": (reverse, 0),
    "tensor_memory": (tensor_memory, 0),
}


def main(arguments):
    return print_named(sys.modules[__name__], PICTURES, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
