"""Runs the programs whose output stands in pages: those of the build, and Python modules."""

import decimal
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile

from docs.site.tables import Problem

TIME_LIMIT = 300.0  # seconds; the longest takes ten, but machines may be slow and busy
PROGRAM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*)?")
MODULE = re.compile(r"\w+(?:\.\w+)+", re.ASCII)
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
# What makes programs print otherwise than into a plain file.
TERMINAL = ("CLICOLOR_FORCE", "FORCE_COLOR", "COLUMNS", "LINES")


class Programs:
    """Runs the lessons' programs, each command once.

    root        the repository, where modules run
    directory   the build; the program NAME is NAME/NAME, A/B is A/B
    emulator    words that start a program of another processor
    """

    def __init__(self, root, directory, emulator=()):
        self.root, self.directory, self.emulator = root, directory, emulator
        self.results = {}  # words of the command -> lines, or the Problem that it met

    def output(self, command):
        """The lines that the command prints."""
        try:
            words = tuple(shlex.split(command))
        except ValueError as error:
            raise Problem(f"the command '{command}' cannot be read: {error}.") from error
        if words not in self.results:
            try:
                self.results[words] = printed(command, *self.run(command, words))
            except Problem as problem:
                self.results[words] = problem
        if isinstance(self.results[words], Problem):
            raise self.results[words]
        return self.results[words]

    def argument(self, word):
        """A word of a command for a program: a record of the repository by its full path, since
        programs run elsewhere."""
        record = self.root / word
        return str(record) if word.startswith("docs/results/") and record.is_file() else word

    def start(self, words):
        """(words that start the command, where it runs or None for an empty directory)."""
        name = words[0]
        if MODULE.fullmatch(name):
            if not (self.root / name.replace(".", "/")).with_suffix(".py").is_file():
                raise Problem(f"there is no module {name}.")
            return [sys.executable, "-B", "-m", *words], self.root
        if not PROGRAM.fullmatch(name):
            raise Problem(
                f"the program is '{name}'; it must be a plain name, for example "
                "01_naive_attention, or one in a directory of the build, for example "
                "common/broken_on_lab, or a Python module of the repository, for example "
                "docs.records.results."
            )
        program = self.directory / name if "/" in name else self.directory / name / name
        if not program.is_file():
            raise Problem(
                f"there is no program {program}; build it: cmake --build "
                f"{shlex.quote(str(self.directory))} --target {name.rsplit('/', 1)[-1]}"
            )
        return [*self.emulator, str(program), *map(self.argument, words[1:])], None

    def run(self, command, words):
        """(output, messages, exit status) of a command."""
        start, place = self.start(words)
        environment = {k: v for k, v in os.environ.items() if k not in TERMINAL}
        environment.update(NO_COLOR="1", TERM="dumb", LC_ALL="C.UTF-8")
        environment["CUDA_VISIBLE_DEVICES"] = ""  # pages show the lab, also where a GPU is
        with tempfile.TemporaryDirectory() as scratch:
            try:
                process = subprocess.Popen(
                    start,
                    cwd=place or scratch,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                )
            except OSError as error:
                raise Problem(f"`{command}` cannot be started: {error.strerror}.") from error
            try:
                return (*process.communicate(timeout=TIME_LIMIT), process.returncode)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # its children too, or the pipes stay open
                process.communicate()
                raise Problem(
                    f"`{command}` was still running after {TIME_LIMIT:g} s; it was ended."
                ) from None


def printed(command, out, err, status):
    """The lines of a program that has ended, when they are plain text."""
    if status != 0:
        how = f"ended with status {status}" if status > 0 else f"was ended by signal {-status}"
        said = err.decode("utf-8", "replace").strip()
        raise Problem(
            f"`{command}` {how}; on stderr it said: " + (f"\n{said}" if said else "nothing.")
        )
    try:
        text = out.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Problem(
            f"`{command}` printed bytes that are not UTF-8 text (byte {error.start})."
        ) from error
    if control := CONTROL.search(text):
        what = f"the control character {control[0]!r}"
        if control[0] == "\x1b":
            what = "an ANSI escape sequence, for example a colour"
        raise Problem(f"`{command}` printed {what}; a page needs plain text.")
    lines = stripped(text.split("\n"))
    if not lines:
        raise Problem(f"`{command}` printed nothing.")
    return lines


def stripped(lines):
    """The lines without blank ones at either end."""
    filled = [i for i, line in enumerate(lines) if line.strip()]
    return lines[filled[0] : filled[-1] + 1] if filled else []


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
