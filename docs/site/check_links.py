"""Checks that every relative link and every #anchor in the repository's Markdown files resolves.

Links to other sites are not visited.
Exit status: 0 all resolve, 1 some do not, 2 could not be done.
"""

import argparse
import os
import pathlib
import re
import sys
import urllib.parse

from docs.site import gfm


def pages(root):
    """The Markdown files below root; build directories and .git are left out."""
    for directory, names, files in os.walk(root):
        names[:] = sorted(
            n
            for n in names
            if n != ".git"
            and not (pathlib.Path(directory, n) / "CMakeCache.txt").exists()
            and not (directory == str(root) and re.match(r"build($|-)", n))
        )
        for name in sorted(files):
            if name.lower().endswith(".md"):
                yield pathlib.Path(directory, name)


class Checker:
    """Knows the anchors of every file that was looked at."""

    def __init__(self, root):
        self.root = root
        self.anchors = {}

    def anchors_of(self, path):
        if path not in self.anchors:
            self.anchors[path] = gfm.anchors(gfm.read_lines(path))
        return self.anchors[path]

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
            known = self.anchors_of(full)
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


def main(arguments=None):
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description="Check the links of all Markdown files.")
    parser.add_argument("--root", required=True, type=pathlib.Path, help="the repository")
    root = parser.parse_args(arguments).root.resolve()
    checker, faults, links, count = Checker(root), 0, 0, 0
    try:
        for page in pages(root):
            count += 1
            name = page.relative_to(root)
            try:
                targets = list(gfm.links(gfm.read_lines(page)))
                for line, target in targets:
                    links += 1
                    sentence = checker.fault(page, target)
                    if sentence:
                        faults += 1
                        print(f"{name}:{line + 1}: {sentence}")
            except ValueError as error:
                faults += 1
                print(f"{name}: {error}.")
    except OSError as error:
        print(f"check_links.py: {error}", file=sys.stderr)
        return 2
    if count == 0:
        print(f"check_links.py: there is no Markdown file below {root}.", file=sys.stderr)
        return 2
    print(f"{count} pages, {links} links, {faults} broken.")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
