"""The figures in sentences of a page: values, which are written, and claims, which are checked."""

import re

from docs.site.fences import fences_of
from docs.site.figures import NUMBER, Nothing, Values
from docs.site.tables import Problem

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
