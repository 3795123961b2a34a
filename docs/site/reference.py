"""The reference of the code as Doxygen writes it: which file describes what, from its tag file; and
what the site changes of its pages."""

import html
import json
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


# Lists of all names by their first letters, and of what a class inherits: the search finds a name,
# and the page of a class has its members.
LEFT_OUT = re.compile(
    r"(?:functions|globals|namespacemembers|hierarchy|classes|inherits)\w*\.(?:html|js)"
    r"|.+-members\.html"
)
ALL_MEMBERS = re.compile(r'<a href="[^"]*-members\.html">[^<]*</a>')
SEARCH_FIELD = 'id="MSearchField"'
KEY = re.compile(r"([{,])(text|url|children):")
START = re.compile(r'(<div class="contents">\n)<div class="textblock">.*?</div>(?=</div>)', re.S)


def kept(entry):
    """An entry of a menu without what is left out; None where nothing remains of it."""
    if isinstance(entry, dict):
        entry = dict(entry)
        children = entry.get("children")
        if LEFT_OUT.fullmatch(entry.get("url", "").split("#")[0]):
            return None
        if children is not None:
            entry["children"] = [child for child in map(kept, children) if child]
        return entry
    name, address, children = entry
    if address and LEFT_OUT.fullmatch(address.split("#")[0]):
        return None
    if isinstance(children, list):
        children = [child for child in map(kept, children) if child]
    return [name, address, children]


def trimmed_menus(directory):
    """Takes what is left out of the scripts of the navigation."""
    for index in directory.glob("navtreeindex*.js"):
        lines = index.read_text(encoding="utf-8").split("\n")
        named = (re.match(r'"([^"#]*)', line) for line in lines)
        lines = [
            line
            for line, name in zip(lines, named)
            if not (name and LEFT_OUT.fullmatch(name[1]) and ":[" in line)
        ]
        text = re.sub(r",\s*\};", "\n};", "\n".join(lines))
        index.write_text(text, encoding="utf-8")
    tree = directory / "navtreedata.js"
    if tree.is_file():
        text = tree.read_text(encoding="utf-8")
        begin = text.index("[", text.index("var NAVTREE"))
        end = text.index("];", begin) + 1
        entries = [kept(entry) for entry in json.loads(text[begin:end])]
        rest = text[end:]
        # The first page of each index, by which the reference finds the index of a page.
        for number, name in enumerate(re.findall(r'^"(\S+\.html[^"]*)",?$', rest, re.M)):
            index = directory / f"navtreeindex{number}.js"
            first = re.search(r'^"([^"]+)":\[', index.read_text("utf-8"), re.M)
            if first:
                rest = rest.replace(f'"{name}"', f'"{first[1]}"', 1)
        tree.write_text(text[:begin] + json.dumps(entries, indent=0) + rest, "utf-8")
    menu = directory / "menudata.js"
    if menu.is_file():
        text = menu.read_text(encoding="utf-8")
        begin = text.index("{", text.index("var menudata"))
        data = kept(json.loads(KEY.sub(r'\1"\2":', text[begin:].replace("\n", ""))))
        menu.write_text(f"{text[:begin]}{json.dumps(data)}\n", encoding="utf-8")


def finished(directory):
    """What the site changes of all pages: names for readers of the screen, and what nobody looks up
    is left out."""
    for file in [*directory.glob("*.html"), *directory.glob("*.js")]:
        if LEFT_OUT.fullmatch(file.name):
            file.unlink()
            continue
        text = file.read_text(encoding="utf-8")
        new = text.replace(SEARCH_FIELD, f'{SEARCH_FIELD} aria-label="Search the reference"')
        new = new.replace('<div id="doc-content">', '<div id="doc-content" role="main">')
        new = new.replace(
            '<div class="title">', '<div class="title" role="heading" aria-level="1">'
        )
        new = ALL_MEMBERS.sub("", new)
        if new != text:
            file.write_text(new, encoding="utf-8")
    trimmed_menus(directory)


def start_page(reference, directory, titles):
    """The start page: each lesson with its rungs and its other sources, then what lessons share;
    titles: {folder of a lesson: (address from the site's root, title)}."""
    page = directory / "index.html"
    if not page.is_file():
        return
    groups = {}
    for path in sorted(reference.files):
        top, *folders = path.split("/")
        kind = folders[0] if len(folders) > 1 else ""
        key = top if top in titles else f"{top}/{kind}".rstrip("/")
        groups.setdefault(key, {}).setdefault(kind if top in titles else "", []).append(path)

    def listed(paths):
        links = (
            f'<a href="{reference.file(path, True)}">{html.escape(path.rsplit("/", 1)[1])}</a>'
            for path in paths
        )
        return f'<p class="sources">{", ".join(links)}</p>'

    made = ['<p><a href="../index.html">The course: lessons, theory, exercises</a></p>']
    for key, kinds in sorted(groups.items(), key=lambda entry: (entry[0] not in titles, entry[0])):
        if key in titles:
            address, title = titles[key]
            link = f'<a href="../{html.escape(address)}">{html.escape(title)}</a>'
            made.append(f"<h2>Lesson {link}</h2>")
        else:
            made.append(f"<h2><code>{html.escape(key)}</code></h2>")
        for kind, paths in sorted(kinds.items(), key=lambda entry: (entry[0] != "kernels", entry)):
            if kind == "kernels":
                rungs = [path for path in paths if re.match(r"\d\d_", path.rsplit("/", 1)[1])]
                made += ["<h3>The ladder</h3>", listed(rungs)]
                paths = [path for path in paths if path not in rungs]
                kind = "what its rungs share"
            if paths:
                heading = html.escape(kind or "the program")
                made += [f"<h3>{heading}</h3>" if key in titles else "", listed(paths)]
    text = page.read_text(encoding="utf-8")
    block = '<div class="textblock">' + "\n".join(made) + "</div>"
    page.write_text(START.sub(lambda found: found[1] + block, text, count=1), encoding="utf-8")
