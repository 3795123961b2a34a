"""Checks the glossary: terms are in order, none stands twice, each is under its letter and has one
to three sentences with a link to where it is taught. (check_links.py looks whether links resolve.)

A term is a paragraph that begins with its name in bold and a colon:

    **barrier**: A place where each thread of a block waits. See [lesson 04](README.md#layout).

Exit status: 0 all is well, 1 something is not, 2 could not be done.
"""

import argparse
import pathlib
import re
import sys

from docs.site import gfm

TERM = re.compile(r"\*\*(?P<name>[^*]+)\*\*(?P<colon>:?)[ ]?(?P<text>.*)", re.DOTALL)
SENTENCE_END = re.compile(r"[.?!](?=\s|$)")


def terms(lines):
    """Yields (line number, letter of the section, name, text, whether a colon follows the name)."""
    kinds, _ = gfm.scan(lines)
    letters = {heading.line: heading for heading in gfm.headings(lines, kinds)}
    letter = ""
    for first, last in gfm.units(lines, kinds):
        if first in letters:
            letter = letters[first].text if letters[first].level == 2 else ""
            continue
        match = TERM.fullmatch("\n".join(lines[first : last + 1]))
        if match:
            yield first + 1, letter, match["name"], match["text"], bool(match["colon"])


def sentences(text):
    """How many sentences a text has; what stands in links, formulas and code is not read."""
    words = re.sub(r"\$`.*?`\$|`[^`]*`|\]\([^)]*\)", "", text, flags=re.DOTALL)
    return len(SENTENCE_END.findall(words))


def faults(lines):
    """Yields a message for each fault."""
    before = None
    count = 0
    for number, letter, name, text, colon in terms(lines):
        count += 1
        key = name.casefold()
        if not colon:
            yield f"{number}: '{name}' has no colon after it."
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
        yield "1: there is no term; a term begins with its name in bold."


def main(arguments=None):
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description="Check the glossary.")
    parser.add_argument("page", type=pathlib.Path)
    page = parser.parse_args(arguments).page
    try:
        lines = gfm.read_lines(page)
    except (OSError, ValueError) as error:
        print(f"check_glossary.py: {page}: {error}", file=sys.stderr)
        return 2
    found = list(faults(lines))
    for sentence in found:
        print(f"{page.name}:{sentence}")
    print(f"{len(list(terms(lines)))} terms, {len(found)} faults.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
