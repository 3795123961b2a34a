"""Pictures of chapters 5 and 6 as SVG: python3 -m 05_flash_forward.figures.schedules NAME.
Without one it lists them."""

from common.drawing.svg import COLOURS, LINEAR, QUADRATIC, RED, SMALL, Drawing, main

LEFT = {"text_anchor": "start"}
NAME = {"text_anchor": "end", "font_size": 11}
GREY = "#f4f4f4"


def bars(d, y, height, bars_of_row, at):
    """A row of boxes over time: (from, to, colour, words)."""
    for begin, end, colour, words in bars_of_row:
        look = {"font_size": 11}
        d.cell(at(begin), y, at(end) - at(begin), height, colour, words, "#666666", **look)


def persistent():
    """One SM: tiles of queries one after the other, in blocks of their own and in one block."""
    d = Drawing(390, 350, "One SM over time: a block for each tile of queries, and one for all")

    def at(time):
        return 70 + 1.1 * time

    def rows(y, names):
        for k, name in enumerate(names):
            d.text(64, y + 28 * k + 15, name, **NAME)

    d.text(10, 20, "Step 12: a block for each tile of queries", font_weight="bold", **LEFT)
    rows(32, ["loads", "compute", "store O"])
    for first, i in [(0, 0), (140, 1)]:
        bars(d, 32, 22, [(first, first + 12, GREY, ""), (first + 12, first + 90, LINEAR, i)], at)
        bars(d, 60, 22, [(first + 45, first + 120, QUADRATIC, f"tile {i}")], at)
        bars(d, 88, 22, [(first + 120, first + 140, SMALL, f"O{i}")], at)
    d.line(at(140), 28, at(140), 114, "#666666", 1, stroke_dasharray="4 3")
    d.text(at(142), 126, "next block", font_size=11, **LEFT)

    d.text(10, 158, "Step 13: one block for many tiles", font_weight="bold", **LEFT)
    rows(170, ["loads", "compute", "Q stage 0", "Q stage 1"])
    loads = [
        (12, 92, LINEAR, 0),
        (92, 162, LINEAR, 1),
        (162, 238, LINEAR, 2),
        (238, 280, LINEAR, 3),
    ]
    bars(d, 170, 22, [(0, 12, GREY, ""), *loads], at)
    compute = [(45 + 75 * i, 120 + 75 * i, QUADRATIC, f"tile {i}") for i in range(3)]
    bars(d, 198, 22, compute, at)
    even = [(12, 120, LINEAR, "Q0"), (120, 140, SMALL, "O0"), (162, 270, LINEAR, "Q2")]
    odd = [(92, 195, LINEAR, "Q1"), (195, 215, SMALL, "O1"), (238, 280, LINEAR, "Q3")]
    bars(d, 226, 22, even, at)
    bars(d, 254, 22, odd, at)
    for y, time in [(226, 140), (254, 215)]:
        d.line(at(time), y - 3, at(time), y + 25, RED, 2.2)
    d.arrow(at(0), 288, at(280))
    d.text(at(280), 304, "time", **NAME)
    d.line(14, 326, 14, 342, RED, 2.2)
    d.text(20, 338, "TMA has read O: the stage of Q is released.", font_size=11, **LEFT)
    words = ["First box: the block sets up its barriers.", "A digit: Q, K and V of that tile."]
    d.lines_of_text(10, 304, words, step=16, font_size=11, **LEFT)
    return d


def work_ring():
    """The phases of the barriers of a ring with two stages, over four entries."""
    d = Drawing(390, 448, "A ring of two stages over four iterations: phases of its four barriers")
    unit, left = 69, 66

    def at(time):
        return left + unit * (time + 0.6)

    for i in range(4):
        d.box(at(i), 26, unit, 410, GREY if i % 2 == 0 else "#ffffff", stroke="none")
        d.text(at(i + 0.5), 18, f"i = {i}", font_weight="bold")
    for stage in range(2):
        top = 30 + 120 * stage
        d.right(left - 6, top + 14, f"stage {stage}", font_weight="bold")
        for row, name, delay in [(0, "full", 0.2), (1, "empty", 0.65)]:
            y = top + 20 + 44 * row
            d.right(left - 6, y + 17, name)
            ends = [-0.6, stage + delay, stage + 2 + delay, 4]
            for phase in range(3):
                begin, width = ends[phase], (ends[phase + 1] - ends[phase]) * unit
                colour = (LINEAR, QUADRATIC)[phase % 2]
                words = f"phase {phase}" if width > 45 else phase
                d.cell(at(begin), y, width, 26, colour, words, "#666666", font_size=11)
            for entry in (stage, stage + 2):
                x, words = at(entry + delay), f"write {entry}" if row == 0 else f"read {entry}"
                d.line(x, y - 3, x, y + 29, RED, 2.2)
                place = {"text_anchor": "end" if entry == 3 and row else "start"}
                d.text(x + (-3 if entry == 3 and row else 3), y - 4, words, font_size=10, **place)
    d.legend(left, 282, [(LINEAR, "even phase: parity 0"), (QUADRATIC, "odd: parity 1")])
    table = [
        (["stage"], [0, 1, 0, 1]),
        (["parity"], [0, 0, 1, 1]),
        (["consumer waits", "at full for parity"], [0, 0, 1, 1]),
        (["producer: at empty", "for parity ^ 1"], [1, 1, 0, 0]),
        (["that phase", "ended with"], ["new barrier", "new barrier", "read 0", "read 1"]),
    ]
    for k, (names, values) in enumerate(table):
        y = 296 + 28 * k
        weight = {"font_weight": "bold"} if k == 3 else {}
        middle = y + (18 if len(names) == 1 else 12)
        d.lines_of_text(4, middle, names, step=12, font_size=10, **LEFT)
        for i, value in enumerate(values):
            size = 10 if isinstance(value, str) else 12
            d.cell(at(i), y, unit, 28, "none", value, "#bbbbbb", font_size=size, **weight)
    return d


def order():
    """Four tiles of a head on two SMs, in two orders."""
    d = Drawing(390, 214, "Four tiles of queries, 1 to 4 units each, on two SMs, in two orders")
    unit = 46

    def at(time):
        return 62 + unit * time

    schedules = [
        ("Order 0, 1, 2, 3: ends at 6", 10, [[(0, 0), (1, 2)], [(0, 1), (2, 3)]]),
        ("Longest first, 3, 2, 1, 0: ends at 5", 112, [[(0, 3), (4, 0)], [(0, 2), (3, 1)]]),
    ]
    for words, top, sms in schedules:
        d.text(10, top + 12, words, font_weight="bold", **LEFT)
        end = max(begin + tile + 1 for sm in sms for begin, tile in sm)
        for sm, tiles in enumerate(sms):
            y = top + 22 + 34 * sm
            d.right(56, y + 19, f"SM {sm}")
            for begin, tile in tiles:
                words = f"tile {tile}"
                d.cell(
                    at(begin),
                    y,
                    unit * (tile + 1),
                    28,
                    COLOURS[tile],
                    words,
                    "#666666",
                    font_size=11,
                )
            last = max(begin + tile + 1 for begin, tile in tiles)
            if last < end:
                width = unit * (end - last)
                d.cell(at(last), y, width, 28, "#ffffff", "idle", "#999999", font_size=11)
    return d


def groups():
    """The order of the tiles of seven heads, three heads together."""
    title = "Seven heads of four tiles of queries each: the order, three heads together"
    d = Drawing(390, 214, title)
    blocks, heads, together = 4, 7, 3
    left, top, width, height = 66, 56, 43, 28
    left_over = heads % together
    first = [0, *range(left_over, heads, together)]
    for g, (begin, end) in enumerate(zip(first, [*first[1:], heads])):
        x, count = left + begin * width + 6 * g, end - begin
        d.text(x + count * width / 2, 18, f"group {g}", font_weight="bold")
        for head in range(begin, end):
            at = x + (head - begin) * width
            d.text(at + width / 2, 42, f"head {head}", font_size=10)
            for row in range(blocks):
                index = begin * blocks + row * count + head - begin
                d.cell(at, top + height * row, width, height, COLOURS[g], index, "#666666")
        d.box(x, top, count * width, height * blocks, "none", "#222222", 1.6)
    for row in range(blocks):
        d.text(left - 6, top + height * row + 18, f"tile {blocks - 1 - row}", **NAME)
    words = [
        "Rows: the tiles of queries of a head. Tile 3, the last queries,",
        "sees the most keys. Number in a cell: its tile_index.",
    ]
    d.lines_of_text(10, top + blocks * height + 20, words, step=16, font_size=11, **LEFT)
    return d


def lazy():
    """The largest score of a row so far, and the shift that step 14 keeps."""
    d = Drawing(390, 290, "The largest score of a row so far, and the m that step 14 keeps")
    tops = [3, 5, 5, 9, 9, 10, 13, 13, 14, 14]  # of the tiles so far, in powers of two
    left, bottom, width, unit = 50, 196, 33, 8

    def y(value):
        return bottom - unit * value

    for value in (0, 4, 8, 12, 16, 20):
        d.line(left, y(value), left + width * len(tops), y(value), "#dddddd", 0.8)
        d.text(left - 6, y(value) + 4, value, **NAME)
    d.text(10, 16, "score of a row, scaled: the exponent of 2", font_size=11, **LEFT)
    kept, before = tops[0], None
    for tile, largest in enumerate(tops):
        x = left + width * tile
        if largest - kept > 8:
            kept = largest
        d.box(x, y(kept + 8), width, 8 * unit, SMALL, stroke="none")
        line = y(largest) - (3 if largest == kept else 0)  # beside that of m, not under it
        d.line(x, line, x + width, line, "#1f5fa8", 2.4, stroke_dasharray="5 3")
        d.line(x, y(kept), x + width, y(kept), RED, 2.6)
        if before not in (None, kept):
            d.line(x, y(before), x, y(kept), RED, 2.6)
            d.right(x - 4, y(kept) - 8, "rescale", font_size=11)
        before = kept
        d.text(x + width / 2, bottom + 16, tile, font_size=11)
        d.text(x + width / 2, bottom + 54, 2 ** (largest - kept), font_size=11)
    d.text(left + width * len(tops) / 2, bottom + 32, "tile of keys", font_size=11)
    d.lines_of_text(left - 6, bottom + 48, ["P of", "that"], step=13, **NAME)
    d.line(50, 276, 76, 276, "#1f5fa8", 2.4, stroke_dasharray="5 3")
    d.text(80, 280, "largest score so far", font_size=11, **LEFT)
    d.line(196, 276, 222, 276, RED, 2.6)
    d.text(226, 280, "m", font_size=11, **LEFT)
    d.legend(246, 280, [(SMALL, "m to m + 8")])
    return d


def ranges():
    """What each warpgroup of a block computes: 384 queries, 512 keys, causal, block 1."""
    title = "192 queries under the causal mask: the tiles of keys of three warpgroups"
    d = Drawing(390, 262, title)
    left, top, width, height = 82, 50, 75, 46
    for tile in range(4):
        x = left + width * tile
        d.text(x + width / 2, 18, f"tile {tile}", font_size=11, font_weight="bold")
        d.text(x + width / 2, 36, f"{128 * tile} to {128 * tile + 127}", font_size=10)
    for group in range(3):
        y, query0 = top + height * group, 192 + 64 * group
        d.text(left - 6, y + 19, f"warpgroup {group}", **NAME)
        d.right(left - 6, y + 35, f"{query0} to {query0 + 63}", font_size=10)
        visible = query0 + 64 + 128
        for tile in range(4):
            x, key0 = left + width * tile, 128 * tile
            if key0 >= visible:
                d.cell(x, y, width, height, "#ffffff", "skip", "#666666", font_size=11)
            elif key0 + 64 == visible:
                d.box(x, y, width / 2, height, QUADRATIC, "#666666")
                d.text(x + 3, y + height - 5, "half", font_size=10, **LEFT)
                d.box(x + width / 2, y, width / 2, height, "#ffffff", "#666666")
            else:
                masked = key0 + 128 > query0 + 1 + 128
                d.box(x, y, width, height, QUADRATIC if masked else LINEAR, "#666666")
        edge = left + width * (query0 + 128) / 128
        d.line(edge, y, edge + width / 2, y + height, RED, 2)
    d.legend(14, 212, [(LINEAR, "computed, no mask"), (QUADRATIC, "computed, masked")])
    d.line(14, 232, 28, 238, RED, 2)
    d.text(34, 240, "edge of the mask: keys right of it are masked", font_size=11, **LEFT)
    return d


def mirrored_queries():
    """Which block has which 64 queries of a sequence of 1024."""
    d = Drawing(390, 150, "The block of each 64 queries of a sequence, in step 15 and in step 16")
    width = 23
    for top, name, block_of in [
        (10, "Step 15: neighbours", lambda part: part // 2),
        (72, "Step 16: mirrored", lambda part: min(part, 15 - part)),
    ]:
        d.text(11, top + 12, name, font_weight="bold", **LEFT)
        for part in range(16):
            block = block_of(part)
            chosen = block in (0, 7)
            look = {"font_weight": "bold"} if chosen else {}
            fill = (QUADRATIC if block == 0 else LINEAR) if chosen else "#ffffff"
            d.cell(11 + width * part, top + 20, width, 26, fill, block, "#666666", **look)
    d.text(11, 138, "query 0", font_size=11, **LEFT)
    d.right(379, 138, "query 1023", font_size=11)
    d.text(195, 138, "number: block, 64 queries a cell", font_size=11)
    return d


if __name__ == "__main__":
    main(persistent, work_ring, order, groups, lazy, ranges, mirrored_queries)
