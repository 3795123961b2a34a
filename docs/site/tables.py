"""A cut of the tables that a program prints: some rows, some columns, in the program's own digits.

A table is lines with a line of dashes below its headings, "------  ---"; a row ends the table when
it does not keep the columns apart. What stands around a table stays; a table of which no row was
asked for goes, with the lines that are joined to it. So does the check of a row that goes, a line
"PASS  ROW, what was checked".
"""

import fnmatch
import re

from docs.site.excerpts import Problem

RULE = re.compile(r"-+(?:  +-+)+")


def cells(line, spans):
    """The cells of a row, or None when the line is none."""
    gaps = [line[a[1] : b[0]] for a, b in zip(spans, spans[1:])]
    if not line.strip() or line.startswith("(") or any(gap.strip() for gap in gaps):
        return None
    if line[spans[-1][1] :].strip():
        return None
    return [line[a:b].strip() for a, b in spans]


class Table:
    """The table whose line of dashes is lines[rule]."""

    def __init__(self, lines, rule):
        self.spans = [m.span() for m in re.finditer("-+", lines[rule])]
        first, last = rule, rule + 1

        def heading(number):
            """Whether this line names more than the first column."""
            return number >= 0 and any((cells(lines[number], self.spans) or [""])[1:])

        if not heading(rule - 1) and heading(rule - 2) and cells(lines[rule - 1], self.spans):
            first -= 1  # below the others the name of the first column
        while heading(first - 1):
            first -= 1  # a line with nothing but a first cell is the table's title
        while last < len(lines) and cells(lines[last], self.spans) is not None:
            last += 1
        self.first, self.last = first, last  # the lines of headings, rule and rows
        self.heads = [cells(line, self.spans) for line in lines[first:rule]]
        self.rows = [cells(line, self.spans) for line in lines[rule + 1 : last]]
        raw = [line.ljust(self.spans[-1][1]) for line in lines[first:last]]
        self.left = [
            any(line[b - 1] == " " and line[a:b].strip() for line in raw) for a, b in self.spans
        ]  # which columns are flush left

    def columns(self, names):
        """The numbers of the columns with these headings, the first column before them."""
        headings = [" ".join(filter(None, column)) for column in zip(*self.heads)]
        chosen = [0]
        for name in names:
            matching = [
                i for i, heading in enumerate(headings) if i and fnmatch.fnmatchcase(heading, name)
            ]
            if not matching:
                known = ", ".join(heading for heading in headings[1:])
                raise Problem(f"the table has no column '{name}'; it has {known}.")
            chosen += [i for i in matching if i not in chosen]
        return chosen

    def lines(self, rows, chosen):
        """The table with these rows and columns."""
        heads = [head for line in self.heads if any(head := [line[i] for i in chosen])]
        shown = heads + [[line[i] for i in chosen] for line in rows]
        widths = [max(len(line[i]) for line in shown) for i in range(len(chosen))]
        lines = [
            "  ".join(
                text.ljust(width) if self.left[i] else text.rjust(width)
                for text, width, i in zip(line, widths, chosen)
            ).rstrip()
            for line in shown
        ]
        lines.insert(len(heads), "  ".join("-" * width for width in widths))
        return lines


def cut(lines, rows=None, columns=None):
    """The lines with the tables cut down to these rows, by their first cells, and these columns, by
    their headings; both may be patterns, `07_*`. None keeps all of them."""
    result, done, found, tables = [], 0, set(), 0
    gone, stays = set(), set()  # the first cells of rows
    for rule in range(1, len(lines)):
        if rule < done or not RULE.fullmatch(lines[rule].strip()):
            continue
        table = Table(lines, rule)
        if not table.heads:
            continue
        tables += 1
        kept = table.rows
        if rows is not None:
            kept = []
            for row in table.rows:
                matching = [name for name in rows if fnmatch.fnmatchcase(row[0], name)]
                found.update(matching)
                if matching:
                    kept.append(row)
        stays.update(row[0] for row in kept)
        gone.update(row[0] for row in table.rows if row not in kept)
        if kept:
            chosen = range(len(table.spans)) if columns is None else table.columns(columns)
            result += lines[done : table.first] + table.lines(kept, chosen)
            done = table.last
            continue
        first, last = table.first, table.last
        while first > done and lines[first - 1].strip():
            first -= 1
        while last < len(lines) and lines[last].strip():
            last += 1
        result += lines[done:first]
        done = last
    result += lines[done:]
    if not tables:
        raise Problem("the program printed no table; rows and columns are of tables.")
    missing = [name for name in rows or () if name not in found]
    if missing:
        raise Problem(f"no table has a row '{missing[0]}'.")
    gone -= stays
    checks = re.compile(r"(?:PASS|FAIL)  ([^,]+), ")
    result = [t for t in result if not ((match := checks.match(t)) and match[1] in gone)]
    # Where a table was left out, one blank line is enough.
    result = [t for i, t in enumerate(result) if t.strip() or (i and result[i - 1].strip())]
    while result and not result[-1].strip():
        result.pop()
    return result
