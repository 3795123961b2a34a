"""Pictures of chapter 10 as SVG: python3 -m 05_flash_forward.figures.masks NAME.
Without one it lists them."""

from common.drawing.svg import COLOURS, LINEAR, QUADRATIC, RED, Drawing, main

SKIPPED, PARTIAL, WHOLE = "#ffffff", QUADRATIC, LINEAR
EDGE = "#666666"
BOLD = {"font_weight": "bold"}
SMALLER = {"font_size": 11}
KINDS = [(SKIPPED, "skipped"), (PARTIAL, "partial"), (WHOLE, "whole")]


def kind_of(visible, rows, columns):
    """The colour of a tile, from all of its pairs."""
    seen = [visible(i, j) for i in rows for j in columns]
    return WHOLE if all(seen) else PARTIAL if any(seen) else SKIPPED


def tile_kinds():
    """A causal window over a matrix of scores, in tiles of 8 queries and 8 keys."""
    d = Drawing(400, 408, "A causal window of 21 keys over 64 queries and keys, in tiles of 8 x 8")
    left, top, side, tile, window = 66, 34, 5, 8, 21

    def visible(i, j):
        return i - window < j <= i

    d.text(left + 32 * side, 20, "64 keys", **BOLD)
    d.right(left - 6, top + 4 * side - 2, "queries", **SMALLER)
    d.right(left - 6, top + 4 * side + 12, "0 to 7", **SMALLER)
    for row in range(0, 64, tile):
        for column in range(0, 64, tile):
            kind = kind_of(visible, range(row, row + tile), range(column, column + tile))
            d.box(left + column * side, top + row * side, tile * side, tile * side, kind, EDGE)
    for i in range(64):  # the window's edges, as stairs
        y = top + i * side
        for j in (i + 1, max(i + 1 - window, 0)):
            d.line(left + j * side, y, left + j * side, y + side, RED, 1.6)
    d.legend(left, 376, KINDS)
    d.left(left, 396, "The stairs are the edges of the window.", **SMALLER)
    return d


def range_rule():
    """The ranges of keys of the queries of a tile, and where keys are seen by all and by some."""
    d = Drawing(390, 262, "Ranges of keys of six queries: seen by some, and by all of them")
    left, top, unit, height = 84, 44, 12, 18
    ranges = [(3, 13), (4, 14), (6, 14), (7, 17), (8, 18), (9, 20)]
    d.text(left + 12 * unit, 20, "keys", **BOLD)
    for i, (begin, end) in enumerate(ranges):
        y = top + i * height
        words = {0: "first query", 5: "last query"}.get(i, "")
        d.right(left - 8, y + 13, words, **SMALLER)
        d.box(left, y, 24 * unit, height, SKIPPED, "#bbbbbb")
        d.box(left + begin * unit, y, (end - begin) * unit, height, COLOURS[1], EDGE)
    bottom = top + 6 * height
    for j, words in [(3, "first.begin"), (20, "last.end")]:
        d.line(left + j * unit, top - 6, left + j * unit, bottom + 60, "#222222", 1.2)
        d.text(left + j * unit, bottom + 74, words, **SMALLER)
    for j in (9, 13):
        d.line(left + j * unit, top - 6, left + j * unit, bottom + 24, RED, 1.2)
    d.right(left + 9 * unit + 2, bottom + 40, "last.begin", **SMALLER)
    d.left(left + 13 * unit - 2, bottom + 40, "first.end", **SMALLER)
    d.cell(left + 9 * unit, bottom + 6, 4 * unit, 18, WHOLE, "all", EDGE, **SMALLER)
    d.cell(left + 3 * unit, bottom + 42, 17 * unit, 18, PARTIAL, "some", EDGE, **SMALLER)
    d.left(left, bottom + 102, 'Keys left of "some" and right of it: seen by none.', **SMALLER)
    return d


def lost_key():
    """A band that crosses a tile and touches none of its corners."""
    d = Drawing(390, 320, "A band that passes between the corners of a tile of 64 queries, 48 keys")
    left, top, unit, reach = 110, 42, 3.5, 12
    width, height = 48 * unit, 64 * unit
    d.text(left + width / 2, 22, "keys 96 to 143", **BOLD)
    d.right(left - 12, top + 10, "query 64", **SMALLER)
    d.right(left - 12, top + 32 * unit + 4, "query 96", **SMALLER)
    d.right(left - 12, top + height, "query 127", **SMALLER)
    d.box(left, top, width, height, SKIPPED, EDGE, 1.2)
    for i in range(64):  # query 64 + i stands at key 64 + i, column i - 32
        begin, end = max(i - 32 - reach, 0), min(i - 32 + reach + 1, 48)
        if begin < end:
            d.box(left + begin * unit, top + i * unit, (end - begin) * unit, unit, PARTIAL, PARTIAL)
    for x in (0, width):
        for y in (0, height):
            d.box(left + x - 6, top + y - 6, 12, 12, "#ffffff", RED, 2)
    d.left(30, top + height + 30, "The outlined corners are masked, and a band of keys", **SMALLER)
    d.left(30, top + height + 46, "is visible between them.", **SMALLER)
    return d


if __name__ == "__main__":
    main(tile_kinds, range_rule, lost_key)
