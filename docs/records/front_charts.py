"""Draws the front page's pictures as SVG: WHAT RECORD...

    steps RECORD...             the way of attention's forward pass in a few steps, from the records
                                of lesson 05 and of its interface
    others FORWARD BACKWARD     the course beside other implementations, from the records of the
                                interfaces of lessons 05 and 06

Exit status: 0, or 2 when a record lacks what a picture shows.
"""

import sys

from common.bench.peers import OURS
from common.data.records import Problem, print_named
from common.drawing import charts
from common.drawing.svg import Drawing
from docs.records import front
from docs.records.record_charts import LENGTH, ladder_parts, peers_of

WIDTH = 420  # a phone shows it whole
DIGIT = 8  # pixels; a bold figure is at most so wide
# Steps of lesson 05 that a stranger understands, with what each brings.
STEPS = {
    "01_unfused": "the formula: three kernels",
    "03_flash_2": "one kernel, no N x N matrix",
    "08_edge_masks": "tensor cores, pipelined copies",
    "09_wgmma": "Hopper's copies and matmuls",
    "11_overlap": "softmax beside matmuls",
    "14_lazy_rescaling": "fewer rescalings, no idle SMs",
}
COURSE, OTHER, LINE = charts.COLOURS[0], "#333333", "#dddddd"
MARKS = {"FA-2": "down", "FA-3": "square", "FA-4": "up", "cuDNN": "circle"}


def machine(records):
    """The GPU and the date, in one line."""
    gpus = list(dict.fromkeys(record["gpu"] for record in records))
    dates = sorted(record["date"] for record in records)
    return f"{', '.join(gpus)}; {dates[-1]}"


def steps(*records):
    """A staircase: a bar for each step, longer from step to step, and the fastest other one."""
    ladder = {step.name: step for step in ladder_parts(records, ("05_flash_forward",))[0][1]}
    if missing := [name for name in STEPS if name not in ladder]:
        raise Problem(f"no record of {missing[0]}")
    peer = peers_of(records, "05_flash_forward")[-1]
    values = {words: ladder[name].tflops for name, words in STEPS.items()}
    top, row, left = 50, 40, 14
    height = top + row * len(values) + 50
    drawing = Drawing(WIDTH, height, "Attention on one GPU, faster with each step of the course")
    quiet = {"font_size": 12, "fill": "#555555"}
    start = {"text_anchor": "start"}
    heading = {"font_size": 15, "font_weight": "bold", **start}
    drawing.text(left, 22, "Attention on one GPU, step by step", **heading)
    drawing.text(left, 40, "in TFLOP/s, 10¹² operations a second", **start, **quiet)
    scale = (WIDTH - left - 60) / max(*values.values(), peer.tflops)
    y = top
    for words, value in values.items():
        drawing.text(left, y + 14, words, font_size=13, **start)
        drawing.box(left, y + 19, max(2.0, value * scale), 13, COURSE, stroke="none")
        y += row
    x = left + peer.tflops * scale
    drawing.line(x, top + 4, x, y + 4, OTHER, 1.5, stroke_dasharray="4 3")
    halo = {"stroke": "#ffffff", "stroke_width": 5, "paint_order": "stroke"}  # above the line
    for k, value in enumerate(values.values()):
        end, words = left + value * scale, f"{value:.0f}"
        look = {"font_weight": "bold", "font_size": 13}
        if end + 2 < x < end + 10 + DIGIT * len(words):  # beside the bar it would touch the line
            look |= {"font_size": 12, "fill": "#ffffff", "text_anchor": "end"}
            drawing.text(end - 6, top + row * k + 29.5, words, **look)
        else:
            drawing.text(end + 6, top + row * k + 30, words, **look, **start, **halo)
    drawing.right(x, y + 18, f"{peer.name}: {peer.tflops:.0f}", font_size=12)
    what = f"head_dim 64, later 128; N = {LENGTH}. {machine(records)}"
    drawing.text(left, height - 10, what, **start, **quiet)
    return drawing


def others(forward, backward):
    """A row for each problem: the course as a filled mark, the others as outlines."""
    top, row, left, right = 66, 22, 154, WIDTH - 20
    measured = {"forward": front.problems(forward), "backward": front.problems(backward)}
    lines = [
        (f"{name}, {head_dim}, {mask}", lengths[LENGTH])
        for name, problems in measured.items()
        for (head_dim, mask), lengths in sorted(problems.items(), key=lambda item: item[0][0])
        if len(lengths.get(LENGTH, {})) > 1 and OURS in lengths[LENGTH]
    ]
    if not lines:
        raise Problem(f"nothing is compared at length {LENGTH}")
    ticks = charts.linear_ticks(max(max(speeds.values()) for _, speeds in lines))
    bottom = top + row * len(lines)
    drawing = Drawing(WIDTH, bottom + 88, "The course beside other implementations of attention")
    start = {"text_anchor": "start"}
    drawing.text(14, 22, "The course beside others", font_size=15, font_weight="bold", **start)
    quiet = {"font_size": 12, "fill": "#555555"}
    drawing.text(14, 40, f"TFLOP/s in bfloat16, {LENGTH} queries and keys", **start, **quiet)

    def at(value):
        return left + value / ticks[-1] * (right - left)

    for tick in ticks:
        drawing.line(at(tick), top - 10, at(tick), bottom, LINE, 1)
        drawing.text(at(tick), bottom + 16, f"{tick:g}")
    for at_row, (name, speeds) in enumerate(lines):
        y = top + row * at_row + 4
        drawing.right(left - 8, y + 4, name)
        drawing.line(at(min(speeds.values())), y, at(max(speeds.values())), y, "#bbbbbb", 1)
        drawing.element("circle", cx=at(speeds[OURS]), cy=y, r=5, fill=COURSE)
        for peer, value in speeds.items():
            if peer != OURS:
                outline(drawing, MARKS[front.name_of(peer)], at(value), y)
    x, y = 24, bottom + 44
    drawing.element("circle", cx=x, cy=y - 4, r=5, fill=COURSE)
    drawing.text(x + 10, y, "the course", **start)
    x += 104
    for name, kind in MARKS.items():
        outline(drawing, kind, x, y - 4)
        drawing.text(x + 9, y, name, **start)
        x += 66
    what = f"pass, head_dim, mask. {machine([forward, backward])}"
    drawing.text(14, bottom + 74, what, **start, **quiet)
    return drawing


def outline(drawing, kind, x, y):
    """The mark of another implementation."""
    look = {"fill": "none", "stroke": OTHER, "stroke_width": 1.4}
    if kind == "circle":
        drawing.element("circle", cx=x, cy=y, r=4, **look)
        return
    corners = {
        "square": [(-1, -1), (1, -1), (1, 1), (-1, 1)],
        "up": [(0, -1.2), (1.2, 1), (-1.2, 1)],
        "down": [(0, 1.2), (1.2, -1), (-1.2, -1)],
    }[kind]
    points = " ".join(f"{x + 3.8 * a:.2f},{y + 3.8 * b:.2f}" for a, b in corners)
    drawing.element("polygon", points=points, **look)


def main(arguments):
    pictures = {"steps": (steps, None), "others": (others, 2)}
    return print_named(sys.modules[__name__], pictures, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
