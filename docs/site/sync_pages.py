"""Keeps listings and printed numbers of the pages in step with the code.

A listing is the part of a source file between two marks `//! [TAG]`:

    <!-- listing: 01_naive_attention/attention.cpp#scores -->
    ```cpp
    ```

A diff is what one step changes of the step before it, each a file or the part of one between two
marks; NEW stands in OLD's folder where it names none. Below it the tool writes a link to both:

    <!-- diff: 05_flash_forward/kernels/11_overlap.cuh#step 12_ping_pong.cuh#step -->
    ```diff
    ```
    <!-- /diff -->

Its options follow after NEW: --context 2, lines around each change; --most 60, lines that the block
may have; --rename OLD=NEW, a name that is no change, as the files' own names are none.

A generated block is what a lesson's program prints, or another program of the build
(common/broken_on_lab), or a Python module, which runs in the repository's root
(docs.records.results, for recorded measurements):

    <!-- generated: 01_naive_attention --section memory -->
    ```text
    ```
    <!-- /generated -->

It can be a cut of the tables that the program prints, with patterns for rows and for headings:

    <!-- generated, rows 07_* | 08_*, columns sectors: 04_tiled_matmul --section matmul_traffic -->

A drawing is what a program or module prints as SVG; it goes to the file that the next line shows,
in the page's folder or below it:

    <!-- drawn: 05_flash_forward.figures.drawings loops -->
    ![the order of the loops](figures/loops.svg)

The links at the end of a lesson's page, to its neighbours:

    <!-- navigation -->
    [Course](../README.md)

The last digits of a sum, an exponential or a rounding error depend on the processor, the compiler
and the C library. A block or drawing that a program prints is therefore in step if words, integers
and the number of lines and figures are the same, and

  - a number with a decimal point differs by at most one unit of its last digit,
  - a number with an exponent and below 1, such as 8.61e-06, is an error: it has the same sign and
    differs by less than a factor of two, or by one unit of its last digit; from 1 upwards by one
    unit;
  - a figure before its limit, `2.02e-11  (limit 3.67e-09)`, which the program has compared already,
    differs by less than a factor of ten, or both are at most a hundredth of the limit; from 1
    upwards by one unit.

Such a block stays as it is; with any other difference the whole block is rewritten. What a Python
module prints is the same everywhere and compared exactly. A block can ask for another rule:

    <!-- generated, exact: PROGRAM ARGS -->       every character is compared
    <!-- generated, noise 2e-06: PROGRAM ARGS --> two numbers with exponents up to 2e-06, with
    either
                                                  sign, count as equal

The tool rewrites the lines inside the fences, those drawings and those links, nothing else. With
--check it writes nothing and shows the difference instead. Exit status: 0 in step, 1 not in step
(--check), 2 could not be done.
"""

import argparse
import decimal
import difflib
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile

from common.cli.files import write_file
from docs.site import chapters, gfm
from docs.site.excerpts import Problem, diff, listing, stripped
from docs.site.tables import cut

TIME_LIMIT = (
    300.0  # seconds for one program; the longest takes ten, but machines may be slow and busy
)
PROGRAM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*)?")
MODULE = re.compile(r"\w+(?:\.\w+)+", re.ASCII)
DIRECTIVE = re.compile(
    r"^[ \t]*<!--\s*/?\s*(?:listing|diff|generated|drawn|navigation)\b", re.IGNORECASE
)
LISTING = re.compile(r"^[ \t]*<!-- listing: (?P<path>[^\s#]+)#(?P<tag>[^\s#]+) -->[ \t]*$")
DIFF = re.compile(
    r"^[ \t]*<!-- diff: (?P<old>[^\s#]+(?:#\S+)?) (?P<new>[^\s#]+(?:#\S+)?)"
    r"(?P<options> --.*)? -->[ \t]*$"
)
DIFF_END = re.compile(r"^[ \t]*<!-- /diff -->[ \t]*$")
NAVIGATION = re.compile(r"^<!-- navigation -->[ \t]*$")
GENERATED = re.compile(
    r"^[ \t]*<!-- generated(?:, (?P<rule>[^:]*))?: (?P<command>\S.*?) -->[ \t]*$"
)
DRAWN = re.compile(r"^[ \t]*<!-- drawn: (?P<command>\S.*?) -->[ \t]*$")
IMAGE = re.compile(
    r"^[ \t]*!\[[^\]]+\]\((?P<name>(?:[A-Za-z0-9_-]+/)*[A-Za-z0-9_-]+\.svg)\)[ \t]*$"
)
END = re.compile(r"^[ \t]*<!-- /generated -->[ \t]*$")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
NUMBER = re.compile(r"(?<![\d.])[-+]?\d+(?:\.\d+)?(?:e[-+]\d+)?(?!\.?\d)")  # not 2.11.0
BOUND = "(limit"  # between a figure and its limit
FACTOR, CHECKED_FACTOR = 2, 10  # by which an error on another machine may be larger or smaller


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


def in_step(old, new, command, rule=None):
    """Whether the lines of a block or drawing are what its command prints; the rule is the one that
    its comment asks for."""
    if rule is not None:
        others = [part for part in clauses(rule) if not CUT.fullmatch(part)]
        rule = ", ".join(others) if others else None
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
    return len(old) == len(new) and all(same_line(x, y, noise) for x, y in zip(old, new))


CLAUSE = re.compile(r", (?=exact\b|noise\b|rows\b|columns\b)")
CUT = re.compile(r"(?P<what>rows|columns) (?P<names>\S.*)")


def clauses(rule):
    """The parts of a rule, "rows A | B, exact"."""
    return CLAUSE.split(rule)


def cut_by(rule, lines):
    """The lines of a program, cut down to what a rule asks for."""
    chosen = {
        match["what"]: [name.strip() for name in match["names"].split("|")]
        for match in map(CUT.fullmatch, clauses(rule or ""))
        if match
    }
    return cut(lines, **chosen) if chosen else lines


class Programs:
    """Runs the lessons' programs, each command once."""

    def __init__(self, root, directory, emulator=()):
        self.root = root
        self.directory = directory
        self.emulator = emulator  # words that start a program of another processor
        self.results = {}  # words of the command -> lines, or the Problem that it met

    def argument(self, word):
        """A word of a command for a program: a record of the repository by its full path, since
        programs run elsewhere."""
        record = self.root / word
        return str(record) if word.startswith("docs/results/") and record.is_file() else word

    def output(self, command):
        """The lines that the command prints."""
        try:
            words = tuple(shlex.split(command))
        except ValueError as error:
            raise Problem(f"the command '{command}' cannot be read: {error}.") from error
        if words not in self.results:
            try:
                self.results[words] = self._run(command, words)
            except Problem as problem:
                self.results[words] = problem
        if isinstance(self.results[words], Problem):
            raise self.results[words]
        return self.results[words]

    def _run(self, command, words):
        name = words[0]
        if MODULE.fullmatch(name):
            place, start = self.root, [sys.executable, "-B", "-m", name]
            if not (self.root / name.replace(".", "/")).with_suffix(".py").is_file():
                raise Problem(f"there is no module {name}.")
        elif PROGRAM.fullmatch(name):
            # A lesson's program is in the directory of its name.
            program = self.directory / name if "/" in name else self.directory / name / name
            place, start = None, [*self.emulator, str(program)]
            if not program.is_file():
                raise Problem(
                    f"there is no program {program}; build it: "
                    f"cmake --build {shlex.quote(str(self.directory))} "
                    f"--target {name.rsplit('/', 1)[-1]}"
                )
        else:
            raise Problem(
                f"the program is '{name}'; it must be a plain name, for example "
                f"01_naive_attention, "
                "or one in a directory of the build, for example common/broken_on_lab, or a Python "
                "module of the repository, for example docs.records.results."
            )
        environment = {
            k: v
            for k, v in os.environ.items()
            if k not in ("CLICOLOR_FORCE", "FORCE_COLOR", "COLUMNS", "LINES")
        }
        environment.update(NO_COLOR="1", TERM="dumb", LC_ALL="C.UTF-8")
        environment["CUDA_VISIBLE_DEVICES"] = ""  # pages show the lab, also where a GPU is
        with tempfile.TemporaryDirectory() as scratch:
            try:
                process = subprocess.Popen(
                    [*start, *(words[1:] if place else map(self.argument, words[1:]))],
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
                out, err = process.communicate(timeout=TIME_LIMIT)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # its children too, or the pipes stay open
                process.communicate()
                raise Problem(
                    f"`{command}` was still running after {TIME_LIMIT:g} s; it was ended."
                ) from None
        if process.returncode != 0:
            how = (
                f"ended with status {process.returncode}"
                if process.returncode > 0
                else f"was ended by signal {-process.returncode}"
            )
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
        control = CONTROL.search(text)
        if control:
            what = (
                "an ANSI escape sequence, for example a colour"
                if control[0] == "\x1b"
                else (f"the control character {control[0]!r}")
            )
            raise Problem(f"`{command}` printed {what}; a page needs plain text.")
        lines = stripped(text.split("\n"))
        if not lines:
            raise Problem(f"`{command}` printed nothing.")
        return lines


def with_ends(text):
    """The lines of a text, each with its line end. A line ends with \\n and nothing else."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def diff_lines(root, page, match):
    """What a diff comment asks for: the lines of the block, and of the links below it."""
    old, new = match["old"], match["new"]
    if "/" not in new.partition("#")[0]:
        new = str(pathlib.PurePosixPath(old.partition("#")[0]).parent / new)
    words = (match["options"] or "").split()
    numbers, renames = {"--context": 2, "--most": 60}, []
    for option, value in zip(words[::2], words[1::2]):
        if option in numbers and value.isdecimal():
            numbers[option] = int(value)
        elif option == "--rename" and re.fullmatch(r"\w+=\w+", value):
            renames.append(tuple(value.split("=")))
        else:
            words = [""]
    if len(words) % 2:
        raise Problem(
            f"the options are '{match['options'].strip()}'; allowed are --context N, --most N and "
            "--rename OLD=NEW."
        )
    lines = diff(root, old, new, numbers["--context"], numbers["--most"], renames)

    def link(place):
        path = place.partition("#")[0]
        target = os.path.relpath(path, os.path.dirname(page)).replace(os.sep, "/")
        return f"[{pathlib.PurePosixPath(path).name}]({target})"

    links = (
        link(new)
        if new.partition("#")[0] == old.partition("#")[0]
        else (f"{link(new)}, after {link(old)}")
    )
    return lines, ["", "<details><summary>The whole file</summary>", "", links, "", "</details>"]


def synced(text, page, root, programs, report, draw):
    """The page as it should be; `page` is its path. Calls report(line number, sentence) for each
    problem, and draw(file name, command) for each drawing; that may raise a Problem."""
    ends = with_ends(text)
    lines = [line.rstrip("\r\n") for line in ends]
    kinds, fences = gfm.scan(lines)
    opened = {fence.first: fence for fence in fences}
    pieces, copied = [], 0  # everything before line `copied` has been written to pieces
    generated_open = diff_open = False

    def next_fence(i, comment):
        i += 1
        while i < len(lines) and kinds[i] == "text" and not lines[i].strip():
            i += 1
        fence = opened.get(i)
        if fence is None or fence.prefix.strip():
            raise Problem(f"no fenced block follows the {comment} comment.")
        if fence.last is None:
            raise Problem(f"the fenced block at line {fence.first + 1} is never closed.")
        return fence

    def fill(fence, content):
        nonlocal copied
        for text_line in content:
            if fence.closed_by(text_line):
                raise Problem(
                    f"the line '{text_line.strip()}' would close the fenced block at line "
                    f"{fence.first + 1}; give that fence more {fence.mark[0]} characters."
                )
        pieces.extend(ends[copied : fence.first + 1])
        newline = "\r\n" if ends[fence.first].endswith("\r\n") else "\n"
        pieces.extend((fence.prefix + line if line else "") + newline for line in content)
        copied = fence.last

    def replace(first, last, content):
        """Lines of the page outside of fences."""
        nonlocal copied
        pieces.extend(ends[copied:first])
        newline = "\r\n" if ends[first - 1].endswith("\r\n") else "\n"
        pieces.extend(line + newline for line in content)
        copied = last

    for i, line in enumerate(lines):
        if kinds[i] not in ("comment", "text") or not DIRECTIVE.match(line):
            continue
        try:
            if match := LISTING.match(line):
                fill(next_fence(i, "listing"), listing(root, match["path"], match["tag"]))
            elif match := DIFF.match(line):
                diff_open = True
                fence = next_fence(i, "diff")
                end = fence.last + 1
                while end < len(lines) and not DIRECTIVE.match(lines[end]):
                    end += 1
                if end == len(lines) or not DIFF_END.match(lines[end]):
                    raise Problem("the diff is not closed: <!-- /diff --> must follow its block.")
                content, links = diff_lines(root, page, match)
                fill(fence, content)
                replace(fence.last + 1, end, links)
            elif DIFF_END.match(line):
                if not diff_open:
                    raise Problem("<!-- /diff --> stands here, but no diff is open.")
                diff_open = False
            elif NAVIGATION.match(line):
                end = i + 1
                while end < len(lines) and lines[end].strip():
                    end += 1
                if not ends[i].endswith("\n"):
                    raise Problem("there is no line end after <!-- navigation -->.")
                try:
                    replace(i + 1, end, [chapters.navigation(root, page)])
                except (OSError, ValueError) as error:
                    raise Problem(
                        f"the links to the neighbours cannot be made: {error}."
                    ) from error
            elif match := GENERATED.match(line):
                generated_open = True
                fence = next_fence(i, "generated")
                end = fence.last + 1
                while end < len(lines) and kinds[end] == "text" and not lines[end].strip():
                    end += 1
                if end == len(lines) or not END.match(lines[end]):
                    raise Problem(
                        "the generated block is not closed: <!-- /generated --> must follow "
                        f"the fenced block that ends at line {fence.last + 1}."
                    )
                content = cut_by(match["rule"], programs.output(match["command"]))
                block = [
                    text.removeprefix(fence.prefix) for text in lines[fence.first + 1 : fence.last]
                ]
                if not in_step(block, content, match["command"], match["rule"]):
                    fill(fence, content)
            elif match := DRAWN.match(line):
                image = IMAGE.match(lines[i + 1]) if i + 1 < len(lines) else None
                if image is None:
                    raise Problem(
                        "the line after the drawn comment must be an image in the page's "
                        "folder or below it: "
                        "![WORDS](NAME.svg)."
                    )
                draw(image["name"], match["command"])
            elif END.match(line):
                if not generated_open:
                    raise Problem(
                        "<!-- /generated --> stands here, but no generated block is open."
                    )
                generated_open = False
            else:
                raise Problem(
                    "this comment cannot be read; allowed are <!-- listing: PATH#TAG -->, "
                    "<!-- diff: OLD NEW -->, <!-- /diff -->, <!-- navigation -->, "
                    "<!-- generated: PROGRAM ARGS -->, also with a rule as in <!-- generated, "
                    "exact: "
                    "PROGRAM ARGS -->, <!-- /generated --> and <!-- drawn: PROGRAM ARGS -->."
                )
        except Problem as problem:
            report(i + 1, str(problem))
    pieces.extend(ends[copied:])
    return "".join(pieces)


def difference(name, old, new):
    """A unified diff of two texts."""
    lines = difflib.unified_diff(
        with_ends(old), with_ends(new), f"{name} (as it is)", f"{name} (as code and programs say)"
    )
    return "".join(
        line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines
    )


def main(arguments=None):
    """Returns the exit status."""
    parser = argparse.ArgumentParser(
        description="Bring listings and program output in pages up to date."
    )
    parser.add_argument("--root", required=True, type=pathlib.Path, help="the repository")
    parser.add_argument(
        "--programs",
        required=True,
        type=pathlib.Path,
        metavar="BUILD_DIR",
        help="build directory; the program NAME is BUILD_DIR/NAME/NAME",
    )
    parser.add_argument(
        "--emulator",
        default="",
        metavar="COMMAND",
        help="runs the programs, for example 'qemu-aarch64' or 'qemu-x86_64 -cpu Nehalem'",
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing, show the difference, exit 1 if any"
    )
    parser.add_argument(
        "pages", nargs="+", metavar="PAGE", help="Markdown page, relative to the repository"
    )
    options = parser.parse_args(arguments)
    root = options.root.resolve()
    programs = Programs(root, options.programs.resolve(), shlex.split(options.emulator))

    problems = 0
    changed = []  # (name, path, old text, new text)
    drawings = {}  # name -> text
    for name in options.pages:
        path = root / name

        def report(line, sentence, name=name):
            nonlocal problems
            problems += 1
            place = f"{name}:{line}: " if line else f"{name}: "
            print(place + sentence, file=sys.stderr)

        try:
            old = path.read_bytes().decode("utf-8")
        except UnicodeDecodeError as error:
            report(0, f"the page is not UTF-8 text (byte {error.start}).")
            continue
        except OSError as error:
            report(0, f"the page cannot be read: {error.strerror}.")
            continue

        def draw(image, command, name=name):
            drawing = str(pathlib.PurePosixPath(name).parent / image)
            content = programs.output(command)
            if drawings.setdefault(drawing, (command, content))[1] != content:
                raise Problem(f"two commands draw {drawing}.")

        new = synced(old, name, root, programs, report, draw)
        if new != old:
            changed.append((name, path, old, new))

    for name, (command, content) in drawings.items():
        path = root / name
        old = path.read_bytes().decode("utf-8", "replace") if path.is_file() else ""
        if not in_step(old.split("\n"), [*content, ""], command):
            changed.append((name, path, old, "\n".join(content) + "\n"))
    files = f"{len(options.pages)} pages"
    if drawings:
        files += f" and {len(drawings)} drawings"

    if options.check:
        for name, _, old, new in changed:
            print(difference(name, old, new), end="")
    if problems:
        if not options.check:
            print("No page was written.", file=sys.stderr)
        return 2
    if options.check and changed:
        build = options.programs.resolve()
        if (build / "CMakeCache.txt").is_file():
            update = ["cmake", "--build", str(build), "--target", "sync_pages"]
        else:
            update = [
                "python3",
                "-m",
                "docs.site.sync_pages",
                "--root",
                str(root),
                "--programs",
                str(build),
                *options.pages,
            ]
        print(
            f"\n{len(changed)} of {files} are out of step with the code. "
            "To update them:\n"
            f"  {shlex.join(update)}"
        )
        return 1
    if not options.check:
        for name, path, _, new in changed:
            try:
                write_file(path, new)
            except OSError as error:
                print(f"{name}: the page cannot be written: {error.strerror}.", file=sys.stderr)
                return 2
            print(f"{name}: written")
    count = len(programs.results)
    print(f"{files} are in step with the code ({count} program runs).")
    return 0


if __name__ == "__main__":
    sys.exit(main())
