"""The reference of the code as Doxygen writes it: which file describes what, from its tag file; and
what the site changes of its pages."""

import html
import pathlib
import re
import xml.etree.ElementTree as tree


class Reference:
    """The pages of the reference. Without a tag file it is empty."""

    def __init__(self, tags, root):
        self.files, self.symbols, self.folders = {}, {}, {}
        self.kinds = {}  # of symbols
        if not tags or not pathlib.Path(tags).is_file():
            return
        for compound in tree.parse(tags).getroot().iter("compound"):
            kind = compound.get("kind")
            name, file = compound.findtext("name"), compound.findtext("filename", "")
            if kind == "file":
                path = pathlib.Path(compound.findtext("path", "")) / name
                if path.is_absolute():
                    path = path.relative_to(root)
                self.files[path.as_posix()] = file.removesuffix(".html")
            elif kind == "dir":
                path = pathlib.Path(compound.findtext("path", name))
                if path.is_absolute():
                    path = path.relative_to(root)
                self.folders[path.as_posix()] = file
            elif kind in ("class", "struct", "namespace"):
                self.symbols[name], self.kinds[name] = file, kind
                for member in compound.iter("member"):
                    address = f"{member.findtext('anchorfile')}#{member.findtext('anchor')}"
                    whole = f"{name}::{member.findtext('name')}"
                    self.symbols.setdefault(whole, address)
                    self.kinds.setdefault(whole, member.get("kind"))

    def file(self, path, source):
        """The page of a file: its source, or its documentation; None when it has none."""
        stem = self.files.get(path)
        return stem and f"{stem}{'_source' if source else ''}.html"

    def folder(self, path):
        """The page of a folder, or None."""
        return self.folders.get(path)

    def symbol(self, text):
        """The description of a name that is written with its namespace, fa::name or fa::name()."""
        name = text.removesuffix("()")
        return self.symbols.get(name) if name.startswith("fa::") else None

    def names(self, kinds):
        """[(name, page)] of the symbols of these kinds, in order."""
        return sorted(
            (name, file) for name, file in self.symbols.items() if self.kinds[name] in kinds
        )


# In the source of a file Doxygen links every word that is also the name of a function or a field
# anywhere. Links to files, classes and, by the line numbers, to what is defined there are right.
GUESSED = re.compile(r'<a class="code(?: hl_\w+)?" href="[^"#]*#[^"]*">(.*?)</a>')
CONTENTS = '<div class="contents">\n'
LINKS = re.compile(r'<p class="course-links">.*?</p>\n')


def linked_back(reference, directory, explained):
    """Takes the guessed links out of the sources, and links each file to where the course explains
    it; explained: {path of a file: [(address from the site's root, title), ...]}."""
    for path in reference.files:
        links = ", ".join(
            f'<a href="../{html.escape(address)}">{html.escape(title)}</a>'
            for address, title in explained.get(path, [])
        )
        line = f'<p class="course-links">In the course: {links}</p>\n' if links else ""
        for source in (False, True):
            file = directory / reference.file(path, source)
            if not file.is_file():
                continue
            text = LINKS.sub("", file.read_text(encoding="utf-8"))
            text = GUESSED.sub(r"\1", text) if source else text
            file.write_text(text.replace(CONTENTS, CONTENTS + line, 1), encoding="utf-8")
