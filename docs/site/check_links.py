"""Checks that every relative link and every #anchor in Markdown files of the repository resolves,
and that no page of theory is called a chapter: the lessons have chapters.

Links to other sites are not visited.
"""

import os
import pathlib
import re
import urllib.parse

from docs.site.excerpts import markdown_files, read_lines
from docs.site.markdown import Page

THEORY = re.compile(r"\[[Cc]hapter \d+\]\((?:[^)]*/)?theory/")


class Checker:
    """Knows the links and anchors of every page that was looked at."""

    def __init__(self, root):
        self.root = root
        self.pages = {}

    def page(self, path):
        """A page, read once."""
        if path not in self.pages:
            self.pages[path] = Page("\n".join(read_lines(path)))
        return self.pages[path]

    def fault(self, page, target):
        """What is wrong with a link on a page: a message, or None."""
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", target) or target.startswith("//"):
            return None  # another site
        path, _, anchor = target.partition("#")
        path, anchor = urllib.parse.unquote(path.split("?", 1)[0]), urllib.parse.unquote(anchor)
        if not path:
            full = page
        else:
            base = self.root if path.startswith("/") else page.parent  # GitHub: / is the repository
            full = pathlib.Path(os.path.normpath(base / path.lstrip("/")))
        if full != self.root and self.root not in full.parents:
            return f"the link {target} leaves the repository."
        if not full.exists():
            return f"the link {target} leads to no file."
        if not anchor:
            return None
        if full.is_dir():
            full = full / "README.md"
            if not full.is_file():
                return f"the link {target} has an anchor, but the directory has no README.md."
        if full.suffix.lower() == ".md":
            known = self.page(full).anchors
            if anchor in known:
                return None
            near = sorted(a for a in known if a.replace("-", "") == anchor.lower().replace("-", ""))
            hint = f" Meant is perhaps #{near[0]}." if near else ""
            return f"the link {target} leads to no heading of {full.relative_to(self.root)}.{hint}"
        lines = re.fullmatch(r"L(\d+)(?:-L(\d+))?", anchor)
        if not lines:
            return (
                f"the link {target} has an anchor, but {full.name} is no Markdown page "
                "(lines are #L10-L20)."
            )
        count = len(full.read_bytes().splitlines())
        if not 1 <= int(lines[1]) <= int(lines[2] or lines[1]) <= count:
            return f"the link {target} names lines that {full.name} does not have; it has {count}."
        return None


def faults(root):
    """Checks the links of all Markdown files."""
    checker, links, count = Checker(root), 0, 0
    for page in markdown_files(root):
        count += 1
        name = page.relative_to(root)
        try:
            for number, line in enumerate(read_lines(page), 1):
                if match := THEORY.search(line):
                    yield f"{name}:{number}: {match[0]}...) is a page of theory, not a chapter."
            for line, target in sorted(checker.page(page).links):
                links += 1
                if sentence := checker.fault(page, target):
                    yield f"{name}:{line + 1}: {sentence}"
        except ValueError as error:
            yield f"{name}: {error}."
    if count == 0:
        raise ValueError(f"there is no Markdown file below {root}.")
    return f"{count} pages, {links} links"
