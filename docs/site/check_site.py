"""Checks the finished site: every page is there, every link and anchor of pages and reference
resolves, also those in style sheets and in the reference's navigation, and every namespace has a
description. (Doxygen misses no description of a name whose namespace has none.) And Doxygen had
nothing to say, except that a field or a member type has no comment: a group of trivial ones needs
one comment, or none. Sphinx fails by itself when it has something to say.
"""

import html.parser
import os
import re
import sys
import urllib.parse

from docs.site import checks, navigation
from docs.site.excerpts import read_lines

SOURCES = "[0-9][0-9]_*", "common"
NOT_IN_REFERENCE = {"tests", "exercises", "data", "cuda"}  # as EXCLUDE_PATTERNS in Doxyfile.in


class Page(html.parser.HTMLParser):
    """The anchors and the local links of one HTML file."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links = set(), []
        self.in_summary = (
            False  # Doxygen's own jump list, which also names sections that it left out
        )
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag == "div":
            self.in_summary = given.get("class") == "summary"
        self.anchors.update(given[k] for k in ("id", "name") if given.get(k))
        for key in ("href", "src", "data"):
            url = given.get(key)
            if url and not self.in_summary and not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:|//", url):
                self.links.append((self.getpos()[0], url))


# What a script of the navigation names, and what a style sheet loads.
IN_SCRIPT = re.compile(r"""["']([\w.%-]+\.html(?:#[^"'\s]*)?)["']""")
IN_STYLE = re.compile(r"""url\(\s*["']?(?!data:|https?:|#)([^"')\s]+)["']?\s*\)""")

# Doxygen's tree lists the functions of a file below that file, with anchors that only the page of
# their namespace has. Such a link still opens the right page.
MEMBER = re.compile(r"#a[0-9a-f]{32}(?:a[0-9a-f]{32})?$")
NO_PAGES = "pages.html"  # which its index of the tree has even when there are none


def named_elsewhere(directory):
    """Yields (file, line number, url) for each link in style sheets and the reference's scripts."""
    places = [(directory / "reference", "*.js", IN_SCRIPT), (directory, "**/*.css", IN_STYLE)]
    for folder, pattern, regex in places:
        for path in sorted(folder.glob(pattern)):
            name = path.relative_to(directory).as_posix()
            for number, line in enumerate(path.read_text("utf-8", "replace").split("\n"), 1):
                for match in regex.finditer(line):
                    if match[1] == NO_PAGES:
                        continue
                    yield name, number, MEMBER.sub("", match[1])


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
    for header, number, name in namespaces(root):
        file = name.replace("_", "__").replace("::", "_1_1") + ".html"  # as Doxygen names it
        if not any(re.fullmatch(rf"reference/namespace(?:.*_1_1)?{file}", page) for page in pages):
            yield (
                f"{header}:{number}: the namespace {name} has no description; "
                "docs/site/namespaces.dox is a place for it."
            )
    links = [(name, line, url) for name, page in pages.items() for line, url in page.links]
    for name, line, url in links + list(named_elsewhere(site)):
        path, _, anchor = urllib.parse.unquote(url).partition("#")
        path = path.split("?", 1)[0]
        path = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
        if not (site / path).exists():
            yield f"{name}:{line}: the link {url} leads to no file."
        elif anchor and path in pages and anchor not in pages[path].anchors:
            yield f"{name}:{line}: the link {url} leads to no anchor."
    return f"{site}: {len(pages)} files, {len(navigation.pages(root))} pages"


def main(arguments=None):
    """Returns the exit status."""
    return checks.run("check_site.py", faults, arguments, "html")


if __name__ == "__main__":
    sys.exit(main())
