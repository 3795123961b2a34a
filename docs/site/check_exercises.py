"""Checks that pages link each exercise that they name: `03_merge` is [`03_merge`](its task.md).

A name may stand as it is in a listing, in what a program prints, in a comment, and in the summary
of a folded answer, where a click opens the answer. A task names its own exercise in its title, and
others as a terminal shows them; the site links those.

    python3 -m docs.site.check exercises --root .            prints what is not linked
    python3 -m docs.site.check exercises --root . --write    links it
"""

import os
import re

from common.classroom import catalogue
from docs.site import navigation
from docs.site.excerpts import read_lines
from docs.site.fences import fences_of
from docs.site.sync_pages import END, GENERATED

COMMAND = r"\./learn exercise \w+ "
DOUBLED = re.compile(r"# \d\d_(\w+): \1\b[^:]*: ", re.IGNORECASE)
LINK = r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\([^)]*\)|<a [^>]*>.*?</a>"
SKIPPED = re.compile(r"\s*(?:#|<summary|<details><summary|<!--)")


def names(ids):
    """What finds a link, a piece of code, or the bare name of an exercise."""
    one = "|".join(sorted(map(re.escape, ids), key=len, reverse=True))
    bare = rf"(?<![\w/.-])(?P<bare>{one})(?![\w/-]|\.\w)"
    code = rf"`(?P<code>(?:{COMMAND})?(?P<id>{one}))`"
    return re.compile(rf"{LINK}|{code}|(?P<other>`+)(?:(?!(?P=other)).)*(?P=other)|{bare}")


def linked(line, pattern, address):
    """(the line with links, the names that had none). address(ID) is where a link leads."""
    found = []

    def link(match):
        name = match["id"] or match["bare"]
        if not name:
            return match[0]
        found.append(name)
        return f"[`{match['code'] or name}`]({address(name)})"

    return pattern.sub(link, line), found


def page_lines(lines, pattern, address):
    """Yields (number of the line from 0, line with links, names that had none)."""
    _, inside = fences_of(lines)
    printed = False
    for number, line in enumerate(lines):
        if number in inside or SKIPPED.match(line):
            printed = bool(GENERATED.match(line)) or (printed and not END.match(line))
        elif not printed:
            new, found = linked(line, pattern, address)
            if found:
                yield number, new, found


def changes(root):
    """Yields (page, [(number, new line, names)]) for each page with names that are not linked."""
    pages = catalogue.task_pages(root)
    if not pages:
        return
    pattern = names(pages)
    for page in navigation.pages(root):
        if page in pages.values():
            continue

        def address(name, page=page):
            return os.path.relpath(pages[name], os.path.dirname(page)).replace(os.sep, "/")

        if found := list(page_lines(read_lines(root / page), pattern, address)):
            yield page, found


def faults(root):
    """Checks that pages link the exercises that they name, and that a title says its name once."""
    for page, found in changes(root):
        for number, _, missing in found:
            yield f"{page}:{number + 1}: not linked: {', '.join(missing)}."
    for page in (pages := catalogue.task_pages(root)).values():
        title = read_lines(root / page)[0]
        if DOUBLED.match(title):
            yield f"{page}:1: the title repeats its name: {title}"
    return f"{len(pages)} exercises"


def write(root):
    """Checks the same, and links what is not linked."""
    for page, found in changes(root):
        path = root / page
        lines = path.read_bytes().decode("utf-8").split("\n")
        for number, new, _ in found:
            lines[number] = new
        path.write_bytes("\n".join(lines).encode("utf-8"))
        print(f"{page}: {len(found)} lines written")
    return (yield from faults(root))
