"""The Sphinx extension of the pages: what GitHub's Markdown and the repository's own comments
become on the site.

    README.md of a folder            its index.html
    $`x`$ and ```math                MathML
    > [!NOTE] and its relatives      a box
    <!-- listing: FILE#TAG -->       a caption: file, lines, links into the reference of the code
    <!-- diff: OLD NEW -->           a caption with links to both files
    <!-- generated: COMMAND -->      tables of the printed text as real tables
    <!-- on the site: FILE.html -->  that file of HTML, and the files that it names
    <!-- navigation -->              nothing: the theme has its own links
    `fa::name`                       a link to its description in the reference

All of it happens after MyST has read the page, so that warnings name the right lines.
"""

import html
import math
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
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

from docs.site import (
    chapters,
    excerpts,
    gfm,
    navigation,
    results_tables,
    search_index,
    slides,
    sync_pages,
)
from docs.site.reference import Reference, linked_back

LOG = logging.getLogger(__name__)
ALERT = re.compile(r"\[!(NOTE|TIP|IMPORTANT|WARNING|CAUTION)\]\s*")
ON_SITE = re.compile(r"<!-- on the site: (?P<file>[\w./-]+\.html) -->\s*")
ON_SITE_END, DIFF_END = "<!-- /on the site -->", "<!-- /diff -->"
ASSET = re.compile(r'\b(src|href)="([\w./-]+\.(?:js|css|json|svg|png))"')
CLONE = "Clone the repository. In its folder:"
LETTERS, PHONE = 12, 420  # pixels: the smallest letters of a drawing; what a phone shows whole
SIZED = re.compile(r'(<img [^>]*class="[^"]*\bsize-(\d+)-(\d+)\b[^"]*")')
OTHER_SITE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")


def page_of(env, docname):
    """The path of a page, relative to the repository."""
    return pathlib.Path(env.doc2path(docname)).relative_to(env.srcdir).as_posix()


def from_root(page, uri):
    """A relative address on a page, seen from the repository's root."""
    path, mark, anchor = uri.partition("#")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
    return path + mark + anchor


def link(text, uri, **attributes):
    """A link in a caption; `reference:` begins what Doxygen writes."""
    return nodes.reference("", text, refuri=uri, internal=False, **attributes)


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


class CommentBlocks(SphinxTransform):
    """The comments of the sync tool, with the blocks that follow them."""

    default_priority = 300

    def apply(self, **_):
        self.page = page_of(self.env, self.env.docname)
        self.root = pathlib.Path(self.env.srcdir)
        for raw in list(self.document.findall(nodes.raw)):
            text = raw.rawsource or raw.astext()
            if raw not in raw.parent.children or not text.lstrip().startswith("<!--"):
                continue
            self.comment(raw, text.strip())

    def comment(self, raw, text):
        if match := ON_SITE.fullmatch(text):
            self.on_site(raw, match["file"])
        elif match := sync_pages.LISTING.match(text):
            self.listing(raw, match["path"], match["tag"])
        elif match := sync_pages.DIFF.match(text):
            self.diff(raw, match["old"], match["new"])
        elif match := sync_pages.GENERATED.match(text):
            self.printed(raw, match["command"])
        elif sync_pages.NAVIGATION.match(text):
            self.navigation(raw)
        raw.parent.remove(raw)

    def after(self, raw, kind):
        """The node after a comment, when it is of this kind."""
        node = raw.next_node(descend=False, siblings=True)
        return node if isinstance(node, kind) else None

    def listing(self, raw, path, tag):
        block = self.after(raw, nodes.literal_block)
        if block is None:
            return
        lines = gfm.read_lines(self.root / path)
        numbers = excerpts.region(lines, path, tag)
        while numbers and not lines[numbers[0]].strip():
            numbers = numbers[1:]
        first, last = numbers[0] + 1, numbers[-1] + 1
        self.env.metadata[self.env.docname].setdefault("listed", "")
        self.env.metadata[self.env.docname]["listed"] += path + " "
        parts = [link(path, f"reference:{path}#{first}"), nodes.Text(f", lines {first} to {last}")]
        parts += self.more(path)
        self.captioned(block, parts)

    def more(self, path):
        """Further links of a caption: documentation, difference to the step before."""
        parts = [nodes.Text(" · "), link("documentation", f"documentation:{path}")]
        before = previous_step(self.root, path)
        if before:
            number = pathlib.PurePosixPath(before).name.split("_")[0]
            parts += [nodes.Text(" · "), link(f"changes since {number}", f"changes:{path}")]
        return parts

    def diff(self, raw, old, new):
        block = self.after(raw, nodes.literal_block)
        if block is None:
            return
        old, new = old.partition("#")[0], new.partition("#")[0]
        if "/" not in new:
            new = posixpath.join(posixpath.dirname(old), new)
        self.env.metadata[self.env.docname].setdefault("listed", "")
        self.env.metadata[self.env.docname]["listed"] += new + " "
        name = posixpath.basename(old)
        parts = [nodes.Text("What "), link(new, f"reference:{new}")]
        if old != new:
            parts += [nodes.Text(" changes in "), link(name, f"reference:{old}")]
        parts += self.more(new)
        # The folded link to the whole file is for GitHub.
        following, node = [], block.next_node(descend=False, siblings=True)
        while node is not None:
            following.append(node)
            # With </details> before it the comment is one piece of HTML.
            if isinstance(node, nodes.raw) and DIFF_END in node.astext():
                for folded in following:
                    folded.parent.remove(folded)
                break
            node = node.next_node(descend=False, siblings=True)
        self.captioned(block, parts)

    @staticmethod
    def captioned(block, parts):
        wrapper = nodes.container("", classes=["listing"])
        block.replace_self(wrapper)
        wrapper += [nodes.paragraph("", "", *parts, classes=["listing-caption"]), block]

    def printed(self, raw, command):
        block = self.after(raw, nodes.literal_block)
        if block is not None:
            block.replace_self(results_tables.converted(block, command))

    def on_site(self, raw, name):
        if self.app.builder.name != "html":
            return  # a book has the picture
        node = raw.next_node(descend=False, siblings=True)
        while node is not None and ON_SITE_END not in node.astext():
            following = node.next_node(descend=False, siblings=True)
            node.parent.remove(node)
            node = following
        if node is None:
            LOG.warning("'on the site' is not closed by %s", ON_SITE_END, location=raw)
            return
        node.parent.remove(node)
        file = self.root / posixpath.dirname(self.page) / name
        if not file.is_file():
            LOG.warning("there is no %s beside the page", name, location=raw)
            return
        self.env.note_dependency(str(file))
        folder = posixpath.dirname(name)
        metadata = self.env.metadata[self.env.docname]
        metadata.setdefault("assets", "")

        def named(match):
            path = posixpath.join(folder, match[2])
            metadata["assets"] += f"{path} "
            return f'{match[1]}="{path}"'

        text = ASSET.sub(named, file.read_text(encoding="utf-8"))
        raw.parent.insert(raw.parent.index(raw), nodes.raw("", text, format="html"))

    @staticmethod
    def navigation(raw):
        node = raw.next_node(descend=False, siblings=True)
        if isinstance(node, nodes.paragraph):
            node.parent.remove(node)
        index = raw.parent.index(raw)
        if index and isinstance(raw.parent[index - 1], nodes.transition):
            raw.parent.remove(raw.parent[index - 1])


class GithubMarkdown(SphinxTransform):
    """Formulas, alerts, and anchors of headings as GitHub has them."""

    default_priority = 310

    def apply(self, **_):
        for literal in list(self.document.findall(nodes.literal)):
            self.formula(literal)
        for block in list(self.document.findall(nodes.literal_block)):
            if block.get("language") == "math":
                formula = nodes.math_block("", block.astext(), nowrap=True, number=None, label=None)
                block.replace_self(formula)
            elif block.get("language") == "cuda":
                block["language"] = "cpp"
        for quote in list(self.document.findall(nodes.block_quote)):
            self.alert(quote)
        page = page_of(self.env, self.env.docname)
        for reference in self.document.findall(nodes.reference):
            uri = reference.get("refuri", "")
            if uri and not OTHER_SITE.match(uri) and not uri.startswith("/"):
                reference["refuri"] = "/" + from_root(page, uri)
        for image in list(self.document.findall(nodes.image)):
            self.drawing(image)
        seen = {}
        headings = gfm.headings(gfm.read_lines(pathlib.Path(self.env.doc2path(self.env.docname))))
        anchors = iter(heading.anchor for heading in headings)
        for section in self.document.findall(nodes.section):
            anchor = next(anchors, None)
            if anchor is None or anchor in seen:
                LOG.warning("the page's headings were not recognised", location=section)
                break
            seen[anchor] = section
            section["ids"] = [anchor]

    def drawing(self, image):
        """A drawing in a paragraph of its own: so wide that its smallest letters have 12 pixels."""
        paragraph = image.parent
        if not isinstance(paragraph, nodes.paragraph) or len(paragraph) != 1:
            return
        box = nodes.container("", image, classes=["drawing"])
        paragraph.replace_self(box)
        file = pathlib.Path(self.env.doc2path(self.env.docname)).parent / image["uri"]
        if file.suffix != ".svg" or not file.is_file():
            return
        text = file.read_text(encoding="utf-8")
        width, height = (
            float(found[1]) if (found := re.search(rf'<svg[^>]*? {name}="([\d.]+)', text)) else 0
            for name in ("width", "height")
        )
        letters = min(map(float, re.findall(r'font-size="([\d.]+)', text)), default=LETTERS)
        shown = math.ceil(width * max(1, LETTERS / letters))
        image["width"] = f"{shown}px"
        if width and height:
            image["classes"].append(f"size-{shown}-{round(shown * height / width)}")
        if shown > PHONE:
            image["classes"].append("wide")

    @staticmethod
    def formula(literal):
        """$`x`$: a literal between two dollars."""
        parent = literal.parent
        index = parent.index(literal)
        if not 0 < index < len(parent) - 1:
            return
        before, after = parent[index - 1], parent[index + 1]
        if not (isinstance(before, nodes.Text) and isinstance(after, nodes.Text)):
            return
        if before.endswith("$") and after.startswith("$"):
            literal.replace_self(nodes.math("", literal.astext()))
            parent.replace(before, nodes.Text(before[:-1]))
            parent.replace(after, nodes.Text(after[1:]))

    @staticmethod
    def alert(quote):
        """> [!NOTE]: an admonition."""
        first = quote[0] if quote.children else None
        if not isinstance(first, nodes.paragraph) or not isinstance(first[0], nodes.Text):
            return
        match = ALERT.match(first[0])
        if not match:
            return
        first.replace(first[0], nodes.Text(first[0][match.end() :]))
        quote.replace_self(getattr(nodes, match[1].lower())("", *quote.children))


def previous_step(root, path):
    """The file of the step before this one in its ladder, or None."""
    match = re.fullmatch(r"(\d\d_\w+/kernels)/(\d\d)_\w+\.cuh", path)
    if not match:
        return None
    for number in range(int(match[2]) - 1, 0, -1):
        files = sorted((root / match[1]).glob(f"{number:02d}_*.cuh"))
        if files:
            return files[0].relative_to(root).as_posix()
    return None


class Links:
    """Where the links of a page lead on the site."""

    def __init__(self, app, docname):
        self.app, self.docname = app, docname
        self.root = pathlib.Path(app.srcdir)
        self.page = page_of(app.env, docname)
        self.reference = app.course_reference
        self.pages = {page_of(app.env, name): name for name in app.env.found_docs}
        self.single = app.builder.name == "singlehtml"
        self.here = navigation.html_file(self.page)
        self.out = app.builder.name == "html"  # the reference is there

    def relative(self, target):
        """The address of a file of the site, seen from this page."""
        return posixpath.relpath(target, posixpath.dirname(self.here) or ".")

    def resolve(self, uri):
        """(address, kind) on the site, or None when the target is not there. The kinds are page,
        code, file and external."""
        scheme, _, rest = uri.partition(":")
        if scheme in ("reference", "documentation", "changes"):
            path, _, line = rest.partition("#")
            if not self.out:
                return None
            if scheme == "changes":
                return self.relative(changes_file(path)), "code"
            file = self.reference.file(path, source=scheme == "reference")
            if file is None:
                return None
            anchor = f"#l{int(line):05d}" if line else ""
            return self.relative(f"reference/{file}{anchor}"), "code"
        if OTHER_SITE.match(uri):
            return uri, "external"
        path, _, anchor = uri.partition("#")
        target = urllib.parse.unquote(path).lstrip("/")  # GithubMarkdown begins it at the root
        if (self.root / target).is_dir():
            readme = posixpath.normpath(posixpath.join(target, "README.md"))
            if readme in self.pages:
                target = readme
        if target in self.pages:
            address = self.app.builder.get_relative_uri(self.docname, self.pages[target])
            if self.single:
                return "#document-" + self.pages[target], "page"
            if target == self.page and anchor:
                return "#" + anchor, "page"
            return address + (f"#{anchor}" if anchor else ""), "page"
        if self.out:
            line = re.match(r"L(\d+)", anchor)
            file = self.reference.file(target, source=True)
            if file:
                mark = f"#l{int(line[1]):05d}" if line else ""
                return self.relative(f"reference/{file}{mark}"), "code"
            if (self.root / target).is_dir():
                folder = self.reference.folder(target)
                if folder:
                    return self.relative(f"reference/{folder}"), "code"
            repository = self.app.config.html_context["repository"]
            if repository:
                return f"{repository}/blob/main/{target}", "file"
            if (self.root / target).is_file():
                copy = pathlib.Path(self.app.outdir) / "files" / target
                copy.parent.mkdir(parents=True, exist_ok=True)
                if not copy.exists() or copy.stat().st_mtime < (self.root / target).stat().st_mtime:
                    shutil.copyfile(self.root / target, copy)
                return self.relative(f"files/{target}"), "file"
        if not (self.root / target).exists():
            LOG.warning("the link %s leads to no file", uri.lstrip("/"), location=self.docname)
        return None


def resolve_links(app, doctree, docname):
    """Every link of a page, and the names with a namespace in its text."""
    links = Links(app, docname)
    for reference in list(doctree.findall(nodes.reference)):
        uri = reference.get("refuri")
        if not uri or reference.get("internal"):
            continue
        found = links.resolve(uri)
        if found is None:
            reference.replace_self(list(reference.children))
            continue
        reference["refuri"] = found[0]
        reference["internal"] = found[1] == "page"
        if found[1] == "code":
            reference["classes"].append("code-link")
    if not links.out:
        for raw in list(doctree.findall(nodes.raw)):
            if "results-filter" in raw["classes"]:
                raw.parent.remove(raw)
        for caption in doctree.findall(nodes.paragraph):
            if "listing-caption" in caption["classes"]:  # the file and its lines
                first = next((i for i, part in enumerate(caption) if part == " · "), len(caption))
                del caption[first:]
        return
    for literal in list(doctree.findall(nodes.literal)):
        if isinstance(literal.parent, nodes.reference):
            continue
        file = app.course_reference.symbol(literal.astext())
        if file:
            wrapped = nodes.reference("", "", refuri=links.relative(f"reference/{file}"))
            literal.replace_self(wrapped)
            wrapped += literal


def changes_file(path):
    """The page of the difference between a step and the one before."""
    return "changes/" + path.removesuffix(".cuh") + ".html"


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


def add_toctrees(app, docname, source):
    """Gives the front page and the maps the navigation below them, and each task its chapter and
    its commands."""
    root = pathlib.Path(app.srcdir)

    def toctree(members, *options):
        names = "\n".join("/" + navigation.docname(page) for page in members)
        lines = "\n".join((":hidden:", *options))
        return f"\n\n```{{toctree}}\n{lines}\n\n{names}\n```\n"

    page = page_of(app.env, docname)
    if page == navigation.FRONT:
        if repository := app.config.html_context["repository"]:
            source[0] = source[0].replace(CLONE, f"`git clone {repository}`. In its folder:", 1)
        for title, members in navigation.groups(root):
            source[0] += toctree(members, f":caption: {title}")
    elif members := navigation.below(root, page):
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
    linked_back(app.course_reference, pathlib.Path(app.outdir) / "reference", explained)


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
    context["body"] = SIZED.sub(r'\1 width="\2" height="\3"', context.get("body", ""))


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
    """The book: its list of files says which of them have formulas, as EPUB 3 demands."""

    def build_content(self):
        super().build_content()
        book = pathlib.Path(self.outdir)
        content = book / "content.opf"

        def item(match):
            page = book / urllib.parse.unquote(match[1])
            formulas = page.is_file() and "<math" in page.read_text(encoding="utf-8")
            return match[0] + (' properties="mathml"' if formulas else "")

        text = content.read_text(encoding="utf-8")
        text = re.sub(r'href="([^"]*\.xhtml)" media-type="[^"]*"(?= />)', item, text)
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
    app.connect("build-finished", link_reference)
    search_index.setup(app)
    slides.setup(app)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
