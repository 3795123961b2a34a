"""Prints a picture about ring attention as SVG: python3 -m 06_flash_backward.figures.ring NAME.
Without one it lists them."""

from common.drawing.svg import COLOURS, LINEAR, SMALL, Drawing, main

WIDTH = 420
RANKS = 4
GREY = "#555555"
MASKED = "#ffffff"


def parts():
    d = Drawing(WIDTH, 282, "A rectangle that the diagonal crosses, as two problems")
    size, keys, diagonal = 22, 5, -2
    first_seeing, first_full = 2, 6
    d.left(12, 22, "8 queries and 5 keys, diagonal = -2", font_weight="bold")

    def cells(x, y, queries, columns):
        for row, query in enumerate(queries):
            d.text(x - 12, y + size * row + 15, query)
            for key in range(columns):
                visible = key <= query + diagonal
                of_part = SMALL if query >= first_full else LINEAR
                fill = of_part if visible else MASKED
                d.box(x + size * key, y + size * row, size, size, fill)
        for key in range(columns):
            d.text(x + size * (key + 0.5), y - 6, key)

    d.text(160 + size * keys / 2, 42, "keys")
    cells(160, 64, range(8), keys)
    for row, name in [(first_seeing, "first_seeing"), (first_full, "first_full")]:
        d.left(12, 64 + size * row + 15, name)
        d.arrow(90, 64 + size * row + 11, 136)
    d.left(302, 42, "causal problem")
    cells(312, 64, range(first_seeing, first_full), first_full + diagonal)
    d.left(302, 184, "full problem")
    cells(302, 206, range(first_full, 8), keys)
    d.left(12, 272, "Queries 0 and 1 see no key: no problem is added for them.", fill=GREY)
    return d


def steps(d, top, columns, first, cell, words):
    """Rows of ranks, columns of steps, with an arrow from each rank to the next: words(rank, owner,
    step) in the colour of the owner. The cells begin at `first`; `cell` is (width, gap, height)."""
    width, gap, height = cell
    pitch = height + 14
    for step in range(columns):
        x = first + (width + gap) * step
        d.text(x + width / 2, top, f"step {step}" if step < RANKS else "home", font_weight="bold")
        for rank in range(RANKS):
            y = top + 24 + pitch * rank
            owner = (rank - step) % RANKS
            lines = words(rank, owner, step).split("\n")
            d.box(x, y, width, height, COLOURS[owner])
            for i, line in enumerate(lines):
                d.text(x + width / 2, y + height / 2 + 4 + 15 * (i - (len(lines) - 1) / 2), line)
            if step == 0:
                d.left(8, y + height / 2 + 4, f"rank {rank}")
                continue
            middle = y + height / 2
            start = middle - pitch if rank else y - 14
            d.pointer(x - gap + (0 if rank else gap / 2), start, x, middle)
            if rank == RANKS - 1:
                d.line(x - gap, middle, x - gap / 2, y + height + 10)


def ring():
    d = Drawing(WIDTH, 296, "Which block of keys and values each rank holds at each step")
    d.left(8, 24, "Queries stay, keys and values move", font_weight="bold")
    steps(d, 50, RANKS, 68, (64, 28, 30), lambda rank, owner, step: f"K{owner}, V{owner}")
    d.left(8, 266, "Arrows: rank r sends its block to rank r + 1, rank 3 to rank 0.", fill=GREY)
    d.left(8, 284, "Shade and number of a block: its owner.", fill=GREY)
    return d


def gradients():
    d = Drawing(440, 330, "Which gradients each rank adds to at each step of the backward pass")
    d.left(8, 24, "dK and dV move with their K and V", font_weight="bold")

    def words(rank, owner, step):
        return f"dK{owner}" if step == RANKS else f"dK{owner} +=\nfrom Q{rank}"

    steps(d, 50, RANKS + 1, 58, (58, 20, 38), words)
    d.left(8, 300, "Arrows: rank r sends to rank r + 1, rank 3 to rank 0.", fill=GREY)
    d.left(8, 318, "Home: complete, at the owner. dV moves with dK.", fill=GREY)
    return d


def overlap():
    d = Drawing(WIDTH, 292, "Blocking and overlapped transfers of one rank over time")
    compute, transfer, left_edge = 50, 42, 72
    for top, name, apart, wait in [
        (20, "ring: transfer, then compute", transfer + compute + 2, transfer),
        (136, "overlap: transfer while computing", compute + 4, 0),
    ]:
        d.left(12, top + 4, name, font_weight="bold")
        d.left(12, top + 51, "compute")
        d.left(12, top + 83, "transfer")
        for step in range(RANKS):
            x = left_edge + apart * step
            last = step == RANKS - 1  # nothing is sent
            start = x + (0 if last else wait)
            reads, fills = "AB" if step % 2 == 0 else "BA"
            end = start + compute
            d.text((x + end) / 2, top + 24, f"step {step}")
            d.line(x - 1, top + 30, x - 1, top + 98, stroke="#999999", stroke_width=1)
            d.cell(start, top + 34, compute, 26, SMALL, f"read {reads}")
            if not last:
                d.cell(x, top + 66, transfer, 26, LINEAR, f"fill {fills}")
    d.left(12, 262, "Time runs to the right. A and B: the two buffers.", fill=GREY)
    d.left(
        12,
        280,
        "Step i reads the block of owner(i) and receives that of owner(i + 1).",
        fill=GREY,
    )
    return d


def mask(d, x, y, owners, name):
    """The causal mask of eight pieces; rows are marked with their owner."""
    size, pieces, first = 21, 2 * RANKS, x + 26
    d.left(x, y - 30, name, font_weight="bold")
    d.text(x + 12, y - 8, "rank")
    d.text(first + size * pieces / 2, y - 8, "keys")
    work = [0] * RANKS
    for i in range(pieces):
        owner = owners[i]
        d.text(x + 12, y + size * i + 15, owner)
        for j in range(pieces):
            fill = COLOURS[owner] if j < i else MASKED
            d.box(first + size * j, y + size * i, size, size, fill)
        corner = f"M {first + size * i} {y + size * i} v {size} h {size} z"
        d.element("path", d=corner, fill=COLOURS[owner], stroke="#999", stroke_width=0.6)
        work[owner] += 2 * i + 1
    d.left(x, y + size * pieces + 20, "work of ranks 0 to 3:", fill=GREY)
    d.left(x, y + size * pieces + 36, ", ".join(map(str, work)))


def zigzag():
    d = Drawing(WIDTH, 308, "The causal mask, its rows dealt to four ranks in two orders")
    d.left(12, 22, "Rows: pieces of queries, with the rank that owns them", fill=GREY)
    mask(d, 12, 78, [i // 2 for i in range(2 * RANKS)], "contiguous")
    mask(d, 214, 78, [min(i, 2 * RANKS - 1 - i) for i in range(2 * RANKS)], "zig-zag")
    d.left(12, 298, "A triangle is 1 unit of work, a square 2.", fill=GREY)
    return d


def heads():
    d = Drawing(WIDTH, 252, "An all-to-all turns a part of the positions into a part of the heads")
    size = 34
    for x, lines, by_rows in [
        (50, ("before: all heads", "of some positions"), True),
        (250, ("after the first all-to-all:", "all positions of some heads"), False),
    ]:
        for y, words in zip((22, 38), lines):
            d.text(x + 2 * size, y, words, font_weight="bold")
        for i in range(RANKS):
            d.text(x + size * i + size / 2, 62, f"h{i}")
            for j in range(RANKS):
                owner = i if by_rows else j
                d.cell(x + size * j, 70 + size * i, size, size, COLOURS[owner], f"r{owner}")
    for i in range(RANKS):
        d.text(28, 91 + size * i, f"part {i}")
    d.text(218, 128, "all-to-all")
    d.arrow(194, 138, 242)
    d.left(12, 226, "Rows: parts of the sequence. Columns: heads.", fill=GREY)
    d.left(12, 243, "r0 to r3: the rank that holds the cell.", fill=GREY)
    return d


if __name__ == "__main__":
    main(parts, ring, gradients, overlap, zigzag, heads)
