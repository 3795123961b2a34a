"""Evaluates the queries of figures in sentences; docs/README.md says how they are written.

    [06 bfloat16 D128 causal 12 4096 TFLOP/s]   of a record: words that select rows, and a column
    [PAGE; ROW; COLUMN]                         of a printed table of a page; PAGE may be left out
    [PAGE; WORDS]                               the number behind these words in a printed block

An expression computes with them. Several rows are several values: two such queries are paired by
the fields that no word fixes."""

import ast
import fnmatch
import functools
import operator
import re
import statistics

from common.bench.peers import HEADINGS, OURS, OURS_SAME_BITS, SAME_BITS
from common.bench.tables import columns_of, points_in, ratio
from common.data import records
from docs.records.results import KNOWN
from docs.site.excerpts import fences_of
from docs.site.tables import Problem

# What a query calls the records. Those of another machine take the place of these here.
RECORDS = {
    "04": "h200_04_tiled_matmul",
    "04_hopper": "h200_04_hopper",
    "05": "h200_05_flash_forward",
    "05_peers": "h200_05_interface",
    "05_counters": "h200_05_counters",
    "05_decode": "h100_05_decode",
    "05_decode_steps": "h100_05_decode_steps",
    "05_types": "h100_05_types",
    "h100_05_peers": "h100_05_interface",
    "h100_05_counters": "h100_05_counters",
    "h100_06_peers": "h100_06_interface",
    "h100_06_few": "h100_06_few_heads",
    "06_types": "h100_06_types",
    "05_experiments": "h200_05_experiments",
    "05_exponentials": "h200_05_exponentials",
    "05_functors": "h100_05_functors",
    "05_functor_steps": "h100_05_functor_steps",
    "05_scheduler": "h200_05_scheduler",
    "05_scheduler_thread": "h100_05_scheduler_thread",
    "05_code": "sm_90a_05_machine_code",
    "06": "h200_06_flash_backward",
    "h100_06": "h100_06_flash_backward",
    "06_peers": "h200_06_interface",
    "06_counters": "h200_06_counters",
    "06_functors": "h100_06_functors",
    "06_functor_steps": "h100_06_functor_steps",
    "06_packed": "h100_06_packed",
    "06_ring": "h100_06_ring",
    "06_ring_pytorch": "h100_06_ring_pytorch",
    "06_code": "sm_90a_06_machine_code",
    "mma_rate": "h100_mma_rate",
    "limits": "h100_limits",
    "first_minutes": "first_minutes",
    "h100_05_lengths": "h100_05_lengths",
    "h100_06_lengths": "h100_06_lengths",
    "h100_04_hopper": "h100_04_hopper",
    "h200_05_decode": "h200_05_decode",
    "h200_05_lengths": "h200_05_lengths",
    "h200_06_lengths": "h200_06_lengths",
    "h200_06_packed": "h200_06_packed",
}
# Expressions that several sentences use, as {NAME}.
NAMED_EXPRESSIONS = {
    # Step 15 of lesson 06 launches the kernels of step 12 here, so these differences are noise.
    "noise": "apart([06 bfloat16 D128 causal=* 15 tflops], [06 bfloat16 D128 causal=* 12 tflops]), "
    "apart([06 bfloat16 D64 15 length>=4096 tflops], [06 bfloat16 D64 12 length>=4096 tflops]), "
    "apart([06 bfloat16 D64 causal 15 16384 tflops], [06 bfloat16 D64 causal 12 16384 tflops])",
}
PEERS = {OURS: "course", OURS_SAME_BITS: "deterministic", "FLASH_ATTENTION": "FA-2"}
PEERS |= {"FLASH_ATTENTION_3": "FA-3", "FLASH_ATTENTION_4": "FA-4"}
COLUMNS = {name: field for name, field, _ in KNOWN.values()}
NAMED = ("group", "kernel", "backend", "type", "what", "note", "gradient")  # what a word may name
POINT = ("group", "type", "D", "causal", "size", "length", "batch", "heads", "kv_heads", "gradient")
POINT += ("dropout", "length_q", "length_k", "first", "mask", "pass", "gpus", "implementation")
GROUP = re.compile(
    r"(?:(?P<more>.*), )?(?P<type>b?float\d+), D (?P<D>\d+)(?P<causal>, causal)?(?P<behind>, .*)?"
)
FIELD = re.compile(r"(\w+)(>=|<=|!=|=|<|>)(.+)")
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
RELATIONS = {"=": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt}
RELATIONS |= {"<=": operator.le, ">=": operator.ge}
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}
OPERATORS |= {ast.Div: operator.truediv, ast.Pow: operator.pow, ast.Lt: operator.lt}
OPERATORS |= {ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq}
FUNCTIONS = {"min": min, "max": max, "median": statistics.median, "len": len}
FUNCTIONS["count"] = lambda values: sum(map(bool, values))  # of relations that hold
# above(2, x, y): those values of x and y that are larger than 2.
FUNCTIONS["above"] = lambda values: numbered(v for v in values[1:] if v > values[0])
FUNCTIONS["upto"] = lambda values: numbered(v for v in values[1:] if v <= values[0])
# What a differs from b by, in percent; apart: of the smaller one, whichever that is.
PERCENT = {"more": lambda a, b: 100 * (a / b - 1), "less": lambda a, b: 100 * (1 - a / b)}
PERCENT["apart"] = lambda a, b: 100 * (max(a, b) / min(a, b) - 1)


class Nothing(Problem):
    """A record has rows, but none of the values that a sentence is about."""


class Values(dict):
    """Several values: {what each is of, as pairs (field, value): number}."""


def numbered(values):
    """Values that are of nothing in particular."""
    return Values({(("value", str(i)),): value for i, value in enumerate(values)})


def number(text):
    """The number at the beginning of a text, or None."""
    match = NUMBER.match(text.strip().strip("*"))
    return float(match[0].replace(",", "")) if match else None


def prepared(record):
    """The rows of a record with the same fields whatever program wrote it."""
    rows = [dict(row) for row in record["measurements"]]
    for of in points_in([row for row in rows if row.get("what") == "time"]):
        for name, same_bits in ((OURS, False), (OURS_SAME_BITS, True)):
            if name in of and (point := ratio(of, same_bits)):
                of[name]["ratio"] = point[0]
    for row in rows:
        row["group"] = str(row.get("group", ""))
        if match := GROUP.fullmatch(row["group"]):
            row |= {"type": match["type"], "D": match["D"], "causal": bool(match["causal"])}
            row["group"] = (match["more"] or "") + (match["behind"] or "")
        elif "head_dim" in row:
            row["D"] = columns_of(row)
        if name := row.get("backend"):
            plain = SAME_BITS.get(name, name)
            row["backend"] = PEERS.get(plain, HEADINGS.get(plain, plain))
            row["backend"] += "" if plain == name else "-same-bits"
    return rows


def selects(word, row):
    """The field by which a word selects this row, or None."""
    if match := FIELD.fullmatch(word):
        name, relation, wanted = match.groups()
        value = row.get(name, "")
        if relation in "!=":
            return name if (fnmatch.fnmatchcase(str(value), wanted)) == (relation == "=") else None
        return name if value != "" and RELATIONS[relation](value, float(wanted)) else None
    if word == "causal":
        return "causal" if row.get("causal") else None
    if re.fullmatch(r"D[\d/*]+", word) and "D" in row:
        return "D" if fnmatch.fnmatchcase(row["D"], word[1:]) else None
    if word.isdecimal() and len(word) > 2:
        return next((name for name in ("length", "size") if str(row.get(name)) == word), None)
    if re.fullmatch(r"\d\d", word):
        return "kernel" if row.get("kernel", "").startswith(word + "_") else None
    for name in NAMED:
        if fnmatch.fnmatchcase(re.sub(r"\s", "", str(row.get(name, ""))), word):
            return name
    return None


class Figures:
    """Answers queries. text_of(page) is the text of a page."""

    def __init__(self, root, text_of):
        self.root, self.text_of = root, text_of
        self.rows, self.blocks = {}, {}

    def record(self, name):
        """The rows of a record."""
        if name not in RECORDS:
            raise Problem(f"there is no record '{name}'; there are {', '.join(RECORDS)}.")
        if name not in self.rows:
            path = self.root / "docs/results" / f"{RECORDS[name]}.json"
            try:
                self.rows[name] = prepared(records.read(path))
            except records.Problem as error:
                raise Problem(f"{error}.") from error
        return self.rows[name]

    def of_record(self, query):
        """The values of a record's column in the rows that the words select."""
        name, *words = query.split()
        if not words:
            raise Problem(f"[{query}] names no column.")
        *words, column = words
        known = self.record(name)
        field = column if any(column in row for row in known) else COLUMNS.get(column, column)
        rows = [(row, set()) for row in known if field in row]
        if not rows:
            raise Problem(f"[{query}]: the record {name} has no column '{column}'.")
        if not any(word == "causal" or word.startswith("causal=") for word in words):
            rows = [(row, {"causal"}) for row, _ in rows if not row.get("causal")]
        for word in words:
            left = []
            try:
                chosen = [(row, fixed, selects(word, row)) for row, fixed in rows]
            except (TypeError, ValueError) as error:
                raise Problem(f"[{query}]: '{word}' compares no numbers.") from error
            for row, fixed, by in chosen:
                if by:
                    left.append((row, fixed if re.search("[*<>!]", word) else fixed | {by}))
            if not left:
                raise Problem(f"[{query}]: no row is left at '{word}'.")
            rows = left
        result = Values()
        for row, fixed in rows:
            fields = (*POINT, "backend" if "backend" in row else "kernel")
            key = tuple((f, str(row[f])) for f in fields if f in row and f not in fixed)
            if key in result:
                raise Problem(f"[{query}]: several rows agree in {dict(key)}; select one.")
            result[key] = row[field]
        return result

    def printed(self, page):
        """[(line, title, headings, rows, lines)] of the printed blocks of a page."""
        if page not in self.blocks:
            self.blocks[page] = list(blocks_of(self.text_of(page)))
        return self.blocks[page]

    def of_page(self, query, page, line):
        """The values of printed tables, those of the nearest table above the line, else below."""
        of, *parts = (part.strip() for part in query.split(";"))
        blocks = self.printed(of or page)
        if not of or of == page:
            above = [block for block in blocks if block[0] < line]
            blocks = above[::-1] + blocks[len(above) :]
        if len(parts) == 1:
            for *_, lines in blocks:
                for text in lines:
                    if parts[0] in text and (m := NUMBER.search(text.split(parts[0], 1)[1])):
                        return Values({(): number(m[0])})
            raise Problem(f"[{query}]: no printed block has a number behind these words.")
        row, column, title = [*parts, ""][:3]
        for _, words, heads, rows, _ in blocks:
            columns = [i for i, head in enumerate(heads) if fnmatch.fnmatchcase(head, column)]
            fits = fnmatch.fnmatchcase(words, f"*{title}*")
            if fits and (found := cells_of(heads, rows, row, columns)):
                return found
        raise Problem(f"[{query}]: no printed table has this row and column.")

    def value(self, expression, page="", line=0):
        """The value of an expression: a number or Values."""
        return self.computed(*self.parsed(expression, page, line))

    def claim(self, expression, page="", line=0):
        """Where a claim does not hold, in words; None where it holds."""
        tree, answers = self.parsed(expression, page, line)
        if not isinstance(tree, ast.Compare):
            raise Problem("this is no relation, such as [...] / [...] in 1.30..1.36.")
        holds = self.computed(tree, answers)
        points = holds.items() if isinstance(holds, Values) else [((), holds)]
        bad = [" ".join(value for _, value in key if value) for key, held in points if not held]
        if not bad:
            return None
        sides = [self.computed(side, answers) for side in (tree.left, *tree.comparators)]
        where = f" ({len(bad)} of {len(points)}, such as {bad[0]})" if bad[0] else ""
        return f"compared are {', '.join(map(spread, sides))}{where}"

    def parsed(self, expression, page, line):
        """(the tree of an expression, the answers to its queries)."""
        queries = []

        def name_of(match):
            queries.append(match[1])
            return f"_{len(queries) - 1}"

        text = re.sub(
            r"\{(\w+)\}", lambda match: NAMED_EXPRESSIONS.get(match[1], match[0]), expression
        )
        text = re.sub(r"\[([^\[\]]*)\]", name_of, text)
        text = re.sub(r"^(.*) in (\S+)\.\.(\S+)$", r"\2 <= (\1) <= \3", text.strip())
        try:
            tree = ast.parse(text, mode="eval").body
        except SyntaxError as error:
            raise Problem("this is no expression.") from error
        answers = [
            self.of_page(query, page, line) if ";" in query else self.of_record(query)
            for query in queries
        ]
        return tree, answers

    @staticmethod
    def computed(tree, answers):
        """The value of a tree, or a Problem."""
        try:
            return computed(tree, answers)
        except ZeroDivisionError as error:
            raise Problem("this divides by zero.") from error
        except TypeError as error:
            raise Problem(f"these values cannot be combined: {error}.") from error


def spread(value):
    """A value in words: 1.31, or 1.21 to 1.45."""
    values = value.values() if isinstance(value, Values) else [value]
    return " to ".join(dict.fromkeys(f"{x:.6g}" for x in (min(values), max(values))))


def computed(node, answers):
    """The value of a part of an expression; the names _0, _1, ... stand for answers to queries."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.Name) and re.fullmatch(r"_\d+", node.id):
        values = answers[int(node.id[1:])]
        return next(iter(values.values())) if len(values) == 1 else values
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return combined(operator.sub, 0, computed(node.operand, answers))
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        sides = (computed(side, answers) for side in (node.left, node.right))
        return combined(OPERATORS[type(node.op)], *sides)
    if isinstance(node, ast.Compare) and all(type(op) in OPERATORS for op in node.ops):
        sides = [computed(side, answers) for side in (node.left, *node.comparators)]
        parts = zip(node.ops, sides, sides[1:])
        parts = [combined(OPERATORS[type(relation)], *pair) for relation, *pair in parts]
        return functools.reduce(functools.partial(combined, lambda a, b: a and b), parts)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
        arguments = [computed(argument, answers) for argument in node.args]
        if node.func.id in PERCENT and len(arguments) == 2:
            return combined(PERCENT[node.func.id], *arguments)
        if node.func.id in FUNCTIONS:
            several = [[*a.values()] if isinstance(a, Values) else [a] for a in arguments]
            values = sum(several, [])
            if not values and node.func.id in ("min", "max", "median"):
                raise Nothing("no value is left.")
            return FUNCTIONS[node.func.id](values)
    raise Problem(f"'{ast.unparse(node)}' is not understood.")


def combined(operation, a, b):
    """An operation on numbers or Values; those of two queries are paired."""
    if isinstance(a, Values) and isinstance(b, Values):
        names = [{name for key in side for name, _ in key} for side in (a, b)]
        common = names[0] & names[1]
        sides = []
        for side in (a, b):
            reduced = {tuple((n, v) for n, v in key if n in common): side[key] for key in side}
            if len(reduced) != len(side):
                raise Problem("the rows of two queries cannot be paired one to one; select more.")
            sides.append(reduced)
        keys = [key for key in sides[0] if key in sides[1]]
        if not keys:
            raise Problem("the rows of two queries have no pair.")
        return Values({key: operation(sides[0][key], sides[1][key]) for key in keys})
    if isinstance(a, Values):
        return Values({key: operation(x, b) for key, x in a.items()})
    if isinstance(b, Values):
        return Values({key: operation(a, x) for key, x in b.items()})
    return operation(a, b)


def blocks_of(text):
    """Yields (line, title, headings, rows, lines) of what is printed between generated comments."""
    block, first = None, 0
    for i, line in enumerate(text.split("\n")):
        if re.match(r"\s*<!-- generated\b", line):
            block, first = [], i
        elif re.match(r"\s*<!-- /generated", line) and block is not None:
            title, heads, rows = [], [], []
            for inner in [*block, ""]:
                cells = [c.strip().replace("\\", "") for c in inner.strip().strip("|").split("|")]
                if not inner.strip().startswith("|"):
                    if rows:
                        yield first, " ".join(title), heads, rows, block
                        title, heads, rows = [], [], []
                    title += [inner] if inner.strip() else []
                elif not heads:
                    heads = cells
                elif set(inner) - set("|-: "):
                    rows.append(cells)
            yield first, "", [], [], block
            block = None
        elif block is not None:
            block.append(line)


def cells_of(heads, rows, wanted, columns):
    """The numbers in these columns of the rows whose first cell, and other cells, are wanted:
    "12_*, N=4096"."""
    name, *more = re.split(r", (?=[^,=]+=)", wanted)
    more = dict(part.split("=", 1) for part in more)
    result = Values()
    for row in rows:
        cells = dict(zip(heads, row))
        if not fnmatch.fnmatchcase(row[0], name) or any(cells.get(c) != more[c] for c in more):
            continue
        key = [("row", row[0])] if "*" in name else []
        key += [("N", cells["N"])] if "N" in cells and "N" not in more else []
        for i in columns:
            place = tuple(key + ([("column", heads[i])] if len(columns) > 1 else []))
            if i < len(row) and (value := number(row[i])) is not None:
                if place in result:
                    raise Problem(f"several rows of a table are '{wanted}'; select one.")
                result[place] = value
    return result


VALUE = re.compile(r"<!-- value: (?P<query>.*?) -->(?P<text>.*?)<!-- /value -->")
CLAIM = re.compile(r"<!-- claim: (?P<relation>.*?) -->")
FIGURE = re.compile(r"<!--\s*/?\s*(?:value|claim)\b", re.IGNORECASE)
FIRST = re.compile(r"[ \t>]*(?:[-*+]|\d+\.)?[ \t]*<!-- (?:value|claim)\b")
WORDS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
WORDS = (WORDS + " fifteen sixteen seventeen eighteen nineteen twenty").split()


def written(value, old):
    """A value as text, with as many decimals as the text that it replaces: "391", "0.707",
    "2 to 6", "12,500", "3.1e-06", "four"."""
    shown = old.strip()
    first = shown.split(" to ")[0]

    def one(x):
        if first.lower() in WORDS:
            count = round(x)
            word = WORDS[count] if 0 <= count < len(WORDS) else str(count)
            return word.capitalize() if first[0].isupper() else word
        digits = NUMBER.match(first)
        if digits is None or digits[0] != first:
            raise Problem(f"the figure is '{old}'; it must be a number, for example 391 or 2 to 6.")
        mantissa, _, exponent = first.partition("e")
        decimals = len(mantissa.partition(".")[2])
        text = f"{x:.{decimals}{'e' if exponent else 'f'}}"
        text = re.sub(r"^-(0(\.0*)?)$", r"\1", text)
        return f"{float(text):,.{decimals}f}" if "," in first else text

    if isinstance(value, bool):
        raise Problem("this is a relation; write it as a claim.")
    if not isinstance(value, Values):
        return one(value)
    if not value:
        raise Nothing("no value is left.")
    low, high = one(min(value.values())), one(max(value.values()))
    return low if low == high else f"{low} to {high}"


def with_figures(text, figures, page, report, refute):
    """The text with its values as the records and printed tables have them. Calls refute(line
    number, sentence) for each claim that does not hold, and for a value that is negative or has
    gone: a sentence that says "faster" does not say by -3 %."""
    lines = text.split("\n")
    _, inside = fences_of(lines)

    def value(match, i):
        try:
            new = written(figures.value(match["query"], page, i), match["text"])
        except Nothing as nothing:
            refute(i + 1, f"the value '{match['query']}': {nothing}")
            return match[0]
        if "-" in re.sub(r"e-", "e", new):
            refute(i + 1, f"the value '{match['query']}' is {new}, and the sentence has no sign.")
        return match[0].replace(f"-->{match['text']}<!--", f"-->{new}<!--")

    for i, line in enumerate(lines):
        if i in inside or not FIGURE.search(line):
            continue
        for claim in CLAIM.finditer(line):
            try:
                if wrong := figures.claim(claim["relation"], page, i):
                    refute(i + 1, f"the claim '{claim['relation']}' does not hold: {wrong}.")
            except Nothing as nothing:
                refute(i + 1, f"the claim '{claim['relation']}' does not hold: {nothing}")
            except Problem as problem:
                report(i + 1, f"the claim '{claim['relation']}': {problem}")
        pieces, copied = [], 0
        for match in VALUE.finditer(line):
            try:
                pieces += [line[copied : match.start()], value(match, i)]
                copied = match.end()
            except Problem as problem:
                report(i + 1, f"the value '{match['query']}': {problem}")
        lines[i] = "".join(pieces) + line[copied:]
        if FIRST.match(line):
            report(i + 1, "a line must not begin with a value or claim: Markdown ends there.")
        if FIGURE.search(VALUE.sub("", CLAIM.sub("", line))):
            report(
                i + 1,
                "this comment cannot be read; allowed are <!-- value: QUERY -->391<!-- /value --> "
                "and <!-- claim: RELATION -->, each in one line.",
            )
    return "\n".join(lines)
