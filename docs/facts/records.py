"""Reads records of measurements and printed tables for facts.

points("h200_04_tiled_matmul", "tflops", kernel="07_*") is the TFLOP/s of step 07. Where several
rows are left it is Points, which over(), more() and less() pair by the fields that both have."""

import fnmatch
import functools
import pathlib
import re
import statistics

from common.bench.peers import OURS, OURS_SAME_BITS
from common.bench.tables import columns_of, points_in, ratio
from common.data import records
from docs.records.stale import state

ROOT = pathlib.Path(__file__).resolve().parents[2]
GROUP = re.compile(
    r"(?:(?P<more>.*), )?(?P<type>b?float\d+|e4m3), D (?P<D>\d+)"
    r"(?P<causal>, causal)?(?P<behind>, .*)?"
)
# What tells the points of a record apart, beside the kernel or the implementation.
POINT = "group type D causal size length batch heads kv_heads gradient dropout functor".split()
POINT += "length_q length_k first mask pass gpus implementation".split()
# What pages call implementations, beside those that they call as the records do.
BACKENDS = {"course": OURS, "same_length": "same length", "flex": "FLEX_ATTENTION"}
BACKENDS |= {"fa3": "FLASH_ATTENTION_3", "cudnn": "CUDNN_ATTENTION", "fa2": "FLASH_ATTENTION"}
OLD = set()  # why rows that points() has read may be old
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")


class Problem(Exception):
    """One sentence about what a record or a page does not have."""


class Points(dict):
    """Several values: {((field, value), ...): number}."""


def head(name):
    """What docs/results/NAME.json says of the machine and the code, with its rows."""
    try:
        return records.read(ROOT / "docs/results" / f"{name}.json")
    except records.Problem as error:
        raise Problem(f"{error}.") from error


@functools.cache
def rows(name):
    """The rows of docs/results/NAME.json, whatever program wrote it with the fields `type`, `D` and
    `causal`, and `ratio`: our speed over that of the fastest other implementation."""
    record = head(name)
    found = [{**row, "old": state(record, row)} for row in record["measurements"]]
    for of in points_in([row for row in found if row.get("what") == "time"]):
        for backend, same_bits in ((OURS, False), (OURS_SAME_BITS, True)):
            if backend in of and (best := ratio(of, same_bits)):
                of[backend]["ratio"] = best[0]
    for row in found:
        if match := GROUP.fullmatch(row.get("group", "")):
            row |= {"type": match["type"], "D": match["D"], "causal": bool(match["causal"])}
            row["group"] = (match["more"] or "") + (match["behind"] or "")
        elif "head_dim" in row:
            row["D"] = columns_of(row)
    return found


def fits(value, wanted):
    """Whether a field is as wanted: a value, a pattern, a condition, or one of a tuple."""
    if callable(wanted):
        return value is not None and wanted(value)
    if isinstance(wanted, tuple):
        return any(fits(value, one) for one in wanted)
    if isinstance(wanted, str):
        return fnmatch.fnmatchcase(str(value if value is not None else ""), wanted)
    return (value or False) == wanted if isinstance(wanted, bool) else value == wanted


def points(name, column, causal=False, **fields):
    """The column of the record's rows with these fields: a number, or Points. causal: with the
    causal mask, None for both; `backend` is a name of BACKENDS or of the record."""
    if "backend" in fields:
        fields["backend"] = BACKENDS.get(fields["backend"], fields["backend"])
    if causal is not None:
        fields["causal"] = causal
    found = [
        row
        for row in rows(name)
        if column in row and all(fits(row.get(f), wanted) for f, wanted in fields.items())
    ]
    by = [f for f in (*POINT, "backend", "kernel") if len({str(row.get(f)) for row in found}) > 1]
    by = [f for f in by if f != "kernel" or "backend" not in by]
    result = Points({tuple((f, str(row.get(f))) for f in by): row[column] for row in found})
    if len(result) < len(found):
        raise Problem(f"{name}: several rows agree in {by}; select more than {fields}.")
    if not result:
        raise Problem(f"{name}: no row has {column} and {fields}.")
    OLD.update(row["old"] for row in found)
    return next(iter(result.values())) if len(result) == 1 else result


def each(x):
    """The values of Points, or one number, as a list."""
    return list(x.values()) if isinstance(x, Points) else [x]


def paired(operation, a, b):
    """operation(x, y) of two numbers or Points, paired by the fields that both have."""
    if not isinstance(a, Points) and not isinstance(b, Points):
        return operation(a, b)
    if not isinstance(b, Points):
        return Points({key: operation(x, b) for key, x in a.items()})
    if not isinstance(a, Points):
        return Points({key: operation(a, y) for key, y in b.items()})
    names = [{name for key in side for name, _ in key} for side in (a, b)]
    common = names[0] & names[1]
    left, right = (
        {tuple(pair for pair in key if pair[0] in common): x for key, x in side.items()}
        for side in (a, b)
    )
    if len(left) != len(a) or len(right) != len(b) or not left.keys() & right.keys():
        raise Problem("the rows cannot be paired one to one; select more.")
    return Points({key: operation(x, right[key]) for key, x in left.items() if key in right})


def over(a, b):
    """a / b."""
    return paired(lambda x, y: x / y, a, b)


def minus(a, b):
    """a - b."""
    return paired(lambda x, y: x - y, a, b)


def more(a, b):
    """How much larger a is than b, in percent."""
    return paired(lambda x, y: 100 * (x / y - 1), a, b)


def less(a, b):
    """How much smaller a is than b, in percent."""
    return paired(lambda x, y: 100 * (1 - x / y), a, b)


def apart(a, b):
    """How far a and b lie apart, in percent of the smaller one."""
    return paired(lambda x, y: 100 * (max(x, y) / min(x, y) - 1), a, b)


def within(x, low, high):
    """Whether every value lies between these."""
    return all(low <= value <= high for value in each(x))


def below(a, b):
    """Whether every a is smaller than its b."""
    return all(each(paired(lambda x, y: x < y, a, b)))


def count(x, condition):
    """How many values are so."""
    return sum(map(condition, each(x)))


def least_or_most(which, x):
    """The smallest or the largest value."""
    return {"least": min, "most": max}[which](each(x))


def median(x):
    return statistics.median(each(x))


def tables(page):
    """Yields (title, headings, rows) of the tables that programs printed into a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for block in re.findall(r"<!-- generated.*?-->(.*?)<!-- /generated -->", text, re.DOTALL):
        for part in re.finditer(r"(?P<title>(?:^(?!\|).*\n)*)(?P<table>(?:^\|.*\n)+)", block, re.M):
            lines = [
                line.replace("\\", "").strip().strip("|") for line in part["table"].splitlines()
            ]
            heads, _, *body = ([cell.strip() for cell in line.split("|")] for line in lines)
            yield part["title"], heads, body


def cells(page, row, column, title="*", **others):
    """The numbers of a printed table of a page, of the first table that has them: all are patterns,
    `row` for the first cell, `others` for further cells of the row."""
    for words, heads, body in tables(page):
        found = Points()
        places = [i for i, head in enumerate(heads) if fnmatch.fnmatchcase(head, column)]
        for number, line in enumerate(body):
            known = dict(zip(heads, line))
            if fnmatch.fnmatchcase(line[0], row) and all(
                known.get(head) == wanted for head, wanted in others.items()
            ):
                for i in places:
                    if match := NUMBER.match(line[i].strip("*")):
                        found[line[0], heads[i], number] = float(match[0].replace(",", ""))
        if found and fnmatch.fnmatchcase(" ".join(words.split()), f"*{title}*"):
            return next(iter(found.values())) if len(found) == 1 else found
    raise Problem(f"{page}: no printed table has the row {row} and the column {column}.")


class Family:
    """An object of a module whose methods are facts."""


class Cases(Family):
    """Facts of implementations beside one another in the cases of a record, its groups, such as
    `packed.ratio documents_forward fa3`. Implementations are named as in BACKENDS."""

    def __init__(self, record):
        self._record = record

    def tflops(self, case, who):
        """TFLOP/s of an implementation."""
        return points(self._record, "tflops", None, group=case, backend=who)

    def ratio(self, case, who):
        """The course over another implementation."""
        return over(self.tflops(case, "course"), self.tflops(case, who))

    def relative(self, case, base):
        """The course in a case over the course in another."""
        return over(self.tflops(case, "course"), self.tflops(base, "course"))

    def slower_than_flex(self, *cases):
        """The course is slower than FlexAttention in these cases, by more than 2 %."""
        return all(self.ratio(case, "flex") < 0.98 for case in cases)


class Ratios(Family):
    """Facts of the course over the fastest other implementation at all points of a record."""

    def __init__(self, record, type="bfloat16", backend="course", group="*"):
        self._where = {"name": record, "type": type, "backend": backend, "group": group}

    def all(self):
        """The ratios."""
        return points(column="ratio", causal=None, **self._where)

    def points(self):
        """How many points there are."""
        return len(self.all())

    def not_behind(self):
        """At how many points the ratio is 1, rounded, or more."""
        return count(self.all(), lambda ratio: ratio >= 0.9995)

    def behind(self):
        """At how many points it is less."""
        return self.points() - self.not_behind()

    def least(self):
        """The smallest ratio."""
        return min(each(self.all()))

    def most(self):
        """The largest ratio."""
        return max(each(self.all()))


class Ladder(Family):
    """Facts of the steps of a ladder: `forward.gain 12 11 128 4096 causal`. Steps are the numbers
    of their files; then head dimension, lengths (all, 4096, from_4096, to_2048, above_1024) and
    mask (full, causal, both)."""

    def __init__(self, record, type="bfloat16"):
        self._record, self._type = record, type

    def _points(self, column, step, head_dim="128", lengths="all", mask="full"):
        fields = {} if head_dim == "all" else {"D": head_dim}
        how, _, limit = lengths.rpartition("_")
        if lengths != "all":
            limit = int(limit)
            fields["length"] = {
                "": limit,
                "from": lambda length: length >= limit,
                "to": lambda length: length <= limit,
                "above": lambda length: length > limit,
            }[how]
        causal = {"full": False, "causal": True, "both": None}[mask]
        fields |= {"type": self._type, "kernel": f"{step}_*"}
        return points(self._record, column, causal=causal, **fields)

    def tflops(self, step, *where):
        """TFLOP/s."""
        return self._points("tflops", step, *where)

    def percent_of_peak(self, step, *where):
        """TFLOP/s in percent of the GPU's peak."""
        return self._points("percent_of_peak", step, *where)

    def percent_of_warps(self, step, *where):
        """Resident warps in percent of the most that an SM holds."""
        return self._points("percent_of_warps", step, *where)

    def ms(self, step, *where):
        """Milliseconds."""
        return self._points("milliseconds", step, *where)

    def speedup(self, new, old, *where):
        """How many times as fast the new step is."""
        return over(self.tflops(new, *where), self.tflops(old, *where))

    def speedup_within(self, low, high, *which):
        """The speedup lies between these."""
        return within(self.speedup(*which), float(low), float(high))

    def peak_within(self, low, high, *where):
        """TFLOP/s in percent of the peak lie between these."""
        return within(self.percent_of_peak(*where), float(low), float(high))

    def gain(self, new, old, *where):
        """How many percent faster the new step is."""
        return more(self.tflops(new, *where), self.tflops(old, *where))

    def loss(self, new, old, *where):
        """How many percent slower the new step is."""
        return less(self.tflops(new, *where), self.tflops(old, *where))

    def apart(self, new, old, *where):
        """How far the speeds of two steps lie apart, in percent of the slower one."""
        return apart(self.tflops(new, *where), self.tflops(old, *where))

    def largest_gain(self, *which):
        """The largest of several gains."""
        return max(each(self.gain(*which)))

    def largest_loss(self, *which):
        """The largest of several losses."""
        return max(each(self.loss(*which)))

    def largest_apart(self, *which):
        """The largest of several distances."""
        return max(each(self.apart(*which)))

    def faster(self, new, old, *where):
        """The new step is faster at each of these points, by more than the noise of 2 %."""
        return below(1.02, self.speedup(new, old, *where))

    def within_noise(self, *which):
        """The two steps are at most 2 % apart: docs/results/README.md."""
        return self.largest_apart(*which) <= 2
