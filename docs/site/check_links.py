"""Checks that every relative link and every #anchor in Markdown files of the repository resolves,
on GitHub as on the site. Links to other sites: ./learn docs --links.

    python3 -m docs.site.check_links --root .

Exit status: 0 all links are right, 1 some are not.
"""

import argparse
import functools
import os
import pathlib
import re
import sys
import urllib.parse

from markdown_it import MarkdownIt
from mdit_py_plugins.anchors import anchors_plugin

from docs.site.excerpts import markdown_files, read_lines

READER = (
    MarkdownIt("commonmark").enable(["table", "strikethrough"]).use(anchors_plugin, max_level=6)
)
IN_HTML = re.compile(r'<[^>]*\b(href|src|srcset|id|name)="([^"]+)"')


@functools.cache
def read(path):
    """([(line, target)], anchors) of a page."""
    defined = {}
    tokens = READER.parse("\n".join(read_lines(path)), defined)
    links = [(of["map"][0], of["href"]) for of in defined.get("references", {}).values()]
    anchors, line = set(), 0
    for token in tokens:
        line = token.map[0] if token.map else line
        anchors.add(token.attrGet("id"))
        for child in (token, *(token.children or ())):
            if child.type in ("html_block", "html_inline"):
                for name, value in IN_HTML.findall(child.content):
                    if name in ("id", "name"):
                        anchors.add(value)
                    else:
                        links.append((line, value))
            links += [(line, child.attrs[key]) for key in ("href", "src") if key in child.attrs]
    return links, anchors


def fault(root, page, target):
    """What is wrong with a link on a page: a message, or None."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:|//", target):
        return None  # another site
    path, _, anchor = urllib.parse.unquote(target).partition("#")
    base = root if path.startswith("/") else page.parent  # GitHub: / is the repository
    path = path.split("?", 1)[0].lstrip("/")
    full = pathlib.Path(os.path.normpath(base / path)) if path else page
    if full != root and root not in full.parents:
        return f"the link {target} leaves the repository."
    if not full.exists():
        return f"the link {target} leads to no file."
    if full.is_dir():
        full /= "README.md"
    if anchor and full.suffix.lower() == ".md":
        if not full.is_file() or anchor not in read(full)[1]:
            return f"the link {target} leads to no heading of {full.relative_to(root)}."
    elif anchor:
        lines = re.fullmatch(r"L(\d+)(?:-L(\d+))?", anchor)
        count = len(full.read_bytes().splitlines())
        if not lines or not 1 <= int(lines[1]) <= int(lines[2] or lines[1]) <= count:
            return f"the link {target} names no lines of {full.name} (#L10-L20); it has {count}."
    return None


def main(arguments=None):
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description="Check links in Markdown files.")
    parser.add_argument("--root", required=True, type=pathlib.Path, help="the repository")
    root = parser.parse_args(arguments).root.resolve()
    faults = pages = count = 0
    for page in markdown_files(root):
        pages += 1
        try:
            for line, target in sorted(read(page)[0]):
                count += 1
                if sentence := fault(root, page, target):
                    faults += 1
                    print(f"{page.relative_to(root)}:{line + 1}: {sentence}")
        except ValueError as error:
            faults += 1
            print(f"{page.relative_to(root)}: {error}.")
    print(f"{pages} pages, {count} links, {faults} faults.")
    return 1 if faults or not pages else 0


if __name__ == "__main__":
    sys.exit(main())
