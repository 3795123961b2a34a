"""Prints charts of whole records as SVG, and the ladder of all lessons: WHAT RECORD...

    ladder RECORD...         TFLOP/s of every rung, from the records of lessons 04, 05 and 06 and of
                             the interfaces of 05 and 06
    ladder_table RECORD...   the same as text
    products RECORD          lesson 04: the matmuls, in % of the peak
    bytes RECORD             lesson 04: what only moves bytes, in % of the peak
    lengths RECORD GROUP...  TFLOP/s by length, a panel for each group
    backends RECORD          a lesson's interface beside PyTorch's backends
    errors RECORD            lesson 05: errors beside those of the textbook in the same type
    verdicts RECORD          the lab: how many of the broken kernels each tool finds

Exit status: 0, or 2 when a record lacks what the chart shows.
"""

import argparse
import math
import sys
import textwrap

from common.bench.records import Problem, program, read, source
from common.drawing import charts
from common.drawing.svg import Drawing
from docs.records import results

LENGTH = 4096  # measured for every rung
HEAD_DIM = 128  # that the rungs on tensor cores are compiled for, all of them
COLOUR_OF = {"float32": charts.COLOURS[0], "bfloat16": charts.COLOURS[1]}
PEER = "#666666"
# The parts of the ladder: title, and the groups of which record, by the lesson in its command.
PARTS = [
    (f"04: C = A B, N = {LENGTH}", "04_tiled_matmul", [("matmul", "float32"), ("mma", "bfloat16")]),
    (
        f"05: attention forward, D = 64 and in 16 bits {HEAD_DIM}, N = {LENGTH}, no mask",
        "05_flash_forward",
        [("float32, D 64", "float32"), (f"bfloat16, D {HEAD_DIM}", "bfloat16")],
    ),
    (
        f"06: attention backward, D = 64 and in 16 bits {HEAD_DIM}, N = {LENGTH}, no mask",
        "06_flash_backward",
        [("float32, D 64", "float32"), (f"bfloat16, D {HEAD_DIM}", "bfloat16")],
    ),
]
BACKENDS = {
    "FLASH_ATTENTION": "PyTorch, FlashAttention-2",
    "FLASH_ATTENTION_3": "FlashAttention-3",
    "FLASH_ATTENTION_4": "FlashAttention-4",
    "CUDNN_ATTENTION": "PyTorch, cuDNN",
}


class Step:
    """A line of the ladder."""

    def __init__(self, name, kind, tflops, percent, peer):
        self.name = name
        self.kind = kind  # type of the numbers
        self.tflops = tflops
        self.percent = percent  # of the peak, or None
        self.peer = peer  # not the course's


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


def is_goal(row):
    """Whether a row of an interface is of the problems that charts show. Old records have no other
    ones."""
    return row["what"] == "time" and row.get("group", "d64") in ("d64", "d128")


def peers_of(records, lesson):
    """PyTorch's backends in the problem of a lesson's part, from its interface; fastest last."""
    steps = []
    for record in records:
        if program(record) != f"{lesson}.interface.example":
            continue
        for row in record["measurements"]:
            if (
                is_goal(row)
                and row["backend"] in BACKENDS
                and (row["type"], row["head_dim"], row["length"], row["causal"])
                == ("bfloat16", HEAD_DIM, LENGTH, False)
            ):
                name = BACKENDS[row["backend"]]
                steps.append(Step(name, "bfloat16", row["tflops"], None, True))
    return sorted(steps, key=lambda step: step.tflops)


def ladder_parts(records):
    """(title, steps) for each lesson that has a record."""
    parts = []
    for title, command, groups in PARTS:
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
    line, left, right = 17, 212, charts.WIDTH - 74
    values = [step.tflops for _, steps in parts for step in steps]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    height = 62 + sum(30 + line * len(steps) for _, steps in parts) + 64
    footer = textwrap.wrap(source(*records), 120)
    title = "TFLOP/s of every rung of lessons 04, 05 and 06"
    drawing = Drawing(charts.WIDTH, height + 12 * (len(footer) - 1), title)

    def at(value):
        return left + (math.log10(value) - low) / (high - low) * (right - left)

    bottom = height - 80
    for power in range(low, high + 1):
        x = at(10.0**power)
        drawing.line(x, 26, x, bottom, charts.GRID, 1)
        drawing.text(x, 18, f"{10.0**power:g}", font_size=11)
        drawing.text(x, bottom + 16, f"{10.0**power:g}", font_size=11)
    drawing.text((left + right) / 2, bottom + 33, "TFLOP/s, logarithmic")
    y = 40
    for title, steps in parts:
        drawing.text(12, y, title, text_anchor="start", font_weight="bold")
        y += 19
        for step in steps:
            colour = PEER if step.peer else COLOUR_OF[step.kind]
            x = at(step.tflops)
            drawing.text(left - 10, y + 4, step.name, text_anchor="end", font_size=11)
            drawing.line(left, y, x, y, colour, 1, opacity=0.45)
            fill = {"fill": "#ffffff", "stroke": colour, "stroke_width": 1.6}
            if not step.peer:
                fill = {"fill": colour}
            drawing.element("circle", cx=x, cy=y, r=4.2, **fill)
            figure = f"{step.tflops:#.3g}".rstrip(".")
            drawing.text(x + 9, y + 4, figure, text_anchor="start", font_size=11)
            y += line
        y += 11
    x = 12
    for name, colour, hollow in [
        ("float32", COLOUR_OF["float32"], False),
        ("bfloat16 on tensor cores", COLOUR_OF["bfloat16"], False),
        ("other implementations", PEER, True),
    ]:
        fill = {"fill": "#ffffff" if hollow else colour, "stroke": colour, "stroke_width": 1.6}
        drawing.element("circle", cx=x + 5, cy=height - 32, r=4.2, **fill)
        drawing.text(x + 16, height - 28, name, text_anchor="start", font_size=11)
        x += 32 + 6 * len(name)
    drawing.lines_of_text(
        charts.WIDTH - 12,
        height - 10,
        footer,
        step=12,
        text_anchor="end",
        font_size=10,
        fill="#666666",
    )
    return drawing.svg()


def ladder_table(records):
    """The ladder as text. `times` compares with the rung before of the same type."""
    lines = []
    for title, steps in ladder_parts(records):
        cells = [["rung", "type", "TFLOP/s", "% of peak", "times"]]
        before = {}
        for step in steps:
            last = None if step.peer else before.get(step.kind)
            cells.append(
                [
                    step.name,
                    step.kind,
                    f"{step.tflops:.2f}",
                    "-" if step.percent is None else f"{step.percent:.1f}",
                    "-" if last is None else f"{step.tflops / last:.2f}",
                ]
            )
            if not step.peer:
                before[step.kind] = step.tflops
        lines += [title, *results.aligned(cells, 1), ""]
    for record in records:
        lines += results.source(record)
    return "\n".join(lines) + "\n"


def rows_in(record, groups):
    """The rows of groups, and the kernels in their order."""
    rows = [row for row in record["measurements"] if row["group"] in groups]
    if not rows:
        raise Problem(f"the record has no group {' or '.join(groups)}")
    return rows, list(dict.fromkeys(row["kernel"] for row in rows))


def products(record):
    """Lesson 04: both matmuls, float32 and bfloat16."""
    panels = []
    for heading, groups in [("float32", ("matmul", "matmul_bt")), ("bfloat16", ("mma", "mma_bt"))]:
        rows, kernels = rows_in(record, groups)
        values = {(row["kernel"], row["group"]): row["percent_of_peak"] for row in rows}
        lines = []
        for kernel in kernels:
            label = kernel.replace("_matmul", "")
            lines.append(
                (label, [values.get((kernel, group)) for group in groups], "", kernel == "cuBLAS")
            )
        panels.append((heading, lines))
    return charts.bar_chart(
        "Lesson 04: matmuls of 4096 x 4096 matrices, in % of the peak of the type",
        panels,
        ["A B", "A B transposed"],
        "",
        "% of peak",
        source(record),
    )


def only_bytes(record):
    """Lesson 04: sums, transposes and softmax, which are memory-bound."""
    panels = []
    for heading, groups in [("vectors, rows", ("add", "softmax")), ("transposes", ("transpose",))]:
        rows, _ = rows_in(record, groups)
        lines = []
        for row in rows:
            label = row["kernel"].replace("_transpose", "").replace("softmax_", "")
            lines.append((label, [row["percent_of_peak"]], "", False))
        panels.append((heading, lines))
    return charts.bar_chart(
        "Lesson 04: kernels that only move bytes, in % of the memory's peak",
        panels,
        ["4096 x 4096"],
        "",
        "% of peak",
        source(record),
    )


def lengths(record, groups):
    """TFLOP/s by length, for each kernel."""
    if not groups:
        raise Problem("lengths takes the groups that it is to show")
    panels = []
    for group in groups:
        rows, kernels = rows_in(record, (group,))
        panels.append(
            (
                group,
                [
                    charts.Series(
                        kernel,
                        [(row["length"], row["tflops"]) for row in rows if row["kernel"] == kernel],
                    )
                    for kernel in kernels
                ],
            )
        )
    values = [y for _, series in panels for one in series for _, y in one.points]
    return charts.line_chart(
        f"TFLOP/s by length: {'; '.join(groups)}",
        panels,
        "length N",
        "TFLOP/s",
        source(record),
        log_y=max(values) > 20 * min(values),
    )


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
        for row in record["measurements"]:
            if (
                is_goal(row)
                and row["backend"] in names
                and (row["type"], row["head_dim"], row["causal"]) == ("bfloat16", head_dim, causal)
            ):
                lines.setdefault(row["backend"], []).append((row["length"], row["tflops"]))
        series = [
            charts.Series(name, lines[backend], dashed=not name.startswith("this"))
            for backend, name in names.items()
            if backend in lines
        ]
        panels.append((f"D = {head_dim}, {'causal' if causal else 'no mask'}", series))
    return charts.line_chart(
        "TFLOP/s of a lesson's interface and of PyTorch's backends, bfloat16, by length",
        panels,
        "length N",
        "TFLOP/s",
        source(record),
    )


def errors(record):
    """Lesson 05: how far from float64, beside the textbook in the same type."""
    panels = []
    for heading, group in [("O", "errors of O"), ("LSE", "errors of LSE")]:
        rows, _ = rows_in(record, (group,))
        lines = []
        for row in rows:
            ratios = [row[name] / row["plain_" + name] for name in ("max_error", "rms_error")]
            lines.append(
                (f"{row['type']}, D {row['head_dim']}", [100 * r for r in ratios], "", False)
            )
        panels.append((heading, lines))
    return charts.bar_chart(
        "Errors of lesson 05's kernels, in % of those of the textbook algorithm in the same type",
        panels,
        ["largest error", "root mean square"],
        "allowed: 200 %",
        "% of the textbook's error",
        source(record),
    )


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
    return charts.bar_chart(
        f"Of {len(broken)} broken kernels, how many each tool reports",
        [(f"{len(broken)} broken kernels", lines)],
        ["at least a warning"],
        "runs that time out are not counted",
        "kernels",
        source(record),
    )


ONE = {"products": products, "bytes": only_bytes, "backends": backends, "errors": errors}
MANY = {"ladder": ladder, "ladder_table": ladder_table}


def draw(what, arguments):
    """The text of a chart."""
    if what in MANY:
        return MANY[what]([read(path) for path in arguments])
    if what == "lengths":
        return lengths(read(arguments[0]), arguments[1:])
    if len(arguments) != 1:
        raise Problem(f"{len(arguments)} records for {what}; it takes 1")
    if what == "verdicts":
        return verdicts(read(arguments[0]))
    return ONE[what](read(arguments[0]))


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("what", choices=[*MANY, *ONE, "lengths", "verdicts"])
    parser.add_argument("arguments", nargs="+", metavar="RECORD", help="files of docs/results")
    options = parser.parse_args(arguments)
    try:
        print(draw(options.what, options.arguments), end="")
    except KeyError as error:
        print(f"record_charts.py: the record has no {error}", file=sys.stderr)
        return 2
    except (Problem, ValueError) as problem:
        print(f"record_charts.py: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
