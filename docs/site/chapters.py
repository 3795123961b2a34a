"""The lessons' pages: a README, which is the map, and beside it the chapters 1_topic.md,
2_topic.md, and what is for later, appendix_topic.md.

As a program: checks each lesson that has chapters. Its README must link every chapter, in order,
and may have 1500 words; a chapter may have 3500, and 12 rows of a printed table; each of these
pages ends with <!-- navigation -->, which sync_pages.py fills. An appendix may be as long as it
needs to be.

Exit status: 0 all is well, 1 something is not, 2 could not be done.
"""

import argparse
import os
import pathlib
import re
import sys

from docs.site import gfm

MAP_WORDS, CHAPTER_WORDS, TABLE_ROWS = 1500, 3500, 12
CHAPTER = re.compile(r"[1-9]_\w+\.md|appendix\w*\.md", re.ASCII)
# An explorer, and what GitHub shows in its place: no words of the chapter.
EMBEDDED = re.compile(r"<!-- on the site: .*?<!-- /on the site -->", re.DOTALL)
AFTER_THE_COURSE = "docs/results/README.md"


def is_chapter(page):
    """Is this path, relative to the repository, the chapter of a lesson?"""
    return bool(re.fullmatch(rf"\d\d_\w+/(?:{CHAPTER.pattern})", page, re.ASCII))


def lessons(root):
    """The lessons' maps in order, relative to the repository."""
    return sorted(p.relative_to(root).as_posix() for p in root.glob("[0-9][0-9]_*/README.md"))


def chapters(root, lesson):
    """The chapters beside a lesson's map, in order, appendices last."""
    folder = (root / lesson).parent
    names = sorted(p.name for p in folder.glob("*.md") if CHAPTER.fullmatch(p.name))
    return [(folder / name).relative_to(root).as_posix() for name in names]


def title(root, page):
    """The text of a page's first heading, in Markdown."""
    headings = gfm.headings(gfm.read_lines(root / page))
    if not headings:
        raise ValueError(f"{page} has no title")
    return headings[0].text


def navigation(root, page):
    """The line that a page of a lesson ends with: where one comes from, and what comes next."""
    maps = lessons(root)
    lesson = page if page in maps else str(pathlib.PurePosixPath(page).parent / "README.md")
    if lesson not in maps or (page != lesson and not is_chapter(page)):
        raise ValueError(f"{page} is not the page of a lesson")
    course = [m for m in [*maps, AFTER_THE_COURSE] if (root / m).is_file()]
    place = course.index(lesson)
    steps = [lesson, *(c for c in chapters(root, lesson) if "/appendix" not in c)]

    def link(target):
        path = os.path.relpath(target, os.path.dirname(page)).replace(os.sep, "/")
        return f"[{title(root, target)}]({path})"

    words = [f"[Course]({os.path.relpath('README.md', os.path.dirname(page))})"]
    if page != lesson:
        words.append(link(lesson))
    if page == lesson and place > 0:
        words.append("Previous: " + link(course[place - 1]))
    if page in steps:
        at = steps.index(page)
        if at > 1:
            words.append("Previous: " + link(steps[at - 1]))
        if at + 1 < len(steps):
            words.append("Next: " + link(steps[at + 1]))
        elif place + 1 < len(course):
            words.append("Next: " + link(course[place + 1]))
    return " · ".join(words)


def table_rows(lines):
    """Yields (index of a line of dashes in a fenced block, how many rows follow it)."""
    kinds, _ = gfm.scan(lines)
    for i, line in enumerate(lines):
        if kinds[i] == "code" and re.fullmatch(r"-+(?:  +-+)+", line):
            last = i + 1
            while kinds[last] == "code" and lines[last].strip() and lines[last][0] != "(":
                last += 1
            yield i, last - i - 1


def faults(root):
    """Yields a message for each fault."""
    for lesson in lessons(root):
        pages = chapters(root, lesson)
        if not pages:
            continue
        linked = []
        for _, target in gfm.links(gfm.read_lines(root / lesson)):
            name = target.partition("#")[0]
            if CHAPTER.fullmatch(name) and name not in linked:
                linked.append(name)
        names = [pathlib.PurePosixPath(page).name for page in pages]
        for name in names:
            if name not in linked:
                yield f"{lesson}: there is no link to the chapter {name}."
        numbered = [name for name in linked if name in names and name[0].isdigit()]
        if numbered != sorted(numbered):
            yield f"{lesson}: the chapters are linked in the order {', '.join(numbered)}."
        for page in [lesson, *pages]:
            lines = gfm.read_lines(root / page)
            if "<!-- navigation -->" not in lines:
                yield f"{page}: the page must end with <!-- navigation -->."
            if "/appendix" in page:
                continue
            words, allowed = len(EMBEDDED.sub("", "\n".join(lines)).split()), CHAPTER_WORDS
            if page == lesson:
                allowed = MAP_WORDS
            if words > allowed:
                yield f"{page}: the page has {words} words; allowed are {allowed}."
            if page == lesson:  # its table of exercises is as long as the list is
                continue
            for i, rows in table_rows(lines):
                if rows > TABLE_ROWS:
                    yield f"{page}:{i + 1}: the table has {rows} rows; allowed are {TABLE_ROWS}."


def main(arguments=None):
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description="Check the chapters of the lessons.")
    parser.add_argument("--root", required=True, type=pathlib.Path, help="the repository")
    root = parser.parse_args(arguments).root.resolve()
    try:
        found = list(faults(root))
    except (OSError, ValueError) as error:
        print(f"chapters.py: {error}", file=sys.stderr)
        return 2
    for sentence in found:
        print(sentence)
    count = sum(len(chapters(root, lesson)) for lesson in lessons(root))
    print(f"{len(lessons(root))} lessons, {count} chapters, {len(found)} faults.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
