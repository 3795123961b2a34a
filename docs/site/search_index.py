"""The index of the site's search: every section of every page with its text, and the names of the
reference. A script that works from files, without a server; theme/static/search.js reads it."""

import json
import pathlib
import re

from docutils import nodes

from docs.site import navigation

LIMIT = 20000  # characters of one section; longer ones are printed tables
GLOSSARY = "docs/glossary.md"
KINDS = {"class", "struct", "function", "enumeration"}


def own_text(section):
    """(text, code) of a section, without its subsections."""
    words, code = [], []

    def walk(node):
        for child in node.children:
            if isinstance(child, nodes.section):
                continue
            if isinstance(child, nodes.literal_block):
                code.append(child.astext())
            elif isinstance(child, (nodes.title, nodes.raw, nodes.comment)):
                continue
            elif isinstance(child, nodes.Text):
                words.append(str(child))
            else:
                if not isinstance(child, nodes.Inline):
                    words.append(" ")
                walk(child)

    walk(section)
    return [" ".join("".join(words).split())[:LIMIT], " ".join(" ".join(code).split())[:LIMIT]]


def index(env):
    """The pages: [address, title, group, [[anchor, heading, text, code], ...]]."""
    found = []
    root = pathlib.Path(env.srcdir)
    group_of = {navigation.FRONT: "Start here"}
    for title, members in navigation.groups(root):
        for page in members:
            for name in navigation.branch(root, page):
                group_of[name] = "Exercises" if name.endswith("/task.md") else title
    for page in navigation.pages(root):
        doctree = env.get_doctree(navigation.docname(page))
        sections = []
        for section in doctree.findall(nodes.section):
            heading = section.next_node(nodes.title)
            sections.append([section["ids"][0], heading.astext(), *own_text(section)])
        if page == GLOSSARY:
            del sections[1:]  # its terms are found by terms()
        title = sections[0][1] if sections else page
        found.append([navigation.html_file(page), title, group_of[page], sections])
    return found


def terms(env):
    """The glossary: [term, what it means, address]."""
    if navigation.docname(GLOSSARY) not in env.found_docs:
        return []
    found = []
    for section in env.get_doctree(navigation.docname(GLOSSARY)).findall(nodes.section):
        if isinstance(section.parent.parent, nodes.section):  # a term under its letter
            name = section.next_node(nodes.title).astext()
            text = " ".join(section.next_node(nodes.paragraph).astext().split())
            address = f"{navigation.html_file(GLOSSARY)}#{section['ids'][0]}"
            found.append([name, re.sub(r"[\\{}]", "", text), address])  # without TeX's signs
    return found


def sources(reference):
    """The sources of kernels and lessons: [path, page]."""
    return [
        [path, page]
        for path in sorted(reference.files)
        if pathlib.PurePath(path).suffix in (".cuh", ".cu", ".cpp", ".hpp")
        and "tests" not in path.split("/")
        and "exercises" not in path.split("/")
        and (page := reference.file(path, True))
    ]


def write(app, exception):
    """Writes search_data.js."""
    if exception or app.builder.name != "html":
        return
    pages = json.dumps(index(app.env), ensure_ascii=False, separators=(",", ":"))
    reference = app.course_reference
    names = json.dumps([*reference.names(KINDS), *sources(reference)], separators=(",", ":"))
    known = json.dumps(terms(app.env), ensure_ascii=False, separators=(",", ":"))
    text = f"window.coursePages = {pages};\nwindow.courseNames = {names};\n"
    text += f"window.courseTerms = {known};\n"
    (pathlib.Path(app.outdir) / "_static" / "search_data.js").write_text(text, encoding="utf-8")


def page(app):
    """The page of the search."""
    if app.builder.name == "html":
        yield "search", {"title": "Search", "body": "", "toc": ""}, "search.html"


def setup(app):
    """Called by the extension."""
    app.connect("html-collect-pages", page)
    app.connect("build-finished", write)
