"""Which differences between a block of a page and a program's output another machine may make.

The last digits of a sum, an exponential or a rounding error depend on the processor, the compiler
and the C library. The rules are in docs/README.md; what a Python module prints is the same
everywhere and compared exactly.
"""

import decimal
import re
import shlex

from docs.site.programs import MODULE
from docs.site.tables import Problem

NUMBER = re.compile(r"(?<![\d.])[-+]?\d+(?:\.\d+)?(?:e[-+]\d+)?(?!\.?\d)")  # not 2.11.0
BOUND = "(limit"  # between a figure and its limit
FACTOR, CHECKED_FACTOR = 2, 10  # by which an error on another machine may be larger or smaller
CLAUSE = re.compile(r", (?=exact\b|noise\b|rows\b|columns\b)")
CUT = re.compile(r"(?P<what>rows|columns) (?P<names>\S.*)")


def same_number(old, new, noise, factor=FACTOR):
    """Whether two printed numbers may be one number, computed on two machines."""
    if old == new:
        return True
    a, b = decimal.Decimal(old), decimal.Decimal(new)
    units = [decimal.Decimal(1).scaleb(x.as_tuple().exponent) for x in (a, b)]
    if a == b:
        return units[0] == units[1]  # 0.00 and -0.00, but not 2 and 2.0
    if ("e" in old and "e" in new) or factor == CHECKED_FACTOR:
        large, small = max(abs(a), abs(b)), min(abs(a), abs(b))
        if large <= noise:
            return True
        if a * b <= 0:
            return False
        return (large < 1 and large < factor * small) or large - small <= max(units)
    if "e" in old + new or "." not in old + new:
        return False
    return abs(a - b) <= min(units)  # %g drops zeros at the end: 0.5 beside 0.49 is 0.50


def same_line(old, new, noise):
    """Whether two lines differ only in numbers, and in these only as another machine may print
    them. A number that is wider than before may take a space of its column."""
    if old == new:
        return True
    a, b = NUMBER.findall(old), NUMBER.findall(new)
    if a == b or len(a) != len(b):
        return False
    words = [["".join(part.split()) for part in NUMBER.split(line)] for line in (old, new)]
    wider = len(new) - len(old)
    if words[0] != words[1] or wider not in (0, sum(map(len, b)) - sum(map(len, a))):
        return False
    for i, (x, y) in enumerate(zip(a, b)):
        if i + 1 < len(a) and words[0][i + 1] == BOUND:
            same = same_number(x, y, max(noise, decimal.Decimal(a[i + 1]) / 100), CHECKED_FACTOR)
        else:
            same = same_number(x, y, noise)
        if not same:
            return False
    return True


def squeezed(line):
    """The row of a table without the spaces that align it."""
    return " ".join(line.split()) if line.startswith("|") else line


def clauses(rule):
    """The parts of a rule, "rows A | B, exact": ({"rows": patterns}, the other parts)."""
    parts = CLAUSE.split(rule) if rule is not None else []
    cuts = [match for match in map(CUT.fullmatch, parts) if match]
    chosen = {m["what"]: [name.strip() for name in m["names"].split("|")] for m in cuts}
    return chosen, [part for part in parts if not CUT.fullmatch(part)]


def in_step(old, new, command, rule=None):
    """Whether the lines of a block or drawing are what its command prints; the rule is the one that
    its comment asks for."""
    rule = ", ".join(clauses(rule)[1]) if clauses(rule)[1] else None
    if rule == "exact" or (rule is None and MODULE.fullmatch(shlex.split(command)[0])):
        return old == new
    noise = decimal.Decimal(0)
    if rule is not None:
        match = re.fullmatch(r"noise (\d(?:\.\d+)?e-\d+)", rule)
        if match is None:
            raise Problem(
                f"the rule is '{rule}'; allowed are 'exact' and 'noise' with an error, for example "
                "'noise 2e-06', and 'rows A | B' and 'columns A | B'."
            )
        noise = decimal.Decimal(match[1])
    pairs = zip(map(squeezed, old), map(squeezed, new))
    return len(old) == len(new) and all(same_line(x, y, noise) for x, y in pairs)
