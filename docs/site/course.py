"""The Sphinx extension of the pages: what GitHub's Markdown and the repository's own comments
become on the site.

    README.md of a folder            its index.html
    $`x`$ and ```math                MathML
    > [!NOTE] and its relatives      a box
    <!-- listing: FILE#TAG -->       and other comments: comment_blocks.py
    `fa::name`                       a link to its description in the reference
"""

import html
import json
import os
import pathlib
import posixpath
import re
import shutil
import subprocess
import sys
import urllib.parse

from docutils import nodes
from sphinx import addnodes
from sphinx.builders.epub3 import Epub3Builder
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.builders.singlehtml import SingleFileHTMLBuilder
from sphinx.search.en import SearchEnglish
from sphinx.util import logging

from common.classroom import catalogue
from docs.site import links, navigation, transforms
from docs.site.comment_blocks import CommentBlocks

LOG = logging.getLogger(__name__)
BOOKS = "epub", "singlehtml"  # builders


class SearchWords(SearchEnglish):
    """Which words the search has: no numbers, for which nothing searches, and none that only make
    a question."""

    stopwords = SearchEnglish.stopwords | set(
        "what why how do does can i my get use using vs versus explain explained example".split()
    )

    def word_filter(self, word):
        return super().word_filter(word) and not word.isdigit()


class CourseBuilder(StandaloneHTMLBuilder):
    """HTML in which a README is the index of its folder."""

    def get_target_uri(self, docname, typ=None):
        return urllib.parse.quote(navigation.html_file(docname))

    def get_outfilename(self, pagename):
        # Pages that no file stands for, such as search, keep their names.
        name = navigation.html_file(pagename) if pagename in self.env.found_docs else None
        return str(pathlib.Path(self.outdir) / (name or pagename + self.out_suffix))

    def dump_search_index(self):
        super().dump_search_index()
        file = pathlib.Path(self.outdir, self.searchindex_filename)
        text = re.sub(r'(?<=["/])README"', 'index"', file.read_text(encoding="utf-8"))
        file.write_text(text, encoding="utf-8")


class PrintedBuilder(SingleFileHTMLBuilder):
    """The book as one page: a part is a section, its chapters are sections of that."""

    def init(self):
        super().init()
        self.add_css_file("book.css", priority=900)  # after the others

    def chapter(self, page, kind="chapter"):
        """(All that a page has, the section that is the page)."""
        docname = page.removesuffix(".md")
        tree = self.env.get_doctree(docname)
        for toctree in list(tree.findall(addnodes.toctree)):
            toctree.parent.remove(toctree)
        for section in tree.findall(nodes.section):
            section["docname"] = docname
        for table in tree.findall(nodes.table):  # the buttons of its heading would print once
            table["classes"] = [name for name in table["classes"] if name != "sortable"]
        for paragraph in tree.findall(nodes.paragraph):
            ends_bold = [type(node) for node in paragraph][-1:] == [nodes.strong]
            if paragraph.astext().endswith(":") or ends_bold:
                paragraph["classes"].append("lead-in")
        top = tree.next_node(nodes.section)
        top["classes"].append(kind)
        return addnodes.start_of_file("", *tree.children, docname=docname), top

    def assemble_doctree(self):
        listed = nodes.bullet_list()
        contents = nodes.section("", nodes.title("", "Contents"), listed, ids=["contents"])
        contents["classes"].append("part")
        tree = self.env.get_doctree(self.config.root_doc)
        tree.children = []
        tree += [self.chapter(navigation.FRONT, "front")[0], contents]
        for number, (title, members) in enumerate(navigation.parts(pathlib.Path(self.srcdir)), 1):
            if title:
                title = nodes.title("", f"Part {number}. {title}")
                whole = part = nodes.section("", title, ids=[f"part-{number}"], classes=["part"])
            else:  # the map of a lesson
                whole, part = self.chapter(members.pop(0), "part")
            tree += whole
            of_part = nodes.bullet_list()
            listed += nodes.list_item("", entry(part), of_part)
            for page in members:
                whole, chapter = self.chapter(page)
                part += whole
                of_part += nodes.list_item("", entry(chapter))
        self.env.resolve_references(tree, self.config.root_doc, self)
        return tree


class BookBuilder(Epub3Builder):
    """The EPUB, whose list of files says which of them have formulas, as EPUB 3 demands."""

    def build_content(self):
        super().build_content()
        content = pathlib.Path(self.outdir, "content.opf")

        def item(match):
            page = pathlib.Path(self.outdir, urllib.parse.unquote(match[1]))
            has = page.is_file() and "<math" in page.read_text(encoding="utf-8")
            return match[0] + (' properties="mathml"' if has else "")

        text = content.read_text(encoding="utf-8")
        pattern = r'href="([^"]*\.xhtml)" media-type="[^"]*"(?= />)'
        content.write_text(re.sub(pattern, item, text), encoding="utf-8")


def entry(section):
    """A line of the contents."""
    title, address = section.next_node(nodes.title).astext(), "#" + section["ids"][0]
    return nodes.paragraph("", "", nodes.reference("", title, refuri=address, internal=True))


def add_to_source(app, docname, source):
    """Gives the pages the navigation below them, and each task what lesson.json says of it."""
    root, page = pathlib.Path(app.srcdir), links.page_of(app.env, docname)

    def toctree(members, *options):
        lines = [":hidden:", *options, "", *("/" + name.removesuffix(".md") for name in members)]
        return "\n\n" + "\n".join(["```{toctree}", *lines, "```", ""])

    is_book = app.builder.name in BOOKS
    if page == navigation.FRONT:
        listed = navigation.parts(root) if is_book else navigation.groups(root).items()
        for title, members in listed:
            source[0] += toctree(members, f":caption: {title}") if title else toctree(members[:1])
    elif navigation.LESSON.fullmatch(page) or not is_book:
        if members := navigation.below(root, page):
            source[0] += toctree(members)
    if page.endswith("/task.md"):
        folder = (root / page).parent
        exercise = next(e for e in catalogue.exercises(root) if e.folder == folder)
        source[0] = task(exercise, source[0])


def task(exercise, source):
    """The page of a task: the values of a variant, what an exercise is, and how one begins."""
    for word, value in exercise.variant.items():
        source = source.replace("{{" + word + "}}", str(value))
    heading, _, text = source.partition("\n")
    points = sum(exercise.points.values())
    about = f"{exercise.kind}, {exercise.minutes} minutes, {points} points"
    commands = "".join(f"./learn exercise {verb} {exercise.id}\n" for verb in ("start", "check"))
    return f"{heading}\n\n*{about.capitalize()}.*\n\n```sh\n{commands}```\n{text}"


def add_number(app, doctree):
    """The number of a chapter of the book."""
    page = links.page_of(app.env, app.env.docname)
    number = navigation.numbers(pathlib.Path(app.srcdir)).get(page)
    if number and app.builder.name in BOOKS:
        text = doctree.next_node(nodes.title).next_node(nodes.Text)
        text.parent.replace(text, nodes.Text(f"{number} " + re.sub(r"^\d+\. ", "", text)))


def read_reference(app):
    """What Doxygen has found in the code."""
    app.course_reference = links.Reference(
        app.config.course_tags, pathlib.Path(app.outdir, links.REFERENCE)
    )


def add_keywords(app, doctree):
    """Words for the search that the page itself does not have."""
    for place, words in navigation.KEYWORDS.items():
        page, _, anchor = place.partition("#")
        if page == links.page_of(app.env, app.env.docname):
            entries = [("single", phrase, anchor, "main", None) for phrase in words.split(", ")]
            each = ", ".join(re.findall(r"\w+", words))
            doctree += [nodes.meta(name="keywords", content=each), addnodes.index(entries=entries)]


def add_head(app, pagename, _, context, doctree):
    """What a search engine and a preview of a link show of a page. The page for wrong addresses may
    stand for any address: its links begin at the site's root."""
    if app.builder.name != "html":
        return
    base = app.config.html_baseurl
    texts = doctree.findall(nodes.paragraph) if doctree else ()
    texts = (p.astext().replace("\n", " ") for p in texts if p.parent.tagname == "section")
    text = next((t for t in texts if len(t) > 40), "")
    if len(text) > 200:
        text = text[:200].rpartition(" ")[0] + " ..."
    title = html.unescape(re.sub("<[^>]*>", "", context.get("title", "")))
    tags = {"og:title": title, "og:type": "website"}
    tags |= {"og:description": text} if text else {}
    if base and pagename in app.env.found_docs:
        tags["og:url"] = base + app.builder.get_target_uri(pagename)
    head = [f'<meta property="{k}" content="{html.escape(v)}">' for k, v in tags.items()]
    if text:
        head.append(f'<meta name="description" content="{html.escape(text)}">')
    if pagename == "404":
        head.insert(0, f'<base href="{urllib.parse.urlsplit(base).path or "/"}">')
    context["metatags"] = "\n".join(head)  # in place of a second viewport


def italic(letter):
    """The character that a browser draws for a variable."""
    if letter == "h":
        return "\u210e"
    for first, last, base in (("A", "Z", 0x1D434), ("a", "z", 0x1D44E), ("α", "ω", 0x1D6FC)):
        if first <= letter <= last:
            return chr(base + ord(letter) - ord(first))
    return letter


def write_font(font, out):
    """The glyphs of a font that formulas of the site use, as formulas.woff."""
    formulas = (
        formula
        for page in out.rglob("*.html")
        if "reference" not in page.parts
        for formula in re.findall(r"<math.*?</math>", page.read_text(encoding="utf-8"), re.DOTALL)
    )
    text = html.unescape(re.sub("<(?!/?mi>)[^>]*>", "", "".join(formulas)))
    letters = re.findall(r"<mi>(.)</mi>", text)  # drawn as other characters, like the roots
    characters = "".join(sorted({*text, "√", *map(italic, letters)}))
    command = [sys.executable, "-m", "fontTools.subset", font, f"--text={characters}"]
    command += ["--no-hinting", "--desubroutinize", "--drop-tables+=FFTM,FeatG,GDEF"]
    command += ["--layout-features=ssty", "--flavor=woff"]
    subprocess.run([*command, f"--output-file={out / '_static/formulas.woff'}"], check=True)


def copy_assets(app, exception):
    """Scripts, style sheets and data that the HTML of a page names, to where the page is; the font
    for formulas; names of the code for the search; and, where the site's address is known, a list
    of its pages."""
    if exception or app.builder.name != "html":
        return
    out = pathlib.Path(app.outdir)
    if font := os.environ.get("COURSE_MATH_FONT"):
        write_font(font, out)
    names = json.dumps(app.course_reference.code_names(), separators=(",", ":"))
    (out / "_static/names.js").write_text(f"window.codeNames = {names};\n", encoding="utf-8")
    if base := app.config.html_baseurl:
        pages = (base + app.builder.get_target_uri(name) for name in sorted(app.env.found_docs))
        (out / "sitemap.txt").write_text("\n".join(pages) + "\n", encoding="utf-8")
    for docname, values in app.env.metadata.items():
        for name in values.get("assets", "").split():
            path = posixpath.normpath(posixpath.join(posixpath.dirname(docname), name))
            places = [pathlib.Path(top, path) for top in (app.srcdir, app.config.course_made)]
            file = next((place for place in places if place.is_file()), None)
            if file is None:
                LOG.warning("the page's HTML names %s, which is neither there nor made", path)
                continue
            (out / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, out / path)


def setup(app):
    """Called by Sphinx."""
    app.add_config_value("course_tags", "", "env", str)
    app.add_config_value("course_made", "", "", str)
    app.add_builder(CourseBuilder, override=True)
    app.add_builder(BookBuilder, override=True)
    app.add_builder(PrintedBuilder, override=True)
    app.add_search_language(SearchWords)
    app.add_transform(CommentBlocks)
    app.add_transform(transforms.GithubMarkdown)
    app.add_html_math_renderer(
        "mathml", (transforms.visit_math, None), (transforms.visit_math_block, None)
    )
    app.connect("builder-inited", read_reference)
    app.connect("source-read", add_to_source)
    app.connect("doctree-read", add_keywords)
    app.connect("doctree-read", add_number, priority=400)  # before Sphinx reads the title
    app.connect("doctree-resolved", links.resolve_links)
    app.connect("html-page-context", add_head)
    app.connect("build-finished", copy_assets)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
