"""The narrow form of a picture: its parts below one another, where the window has no room for them
side by side. A comment in the picture says which parts these are:

    <!-- narrow: X Y WIDTH HEIGHT + X Y WIDTH HEIGHT; X Y WIDTH HEIGHT -->

Rows stand below one another, the parts of a row side by side: the labels of a table and some of
its columns, for example. A timeline of an SM gets the comment here: its titles in rows of their
own, and each axis of time in two halves, both beside the labels.
"""

import re

ROOT = re.compile(r"<svg\b[^>]*>")
PARTS = re.compile(r"<!-- narrow: ([\d. +;]+) -->\n")
GAP = 6  # between rows
# A timeline, as common/lab/timeline.cpp draws it.
LABELS, ROW = 84, 445  # width of the labels, and of a row
TITLE = re.compile(r'<text x="88" y="([\d.]+)" font-weight="bold">')
KEY = re.compile(
    r'<rect x="([\d.]+)" y="([\d.]+)" width="14" height="12"[^>]*>\s*<text[^>]*>([^<]*)'
)
NOTE = re.compile(r'<text x="18" y="([\d.]+)"')
ON_AXIS = re.compile(r'<text x="([\d.]+)" y="([\d.]+)" text-anchor="middle"[^>]*>([^<]*)')


def rows_of(svg):
    """The rows of the narrow form: [[(x, y, width, height)]]. None for a picture without one."""
    found = PARTS.search(svg)
    return found and [
        [tuple(map(float, part.split())) for part in row.split("+")] for row in found[1].split(";")
    ]


def size(svg):
    """Width and height of a picture that says them, else None."""
    found = [re.search(rf'<svg\b[^>]* {name}="([\d.]+)"', svg) for name in ("width", "height")]
    return tuple(float(match[1]) for match in found) if all(found) else None


def middle(svg, top, bottom, width):
    """Where the axis of time between two heights is cut in halves: where that cuts no word."""
    words = [
        (float(x), 3.6 * len(word))
        for x, y, word in ON_AXIS.findall(svg)
        if top <= float(y) <= bottom
    ]
    half = (LABELS + width) / 2

    def rank(x):
        return sum(abs(x - at) < wide for at, wide in words), abs(x - half)

    return min(range(round(half) - 20, round(half) + 21), key=rank)


def with_timeline(svg):
    """The text of a timeline with the comment that says its narrow form. Others stay."""
    titles = [float(y) for y in TITLE.findall(svg)]
    if not titles or ">TMA</text>" not in svg or PARTS.search(svg):
        return svg
    width, _ = size(svg)
    keys = [(float(x), float(y), 30 + 7.2 * len(words)) for x, y, words in KEY.findall(svg)]
    rows = []
    for title, after in zip(titles, [*(t - 24 for t in titles[1:]), keys[0][1]]):
        top, bottom = title + 22, after - 2
        cut = middle(svg, top, bottom, width)
        rows.append([(LABELS, title - 14, ROW, 34)])
        for left, right in ((LABELS, cut), (cut, width)):
            rows.append([(0, top, LABELS, bottom - top), (left, top, right - left, bottom - top)])
    begin, line = keys[0][:2]
    for (x, y, wide), after in zip(keys, [*keys[1:], (0, 0, 0)]):
        if after[1] != line or after[0] + after[2] - begin > ROW:
            rows.append([(begin - 6, y - 3, x + wide - begin, 18)])
            begin, line = after[:2]
    rows += [[(12, float(y) - 13, ROW, 18)] for y in NOTE.findall(svg)]
    parts = "; ".join(" + ".join(" ".join(f"{v:g}" for v in p) for p in row) for row in rows)
    return svg.replace("</svg>", f"<!-- narrow: {parts} -->\n</svg>")


def narrow(svg):
    """The text of the narrow form of a picture that has one."""
    rows = rows_of(svg)
    svg = PARTS.sub("", svg)
    root = ROOT.search(svg)[0]
    body = svg[svg.index(root) + len(root) : svg.rindex("</svg>")]
    head = "".join(re.findall(r"\n(?:<style>.*?</style>|<title>.*?</title>)", body, re.DOTALL))
    body = re.sub(r"<style>.*?</style>|<title>.*?</title>", "", body, flags=re.DOTALL).strip()
    paper, _, body = body.partition("\n")
    parts, y = [], 0.0
    for row in rows:
        x = 0.0
        for left, top, width, height in row:
            parts.append(
                f'<svg x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" '
                f'viewBox="{left:g} {top:g} {width:g} {height:g}"><use href="#all"/></svg>'
            )
            x += width
        y += max(part[3] for part in row) + GAP
    width = max(sum(part[2] for part in row) for row in rows)
    for name, value in (("width", width), ("height", y - GAP)):
        root = re.sub(rf' {name}="[^"]*"', f' {name}="{value:g}"', root, count=1)
        paper = re.sub(rf'(<rect\b[^>]*?) {name}="[^"]*"', rf'\1 {name}="100%"', paper, count=1)
    root = re.sub(r' viewBox="[^"]*"', f' viewBox="0 0 {width:g} {y - GAP:g}"', root)
    return "\n".join(
        [f"{root}{head}", paper, f'<defs><g id="all">\n{body}\n</g></defs>', *parts, "</svg>", ""]
    )
