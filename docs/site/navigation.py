"""Which pages the site has, in groups, and their order: what the sidebar shows."""

import pathlib
import re

from common.classroom import catalogue
from docs.site import chapters

FRONT, EXERCISES = "README.md", "common/classroom/exercises.md"
LAB, RESULTS = "common/lab/README.md", "docs/results/README.md"
GROUPS = [
    ("Start here", ["docs/building.md", LAB, EXERCISES]),
    ("Lessons", []),  # the maps, with their chapters below them
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
            "docs/quiz.md",
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
    """The pages below a page in the navigation: chapters of a lesson, the lab's other pages, the
    tasks of all exercises in the order of the course, results by lesson."""
    if page in chapters.lessons(root):
        return chapters.chapters(root, page)
    if page == EXERCISES:
        folders = [exercise.folder for exercise in catalogue.exercises(root)]
        return [f"{folder.relative_to(root).as_posix()}/task.md" for folder in folders]
    if page in (LAB, RESULTS):
        beside = sorted((root / page).parent.glob("*.md"))
        return [p.relative_to(root).as_posix() for p in beside if p.name != "README.md"]
    return []


def asked_by(root, task):
    """The first chapter that names an exercise; if none does, the map of its lesson."""
    name = f"{task[:2]}_{pathlib.PurePath(task).parts[-2]}"
    lesson = f"{pathlib.PurePath(task).parts[0]}/README.md"
    for page in chapters.chapters(root, lesson):
        if re.search(rf"\b{name}\b", (root / page).read_text(encoding="utf-8")):
            return page
    return lesson


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
            found += [page, *below(root, page)]
    return found


def docname(page):
    """A page's name in Sphinx: its path without .md."""
    return page.removesuffix(".md")


def html_file(page):
    """The file of a page on the site: README.md becomes its folder's index.html."""
    path = pathlib.PurePosixPath(docname(page))
    return str(path.with_name("index") if path.name == "README" else path) + ".html"
