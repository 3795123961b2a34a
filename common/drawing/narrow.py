"""The narrow form of a picture: its parts below one another, where the window has no room for them
side by side. A comment in the picture says which parts these are:

    <!-- narrow: X Y WIDTH HEIGHT + X Y WIDTH HEIGHT; X Y WIDTH HEIGHT -->

Rows stand below one another, the parts of a row side by side: the labels of a table and some of
its columns, for example.
"""

import re

ROOT = re.compile(r"<svg\b[^>]*>")
PARTS = re.compile(r"<!-- narrow: ([\d. +;]+) -->\n")
GAP = 6  # between rows


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
