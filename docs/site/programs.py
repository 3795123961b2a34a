"""Runs the programs whose output stands in pages, and compares what they print with a page."""

import decimal
import os
import re
import shlex
import subprocess
import sys

from docs.site.tables import Problem

TIME_LIMIT = 300.0  # seconds; the longest takes ten, but machines may be slow and busy
MODULE = re.compile(r"\w+(?:\.\w+)+", re.ASCII)
# A page shows the lab, also where a GPU is, and no colours.
PLAIN = {"NO_COLOR": "1", "TERM": "dumb", "LC_ALL": "C.UTF-8", "CUDA_VISIBLE_DEVICES": ""}


class Programs:
    """Runs programs in the repository, each command once.

    root        the repository
    directory   the build; the program NAME is NAME/NAME, A/B is A/B; A.B is a module of the root
    emulator    words that start a program of another processor
    """

    def __init__(self, root, directory, emulator=()):
        self.root, self.directory, self.emulator = root, directory, emulator
        self.results = {}  # command -> lines, or the Problem that it met

    def output(self, command):
        """The lines that the command prints."""
        if command not in self.results:
            try:
                self.results[command] = self.run(command)
            except Problem as problem:
                self.results[command] = problem
        if isinstance(self.results[command], Problem):
            raise self.results[command]
        return self.results[command]

    def start(self, name):
        """The words that start a program or module."""
        if MODULE.fullmatch(name):
            return [sys.executable, "-B", "-m", name]
        program = self.directory / (name if "/" in name else f"{name}/{name}")
        if not program.is_file():
            target = name.rsplit("/", 1)[-1]
            raise Problem(
                f"there is no program {program}; build it: cmake --build "
                f"{shlex.quote(str(self.directory))} --target {target}"
            )
        return [*self.emulator, str(program)]

    def run(self, command):
        try:
            name, *arguments = shlex.split(command)
            process = subprocess.run(
                [*self.start(name), *arguments],
                cwd=self.root,
                env={**os.environ, **PLAIN},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=TIME_LIMIT,
                encoding="utf-8",
            )
        except (OSError, ValueError) as error:
            raise Problem(f"`{command}` cannot be run: {error}.") from error
        except subprocess.TimeoutExpired:
            raise Problem(f"`{command}` was still running after {TIME_LIMIT:g} s.") from None
        if process.returncode:
            raise Problem(f"`{command}` ended with status {process.returncode}: {process.stderr}")
        if "\x1b" in process.stdout or not process.stdout.strip():
            raise Problem(f"`{command}` printed {'colours' if process.stdout else 'nothing'}.")
        return stripped(process.stdout.split("\n"))


def stripped(lines):
    """The lines without blank ones at either end."""
    filled = [i for i, line in enumerate(lines) if line.strip()]
    return lines[filled[0] : filled[-1] + 1] if filled else []


NUMBER = re.compile(r"(?<![\d.])[-+]?\d+(?:\.\d+)?(?:e[-+]\d+)?(?!\.?\d)")  # not 2.11.0
CHECKED = re.compile(r"\S+(?=\s+\(limit)")  # a figure that the program has compared already
FACTOR = 2  # by which an error on another machine may be larger or smaller


def same_number(old, new):
    """Whether two printed numbers may be one number, computed on two machines."""
    if old.isdecimal() or new.isdecimal():
        return old == new
    a, b = decimal.Decimal(old), decimal.Decimal(new)
    if "e" in old and "e" in new and a * b > 0 and max(abs(a), abs(b)) < 1:
        return max(a / b, b / a) < FACTOR
    # %g drops zeros at the end: 0.5 beside 0.49 is 0.50.
    return abs(a - b) <= min(decimal.Decimal(1).scaleb(x.as_tuple().exponent) for x in (a, b))


def same_line(old, new):
    """Whether two lines differ only in numbers, and in these only as another machine may print
    them. What aligns columns does not count."""
    old, new = (CHECKED.sub("checked", line) for line in (old, new))
    words = [NUMBER.sub("#", line).split() for line in (old, new)]
    numbers = [NUMBER.findall(line) for line in (old, new)]
    return words[0] == words[1] and all(map(same_number, *numbers))


def in_step(old, new, command):
    """Whether the lines of a page or drawing are what its command prints. What a module prints from
    records is the same everywhere."""
    if MODULE.fullmatch(command.split()[0]):
        return old == new
    return len(old) == len(new) and all(map(same_line, old, new))
