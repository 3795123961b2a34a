"""Pictures of chapter 2 as SVG: python3 -m 04_tiled_matmul.figures.memory
latency|sectors|transpose|banks|swizzle|butterfly"""

import itertools

from common.drawing.svg import COLOURS, LINEAR, QUADRATIC, RED, SMALL, Drawing, main

WIDTH = 400
TILE = 32  # rows and columns of a tile, and banks


def latency():
    # Cycles: W. Luo et al. 2024, table of memory latencies of an H100.
    title = "Cycles from a load to its value: shared memory 30, L2 cache 260, global memory 480"
    d = Drawing(WIDTH, 158, title)
    entries = [
        ("register", 0, SMALL),
        ("shared memory", 30, SMALL),
        ("L2 cache", 260, LINEAR),
        ("global memory", 480, QUADRATIC),
    ]
    for k, (name, cycles, colour) in enumerate(entries):
        y = 16 + 30 * k
        d.right(108, y + 15, name)
        d.box(116, y, max(cycles * 0.4, 1), 22, colour, "#666666")
        d.left(122 + cycles * 0.4, y + 15, f"about {cycles}" if cycles else "no wait")
    d.left(116, 150, "cycles until a load returns on an idle GPU")
    return d


def sectors():
    title = "A warp reads 32 floats: 4 sectors for neighbours, 8 with stride 2, 32 with stride 8"
    d = Drawing(WIDTH, 330, title)
    cell, left = 11.75, 12
    entries = [
        (1, "x[lane]: 4 sectors, all bytes used"),
        (2, "x[2 * lane]: 8 sectors, half used"),
        (8, "x[8 * lane]: 32 sectors, 1/8 used"),
    ]
    for k, (stride, words) in enumerate(entries):
        y = 16 + 106 * k
        d.left(left, y + 4, words, font_weight="bold")
        d.left(left, y + 28, "lanes 0 to 7, ...", fill="#555555")
        for word in range(32):
            used = word % stride == 0
            d.box(
                left + cell * word, y + 50, cell, 20, COLOURS[4] if used else "#ffffff", "#999999"
            )
            if used and word // stride < 8:
                d.line(
                    left + 130 + 14 * (word // stride),
                    y + 28,
                    left + cell * (word + 0.5),
                    y + 49,
                    "#777777",
                    0.8,
                )
        for sector in range(4):
            d.element(
                "rect",
                x=left + 8 * cell * sector,
                y=y + 50,
                width=8 * cell,
                height=20,
                fill="none",
                stroke=RED,
                stroke_width=1.6,
            )
            d.text(left + 8 * cell * (sector + 0.5), y + 84, f"sector {sector}")
    return d


def transpose():
    title = "A transpose: a warp reads a row and writes a column, or uses a tile in shared memory"
    d = Drawing(WIDTH, 348, title)

    def matrix(x, y, name, row=None, col=None):
        d.box(x, y, 96, 96, LINEAR, "#666666", 1)
        if row is not None:
            d.box(x, y + row, 96, 12, RED, "#666666")
        if col is not None:
            d.box(x + col, y, 12, 96, RED, "#666666")
        d.text(x + 48, y + 112, name)

    d.left(12, 20, "step 02: directly", font_weight="bold")
    matrix(12, 32, "in", row=24)
    matrix(292, 32, "out", col=24)
    d.pointer(112, 62, 288, 62)
    d.text(60, 160, "a row: 4 sectors")
    d.text(340, 160, "a column: 32")
    d.left(12, 196, "step 03: through a tile in shared memory", font_weight="bold")
    matrix(12, 208, "in", row=24)
    d.box(152, 208, 96, 96, SMALL, "#666666", 1)
    d.box(152, 232, 96, 12, RED, "#666666")
    d.box(210, 208, 12, 96, "#7a2fa0", "#666666")
    d.text(200, 320, "tile")
    d.box(292, 208, 96, 96, LINEAR, "#666666", 1)
    d.cell(292, 266, 96, 12, "#7a2fa0", "out", "#666666", dy=48)
    d.pointer(110, 238, 150, 238)
    d.pointer(250, 272, 290, 272)
    d.text(200, 342, "A warp stores a row of the tile; a warp reads a column of it.")
    return d


def banks():
    chosen = 5
    title = "A tile of 32 x 32 floats in shared memory: the bank of each element of a column"
    d = Drawing(WIDTH, 252, title)
    side = 3.6
    entries = [
        ("plain", lambda row, col: TILE * row + col),
        ("padded", lambda row, col: (TILE + 1) * row + col),
        ("swizzled", lambda row, col: TILE * row + (col ^ row)),
    ]
    for k, (name, place) in enumerate(entries):
        left, top = 10 + 132 * k, 50
        d.text(left + 16 * side, 18, name, font_weight="bold")
        d.text(left + 5, 42, "0")
        d.text(left + 31 * side, 42, "31")
        d.text(left + 16 * side, 42, "bank")
        cells = {}  # (bank, row of banks) -> (row, col)
        for row in range(TILE):
            for col in range(TILE):
                word = place(row, col)
                cells[word % TILE, word // TILE] = (row, col)
        runs = {}  # of neighbours of one colour, each as a piece of a path
        for line in range(TILE + (name == "padded")):
            colours = [
                # Empty: the padding.
                "#ffffff"
                if (bank, line) not in cells
                else RED
                if cells[bank, line][1] == chosen
                else COLOURS[cells[bank, line][0] % 2 + 1]
                for bank in range(TILE)
            ]
            bank = 0
            for colour, of_run in itertools.groupby(colours):
                length = len(list(of_run))
                runs.setdefault(colour, []).append(f"M{bank} {line}h{length}v1h-{length}z")
                bank += length
        for colour, path in runs.items():
            d.element(
                "path",
                d="".join(path),
                transform=f"translate({left} {top}) scale({side})",
                fill=colour,
                stroke="none",
            )
        of_column = [place(row, chosen) % TILE for row in range(TILE)]
        used = len(set(of_column))
        rounds = max(of_column.count(bank) for bank in set(of_column))
        d.text(left + 16 * side, 190, f"{used} bank{'s' * (used > 1)}", font_weight="bold")
        d.text(left + 16 * side, 206, f"{rounds} wavefront{'s' * (rounds > 1)}", font_weight="bold")
    words = [
        f"Strong marks: column {chosen}, which a warp reads at once.",
        "Stripes: even and odd rows. Empty: padding.",
    ]
    d.lines_of_text(12, 228, words, text_anchor="start")
    return d


def swizzle():
    d = Drawing(WIDTH, 226, "XOR swizzle of a tile of 8 x 8: where each element of a row is stored")
    side = 22
    for x, name, place in [
        (14, "plain", lambda row, col: col),
        (212, "column row ^ column", lambda row, col: row ^ col),
    ]:
        d.text(x + 4 * side - 1, 20, name, font_weight="bold")
        for row in range(8):
            for place_of in range(8):
                col = place(row, place_of)  # xor is its own inverse
                at = (x + side * place_of, 30 + side * row, side, side)
                d.cell(*at, COLOURS[row % 2 + 1], col, "#999999")
        for row in range(8):  # above their neighbours' borders
            d.outlined(x + side * place(row, 2), 30 + side * row, side, side, 2)
    d.text(WIDTH / 2, 222, "Numbers: the element's own column. Outlined: column 2.")
    return d


def butterfly():
    d = Drawing(WIDTH, 262, "The maximum over 8 lanes by shuffles at distances 4, 2 and 1")
    values = [3, 7, 1, 4, 9, 2, 6, 5]
    left, step = 60, 44
    for k, distance in enumerate([None, 4, 2, 1]):
        y = 34 + 66 * k
        if distance:
            for lane in range(8):
                x = left + step * lane
                other = left + step * (lane ^ distance)
                d.line(other, y - 51, x, y - 16, "#999999", 1)
                d.line(x, y - 51, x, y - 16, "#222222", 1)
            values = [max(values[lane], values[lane ^ distance]) for lane in range(8)]
            d.left(12, y - 22, f"^ {distance}")
        for lane in range(8):
            x = left + step * lane
            d.box(x - 15, y - 15, 30, 24, QUADRATIC if values[lane] == 9 else LINEAR, "#666666")
            d.text(x, y + 2, values[lane])
            if not distance:
                d.text(x, y - 20, lane, fill="#555555")
    d.left(12, 14, "lane", fill="#555555")
    d.text(WIDTH / 2, 256, "After log2(8) = 3 exchanges each lane has the result.")
    return d


if __name__ == "__main__":
    main(latency, sectors, transpose, banks, swizzle, butterfly)
