"""Printed tables as Markdown: a program prints aligned columns for a terminal, a page has a table.

A printed table has a line of dashes below its headings, "------  ---", and ends where a line does
not keep the columns apart. The lines joined to it above are its title, those below its source, or
words on it. A cut of the tables keeps some rows, by their first cells, and some columns, by their
headings; a table of which no row was asked for goes, and so does the check of a row that goes, a
line "PASS  ROW, what was checked".
"""

import decimal
import fnmatch
import itertools
import re

from common.classroom import catalogue

RULE = re.compile(r"-+(?:  +-+)+")
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?%?")
# What Markdown would read as more than a character.
SPECIAL = re.compile(r"([\\`*<>\[\]|$~]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))")
PRINTED = re.compile(r"^(?:PASS|FAIL|NOTE)\b|\S   +\S")  # lines that keep their columns
CHECK = re.compile(r"(?:PASS|FAIL)  ([^,]+), ")
# Columns of implementations: of the lessons' comparisons, and of the front page.
OTHERS = {"flash", "flash 3", "efficient", "cuDNN", "math", "FA-2", "FA-3", "FA-4", "flash 4"}
NOISE = decimal.Decimal("1.02")  # times: docs/results/README.md, how much a time differs
OURS = {"lesson", "determ.", "course"}


class Problem(Exception):
    """One sentence about what is wrong; the page and the line are added where they are known."""


def cells(line, spans):
    """The cells of a row, or None when the line is none."""
    gaps = [line[a[1] : b[0]] for a, b in zip(spans, spans[1:])]
    if not line.strip() or line.startswith("(") or any(gap.strip() for gap in gaps):
        return None
    if line[spans[-1][1] :].strip():
        return None
    return [line[a:b].strip() for a, b in spans]


class Table:
    """The table whose line of dashes is lines[rule]: title, headings, rows."""

    def __init__(self, lines, rule):
        spans = [m.span() for m in re.finditer("-+", lines[rule])]
        first, last = rule, rule + 1

        def heading(number):
            """Whether this line names more than the first column."""
            return number >= 0 and any((cells(lines[number], spans) or [""])[1:])

        if not heading(rule - 1) and heading(rule - 2) and cells(lines[rule - 1], spans):
            first -= 1  # below the others the name of the first column
        while heading(first - 1):
            first -= 1  # a line with nothing but a first cell is the table's title
        while last < len(lines) and cells(lines[last], spans) is not None:
            last += 1
        self.title = [line.strip() for line in lines[:first]]
        heads = [cells(line, spans) for line in lines[first:rule]]
        self.heads = [" ".join(filter(None, column)) for column in zip(*heads)]
        self.rows = [cells(line, spans) for line in lines[rule + 1 : last]]
        self.below = lines[last:]

    def keep_columns(self, names):
        """Keeps the first column and those with these headings."""
        chosen = [0]
        for name in names:
            matching = [
                i for i, head in enumerate(self.heads) if i and fnmatch.fnmatchcase(head, name)
            ]
            if not matching:
                known = ", ".join(self.heads[1:])
                raise Problem(f"the table has no column '{name}'; it has {known}.")
            chosen += [i for i in matching if i not in chosen]
        self.heads, *self.rows = [[line[i] for i in chosen] for line in (self.heads, *self.rows)]

    def best(self):
        """{(row, column)} of the best figures: of a shape among the implementations, of a length
        among the kernels. Lengths are rows or columns of the table, or of one row each; what stands
        across them is compared."""
        rows, heads = range(len(self.rows)), self.heads

        def most(places):
            """The places of the largest number, and of those that differ from it by noise, where
            there are several numbers."""
            known = {
                (r, c): decimal.Decimal(self.rows[r][c])
                for r, c in places
                if NUMBER.fullmatch(self.rows[r][c]) and "%" not in self.rows[r][c]
            }
            top = max(known.values(), default=None)
            if len(known) < 2:
                return set()
            return {place for place, value in known.items() if value * NOISE >= top}

        groups = []
        if OTHERS.intersection(heads) and "x best" in heads:
            columns = [c for c, head in enumerate(heads) if head in OTHERS | OURS]
            groups = [[(r, c) for c in columns] for r in rows]
        elif " ".join(self.title).startswith("TFLOP/s:") and heads[0] == "N":
            columns = range(1, len(heads))
            if all(map(str.isdecimal, heads[1:])):  # a row is a kernel
                groups = [[(r, c) for r in rows] for c in columns]
            else:  # a row is a length
                groups = [[(r, c) for c in columns] for r in rows]
        elif heads[0] == "kernel":
            speed = [c for c, head in enumerate(heads) if head in ("TFLOP/s", "GB/s")][:1]
            lengths = [row[heads.index("N")] if "N" in heads else "" for row in self.rows]
            groups = [
                [(r, c) for r in rows if lengths[r] == length]
                for length in dict.fromkeys(lengths)
                for c in speed
            ]
        return set().union(*map(most, groups))

    def markdown(self):
        """The lines of the table; columns of numbers are flush right, the best figures bold, and
        exercises and lessons linked."""
        marked = self.best()
        pages = pages_of(self.heads[0], [row[0] for row in self.rows])
        table = [list(map(escaped, self.heads)), ["---"] * len(self.heads)]
        for r, row in enumerate(self.rows):
            table.append(
                [
                    f"**{x}**" if (r, c) in marked
                    else f"[{x}](/{pages[x]})" if c == 0 and x in pages
                    else escaped(x)
                    for c, x in enumerate(row)
                ]
            )  # fmt: skip
        right = [numeric([row[c] for row in self.rows]) for c in range(len(self.heads))]
        table[1] = ["---:" if flush else "---" for flush in right]
        widths = [max(map(len, column)) for column in zip(*table)]
        return [
            "| " + " | ".join(
                x.rjust(width) if flush else x.ljust(width)
                for x, width, flush in zip(line, widths, right)
            ) + " |"
            for line in table
        ]  # fmt: skip


def pages_of(head, names):
    """{name: its page} for the first column of a table of exercises or of lessons."""
    if head == "exercise":
        return catalogue.task_pages()
    if head != "lesson":
        return {}
    lessons = {p.parent.name[:2]: p for p in catalogue.ROOT.glob("[0-9][0-9]_*/README.md")}
    found = {name: lessons[name[:2]] for name in names if name[:2] in lessons}
    return {name: path.relative_to(catalogue.ROOT).as_posix() for name, path in found.items()}


def numeric(column):
    """Is this a column of numbers?"""
    numbers = [x for x in column if NUMBER.fullmatch(x)]
    return bool(numbers) and all(x in numbers or x in ("", "-") for x in column)


def escaped(text):
    """The text as Markdown shows it."""
    return SPECIAL.sub(r"\\\1", text)


def parts(lines):
    """The output as Tables, and lists of lines that stand together."""
    found = []
    for filled, group in itertools.groupby(lines, lambda line: bool(line.strip())):
        rest = list(group) if filled else []
        while rest:
            rules = [i for i in range(1, len(rest)) if RULE.fullmatch(rest[i].strip())]
            made = next(
                (t for t in (Table(rest, i) for i in rules) if any(t.heads) and t.rows), None
            )
            found.append(made or rest)
            rest = made.below if made else []
    return found


def cut(found, rows, columns):
    """The parts with the tables cut down to these rows and columns; both may be patterns, `07_*`.
    None keeps all of them."""
    names = {row[0] for part in found if isinstance(part, Table) for row in part.rows}
    if not names:
        raise Problem("the program printed no table; rows and columns are of tables.")
    for pattern in rows or ():
        if not fnmatch.filter(names, pattern):
            raise Problem(f"no table has a row '{pattern}'.")
    stays = {name for name in names if any(fnmatch.fnmatchcase(name, r) for r in rows or "*")}
    kept = []
    for before, part in zip([None, *found], found):
        if isinstance(part, Table):
            part.rows = [row for row in part.rows if row[0] in stays]
            if part.rows and columns is not None:
                part.keep_columns(columns)
            kept += [part] if part.rows else []
        # The lines below a table go with it; see parts().
        elif not isinstance(before, Table) or part is not before.below or before.rows:
            gone = names - stays
            kept.append([t for t in part if not ((m := CHECK.match(t)) and m[1] in gone)])
    return list(filter(None, kept))


def markdown(lines, rows=None, columns=None):
    """The lines of a program's output as lines of a page."""
    found = parts(lines)
    if rows is not None or columns is not None:
        found = cut(found, rows, columns)
    if not any(isinstance(part, Table) for part in found):
        return fenced(lines)
    result, text = [], []
    for before, part, following in zip([None, *found], found, [*found[1:], None]):
        table = isinstance(part, Table)
        source = not table and part[0].startswith("(")
        below = isinstance(before, Table) and part is before.below
        title = not (table or below or any(map(PRINTED.search, part)))
        title = title and isinstance(following, Table)
        if not (table or source or title):
            text += ["", *part] if text else part
            continue
        if text:
            result += [*fenced(text), ""]
            text = []
        if source:
            result += [escaped(" ".join(" ".join(part).split())), ""]
        elif words := part.title if table else part:
            # A backslash keeps the line end.
            result += [*"\\\n".join(f"**{escaped(line)}**" for line in words).split("\n"), ""]
        if table:
            result += [*part.markdown(), ""]
    return result[:-1] if not text else [*result, *fenced(text)]


def fenced(lines):
    """The lines as a block of text."""
    most = max(re.findall("`{3,}", "\n".join(lines)), key=len, default="``")
    return [f"{most}`text", *lines, f"{most}`"]
