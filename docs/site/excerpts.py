"""Parts of source files for pages: a listing between two marks, and the difference of two parts."""

import difflib
import os
import pathlib
import re

from docs.site.tables import Problem

MAX_LINES = 60  # of a difference
MAX_COLUMNS = 78  # beside the site's navigation a longer line is cut off
MARK = re.compile(r"^\s*//!\s*\[(?P<tag>[^\]]+)\]\s*$")
# What the page says better: documentation for Doxygen, and what every file has around its code.
BOILERPLATE = re.compile(
    r"^\s*///|^#pragma once$|^#include\b|^namespace fa\b.*\{$|^\}  // namespace fa\b"
)
FOLD = "..."  # stands for lines that both files have
COMMENT = re.compile(r"\s*//")


def markdown_files(root):
    """The Markdown files below root; build directories and .git are left out."""
    for directory, names, files in os.walk(root):
        names[:] = sorted(
            n
            for n in names
            if n != ".git"
            and not (pathlib.Path(directory, n) / "CMakeCache.txt").exists()
            and not (directory == str(root) and re.match(r"build($|-)", n))
        )
        for name in sorted(files):
            if name.lower().endswith(".md"):
                yield pathlib.Path(directory, name)


def read_lines(path):
    """The lines of a UTF-8 file without line ends."""
    return path.read_text(encoding="utf-8-sig").split("\n")


def stripped(lines):
    """The lines without blank ones at either end."""
    filled = [i for i, line in enumerate(lines) if line.strip()]
    return lines[filled[0] : filled[-1] + 1] if filled else []


def source(root, path):
    """The lines of root/path."""
    try:
        return read_lines(root / path)
    except (OSError, ValueError) as error:
        raise Problem(f"{path} cannot be read: {error}.") from error


def region(lines, path, tag):
    """The numbers of the lines between the two marks `//! [tag]`, other marks left out."""
    marks = [i for i, line in enumerate(lines) if (m := MARK.match(line)) and m["tag"] == tag]
    if len(marks) != 2:
        others = sorted({m["tag"] for line in lines if (m := MARK.match(line))})
        raise Problem(
            f"{path} has {len(marks)} marks //! [{tag}]; there must be two. Its marks are: "
            f"{', '.join(others) or 'none'}."
        )
    return [i for i in range(marks[0] + 1, marks[1]) if not MARK.match(lines[i])]


def dedented(lines, numbers, path):
    """Those lines at the left margin; one that is too wide is a problem, and so is none."""
    texts = [lines[i].rstrip() for i in numbers]
    indents = [re.match(r"[ \t]*", text)[0] for text in texts if text]
    shared = len(os.path.commonprefix(indents)) if indents else 0
    for number, text in zip(numbers, texts):
        if len(text) - shared > MAX_COLUMNS:
            raise Problem(
                f"{path}:{number + 1} has {len(text) - shared} columns without its indentation; a "
                f"page may show {MAX_COLUMNS}."
            )
    if not indents:
        raise Problem(f"what the page shows of {path} is empty.")
    return stripped([text[shared:] for text in texts])


def listing(root, path, tag):
    """The lines between the two marks `//! [tag]` of root/path, dedented."""
    lines = source(root, path)
    return dedented(lines, region(lines, path, tag), path)


def code(root, place):
    """The lines of PATH or PATH#TAG that a difference compares, without the BOILERPLATE."""
    path, _, tag = place.partition("#")
    lines = source(root, path)
    part = region(lines, path, tag) if tag else range(len(lines))
    numbers = [i for i in part if not BOILERPLATE.match(lines[i]) and not MARK.match(lines[i])]
    texts = dedented(lines, numbers, path)
    # Where boilerplate was between two blank lines, one is enough.
    return [t for i, t in enumerate(texts) if t or texts[i - 1]]


def renamed(old_path, new_path, renames):
    """A function that gives a line of the older file the names of the newer one. The kernels of two
    steps have the names of their files: 07_matmul_naive has a launch_matmul_naive."""
    stems = [re.sub(r"^\d+_", "", pathlib.PurePosixPath(p).stem) for p in (old_path, new_path)]

    def newer(text):
        for old, new in [stems, *renames]:
            text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(old)}(?![A-Za-z0-9])", new, text)
        return text

    return newer


def changes(old, new, newer):
    """The lines of both as (sign, text): " " for a line of both, as the newer one has it; "-" for
    one that only the older has; "+" for one that only the newer has. What differs in names or in
    its indentation only, because a loop was put around it, has not changed."""
    known = set(new)
    keys = [line if line in known else newer(line) for line in old]
    result = []
    for tag, a, b, c, d in opcodes(keys, new):
        if tag == "equal":
            result += [(" ", line) for line in new[c:d]]
            continue
        inner = opcodes([k.strip() for k in keys[a:b]], [n.strip() for n in new[c:d]])
        for _, w, x, y, z in inner:
            both = (keys[a + w : a + x], new[c + y : c + z])
            words = ["".join("".join(part).split()) for part in both]
            if words[0] == words[1] and len(words[0]) > 2:
                result += [(" ", line) for line in both[1]]
            else:
                result += [("-", line) for line in old[a + w : a + x]]
                result += [("+", line) for line in both[1]]
    return grouped(result)


def opcodes(old, new):
    return difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()


def grouped(lines):
    """Of each run of changed lines, those of the older file first."""
    result, run = [], []
    for line in [*lines, (" ", None)]:
        if line[0] == " ":
            result += [x for x in run if x[0] == "-"] + [x for x in run if x[0] == "+"]
            run = []
            result.append(line)
        else:
            run.append(line)
    return result[:-1]


def around(lines, i):
    """The number of the line that begins what line i stands in, at the left margin; or None."""
    if not lines[i][1][:1].isspace():
        return None
    for k in range(i - 1, -1, -1):
        text = lines[k][1]
        if lines[k][0] != "-" and text and not text[0].isspace() and not COMMENT.match(text):
            return k if text[0] not in "}#" else None
    return None


def folded(lines, context):
    """The changed lines with `context` lines around each; a run of others becomes a FOLD, after
    which the line at the left margin says what one is in."""
    changed = [i for i, (sign, _) in enumerate(lines) if sign != " "]
    shown = {k for i in changed for k in range(i - context, i + context + 1) if 0 <= k < len(lines)}
    for i in sorted(shown):
        if i - 1 not in shown and (head := around(lines, i)) is not None:
            shown.add(head)
    for i in range(len(lines)):  # a fold of one line is longer than what it hides
        if i not in shown and {i - 1, i + 1} <= shown | {-1, len(lines)}:
            shown.add(i)
    result = []
    for i, (sign, text) in enumerate(lines):
        if i in shown:
            result.append((sign + text).rstrip())
        elif i == 0 or i - 1 in shown:
            result.append(" " + FOLD)
    return [line for i, line in enumerate(result) if line or 0 < i < len(result) - 1]


def diff(root, old, new, context=2, renames=()):
    """The lines of a ```diff block: what the code NEW changes of OLD, each PATH or PATH#TAG."""
    paths = [place.partition("#")[0] for place in (old, new)]
    lines = changes(code(root, old), code(root, new), renamed(*paths, renames))
    if all(sign == " " for sign, _ in lines):
        raise Problem(f"{old} and {new} differ in nothing but names; there is no diff.")
    result = folded(lines, context)
    if len(result) > MAX_LINES:
        raise Problem(
            f"the diff of {old} and {new} has {len(result)} lines; allowed are {MAX_LINES}. Choose "
            "regions (#TAG)."
        )
    return result


FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<mark>`{3,}|~{3,})(?P<info>.*)$")


class Fence:
    """A fenced block; `first` and `last` are the numbers of its opening and closing lines."""

    def __init__(self, first, match):
        self.first, self.last = first, None  # None: it is never closed
        self.indent, self.mark = match["indent"], match["mark"]

    def closed_by(self, line):
        """Would this line close the block?"""
        text = line.strip()
        return set(text) == {self.mark[0]} and len(text) >= len(self.mark)


def fences_of(lines):
    """({first line: Fence}, the numbers of the lines inside of fences and of long comments)."""
    fences, inside = {}, set()
    fence = comment = None
    for i, line in enumerate(lines):
        if fence or comment:
            inside.add(i)
        if fence and fence.closed_by(line):
            fence.last, fence = i, None
        elif comment:
            comment = "-->" not in line
        elif not fence and (match := FENCE.match(line)):
            if match["mark"][0] == "~" or "`" not in match["info"]:
                fence = fences[i] = Fence(i, match)
        elif not fence and line.lstrip().startswith("<!--"):
            comment = "-->" not in line
    return fences, inside
