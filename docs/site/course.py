"""The Sphinx extension of the pages: what GitHub's Markdown and the repository's own comments
become on the site.

    README.md of a folder            its index.html
    $`x`$ and ```math                MathML
    > [!NOTE] and its relatives      a box
    <!-- listing: FILE#TAG -->       and other comments: comment_blocks.py
    `fa::name`                       a link to its description in the reference

All of it happens after MyST has read the page, so that warnings name the right lines.
"""

import html
import os
import pathlib
import posixpath
import re
import shutil
import urllib.parse

from docutils import nodes
from sphinx.builders.epub3 import Epub3Builder
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.util import logging

from common.drawing import narrow
from common.flatten import flatten
from docs.site import (
    book,
    excerpts,
    exercise_pages,
    formulas,
    navigation,
    reference,
    search_index,
    slides,
    transforms,
)
from docs.site.comment_blocks import CommentBlocks, previous_step
from docs.site.links import changes_file, one_file, page_of, resolve_links
from docs.site.transforms import GithubMarkdown

LOG = logging.getLogger(__name__)
CLONE = re.compile(r"Clone the repository[^.]*\.(?=\s+In its folder:)")
IMAGE = re.compile(r"<img [^>]*>")


class CourseBuilder(StandaloneHTMLBuilder):
    """HTML in which a README is the index of its folder. The search is our own: Sphinx's shows no
    excerpts of files, and finds only pages that have all words."""

    search = False

    def get_target_uri(self, docname, typ=None):
        return urllib.parse.quote(navigation.html_file(docname + ".md"))

    def get_outfilename(self, pagename):
        # Pages that no file stands for, such as search, keep their names.
        name = navigation.html_file(pagename + ".md") if pagename in self.env.found_docs else None
        return str(pathlib.Path(self.outdir) / (name or pagename + self.out_suffix))


def change_pages(app):
    """A page for each step of a ladder: the whole difference from the step before."""
    if app.builder.name != "html":
        return
    root = pathlib.Path(app.srcdir)
    for file in sorted(root.glob("[0-9][0-9]_*/kernels/[0-9][0-9]_*.cuh")):
        path = file.relative_to(root).as_posix()
        before = previous_step(root, path)
        if not before:
            continue
        lines = excerpts.diff(root, before, path, context=4, most=100000, most_columns=200)
        pagename = changes_file(path).removesuffix(".html")
        depth = "../" * pagename.count("/")
        names = [posixpath.basename(name) for name in (before, path)]
        block = app.builder.highlighter.highlight_block("\n".join(lines), "diff")
        links = [
            f'<a href="{depth}reference/{app.course_reference.file(name)}">{text}</a>'
            for name, text in zip((before, path), names)
        ]
        lesson = posixpath.dirname(posixpath.dirname(path)) + "/index.html"
        title = f"From {names[0].removesuffix('.cuh')} to {names[1].removesuffix('.cuh')}"
        body = (
            f"<h1>{html.escape(title)}</h1>\n<p>What {links[1]} changes in {links[0]}; includes "
            "and comments for the reference are left out. "
            f'<a href="{depth}{lesson}">The lesson</a></p>\n{block}'
        )
        yield pagename, {"title": title, "body": body, "display_toc": False, "toc": ""}, "page.html"


def write_steps(app, exception):
    """Each step of a ladder as one CUDA file, as ./learn flatten writes it."""
    if exception or app.builder.name != "html":
        return
    root = pathlib.Path(app.srcdir)
    for file in sorted(root.glob("[0-9][0-9]_*/kernels/[0-9][0-9]_*.cuh")):
        if name := one_file(root, file.relative_to(root).as_posix()):
            target = pathlib.Path(app.outdir) / name
            target.parent.mkdir(parents=True, exist_ok=True)
            text = flatten.flatten(file.parent.parent.name, file.stem)
            target.write_text(text, encoding="utf-8")


def add_toctrees(app, docname, source):
    """Gives the front page, the maps and the chapters the navigation below them, each task what
    exercise_pages.py knows of it, and the glossary its letters."""
    root = pathlib.Path(app.srcdir)

    def toctree(members, *options):
        names = "\n".join("/" + navigation.docname(page) for page in members)
        lines = "\n".join((":hidden:", *options))
        return f"\n\n```{{toctree}}\n{lines}\n\n{names}\n```\n"

    page = page_of(app.env, docname)
    if (which := app.config.course_book) and page == book.front(which):
        for title, members in book.parts(root, which):
            source[0] += toctree(members, f":caption: {title}")
    elif which and (members := book.below(root, page)):
        source[0] += toctree(members, ":maxdepth: 1")
    elif page == navigation.FRONT:
        if repository := app.config.html_context["repository"]:
            source[0] = with_address(source[0], repository)
        for title, members in navigation.groups(root):
            source[0] += toctree(members, f":caption: {title}")
    elif not which and (members := navigation.below(root, page)):
        source[0] += toctree(members, ":maxdepth: 1")
    elif page.endswith("/task.md"):
        source[0] = exercise_pages.page(root, page, source[0])
    elif page == search_index.GLOSSARY and app.builder.name == "html":
        source[0] = with_letters(source[0])


def with_address(source, repository):
    """The front page with the command that clones the repository."""
    return CLONE.sub(f"Clone the repository: `git clone {repository}`.", source, count=1)


def with_letters(source):
    """The glossary with a bar of its letters before the first of them."""
    letters = re.findall(r"^## (\S+)$", source, re.MULTILINE)
    links = " ".join(f'<a href="#{letter.lower()}">{letter}</a>' for letter in letters)
    bar = f'<nav class="letters" aria-label="Letters">{links}</nav>'
    return re.sub(r"^## ", f"{bar}\n\n## ", source, count=1, flags=re.MULTILINE)


def place_in_course(app, pagename, _template, context, _doctree):
    """Where a page is: what is above it, and its neighbours. Tasks are beside the way."""
    if app.builder.name != "html" or pagename not in app.env.found_docs:
        return
    root, page = pathlib.Path(app.srcdir), page_of(app.env, pagename)

    def link(target):
        name = navigation.docname(target)
        title = html.escape(app.env.titles[name].astext())
        return {"link": app.builder.get_relative_uri(pagename, name), "title": title}

    before, after = navigation.neighbours(root, page)
    context["prev"], context["next"] = before and link(before), after and link(after)
    above = navigation.parents(root, page)
    context["crumbs"] = [link(target) for target in above]


def copy_assets(app, exception):
    """Scripts, style sheets and data that the HTML of a page names, to where the page is; what the
    footer links; the font for formulas."""
    if exception or app.builder.name != "html":
        return
    root, out = pathlib.Path(app.srcdir), pathlib.Path(app.outdir)
    (out / "files").mkdir(exist_ok=True)
    for name in ("LICENSE", "CITATION.cff"):
        shutil.copyfile(root / name, out / "files" / name)
    if font := os.environ.get("COURSE_MATH_FONT"):
        shutil.copyfile(font, out / "_static" / "formulas.otf")
    made = pathlib.Path(app.config.course_made)
    for docname, values in app.env.metadata.items():
        folder = posixpath.dirname(docname)
        for name in values.get("assets", "").split():
            path = posixpath.normpath(posixpath.join(folder, name))
            places = [place for place in (root / path, made / path) if place.is_file()]
            if not places:
                LOG.warning("the page's HTML names %s, which is neither there nor made", path)
                continue
            target = out / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(places[0], target)


def write_reference(app, exception):
    """The reference of the code, with the way back: from a source to the chapters that show it,
    else to its lesson."""
    if exception or app.builder.name != "html":
        return
    root, explained, titles = pathlib.Path(app.srcdir), {}, {}
    for page in navigation.pages(root):
        docname = navigation.docname(page)
        entry = (navigation.html_file(page), app.env.titles[docname].astext())
        for path in dict.fromkeys(app.env.metadata[docname].get("listed", "").split()):
            explained.setdefault(path, []).append(entry)
    for lesson in navigation.lessons(root):
        title = app.env.titles[navigation.docname(lesson)].astext()
        titles[lesson.split("/")[0]] = navigation.html_file(lesson), title
    for path in app.course_reference.files:
        if path not in explained and (lesson := titles.get(path.split("/")[0])):
            explained[path] = [lesson]
    reference.write(app.course_reference, pathlib.Path(app.outdir), explained, titles)


def mathml(node, display):
    """The formula of a node as MathML."""
    made, unknown = formulas.mathml(node.astext(), display)
    if unknown:
        LOG.warning("the formula has '%s', which becomes no MathML", unknown, location=node)
    return made


def reserve_room(app, _pagename, _template, context, _doctree):
    """Gives drawings their size as attributes, so that nothing moves when they have arrived, and
    their narrow form; and keeps short words of code whole."""
    for part in (context, *context.get("slides", ())):
        body = IMAGE.sub(
            lambda match: transforms.picture(match[0], book=app.builder.name != "html"),
            part.get("body", ""),
        )
        part["body"] = transforms.whole(body)


def write_narrow(app, exception):
    """The narrow forms of the drawings on the pages."""
    if exception or app.builder.name != "html":
        return
    for file in sorted((pathlib.Path(app.outdir) / "_images").glob("*.svg")):
        text = file.read_text(encoding="utf-8")
        if narrow.rows_of(text):
            file.with_suffix(".narrow.svg").write_text(narrow.narrow(text), encoding="utf-8")


def visit_math(self, node):
    self.body.append(mathml(node, "inline"))
    raise nodes.SkipNode


def visit_math_block(self, node):
    self.body.append(f'<div class="formula">{mathml(node, "block")}</div>\n')
    raise nodes.SkipNode


def read_reference(app):
    """What Doxygen has found in the code."""
    app.course_reference = reference.Reference(app.config.course_xml, pathlib.Path(app.srcdir))


class BookBuilder(Epub3Builder):
    """The book: its list of files says which of them have formulas, as EPUB 3 demands, and which
    one is the cover."""

    def build_content(self):
        super().build_content()
        folder = pathlib.Path(self.outdir)
        content = folder / "content.opf"

        def item(match):
            page = folder / urllib.parse.unquote(match[1])
            formulas = page.is_file() and "<math" in page.read_text(encoding="utf-8")
            return match[0] + (' properties="mathml"' if formulas else "")

        text = content.read_text(encoding="utf-8")
        text = re.sub(r'href="([^"]*\.xhtml)" media-type="[^"]*"(?= />)', item, text)
        text = re.sub(r'(href="_static/cover.svg")', r'\1 properties="cover-image"', text)
        content.write_text(text, encoding="utf-8")


def setup(app):
    """Called by Sphinx."""
    app.add_config_value("course_xml", "", "env", str)
    app.add_config_value("course_made", "", "", str)
    app.add_builder(CourseBuilder, override=True)
    app.add_builder(BookBuilder, override=True)
    app.add_transform(CommentBlocks)
    app.add_transform(GithubMarkdown)
    app.add_transform(transforms.Callouts)
    app.add_transform(transforms.ChapterTitle)
    app.add_transform(transforms.Units)
    app.add_lexer("sh", transforms.Console)
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    app.connect("builder-inited", read_reference)
    app.connect("source-read", add_toctrees)
    app.connect("doctree-resolved", resolve_links)
    app.connect("html-collect-pages", change_pages)
    app.connect("html-page-context", reserve_room)
    app.connect("html-page-context", place_in_course)
    app.connect("build-finished", copy_assets)
    app.connect("build-finished", write_narrow)
    app.connect("build-finished", write_steps)
    app.connect("build-finished", write_reference)
    book.setup(app)
    search_index.setup(app)
    slides.setup(app)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
