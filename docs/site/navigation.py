"""Which pages the site has, in groups, and their order: what the sidebar shows. And the pages of
the lessons.

A lesson is a map, its README.md, and chapters beside it: 1_topic.md, 2_topic.md, ... and
appendix_topic.md for what a first reading does not need. check_pages.py checks them.
"""

import functools
import math
import os
import pathlib
import re

from common.classroom import catalogue
from docs.site.excerpts import read_lines

CHAPTER = re.compile(r"[1-9]\d*_\w+\.md|appendix\w*\.md", re.ASCII)
AFTER_THE_COURSE = "docs/results/README.md"


def is_chapter(page):
    """Is this path, relative to the repository, the chapter of a lesson?"""
    return bool(re.fullmatch(rf"\d\d_\w+/(?:{CHAPTER.pattern})", page, re.ASCII))


def lessons(root):
    """The lessons' maps in order, relative to the repository."""
    return sorted(p.relative_to(root).as_posix() for p in root.glob("[0-9][0-9]_*/README.md"))


def in_order(names):
    """Names of chapters: 9_topic.md before 10_topic.md, appendices last."""

    def key(name):
        number = name.partition("_")[0]
        return int(number) if number.isdigit() else math.inf, name

    return sorted(names, key=key)


def chapters(root, lesson):
    """The chapters beside a lesson's map, in order, appendices last."""
    folder = (root / lesson).parent
    names = in_order(p.name for p in folder.glob("*.md") if CHAPTER.fullmatch(p.name))
    return [(folder / name).relative_to(root).as_posix() for name in names]


def title(root, page):
    """The text of a page's title, in Markdown: its first heading."""
    for line in read_lines(root / page):
        if line.startswith("# "):
            return line[2:].strip()
    raise ValueError(f"{page} has no title")


def number(page):
    """5.3 for the chapter 05_*/3_*.md; empty for other pages."""
    match = re.fullmatch(r"0*(\d+)_\w+/(\d+)_\w+\.md", page, re.ASCII)
    return f"{match[1]}.{match[2]}" if match else ""


def numbered_title(root, page):
    """A page's title outside of its lesson: 5.3 Attention on Hopper."""
    if not number(page):
        return title(root, page)
    return re.sub(r"^\d+\.", number(page), title(root, page))


def foot(root, page):
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


FRONT, EXERCISES = "README.md", "common/classroom/exercises.md"
LAB, RESULTS = "common/lab/README.md", "docs/results/README.md"
STARTS = (LAB, RESULTS, "docs/explorers/README.md")  # each leads to the pages beside it
GROUPS = [
    ("Start here", ["docs/building.md", LAB, EXERCISES]),
    ("Lessons", ["docs/quiz.md"]),  # behind the maps, which have their chapters below them
    ("Explorers", ["docs/explorers/*.md"]),
    ("Theory", ["docs/theory/*.md"]),
    (
        "Reference",
        [
            RESULTS,
            "docs/notation.md",
            "docs/glossary.md",
            "docs/checking.md",
            "docs/errata.md",
            "common/data/README.md",
        ],
    ),
    (
        "For teachers",
        [
            "common/classroom/teaching.md",
            "common/classroom/README.md",
        ],
    ),
    ("For contributors", ["docs/contributing.md", "docs/README.md"]),
]


def groups(root):
    """[(title of the group, its pages)], paths relative to the repository, without empty groups."""
    found = []
    for title, patterns in GROUPS:
        pages = lessons(root) if title == "Lessons" else []
        for pattern in patterns:
            names = sorted(p.relative_to(root).as_posix() for p in root.glob(pattern))
            # A map before what is beside it.
            pages += sorted(names, key=lambda name: not name.endswith("/README.md"))
        if pages:
            found.append((title, pages))
    return found


def below(root, page):
    """The pages directly below a page in the navigation: chapters of a lesson, tasks of a chapter,
    the lab's other pages, results by lesson."""
    if page in lessons(root):
        return [*chapters(root, page), *tasks(root, page)]
    if is_chapter(page):
        return tasks(root, page)
    if page in (LAB, RESULTS):
        beside = sorted((root / page).parent.glob("*.md"))
        return [p.relative_to(root).as_posix() for p in beside if p.name != "README.md"]
    return []


def branch(root, page):
    """A page, and all that are below it."""
    return [page, *(found for below_it in below(root, page) for found in branch(root, below_it))]


def asked_by(root, task):
    """The first chapter that names an exercise; if none does, the map of its lesson."""
    name = f"{task[:2]}_{pathlib.PurePath(task).parts[-2]}"
    lesson = f"{pathlib.PurePath(task).parts[0]}/README.md"
    for page in chapters(root, lesson):
        if re.search(rf"\b{name}\b", (root / page).read_text(encoding="utf-8")):
            return page
    return lesson


@functools.lru_cache
def asked(root):
    """{task: the page that sets it}, in the order of the course; read once."""
    return {task: asked_by(root, task) for task in catalogue.task_pages(root).values()}


def tasks(root, page):
    """The tasks that a page sets, in the order of the course."""
    return [task for task, by in asked(root).items() if by == page]


def unlisted(root):
    """Pages of docs and common that the navigation does not have."""
    patterns = ("docs/*.md", "docs/*/*.md", "common/*/*.md")
    there = {p.relative_to(root).as_posix() for pattern in patterns for p in root.glob(pattern)}
    return sorted(there - set(pages(root)))


def pages(root):
    """All pages in order, the front page first."""
    found = [FRONT]
    for _, members in groups(root):
        for page in members:
            found += branch(root, page)
    return found


def parents(root, page):
    """The pages above a page, from the lesson on: a chapter's map, a task's map and chapter; the
    first page of the lab, of the results and of the explorers."""
    if page.endswith("/task.md"):
        chapter = asked(root)[page]
        return [*parents(root, chapter), chapter]
    if is_chapter(page):
        return [f"{page.split('/')[0]}/README.md"]
    start = str(pathlib.PurePosixPath(page).with_name("README.md"))
    return [start] if start in STARTS and page != start else []


@functools.lru_cache
def way(root):
    """The pages that one reads in order: all but tasks."""
    return [page for page in pages(root) if not page.endswith("/task.md")]


def neighbours(root, page):
    """(the page before, the page after), either may be None. Tasks are beside the way: before each
    is the chapter that sets it, and after the last one what follows that chapter."""
    if page in asked(root):
        chapter = asked(root)[page]
        there = tasks(root, chapter)
        at = there.index(page) + 1
        return chapter, there[at] if at < len(there) else neighbours(root, chapter)[1]
    pages_of_way = way(root)
    at = pages_of_way.index(page)
    return at and pages_of_way[at - 1] or None, [*pages_of_way, None][at + 1]


def docname(page):
    """A page's name in Sphinx: its path without .md."""
    return page.removesuffix(".md")


def html_file(page):
    """The file of a page on the site: README.md becomes its folder's index.html."""
    path = pathlib.PurePosixPath(docname(page))
    return str(path.with_name("index") if path.name == "README" else path) + ".html"
