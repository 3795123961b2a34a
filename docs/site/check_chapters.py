"""Checks the pages of the lessons: a lesson's map links to every chapter, the numbered ones in
order, and may have 1500 words; a chapter may have 3500, and 12 rows of a printed table; each of
these pages ends with <!-- navigation -->, which sync_pages.py fills. An appendix may be as long as
it needs to be.
"""

import pathlib
import re

from docs.site import chapters
from docs.site.excerpts import read_lines
from docs.site.markdown import Page
from docs.site.sync_pages import END, GENERATED

MAP_WORDS, CHAPTER_WORDS, TABLE_ROWS = 1500, 3500, 12
# An explorer, and what GitHub shows in its place: no words of the chapter.
EMBEDDED = re.compile(r"<!-- on the site: .*?<!-- /on the site -->", re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->")


def words(text):
    """How many words a page has; what frames a table is none, nor is a comment."""
    return sum(bool(word.strip("|-:")) for word in COMMENT.sub("", EMBEDDED.sub("", text)).split())


def printed_tables(page):
    """Yields (number of the line, how many rows) of each printed table."""
    printed, first, rows = False, 0, 0
    for token in page.tokens:
        if token.type == "html_block":
            for line in token.content.splitlines():
                printed = bool(GENERATED.match(line)) or (printed and not END.match(line))
        elif token.type == "tbody_open":
            first, rows = token.map[0], 0
        elif token.type == "tr_open":
            rows += 1
        elif token.type == "tbody_close" and printed:
            yield first, rows


def page_faults(root, page, is_map):
    """Yields a message for each fault of a page."""
    lines = read_lines(root / page)
    if "<!-- navigation -->" not in lines:
        yield f"{page}: the page must end with <!-- navigation -->."
    if "/appendix" in page:
        return
    text = "\n".join(lines)
    count, allowed = words(text), MAP_WORDS if is_map else CHAPTER_WORDS
    if count > allowed:
        yield f"{page}: the page has {count} words; allowed are {allowed}."
    if is_map:  # its table of exercises is as long as the list is
        return
    for line, rows in printed_tables(Page(text)):
        if rows > TABLE_ROWS:
            yield f"{page}:{line + 1}: the table has {rows} rows; allowed are {TABLE_ROWS}."


def faults(root):
    """Checks the chapters of the lessons."""
    lessons, count = chapters.lessons(root), 0
    for lesson in lessons:
        pages = chapters.chapters(root, lesson)
        count += len(pages)
        if not pages:
            continue
        targets = [
            target.partition("#")[0]
            for _, target in Page("\n".join(read_lines(root / lesson))).links
        ]
        linked = list(dict.fromkeys(filter(chapters.CHAPTER.fullmatch, targets)))
        names = [pathlib.PurePosixPath(page).name for page in pages]
        for name in names:
            if name not in linked:
                yield f"{lesson}: there is no link to the chapter {name}."
        numbered = [name for name in linked if name in names and name[0].isdigit()]
        if numbered != sorted(numbered):
            yield f"{lesson}: the chapters are linked in the order {', '.join(numbered)}."
        for page in [lesson, *pages]:
            yield from page_faults(root, page, page == lesson)
    return f"{len(lessons)} lessons, {count} chapters"
