"""Pictures of chapter 3 as SVG: python3 -m 04_tiled_matmul.figures.matmul
coalesced|tiles|thread_tiles|groups|stages"""

from common.drawing.svg import COLOURS, LINEAR, QUADRATIC, RED, SMALL, Drawing, main

WIDTH = 400
YELLOW = COLOURS[4]  # elements of C


def coalesced():
    title = (
        "What one warp loads in an iteration: step 07 goes down columns of C, step 08 along a row"
    )
    d = Drawing(WIDTH, 344, title)

    def step(y, title, a_rows, c_box, b_words, a_words):
        d.left(12, y, title, font_weight="bold")
        d.box(12, y + 12, 100, 100, LINEAR, "#666666", 1)
        for row in a_rows:
            d.box(42, y + 12 + row, 7, 5.5, RED, "#666666")
        d.text(62, y + 128, "A")
        d.box(150, y + 12, 100, 100, LINEAR, "#666666", 1)
        x, height = b_words
        d.box(150 + x, y + 42, height, 6, RED, "#666666")
        d.text(200, y + 128, "B")
        d.box(288, y + 12, 100, 100, LINEAR, "#666666", 1)
        d.box(288 + c_box[0], y + 12 + c_box[1], c_box[2], c_box[3], YELLOW, "#666666", 1)
        d.text(338, y + 128, "C")
        d.left(12, y + 146, a_words)

    step(
        20,
        "step 07: lanes cover 16 rows x 2 columns of C",
        [20 + 7 * k for k in range(8)],
        (30, 20, 12, 55),
        (30, 12),
        "A: 16 rows, 16 sectors. B: 2 neighbours, 1 sector.",
    )
    step(
        186,
        "step 08: lanes cover 32 columns of a row of C",
        [20],
        (20, 20, 55, 6),
        (20, 55),
        "A: one element, 1 sector. B: 32 neighbours, 4 sectors.",
    )
    return d


def tiles():
    d = Drawing(WIDTH, 372, "The levels of memory that the elements of a matmul pass through")
    d.box(8, 8, 384, 206, "#f4f4f4", "#bbbbbb")
    d.left(16, 26, "global memory: A, B and C", font_weight="bold")
    d.box(20, 124, 100, 80, LINEAR, "#666666", 1)
    d.box(20, 152, 100, 26, SMALL, "#222222", 2)
    d.box(48, 152, 26, 26, RED, "#666666", 1)
    d.text(34, 142, "A")
    d.box(132, 124, 100, 80, LINEAR, "#666666", 1)
    d.hatched(166, 152, 26, 26, YELLOW)
    d.text(146, 142, "C")
    d.box(132, 36, 100, 80, LINEAR, "#666666", 1)
    d.box(166, 36, 26, 80, SMALL, "#222222", 2)
    d.box(166, 60, 26, 26, RED, "#666666", 1)
    d.text(146, 56, "B")
    words = [
        "A tile of C (hatched)",
        "needs a strip of A and",
        "of B (outlined). The",
        "block takes one pair of",
        "tiles (filled) at a time.",
    ]
    d.lines_of_text(250, 60, words, text_anchor="start")
    d.cell(8, 240, 184, 92, "#f4f4f4", "shared memory", "#bbbbbb", dy=40, font_weight="bold")
    d.box(30, 250, 44, 44, RED, "#666666", 1)
    d.box(116, 250, 44, 44, RED, "#666666", 1)
    d.text(52, 309, "A's tile")
    d.text(138, 309, "B's tile")
    d.pointer(60, 180, 52, 248)
    d.line(193, 73, 242, 73, "#222222")
    d.line(242, 73, 242, 226, "#222222")
    d.line(242, 226, 138, 226, "#222222")
    d.pointer(138, 226, 138, 248)
    d.cell(
        208, 240, 184, 92, "#f4f4f4", "registers of a thread", "#bbbbbb", dy=40, font_weight="bold"
    )
    d.hatched(287, 259, 26, 26, YELLOW)
    d.text(300, 307, "sums of C")
    d.pointer(164, 272, 284, 272)
    d.text(200, 356, "Sums stay in registers and go to C once, at the end.")
    return d


def thread_tiles():
    title = "Elements that a thread loads from shared memory, and multiply-adds, per step along k"
    d = Drawing(WIDTH, 246, title)
    for x, title, rows, cols, words in [
        (14, "step 09", 1, 1, ["2 loads", "1 multiply-add"]),
        (112, "step 10", 8, 1, ["9 loads", "8 multiply-adds"]),
        (240, "step 11", 8, 8, ["16 loads", "64 multiply-adds"]),
    ]:
        d.text(x + 44, 20, title, font_weight="bold")
        side = 14
        for r in range(rows):
            d.box(x + 8, 70 + side * r, side, side, RED, "#ffffff")
            for c in range(cols):
                d.box(x + 28 + side * c, 70 + side * r, side, side, YELLOW, "#666666")
        for c in range(cols):
            d.box(x + 28 + side * c, 50, side, side, RED, "#ffffff")
        d.text(x + 50, 206, words[0])
        d.text(x + 50, 222, words[1])
    d.text(WIDTH / 2, 242, "left: elements of A; top: of B; between them: sums in registers")
    return d


def groups():
    title = "The columns of B that lanes read: 8 neighbours each, or two groups of 4"
    d = Drawing(WIDTH, 214, title)
    cell = 5.875
    entries = [
        (
            "step 11: lane x owns columns 8x to 8x + 7",
            lambda col: col // 8,
            "first loads of 16 lanes: 8 apart, 4 banks",
        ),
        (
            "step 12: lane x owns 4x to 4x + 3, and 64 more",
            lambda col: col // 4 % 16,
            "first loads of 16 lanes: neighbours, all banks",
        ),
    ]
    for k, (title, owner, result) in enumerate(entries):
        y = 16 + 98 * k
        d.left(12, y + 1, title, font_weight="bold")
        for col in range(64):
            first = col % 8 == 0 if k == 0 else True
            colour = RED if first and (k == 1 or col % 8 == 0) else COLOURS[owner(col) % 2 + 1]
            rise = 6 if colour == RED else 0
            d.box(12 + cell * col, y + 14 - rise, cell, 22 + rise, colour, "#ffffff", 0.3)
        size = 8 if k == 0 else 4
        for lane in range(64 // size):
            if lane % (1 if k == 0 else 2) == 0:
                d.text(12 + cell * size * (lane + 0.5), y + 52, lane)
        d.left(12, y + 70, result)
    d.text(WIDTH / 2, 208, "columns 0 to 63 of B's tile; numbers: lanes; raised: one load")
    return d


def stages():
    title = "A loop over tiles with one stage and with two: copies and multiplications over time"
    d = Drawing(WIDTH, 214, title)
    copy, work, unit = 3, 4, 12.4
    for k, (title, count) in enumerate([("one stage", 1), ("two stages", 2)]):
        y = 18 + 90 * k
        d.left(12, y, title, font_weight="bold")
        now, before = 0.0, 0.0  # end, and begin, of the last multiplication
        for tile in range(4):
            begin = now if count == 1 else before
            ready = begin + copy
            start = max(now, ready)
            before, now = start, start + work
            for first, last, row, colour in [(begin, ready, 0, LINEAR), (start, now, 1, QUADRATIC)]:
                d.box(
                    66 + unit * first * 0.9,
                    y + 10 + 24 * row,
                    unit * (last - first) * 0.9,
                    20,
                    colour,
                    "#666666",
                )
                d.text(66 + unit * 0.9 * (first + last) / 2, y + 25 + 24 * row, tile)
        for row, name in enumerate(["copy", "multiply"]):
            d.right(60, y + 25 + 24 * row, name)
    d.text(WIDTH / 2, 204, "Numbers: tiles. Each unit of hardware has its own row.")
    return d


if __name__ == "__main__":
    main(coalesced, tiles, thread_tiles, groups, stages)
