"""Mutants of the exercises' solutions: each operator, index, bound, barrier and constant of the
lines that a student writes, changed by rule. The gate wants every one refused, or listed as
equivalent.

What is equivalent is listed in the exercise's frame.txt, with the reason. A line of the solution is
given there with its comment only where two lines are equal.
"""

import dataclasses
import difflib
import hashlib
import re

# In the order in which they are tried at one place; only the first that matches there is used.
OPERATORS = (
    ("&&", ("||",)),
    ("||", ("&&",)),
    ("+=", ("-=",)),
    ("-=", ("+=",)),
    ("*=", ("/=",)),
    ("/=", ("*=",)),
    ("==", ("!=",)),
    ("!=", ("==",)),
    ("<=", ("<", ">=")),
    (">=", (">", "<=")),
    (" < ", (" <= ", " > ")),
    (" > ", (" >= ", " < ")),
    (" + ", (" - ",)),
    (" - ", (" + ",)),
    (" * ", (" + ",)),
    (" / ", (" * ",)),
    (" % ", (" / ",)),
)
WORDS = {
    "x": "y",
    "y": "x",
    "rows": "cols",
    "cols": "rows",
    "length_q": "length_k",
    "length_k": "length_q",
    "min": "max",
    "max": "min",
    "fmaxf": "fminf",
    "infinity": "lowest",
    "__syncthreads": "__syncwarp",
}
NUMBER = re.compile(r"(?<![\w.])(\d+)(?![\w.])")
WORD = re.compile(r"[A-Za-z_]\w*")
COMMENT = re.compile(r"//.*$")
# Where a word is the name of something other than what its mutant is.
NOT_A_USE = re.compile(r"^\s*(using|#|template|struct|class|namespace)\b")
DECLARES = re.compile(
    r"^\s*(const|constexpr|auto|double|float|int|bool|std::|typename|Matrix|Vector|return\b.*\breturn)"
    r".*="
)
STATEMENT = re.compile(r"^\s*[^{}]*;\s*$")
# What a refusal says when it has recognised no misconception.
DEFAULT = re.compile(
    r"^\d+ of \d+ numbers? (is|are) wrong; the worst is|the lab found what a GPU would not tell you"
)


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One line of a solution, changed."""

    line: int  # from 0
    before: str
    after: str
    text: str  # the whole file

    @property
    def before_code(self):
        """The line as it was, without indentation and comment."""
        return COMMENT.sub("", self.before).strip()

    @property
    def keys(self):
        """What equivalent() may have it as."""
        after = self.after.strip()
        return {(self.before_code, after), (self.before.strip(), after)}

    @property
    def name(self):
        """The change in words."""
        return f"{self.line + 1}: {self.before.strip()} -> {self.after.strip() or '(nothing)'}"


def own_lines(exercise):
    """Numbers of the lines of the solution that the start does not have."""
    start, solution = exercise.start().split("\n"), exercise.solution().split("\n")
    matcher = difflib.SequenceMatcher(None, start, solution, autojunk=False)
    found = []
    for kind, _, _, begin, end in matcher.get_opcodes():
        if kind in ("insert", "replace"):
            found += range(begin, end)
    return found


def changed(line):
    """All changes of one line, as new lines."""
    code = COMMENT.sub("", line).rstrip()
    if not code.strip() or NOT_A_USE.match(code):
        return []
    found = []
    at = 0
    while at < len(code):
        for operator, others in OPERATORS:
            if code.startswith(operator, at):
                found += [code[:at] + other + code[at + len(operator) :] for other in others]
                at += len(operator) - 1
                break
        at += 1
    for match in NUMBER.finditer(code):
        number = int(match[1])
        for other in {number + 1, max(number - 1, 0)} - {number}:
            found.append(code[: match.start()] + str(other) + code[match.end() :])
    for match in WORD.finditer(code):
        if other := WORDS.get(match[0]):
            found.append(code[: match.start()] + other + code[match.end() :])
    if STATEMENT.match(code) and not DECLARES.match(code) and "return" not in code:
        found.append("")
    return [other for other in dict.fromkeys(found) if other != code]


def mutants(exercise):
    """All mutants of an exercise's solution, in the order of its lines."""
    lines = exercise.solution().split("\n")
    found = []
    for number in own_lines(exercise):
        if lines[number].startswith("// answer:"):
            continue
        for after in changed(lines[number]):
            text = "\n".join([*lines[:number], after, *lines[number + 1 :]])
            found.append(Mutant(number, lines[number], after, text))
    return found


def sample(found, count):
    """So many of them, always the same for the same solution."""
    by_hash = sorted(found, key=lambda m: hashlib.sha256(m.name.encode()).hexdigest())
    return sorted(by_hash[:count], key=lambda m: (m.line, m.after))


def equivalent(exercise):
    """(line, change) -> why no check can tell them apart."""
    return {
        (before[-1], after.strip()): answer.what
        for answer in exercise.answers("equivalent")
        for before, changed_to in answer.hunks
        for after in changed_to
    }


def is_default(message):
    """Whether a refusal names no misconception."""
    return bool(DEFAULT.search(message))
