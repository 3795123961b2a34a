"""Slides of each lesson, from its chapters: what a reader will be able to do, every question to
predict below what it is about, with its answer folded, every drawing with what is said before it,
the listings and tables that fit, and the summary. Part of the Sphinx extension.

A page slides.html beside the lesson's own pages, which needs no network; the arrow keys turn the
slides, and it prints one slide on each page.
"""

import html
import itertools
import os
import pathlib
import re

from docutils import nodes

from docs.site import navigation

QUESTION = re.compile(r"Predict\b")
DETAILS = re.compile(r"<(/?)details\b")
SUMMARY = "Summary"
TEACHING, SLIDES = "common/classroom/teaching", "Slides and handouts"  # a page, a heading of it
LONG = 60  # words; a longer paragraph is for reading
# What a slide holds in letters that the last row of seats reads.
LISTING_LINES, TABLE_ROWS, TABLE_COLUMNS = 16, 8, 8
NEAR = 3  # nodes; what is shown farther above a question is not what it is asked about
ABOVE = re.compile(r"\babove\b")
WHOLE = {"drawing", "listing", "printed"}  # containers that are one thing


def opening(paragraph):
    """The bold words that a paragraph begins with, or nothing."""
    # MyST puts texts without a letter before what is marked.
    first = next((node for node in paragraph if node.astext().strip()), None)
    return first.astext() if isinstance(first, nodes.strong) else ""


def parts(section):
    """Yields (node, whether it is folded, whether it ends what is folded) of what stands in a
    section and not in its subsections."""
    depth = 0

    def walk(parent):
        nonlocal depth
        for node in parent:
            box = isinstance(node, (nodes.container, nodes.Admonition))
            if box and not WHOLE.intersection(node["classes"]):
                yield from walk(node)
            elif not isinstance(node, (nodes.section, nodes.title)):
                marks = DETAILS.findall(node.astext()) if isinstance(node, nodes.raw) else []
                before, depth = depth, depth + sum(-1 if mark else 1 for mark in marks)
                yield node, bool(before or depth), bool(marks) and not depth

    yield from walk(section)


def short(paragraph):
    """A paragraph that a slide has room for beside something else."""
    if paragraph is None or paragraph.astext().startswith("("):  # the source of what is above
        return []
    return [paragraph] if len(paragraph.astext().split()) <= LONG else []


def fits(node):
    """The kind of slide that a node has of its own, or None."""
    classes = node["classes"] if isinstance(node, nodes.container) else ()
    if "drawing" in classes:
        return "drawing"
    if "listing" in classes:
        block = node.next_node(nodes.literal_block)
        return "listing" if len(block.astext().splitlines()) <= LISTING_LINES else None
    if "printed" in classes:
        tables = list(node.findall(nodes.table))
        small = len(tables) == 1 and (
            len(tables[0].next_node(nodes.tbody)) <= TABLE_ROWS
            and tables[0].next_node(nodes.tgroup)["cols"] <= TABLE_COLUMNS
        )
        return "table" if small else None
    return None


def shown(node):
    """Whether a question may be asked about this node, and a slide has room for both."""
    if isinstance(node, nodes.literal_block):
        return len(node.astext().splitlines()) <= LISTING_LINES
    if isinstance(node, (nodes.bullet_list, nodes.enumerated_list)):
        return len(node.astext().split()) <= 2 * LONG
    return isinstance(node, nodes.math_block) or fits(node) is not None


def asked_about(before, question):
    """What stands above a question on its slide: the last thing shown near it, or farther up if the
    question says so, and the paragraph right before. `before` has what is not folded, and None
    where a section begins."""
    answer = next((i for i, node in enumerate(question) if isinstance(node, nodes.raw)), None)
    near = itertools.takewhile(lambda node: node is not None, reversed(before))
    if any(map(shown, question[1:answer])):
        things = []
    elif ABOVE.search(question[0].astext()):
        things = [node for node in before if node is not None and shown(node)][-1:]
    else:
        things = [node for node in itertools.islice(near, NEAR) if shown(node)][:1]
    last = before[-1] if before else None
    if isinstance(last, nodes.paragraph) and not QUESTION.match(opening(last)):
        things = things + short(last)
    copies = [node.deepcopy() for node in things]
    for copy in copies:
        for element in copy.findall(nodes.Element):
            element["ids"] = []  # the page has them already
    return copies


def slides_of_section(section, before):
    """Yields (kind, nodes) for each slide of a section: a question below what it is asked about,
    with what follows it up to the end of its answer; else what needs a slide, unless it is folded.
    Appends what is not folded to `before`."""
    question, words = None, None
    above = []
    before.append(None)
    for node, folded, ends in parts(section):
        if question is not None:
            question.append(node)
            if ends:
                yield "question", [*asked_about(above, question), *question]
                question = None
            continue
        if folded:
            words = None
            continue
        if isinstance(node, nodes.paragraph):
            words = node
            if QUESTION.match(opening(node)):
                question, words, above = [node], None, list(before)
        else:
            if kind := fits(node):
                yield kind, [*short(words), node]
            words = None
        before.append(node)
    if question is not None:  # without an answer
        yield "question", [*asked_about(above, question[:1]), *question[:1]]


def slides_of(doctree):
    """Yields (heading, kind, nodes) for each slide of a chapter."""
    title = doctree.next_node(nodes.title)
    chapter = doctree.next_node(nodes.section)
    if chapter is None:
        return
    aims = next((node for node in chapter if isinstance(node, nodes.enumerated_list)), None)
    if aims is None:
        aims = next((node for node in chapter if isinstance(node, nodes.bullet_list)), None)
    before = []
    yield title.astext(), "aims", [] if aims is None else [chapter[chapter.index(aims) - 1], aims]
    for section in chapter.findall(nodes.section):
        heading = section.next_node(nodes.title).astext()
        if heading == SUMMARY:
            yield f"{title.astext()}: summary", "summary", list(section.children[1:])
            continue
        for kind, content in slides_of_section(section, before):
            yield heading, kind, content


def lead_to_chapter(doctree, file):
    """Gives links within a chapter the chapter's file."""
    for link in doctree.findall(nodes.reference):
        place = link.get("refid") or link.get("refuri", "").partition("#")[2]
        if place and not link.get("refuri", "#").partition("#")[0]:
            link["refuri"] = f"{file}#{place}"
            link.attributes.pop("refid", None)


def decks(root):
    """{the map of a lesson: its chapters that have slides}."""
    found = {lesson: navigation.chapters(root, lesson) for lesson in navigation.lessons(root)}
    numbered = {
        lesson: [page for page in pages if "/appendix" not in page]
        for lesson, pages in found.items()
    }
    return {lesson: pages for lesson, pages in numbered.items() if pages}


def pages(app):
    """The slides of each lesson."""
    builder, root = app.builder, pathlib.Path(app.srcdir)
    if builder.name != "html":
        return
    for lesson, numbered in decks(root).items():
        made = []
        for page in numbered:
            docname = navigation.docname(page)
            doctree = app.env.get_and_resolve_doctree(docname, builder)
            lead_to_chapter(doctree, pathlib.PurePath(navigation.html_file(page)).name)
            builder.imgpath = "../_images"
            for heading, kind, content in slides_of(doctree):
                body = "".join(builder.render_partial(node)["fragment"] for node in content)
                made.append({"heading": heading, "kind": kind, "body": body})
        title = app.env.titles[navigation.docname(lesson)].astext()
        yield deck_of(lesson), {"title": title, "slides": made}, "slides.html"


def deck_of(lesson):
    """The page of a lesson's slides, without its ending."""
    return lesson.removesuffix("README.md") + "slides"


def with_links(body, links, heading=None):
    """The HTML of a page with links, {address: words}, below its title or this heading."""
    line = " · ".join(f'<a href="{to}">{html.escape(words)}</a>' for to, words in links.items())
    line = f'\n<p class="slides-links">{line}</p>'
    place = rf"<h2>{re.escape(heading)}.*?</h2>" if heading else r"</h1>"
    return re.sub(place, lambda match: match[0] + line, body, count=1)


def link(app, pagename, _template, context, _doctree):
    """Links the slides from the lesson's map, and all of them from the page for teachers."""
    if app.builder.name != "html" or pagename not in app.env.found_docs:
        return
    made = decks(pathlib.Path(app.srcdir))
    if f"{pagename}.md" in made:
        links = {"slides.html": "Slides of this lesson"}
        context["body"] = with_links(context["body"], links)
    elif pagename == TEACHING:
        folder = pathlib.PurePath(pagename).parent
        links = {
            os.path.relpath(deck_of(lesson), folder).replace(os.sep, "/") + ".html": app.env.titles[
                navigation.docname(lesson)
            ].astext()
            for lesson in made
        }
        context["body"] = with_links(context["body"], links, SLIDES)


def setup(app):
    """Called by the extension."""
    app.connect("html-collect-pages", pages)
    app.connect("html-page-context", link)
