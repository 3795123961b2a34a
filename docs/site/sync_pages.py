"""Keeps listings and printed numbers of the pages in step with the code: docs/README.md says what
the comments mean, and which digits may differ between machines.

    <!-- listing: FILE#TAG -->        the fenced block that follows
    <!-- diff: OLD NEW -->            the same, and a link to both files; to <!-- /diff -->
    <!-- generated: PROGRAM ARGS -->  what the program prints, to <!-- /generated -->
    <!-- drawn: PROGRAM ARGS -->      the SVG file that the next line shows, with its dark colours
    <!-- reading times -->            the minutes of reading in the table of chapters that follows
    <!-- navigation -->               the line of links at the end of a lesson's page

With --check it writes nothing and shows the difference instead. Exit status: 0 in step, 1 not in
step (--check), 2 could not be done.
"""

import argparse
import difflib
import os
import pathlib
import re
import shlex
import sys

from common.data.files import write_file
from common.drawing.dark import with_dark
from common.drawing.narrow import with_timeline
from docs.facts.pages import with_facts
from docs.site import navigation, reading_time
from docs.site.excerpts import diff, fences_of, listing, read_lines
from docs.site.programs import Programs, clauses, in_step
from docs.site.tables import Problem, markdown

DIRECTIVE = re.compile(
    r"^[ \t]*<!--\s*/?\s*(?:listing|diff|generated|drawn|navigation|reading)\b", re.IGNORECASE
)
LISTING = re.compile(r"^[ \t]*<!-- listing: (?P<path>[^\s#]+)#(?P<tag>[^\s#]+) -->[ \t]*$")
DIFF = re.compile(
    r"^[ \t]*<!-- diff: (?P<old>[^\s#]+(?:#\S+)?) (?P<new>[^\s#]+(?:#\S+)?)"
    r"(?P<options> --.*)? -->[ \t]*$"
)
READING = re.compile(r"^<!-- reading times -->[ \t]*$")
NAVIGATION = re.compile(r"^<!-- navigation -->[ \t]*$")
GENERATED = re.compile(
    r"^[ \t]*<!-- generated(?:, (?P<rule>[^:]*))?: (?P<command>\S.*?) -->[ \t]*$"
)
DRAWN = re.compile(r"^[ \t]*<!-- drawn: (?P<command>\S.*?) -->[ \t]*$")
END = re.compile(r"^[ \t]*<!-- /(?P<of>generated|diff) -->[ \t]*$")
IMAGE = re.compile(
    r"^[ \t]*!\[[^\]]+\]\((?P<name>(?:[A-Za-z0-9_-]+/)*[A-Za-z0-9_-]+\.svg)\)[ \t]*$"
)


def with_ends(text):
    """The lines of a text, each with its line end. A line ends with \\n and nothing else."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def diff_options(text):
    """{"context": 2, "most": 60, "renames": []} of the options of a diff comment."""
    numbers, renames = {"--context": 2, "--most": 60}, []
    words = (text or "").split()
    for option, value in zip(words[::2], words[1::2]):
        if option in numbers and value.isdecimal():
            numbers[option] = int(value)
        elif option == "--rename" and re.fullmatch(r"\w+=\w+", value):
            renames.append(tuple(value.split("=")))
        else:
            words = [""]
    if len(words) % 2:
        raise Problem(
            f"the options are '{text.strip()}'; allowed are --context N, --most N and "
            "--rename OLD=NEW."
        )
    return {"context": numbers["--context"], "most": numbers["--most"], "renames": renames}


class Page:
    """A page and what has to change in it. draw(file name, command) is called for each drawing; it
    may raise a Problem."""

    def __init__(self, text, path, root, programs, draw):
        self.path, self.root, self.programs, self.draw = path, root, programs, draw
        self.ends = with_ends(text)
        self.lines = [line.rstrip("\r\n") for line in self.ends]
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
        pieces, copied = [], 0
        for first, last, content in self.edits:
            pieces += self.ends[copied:first]
            newline = "\r\n" if self.ends[first - 1].endswith("\r\n") else "\n"
            pieces += [line + newline for line in content]
            copied = last
        return "".join(pieces + self.ends[copied:])

    def directive(self, i, line):
        """What one comment asks for."""
        if match := LISTING.match(line):
            self.fill(i, "listing", listing(self.root, match["path"], match["tag"]))
        elif match := DIFF.match(line):
            self.diff(i, match)
        elif match := GENERATED.match(line):
            self.generated(i, match)
        elif match := DRAWN.match(line):
            image = IMAGE.match(self.lines[i + 1]) if i + 1 < len(self.lines) else None
            if image is None:
                raise Problem(
                    "the line after the drawn comment must be an image in the page's folder or "
                    "below it: ![WORDS](NAME.svg)."
                )
            self.draw(image["name"], match["command"])
        elif READING.match(line):
            self.reading(i)
        elif NAVIGATION.match(line):
            self.navigation(i)
        elif not (match := END.match(line)):
            raise Problem(
                "this comment cannot be read; allowed are <!-- listing: PATH#TAG -->, "
                "<!-- diff: OLD NEW -->, <!-- /diff -->, <!-- navigation -->, "
                "<!-- reading times -->, <!-- generated: PROGRAM ARGS -->, also with a rule as in "
                "<!-- generated, exact: PROGRAM ARGS -->, <!-- /generated --> and "
                "<!-- drawn: PROGRAM ARGS -->."
            )
        elif i not in self.closed:
            of = match["of"]
            raise Problem(f"<!-- /{of} --> stands here, but no {of} block is open.")

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
        if fence is None:
            raise Problem(f"no fenced block follows the {kind} comment.")
        if fence.last is None:
            raise Problem(f"the fenced block at line {i + 1} is never closed.")
        for line in content:
            if fence.closed_by(line):
                raise Problem(
                    f"the line '{line.strip()}' would close the fenced block at line {i + 1}; give "
                    f"that fence more {fence.mark[0]} characters."
                )
        content = [fence.indent + line if line else "" for line in content]
        self.edits.append((i + 1, fence.last, content))
        return fence.last

    def diff(self, i, match):
        """The block of a difference, and below it the links to both files."""
        end = self.end_of(i, "diff")
        old, new = match["old"], match["new"]
        files = [place.partition("#")[0] for place in (old, new)]
        if "/" not in files[1]:
            folder = pathlib.PurePosixPath(files[0]).parent
            files[1], new = str(folder / files[1]), str(folder / new)
        content = diff(self.root, old, new, **diff_options(match["options"]))
        last = self.fill(i, "diff", content)
        links = [f"[{pathlib.PurePosixPath(path).name}]({self.relative(path)})" for path in files]
        words = links[1] if files[0] == files[1] else f"{links[1]}, after {links[0]}"
        folded = ["", "<details><summary>The whole file</summary>", "", words, "", "</details>"]
        self.edits.append((last + 1, end, folded))

    def generated(self, i, match):
        """What a program prints."""
        end = self.end_of(i, "generated")
        indent = re.match(r"[ \t]*", self.lines[i])[0]
        output = self.programs.output(match["command"])
        content = ["", *markdown(output, **clauses(match["rule"])[0]), ""]
        block = [line.removeprefix(indent) for line in self.lines[i + 1 : end]]
        if not in_step(block, content, match["command"], match["rule"]):
            self.edits.append((i + 1, end, [indent + line if line else "" for line in content]))

    def reading(self, i):
        """The minutes of reading in the table that follows."""
        rows = range(i + 1, len(self.lines))
        end = next((k for k in rows if not self.lines[k].startswith("|")), len(self.lines))
        if end == i + 1:
            raise Problem("the line after <!-- reading times --> must begin a table of chapters.")
        folder = (self.root / self.path).parent
        try:
            content = [
                reading_time.filled(row, lambda page: read_lines(folder / page))
                for row in self.lines[i + 1 : end]
            ]
        except (OSError, ValueError) as error:
            raise Problem(f"a chapter cannot be read: {error}.") from error
        self.edits.append((i + 1, end, content))

    def navigation(self, i):
        """The links to the neighbours."""
        if not self.ends[i].endswith("\n"):
            raise Problem("there is no line end after <!-- navigation -->.")
        end = next((k for k in range(i + 1, len(self.lines)) if not self.lines[k].strip()), None)
        try:
            links = navigation.foot(self.root, self.path)
        except (OSError, ValueError) as error:
            raise Problem(f"the links to the neighbours cannot be made: {error}.") from error
        self.edits.append((i + 1, len(self.lines) if end is None else end, [links]))

    def relative(self, path):
        """The address of a file, seen from the page."""
        return os.path.relpath(path, os.path.dirname(self.path)).replace(os.sep, "/")


class Sync:
    """All pages: what has to be written, and what stands in the way."""

    def __init__(self, root, programs):
        self.root, self.programs = root, programs
        self.problems = 0
        self.refuted = []  # a sentence for each claim that does not hold
        self.texts = {}  # name -> (old text, new text)
        self.changed = []  # (name, old text, new text)
        self.drawings = {}  # name -> (command, lines)

    def page(self, name):
        """Compares the listings and blocks of a page with what the code and programs say."""

        def report(line, sentence):
            self.report(name, line, sentence)

        def draw(image, command):
            drawing = str(pathlib.PurePosixPath(name).parent / image)
            content = with_timeline(with_dark("\n".join(self.programs.output(command))))
            content = content.split("\n")
            if self.drawings.setdefault(drawing, (command, content))[1] != content:
                raise Problem(f"two commands draw {drawing}.")

        try:
            old = (self.root / name).read_bytes().decode("utf-8")
        except UnicodeDecodeError as error:
            report(0, f"the page is not UTF-8 text (byte {error.start}).")
            return
        except OSError as error:
            report(0, f"the page cannot be read: {error.strerror}.")
            return
        self.texts[name] = old, Page(old, name, self.root, self.programs, draw).synced(report)

    def report(self, name, line, sentence):
        """Notes and prints a problem."""
        self.problems += 1
        print(f"{name}:{line}: {sentence}" if line else f"{name}: {sentence}", file=sys.stderr)

    def sentences(self):
        """Compares the facts in sentences: docs/facts."""
        for name, (old, text) in self.texts.items():
            new = with_facts(
                text,
                lambda line, sentence, name=name: self.report(name, line, sentence),
                lambda line, sentence, name=name: self.refuted.append(f"{name}:{line}: {sentence}"),
            )
            if new != old:
                self.changed.append((name, old, new))

    def compare_drawings(self):
        """Compares the drawings that the pages show."""
        for name, (command, content) in self.drawings.items():
            path = self.root / name
            old = path.read_bytes().decode("utf-8", "replace") if path.is_file() else ""
            if not in_step(old.split("\n"), [*content, ""], command):
                self.changed.append((name, old, "\n".join(content) + "\n"))

    def write(self):
        """Writes what has changed. Returns the exit status."""
        for name, _, new in self.changed:
            try:
                write_file(self.root / name, new)
            except OSError as error:
                print(f"{name}: the page cannot be written: {error.strerror}.", file=sys.stderr)
                return 2
            print(f"{name}: written")
        return 0


def difference(name, old, new):
    """A unified diff of two texts."""
    names = f"{name} (as it is)", f"{name} (as code and programs say)"
    lines = difflib.unified_diff(with_ends(old), with_ends(new), *names)
    missing = "\n\\ No newline at end of file\n"
    return "".join(line if line.endswith("\n") else line + missing for line in lines)


def update_command(root, build, pages):
    """The command that brings the pages up to date."""
    if (build / "CMakeCache.txt").is_file():
        return ["cmake", "--build", str(build), "--target", "sync_pages"]
    module = ["python3", "-m", "docs.site.sync_pages"]
    return [*module, "--root", str(root), "--programs", str(build), *pages]


def parse(arguments):
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        description="Bring listings and program output in pages up to date."
    )
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
    sync = Sync(root, Programs(root, build, shlex.split(options.emulator)))
    for name in options.pages:
        sync.page(name)
    sync.sentences()
    sync.compare_drawings()
    for sentence in sync.refuted:
        print(sentence, file=sys.stderr)
    files = f"{len(options.pages)} pages"
    if sync.drawings:
        files += f" and {len(sync.drawings)} drawings"
    if options.check:
        for change in sync.changed:
            print(difference(*change), end="")
    if sync.problems:
        if not options.check:
            print("No page was written.", file=sys.stderr)
        return 2
    if options.check and sync.changed:
        print(
            f"\n{len(sync.changed)} of {files} are out of step with the code. To update them:\n"
            f"  {shlex.join(update_command(root, build, options.pages))}"
        )
        return 1
    if not options.check and (status := sync.write()):
        return status
    if sync.refuted:
        print(f"{len(sync.refuted)} statements do not hold; change them.", file=sys.stderr)
        return 1
    print(f"{files} are in step with the code ({len(sync.programs.results)} program runs).")
    return 0


if __name__ == "__main__":
    sys.exit(main())
