"""GitHub's Markdown on the site: formulas, alerts, links and anchors, drawings in their size, and
which tables have sentences."""

import pathlib
import re

from docutils import nodes
from sphinx.transforms import SphinxTransform

from common.drawing import narrow
from docs.site import drawings
from docs.site.links import OTHER_SITE, from_root, page_of

SENTENCE, LONG = 40, 80  # letters: a cell with more is no figure and no name, nor the name of a row
NAMED = 9  # letters: longer names of rows need room on a phone
ALERT = re.compile(r"\[!(NOTE|TIP|IMPORTANT|WARNING|CAUTION)\]\s*")


def phone_form(table):
    """The class of a table on a phone: stacked, each row a block, where it has sentences; named
    where the first column stays and needs room for its names; else none."""
    rows = list(table.next_node(nodes.tbody))
    first = max(len(row[0].astext()) for row in rows)
    later = max((len(cell.astext()) for row in rows for cell in row[1:]), default=0)
    if first >= LONG or later >= SENTENCE:
        return ["stacked"]
    return ["named"] if first >= NAMED else []


def without_way(document):
    """Takes the line of links from the end of a page, behind a rule: the site has its own ways to
    the neighbours and up. Links to lessons stay."""
    box = [document, *document.findall(nodes.section)][-1]
    if len(box) < 2 or not isinstance(box[-2], nodes.transition):
        return
    rule, line = box[-2:]
    if not isinstance(line, nodes.paragraph) or not line.next_node(nodes.reference):
        return
    parts = [[]]
    for node in line.children:
        first, *others = str(node).split("·") if isinstance(node, nodes.Text) else [node]
        parts[-1].append(first)
        parts += [[words] for words in others]
    kept = next((part for part in parts if str(part[0]).startswith("Lesson")), [])
    if kept:
        line[:] = [nodes.Text(node) if isinstance(node, str) else node for node in kept]
    else:
        box.remove(line)
        box.remove(rule)


class GithubMarkdown(SphinxTransform):
    """Formulas, alerts, and anchors of headings as GitHub has them."""

    default_priority = 310

    def apply(self, **_):
        for literal in list(self.document.findall(nodes.literal)):
            self.formula(literal)
        for block in list(self.document.findall(nodes.literal_block)):
            if block.get("language") == "math":
                formula = nodes.math_block("", block.astext(), nowrap=True, number=None, label=None)
                block.replace_self(formula)
            elif block.get("language") == "cuda":
                block["language"] = "cpp"
        for quote in list(self.document.findall(nodes.block_quote)):
            self.alert(quote)
        page = page_of(self.env, self.env.docname)
        for reference in self.document.findall(nodes.reference):
            uri = reference.get("refuri", "")
            if uri and not OTHER_SITE.match(uri) and not uri.startswith("/"):
                reference["refuri"] = "/" + from_root(page, uri)
        for image in list(self.document.findall(nodes.image)):
            self.drawing(image)
        for table in self.document.findall(nodes.table):
            table["classes"] += phone_form(table)
        for section in self.document.findall(nodes.section):
            section["ids"] = [section["slug"]]
        without_way(self.document)

    def drawing(self, image):
        """A drawing in a paragraph of its own: its size on a wide page, and the least that it may
        have. course.py makes HTML of the classes."""
        paragraph = image.parent
        if not isinstance(paragraph, nodes.paragraph) or len(paragraph) != 1:
            return
        box = nodes.container("", image, classes=["drawing"])
        paragraph.replace_self(box)
        file = pathlib.Path(self.env.doc2path(self.env.docname)).parent / image["uri"]
        if file.suffix != ".svg" or not file.is_file():
            return
        text = file.read_text(encoding="utf-8")
        if not narrow.size(text):
            return
        look = drawings.Look(text)
        image["width"] = f"{round(look.wide if self.app.builder.name == 'html' else look.width)}px"
        image["classes"].append(look.mark())

    @staticmethod
    def formula(literal):
        """$`x`$: a literal between two dollars."""
        parent = literal.parent
        index = parent.index(literal)
        if not 0 < index < len(parent) - 1:
            return
        before, after = parent[index - 1], parent[index + 1]
        if not (isinstance(before, nodes.Text) and isinstance(after, nodes.Text)):
            return
        if before.endswith("$") and after.startswith("$"):
            literal.replace_self(nodes.math("", literal.astext()))
            parent.replace(before, nodes.Text(before[:-1]))
            parent.replace(after, nodes.Text(after[1:]))

    @staticmethod
    def alert(quote):
        """> [!NOTE]: an admonition."""
        first = quote[0] if quote.children else None
        if not isinstance(first, nodes.paragraph) or not isinstance(first[0], nodes.Text):
            return
        match = ALERT.match(first[0])
        if not match:
            return
        first.replace(first[0], nodes.Text(first[0][match.end() :]))
        quote.replace_self(getattr(nodes, match[1].lower())("", *quote.children))
