"""The pages of the lessons: their order, and the links between them.

A lesson is a map, its README.md, and chapters beside it: 1_topic.md, 2_topic.md, ... and
appendix_topic.md for what a first reading does not need. check_chapters.py checks them.
"""

import os
import pathlib
import re

from docs.site.excerpts import read_lines

CHAPTER = re.compile(r"[1-9]_\w+\.md|appendix\w*\.md", re.ASCII)
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
    """The text of a page's title, in Markdown: its first heading."""
    for line in read_lines(root / page):
        if line.startswith("# "):
            return line[2:].strip()
    raise ValueError(f"{page} has no title")


def number(page):
    """5.3 for the chapter 05_*/3_*.md; empty for other pages."""
    match = re.fullmatch(r"0*(\d+)_\w+/(\d)_\w+\.md", page, re.ASCII)
    return f"{match[1]}.{match[2]}" if match else ""


def numbered_title(root, page):
    """A page's title outside of its lesson: 5.3 Attention on Hopper."""
    if not number(page):
        return title(root, page)
    return re.sub(r"^\d\.", number(page), title(root, page))


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
