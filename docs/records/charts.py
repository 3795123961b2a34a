"""Draws charts of records as SVG: python3 -m docs.records.charts CHART RECORD... [--group GROUP...]

Each chart is a dictionary of what it shows, made of records by a function below, and one of three
drawings: bars, lines or dots. The SVG holds the dictionary as JSON in its <desc>. So a test can
compare a chart's data, whatever version of matplotlib drew it. --data prints only that, --table a
chart of dots as text.

Exit status: 0, or 2 when a record lacks what the chart shows."""

import argparse
import io
import json
import re
import sys
import textwrap
from xml.sax.saxutils import escape

from common.bench.peers import OURS
from common.data.records import Problem, aligned, program, read, rows_with, source
from common.drawing.dark import with_dark
from docs.records import tables
from docs.theory import examples

LENGTH, HEAD_DIM = 4096, 128  # measured for every step; that all on tensor cores are compiled for
# Those that most eyes tell apart come first (M. Okabe, K. Ito, Color Universal Design, 2008).
COLOURS = "#0072b2 #d55e00 #009e73 #cc79a7 #a67c00 #56b4e9".split()
COLOURS += "#444444 #6a3d9a #7f4f24 #6f9f00 #b3001e #00707a".split()
MARKERS = "osDv^"
BACKENDS = {
    "FLASH_ATTENTION": "FlashAttention-2",
    "FLASH_ATTENTION_3": "FlashAttention-3",
    "FLASH_ATTENTION_4": "FlashAttention-4",
    "CUDNN_ATTENTION": "cuDNN",
    "EFFICIENT_ATTENTION": "PyTorch, memory-efficient",
}
# Steps of lesson 05 that a stranger understands, with what each brings.
FRONT_STEPS = {
    "01_unfused": "the formula: three kernels",
    "03_flash_2": "one kernel, no N x N matrix",
    "08_edge_masks": "tensor cores, pipelined copies",
    "09_wgmma": "Hopper's copies and matmuls",
    "11_overlap": "softmax beside matmuls",
    "14_lazy_rescaling": "fewer rescalings, no idle SMs",
}


# ---------------------------------------------------------------- what charts show


def grouped(record, *groups):
    """The rows of groups of a record."""
    return [row for group in groups for row in rows_with(record, group=group)]


def chart(drawing, title, records, **shown):
    """What a chart shows. panels, of bars: {heading: {label: [a value for each name, or None]}}; of
    lines: {heading: {name: [[length, value]]}}; of dots: {heading: [[label, {name: value}]]}."""
    return {"drawing": drawing, "title": title, **shown, "source": source(*records)}


def steps_of(records, lesson, groups):
    """What a lesson's program timed at LENGTH, {(group, kernel): TFLOP/s}, the later of two;
    and other implementations, timed beside its interface, {name: TFLOP/s}, the fastest last."""
    steps, peers = {}, {}
    for record in records:
        if program(record) == lesson:
            for row in record["measurements"]:
                if row["group"] in groups and row.get("length", LENGTH) == LENGTH:
                    steps[row["group"], row["kernel"].replace("_matmul", "")] = row["tflops"]
        elif program(record) == f"{lesson}.interface.example":
            for row in interface_rows(record, BACKENDS, HEAD_DIM, False):
                if row["length"] == LENGTH:
                    peers[BACKENDS[row["backend"]]] = row["tflops"]
    if not steps:
        raise Problem(f"no record of {lesson} has steps at N = {LENGTH}")
    return steps, dict(sorted(peers.items(), key=lambda item: item[1]))


def interface_rows(record, backends, head_dim, causal):
    """Times of an interface in bfloat16, of some backends."""
    for row in record["measurements"]:
        if row["what"] == "time" and row.get("group", "d64") in ("d64", "d128"):
            kind = (row["type"], row["head_dim"], row["causal"])
            if row["backend"] in backends and kind == ("bfloat16", head_dim, causal):
                yield row


def ladder(records, _):
    """Every step of lessons 04 to 06, and other implementations."""
    panels = {}
    sizes = f"D = 64, in 16 bits {HEAD_DIM}, N = {LENGTH}, no mask"
    attention = ["float32, D 64", f"bfloat16, D {HEAD_DIM}"]
    for lesson, title, groups in (
        ("04_tiled_matmul", f"04: C = A B, N = {LENGTH}", ["matmul", "mma"]),
        ("05_flash_forward", f"05: attention forward, {sizes}", attention),
        ("06_flash_backward", f"06: attention backward, {sizes}", attention),
    ):
        timed, peers = steps_of(records, lesson, groups)
        kinds = dict(zip(groups, ("float32", "bfloat16")))
        panels[title] = [
            [name, {kinds[group] if name[0].isdigit() else "other implementations": speed}]
            for (group, name), speed in timed.items()
        ] + [[name, {"other implementations": speed}] for name, speed in peers.items()]
    title = "TFLOP/s of every step of lessons 04, 05 and 06"
    return chart("dots", title, records, x_label="TFLOP/s, logarithmic", log=True, panels=panels)


def matmuls(records, _):
    """Lesson 04: both matmuls, float32 and bfloat16, in % of the peak."""
    panels = {}
    for heading, groups in (("float32", ("matmul", "matmul_bt")), ("bfloat16", ("mma", "mma_bt"))):
        of = panels.setdefault(heading, {})
        for k, group in enumerate(groups):
            for row in grouped(records[0], group):
                name = row["kernel"].replace("_matmul", "")
                of.setdefault(name, [None, None])[k] = row["percent_of_peak"]
    title = "Lesson 04: matmuls of 4096 x 4096 matrices, in % of the peak of the type"
    names = ["A B", "A B transposed"]
    return chart("bars", title, records, x_label="% of peak", names=names, panels=panels)


def first_and_last(records, groups):
    """TFLOP/s of each kernel at the first and the last length, a panel for each group."""
    panels = {}
    for group in groups:
        rows = grouped(records[0], group)
        ends = [f(row["length"] for row in rows) for f in (min, max)]
        for row in rows:
            if row["length"] in ends:
                values = panels.setdefault(group, {}).setdefault(row["kernel"], [None, None])
                values[ends.index(row["length"])] = row["tflops"]
    title = f"TFLOP/s of each kernel: {'; '.join(groups)}"
    names = [f"{length} keys" for length in ends]
    return chart("bars", title, records, x_label="TFLOP/s", names=names, panels=panels)


def by_length(records, groups):
    """TFLOP/s by length, a panel for each group."""
    panels = {}
    for group in groups:
        for row in grouped(records[0], group):
            of = panels.setdefault(group, {}).setdefault(row["kernel"], [])
            of.append([row["length"], row["tflops"]])
    title = f"TFLOP/s by length: {'; '.join(groups)}"
    return chart("lines", title, records, y_label="TFLOP/s", log=False, panels=panels)


def backends(records, _):
    """A lesson's interface beside other implementations, in bfloat16."""
    names = {OURS: "this course", "deterministic": "this course, deterministic", **BACKENDS}
    panels = {}
    for head_dim, causal in ((64, False), (64, True), (128, False), (128, True)):
        of = panels.setdefault(f"D = {head_dim}, {'causal' if causal else 'no mask'}", {})
        for row in interface_rows(records[0], names, head_dim, causal):
            of.setdefault(names[row["backend"]], []).append([row["length"], row["tflops"]])
    title = "TFLOP/s of a lesson's interface beside others, bfloat16"
    return chart("lines", title, records, y_label="TFLOP/s", log=False, panels=panels)


def roofline(records, _):
    """Measured kernels below the limits of memory and of arithmetic."""
    float32, bfloat16, memory = examples.machine(records[0])
    low, high = 0.04, 5000
    panel = {
        f"{name}: {peak / 1e12:.0f} TFLOP/s": [
            [x, min(x * memory, peak) / 1e12] for x in (low, peak / memory, high)
        ]
        for name, peak in (("float32", float32), ("bfloat16, tensor cores", bfloat16))
    }
    labels, kernels = {}, examples.kernels(*records)
    for number, kernel in enumerate(kernels, 1):
        name = f"kernels, {kernel.kind}"
        panel.setdefault(name, []).append([kernel.intensity, kernel.rate / 1e12])
        labels.setdefault(name, []).append(str(number))
    title = "Measured kernels and the roofline of an H200"
    shown = chart("lines", title, records, y_label="TFLOP/s", log=True, panels={"": panel})
    shown |= {"x_label": "operations per byte that must be moved", "labels": labels}
    names = (f"{number}: {kernel.name}" for number, kernel in enumerate(kernels, 1))
    return {**shown, "remark": "; ".join(names)}


def front_steps(records, _):
    """For the front page: attention's forward pass in a few steps, and the fastest other one."""
    groups = ["float32, D 64", f"bfloat16, D {HEAD_DIM}"]
    timed, peers = steps_of(records, "05_flash_forward", groups)
    own = {name: speed for (_, name), speed in timed.items()}
    if missing := [name for name in FRONT_STEPS if name not in own]:
        raise Problem(f"no record of {missing[0]}")
    fastest, speed = list(peers.items())[-1]
    panels = {"": {words: [own[name]] for name, words in FRONT_STEPS.items()}}
    title, x_label = "Attention on one GPU, step by step", "TFLOP/s, 10¹² operations a second"
    shown = chart("bars", title, records, x_label=x_label, names=[""], panels=panels)
    return {**shown, "line": [fastest, speed]}


def front_others(records, _):
    """For the front page: the course beside other implementations."""
    rows = []
    for name, record in zip(("forward", "backward"), records):
        by_problem = sorted(tables.problems(record).items(), key=lambda item: item[0][0])
        for (head_dim, mask), lengths in by_problem:
            speeds = lengths.get(LENGTH, {})
            if OURS in speeds and len(speeds) > 1:
                names = {b: tables.name_of(b) for b in speeds} | {OURS: "the course"}
                shown = {names[backend]: speed for backend, speed in speeds.items()}
                rows.append([f"{name}, {head_dim}, {mask}", shown])
    title = f"The course beside others: TFLOP/s in bfloat16, {LENGTH} keys"
    return chart("dots", title, records, x_label="TFLOP/s", log=False, panels={"": rows})


CHARTS = [ladder, matmuls, first_and_last, by_length, backends, roofline, front_steps, front_others]
CHARTS = {chart.__name__: chart for chart in CHARTS}


# ---------------------------------------------------------------- how they are drawn


def table(spec):
    """A chart of dots as text. `times` compares with the row before of the same name."""
    text = []
    for heading, rows in spec["panels"].items():
        cells, before = [["step", "type", spec["x_label"].split(",")[0], "times"]], {}
        for label, row in rows:
            for name, value in row.items():
                times = (
                    f"{value / before[name]:.2f}" if name in before and label[0].isdigit() else "-"
                )
                cells.append([label, name, f"{value:.2f}", times])
                before[name] = value
        text += [heading, *aligned(cells, 1), ""]
    return [*text, *textwrap.wrap(f"({spec['source']})", 88, subsequent_indent=" ")]


def draw_bars(plot, spec):
    heights = [0.36 + 0.19 * len(rows) * len(spec["names"]) for rows in spec["panels"].values()]
    for axes, (heading, rows) in zip(plot(spec, heights), spec["panels"].items()):
        count = len(spec["names"])
        for k in range(count):
            at = [i + 0.8 * (k + 0.5) / count - 0.4 for i in range(len(rows))]
            values = [row[k] or 0 for row in rows.values()]
            axes.barh(at, values, 0.8 / count, color=COLOURS[k])
            for y, row in zip(at, rows.values()):
                if row[k] is not None:
                    beside(axes, f"{row[k]:.0f}", row[k], y, (3, 0), va="center")
        if "line" in spec:
            name, x = spec["line"]
            axes.axvline(x, color="#333333", linestyle="--")
            beside(axes, f"{name}: {x:.0f}", x, -0.5, (-3, 0), va="top", ha="right")
        rows_down(axes, rows, heading)
    axes.set_xlabel(spec["x_label"])
    return {} if spec["names"] == [""] else dict(zip(spec["names"], axes.containers)), 2


def beside(axes, text, x, y, points, **how):
    """Writes beside a place of the drawing."""
    axes.annotate(text, (x, y), points, textcoords="offset points", **how)


def rows_down(axes, labels, heading):
    """Labels the rows of a panel, the first at the top."""
    axes.margins(x=0.12)
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.set_title(heading)


def draw_lines(plot, spec):
    names = list(dict.fromkeys(name for panel in spec["panels"].values() for name in panel))
    if len(names) > len(COLOURS):
        raise Problem(f"{len(names)} lines in one chart; {len(COLOURS)} can be told apart")
    x_label, handles = spec.get("x_label", "length N"), {}
    heights = [2.3 if len(spec["panels"]) > 1 else 3] * len(spec["panels"])
    for axes, (heading, panel) in zip(plot(spec, heights), spec["panels"].items()):
        for name, points in panel.items():
            k = names.index(name)
            dashed = "bfloat16" in name or name in BACKENDS.values()
            look = {"color": COLOURS[k], "marker": MARKERS[k % len(MARKERS)], "markersize": 4}
            labels = spec.get("labels", {}).get(name)
            style = "" if labels else "--" if dashed else "-"
            handles[name] = axes.plot(*zip(*sorted(points)), linestyle=style, **look)[0]
            for (x, y), label in zip(points, labels or []):
                beside(axes, label, x, y, (4, 3), fontsize=7)
        axes.set_xscale("log", base=2 if x_label == "length N" else 10)
        if x_label == "length N":
            ticks = sorted({x for points in panel.values() for x, _ in points})
            axes.set_xticks(ticks, [f"{x // 1024}k" if x % 1024 == 0 else str(x) for x in ticks])
        if spec["log"]:
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
        axes.set_ylabel(spec["y_label"])
        axes.set_title(heading)
    axes.set_xlabel(x_label)
    return handles, 2


def draw_dots(plot, spec):
    panels, handles = spec["panels"], {}
    names = list(dict.fromkeys(n for rows in panels.values() for _, row in rows for n in row))
    heights = [0.4 + 0.17 * len(rows) for rows in panels.values()]
    for axes, (heading, rows) in zip(plot(spec, heights), panels.items()):
        for y, (_, row) in enumerate(rows):
            ends = [min(row.values()), max(row.values())]
            axes.plot(ends, [y, y], color="#bbbbbb", linewidth=1, zorder=1)
            for name, value in row.items():
                k = names.index(name)
                own = name in ("the course", "float32", "bfloat16")
                look = {"color": COLOURS[k], "marker": MARKERS[k % len(MARKERS)], "linestyle": ""}
                look |= {"fillstyle": "full" if own else "none", "zorder": 3 if own else 2}
                handles[name] = axes.plot(value, y, **look)[0]
                if len(row) == 1:
                    beside(axes, f"{value:.3g}", value, y, (6, 0), va="center")
        if spec["log"]:
            axes.set_xscale("log")
        else:
            axes.set_xlim(left=0)
        rows_down(axes, [label for label, _ in rows], textwrap.fill(heading, 44))
        axes.title.set_fontsize(8.5)
    axes.set_xlabel(spec["x_label"])
    return handles, 3


def svg(spec):
    """The picture: panels below one another, as wide as a phone, with the source as small print."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        raise Problem(
            "drawing needs matplotlib 3.7 or newer: python3 -m pip install matplotlib"
        ) from None
    matplotlib.use("svg")
    from matplotlib import pyplot

    look = {
        "svg.fonttype": "none",
        "svg.hashsalt": "charts",
        "font.size": 8.5,
        "font.family": "sans-serif",
        "axes.titlesize": 9,
        "axes.titleweight": "bold",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": "#dddddd",
        "legend.frameon": False,
    }
    inked = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    look |= dict.fromkeys(inked, "#222222")

    def plot(spec, heights):
        size = (4.2, sum(heights) + 0.4 * len(heights) + 1.1)
        shape = {
            "height_ratios": heights,
            "squeeze": False,
            "layout": "constrained",
            "sharex": spec["drawing"] != "lines",
        }
        figure, axes = pyplot.subplots(len(heights), 1, figsize=size, **shape)
        return list(axes[:, 0])

    text = io.StringIO()
    with matplotlib.rc_context(look):
        draw = {"bars": draw_bars, "lines": draw_lines, "dots": draw_dots}[spec["drawing"]]
        handles, columns = draw(plot, spec)
        figure, small = pyplot.gcf(), textwrap.fill(spec["source"], 72)
        if spec.get("remark"):
            small = textwrap.fill(spec["remark"], 72) + "\n" + small
        figure.supxlabel(small, fontsize=7.5, color="#555555", x=0.02, ha="left")
        # The legend brings the title: both stand above the panels, and neither covers the other.
        if max(map(len, handles), default=0) > 28:
            columns = 1
        legend = figure.legend(handles.values(), handles, loc="outside upper center", ncols=columns)
        legend.set_title(textwrap.fill(spec["title"], 50), {"weight": "bold", "size": 10})
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
        pyplot.close(figure)
    drawn = re.sub(
        r"<metadata>.*?</metadata>\s*",
        "",
        text.getvalue()[text.getvalue().index("<svg") :],
        flags=re.S,
    )
    # Colours as attributes, which the rules for dark pages look for.
    drawn = re.sub(r"(fill|stroke): (#[0-9a-f]{6});? ?", r"@\1=\2@", drawn)
    while (
        moved := re.sub(r'style="([^"]*?)@(fill|stroke)=(#\w+)@', r'\2="\3" style="\1', drawn)
    ) != drawn:
        drawn = moved
    drawn = drawn.replace(' style=""', "")
    head = f"<title>{escape(spec['title'])}</title>\n<desc>{escape(json.dumps(spec))}</desc>\n"
    drawn = re.sub(
        r"<svg\b[^>]*>\n?", lambda m: m[0].replace("<svg", '<svg role="img"') + head, drawn, count=1
    )
    return with_dark("\n".join(line.rstrip() for line in drawn.splitlines()) + "\n")


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("chart", choices=CHARTS)
    parser.add_argument("records", nargs="+", metavar="RECORD", help="a file of docs/results")
    parser.add_argument("--group", nargs="+", default=[], help="of by_length and first_and_last")
    parser.add_argument("--table", action="store_true", help="print a chart of dots as a table")
    parser.add_argument("--data", action="store_true", help="print what the chart shows, as JSON")
    options = parser.parse_args(arguments)
    try:
        spec = CHARTS[options.chart]([read(path) for path in options.records], options.group)
        if options.table:
            print("\n".join(table(spec)))
        else:
            print(json.dumps(spec) if options.data else svg(spec), end="\n" if options.data else "")
    except (Problem, ValueError, KeyError) as problem:
        print(f"charts: {options.chart}: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
