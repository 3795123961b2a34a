"""Checks the glossary: terms are in order, none stands twice, each is under its letter and has one
to three sentences with a link to where it is taught. (check_links.py looks whether links resolve.)
With --root, also that a lesson or a theory chapter links to each term: its letter, by a link whose
text has the term, [bank conflicts](../docs/glossary.md#b).

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
LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?:\.\./)+(?:docs/)?glossary\.md#(?P<letter>\w)\)")
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


def not_linked(names, pages):
    """Those names to which no page (a text) links; "spills" is as good as "spilling"."""
    links = {
        (match["letter"], re.sub(r"[*`]", "", match["text"]).casefold())
        for page in pages
        for match in LINK.finditer(page)
    }

    def is_linked(name):
        key = name.casefold()
        return any(letter == key[0] and key.removesuffix("ing") in text for letter, text in links)

    return [name for name in names if not is_linked(name)]


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
        names = [name for _, _, name, _, _ in terms(lines)]
        missing = not_linked(names, linking)
        found += [f" no lesson or theory chapter links to '{name}'." for name in missing]
    for sentence in found:
        print(f"{page.name}:{sentence}")
    print(f"{len(list(terms(lines)))} terms, {len(found)} faults.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
