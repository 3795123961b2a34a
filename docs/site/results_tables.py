"""Tables that a program prints, as tables of the site."""

import re

from docutils import nodes

from docs.site import tables

NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?%?")
RECORD = re.compile(r"docs/results/\w+\.json")
PRINTED = re.compile(r"^(?:PASS|FAIL|NOTE)\b|\S   +\S")  # lines that keep their columns
SORTED_FROM = 5  # rows: a shorter table needs no buttons


def converted(block, command):
    """What stands for a block of printed text: its tables, and the text around them; the command and
    its records below."""
    lines = block.astext().split("\n")
    found = list(pieces(lines))
    result = nodes.container("", classes=["printed"])
    if not any(isinstance(piece, tables.Table) for piece in found):
        result += block.deepcopy()
    else:
        for piece, following in zip(found, [*found[1:], None]):
            if isinstance(piece, tables.Table):
                title, result_table = table(piece)
                if title:
                    result += nodes.paragraph("", title, classes=["printed-title"])
                result += result_table
            else:
                result += text(piece, isinstance(following, tables.Table))
    result += origin(command)
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
        if between := [line for line in lines[done:first] if line.strip()]:
            yield between
        yield made
        done = made.last
    if rest := [line for line in lines[done:] if line.strip()]:
        yield rest


def text(lines, before_table):
    """Lines that are no table: where a record comes from, or the program's own lines."""
    if lines[0].startswith("("):
        words = " ".join(" ".join(lines).split())
        return nodes.paragraph("", words, classes=["printed-source"])
    if before_table and not any(PRINTED.search(line) for line in lines):
        return nodes.paragraph("", " ".join(lines), classes=["printed-title"])
    return nodes.literal_block("", "\n".join(lines), language="text", classes=["printed-text"])


def cell(words, numeric, heading=False):
    entry = nodes.entry(classes=["number"] if numeric else [])
    if words:
        entry += nodes.paragraph("", words)
    elif heading:
        entry += nodes.paragraph("", "\u00a0")
    return entry


def table(made):
    """(title, table node) of a printed table."""
    count = len(made.spans)
    heads = [" ".join(filter(None, column)) for column in zip(*made.heads)]
    numeric = [
        all(NUMBER.fullmatch(row[i]) or row[i] in ("", "-") for row in made.rows)
        and any(NUMBER.fullmatch(row[i]) for row in made.rows)
        for i in range(count)
    ]
    classes = ["results"] + ["sortable"] * (len(made.rows) >= SORTED_FROM)
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
    for values in made.rows:
        row = nodes.row()
        row += [cell(words, numeric[i]) for i, words in enumerate(values)]
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
