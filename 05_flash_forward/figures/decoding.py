"""Pictures of chapters 7 and 8 as SVG: python3 -m 05_flash_forward.figures.decoding NAME.
Without one it lists them."""

from common.drawing.svg import COLOURS, LINEAR, QUADRATIC, RED, SMALL, Drawing, main

GREY = "#f4f4f4"
EDGE = "#666666"
BOLD = {"font_weight": "bold"}
SMALLER = {"font_size": 11}


def wasted_tile():
    """A tile of 128 rows with one query, and the SMs that have a block."""
    d = Drawing(390, 262, "One query in a tile of 128 rows, and 32 blocks on 132 SMs")
    d.left(10, 20, "A block's tile of queries: 128 rows", **BOLD)
    d.cell(10, 30, 150, 14, QUADRATIC, "", EDGE)
    d.box(10, 44, 150, 76, GREY, EDGE)
    d.left(168, 42, "row 0: the query")
    d.left(168, 86, "rows 1 to 127: padding")
    d.left(10, 148, "132 SMs, a block for each of 32 heads", **BOLD)
    for sm in range(132):
        x, y = 10 + 11 * (sm % 33), 158 + 16 * (sm // 33)
        d.box(x, y, 10, 14, QUADRATIC if sm < 32 else "#ffffff", EDGE)
    d.legend(10, 244, [(QUADRATIC, "has work"), (GREY, "padding"), ("#ffffff", "idle")])
    return d


def split_keys():
    """The keys of a head divided among four blocks, and the merge."""
    title = "One query, many keys: four blocks with a part of the keys each, and a merge"
    d = Drawing(390, 232, title)
    d.left(10, 20, "K and V of a head, all keys of the sequence", **SMALLER)
    for part in range(4):
        x = 10 + 94 * part
        d.cell(x, 30, 88, 30, LINEAR, f"part {part}", EDGE)
        d.vertical_arrow(x + 44, 60, 82)
        d.cell(x, 84, 88, 30, QUADRATIC, f"block {part}", EDGE)
        d.vertical_arrow(x + 44, 114, 136)
        d.cell(x, 138, 88, 26, SMALL, f"m{part}, l{part}, O{part}", EDGE, **SMALLER)
        d.pointer(x + 44, 164, 150 + 30 * part, 192)
    d.cell(130, 194, 130, 28, QUADRATIC, "merge: O, LSE", EDGE)
    return d


def packed_rows():
    """Four heads of a group: a block for each, and as rows of one tile."""
    d = Drawing(390, 300, "Four query heads that share K and V: four blocks, and one tile")
    d.left(10, 20, "Decode step 01: a block for each head", **BOLD)
    for head in range(4):
        y = 30 + 26 * head
        d.cell(10, y, 70, 20, COLOURS[head], f"head {head}", EDGE, **SMALLER)
        d.arrow(84, y + 10, 118)
        d.cell(122, y, 250, 20, LINEAR, "reads K and V of the group", EDGE, **SMALLER)
    d.left(10, 162, "Decode step 02: 16 rows of a tile", **BOLD)
    for head in range(4):
        d.cell(10, 172 + 16 * head, 70, 16, COLOURS[head], f"head {head}", EDGE, font_size=10)
    d.box(10, 236, 70, 52, GREY, EDGE)
    d.text(45, 258, "12 rows", font_size=10)
    d.text(45, 271, "of padding", font_size=10)
    d.arrow(84, 200, 118)
    for warp in range(4):
        x = 122 + 63 * warp
        d.cell(x, 172, 61, 56, LINEAR, "16 keys", EDGE, **SMALLER)
        d.text(x + 30, 244, f"warp {warp}", **SMALLER)
    d.left(122, 264, "a stage: 64 keys, read once", **SMALLER)
    return d


def waves():
    """Three items of eight tiles, four blocks at once, in 1, 2, 4 and 8 parts."""
    d = Drawing(390, 372, "Three items of eight tiles, four blocks at once: 1, 2, 4 and 8 parts")

    def at(time):
        return 66 + 32 * time

    for k, parts in enumerate((1, 2, 4, 8)):
        top, tiles = 10 + 84 * k, 8 // parts
        d.left(10, top + 12, "1 part" if parts == 1 else f"{parts} parts", **BOLD)
        cost = -(-3 * parts // 4) * (0.5 + tiles) + (0.1 * parts if parts > 1 else 0)
        d.right(380, top + 12, f"cost {cost:.2f}")
        for block in range(3 * parts):
            wave, row = divmod(block, 4)
            x, y = at(wave * (0.5 + tiles)), top + 20 + 14 * row
            d.box(x, y, 32 * 0.5, 13, GREY, EDGE)
            item = COLOURS[block // parts]
            d.cell(x + 16, y, 32 * tiles, 13, item, tiles, EDGE, font_size=10)
        d.right(60, top + 44, "4 blocks", font_size=10)
        d.right(60, top + 58, "at once", font_size=10)
    colours = [(COLOURS[item], f"item {item}") for item in range(3)]
    d.legend(10, 362, [*colours, (GREY, "a block begins")], 380)
    return d


def last_block():
    """Three blocks of an item over time; the last one to add to the counter merges."""
    d = Drawing(390, 250, "Three blocks store states and add to a counter; the last one merges")

    def at(time):
        return 62 + 2 * time

    ends = [(30, 0), (62, 2), (46, 1)]
    for block, (end, before) in enumerate(ends):
        y = 24 + 60 * block
        d.right(56, y + 18, f"block {block}")
        d.cell(at(0), y, 2 * end, 26, QUADRATIC, "its tiles", EDGE, **SMALLER)
        d.cell(at(end), y, 34, 26, SMALL, "state", EDGE, **SMALLER)
        d.line(at(end) + 36, y - 4, at(end) + 36, y + 30, RED, 2.2)
        d.left(at(end) + 40, y + 12, f"counter: {before}", **SMALLER)
        d.left(at(end) + 40, y + 26, f"becomes {before + 1}", **SMALLER)
        if before == 2:
            d.arrow(at(end) + 110, y + 13, at(end) + 134)
            d.cell(at(end) + 136, y, 52, 26, SMALL, "merges", EDGE, **SMALLER)
    d.arrow(at(0), 210, 380)
    d.right(380, 204, "time", **SMALLER)
    d.line(14, 226, 14, 242, RED, 2.2)
    d.left(20, 238, "fence, and the addition. The block that finds parts - 1 is last.", **SMALLER)
    return d


def even_tiles():
    """Four items of 7, 2, 1 and 6 tiles as one list, in four equal ranges."""
    d = Drawing(390, 196, "The tiles of four items as one list, cut into four equal ranges")
    width = 23
    d.left(10, 20, "One list: tiles of four items", **BOLD)
    x = 11
    for item, tiles in enumerate((7, 2, 1, 6)):
        for tile in range(tiles):
            d.cell(x, 30, width, 28, COLOURS[item], tile, EDGE, **SMALLER)
            x += width
    d.left(10, 84, "The same list, by block", **BOLD)
    for block in range(4):
        x = 11 + 4 * width * block
        d.cell(x, 94, 4 * width, 28, "#ffffff", f"block {block}", EDGE)
    for block in range(5):
        x = 11 + 4 * width * block
        d.line(x, 24, x, 64, RED, 2.2)
        d.line(x, 90, x, 126, RED, 2.2)
    d.left(10, 146, "Two blocks have parts of item 0, of item 1 and of item 3.", **SMALLER)
    d.left(10, 162, "Item 2 is whole in block 2, which writes its O.", **SMALLER)
    d.legend(10, 188, [(COLOURS[item], f"item {item}") for item in range(4)])
    return d


def block_table():
    """Two sequences, their rows of the block table, and the cache."""
    d = Drawing(390, 262, "A block table says in which pages of the cache a sequence's keys are")
    rows = [("sequence 0, 53 keys", [5, 0, 6, 2]), ("sequence 1, 20 keys", [3, 7])]
    d.left(10, 20, "Block table", **BOLD)
    for k, (words, pages) in enumerate(rows):
        y = 30 + 34 * k
        d.left(10, y + 18, words, **SMALLER)
        for i in range(4):
            has = i < len(pages)
            fill = COLOURS[k] if has else GREY
            d.cell(150 + 56 * i, y, 54, 26, fill, pages[i] if has else "-", EDGE)
    d.left(10, 126, "Cache: pages of 16 keys", **BOLD)
    owner = {page: (k, i) for k, (_, pages) in enumerate(rows) for i, page in enumerate(pages)}
    keys = {(0, 3): 5, (1, 1): 4}  # of the last pages
    for page in range(8):
        x = 11 + 46 * page
        d.text(x + 22, 146, f"page {page}", font_size=10)
        if page not in owner:
            d.cell(x, 152, 44, 44, "#ffffff", "free", EDGE, **SMALLER)
            continue
        k, i = owner[page]
        count = keys.get((k, i), 16)
        d.box(x, 152, 44, 44, GREY, EDGE)
        d.box(x, 152, 44, 44 * count / 16, COLOURS[k], EDGE)
        d.text(x + 22, 212, f"{16 * i} to", font_size=10)
        d.text(x + 22, 224, f"{16 * i + count - 1}", font_size=10)
    d.left(10, 250, "Below each page: the keys of its sequence.", **SMALLER)
    return d


PACKED = ((0, 200), (200, 60), (260, 150))  # begin and length of sequences


def packed_slots():
    """Three packed sequences, and the list of slots with their tiles."""
    d = Drawing(390, 190, "Three packed sequences and their slots, of which one is empty")
    d.left(10, 20, "Tokens: begin 0, 200 and 260, of 410", **BOLD)
    for i, (begin, length) in enumerate(PACKED):
        d.cell(10 + 0.9 * begin, 30, 0.9 * length, 28, COLOURS[i], length, EDGE)
    d.left(10, 84, "Slots: ⌊410 / 128⌋ + 3 = 6", **BOLD)
    firsts = [begin // 128 + i for i, (begin, _) in enumerate(PACKED)]
    for i, (_, length) in enumerate(PACKED):
        for slot in range(firsts[i], (firsts + [6])[i + 1]):
            row = 128 * (slot - firsts[i])
            rows = min(128, length - row)
            x = 10 + 62 * slot
            d.text(x + 29, 104, f"slot {slot}", font_size=10)
            fill, words = (COLOURS[i], f"{row}-{row + rows - 1}") if rows > 0 else (GREY, "empty")
            d.cell(x, 110, 58, 28, fill, words, EDGE, **SMALLER)
    d.left(10, 156, "In a slot: rows of its sequence.", **SMALLER)
    d.legend(10, 180, [(COLOURS[i], f"sequence {i}") for i in range(3)])
    return d


def ragged_map():
    """The rows of a map at the index of each sequence's end."""
    d = Drawing(390, 226, "One map of a packed tensor: at each index its rows end elsewhere")
    scale, left = 0.45, 10

    def at(row):
        return left + scale * (row + 410)

    d.left(10, 20, "Memory: what is before the tensor, and its 410 rows", **BOLD)
    d.box(at(-410), 30, 410 * scale, 28, "#ffffff", EDGE)
    d.text(at(-205), 48, "never in a box", **SMALLER)
    for i, (begin, length) in enumerate(PACKED):
        d.cell(at(begin), 30, length * scale, 28, COLOURS[i], i, EDGE)
    for i, (begin, length) in enumerate(PACKED):
        end, y = begin + length, 88 + 44 * i
        d.left(10, y - 6, f"the last of 2³⁰ rows, at index {end}", **SMALLER)
        d.box(at(end - 410), y, 410 * scale, 18, GREY, EDGE)
        d.box(at(begin), y, length * scale, 18, COLOURS[i], EDGE)
        d.line(at(end), y - 4, at(end), y + 22, RED, 2.2)
    d.legend(10, 216, [(COLOURS[i], f"sequence {i}") for i in range(3)])
    return d


if __name__ == "__main__":
    main(
        wasted_tile,
        split_keys,
        packed_rows,
        waves,
        last_block,
        even_tiles,
        block_table,
        packed_slots,
        ragged_map,
    )
