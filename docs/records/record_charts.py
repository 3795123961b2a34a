"""Prints charts of whole records as SVG, and the ladder of all lessons: WHAT RECORD...

    ladder RECORD...         TFLOP/s of every rung, from the records of lessons 04, 05 and 06 and of
                             the interfaces of 05 and 06
    ladder_table RECORD...   the same as text
    matmuls RECORD           lesson 04: the matmuls, in % of the peak
    bytes RECORD             lesson 04: what only moves bytes, in % of the peak
    lengths RECORD GROUP...  TFLOP/s by length, a panel for each group
    rungs RECORD GROUP...    TFLOP/s of each kernel at the first and the last length, by group
    backends RECORD          a lesson's interface beside PyTorch's backends
    errors RECORD            lesson 05: errors beside those of the textbook in the same type
    steps RECORD...          for the front page: the way of attention's forward pass in a few steps,
                             from the records of lesson 05 and of its interface
    others FORWARD BACKWARD  for the front page: the course beside other implementations, from the
                             records of the interfaces of lessons 05 and 06
    verdicts RECORD          the lab: how many of the broken kernels each tool finds

Exit status: 0, or 2 when a record lacks what the chart shows."""

import math
import sys
import textwrap
import typing

from common.bench.peers import OURS
from common.data.records import Problem, aligned, print_named, program, source
from common.drawing import charts
from common.drawing.svg import Drawing
from docs.records import results, tables

LENGTH = 4096  # measured for every rung
HEAD_DIM = 128  # that the rungs on tensor cores are compiled for, all of them
COLOUR_OF = {"float32": charts.COLOURS[0], "bfloat16": charts.COLOURS[1]}
PEER = "#666666"
LEGEND = {
    "float32": COLOUR_OF["float32"],
    "bfloat16 on tensor cores": COLOUR_OF["bfloat16"],
    "other implementations": PEER,
}
# The parts of the ladder: title, and the groups of which record, by the lesson in its command.
FLASH = [("float32, D 64", "float32"), (f"bfloat16, D {HEAD_DIM}", "bfloat16")]
SIZES = f"D = 64 and in 16 bits {HEAD_DIM}, N = {LENGTH}, no mask"
PARTS = [
    (f"04: C = A B, N = {LENGTH}", "04_tiled_matmul", [("matmul", "float32"), ("mma", "bfloat16")]),
    (f"05: attention forward, {SIZES}", "05_flash_forward", FLASH),
    (f"06: attention backward, {SIZES}", "06_flash_backward", FLASH),
]
BACKENDS = {
    "FLASH_ATTENTION": "PyTorch, FlashAttention-2",
    "FLASH_ATTENTION_3": "FlashAttention-3",
    "FLASH_ATTENTION_4": "FlashAttention-4",
    "CUDNN_ATTENTION": "PyTorch, cuDNN",
}


class Step(typing.NamedTuple):
    """A line of the ladder."""

    name: str
    kind: str  # type of the elements
    tflops: float
    percent: float  # of the peak, or None
    peer: bool  # not the course's


def rows_of(records, command, group):
    """The rows of a group at LENGTH that a program wrote, by kernel; of two records of a kernel the
    later one counts."""
    rows = {}
    for record in records:
        if program(record) == command:
            for row in record["measurements"]:
                if row["group"] == group and row.get("length", LENGTH) == LENGTH:
                    rows[row["kernel"]] = row
    return list(rows.values())


def goals(record, names, head_dim, causal):
    """The rows of an interface for some backends, in bfloat16: those of the problems that charts
    show. Old records have no other ones."""
    for row in record["measurements"]:
        if row["what"] == "time" and row.get("group", "d64") in ("d64", "d128"):
            kind = (row["type"], row["head_dim"], row["causal"])
            if row["backend"] in names and kind == ("bfloat16", head_dim, causal):
                yield row


def peers_of(records, lesson):
    """PyTorch's backends in the problem of a lesson's part, from its interface; fastest last."""
    steps = []
    for record in records:
        if program(record) != f"{lesson}.interface.example":
            continue
        for row in goals(record, BACKENDS, HEAD_DIM, False):
            if row["length"] == LENGTH:
                steps.append(Step(BACKENDS[row["backend"]], "bfloat16", row["tflops"], None, True))
    return sorted(steps, key=lambda step: step.tflops)


def ladder_parts(records, lessons=None):
    """(title, steps) for each lesson, or for those that are named."""
    parts = []
    for title, command, groups in PARTS:
        if lessons and command not in lessons:
            continue
        if not any(program(record) == command for record in records):
            raise Problem(f"no record of {command}")
        steps = []
        for group, kind in groups:
            own, peers = [], []
            for row in rows_of(records, command, group):
                peer = not row["kernel"][0].isdigit()
                step = Step(row["kernel"], kind, row["tflops"], row["percent_of_peak"], peer)
                (peers if peer else own).append(step)
            steps += own + peers
        steps += peers_of(records, command)
        if not steps:
            raise Problem(f"the record of {command} has no rungs at N = {LENGTH}")
        parts.append((title, steps))
    return parts


def ladder(records):
    """Every rung as a point on a logarithmic axis, its figure beside it."""
    parts = ladder_parts(records)
    line, left, right = 17, 184, charts.NARROW - 44
    values = [step.tflops for _, steps in parts for step in steps]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    titles = [textwrap.wrap(title, 56) for title, _ in parts]
    bottom = 46 + sum(14 + 16 * len(t) + line * len(s) for t, (_, s) in zip(titles, parts))
    small = 15 * len(textwrap.wrap(source(*records), int(charts.NARROW / 6.7)))
    title = "TFLOP/s of every rung of lessons 04, 05 and 06"
    drawing = Drawing(charts.NARROW, bottom + 62 + 18 * len(LEGEND) + small, title)

    def at(value):
        return left + (math.log10(value) - low) / (high - low) * (right - left)

    def point(x, y, fill, **outline):
        drawing.element("circle", cx=x, cy=y, r=4.2, fill=fill, **outline)

    for power in range(low, high + 1):
        x = at(10.0**power)
        drawing.line(x, 26, x, bottom, charts.GRID, 1)
        drawing.text(x, 18, f"{10.0**power:g}")
        drawing.text(x, bottom + 16, f"{10.0**power:g}")
    drawing.text((left + right) / 2, bottom + 33, "TFLOP/s, logarithmic")
    y = 40
    for words, (_, steps) in zip(titles, parts):
        drawing.lines_of_text(12, y, words, step=16, text_anchor="start", font_weight="bold")
        y += 3 + 16 * len(words)
        for step in steps:
            colour = PEER if step.peer else COLOUR_OF[step.kind]
            x = at(step.tflops)
            name = step.name.replace("_matmul", "")
            drawing.right(left - 10, y + 4, name)
            drawing.line(left, y, x, y, colour, 1, opacity=0.45)
            if step.peer:
                point(x, y, "#ffffff", stroke=colour, stroke_width=1.6)
            else:
                point(x, y, colour)
            value = f"{step.tflops:#.3g}".rstrip(".")
            drawing.left(x + 9, y + 4, value)
            y += line
        y += 11
    y = bottom + 56
    for name, colour in LEGEND.items():
        fill = "#ffffff" if colour == PEER else colour
        point(20, y - 4, fill, stroke=colour, stroke_width=1.6)
        drawing.left(32, y, name)
        y += 18
    charts.footed(drawing, 16, y + 4, source(*records), charts.NARROW)
    return drawing.svg()


def ladder_table(records):
    """The ladder as text. `times` compares with the rung before of the same type."""
    lines = []
    for title, steps in ladder_parts(records):
        cells = [["rung", "type", "TFLOP/s", "% of peak", "times"]]
        before = {}
        for step in steps:
            last = None if step.peer else before.get(step.kind)
            percent = "-" if step.percent is None else f"{step.percent:.1f}"
            times = "-" if last is None else f"{step.tflops / last:.2f}"
            cells.append([step.name, step.kind, f"{step.tflops:.2f}", percent, times])
            if not step.peer:
                before[step.kind] = step.tflops
        lines += [title, *aligned(cells, 1), ""]
    for record in records:
        lines += results.source(record)
    return "\n".join(lines) + "\n"


def rows_in(record, groups):
    """The rows of groups, and the kernels in their order."""
    rows = [row for row in record["measurements"] if row["group"] in groups]
    if not rows:
        raise Problem(f"the record has no group {' or '.join(groups)}")
    return rows, list(dict.fromkeys(row["kernel"] for row in rows))


def bars(record, title, panels, names, remark, x_label):
    """A bar chart. panels: {heading: {label: values}}; the label of cuBLAS is bold."""
    lists = [
        (heading, [(label, values, "", label == "cuBLAS") for label, values in lines.items()])
        for heading, lines in panels.items()
    ]
    return charts.bar_chart(title, lists, names, remark, x_label, source(record))


def matmuls(record):
    """Lesson 04: both matmuls, float32 and bfloat16."""
    panels = {}
    for heading, groups in [("float32", ("matmul", "matmul_bt")), ("bfloat16", ("mma", "mma_bt"))]:
        rows, kernels = rows_in(record, groups)
        values = {(row["kernel"], row["group"]): row["percent_of_peak"] for row in rows}
        panels[heading] = {
            kernel.replace("_matmul", ""): [values.get((kernel, group)) for group in groups]
            for kernel in kernels
        }
    title = "Lesson 04: matmuls of 4096 x 4096 matrices, in % of the peak of the type"
    return bars(record, title, panels, ["A B", "A B transposed"], "", "% of peak")


def rungs(record, groups):
    """TFLOP/s of each kernel at the first and the last length, a panel for each group."""
    if not groups:
        raise Problem("rungs takes the groups that it is to show")
    panels, ends = {}, None
    for group in groups:
        rows, kernels = rows_in(record, (group,))
        ends = (min(row["length"] for row in rows), max(row["length"] for row in rows))
        values = {(row["kernel"], row["length"]): row["tflops"] for row in rows}
        panels[group] = {
            kernel: [values.get((kernel, length)) for length in ends] for kernel in kernels
        }
    title = f"TFLOP/s of each kernel: {'; '.join(groups)}"
    names = [f"{length} keys" for length in ends]
    return bars(record, title, panels, names, "", "TFLOP/s")


def only_bytes(record):
    """Lesson 04: sums, transposes and softmax, which are memory-bound."""
    panels = {}
    for heading, groups in [("vectors, rows", ("add", "softmax")), ("transposes", ("transpose",))]:
        panels[heading] = {
            row["kernel"].replace("_transpose", "").replace("softmax_", ""): [
                row["percent_of_peak"]
            ]
            for row in rows_in(record, groups)[0]
        }
    title = "Lesson 04: kernels that only move bytes, in % of the memory's peak"
    return bars(record, title, panels, ["4096 x 4096"], "", "% of peak")


def lengths(record, groups):
    """TFLOP/s by length, for each kernel."""
    if not groups:
        raise Problem("lengths takes the groups that it is to show")
    panels = []
    for group in groups:
        rows, kernels = rows_in(record, (group,))
        points = {kernel: [] for kernel in kernels}
        for row in rows:
            points[row["kernel"]].append((row["length"], row["tflops"]))
        panels.append((group, [charts.Series(*line) for line in points.items()]))
    values = [y for _, series in panels for one in series for _, y in one.points]
    log_y = max(values) > 20 * min(values)
    title = f"TFLOP/s by length: {'; '.join(groups)}"
    return charts.line_chart(title, panels, "length N", "TFLOP/s", source(record), log_y)


def backends(record):
    """A lesson's interface beside PyTorch's backends: bfloat16, a panel for each head dimension
    and mask."""
    names = {
        "this lesson": "this course",
        "deterministic": "this course, deterministic",
        **BACKENDS,
        "EFFICIENT_ATTENTION": "PyTorch, memory-efficient",
    }
    panels = []
    for head_dim, causal in [(64, False), (64, True), (128, False), (128, True)]:
        lines = {}
        for row in goals(record, names, head_dim, causal):
            lines.setdefault(row["backend"], []).append((row["length"], row["tflops"]))
        series = [
            charts.Series(name, lines[backend], dashed=not name.startswith("this"))
            for backend, name in names.items()
            if backend in lines
        ]
        panels.append((f"D = {head_dim}, {'causal' if causal else 'no mask'}", series))
    title = "TFLOP/s of a lesson's interface and of PyTorch's backends, bfloat16, by length"
    return charts.line_chart(title, panels, "length N", "TFLOP/s", source(record))


def errors(record):
    """Lesson 05: how far from float64, beside the textbook in the same type."""
    panels = {}
    for heading, group in [("O", "errors of O"), ("LSE", "errors of LSE")]:
        panels[heading] = {
            f"{row['type']}, D {row['head_dim']}": [
                100 * (row[name] / row["plain_" + name]) for name in ("max_error", "rms_error")
            ]
            for row in rows_in(record, (group,))[0]
        }
    title = (
        "Errors of lesson 05's kernels, in % of those of the textbook algorithm in the same type"
    )
    names, remark = ["largest error", "root mean square"], "allowed: 200 %"
    return bars(record, title, panels, names, remark, "% of the textbook's error")


def verdicts(record):
    """The lab: how many of the broken kernels each tool finds."""
    broken = [row for row in record["verdicts"] if row["version"] == "broken"]
    if not broken:
        raise Problem("the record has no broken kernels")

    def said(outcome):
        return isinstance(outcome, dict) and outcome["errors"] + outcome["warnings"] > 0

    tools = list(broken[0]["tools"])
    lines = [("the lab", [sum(row["lab"]["findings"] > 0 for row in broken)], "", True)]
    lines += [
        (tool, [sum(said(row["tools"][tool]) for row in broken)], "", False) for tool in tools
    ]
    some = sum(any(said(row["tools"][tool]) for tool in tools) for row in broken)
    lines.append(("any of the four", [some], "", False))
    title = f"Of {len(broken)} broken kernels, how many each tool reports"
    panels, names = [(f"{len(broken)} broken kernels", lines)], ["at least a warning"]
    remark = "runs that time out are not counted"
    return charts.bar_chart(title, panels, names, remark, "kernels", source(record))


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
COURSE, OTHER = charts.COLOURS[0], "#333333"
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
    measured = {"forward": tables.problems(forward), "backward": tables.problems(backward)}
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
        drawing.line(at(tick), top - 10, at(tick), bottom, charts.GRID, 1)
        drawing.text(at(tick), bottom + 16, f"{tick:g}")
    for at_row, (name, speeds) in enumerate(lines):
        y = top + row * at_row + 4
        drawing.right(left - 8, y + 4, name)
        drawing.line(at(min(speeds.values())), y, at(max(speeds.values())), y, "#bbbbbb", 1)
        drawing.element("circle", cx=at(speeds[OURS]), cy=y, r=5, fill=COURSE)
        for peer, value in speeds.items():
            if peer != OURS:
                outline(drawing, MARKS[tables.name_of(peer)], at(value), y)
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


CHARTS = {  # how many records each takes; None for any number
    "ladder": (lambda *records: ladder(records), None),
    "ladder_table": (lambda *records: ladder_table(records), None),
    "matmuls": (matmuls, 1),
    "bytes": (only_bytes, 1),
    "backends": (backends, 1),
    "errors": (errors, 1),
    "verdicts": (verdicts, 1),
    "steps": (steps, None),
    "others": (others, 2),
}


def main(arguments):
    charts_here, groups = CHARTS, arguments[2:]
    of_groups = {"lengths": lengths, "rungs": rungs}  # their further arguments are groups
    if arguments[:1] and arguments[0] in of_groups:
        chart = of_groups[arguments[0]]
        charts_here = {arguments[0]: (lambda record: chart(record, groups), 1)}
        arguments = arguments[:2]
    return print_named(sys.modules[__name__], charts_here, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
