"""The reference of the code: a page for each source, with what its names mean and the source
itself, and a start page. Doxygen reads the code, and writes what it found as XML."""

import html
import itertools
import pathlib
import posixpath
import re
import xml.etree.ElementTree as tree
from typing import NamedTuple

from pygments.lexers import CppLexer
from pygments.token import Comment, Keyword, Number, String

STYLES = [(Comment.Preproc, "cp"), (Comment.PreprocFile, "cpf"), (Comment, "c1")]
STYLES += [(Keyword.Type, "kt"), (Keyword, "k"), (String, "s"), (Number, "m")]
TYPES = ("class", "struct", "union", "enum", "typedef")
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="stylesheet" href="{up}_static/pygments.css">
<link rel="stylesheet" href="{up}_static/styles/furo.css">
<link rel="stylesheet" href="{up}_static/course.css">
<script src="{up}_static/page.js"></script>
</head>
<body class="reference">
<script>document.body.dataset.theme = localStorage.getItem("theme") || "auto";</script>
<header>
<nav class="crumbs" aria-label="Where this page is">{crumbs}</nav>
<form role="search" action="{up}search.html">
<label>Search <input type="search" name="q"></label></form>
</header>
<main><article>
{body}
</article></main>
</body>
</html>
"""
INTRODUCTION = """<p>Each source of the course has a page here: what its names mean, and the code.
What a lesson teaches begins in its ladder: one step per file, in the order of the chapters.
The search knows every name, with or without its namespace.</p>"""
SHARED = """<p>What several lessons use: <code>common/gpu</code> is the vocabulary of all kernels,
<code>common/attention</code> is what lessons 05 and 06 share, and <code>common/lab</code> runs
kernels on a CPU.</p>"""


class Symbol(NamedTuple):
    """A name: what it is, the file and line of its declaration, and what it means."""

    kind: str
    path: str
    line: int
    brief: str


def described(element):
    """What a comment says first, as text."""
    for part in ("briefdescription", "detaileddescription"):
        found = element.find(part)
        if found is not None and (words := " ".join("".join(found.itertext()).split())):
            return words if part.startswith("brief") else re.split(r"(?<=\.)\s", words)[0]
    return ""


class Reference:
    """What Doxygen found. Without its files it is empty."""

    def __init__(self, folder, root):
        self.files, self.symbols = {}, {}  # path: what it is for; name: Symbol
        self.namespaces = set()  # those with a description
        self.root = root
        for file in sorted(pathlib.Path(folder).glob("*.xml")) if folder else ():
            for compound in tree.parse(file).getroot().iter("compounddef"):
                self.take(compound)

    def path(self, location):
        """The path of a file from the root."""
        path = pathlib.Path(location.get("file"))
        return (path.relative_to(self.root) if path.is_absolute() else path).as_posix()

    def take(self, compound):
        """Takes a file, a namespace or a class, and its members."""
        kind, name = compound.get("kind"), compound.findtext("compoundname")
        if kind == "file" and not name.endswith(".dox"):
            self.files[self.path(compound.find("location"))] = described(compound)
        elif kind == "namespace" and described(compound):
            self.namespaces.add(name)
        elif kind in TYPES:
            self.add(name, compound)
        within = "" if kind == "file" else f"{name}::"
        for member in compound.iter("memberdef"):
            if member.get("prot") != "private":
                self.add(within + member.findtext("name"), member)

    def add(self, name, element):
        place, words = element.find("location"), described(element)
        if words and place is not None and "@" not in name:
            symbol = Symbol(
                element.get("kind"), self.path(place), int(place.get("line", "1")), words
            )
            self.symbols.setdefault(name, symbol)

    def file(self, path, line=0):
        """The page of a file, and a line of it; None when it has none."""
        if path not in self.files:
            return None
        return f"{path}.html" + (f"#l{line}" if line else "")

    def folder(self, path):
        """Where the start page lists the files of a folder, or None."""
        groups = {key for file in self.files for key in groups_of(file)}
        while path and path not in groups:
            path = path.rpartition("/")[0]
        return path and f"index.html#{path}"

    def symbol(self, text):
        """Where a name is declared that is written with its namespace, fa::name or fa::name()."""
        found = self.symbols.get(text.removesuffix("()")) if text.startswith("fa::") else None
        return found and self.file(found.path, found.line)

    def names(self, kinds):
        """[(name, page)] of the symbols of these kinds, in order."""
        return sorted(
            (name, page)
            for name, symbol in self.symbols.items()
            if symbol.kind in kinds and (page := self.file(symbol.path, symbol.line))
        )


def groups_of(path):
    """The groups of the start page that a file belongs to, from the large one: a lesson and one of
    its folders, or a folder of common."""
    top, *folders, _ = path.split("/")
    below = "/".join([top, *folders[:1]])
    return (below,) if top == "common" else tuple(dict.fromkeys((top, below)))


def highlighted(text, page_of):
    """The lines of a source as HTML; page_of(path): the address of what an include names."""
    lines = [[]]
    for kind, value in CppLexer(stripnl=False, ensurenl=False).get_tokens(text):
        style = next((name for token, name in STYLES if kind in token), "")
        for i, words in enumerate(value.split("\n")):
            if i:
                lines.append([])
            made = html.escape(words, quote=False)
            if kind is Comment.PreprocFile and (page := page_of(words.strip('"'))):
                made = f'<a href="{page}">{made}</a>'
            if words.strip() and style:
                made = f'<span class="{style}">{made}</span>'
            lines[-1].append(made)
    if not any(lines[-1]):
        lines.pop()
    return "".join(f'<i id="l{n}"></i>{"".join(line)}\n' for n, line in enumerate(lines, 1))


def source_page(reference, path, links):
    """The page of a source: (title, HTML); links: [(address from the site's root, title)] of where
    the course explains it."""
    up = "../" * (path.count("/") + 1)
    name = path.rpartition("/")[2]
    body = [f"<h1>{name}</h1>", f"<p><code>{path}</code></p>"]
    if words := reference.files[path]:
        body.append(f"<p>{html.escape(words)}</p>")
    if links:
        shown = (f'<a href="{up}{html.escape(a)}">{html.escape(title)}</a>' for a, title in links)
        body.append(f'<p class="course-links">In the course: {", ".join(shown)}</p>')
    own = [(s.line, n, s) for n, s in reference.symbols.items() if s.path == path]
    if own:
        items = (
            f'<li><a href="#l{line}"><code>{html.escape(re.sub(r"^(?:[a-z_]+::)+", "", n))}</code>'
            f"</a> {html.escape(symbol.brief)}</li>"
            for line, n, symbol in sorted(own, key=lambda entry: entry[:2])
        )
        body += ["<h2>Names</h2>", f'<ul class="names">{"".join(items)}</ul>']
    text = (reference.root / path).read_text(encoding="utf-8")

    def page_of(target):
        page = reference.file(target)
        return page and f"{up}reference/{page}"

    body += ["<h2>Source</h2>", '<div class="highlight"><pre class="source">']
    return name, "\n".join(body) + highlighted(text, page_of) + "</pre></div>"


def start_page(reference, titles):
    """The HTML of the start page: each lesson with its rungs and its other sources, then what
    lessons share; titles: {folder of a lesson: (address from the site's root, title)}."""
    groups = {}
    for path in sorted(reference.files):
        groups.setdefault(groups_of(path)[-1], []).append(path)

    def listed(paths):
        paths = list(paths)
        known = [path for path in paths if reference.files[path]]
        items = (
            f'<li><a href="{path}.html">{path.rpartition("/")[2]}</a> '
            f"{html.escape(reference.files[path])}</li>"
            for path in known
        )
        also = ", ".join(
            f'<a href="{path}.html">{path.rpartition("/")[2]}</a>'
            for path in paths
            if path not in known
        )
        made = [f'<ul class="names">{"".join(items)}</ul>'] if known else []
        return made + ([f"<p>Defined in {also}</p>"] if also else [])

    made, lesson = ["<h1>Reference of the code</h1>", INTRODUCTION], ""

    def order(key):
        top, _, kind = key.partition("/")
        return top == "common", top, kind != "kernels", kind

    for key in sorted(groups, key=order):
        top, _, kind = key.partition("/")
        if top in titles and top != lesson:
            lesson, (address, title) = top, titles[top]
            link = f'<a href="../{html.escape(address)}">{html.escape(title)}</a>'
            made.append(f'<h2 id="{top}">Lesson {link}</h2>')
        elif top not in titles:
            made += (
                [] if lesson == "common" else ['<h2 id="common">What lessons share</h2>', SHARED]
            )
            lesson = "common"
            made.append(f'<h3 id="{key}"><code>{key}</code></h3>')
        paths = groups[key]
        if kind == "kernels":
            rungs = [path for path in paths if re.match(r"\d\d_", path.rpartition("/")[2])]
            for folder, steps in itertools.groupby(rungs, posixpath.dirname):
                ladder = "The ladder" + folder.removeprefix(key).replace("/", " of ")
                made += [f'<h3 id="{folder}">{ladder}</h3>', *listed(steps)]
            paths = [path for path in paths if path not in rungs]
            made += ["<h3>What its rungs share</h3>"] if paths else []
        elif top in titles:
            made.append(f'<h3 id="{key}">{kind}</h3>' if kind else "<h3>The program</h3>")
        made += listed(paths)
    return "\n".join(made)


def write(reference, out, explained, titles):
    """Writes the pages; out: the site's folder, explained: {path: [(address, title)]}, titles: as
    start_page() takes them."""
    course = [("index.html", "Course"), ("reference/index.html", "Reference of the code")]
    pages = [("index", "Reference of the code", start_page(reference, titles), course[:1])]
    for path in reference.files:
        title, body = source_page(reference, path, explained.get(path, []))
        lesson = titles.get(path.split("/")[0])
        pages.append((path, title, body, course + ([lesson] if lesson else [])))
    for name, title, body, above in pages:
        up = "../" * (name.count("/") + 1)
        crumbs = ' <span aria-hidden="true">›</span> '.join(
            f'<a href="{up}{html.escape(address)}">{html.escape(words)}</a>'
            for address, words in above
        )
        file = out / "reference" / f"{name}.html"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(PAGE.format(title=title, up=up, crumbs=crumbs, body=body), "utf-8")
