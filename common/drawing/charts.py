"""Charts of recorded measurements, as SVG: lines over lengths, and bars.

Only Python's standard library draws them, so that they are the same bytes on every machine, and a
test can tell whether a chart is of the record that is there.
"""

import math

from common.data.records import Problem
from common.drawing.svg import Drawing

# First those that most eyes tell apart (M. Okabe, K. Ito, Color Universal Design, 2008).
COLOURS = [
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#a67c00"),
    *("#56b4e9", "#444444", "#6a3d9a", "#7f4f24", "#6f9f00"),
    *("#b3001e", "#00707a"),
]
MARKERS = ["circle", "square", "up", "diamond", "down"]
WIDTH = 700
GRID = "#dddddd"


class Series:
    """A line of a chart."""

    def __init__(self, name, points, dashed=False):
        self.name = name
        self.points = sorted(points)  # (x, y)
        self.dashed = dashed


def short(value):
    """512, 1k, 16k"""
    return f"{value // 1024}k" if value % 1024 == 0 else f"{value:g}"


def linear_ticks(highest):
    """0 and up to six steps of 1, 2 or 5 times a power of ten; the last is not below the
    highest."""
    step = 10.0 ** math.floor(math.log10(highest / 5))
    step *= next(factor for factor in (1, 2, 5, 10) if highest / (step * factor) <= 6)
    return [i * step for i in range(math.ceil(highest / step - 1e-9) + 1)]


def power_ticks(lowest, highest):
    """Powers of two around all values."""
    return [
        2.0**i
        for i in range(
            math.floor(math.log2(lowest) + 1e-9), math.ceil(math.log2(highest) - 1e-9) + 1
        )
    ]


def marker(drawing, kind, x, y, colour):
    r = 3.6
    if kind == "circle":
        drawing.element("circle", cx=x, cy=y, r=r, fill=colour)
        return
    corners = {
        "square": [(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
        "up": [(0, -1.2), (1.1, 0.8), (-1.1, 0.8)],
        "down": [(0, 1.2), (1.1, -0.8), (-1.1, -0.8)],
        "diamond": [(0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)],
    }[kind]
    points = " ".join(f"{x + r * a:.2f},{y + r * b:.2f}" for a, b in corners)
    drawing.element("polygon", points=points, fill=colour)


def stroke(drawing, points, colour, dashed):
    line = " ".join(f"{x:.2f},{y:.2f}" for x, y in points)
    dash = {"stroke_dasharray": "6 4"} if dashed else {}
    drawing.element("polyline", points=line, fill="none", stroke=colour, stroke_width=2, **dash)


def legend(drawing, y, names, styles):
    """Two columns of names with their lines. Returns how high it is."""
    column = (WIDTH - 40) / 2
    for i, name in enumerate(names):
        x, row = 40 + i % 2 * column, y + 20 * (i // 2)
        colour, kind, dashed = styles[name]
        stroke(drawing, [(x, row), (x + 34, row)], colour, dashed)
        marker(drawing, kind, x + 17, row, colour)
        drawing.text(x + 44, row + 4, name, text_anchor="start")
    return 20 * ((len(names) + 1) // 2)


def line_chart(title, panels, x_label, y_label, footer, log_y=False):
    """Lines over a logarithmic x axis, panels side by side with the same y axis, one legend below.

    panels: [(heading, [Series])]; the same name has the same colour in all of them.
    """
    names = list(dict.fromkeys(series.name for _, lines in panels for series in lines))
    if len(names) > len(COLOURS):
        raise Problem(f"{len(names)} lines in one chart; {len(COLOURS)} can be told apart")
    dashed = {series.name: series.dashed for _, lines in panels for series in lines}
    styles = {
        name: (COLOURS[i], MARKERS[i % len(MARKERS)], dashed[name]) for i, name in enumerate(names)
    }
    values = [y for _, lines in panels for series in lines for _, y in series.points]
    if not values or min(values) <= 0:
        raise Problem(f"the chart '{title}' needs values, all above 0")
    ticks = power_ticks(min(values), max(values)) if log_y else linear_ticks(max(values))
    place = math.log2 if log_y else float
    left, top, plot_height, gap = 58, 46, 250, 24
    plot_width = (WIDTH - left - 18 - gap * (len(panels) - 1)) / len(panels)
    bottom = top + plot_height
    height = bottom + 62 + 20 * ((len(names) + 1) // 2) + 20
    drawing = Drawing(WIDTH, height, title)
    low, high = place(ticks[0]), place(ticks[-1])

    def at_y(value):
        return bottom - (place(value) - low) / (high - low) * plot_height

    for i, (heading, lines) in enumerate(panels):
        x0 = left + i * (plot_width + gap)
        lengths = sorted({x for series in lines for x, _ in series.points})
        first, last = math.log2(lengths[0]), math.log2(lengths[-1])
        span = max(last - first, 1)

        def at_x(value):
            return x0 + 12 + (math.log2(value) - first) / span * (plot_width - 24)

        drawing.text(x0 + plot_width / 2, 26, heading, font_weight="bold")
        for tick in ticks:
            drawing.line(x0, at_y(tick), x0 + plot_width, at_y(tick), GRID, 1)
            if i == 0:
                drawing.text(x0 - 8, at_y(tick) + 4, f"{tick:g}", text_anchor="end")
        for length in lengths:
            drawing.line(at_x(length), bottom, at_x(length), bottom + 4, "#222222", 1)
            drawing.text(at_x(length), bottom + 18, short(length), font_size=11)
        drawing.line(x0, bottom, x0 + plot_width, bottom, "#222222", 1)
        drawing.text(x0 + plot_width / 2, bottom + 36, x_label)
        for series in lines:
            colour, kind, is_dashed = styles[series.name]
            points = [(at_x(x), at_y(y)) for x, y in series.points]
            stroke(drawing, points, colour, is_dashed)
            for x, y in points:
                marker(drawing, kind, x, y, colour)
    middle = top + plot_height / 2
    drawing.text(16, middle, y_label, transform=f"rotate(-90 16 {middle:g})")
    below = bottom + 60
    below += legend(drawing, below, names, styles)
    drawing.text(WIDTH - 18, below + 4, footer, text_anchor="end", font_size=10, fill="#666666")
    return drawing.svg()


def bar_chart(title, panels, names, remark, x_label, footer):
    """Groups of horizontal bars, panels side by side with one scale, one legend with a remark.

    panels: [(heading, [(label, values, note, bold)])], with a value for each name, None for none.
    The note stands where a group has no value.
    """
    values = [v for _, groups in panels for _, row, _, _ in groups for v in row if v is not None]
    if not values or min(values) < 0:
        raise Problem(f"the chart '{title}' needs values, none below 0")
    ticks = linear_ticks(max(values))
    label_width, top, thick, gap = 136, 44, 12, 9
    panel_width = (WIDTH - 18) / len(panels)
    plot_width = panel_width - label_width - 40
    step = thick * len(names) + gap
    bottom = top + step * max(len(groups) for _, groups in panels)
    drawing = Drawing(WIDTH, bottom + 98, title)
    for i, (heading, groups) in enumerate(panels):
        x0 = i * panel_width + label_width

        def at(value):
            return x0 + value / ticks[-1] * plot_width

        drawing.text(x0 + plot_width / 2, 26, heading, font_weight="bold")
        for tick in ticks:
            drawing.line(at(tick), top - 6, at(tick), bottom, GRID, 1)
            drawing.text(at(tick), bottom + 16, f"{tick:g}", font_size=11)
        drawing.text(x0 + plot_width / 2, bottom + 34, x_label)
        for j, (label, row, note, is_bold) in enumerate(groups):
            y = top + j * step
            bold = {"font_weight": "bold"} if is_bold else {}
            drawing.text(
                x0 - 8,
                y + thick * len(names) / 2 + 4,
                label,
                text_anchor="end",
                font_size=11,
                **bold,
            )
            for k, value in enumerate(row):
                if value is None:
                    continue
                drawing.box(x0, y + k * thick, at(value) - x0, thick - 1, COLOURS[k], stroke="none")
                drawing.text(
                    at(value) + 4,
                    y + k * thick + 9.5,
                    f"{value:.0f}",
                    text_anchor="start",
                    font_size=10,
                )
            if all(value is None for value in row):
                drawing.text(
                    x0 + 4,
                    y + thick * len(names) / 2 + 4,
                    note,
                    text_anchor="start",
                    font_size=11,
                    fill="#666666",
                )
    y = bottom + 58
    for k, name in enumerate(names):
        x = label_width + 150 * k
        drawing.box(x, y - 9, 22, 11, COLOURS[k], stroke="none")
        drawing.text(x + 30, y + 1, name, text_anchor="start")
    drawing.text(label_width + 150 * len(names), y + 1, remark, text_anchor="start")
    drawing.text(WIDTH - 18, y + 26, footer, text_anchor="end", font_size=10, fill="#666666")
    return drawing.svg()
