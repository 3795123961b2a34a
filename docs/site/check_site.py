"""Checks the finished site: every page is there, every link and anchor of pages and reference
resolves, also those in style sheets, every namespace has a description (Doxygen misses no
description of a name whose namespace has none), and the reference is small. And Doxygen had
nothing to say, except that a field or a member type has no comment: a group of trivial ones needs
one comment, or none. Sphinx fails by itself when it has something to say.
"""

import html.parser
import os
import re
import urllib.parse

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


def faults(root, site):
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
