"""Keeps listings, printed numbers and facts of the pages in step with the code: docs/README.md says
what the comments mean, and which digits may differ between machines.

    <!-- listing: FILE#TAG -->        the fenced block that follows
    <!-- diff: OLD NEW -->            the same, and a link to both files; to <!-- /diff -->
    <!-- generated: PROGRAM ARGS -->  what the program prints, to <!-- /generated -->; or the file
                                      of the image that stands there, an SVG
    <!-- fact: NAME -->               what records say: docs/facts

With --check it writes nothing and shows the difference instead. Exit status: 0 in step, 1 not in
step (--check) or a fact does not hold, 2 could not be done.
"""

import argparse
import decimal
import difflib
import functools
import os
import pathlib
import re
import shlex
import subprocess
import sys
from xml.sax.saxutils import escape

from common.data.files import write_file
from common.drawing.dark import with_dark
from docs.facts.pages import with_facts
from docs.site.excerpts import diff, fences_of, listing, stripped
from docs.site.tables import Problem, markdown

DIRECTIVE = re.compile(r"^[ \t]*<!--\s*/?\s*(?:listing|diff|generated|drawn)\b", re.IGNORECASE)
LISTING = re.compile(r"^[ \t]*<!-- listing: (?P<path>[^\s#]+)#(?P<tag>[^\s#]+) -->[ \t]*$")
DIFF = re.compile(
    r"^[ \t]*<!-- diff: (?P<old>\S+) (?P<new>\S+)(?: --context (?P<context>\d))?"
    r"(?: --rename (?P<rename>\w+=\w+))? -->[ \t]*$"
)
GENERATED = re.compile(
    r"^[ \t]*<!-- generated: (?P<command>\S.*?)(?: \| rows (?P<rows>.+?))?"
    r"(?: \| columns (?P<columns>.+?))? -->[ \t]*$"
)
END = re.compile(r"^[ \t]*<!-- /(?P<of>generated|diff) -->[ \t]*$")
CHARTS = "docs.records.charts "
DATA = re.compile(r"<desc>.*?</desc>", re.DOTALL)
IMAGE = re.compile(r"\s*!\[[^\]]+\]\((?P<name>[\w/-]+\.svg)\)\s*")
TIME_LIMIT = 300.0  # seconds; the longest takes ten, but machines may be slow and busy
MODULE = re.compile(r"\w+(?:\.\w+)+", re.ASCII)
# A page shows the lab, also where a GPU is, and no colours.
PLAIN = {"NO_COLOR": "1", "TERM": "dumb", "LC_ALL": "C.UTF-8", "CUDA_VISIBLE_DEVICES": ""}
NUMBER = re.compile(r"(?<![\d.])[-+]?\d+(?:\.\d+)?(?:e[-+]\d+)?(?!\.?\d)")  # not 2.11.0
CHECKED = re.compile(r"\S+(?=\s+\(limit)")  # a figure that the program has compared already
FACTOR = 2  # by which an error on another machine may be larger or smaller


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


class Page:
    """A page and what has to change in it. draw(file name, command) is called for each drawing."""

    def __init__(self, text, path, root, programs, draw):
        self.path, self.root, self.programs, self.draw = path, root, programs, draw
        self.lines = text.split("\n")
        self.fences, self.inside = fences_of(self.lines)
        self.edits = []  # (first line, line after the last, new lines)
        self.closed = set()  # the ends of blocks that were opened

    def synced(self, report):
        """The page as it should be. Calls report(line number, sentence) for each problem."""
        for i, line in enumerate(self.lines):
            if i in self.inside or not DIRECTIVE.match(line):
                continue
            try:
                self.directive(i, line)
            except Problem as problem:
                report(i + 1, str(problem))
        lines = self.lines.copy()
        for first, last, content in reversed(self.edits):
            lines[first:last] = content
        return "\n".join(lines)

    def directive(self, i, line):
        """What one comment asks for."""
        if match := LISTING.match(line):
            self.fill(i, "listing", listing(self.root, match["path"], match["tag"]))
        elif match := DIFF.match(line):
            self.diff(i, match)
        elif match := GENERATED.match(line):
            self.generated(i, match)
        elif not (match := END.match(line)):
            raise Problem("this comment cannot be read; docs/README.md says how it is written.")
        elif i not in self.closed:
            raise Problem(f"<!-- /{match['of']} --> stands here, but no block is open.")

    def end_of(self, i, kind):
        """The number of the line that closes the block which line i opens."""
        for k in range(i + 1, len(self.lines)):
            if k not in self.inside and DIRECTIVE.match(self.lines[k]):
                match = END.match(self.lines[k])
                if match and match["of"] == kind:
                    self.closed.add(k)
                    return k
                break
        raise Problem(f"the {kind} block is not closed: <!-- /{kind} --> must follow.")

    def fill(self, i, kind, content):
        """Puts lines into the fenced block below line i. Returns the number of its last line."""
        i += 1
        while i < len(self.lines) and not self.lines[i].strip():
            i += 1
        fence = self.fences.get(i)
        if fence is None or fence.last is None:
            raise Problem(f"no fenced block that is closed follows the {kind} comment.")
        if any(map(fence.closed_by, content)):
            raise Problem(f"a line of it would close the fence at line {i + 1}: make that longer.")
        self.edits.append((i + 1, fence.last, [(fence.indent + x).rstrip() for x in content]))
        return fence.last

    def diff(self, i, match):
        """The block of a difference, and below it the links to both files."""
        end = self.end_of(i, "diff")
        old, new = match["old"], match["new"]
        files = [place.partition("#")[0] for place in (old, new)]
        if "/" not in files[1]:
            folder = pathlib.PurePosixPath(files[0]).parent
            files[1], new = str(folder / files[1]), str(folder / new)
        renames = [match["rename"].split("=")] if match["rename"] else []
        content = diff(self.root, old, new, context=int(match["context"] or 2), renames=renames)
        last = self.fill(i, "diff", content)
        links = [f"[{pathlib.PurePosixPath(path).name}]({self.relative(path)})" for path in files]
        words = links[1] if files[0] == files[1] else f"{links[1]}, after {links[0]}"
        folded = ["", "<details><summary>The whole file</summary>", "", words, "", "</details>"]
        self.edits.append((last + 1, end, folded))

    def generated(self, i, match):
        """What a program prints or draws."""
        end = self.end_of(i, "generated")
        if end == i + 2 and (image := IMAGE.fullmatch(self.lines[i + 1])):
            self.draw(image["name"], match["command"])
            return
        indent = re.match(r"[ \t]*", self.lines[i])[0]
        cut = [
            x and [name.strip() for name in x.split(";")] for x in match.group("rows", "columns")
        ]
        content = ["", *markdown(self.programs.output(match["command"]), *cut), ""]
        block = [line.removeprefix(indent) for line in self.lines[i + 1 : end]]
        if not in_step(block, content, match["command"]):
            self.edits.append((i + 1, end, [(indent + line).rstrip() for line in content]))

    def relative(self, path):
        """The address of a file, seen from the page."""
        return os.path.relpath(path, os.path.dirname(self.path)).replace(os.sep, "/")


class Sync:
    """All pages: what has to be written, and what stands in the way."""

    def __init__(self, root, programs, check=False):
        self.root, self.programs, self.check = root, programs, check
        self.problems, self.refuted = [], []  # what could not be done; facts that do not hold
        self.changed = []  # (name, old text, new text)
        self.drawings = {}  # name -> (command, text)

    def report(self, found, name, line, sentence):
        """Prints one of the problems, or of the facts that do not hold."""
        found.append(sentence)
        print(f"{name}:{line}: {sentence}", file=sys.stderr)

    def text_of(self, name):
        """A page or drawing as it stands; "" where there is none."""
        path = self.root / name
        return path.read_bytes().decode("utf-8") if path.is_file() else ""

    def compare(self, name, old, new):
        if new != old:
            self.changed.append((name, old, new))

    def blocks(self, name):
        """Compares the listings and blocks of a page with what code and programs say."""

        def draw(image, command):
            drawing = str(pathlib.PurePosixPath(name).parent / image)
            content = None
            if command.startswith(CHARTS):  # its data is compared; drawing needs matplotlib
                data = "\n".join(self.programs.output(command + " --data"))
                content = f"<desc>{escape(data)}</desc>"
                if not self.check and DATA.findall(self.text_of(drawing)) != [content]:
                    content = None
            if content is None:
                content = with_dark("\n".join(self.programs.output(command)))
            if self.drawings.setdefault(drawing, (command, content))[1] != content:
                raise Problem(f"two commands draw {drawing}.")

        old = self.text_of(name)
        page = Page(old, name, self.root, self.programs, draw)
        self.compare(name, old, page.synced(functools.partial(self.report, self.problems, name)))

    def compare_drawings(self):
        """Compares the drawings that the pages show."""
        for name, (command, content) in self.drawings.items():
            old = self.text_of(name)
            data = [DATA.findall(text) for text in (old, content)]
            if data[1] and data[0] == data[1]:  # of a chart its data is compared, not its strokes
                continue
            if not in_step(old.rstrip("\n").split("\n"), content.split("\n"), command):
                self.compare(name, old, content + "\n")

    def facts(self, name):
        """Compares the facts in the sentences of a page with records and printed tables."""
        lists = self.problems, self.refuted
        report, refute = (functools.partial(self.report, found, name) for found in lists)
        old = self.text_of(name)
        self.compare(name, old, with_facts(old, report, refute))

    def finish(self, check):
        """Shows or writes what has changed."""
        for name, old, new in self.changed:
            if check:
                print(difference(name, old, new))
            elif not self.problems:
                write_file(self.root / name, new)
                print(f"{name}: written")
        found, self.changed = bool(self.changed), []
        return found


def difference(name, old, new):
    """A unified diff of two texts."""
    texts = [text.split("\n") for text in (old, new)]
    names = f"{name} (as it is)", f"{name} (as code and programs say)"
    return "\n".join(difflib.unified_diff(*texts, *names, lineterm=""))


def parse(arguments):
    """The options of the command line."""
    parser = argparse.ArgumentParser(description="Bring listings and output in pages up to date.")
    option = parser.add_argument
    option("--root", required=True, type=pathlib.Path, help="the repository")
    option("--programs", required=True, type=pathlib.Path, metavar="BUILD", help="the build")
    option(
        "--emulator",
        default="",
        metavar="COMMAND",
        help="runs the programs, for example 'qemu-aarch64' or 'qemu-x86_64 -cpu Nehalem'",
    )
    option("--check", action="store_true", help="write nothing, show the difference, exit 1 if any")
    option("pages", nargs="+", metavar="PAGE", help="Markdown page, relative to the repository")
    return parser.parse_args(arguments)


def main(arguments=None):
    """Returns the exit status."""
    options = parse(arguments)
    root, build = options.root.resolve(), options.programs.resolve()
    sync = Sync(root, Programs(root, build, shlex.split(options.emulator)), options.check)
    for name in options.pages:
        sync.blocks(name)
    sync.compare_drawings()
    changed = sync.finish(options.check)
    for name in options.pages:  # they read printed tables, so those are written first
        sync.facts(name)
    changed |= sync.finish(options.check)
    runs = len(sync.programs.results)
    print(f"{len(options.pages)} pages, {len(sync.drawings)} drawings, {runs} program runs.")
    if sync.problems:
        return 2
    if options.check and changed:
        print(
            "Some are out of step with the code. To update them:\n"
            f"  cmake --build {shlex.quote(str(build))} --target sync_pages"
        )
    return 1 if sync.refuted or (options.check and changed) else 0


if __name__ == "__main__":
    sys.exit(main())
