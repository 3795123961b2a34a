"""SVG pictures for the pages: shapes on a panel of their own, with letters of 12 pixels and more.
dark.py adds the colours for dark pages, narrow.py cuts out what a narrow window shows."""

import math
import pathlib
import sys
from xml.sax.saxutils import escape

# The eight that tell owners apart.
COLOURS = ["#f6d5b5", "#cfe3f5", "#d6ecc9", "#e5d6f0", "#f5e9a8", "#cdebe6", "#f3cdd6", "#dcdcdc"]
# In drawings of the flow of data: what grows with the length, with its square, and what does not.
LINEAR, QUADRATIC, SMALL = "#cfe3f5", "#f6b98a", "#d6ecc9"
RED = "#b00020"


class Drawing:
    """A picture. Numbers have at most two digits after the point: the same on every machine."""

    def __init__(self, width, height, title):
        self.root = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12" '
            'fill="#222222" text-anchor="middle" role="img"'
        )
        self.lines = [
            f"<title>{escape(title)}</title>",
            f'<rect width="{width}" height="{height}" rx="6" fill="#ffffff"/>',
        ]
        self.rows = []  # of the narrow form

    def narrow(self, *rows):
        """What a narrow window shows: rows below one another, each of parts of the picture, (x, y,
        width, height), side by side. narrow.py cuts them out."""
        self.rows += [" + ".join(" ".join(map(str, map(number, p))) for p in row) for row in rows]

    def element(self, name, **attributes):
        """An element; `_` in the name of an attribute stands for `-`."""
        self.lines.append(f"<{name}{attributes_text(attributes)}/>")

    def box(self, x, y, width, height, fill, stroke="#999", stroke_width=0.6):
        look = {"fill": fill, "stroke": stroke, "stroke_width": stroke_width}
        self.element("rect", x=x, y=y, width=width, height=height, **look)

    def text(self, x, y, words, **attributes):
        place = attributes_text({"x": x, "y": y, **attributes})
        self.lines.append(f"<text{place}>{escape(str(words))}</text>")

    def left(self, x, y, words, **attributes):
        """Text that begins at x."""
        self.text(x, y, words, text_anchor="start", **attributes)

    def right(self, x, y, words, **attributes):
        """Text that ends at x."""
        self.text(x, y, words, text_anchor="end", **attributes)

    def cell(self, x, y, width, height, fill, words, stroke="#999", stroke_width=0.6, dy=4, **look):
        """A box with words in its middle."""
        self.box(x, y, width, height, fill, stroke, stroke_width)
        self.text(x + width / 2, y + height / 2 + dy, words, **look)

    def line(self, x1, y1, x2, y2, stroke="#222222", stroke_width=1.5, **attributes):
        look = {"stroke": stroke, "stroke_width": stroke_width, **attributes}
        self.element("line", x1=x1, y1=y1, x2=x2, y2=y2, **look)

    def arrow(self, x1, y, x2):
        self.line(x1, y, x2 - 6, y)
        self.element("path", d=f"M {x2} {y} l -9 -5 v 10 z", fill="#222222")

    def vertical_arrow(self, x, y1, y2):
        """Down or up."""
        point = 9 if y2 > y1 else -9
        self.line(x, y1, x, y2 - point * 0.6)
        self.element("path", d=f"M {x} {y2} l -5 {-point} h 10 z", fill="#222222")

    def pointer(self, x1, y1, x2, y2, stroke="#222222", stroke_width=1.5, **attributes):
        """An arrow from the first point to the second."""
        length = math.hypot(x2 - x1, y2 - y1)
        a, b = (x2 - x1) / length, (y2 - y1) / length  # forward; sideways is (-b, a)
        self.line(x1, y1, x2 - 6 * a, y2 - 6 * b, stroke, stroke_width, **attributes)
        corners = [(0, 0), (-9, -4.5), (-9, 4.5)]
        points = " ".join(
            f"{number(float(x2 + u * a - v * b))},{number(float(y2 + u * b + v * a))}"
            for u, v in corners
        )
        self.element("polygon", points=points, fill=stroke)

    def outlined(self, x, y, width, height, words=""):
        """A cell that stands out by its border."""
        self.cell(x, y, width, height, "#ffffff", words, RED, 2.2, font_weight="bold")

    def hatched(self, x, y, width, height, fill, stroke="#666666", step=5):
        """A box with slanted lines in it."""
        self.box(x, y, width, height, fill, stroke)
        path = []
        for a in range(step, int(width + height), step):  # from the upper right to the lower left
            x1, y1 = x + min(a, width), y + max(a - width, 0)
            x2, y2 = x + max(a - height, 0), y + min(a, height)
            path.append("M" + " ".join(str(number(float(v))) for v in (x1, y1, x2, y2)))
        self.element("path", d="".join(path), stroke="#222222", stroke_width=0.8, fill="none")

    def matrix(self, x, y, width, height, fill, name, size="", stroke="#666666"):
        """A matrix as a box with its name, and its size below it."""
        self.cell(x, y, width, height, fill, name, stroke, 1)
        if size:
            self.text(x + width / 2, y + height + 14, size, font_size=10, fill="#555555")

    def lines_of_text(self, x, y, lines, step=17, **attributes):
        """Lines of text below one another."""
        for k, words in enumerate(lines):
            self.text(x, y + step * k, words, **attributes)

    def legend(self, x, y, entries, width=400):
        """Colours and what they stand for: [(colour, words)], one behind the other in lines of this
        width."""
        left = x
        for colour, words in entries:
            if x > left and x + 20 + 6.7 * len(words) > width:
                x, y = left, y + 18
            self.box(x, y - 10, 14, 12, colour, "#666666")
            self.left(x + 20, y, words)
            x += 34 + 6.5 * len(words)

    def svg(self):
        """The file's text."""
        narrow = [f"<!-- narrow: {'; '.join(self.rows)} -->"] if self.rows else []
        return "\n".join([f"{self.root}>", *narrow, *self.lines, "</svg>", ""])


def attributes_text(attributes):
    return "".join(f' {name.replace("_", "-")}="{number(a)}"' for name, a in attributes.items())


def number(value):
    """A number for SVG, without needless digits; a text as it is."""
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return value


def main(*pictures):
    """The main program of a lesson's drawings.py: prints the picture that the command line names,
    one of these functions."""
    named = {picture.__name__: picture for picture in pictures}
    if len(sys.argv) != 2 or sys.argv[1] not in named:
        name = pathlib.Path(sys.argv[0]).name
        print(f"{name}: which picture? There are {', '.join(named)}", file=sys.stderr)
        sys.exit(2)
    print(named[sys.argv[1]]().svg(), end="")
