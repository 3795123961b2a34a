"""Checks the finished site: every page is there, every link and anchor inside it resolves, also
those of the navigation, which are in scripts, and of style sheets, and every namespace has a
description. (Doxygen misses no description of a name whose namespace has none.) And Doxygen had
nothing to say, except that a field or a member type has no comment: a group of trivial ones needs
one comment, or none.

Exit status: 0 all is well, 1 something is missing, 2 could not be done.
"""

import argparse
import html.parser
import pathlib
import re
import sys
import urllib.parse

from docs.site import gfm, gfm2dox


class Page(html.parser.HTMLParser):
    """The anchors, the local links and the text of one HTML file."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links, self.text = set(), [], []
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

    def handle_data(self, data):
        self.text.append(data)


# What a script of the navigation names, and what a style sheet loads.
IN_SCRIPT = re.compile(r"""["']([\w.%-]+\.html(?:#[^"'\s]*)?)["']""")
IN_STYLE = re.compile(r"""url\(\s*["']?(?!data:|https?:|#)([^"')\s]+)["']?\s*\)""")

# Doxygen's tree lists the functions of a file below that file, with anchors that only the page of
# their namespace has. Such a link still opens the right page.
MEMBER = re.compile(r"#a[0-9a-f]{32}(?:a[0-9a-f]{32})?$")


def named_elsewhere(directory):
    """Yields (file name, line number, url) for each link in the scripts and style sheets of the
    site."""
    for pattern, regex in (("*.js", IN_SCRIPT), ("*.css", IN_STYLE)):
        for path in sorted(directory.glob(pattern)):
            for number, line in enumerate(path.read_text("utf-8", "replace").split("\n"), 1):
                for match in regex.finditer(line):
                    yield path.name, number, MEMBER.sub("", match[1])


def namespaces(site):
    """Yields (header, line number, name) for each namespace that the headers on the site open."""
    for directory in site.sources:
        for path in sorted((site.root / directory).rglob("*.[hc]*")):
            header = path.relative_to(site.root).as_posix()
            if path.suffix in (".hpp", ".cuh") and site.has_source(header):
                for number, line in enumerate(gfm.read_lines(path), 1):
                    match = re.match(r"\s*(?:inline )?namespace ([\w:]+) *\{", line)
                    if match and match[1].rsplit("::", 1)[-1] != "detail":
                        # The Doxyfile says what the macro means on the site.
                        yield header, number, match[1].replace("FA_TARGET", "on_gpu")


TRIVIAL = re.compile(r"Member .+ \((variable|typedef)\) of (struct|class) .+ is not documented")


def faults(site):
    """Yields a message for each thing that is missing."""
    warnings = site.html.parent / "warnings.txt"
    if warnings.exists():
        lines = warnings.read_text("utf-8", "replace").splitlines()
        yield from (line for line in lines if not TRIVIAL.search(line))
    pages = {path.name: Page(path) for path in sorted(site.html.glob("*.html"))}
    for page in site.pages:
        file = site.page_file(page)
        if file not in pages:
            yield f"{page} is not on the site: there is no {file}. Did gfm2dox.py run?"
            continue
        lines = gfm.read_lines(site.root / page)
        text = " ".join("".join(pages[file].text).split())
        for heading in gfm.headings(lines):
            words = " ".join(gfm.plain(heading.text).split())
            if words not in text and "--" not in words:  # Doxygen makes dashes of --
                yield f"{page}:{heading.line + 1}: the heading '{words}' is not in {file}."
    for header, number, name in namespaces(site):
        file = name.replace("_", "__").replace("::", "_1_1") + ".html"  # as Doxygen names it
        if not any(re.fullmatch(rf"namespace(?:.*_1_1)?{file}", page) for page in pages):
            yield (
                f"{header}:{number}: the namespace {name} has no description; "
                "docs/site/namespaces.dox is a place for it."
            )
    links = [(name, line, url) for name, page in pages.items() for line, url in page.links]
    for name, line, url in links + list(named_elsewhere(site.html)):
        path, _, anchor = urllib.parse.unquote(url).partition("#")
        path = path.split("?", 1)[0] or name
        if not (site.html / path).exists():
            yield f"{name}:{line}: the link {url} leads to no file."
        elif anchor and path in pages and anchor not in pages[path].anchors:
            yield f"{name}:{line}: the link {url} leads to no anchor."


def main(arguments=None):
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description="Check the finished site.")
    parser.add_argument(
        "--site", required=True, type=pathlib.Path, help="file that lists what is on the site"
    )
    options = parser.parse_args(arguments)
    try:
        site = gfm2dox.Site(options.site)
        found = list(faults(site))
    except (OSError, ValueError) as error:
        print(f"check_site.py: {error}", file=sys.stderr)
        return 2
    for sentence in found:
        print(sentence)
    count = len(list(site.html.glob("*.html")))
    print(f"{site.html}: {count} files, {len(site.pages)} pages, {len(found)} faults.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
