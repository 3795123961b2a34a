"""SVG pictures for the pages: shapes on a panel of their own, readable on dark pages too."""

from xml.sax.saxutils import escape


class Drawing:
    """A picture. Numbers have at most two digits after the point: the same on every machine."""

    def __init__(self, width, height, title):
        self.lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12" '
            'fill="#222222" text-anchor="middle" role="img">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{width}" height="{height}" rx="6" fill="#ffffff"/>',
        ]

    def element(self, name, **attributes):
        """An element; `_` in the name of an attribute stands for `-`."""
        text = "".join(f' {key.replace("_", "-")}="{number(a)}"' for key, a in attributes.items())
        self.lines.append(f"<{name}{text}/>")

    def box(self, x, y, width, height, fill, stroke="#999", stroke_width=0.6):
        self.element(
            "rect",
            x=x,
            y=y,
            width=width,
            height=height,
            fill=fill,
            stroke=stroke,
            stroke_width=stroke_width,
        )

    def text(self, x, y, words, **attributes):
        more = "".join(f' {key.replace("_", "-")}="{number(a)}"' for key, a in attributes.items())
        self.lines.append(
            f'<text x="{number(x)}" y="{number(y)}"{more}>{escape(str(words))}</text>'
        )

    def line(self, x1, y1, x2, y2, stroke="#222222", stroke_width=1.5, **attributes):
        self.element(
            "line",
            x1=x1,
            y1=y1,
            x2=x2,
            y2=y2,
            stroke=stroke,
            stroke_width=stroke_width,
            **attributes,
        )

    def arrow(self, x1, y, x2):
        self.line(x1, y, x2 - 6, y)
        self.element("path", d=f"M {x2} {y} l -9 -5 v 10 z", fill="#222222")

    def svg(self):
        """The file's text."""
        return "\n".join([*self.lines, "</svg>", ""])


def number(value):
    """A number for SVG, without needless digits; a text as it is."""
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return value
