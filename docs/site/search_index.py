"""The index of the site's search: every section of every page with its text, the terms of the
glossary with where they are taught, and the names of the reference. A script that works from files,
without a server; theme/static/search.js reads it."""

import json
import pathlib
import re

from docutils import nodes

from docs.site import navigation

LIMIT = 20000  # characters of one section; longer ones are printed tables
GLOSSARY = "docs/glossary.md"
OWN = {  # pages that are groups of their own
    navigation.FRONT: "Front page",
    "docs/quiz.md": "Quiz",
    "docs/errata.md": "Errata",
    "docs/results/comparison.md": "Comparison",
}
RESULTS = "docs/results/"
UNREAD = {"printed-source", "printed-origin", "listing-caption"}  # where something comes from
KINDS = {"class", "struct", "function", "enum"}


# Formulas as one writes them in a mail. What is not here keeps its name: \\alpha is alpha.
SIGNS = {
    "cdot": " · ", "times": " × ", "le": " ≤ ", "ge": " ≥ ", "ne": " ≠ ", "to": " → ",
    "approx": " ≈ ", "infty": "∞", "sum": "Σ ", "sqrt": "√", "in": " ∈ ", "pm": " ± ", "dots": "…",
    "partial": "∂", "top": "T", "odot": " ∘ ", "lfloor": "⌊", "rfloor": "⌋", "quad": " ",
    "qquad": " ", "lceil": "⌈", "rceil": "⌉", "ll": " ≪ ", "gg": " ≫ ",
    "leftarrow": " ← ", "mid": " | ", "varepsilon": "ε",
}  # fmt: skip
GROUP = r"\{((?:[^{}]|\{[^{}]*\})*)\}"
DROPPED = re.compile(r"\\(?:text|mathrm|mathbf|mathbb|operatorname|left|right|big|Big|bigl|bigr)\b")

TRANSPOSED = re.compile(r"\^(?:\{\s*(?:\\mathrm\{T\}|\\top)\s*\}|\\top\b)")
ROOT = re.compile(rf"\\sqrt(?:\[(?P<degree>\d)\])?\s*(?:{GROUP}|(?P<one>\w))")
ROOTS = {"3": "∛", "4": "∜"}


def root_sign(match):
    """A root: √d, √(a + b), ∛x."""
    below = match[2] if match["one"] is None else match["one"]
    below = re.sub(r"^\\([A-Za-z]+)$", lambda name: SIGNS.get(name[1], name[1]), below.strip())
    return ROOTS.get(match["degree"], "√") + (
        below if re.fullmatch(r"\w+", below) else f"({below})"
    )


def readable(tex):
    """A formula without TeX's commands."""
    text = re.sub(r"\\(?:begin|end)\{\w+\*?\}", " ", tex)
    text = TRANSPOSED.sub("ᵀ", text)
    text = ROOT.sub(root_sign, text)
    text = DROPPED.sub("", text)
    for _ in range(3):  # fractions stand in fractions
        text = re.sub(rf"\\[dt]?frac{GROUP}{GROUP}", r"(\1) / (\2)", text)
        text = re.sub(r"\{(\{\w+\})\}", r"\1", text)
        text = re.sub(r"([_^])\{(\w+)\}", r"\1\2", text)
        text = re.sub(r"([_^])\{([^{}]*)\}", r"\1(\2)", text)
    text = re.sub(r"\((\w+)\) / \((\w+)\)", r"\1 / \2", text)
    text = re.sub(r"\\([A-Za-z]+)", lambda name: SIGNS.get(name[1], f" {name[1]} "), text)
    return " ".join(re.sub(r"\\.|[{}&~$\\]", " ", text).split())


def text_of(node):
    """(text, code) of what stands in a node, without subsections. Tables count as code: they are
    found, but no excerpt shows their figures."""
    words, code = [], []

    def walk(node, words):
        for child in node.children:
            if isinstance(child, nodes.literal_block):
                code.append(child.astext())
            elif isinstance(child, (nodes.section, nodes.title, nodes.raw, nodes.comment)):
                continue
            elif isinstance(child, nodes.Text):
                words.append(str(child))
            elif isinstance(child, (nodes.math, nodes.math_block)):
                words.append(f" {readable(child.astext())} ")
            elif not UNREAD.intersection(child.get("classes", ())):
                into = code if isinstance(child, nodes.table) else words
                if not isinstance(child, nodes.Inline):
                    into.append(" ")
                walk(child, into)

    walk(node, words)
    return [" ".join("".join(part).split())[:LIMIT] for part in (words, code)]


def index(env):
    """The pages: [address, title, group, [[anchor, heading, text, code], ...]]."""
    found = []
    root = pathlib.Path(env.srcdir)
    group_of = {}
    for title, members in navigation.groups(root):
        for page in members:
            for name in navigation.branch(root, page):
                group_of[name] = title
    for page in navigation.pages(root):
        if "/exercises/" in page:
            group_of[page] = "Exercises"
        elif page.startswith(RESULTS):
            group_of[page] = "Results"
    group_of.update(OWN)
    for page in navigation.pages(root):
        doctree = env.get_doctree(navigation.docname(page))
        sections = []
        for section in doctree.findall(nodes.section):
            heading = section.next_node(nodes.title)
            sections.append([section["ids"][0], heading.astext(), *text_of(section)])
        if page == GLOSSARY:
            del sections[1:]  # its terms are found by terms()
        title = sections[0][1] if sections else page
        found.append([navigation.html_file(page), title, group_of[page], sections])
    return found


def taught(section):
    """Where the links of a term's entry lead: the places that teach it, the first one first."""
    for reference in section.findall(nodes.reference):
        path, mark, anchor = reference.get("refuri", "").partition("#")
        if path.startswith("/") and path.endswith(".md"):
            yield navigation.html_file(path[1:]) + mark + anchor


def terms(env):
    """The glossary: [term, what it means, address, [where it is taught, ...]]."""
    if navigation.docname(GLOSSARY) not in env.found_docs:
        return []
    found = []
    for section in env.get_doctree(navigation.docname(GLOSSARY)).findall(nodes.section):
        if isinstance(section.parent.parent, nodes.section):  # a term under its letter
            name = section.next_node(nodes.title).astext()
            address = f"{navigation.html_file(GLOSSARY)}#{section['ids'][0]}"
            text = text_of(section.next_node(nodes.paragraph))[0]
            found.append([name, text, address, list(taught(section))])
    return found


def sources(reference):
    """The sources of kernels and lessons: [path, page]."""
    return [
        [path, page]
        for path in sorted(reference.files)
        if pathlib.PurePath(path).suffix in (".cuh", ".cu", ".cpp", ".hpp")
        and "tests" not in path.split("/")
        and "exercises" not in path.split("/")
        and (page := reference.file(path))
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
