"""Charts of recorded measurements, as SVG: lines over lengths, and bars.

Only Python's standard library draws them, so that they are the same bytes on every machine, and a
test can tell whether a chart is of the record that is there.
"""

import math
import textwrap

from common.data.records import Problem
from common.drawing.svg import Drawing

# First those that most eyes tell apart (M. Okabe, K. Ito, Color Universal Design, 2008).
COLOURS = [
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#a67c00"),
    *("#56b4e9", "#444444", "#6a3d9a", "#7f4f24", "#6f9f00"),
    *("#b3001e", "#00707a"),
]
MARKERS = ["circle", "square", "up", "diamond", "down"]
WIDTH, NARROW = 700, 400  # of a chart with panels side by side, and of one with a single panel
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


def footed(drawing, x, y, words, width):
    """The small print at the end of a chart, as wide as it may be. Returns how high it is."""
    lines = textwrap.wrap(words, int(width / 6.7))
    drawing.lines_of_text(x, y, lines, step=15, text_anchor="start", fill="#555555")
    return 15 * len(lines)


def legend(drawing, y, names, styles, width):
    """Names with their lines, in as many columns as there is room for. Returns how high it is."""
    columns = width // 330
    for i, name in enumerate(names):
        x, row = 20 + i % columns * 340, y + 20 * (i // columns)
        colour, kind, dashed = styles[name]
        stroke(drawing, [(x, row), (x + 34, row)], colour, dashed)
        marker(drawing, kind, x + 17, row, colour)
        drawing.left(x + 44, row + 4, name)
    return 20 * -(-len(names) // columns)


def draw_panel(drawing, at_y, bounds, x_label, lines, styles):
    """Axis x, its labels and the lines of a panel of a line chart.

    at_y:   where a value is
    bounds: left, bottom and width of the plot
    """
    x0, bottom, width = bounds
    lengths = sorted({x for series in lines for x, _ in series.points})
    first, last = math.log2(lengths[0]), math.log2(lengths[-1])
    span = max(last - first, 1)

    def at_x(value):
        return x0 + 12 + (math.log2(value) - first) / span * (width - 24)

    for length in lengths:
        drawing.line(at_x(length), bottom, at_x(length), bottom + 4, "#222222", 1)
        drawing.text(at_x(length), bottom + 18, short(length))
    drawing.line(x0, bottom, x0 + width, bottom, "#222222", 1)
    drawing.text(x0 + width / 2, bottom + 36, x_label)
    for series in lines:
        colour, kind, is_dashed = styles[series.name]
        points = [(at_x(x), at_y(y)) for x, y in series.points]
        stroke(drawing, points, colour, is_dashed)
        for x, y in points:
            marker(drawing, kind, x, y, colour)


def line_chart(title, panels, x_label, y_label, footer, log_y=False):
    """Lines over a logarithmic x axis, panels with the same y axis, two side by side, one legend
    below.

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
    columns = min(len(panels), 2)
    width = WIDTH if columns > 1 else NARROW
    left, top, plot_height, gap = 58, 46, 250 if len(panels) <= 2 else 190, 24
    plot_width = (width - left - 18 - gap * (columns - 1)) / columns
    one = top + plot_height + 46  # row of panels
    rows = -(-len(panels) // columns)
    below = rows * one + 16
    printed = 20 * -(-len(names) // (width // 330))
    small = 15 * len(textwrap.wrap(footer, int(NARROW / 6.7)))
    drawing = Drawing(width, below + printed + small + 12, title)
    low, high = place(ticks[0]), place(ticks[-1])
    for i, (heading, lines) in enumerate(panels):
        x0, bottom = left + i % columns * (plot_width + gap), i // columns * one + top + plot_height

        def at_y(value, bottom=bottom):
            return bottom - (place(value) - low) / (high - low) * plot_height

        drawing.text(x0 + plot_width / 2, bottom - plot_height - 20, heading, font_weight="bold")
        for tick in ticks:
            drawing.line(x0, at_y(tick), x0 + plot_width, at_y(tick), GRID, 1)
            if i % columns == 0:
                drawing.right(x0 - 8, at_y(tick) + 4, f"{tick:g}")
        if i % columns == 0:
            middle = bottom - plot_height / 2
            drawing.text(16, middle, y_label, transform=f"rotate(-90 16 {middle:g})")
        draw_panel(drawing, at_y, (x0, bottom, plot_width), x_label, lines, styles)
        if columns > 1:
            part = (x0 - 6, i // columns * one, plot_width + 18, one)
            drawing.narrow([(0, part[1], left - 6, one), part])
    legend(drawing, below, names, styles, width)
    y = below + printed + 10
    footed(drawing, 20, y, footer, NARROW)
    if columns > 1:
        half = below - 12, printed + 8
        drawing.narrow([(0, half[0], 350, half[1])], [(340, half[0], 350, half[1])])
        drawing.narrow([(0, y - 12, NARROW + 10, small + 14)])
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
    label_width, top, thick, gap = 154, 44, 12, 9
    width = WIDTH if len(panels) > 1 else NARROW
    panel_width = (width - 18) / len(panels)
    plot_width = panel_width - label_width - 40
    step = thick * len(names) + gap
    bottom = top + step * max(len(groups) for _, groups in panels)
    entries = len(names) + bool(remark)
    small = 15 * len(textwrap.wrap(footer, int(NARROW / 6.7)))
    drawing = Drawing(width, bottom + 62 + 18 * entries + small, title)
    for i, (heading, groups) in enumerate(panels):
        x0 = i * panel_width + label_width

        def at(value):
            return x0 + value / ticks[-1] * plot_width

        drawing.text(x0 + plot_width / 2, 26, heading, font_weight="bold")
        often = 1 if plot_width / (len(ticks) - 1) > 8 * len(f"{ticks[-1]:g}") else 2
        for k, tick in enumerate(ticks):
            drawing.line(at(tick), top - 6, at(tick), bottom, GRID, 1)
            if k % often == 0:
                drawing.text(at(tick), bottom + 16, f"{tick:g}")
        drawing.text(x0 + plot_width / 2, bottom + 34, x_label)
        for j, (label, row, note, is_bold) in enumerate(groups):
            y = top + j * step
            middle = y + thick * len(names) / 2 + 4
            bold = {"font_weight": "bold"} if is_bold else {}
            drawing.right(x0 - 8, middle, label, **bold)
            for k, value in enumerate(row):
                if value is None:
                    continue
                drawing.box(x0, y + k * thick, at(value) - x0, thick - 1, COLOURS[k], stroke="none")
                row_y = y + k * thick + 10
                drawing.left(at(value) + 4, row_y, f"{value:.0f}")
            if all(value is None for value in row):
                drawing.left(x0 + 4, middle, note, fill="#555555")
        if len(panels) > 1:
            end = top + step * len(groups)
            drawing.narrow([(i * panel_width, 0, panel_width, end)])
            drawing.narrow([(i * panel_width, bottom, panel_width, 42)])
    y = bottom + 60
    for k, name in enumerate(names):
        drawing.box(20, y + 18 * k - 9, 22, 11, COLOURS[k], stroke="none")
        drawing.left(50, y + 18 * k + 1, name)
    if remark:
        drawing.left(50, y + 18 * len(names) + 1, remark)
    footed(drawing, 20, y + 18 * entries + 4, footer, NARROW)
    if len(panels) > 1:
        drawing.narrow([(0, bottom + 44, NARROW + 10, 18 + 18 * entries + small)])
    return drawing.svg()
