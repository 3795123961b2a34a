"""Checks of pages as Markdown: their links, the chapters of the lessons, the glossary.

links       every relative link and every #anchor in Markdown files of the repository resolves,
            and no page of theory is called a chapter: the lessons have chapters. Links to other
            sites are not visited.
chapters    a lesson's map links to every chapter, the numbered ones in order, and may have 1500
            words; a chapter may have 3500, and 12 rows of a printed table; each of these pages
            ends with <!-- navigation -->, which sync_pages.py fills. An appendix may be as long
            as it needs to be.
glossary    terms, which are headings of level 3, are in order, none stands twice, each is under
            its letter and has one to three sentences with a link to where it is taught, and a
            lesson or a theory chapter links to it
"""

import os
import pathlib
import re
import urllib.parse

from docs.site import navigation
from docs.site.excerpts import markdown_files, read_lines
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


def chapter_faults(root, page, is_map):
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


def chapters(root):
    """Checks the chapters of the lessons."""
    lessons, count = navigation.lessons(root), 0
    for lesson in lessons:
        pages = navigation.chapters(root, lesson)
        count += len(pages)
        if not pages:
            continue
        targets = [
            target.partition("#")[0]
            for _, target in Page("\n".join(read_lines(root / lesson))).links
        ]
        linked = list(dict.fromkeys(filter(navigation.CHAPTER.fullmatch, targets)))
        names = [pathlib.PurePosixPath(page).name for page in pages]
        for name in names:
            if name not in linked:
                yield f"{lesson}: there is no link to the chapter {name}."
        numbered = [name for name in linked if name in names and name[0].isdigit()]
        if numbered != navigation.in_order(numbered):
            yield f"{lesson}: the chapters are linked in the order {', '.join(numbered)}."
        for page in [lesson, *pages]:
            yield from chapter_faults(root, page, page == lesson)
    return f"{len(lessons)} lessons, {count} chapters"


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


def term_faults(page):
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


def glossary(root):
    """Checks the glossary."""
    page = Page("\n".join(read_lines(root / GLOSSARY)))
    for line, sentence in term_faults(page):
        yield f"{GLOSSARY}:{line}: {sentence}"
    pages = [*root.glob("[0-9][0-9]_*/*.md"), *root.glob("docs/theory/*.md")]
    texts = (path.read_text(encoding="utf-8") for path in pages)
    linked = {match["anchor"] for text in texts for match in LINK.finditer(text)}
    for heading, _, _ in terms(page):
        if heading.anchor not in linked:
            yield f"{GLOSSARY}: no lesson or theory chapter links to '{heading.text}'."
    return f"{len(list(terms(page)))} terms"


THEORY = re.compile(r"\[[Cc]hapter \d+\]\((?:[^)]*/)?theory/")


class Checker:
    """Knows the links and anchors of every page that was looked at."""

    def __init__(self, root):
        self.root = root
        self.pages = {}

    def page(self, path):
        """A page, read once."""
        if path not in self.pages:
            self.pages[path] = Page("\n".join(read_lines(path)))
        return self.pages[path]

    def fault(self, page, target):
        """What is wrong with a link on a page: a message, or None."""
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", target) or target.startswith("//"):
            return None  # another site
        path, _, anchor = target.partition("#")
        path, anchor = urllib.parse.unquote(path.split("?", 1)[0]), urllib.parse.unquote(anchor)
        if not path:
            full = page
        else:
            base = self.root if path.startswith("/") else page.parent  # GitHub: / is the repository
            full = pathlib.Path(os.path.normpath(base / path.lstrip("/")))
        if full != self.root and self.root not in full.parents:
            return f"the link {target} leaves the repository."
        if not full.exists():
            return f"the link {target} leads to no file."
        if not anchor:
            return None
        if full.is_dir():
            full = full / "README.md"
            if not full.is_file():
                return f"the link {target} has an anchor, but the directory has no README.md."
        if full.suffix.lower() == ".md":
            known = self.page(full).anchors
            if anchor in known:
                return None
            near = sorted(a for a in known if a.replace("-", "") == anchor.lower().replace("-", ""))
            hint = f" Meant is perhaps #{near[0]}." if near else ""
            return f"the link {target} leads to no heading of {full.relative_to(self.root)}.{hint}"
        lines = re.fullmatch(r"L(\d+)(?:-L(\d+))?", anchor)
        if not lines:
            return (
                f"the link {target} has an anchor, but {full.name} is no Markdown page "
                "(lines are #L10-L20)."
            )
        count = len(full.read_bytes().splitlines())
        if not 1 <= int(lines[1]) <= int(lines[2] or lines[1]) <= count:
            return f"the link {target} names lines that {full.name} does not have; it has {count}."
        return None


def links(root):
    """Checks the links of all Markdown files."""
    checker, links, count = Checker(root), 0, 0
    for page in markdown_files(root):
        count += 1
        name = page.relative_to(root)
        try:
            for number, line in enumerate(read_lines(page), 1):
                if match := THEORY.search(line):
                    yield f"{name}:{number}: {match[0]}...) is a page of theory, not a chapter."
            for line, target in sorted(checker.page(page).links):
                links += 1
                if sentence := checker.fault(page, target):
                    yield f"{name}:{line + 1}: {sentence}"
        except ValueError as error:
            yield f"{name}: {error}."
    if count == 0:
        raise ValueError(f"there is no Markdown file below {root}.")
    return f"{count} pages, {links} links"
