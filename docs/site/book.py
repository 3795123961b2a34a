"""The course as a book, and a booklet for teachers and contributors: which pages they have, in
which order, and what paper changes. Part of the Sphinx extension; the environment's COURSE_BOOK
says which one is built.

Answers stand at the end of a chapter, not below their questions. Anchors get the name of their page
before them, since all pages of a printed book are one file of HTML.
"""

import re

from docutils import nodes
from sphinx.transforms import SphinxTransform

from docs.site import navigation
from docs.site.links import page_of

TEACHING = "common/classroom/teaching.md"
# The pages behind the lessons. Explorers and the tables of records are for a screen.
BEHIND = [
    ("Theory", ["docs/theory/*.md"]),
    ("Tools", ["docs/building.md", navigation.EXERCISES, navigation.LAB, "docs/checking.md"]),
    (
        "Reference",
        [
            navigation.RESULTS,
            "docs/notation.md",
            "docs/glossary.md",
            "docs/errata.md",
            "common/data/README.md",
        ],
    ),
]
BOOKLET = ["docs/quiz.md", "common/classroom/README.md", "docs/contributing.md", "docs/README.md"]
OPEN = re.compile(r"<details\b[^>]*>\s*<summary>\s*Answer\b[^<]*</summary>")
DETAILS = re.compile(r"<(/?)details\b")
ANCHOR = re.compile(r'(<a (?:id|name)=")([^"]*)')


def tasks(root, lesson):
    """The exercises of a lesson, in their order."""
    folder = lesson.split("/")[0]
    all_tasks = [page for page in navigation.pages(root) if "/exercises/" in page]
    return [page for page in all_tasks if page.split("/")[0] == folder]


def parts(root, book):
    """[(title of the part, [page, ...])]; the pages below a page are of below()."""
    if book == "teaching":
        there = [page for page in BOOKLET if (root / page).is_file()]
        return [("For teachers and contributors", there)]
    found = [("Lessons", navigation.lessons(root))]
    for title, patterns in BEHIND:
        pages = [
            path.relative_to(root).as_posix()
            for pattern in patterns
            for path in sorted(root.glob(pattern))
        ]
        if pages:
            found.append((title, pages))
    return found


def below(root, page):
    """The pages below a page of the book: of a lesson its chapters, then its exercises."""
    if page in navigation.lessons(root):
        return navigation.chapters(root, page) + tasks(root, page)
    return navigation.below(root, page) if page == navigation.LAB else []


def front(book):
    """The first page."""
    return TEACHING if book == "teaching" else navigation.FRONT


def pages(root, book):
    """All pages of a book in order."""
    found = [front(book)]
    for _, members in parts(root, book):
        for page in members:
            found += [page, *below(root, page)]
    return found


def anchored(page, anchor):
    """The anchor of a page in a book."""
    return f"{navigation.docname(page).replace('/', '-')}--{anchor}"


class OnPaper(SphinxTransform):
    """Anchors with the page's name, and answers at the end of a chapter."""

    default_priority = 320  # after GithubMarkdown

    def apply(self, **_):
        if not self.config.course_book:
            return
        page = page_of(self.env, self.env.docname)
        for section in self.document.findall(nodes.section):
            section["ids"] = [anchored(page, name) for name in section["ids"]]
        for raw in self.document.findall(nodes.raw):
            text = ANCHOR.sub(lambda found: found[1] + anchored(page, found[2]), raw.astext())
            if text != raw.astext():
                raw[:] = [nodes.Text(text)]
        if navigation.is_chapter(page):
            self.answers_last(page)

    def answers_last(self, page):
        """Moves folded answers into a section of their own."""
        last = nodes.section("", nodes.title("", "Answers"), ids=[anchored(page, "answers")])
        last["slug"], number, heading = "answers", 0, None
        for raw in [raw for raw in self.document.findall(nodes.raw) if OPEN.match(raw.astext())]:
            box, at = raw.parent, raw.parent.index(raw)
            end = self.end_of(box, at)
            if end is None:
                continue
            number += 1
            answer, asked = (anchored(page, f"{what}-{number}") for what in ("answer", "asked"))
            moved = box[at + 1 : end]
            if end == at:  # in one piece
                text = OPEN.sub("", raw.astext()).replace("</details>", "")
                moved = [nodes.raw("", f"<p>{text}</p>", format="html")]
            link = nodes.reference("", f"Answer {number}", refid=answer, internal=True)
            place = nodes.paragraph("", "", link, ids=[asked], classes=["answer-link"])
            box[at : end + 1] = [place]
            title = box.next_node(nodes.title) if isinstance(box, nodes.section) else None
            if title is not None and title.astext() != heading:
                heading = title.astext()
                last += nodes.rubric("", heading)
            back = nodes.reference("", f"{number}.", refid=asked, internal=True)
            last += nodes.paragraph("", "", back, ids=[answer], classes=["answer-number"])
            last += moved
        if number:
            self.document.next_node(nodes.section).append(last)

    @staticmethod
    def end_of(box, at):
        """The index of what closes the <details> at an index, or None."""
        depth = 0
        for i in range(at, len(box)):
            if isinstance(box[i], nodes.raw):
                depth += sum(-1 if mark else 1 for mark in DETAILS.findall(box[i].astext()))
                if depth <= 0:
                    return i
        return None


def setup(app):
    """Called by the extension."""
    app.add_config_value("course_book", "", "env", str)
    app.add_transform(OnPaper)
