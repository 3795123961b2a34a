"""Writes facts into the sentences of pages, and says which do not hold. A fact is a public function
of one of the MODULES, or a method of one of their objects: `forward.gain 12 11` on a page is
lesson05.forward.gain("12", "11"). It returns a number, several numbers or a truth.

    Step 12 reaches <!-- fact: forward.tflops 12 -->644<!-- /fact --> TFLOP/s.
    It is the fastest. <!-- fact: forward.faster 12 11 -->

What stands there says how a number is written: 391, 0.707, 12,500, 3.1e-06, four; several numbers
are a range, 2 to 6. A truth writes nothing. As a program it compares all pages with their facts,
and says which facts no page names: python3 -m docs.facts.pages. Exit status: 0 or 1."""

import contextlib
import importlib
import inspect
import re
import sys

from docs.facts.records import OLD, ROOT, Family, Problem, each
from docs.site.excerpts import fences_of, markdown_files

MODULES = ("lesson04", "lesson05", "lesson06", "course")
FACT = re.compile(r"<!-- fact: (?P<name>[^<>]+?) -->(?:(?P<text>[^<>]*)<!-- /fact -->)?")
LIKE = re.compile(r"<!--\s*/?\s*(?:fact|value|claim)\b", re.IGNORECASE)
WORDS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
WORDS = (WORDS + " fifteen sixteen seventeen eighteen nineteen twenty").split()


def facts():
    """{name: function} of all facts. A name that two modules have is an error."""
    found = {}
    for module in (importlib.import_module(f"docs.facts.{name}") for name in MODULES):
        here = {}
        for name, thing in vars(module).items():
            if inspect.isfunction(thing) and thing.__module__ == module.__name__:
                here[name] = thing
            elif isinstance(thing, Family):
                here |= {f"{name}.{m}": f for m, f in inspect.getmembers(thing, inspect.ismethod)}
        for name, fact in here.items():
            private = name.rpartition(".")[2].startswith("_")
            if not private and found.setdefault(name, fact) != fact:
                raise ValueError(f"two modules have a fact {name}.")
    return found


def value_of(name):
    """What the fact NAME ARGUMENT... returns: a truth, or its numbers."""
    name, *arguments = name.split()
    if name not in (known := facts()):
        raise Problem(f"there is no fact {name} in docs/facts.")
    try:
        value = known[name](*arguments)
    except (ArithmeticError, KeyError, OSError, TypeError, ValueError) as error:
        raise Problem(f"the fact {name}: {type(error).__name__}: {error}.") from error
    return value if isinstance(value, (bool, list)) else each(value)


def age_of(name):
    """Why the figures of a fact may be old; "" where no kernel has changed, or there is no fact."""
    OLD.clear()
    with contextlib.suppress(Problem):
        value_of(name)
    return "; ".join(sorted(OLD - {""}))


def written(values, old):
    """Numbers as text, in the form of the text that they replace."""
    first = old.strip().split(" to ")[0]
    mantissa, exponent, _ = first.partition("e")
    decimals = len(mantissa.partition(".")[2])

    def one(x):
        if first.lower() in WORDS:
            word = WORDS[round(x)] if 0 <= round(x) < len(WORDS) else str(round(x))
            return word.capitalize() if first[0].isupper() else word
        if not re.fullmatch(r"-?\d[\d,]*(\.\d+)?(e[-+]\d+)?", first):
            raise Problem(f"'{old}' is not a number, for example 391 or 2 to 6.")
        form = ",." if "," in first else "."
        text = f"{x:{form}{decimals}{'e' if exponent and first.lower() not in WORDS else 'f'}}"
        return re.sub(r"^-(0(\.0*)?)$", r"\1", text)

    low, high = one(min(values)), one(max(values))
    return low if low == high else f"{low} to {high}"


def with_facts(text, report, refute):
    """The text with its facts. Calls report(line, sentence) for what cannot be read or computed,
    and refute(line, sentence) for what does not hold and for a number that has become negative."""
    lines = text.split("\n")
    _, inside = fences_of(lines)

    def fact(match):
        value = value_of(match["name"])
        if isinstance(value, bool) != (match["text"] is None):
            raise Problem(
                f"{match['name']} is {value}: a truth stands alone, a number is enclosed."
            )
        if value is False:
            refute(number, f"{match['name']} does not hold.")
        if isinstance(value, bool):
            return match[0]
        new = written(value, match["text"])
        if "-" in new.replace("e-", ""):
            refute(number, f"{match['name']} is {new}, and the sentence has no sign.")
        return f"<!-- fact: {match['name']} -->{new}<!-- /fact -->"

    for number, line in enumerate(lines, 1):
        if number - 1 in inside or not LIKE.search(line):
            continue
        try:
            lines[number - 1] = FACT.sub(fact, line)
        except Problem as problem:
            report(number, str(problem))
        if LIKE.search(FACT.sub("", line)):
            report(number, "this cannot be read; a fact is <!-- fact: NAME -->391<!-- /fact -->.")
        if re.match(r"[ \t>]*(?:[-*+]|\d+\.)?[ \t]*<!-- fact", line):
            report(number, "a line must not begin with a fact: Markdown ends there.")
    return "\n".join(lines)


def main():
    """Returns the exit status."""
    found, unused = [], {name for name in facts() if "." not in name}
    for path in markdown_files(ROOT):
        page, old = path.relative_to(ROOT), path.read_text(encoding="utf-8")
        unused -= {match["name"].split()[0] for match in FACT.finditer(old)}

        def note(line, sentence, page=page):
            found.append(f"{page}:{line}: {sentence}")

        new = with_facts(old, note, note).split("\n")
        for number, (was, is_now) in enumerate(zip(old.split("\n"), new), 1):
            if was != is_now:
                note(number, f"by its facts this is: {is_now}")
    found += [f"docs/facts: no page names {name}." for name in sorted(unused)]
    print(*found, f"{len(found)} faults.", sep="\n")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
