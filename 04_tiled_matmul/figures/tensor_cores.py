"""Pictures of chapter 4 as SVG: python3 -m 04_tiled_matmul.figures.tensor_cores
fragments|ldmatrix|pad|pipeline|back_to_back"""

from common.drawing.svg import COLOURS, LINEAR, QUADRATIC, RED, SMALL, Drawing, main

WIDTH = 400
LANE = 13  # the lane whose elements are outlined: g = 3, t = 1


def fragments():
    g, t, side = LANE // 4, LANE % 4, 11
    d = Drawing(WIDTH, 400, f"Elements of A, B and D that lane {LANE} holds for mma.m16n8k16")

    def matrix(x, y, rows, cols, name, owned):
        for row in range(rows):
            for col in range(cols):
                shade = COLOURS[1 + (row // 8 + col // 8) % 2]
                d.box(x + side * col, y + side * row, side, side, shade, "#ffffff", 0.5)
        for row, col in owned:
            d.box(x + side * col, y + side * row, side, side, "#ffffff", RED, 1.6)
        d.text(x + side * cols / 2, y - 6, name)

    a = {}
    for r, (dr, dc) in enumerate([(0, 0), (8, 0), (0, 8), (8, 8)]):
        for e in range(2):
            a[g + dr, 2 * t + dc + e] = r
    b = {(2 * t + dk + e, g): r for r, dk in enumerate([0, 8]) for e in range(2)}
    c = {(g + 8 * h, 2 * t + e): 2 * h + e for h in range(2) for e in range(2)}
    matrix(12, 214, 16, 16, "A: 16 x 16", a)
    matrix(206, 22, 16, 8, "B: 16 x 8", b)
    matrix(206, 178 + 36, 16, 8, "D: 16 x 8", c)
    for (row, col), register in a.items():
        if col % 2 == 0:
            x, y = 12 + side * col, 214 + side * row
            d.text(x + side, y + (23 if row < 8 else -3), f"a{register}", font_weight="bold")
    words = [
        "B, outlined:",
        f"rows {2 * t}, {2 * t + 1}: b0",
        f"rows {2 * t + 8}, {2 * t + 9}: b1",
        f"column {g}",
    ]
    d.lines_of_text(302, 60, words, text_anchor="start", step=16)
    words = ["D, outlined:", f"row {g}:", "d0, d1", f"row {g + 8}:", "d2, d3"]
    d.lines_of_text(302, 262, words, text_anchor="start", step=16)
    words = [
        f"lane {LANE}:",
        f"g = {LANE} / 4 = {g}",
        f"t = {LANE} % 4 = {t}",
        "",
        "A pair of 16-bit",
        "neighbours fills",
        "one register.",
    ]
    d.lines_of_text(12, 22, words, text_anchor="start")
    return d


def ldmatrix():
    d = Drawing(WIDTH, 318, "ldmatrix.x4: lane i gives the address of row i % 8 of matrix i / 8")
    side, left, top = 15, 62, 26
    for m, (x, y) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1)]):
        x0, y0 = left + x * (8 * side + 28), top + y * 134
        rows = 14
        for row in range(8):
            for col in range(8):
                mine = row == LANE // 4 and col // 2 == LANE % 4
                if not mine:
                    at = (x0 + side * col, y0 + rows * row, side, rows)
                    d.box(*at, COLOURS[m + 1], "#ffffff", 0.6)
        at = (x0 + 2 * side * (LANE % 4), y0 + rows * (LANE // 4), 2 * side, rows)
        d.outlined(*at)
        d.text(x0 + 4 * side, y0 - 4, f"matrix {m}: r[{m}]")
        if x == 0:
            for row in (0, 5, 7):
                d.right(
                    x0 - 6,
                    y0 + rows * row + 11,
                    f"lane {8 * m + row}",
                    font_weight="bold" if 8 * m + row == LANE else "normal",
                )
        else:
            for row in (0, 7):
                d.left(x0 + 8 * side + 6, y0 + rows * row + 11, f"lane {8 * m + row}")
    words = [
        f"Lane {LANE} gives the address of row 5 of matrix 1.",
        f"It gets columns 2 and 3 of row {LANE // 4} of each matrix (outlined).",
    ]
    d.lines_of_text(12, 296, words, text_anchor="start")
    return d


def pad():
    title = (
        "Eight rows of 16 bytes: 128 bytes apart they meet in four banks, 144 apart they fill 32"
    )
    d = Drawing(WIDTH, 226, title)
    cell = 11
    entries = [("rows of 128 bytes: 8 wavefronts", 32), ("rows of 144 bytes: 1 wavefront", 36)]
    for k, (title, pitch) in enumerate(entries):
        y = 16 + 104 * k
        d.left(38, y + 2, title, font_weight="bold")
        for row in range(8):
            d.right(30, y + 20 + 9 * row, row if row in (0, 7) else "")
            for bank in range(32):
                used = any((pitch * row + w) % 32 == bank for w in range(4))
                d.box(
                    38 + cell * bank,
                    y + 12 + 9 * row,
                    cell,
                    9,
                    RED if used else "#eeeeee",
                    "#ffffff",
                    0.4,
                )
    d.left(38, 220, "across: banks 0 to 31; down: rows 0 to 7 of a matrix")
    return d


def pipeline():
    d = Drawing(WIDTH, 246, "Three stages: while tile 2 is multiplied, tiles 3 and 4 are in flight")
    copy, work = 8, 4
    unit, left = 9.7, 66
    begin = [0, 0]
    start, free = [], []
    for tile in range(6):
        if tile >= 2:
            begin.append(start[tile - 2])
        ready = begin[tile] + copy
        start.append(max(ready, free[-1] if free else 0))
        free.append(start[tile] + work)
    for s in start:
        d.line(left + unit * s, 18, left + unit * s, 140, RED, 1, stroke_dasharray="3 3")
    for stage in range(3):
        y = 28 + 34 * stage
        d.right(left - 8, y + 18, f"stage {stage}")
        for tile in range(stage, 6, 3):
            for first, last, colour in [
                (begin[tile], begin[tile] + copy, LINEAR),
                (begin[tile] + copy, start[tile], SMALL),
                (start[tile], free[tile], QUADRATIC),
            ]:
                if last > first:
                    d.box(left + unit * first, y, unit * (last - first), 26, colour, "#666666")
            d.text(left + unit * (begin[tile] + copy / 2), y + 18, f"tile {tile}")
    for x, colour, words in [
        (66, LINEAR, "copy in flight"),
        (186, SMALL, "ready"),
        (266, QUADRATIC, "multiplied"),
    ]:
        d.box(x, 172, 14, 12, colour, "#666666")
        d.left(x + 20, 182, words)
    words = [
        "Dashed lines are barriers: a tile has arrived for all threads,",
        "and the stage used before it may be refilled.",
    ]
    d.lines_of_text(12, 208, words, text_anchor="start")
    return d


def back_to_back():
    d = Drawing(WIDTH, 260, "Two matmuls in one kernel: a tile of S lives in shared memory only")
    d.cell(20, 96, 60, 40, LINEAR, "Q tile", "#666666", 1)
    d.box(110, 20, 150, 52, LINEAR, "#666666", 1)
    d.hatched(160, 20, 50, 52, "#f3cdd6")
    d.text(134, 50, "K^T")
    d.box(110, 96, 150, 40, "#ffffff", "#bbbbbb", 1)
    d.cell(160, 96, 50, 40, QUADRATIC, "S", "#666666", 1)
    d.box(300, 20, 60, 150, LINEAR, "#666666", 1)
    d.hatched(300, 70, 60, 50, "#f3cdd6")
    d.text(330, 48, "V")
    d.cell(300, 186, 60, 40, SMALL, "O tile", "#666666", 1)
    d.pointer(82, 116, 156, 116)
    d.pointer(185, 74, 185, 94)
    d.pointer(212, 112, 296, 98)
    d.pointer(330, 122, 330, 184)
    d.lines_of_text(
        12,
        170,
        ["S = scale Q K^T: one tile", "at a time, then dropped.", "O += S V: sums in registers."],
        text_anchor="start",
    )
    d.left(12, 250, "The loop walks along K and V (hatched) together.")
    return d


if __name__ == "__main__":
    main(fragments, ldmatrix, pad, pipeline, back_to_back)
