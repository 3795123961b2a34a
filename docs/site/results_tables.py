"""Tables that a program prints, as tables of the site."""

import re

from docutils import nodes

from docs.site import tables
from docs.site.excerpts import stripped

PEERS = re.compile(r"\.interface\.example --table ")
# The first line of a comparison's tables.
ENDS_TITLE = re.compile(r"^TFLOP/s;|, by length$|^(?:Largest error|Rms of)")
# Columns of implementations: of the lessons' comparisons, and of the front page.
OTHERS = {"flash", "flash 3", "efficient", "cuDNN", "math", "FA-2", "FA-3", "FA-4", "flash 4"}
OURS = {"lesson", "determ.", "course"}
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?%?")
RECORD = re.compile(r"docs/results/\w+\.json")
PRINTED = re.compile(r"^(?:PASS|FAIL|NOTE)\b|\S   +\S")  # lines that keep their columns
FILTERED_FROM = 10
# Made here and not by the script, so that nothing moves when the script runs.
FILTER = (
    '<label class="results-filter">Rows with '
    '<input type="search" placeholder="words, such as 128 causal 4096"></label>'
)
SORTED_FROM = 5  # rows: a shorter table needs no buttons


def converted(block, command):
    """What stands for a block of printed text: its tables, the text around them, and below them the
    command and its records."""
    lines = block.astext().split("\n")
    found = list(pieces(lines))
    if PEERS.search(command):
        found = [
            made
            for piece in found
            for made in (plain(piece) if isinstance(piece, list) else [piece])
        ]
    result = nodes.container("", classes=["printed"])
    if not any(isinstance(piece, TABLES) for piece in found):
        result += block.deepcopy()
    else:
        for piece, following in zip(found, [*found[1:], None]):
            if isinstance(piece, TABLES):
                title, result_table = table(piece)
                if title:
                    result += nodes.paragraph("", title, classes=["printed-title"])
                if len(piece.rows) >= FILTERED_FROM:
                    result += nodes.raw("", FILTER, format="html", classes=["results-filter"])
                result += result_table
            else:
                result += text(piece, isinstance(following, TABLES))
    result += origin(command)
    return result


class PlainTable:
    """A table without a line of dashes, as the interfaces print their comparisons: between columns
    neither the headings nor any row has a letter; a column without a heading goes with the one
    before it, one without a value with the one after it ("flash 3 det")."""

    def __init__(self, title, lines):
        width = max(map(len, lines))
        lines = [line.ljust(width) for line in lines]
        used = [any(line[i] != " " for line in lines) for i in range(width)]
        spans, start = [], None
        for i, taken in enumerate([*used, False]):
            if taken and start is None:
                start = i
            elif not taken and start is not None:
                if spans and not lines[0][start:i].strip():
                    spans[-1] = (spans[-1][0], i)
                else:
                    spans.append((start, i))
                start = None
        for i in reversed(range(len(spans) - 1)):
            a, b = spans[i]
            if not any(line[a:b].strip() for line in lines[1:]):
                spans[i : i + 2] = [(a, spans[i + 1][1])]
        self.title, self.spans = title, spans
        cells = [[" ".join(line[a:b].split()) for a, b in spans] for line in lines]
        self.heads, self.rows = cells[:1], [[words or "-" for words in row] for row in cells[1:]]


def plain(lines):
    """The lines of one piece of text, or the tables in it with the text around them."""
    result, block = [], []
    for line in [*lines, ""]:
        # A table begins below its title, and ends where a sentence or a source begins.
        ends = not line.strip() or line.startswith("(") or re.match(r"\d+ points:", line)
        if not ends and (block or ENDS_TITLE.search(line)):
            block.append(line)
            continue
        if len(block) > 3:
            result.append(PlainTable(block[0], block[1:]))
        elif block:
            result.append(block)
        block = []
        if line.strip():
            result.append([line])
    return result


def pieces(lines):
    """Yields Tables, and lists of the lines between them."""
    done = 0
    for rule in range(1, len(lines)):
        if rule < done or not tables.RULE.fullmatch(lines[rule].strip()):
            continue
        made = tables.Table(lines, rule)
        if not made.heads or not made.rows:
            continue
        first = made.first
        # The line above the headings is the table's title.
        made.title = ""
        if first > done and lines[first - 1].strip():
            begin = first - 1
            while begin > done and lines[begin - 1].strip():
                begin -= 1
            made.title = " ".join(line.strip() for line in lines[begin:first])
            first = begin
        if between := stripped(lines[done:first]):
            yield between
        yield made
        done = made.last
    if rest := stripped(lines[done:]):
        yield rest


TABLES = (tables.Table, PlainTable)


def text(lines, before_table):
    """Lines that are no table: where a record comes from, or the program's own lines."""
    if lines[0].startswith("("):
        words = " ".join(" ".join(lines).split())
        return nodes.paragraph("", words, classes=["printed-source"])
    if before_table and not any(PRINTED.search(line) for line in lines):
        return nodes.paragraph("", " ".join(lines), classes=["printed-title"])
    return nodes.literal_block("", "\n".join(lines), language="text", classes=["printed-text"])


def cell(words, numeric, heading=False, best=False):
    entry = nodes.entry(classes=["number"] * numeric + ["best"] * best)
    if words:
        entry += nodes.paragraph("", words)
    elif heading:
        entry += nodes.paragraph("", "\u00a0")
    return entry


def best(made, heads):
    """{(row, column)} of the best figures: of a shape among the implementations, of a length or of
    all rows among the kernels."""

    def most(places):
        """The places of the largest number."""
        known = [
            (float(made.rows[r][c]), (r, c)) for r, c in places if NUMBER.fullmatch(made.rows[r][c])
        ]
        top = max(known, default=(None, None))[0]
        return {place for value, place in known if value == top} if len(known) > 1 else set()

    rows = range(len(made.rows))
    if OTHERS.intersection(heads) and "x best" in heads:
        columns = [c for c, head in enumerate(heads) if head in OTHERS | OURS]
        return set().union(*(most([(r, c) for c in columns]) for r in rows))
    if made.title.startswith("TFLOP/s:") and heads[0] == "N":
        return set().union(*(most([(r, c) for r in rows]) for c in range(1, len(heads))))
    if heads[0] == "kernel":
        speed = [c for c, head in enumerate(heads) if head in ("TFLOP/s", "GB/s")]
        lengths = [row[heads.index("N")] if "N" in heads else "" for row in made.rows]
        groups = [[r for r in rows if lengths[r] == length] for length in dict.fromkeys(lengths)]
        return set().union(*(most([(r, c) for r in group]) for group in groups for c in speed[:1]))
    return set()


def table(made):
    """(title, table node) of a printed table."""
    count = len(made.spans)
    heads = [" ".join(filter(None, column)) for column in zip(*made.heads)]
    numeric = [
        all(NUMBER.fullmatch(row[i]) or row[i] in ("", "-") for row in made.rows)
        and any(NUMBER.fullmatch(row[i]) for row in made.rows)
        for i in range(count)
    ]
    classes = ["results"] + ["sortable"] * (len(made.rows) >= SORTED_FROM) + ["many"] * (count > 9)
    node = nodes.table(classes=classes)
    group = nodes.tgroup(cols=count)
    node += group
    for _ in range(count):
        group += nodes.colspec(colwidth=1)
    head, body = nodes.thead(), nodes.tbody()
    group += [head, body]
    row = nodes.row()
    row += [cell(words, numeric[i], True) for i, words in enumerate(heads)]
    head += row
    marked = best(made, heads)
    for k, values in enumerate(made.rows):
        row = nodes.row()
        row += [cell(words, numeric[i], best=(k, i) in marked) for i, words in enumerate(values)]
        body += row
    return made.title, node


def origin(command):
    """The line below a block: its command, and the records that it read."""
    line = nodes.paragraph("", "", classes=["printed-origin"])
    records = list(dict.fromkeys(RECORD.findall(command)))
    if records:
        line += nodes.Text("Record: " if len(records) == 1 else "Records: ")
        for i, record in enumerate(records):
            if i:
                line += nodes.Text(", ")
            name = record.rsplit("/", 1)[-1]
            line += nodes.reference("", name, refuri="/" + record, internal=False)
    else:
        line += [nodes.Text("Printed by "), nodes.literal("", command)]
    return line
