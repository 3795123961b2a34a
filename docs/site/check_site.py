"""Checks the finished site: every page is there, every link and anchor of pages and reference
resolves, also those in style sheets, every namespace has a description (Doxygen misses no
description of a name whose namespace has none), and the reference is small. And Doxygen had
nothing to say, except that a field or a member type has no comment: a group of trivial ones
needs one comment, or none. Sphinx fails by itself when it has something to say.

The EPUB is checked by the rules that it has broken before: one identifier, a cover, every file
in the list and no other, pages that are XML, nothing that a page or a style sheet names and the
book lacks, and no style of pages that reading programs refuse. Where the program epubcheck is
installed, it checks the rest.
"""

import html.parser
import os
import posixpath
import re
import shutil
import subprocess
import urllib.parse
import xml.etree.ElementTree
import zipfile

from docs.site import navigation
from docs.site.excerpts import read_lines
from docs.site.reference import Reference

SOURCES = "[0-9][0-9]_*", "common"
NOT_IN_REFERENCE = {"tests", "exercises", "data", "cuda"}  # as EXCLUDE_PATTERNS in Doxyfile.in


class Page(html.parser.HTMLParser):
    """The anchors and the local links of one HTML file."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links = set(), []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.anchors.update(given[k] for k in ("id", "name") if given.get(k))
        for key in ("href", "src", "data"):
            url = given.get(key)
            if url and not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:|//", url):
                self.links.append((self.getpos()[0], url))


# What a style sheet loads.
IN_STYLE = re.compile(r"""url\(\s*["']?(?!data:|https?:|#)([^"')\s]+)["']?\s*\)""")


def in_styles(directory):
    """Yields (file, line number, url) for each link in style sheets."""
    for path in sorted(directory.glob("**/*.css")):
        name = path.relative_to(directory).as_posix()
        for number, line in enumerate(path.read_text("utf-8", "replace").split("\n"), 1):
            yield from ((name, number, match[1]) for match in IN_STYLE.finditer(line))


def too_large(reference):
    """Yields what is larger than a reader's patience."""
    sizes = {path: path.stat().st_size for path in reference.rglob("*") if path.is_file()}
    for path, size in sizes.items():
        if size > LARGEST:
            yield f"reference/{path.name} has {size / 1e3:.0f} KB; allowed are {LARGEST / 1e3:.0f}."
    if sum(sizes.values()) > ALL:
        yield f"the reference has {sum(sizes.values()) / 1e6:.1f} MB; allowed are {ALL / 1e6:.0f}."


def namespaces(root):
    """Yields (header, line number, name) for each namespace that the reference's headers open."""
    for pattern in SOURCES:
        for path in sorted(root.glob(f"{pattern}/**/*.[hc]*")):
            header = path.relative_to(root)
            if path.suffix not in (".hpp", ".cuh") or NOT_IN_REFERENCE.intersection(header.parts):
                continue
            for number, line in enumerate(read_lines(path), 1):
                match = re.match(r"\s*(?:inline )?namespace ([\w:]+) *\{", line)
                if match and match[1].rsplit("::", 1)[-1] != "detail":
                    # The Doxyfile says what the macro means in the reference.
                    yield header, number, match[1].replace("FA_TARGET", "on_gpu")


LARGEST, ALL = 300_000, 10_000_000  # bytes: of a page of the reference, of all
TRIVIAL = re.compile(r"Member .+ \((variable|typedef)\) of (struct|class) .+ is not documented")


def site(root, site):
    """Checks the finished site."""
    warnings = site.parent / "warnings.txt"
    if warnings.exists():
        lines = warnings.read_text("utf-8", "replace").splitlines()
        yield from (line for line in lines if not TRIVIAL.search(line))
    pages = {path.relative_to(site).as_posix(): Page(path) for path in sorted(site.rglob("*.html"))}
    for page in navigation.pages(root):
        if navigation.html_file(page) not in pages:
            yield f"{page} is not on the site: there is no {navigation.html_file(page)}."
    for page in navigation.unlisted(root):
        yield f"{page} is not in the navigation; docs/site/navigation.py has its groups."
    yield from too_large(site / "reference")
    known = Reference(site.parent / "xml", root).namespaces
    for header, number, name in namespaces(root):
        if not any(f"::{full}".endswith(f"::{name}") for full in known):
            yield (
                f"{header}:{number}: the namespace {name} has no description; "
                "docs/site/namespaces.dox is a place for it."
            )
    links = [(name, line, url) for name, page in pages.items() for line, url in page.links]
    for name, line, url in links + list(in_styles(site)):
        path, _, anchor = urllib.parse.unquote(url).partition("#")
        path = path.split("?", 1)[0]
        path = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
        if not (site / path).exists():
            yield f"{name}:{line}: the link {url} leads to no file."
        elif anchor and path in pages and anchor not in pages[path].anchors:
            yield f"{name}:{line}: the link {url} leads to no anchor."
    return f"{site}: {len(pages)} files, {len(navigation.pages(root))} pages"


OPF, NCX = "content.opf", "toc.ncx"
SPECIAL = {"mimetype", OPF, "META-INF/container.xml"}


def package_faults(names, opf, ncx):
    """Yields what is wrong with the list of files."""
    uid = re.search(r'unique-identifier="([^"]*)"', opf)
    said = uid and re.search(rf'<dc:identifier[^>]*id="{re.escape(uid[1])}"[^>]*>([^<]+)<', opf)
    if not said:
        yield "the book has no identifier."
    elif f'name="dtb:uid" content="{said[1]}"' not in ncx:
        yield f"{NCX} has another identifier than {OPF}, {said[1]}."
    if 'properties="cover-image"' not in opf:
        yield "no file of the list is the cover."
    ids = set(re.findall(r'<item [^>]*\bid="([^"]*)"', opf))
    for reference in re.findall(r'<itemref [^>]*idref="([^"]*)"', opf):
        if reference not in ids:
            yield f"{OPF}: the order names {reference}, which the list has not."
    listed = {urllib.parse.unquote(name) for name in re.findall(r'<item [^>]*href="([^"]*)"', opf)}
    for name in sorted(listed - names):
        yield f"{OPF}: there is no file {name}."
    for name in sorted(names - listed - SPECIAL):
        yield f"{OPF}: {name} is not in the list."


def book_page_faults(texts, names):
    """Yields pages that are no XML, and what they name and the book lacks."""
    pages = {}
    for name, text in texts.items():
        try:
            pages[name] = xml.etree.ElementTree.fromstring(text)
        except xml.etree.ElementTree.ParseError as error:
            yield f"{name} is no XML: {error}."
    ids = {name: {element.get("id") for element in page.iter()} for name, page in pages.items()}
    for name, page in pages.items():
        for element in page.iter():
            url = element.get("href") or element.get("src") or element.get("srcset") or ""
            if not url or re.match(r"[a-z][a-z+.-]*:", url):
                continue
            path, _, anchor = urllib.parse.unquote(url).partition("#")
            folder = posixpath.dirname(name)
            path = posixpath.normpath(posixpath.join(folder, path)) if path else name
            if path not in names:
                yield f"{name}: there is no {path}."
            elif anchor and path in ids and anchor not in ids[path]:
                yield f"{name}: {path} has no place {anchor}."


def style_faults(name, text, names):
    """Yields what is wrong with a style sheet."""
    for url in re.findall(r"""url\(\s*["']?(?![a-z]+:|#)([^"')?#]+)""", text):
        if posixpath.normpath(posixpath.join(posixpath.dirname(name), url)) not in names:
            yield f"{name}: there is no {url}."
    if re.search(r"@(?:top|bottom|left|right)-\w+", text):
        yield f"{name}: boxes in the margin of a page are for paper."


def epub(epub):
    """Checks an EPUB."""
    try:
        with zipfile.ZipFile(epub) as book:
            texts = {
                name: book.read(name).decode("utf-8")
                for name in book.namelist()
                if name.endswith((".css", ".opf", ".ncx", ".xhtml"))
            }
            names = {name for name in book.namelist() if not name.endswith("/")}
    except zipfile.BadZipFile as error:
        raise ValueError(f"{epub} is not an EPUB") from error
    yield from package_faults(names, texts.get(OPF, ""), texts.get(NCX, ""))
    pages = {name: text for name, text in texts.items() if name.endswith(".xhtml")}
    yield from book_page_faults(pages, names)
    for name, text in texts.items():
        if name.endswith(".css"):
            yield from style_faults(name, text, names)
    checked = "epubcheck is not installed"
    if program := shutil.which("epubcheck"):
        done = subprocess.run([program, "--quiet", epub], capture_output=True, text=True)
        checked = "also by epubcheck"
        yield from (
            line for line in done.stderr.splitlines() if line.startswith(("ERROR", "FATAL"))
        )
    return f"{epub}: {len(names)} files ({checked})"
