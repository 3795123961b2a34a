"""Slides of each lesson, from its chapters: what a reader will be able to do, every drawing with
what is said before it, every question to predict, and the summary. Part of the Sphinx extension.

A page slides.html beside the lesson's own pages, which needs no network; the arrow keys turn the
slides, and it prints one slide on each page.
"""

import pathlib
import re

from docutils import nodes

from docs.site import chapters, navigation

QUESTION = re.compile(r"Predict\b")
SUMMARY = "Summary"
LONG = 60  # words; a longer paragraph is for reading


def opening(paragraph):
    """The bold words that a paragraph begins with, or nothing."""
    first = paragraph[0] if paragraph.children else None
    return first.astext() if isinstance(first, nodes.strong) else ""


def slides_of(doctree):
    """Yields (heading, nodes) for each slide of a chapter."""
    title = doctree.next_node(nodes.title)
    chapter = doctree.next_node(nodes.section)
    if chapter is None:
        return
    aims = next((node for node in chapter if isinstance(node, nodes.enumerated_list)), None)
    if aims is None:
        aims = next((node for node in chapter if isinstance(node, nodes.bullet_list)), None)
    yield title.astext(), [] if aims is None else [chapter[chapter.index(aims) - 1], aims]
    for section in chapter.findall(nodes.section):
        if section is chapter:
            continue
        heading = section.next_node(nodes.title).astext()
        if heading == SUMMARY:
            yield f"{title.astext()}: summary", list(section.children[1:])
            continue
        before = None
        for node in section:
            if isinstance(node, nodes.paragraph):
                before = node
                if QUESTION.match(opening(node)):
                    yield heading, [node]
            elif isinstance(node, nodes.container) and "drawing" in node["classes"]:
                short = before is not None and len(before.astext().split()) <= LONG
                yield heading, [before, node] if short else [node]
                before = None


def pages(app):
    """The slides of each lesson."""
    builder, root = app.builder, pathlib.Path(app.srcdir)
    if builder.name != "html":
        return
    for lesson in chapters.lessons(root):
        name = lesson.removesuffix("README.md") + "slides"
        numbered = [page for page in chapters.chapters(root, lesson) if "/appendix" not in page]
        made = []
        for page in numbered:
            docname = navigation.docname(page)
            doctree = app.env.get_and_resolve_doctree(docname, builder)
            builder.imgpath = "../_images"
            for heading, content in slides_of(doctree):
                body = "".join(builder.render_partial(node)["fragment"] for node in content)
                made.append({"heading": heading, "body": body})
        if made:
            title = app.env.titles[navigation.docname(lesson)].astext()
            yield name, {"title": title, "slides": made}, "slides.html"


def setup(app):
    """Called by the extension."""
    app.connect("html-collect-pages", pages)
