"""Checks the glossary: terms are in order, none stands twice, each is under its letter and has one
to three sentences with a link to where it is taught, and a lesson or a theory chapter links to it.
(check_links.py looks whether links resolve.)

A term is a heading of level 3, with its text below:

    ### barrier

    A place where each thread of a block waits. See [lesson 04](README.md#layout).
"""

import re

from docs.site.excerpts import read_lines
from docs.site.markdown import Page

GLOSSARY = "docs/glossary.md"
LINK = re.compile(r"\]\((?:\.\./)+(?:docs/)?glossary\.md#(?P<anchor>[^)]+)\)")
SENTENCE_END = re.compile(r"[.?!](?=\s|$)")


def terms(page):
    """Yields (heading of a term, letter of its section, the paragraph below)."""
    letter, headings = "", iter(page.headings)
    for i, token in enumerate(page.tokens):
        if token.type != "heading_open":
            continue
        heading = next(headings)
        if heading.level == 2:
            letter = heading.text
        elif heading.level == 3:
            below = page.tokens[i + 3 : i + 5]  # behind the heading's text and end
            there = len(below) == 2 and below[0].type == "paragraph_open"
            yield heading, letter, below[1].content if there else ""


def sentences(text):
    """How many sentences a text has; what stands in links, formulas and code is not read."""
    words = re.sub(r"\$`.*?`\$|`[^`]*`|\]\([^)]*\)", "", text, flags=re.DOTALL)
    return len(SENTENCE_END.findall(words))


def page_faults(page):
    """Yields (number of the line, message) for each fault of the glossary alone."""
    before = None
    for heading, letter, text in terms(page):
        name, line = heading.text, heading.line + 1
        key = name.casefold()
        if before is not None and key == before:
            yield line, f"'{name}' stands here a second time."
        elif before is not None and key < before:
            yield line, f"'{name}' must stand before '{before}'."
        if letter != name[0].upper():
            yield line, f"'{name}' stands under '{letter}', not under '{name[0].upper()}'."
        if not 1 <= sentences(text) <= 3:
            yield line, f"'{name}' has {sentences(text)} sentences; allowed are 1 to 3."
        if not re.search(r"\]\([^)\s]+\)", text):
            yield line, f"'{name}' has no link to where it is taught."
        before = key
    if before is None:
        yield 1, "there is no term; a term is a heading of level 3."


def faults(root):
    """Checks the glossary."""
    page = Page("\n".join(read_lines(root / GLOSSARY)))
    for line, sentence in page_faults(page):
        yield f"{GLOSSARY}:{line}: {sentence}"
    pages = [*root.glob("[0-9][0-9]_*/*.md"), *root.glob("docs/theory/*.md")]
    texts = (path.read_text(encoding="utf-8") for path in pages)
    linked = {match["anchor"] for text in texts for match in LINK.finditer(text)}
    for heading, _, _ in terms(page):
        if heading.anchor not in linked:
            yield f"{GLOSSARY}: no lesson or theory chapter links to '{heading.text}'."
    return f"{len(list(terms(page)))} terms"
