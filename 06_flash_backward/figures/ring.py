"""Prints a picture about ring attention as SVG: python3 -m 06_flash_backward.figures.ring NAME.
Without one it lists them."""

from common.drawing.svg import COLOURS, LINEAR, SMALL, Drawing, main

WIDTH = 420
RANKS = 4
GREY = "#555555"
MASKED = "#ffffff"


def left(d, x, y, words, **look):
    d.text(x, y, words, text_anchor="start", **look)


def steps(d, top, words):
    """Rows of ranks, columns of steps: words(rank, owner, step) in the colour of the owner."""
    for step in range(RANKS):
        d.text(127 + 82 * step, top, f"step {step}", font_weight="bold")
    for rank in range(RANKS):
        y = top + 12 + 40 * rank
        left(d, 12, y + 19, f"rank {rank}, Q{rank}")
        for step in range(RANKS):
            owner = (rank - step) % RANKS
            d.cell(88 + 82 * step, y, 78, 30, COLOURS[owner], words(rank, owner, step))


def ring():
    d = Drawing(WIDTH, 262, "Which block of keys and values each rank holds at each step")
    left(d, 12, 24, "Queries stay, keys and values move", font_weight="bold")
    steps(d, 50, lambda rank, owner, step: f"K{owner}, V{owner}")
    left(
        d, 12, 238, "After each step every block moves to the next rank; that of rank 3", fill=GREY
    )
    left(d, 12, 254, "moves to rank 0. Shade and number of a block: its owner.", fill=GREY)
    return d


def gradients():
    d = Drawing(WIDTH, 280, "Which gradients each rank adds to at each step of the backward pass")
    left(d, 12, 24, "dK and dV follow their K and V", font_weight="bold")
    steps(d, 50, lambda rank, owner, step: f"dK{owner} + part {step + 1}")
    left(d, 12, 238, "Part 2: the second of the four that are added. After step 3", fill=GREY)
    left(
        d, 12, 254, "rank 0 has the complete dK1 and sends it on, to rank 1, its owner;", fill=GREY
    )
    left(d, 12, 270, "the other ranks do likewise. dV travels with dK.", fill=GREY)
    return d


def overlap():
    d = Drawing(WIDTH, 236, "Blocking and overlapped transfers of one rank over time")
    for top, name, apart, first in [
        (20, "ring: transfer, then compute", 88, 34),
        (124, "overlap: transfer while computing", 62, 0),
    ]:
        left(d, 12, top + 4, name, font_weight="bold")
        left(d, 12, top + 31, "compute")
        left(d, 12, top + 63, "transfer")
        for i in range(RANKS):
            start = 76 + apart * i
            last = i == RANKS - 1  # nothing is sent
            d.cell(
                start + (min(first, 6) if last else first), top + 14, 58, 26, SMALL, f"block {i}"
            )
            if not last:
                d.cell(start, top + 46, 32, 26, LINEAR, f"{i + 1}")
    left(d, 12, 224, "Time runs to the right. Transfer 1 brings the block of step 1.", fill=GREY)
    return d


def mask(d, x, y, owners, name):
    """The causal mask of eight pieces; rows are marked with their owner."""
    size, pieces = 22, 2 * RANKS
    left(d, x, y - 10, name, font_weight="bold")
    work = [0] * RANKS
    for i in range(pieces):
        owner = owners[i]
        d.text(x + 8, y + size * i + 15, owner)
        for j in range(pieces):
            fill = COLOURS[owner] if j <= i else MASKED
            d.box(x + 20 + size * j, y + size * i, size, size, fill)
        work[owner] += 2 * i + 1
    left(d, x, y + size * pieces + 20, "work of ranks 0 to 3:", fill=GREY)
    left(d, x, y + size * pieces + 36, ", ".join(map(str, work)))


def zigzag():
    d = Drawing(WIDTH, 296, "The causal mask, its rows dealt to four ranks in two orders")
    left(d, 12, 22, "Rows: pieces of queries, with the rank that owns them", fill=GREY)
    mask(d, 12, 56, [i // 2 for i in range(2 * RANKS)], "contiguous")
    mask(d, 220, 56, [min(i, 2 * RANKS - 1 - i) for i in range(2 * RANKS)], "zig-zag")
    left(
        d,
        12,
        284,
        "A square on the diagonal is half visible: it counts 1, the others 2.",
        fill=GREY,
    )
    return d


def heads():
    d = Drawing(WIDTH, 252, "An all-to-all turns a part of the positions into a part of the heads")
    size = 36
    for x, name, by_rows in [(62, "before: all heads of", True), (262, "between: all", False)]:
        d.text(x + 2 * size, 24, name, font_weight="bold")
        d.text(x + 2 * size, 40, "some positions" if by_rows else "positions of some heads",
               font_weight="bold")  # fmt: skip
        for i in range(RANKS):
            d.text(x + size * i + size / 2, 62, f"h{i}")
            for j in range(RANKS):
                owner = i if by_rows else j
                d.cell(x + size * j, 70 + size * i, size, size, COLOURS[owner], f"r{owner}")
    for i in range(RANKS):
        d.text(30, 93 + size * i, f"part {i}")
    d.arrow(214, 142, 254)
    left(
        d,
        12,
        232,
        "Rows: parts of the sequence. Columns: heads. r0 to r3:",
        fill=GREY,
    )
    left(d, 12, 247, "the rank that has it. A second all-to-all brings O back.", fill=GREY)
    return d


if __name__ == "__main__":
    main(ring, gradients, overlap, zigzag, heads)
