"""Checks the glossary: terms are in order, none stands twice, each is under its letter and has one
to three sentences with a link to where it is taught. (check_links.py looks whether links resolve.)
With --root, also that a lesson or a theory chapter links to each term.

A term is a heading of level 3, with its text below:

    ### barrier

    A place where each thread of a block waits. See [lesson 04](README.md#layout).

Exit status: 0 all is well, 1 something is not, 2 could not be done.
"""

import argparse
import pathlib
import re
import sys

from docs.site import gfm

LINK = re.compile(r"\]\((?:\.\./)+(?:docs/)?glossary\.md#(?P<anchor>[^)]+)\)")
SENTENCE_END = re.compile(r"[.?!](?=\s|$)")


def terms(lines):
    """Yields (heading of a term, letter of its section, the paragraph below)."""
    kinds, _ = gfm.scan(lines)
    headings = {heading.line: heading for heading in gfm.headings(lines, kinds)}
    letter, term = "", None
    for first, last in gfm.units(lines, kinds):
        if term:
            text = "" if first in headings else "\n".join(lines[first : last + 1])
            yield term, letter, text
        term = headings.get(first)
        if term and term.level == 2:
            letter = term.text
        if term and term.level != 3:
            term = None


def sentences(text):
    """How many sentences a text has; what stands in links, formulas and code is not read."""
    words = re.sub(r"\$`.*?`\$|`[^`]*`|\]\([^)]*\)", "", text, flags=re.DOTALL)
    return len(SENTENCE_END.findall(words))


def faults(lines):
    """Yields a message for each fault."""
    before = None
    count = 0
    for heading, letter, text in terms(lines):
        count += 1
        name, number = heading.text, heading.line + 1
        key = name.casefold()
        if before is not None and key == before:
            yield f"{number}: '{name}' stands here a second time."
        elif before is not None and key < before:
            yield f"{number}: '{name}' must stand before '{before}'."
        if letter != name[0].upper():
            yield f"{number}: '{name}' stands under '{letter}', not under '{name[0].upper()}'."
        if not 1 <= sentences(text) <= 3:
            yield f"{number}: '{name}' has {sentences(text)} sentences; allowed are 1 to 3."
        if not re.search(r"\]\([^)\s]+\)", text):
            yield f"{number}: '{name}' has no link to where it is taught."
        before = key
    if count == 0:
        yield "1: there is no term; a term is a heading of level 3."


def not_linked(found, pages):
    """The names of those terms to which no page (a text) links."""
    linked = {match["anchor"] for page in pages for match in LINK.finditer(page)}
    return [heading.text for heading, _, _ in found if heading.anchor not in linked]


def main(arguments=None):
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description="Check the glossary.")
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("--root", type=pathlib.Path, help="the repository, for links to terms")
    options = parser.parse_args(arguments)
    page = options.page
    linking = []
    try:
        lines = gfm.read_lines(page)
        if options.root:
            pages = [
                *options.root.glob("[0-9][0-9]_*/*.md"),
                *options.root.glob("docs/theory/*.md"),
            ]
            linking = [path.read_text(encoding="utf-8") for path in pages]
    except (OSError, ValueError) as error:
        print(f"check_glossary.py: {page}: {error}", file=sys.stderr)
        return 2
    found = list(faults(lines))
    if options.root:
        missing = not_linked(terms(lines), linking)
        found += [f" no lesson or theory chapter links to '{name}'." for name in missing]
    for sentence in found:
        print(f"{page.name}:{sentence}")
    print(f"{len(list(terms(lines)))} terms, {len(found)} faults.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
