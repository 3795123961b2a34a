"""Which pages the site has, in groups, and their order: what the sidebar shows."""

import functools
import pathlib
import re

from common.classroom import catalogue
from docs.site import chapters

FRONT, EXERCISES = "README.md", "common/classroom/exercises.md"
LAB, RESULTS = "common/lab/README.md", "docs/results/README.md"
STARTS = (LAB, RESULTS, "docs/explorers/README.md")  # each leads to the pages beside it
GROUPS = [
    ("Start here", ["docs/building.md", LAB, EXERCISES]),
    ("Lessons", ["docs/quiz.md"]),  # behind the maps, which have their chapters below them
    ("Explorers", ["docs/stepper/README.md", "docs/explorers/*.md"]),
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
        pages = chapters.lessons(root) if title == "Lessons" else []
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
    if page in chapters.lessons(root):
        return [*chapters.chapters(root, page), *tasks(root, page)]
    if chapters.is_chapter(page):
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
    for page in chapters.chapters(root, lesson):
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
    if chapters.is_chapter(page):
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
