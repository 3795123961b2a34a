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
    d = Drawing(400, 352, "The memory hierarchy of a GPU")
    levels = [
        (154, "registers", "64 Ki of 32 bits per SM", ["a thread"], PALE[2]),
        (184, "shared memory", "228 KB per SM", ["a block"], PALE[1]),
        (214, "level 2 cache", "50 MB", ["all SMs,", "automatic"], PALE[4]),
        (244, "global memory", "141 GB", ["all SMs"], PALE[0]),
    ]
    d.text(170, 24, "level, and its size on an H200", font_weight="bold")
    d.text(350, 24, "visible to", font_weight="bold")
    for i, (width, name, size, who, colour) in enumerate(levels):
        y = 40 + 68 * i
        d.box(170 - width / 2, y, width, 48, colour)
        d.text(170, y + 20, name, font_weight="bold")
        d.text(170, y + 38, size)
        d.lines_of_text(350, y + 36 - 8 * len(who), who, step=16)
        if i:
            d.vertical_arrow(152, y - 20, y)
            d.vertical_arrow(188, y, y - 20)
    d.vertical_arrow(34, 60, 280)
    d.text(22, 170, "larger, slower", transform="rotate(-90 22 170)")
    words = ["A kernel manages registers and shared memory;", "the hardware manages the cache."]
    d.lines_of_text(200, 322, words)
    return d


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
            d.left(x + 4, 190 - 18 * k, place, fill=colour(place))
        d.vertical_arrow(left + 100, 114, 226)
        d.left(left + 105, 160, writes, fill=colour(writes))
    d.cell(500, 62, 180, 52, PALE[2], "tiles of S and P are made,", dy=-4)
    d.text(590, 100, "used and dropped on chip")
    d.vertical_arrow(530, 226, 114)
    d.left(536, 178, "Q, K, V")
    d.vertical_arrow(650, 114, 226)
    d.left(656, 166, "O")
    d.left(20, 290, "S and P: N x N elements per head. All others have N x d.")
    d.narrow([(0, 0, 430, 276)], [(470, 0, 230, 276)], [(0, 276, 430, 24)])
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
        d.narrow([(left - 40, 0, 350, 300)])
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
    d.narrow([(0, 0, 350, 216)], [(370, 0, 330, 260)])
    return d


def bits():
    d = Drawing(400, 252, "The bits of the types")
    unit, left = 11.5, 16
    rows = [("float32", 8, 23), ("TF32", 8, 10), ("float16", 5, 10), ("bfloat16", 8, 7)]
    for i, (name, exponent, fraction) in enumerate(rows):
        y = 14 + 52 * i
        d.left(left, y + 10, name, font_weight="bold")
        words = f"{1 + exponent + fraction} bits: 1 + {exponent} + {fraction}"
        d.left(left + 72, y + 10, words)
        x = left
        for letter, count, colour in (
            ("s", 1, PALE[7]),
            ("e", exponent, PALE[0]),
            ("f", fraction, PALE[1]),
        ):
            for _ in range(count):
                d.box(x, y + 16, unit, 24, colour)
                x += unit
            d.text(x - unit * (count // 2 + 0.5), y + 33, letter)
    words = "s: sign; e: exponent, the range; f: fraction, the precision"
    d.left(left, 236, words)
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
    d = Drawing(400, 336, "When tiles are copied and computed, with 1, 2 and 3 stages")
    unit, left = 4.1, 76
    for i, number in enumerate((1, 2, 3)):
        y = 34 + 88 * i
        times = examples.schedule(count, copy, compute, number)
        words = f"{number} stage{'s' * (number > 1)}"
        d.right(left - 10, y + 26, words, font_weight="bold")
        for tile, (asked, arrived, begun, done) in enumerate(times):
            row = y + 17 * (tile % number)
            d.box(left + asked * unit, row, (arrived - asked) * unit, 15, PALE[1])
            d.text(left + (asked + arrived) / 2 * unit, row + 12, tile + 1)
            d.box(left + begun * unit, y + 54, (done - begun) * unit, 18, PALE[0])
            d.text(left + (begun + done) / 2 * unit, y + 67, tile + 1)
        end = times[-1][3]
        d.left(left + end * unit + 6, y + 67, f"{end}", font_weight="bold")
    words = [
        f"Upper rows: copies in flight, {copy} units of time each.",
        f"Lowest row: tiles computed, {compute} units each.",
    ]
    d.lines_of_text(12, 308, words, text_anchor="start")
    return d


def reverse():
    d = Drawing(400, 304, "A chain of Jacobians, multiplied from either end")
    unit, step = 52, 62

    def row(y, names, result, height, colour, words):
        x = 14
        for name in names:
            is_row = name == "u"
            tall = 16 if is_row else unit
            d.cell(x, y + (unit - tall) / 2, unit, tall, PALE[0 if is_row else 1], name)
            x += step
        d.text(x + 8, y + unit / 2 + 5, "=", font_size=16)
        d.cell(x + 28, y + (unit - height) / 2, unit, height, colour, result)
        d.left(14, y + unit + 28, words)

    bold = {"text_anchor": "start", "font_weight": "bold"}
    d.text(14, 26, "from the left: a row times a matrix, n x n each time", **bold)
    row(42, ["u", "J3", "J2", "J1"], "", 16, PALE[2], "Every step is a gradient.")
    d.text(14, 166, "from the right: a matrix times a matrix, n x n x n", **bold)
    row(190, ["u", "J3", "J2", "J1"], "J2 J1", unit, PALE[6], "First comes a whole matrix.")
    d.box(14 + 2 * step - 7, 183, step + unit + 14, unit + 14, "none", RED, 1.6)
    return d


def tensor_memory():
    """The columns of tensor memory in FlashAttention-4's forward pass, and who works on them."""
    d = Drawing(400, 386, "FlashAttention-4 on Blackwell: tensor memory between the warps")

    def boxed(x, y, width, height, colour, name, *words):
        d.box(x, y, width, height, colour)
        d.text(x + width / 2, y + 18, name, font_weight="bold")
        d.lines_of_text(x + width / 2, y + 36, words)

    boxed(10, 12, 168, 66, PALE[1], "1 load warp (TMA)", "Q, K, V", "to shared memory")
    words = ("tcgen05.mma: one thread", "issues all matmuls")
    boxed(222, 12, 168, 66, PALE[1], "1 MMA warp", *words)
    d.arrow(178, 44, 222)
    d.text(200, 124, "tensor memory: 128 lanes, 512 columns of 32 bits", font_weight="bold")
    names = [("S0, then P0", PALE[2]), ("S1, then P1", PALE[2]), ("O0", PALE[0]), ("O1", PALE[0])]
    for i, (name, colour) in enumerate(names):
        x = 10 + 95 * i
        d.cell(x, 136, 95, 66, colour, name, "#666666", 1, dy=-4, font_weight="bold")
        d.text(x + 47.5, 186, f"{128 * i} to {128 * i + 127}")
        d.pointer(x + 36, 204, x + 36, 240)
        d.pointer(x + 60, 240, x + 60, 204)
    d.pointer(306, 80, 306, 110)
    for x, number in ((10, 0), (107, 1)):
        boxed(x, 242, 92, 86, PALE[4], f"softmax {number}", "4 warps", "reads S,", "writes P")
    of_o = ("4 warps", "rescales O,", "divides it at the end")
    boxed(204, 242, 186, 86, PALE[3], "correction", *of_o)
    words = [
        "0 and 1: two tiles of 128 queries of one block, computed",
        "in turn. One more warp stores the finished output.",
    ]
    d.lines_of_text(12, 356, words, text_anchor="start")
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
