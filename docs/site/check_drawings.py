"""Checks the committed drawings, and what pages say of them:

two palettes    each colour has its dark one, and text has a contrast of 4.5 on what is behind
                it, in light and dark
words           drawings and pages name shapes and labels, never colours: a reader may see others
fills           of a timeline can be told apart, and from the paper, in light and dark
letters         of 9 pixels and more in windows of 390, 820, 1100 and 1440 pixels; and no
                drawing scrolls
narrow forms    every letter of a drawing is in one of the parts of its narrow form, and no part has
                a sliver of what stands beside it
text            no line goes through it, and no other text lies on it
"""

import html
import re
import xml.etree.ElementTree

from common.drawing import narrow
from common.drawing.dark import COLOUR, contrast, dark, difference
from docs.site import navigation
from docs.site.excerpts import fences_of, read_lines
from docs.site.transforms import COLUMN, LEAST, Look

FOLDERS = "[0-9][0-9]_*/figures/*.svg", "docs/*/*.svg", "docs/theory/figures/*.svg"
CONTRAST = 4.5  # WCAG 2, level AA
HUE = re.compile(
    r"\b(?:reds?|orange|yellow|green|blue|violet|purple|pink|brown|gr[ae]y|white|black|shaded|"
    r"colou?red|(?:light|dark)(?:er)? (?:boxes|cells|bars|area|part))\b",
    re.IGNORECASE,
)
# What these words are part of when they name no colour of a drawing.
NO_HUE = re.compile(
    r"white paper|red-blue pebble|black[- ]box|colored? by|Color Universal|blank and colou?red",
    re.IGNORECASE,
)
TIMELINE = re.compile(r"timeline_\d+\.svg")
APART, ON_PAPER = 0.07, 1.35  # differences of fills; contrast of a fill with dark paper
SENTENCES = re.compile(r'"([^"\n]* [^"\n]*)"')  # in a script
CODE = re.compile(r"`[^`]*`|\]\([^)]*\)|<!--.*?-->")
WIDE, SURE = 0.6, 0.5  # width of a letter, of its height: about, and at least
DARK_LINE = 2.5  # contrast of a line that makes letters illegible
SLIVER, BORDER = 4, 0.3  # pixels


def blend(over, under, share):
    """A colour that lets some of another through."""
    if share >= 1:
        return over
    long = [c if len(c) == 7 else "#" + "".join(2 * d for d in c[1:]) for c in (over, under)]
    parts = [[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in long]
    return "#" + "".join(f"{round(share * a + (1 - share) * b):02x}" for a, b in zip(*parts))


class Painter(list):
    """The shapes and texts of a drawing in the order in which they are painted: (left, top, right,
    bottom, fill, share of the fill, words or None). `texts` has (number of a text among these, what
    its letters cover at least, words), `lines` (how many of these are painted before a dark line,
    its ends)."""

    def __init__(self, svg):
        super().__init__()
        self.texts, self.lines = [], []
        self.walk(xml.etree.ElementTree.fromstring(svg), {}, 0.0, 0.0)

    def walk(self, element, above, dx, dy):
        look = {**above, **element.attrib}
        if move := re.fullmatch(
            r"translate\(([-\d.]+)[ ,]+([-\d.]+)\)(?: scale.*)?", element.get("transform", "")
        ):
            dx, dy = dx + float(move[1]), dy + float(move[2])
        kind = element.tag.rpartition("}")[2]
        box = {"rect": self.rect, "circle": self.circle, "text": self.text}.get(kind)
        fill, stroke = look.get("fill", "#000000"), look.get("stroke", "none")
        if kind == "line" and stroke.startswith("#") and contrast(stroke, "#ffffff") > DARK_LINE:
            ends = [float(element.get(name, "0")) for name in ("x1", "y1", "x2", "y2")]
            self.lines.append((len(self), [a + b for a, b in zip(ends, (dx, dy, dx, dy))]))
        if kind == "text" and "rotate" not in element.get("transform", ""):
            sure = zip(self.text(element, look, SURE), (dx, dy, dx, dy))
            self.texts.append((len(self), tuple(a + b for a, b in sure), element.text or ""))
        if box and fill.startswith("#"):
            left, top, right, bottom = box(element, look)
            share = float(look.get("fill-opacity", 1)) * float(look.get("opacity", 1))
            words = element.text or "" if kind == "text" else None
            self.append((left + dx, top + dy, right + dx, bottom + dy, fill, share, words))
        passed = ("fill", "stroke", "font-size", "text-anchor", "fill-opacity", "opacity")
        for child in element:
            self.walk(child, {key: look[key] for key in passed if key in look}, dx, dy)

    @staticmethod
    def rect(element, _):
        def pixels(name):
            value = element.get(name, "0")
            return 9999.0 if value.endswith("%") else float(value)

        left, top = pixels("x"), pixels("y")
        return left, top, left + pixels("width"), top + pixels("height")

    @staticmethod
    def circle(element, _):
        x, y, r = (float(element.get(name, "0")) for name in ("cx", "cy", "r"))
        return x - r, y - r, x + r, y + r

    @staticmethod
    def text(element, look, wide=WIDE):
        size = float(look.get("font-size", 12))
        width = wide * size * len(element.text or "")
        x, y = float(element.get("x", 0)), float(element.get("y", 0))
        left = {"middle": x - width / 2, "end": x - width}.get(look.get("text-anchor"), x)
        return left, y - 0.7 * size, left + width, y

    def contrasts(self):
        """Yields (words, contrast in light, in dark) of each text."""
        for i, (left, top, right, bottom, fill, _, words) in enumerate(self):
            if not (words or "").strip():
                continue
            x, y = (left + right) / 2, (top + bottom) / 2
            behind = ["#ffffff", dark("#ffffff")]
            for a, b, c, d, colour, share, shape_words in self[:i]:
                if shape_words is None and a <= x <= c and b <= y <= d:
                    behind = [
                        blend(colour, behind[0], share),
                        blend(dark(colour), behind[1], share),
                    ]
            yield words, contrast(fill, behind[0]), contrast(dark(fill), behind[1])


def drawings(root):
    """The committed drawings."""
    return sorted(path for pattern in FOLDERS for path in root.glob(pattern))


def palettes(svg):
    """Yields faults of the two palettes."""
    style = "".join(re.findall(r"<style>.*?</style>", svg, re.DOTALL))
    for name, colour in sorted(set(COLOUR.findall(svg.replace(style, "")))):
        if f'[{name}="{colour}"] {{ {name}: {dark(colour)} }}' not in style:
            yield f"the {name} {colour} has no dark colour"
    for words, *both in Painter(svg).contrasts():
        for value, where in zip(both, ("light", "dark")):
            if value < CONTRAST:
                yield f"'{words}' has a contrast of {value:.1f} in {where}"


def fills(svg):
    """Yields fills that cannot be told apart, or from the paper in the dark."""
    found = sorted(set(re.findall(r'<rect\b[^>]* fill="(#\w+)"', svg)))
    for i, one in enumerate(found):
        for other in found[:i]:
            for look, (a, b) in (("light", (one, other)), ("dark", (dark(one), dark(other)))):
                if difference(a, b) < APART:
                    yield f"the fills {other} and {one} look alike in {look}"
        if one != "#ffffff" and contrast(dark(one), dark("#ffffff")) < ON_PAPER:
            yield f"the fill {one} looks like the paper in dark"


def hues(text):
    """The names of colours in a text."""
    return HUE.findall(NO_HUE.sub("", text))


def sizes(svg):
    """Yields faults of the size of letters."""
    look = Look(svg)
    for window in COLUMN:
        letters, scrolls = look.letters_at(window)
        if letters < LEAST - 0.01:
            yield f"letters of {letters:.1f} pixels in a window of {window}"
        if scrolls:
            yield f"it is wider than a window of {window}, and has no narrow form"


def left_out(svg):
    """Yields the words that the narrow form does not show."""
    parts = [part for row in narrow.rows_of(svg) or () for part in row]
    if not parts:
        return
    for left, top, right, bottom, _, _, words in Painter(svg):
        x, y = (left + right) / 2, (top + bottom) / 2
        if words and not any(a <= x <= a + c and b <= y <= b + d for a, b, c, d in parts):
            yield f"the narrow form does not show '{words}'"


def slivers(svg):
    """Yields shapes of which a part of the narrow form shows next to nothing."""
    parts = [part for row in narrow.rows_of(svg) or () for part in row]
    for left, top, right, bottom, *_, words in Painter(svg)[1:]:
        for x, y, width, height in parts if words is None else ():
            wide = min(right, x + width) - max(left, x)
            high = min(bottom, y + height) - max(top, y)
            whole = wide >= min(SLIVER, right - left) and high >= min(SLIVER, bottom - top)
            if min(wide, high) > -BORDER and not whole:
                yield f"the narrow form shows a sliver of the shape at {left:g}, {top:g}"


def inside(box, x, y):
    """Is a point in a box?"""
    return box[0] < x < box[2] and box[1] < y < box[3]


def crossed(svg):
    """Yields texts that a dark line crosses, unless a shape between them hides it, and texts that
    lie on each other."""
    painter = Painter(svg)
    for number, box, words in painter.texts:
        left, top, right, bottom = box
        middle = (left + right) / 2, (top + bottom) / 2
        for before, (x1, y1, x2, y2) in painter.lines:
            steps = max(1, round(max(abs(x2 - x1), abs(y2 - y1))))
            way = (
                (x1 + k * (x2 - x1) / steps, y1 + k * (y2 - y1) / steps) for k in range(steps + 1)
            )
            shapes = (shape for shape in painter[before:number] if shape[6] is None)
            if sum(inside(box, x, y - 1) and inside(box, x, y + 1) for x, y in way) > 1 and not any(
                inside(shape, *middle) for shape in shapes
            ):
                yield f"a line goes through '{words}'"
        for _, (a, b, c, d), other in painter.texts:
            overlap = min(right, c) - max(left, a) > 2 and min(bottom, d) - max(top, b) > 2
            if overlap and (left, top) < (a, b):
                yield f"'{words}' and '{other}' lie on each other"


def faults(root):
    """Checks the drawings."""
    files = drawings(root)
    for path in files:
        svg, name = path.read_text(encoding="utf-8"), path.relative_to(root).as_posix()
        found = [*palettes(svg), *sizes(svg), *left_out(svg), *crossed(svg)]
        found += fills(svg) if TIMELINE.fullmatch(path.name) else slivers(svg)
        for words in re.findall(r">([^<]+)</(?:text|title)>", svg):
            found += [f"'{html.unescape(words)}' names {hue}" for hue in hues(words)]
        yield from (f"{name}: {fault}" for fault in found)
    for path in sorted(root.glob("docs/*/*.js")):
        if not path.stem.endswith("_data"):
            found = hues(" ".join(SENTENCES.findall(path.read_text(encoding="utf-8"))))
            yield from (f"{path.relative_to(root)}: names {hue}" for hue in found)
    for page in navigation.pages(root):
        lines = read_lines(root / page)
        _, inside = fences_of(lines)
        for i, line in enumerate(lines):
            if i not in inside:
                yield from (f"{page}:{i + 1}: names {hue}" for hue in hues(CODE.sub("", line)))
    return f"{len(files)} drawings"
