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

import latex2mathml.converter
from docutils import nodes
from sphinx.builders.epub3 import Epub3Builder
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.util import logging

from common.flatten import flatten
from docs.site import book, chapters, excerpts, navigation, search_index, slides
from docs.site.comment_blocks import CommentBlocks, previous_step
from docs.site.github_pages import GithubMarkdown
from docs.site.links import changes_file, one_file, page_of, resolve_links
from docs.site.reference import Reference, finished, linked_back, start_page

LOG = logging.getLogger(__name__)
CLONE = "Clone the repository. In its folder:"
SIZED = re.compile(r'(<img [^>]*class="[^"]*\bsize-(\d+)-(\d+)\b[^"]*")')


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
            f'<a href="{depth}reference/{app.course_reference.file(name, True)}">{text}</a>'
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
    """Gives the front page and the maps the navigation below them, and each task its chapter and
    its commands."""
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
            source[0] = source[0].replace(CLONE, f"`git clone {repository}`. In its folder:", 1)
        for title, members in navigation.groups(root):
            source[0] += toctree(members, f":caption: {title}")
    elif not which and (members := navigation.below(root, page)):
        source[0] += toctree(members, ":maxdepth: 1")
    elif page.endswith("/task.md"):
        asked_by = navigation.asked_by(root, page)
        name = f"{page[:2]}_{posixpath.basename(posixpath.dirname(page))}"
        heading, _, text = source[0].partition("\n")
        source[0] = (
            f"{heading}\n\nRead [{chapters.title(root, asked_by)}](/{asked_by}) first.\n\n```sh\n"
            f"./learn exercise start {name}\n./learn exercise check {name}\n```\n{text}"
        )


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


def link_reference(app, exception):
    """The way back: from a source to the chapters that show it, else to its lesson."""
    if exception or app.builder.name != "html":
        return
    explained = {}
    for page in navigation.pages(pathlib.Path(app.srcdir)):
        docname = navigation.docname(page)
        entry = (navigation.html_file(page), app.env.titles[docname].astext())
        for path in dict.fromkeys(app.env.metadata[docname].get("listed", "").split()):
            explained.setdefault(path, []).append(entry)
    for path in app.course_reference.files:
        lesson = path.split("/")[0] + "/README"
        if path not in explained and lesson in app.env.titles:
            title = app.env.titles[lesson].astext()
            explained[path] = [(navigation.html_file(lesson + ".md"), title)]
    folder = pathlib.Path(app.outdir) / "reference"
    linked_back(app.course_reference, folder, explained)
    titles = {}
    for lesson in chapters.lessons(pathlib.Path(app.srcdir)):
        title = app.env.titles[navigation.docname(lesson)].astext()
        titles[lesson.split("/")[0]] = navigation.html_file(lesson), title
    start_page(app.course_reference, folder, titles)
    finished(folder)


def mathml(node, display):
    """TeX as MathML. The TeX stays as what a reader without MathML gets."""
    tex = node.astext()
    # The converter knows align* but not the environment that GitHub wants.
    made = latex2mathml.converter.convert(
        re.sub(r"(begin|end)\{aligned\}", r"\1{align*}", tex), display=display
    )
    unknown = re.search(r"<m[io][^>]*>(\\\w*|&#x0*26;)", made)
    if unknown:
        LOG.warning("the formula has '%s', which becomes no MathML", unknown[1], location=node)
    # {+}: an operator holds text only.
    made = re.sub(r"<mo><mrow><mo>([^<]*)</mo></mrow></mo>", r"<mo>\1</mo>", made)
    return made.replace("<math ", f'<math alttext="{html.escape(tex)}" ', 1)


def reserve_room(_app, _pagename, _template, context, _doctree):
    """Gives drawings their size as attributes, so that nothing moves when they have arrived."""
    for part in (context, *context.get("slides", ())):
        part["body"] = SIZED.sub(r'\1 width="\2" height="\3"', part.get("body", ""))


def visit_math(self, node):
    self.body.append(mathml(node, "inline"))
    raise nodes.SkipNode


def visit_math_block(self, node):
    self.body.append(f'<div class="formula">{mathml(node, "block")}</div>\n')
    raise nodes.SkipNode


def read_reference(app):
    """What Doxygen has written, from its tag file."""
    app.course_reference = Reference(app.config.course_tags, pathlib.Path(app.srcdir))


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
    app.add_config_value("course_tags", "", "env", str)
    app.add_config_value("course_made", "", "", str)
    app.add_builder(CourseBuilder, override=True)
    app.add_builder(BookBuilder, override=True)
    app.add_transform(CommentBlocks)
    app.add_transform(GithubMarkdown)
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    app.connect("builder-inited", read_reference)
    app.connect("source-read", add_toctrees)
    app.connect("doctree-resolved", resolve_links)
    app.connect("html-collect-pages", change_pages)
    app.connect("html-page-context", reserve_room)
    app.connect("build-finished", copy_assets)
    app.connect("build-finished", write_steps)
    app.connect("build-finished", link_reference)
    book.setup(app)
    search_index.setup(app)
    slides.setup(app)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
