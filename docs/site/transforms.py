"""What GitHub's Markdown becomes on the site, where MyST reads it otherwise: formulas, alerts,
anchors, drawings, the parts of a step, and the links at the end of a page."""

import html
import pathlib
import posixpath
import re

import latex2mathml.converter
from docutils import nodes
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

from docs.site.links import OTHER_SITE, page_of

LOG = logging.getLogger(__name__)
SMALL, TALL = 440, 1.8  # pixels of width; height for each width
SIZE = re.compile(r'<svg\b[^>]* width="([\d.]+)(pt)?"(?:[^>]* height="([\d.]+))?')
ALERT = re.compile(r"\[!(NOTE|TIP|IMPORTANT|WARNING|CAUTION)\]\s*")
MARK = re.compile(r"[,.;:!?)]*")
# The parts of a step: a paragraph that begins with these words in bold has a class of that name.
PARTS = re.compile(
    r"(Where we stand|What limits it|Predict|The idea|The change|Measure|Write it)\b"
)


class GithubMarkdown(SphinxTransform):
    """All of them, after MyST has read the page, so that warnings name the right lines."""

    default_priority = 310

    def apply(self, **_):
        for literal in list(self.document.findall(nodes.literal)):
            formula(literal)
        for quote in list(self.document.findall(nodes.block_quote)):
            alert(quote)
        for image in list(self.document.findall(nodes.image)):
            drawing(image, pathlib.Path(self.env.doc2path(self.env.docname)).parent)
        for section in self.document.findall(nodes.section):
            section["ids"] = [section["slug"]]
            if self.app.builder.name == "singlehtml":
                section["ids"] = [f"{self.env.docname}--{section['slug']}"]
        for reference in self.document.findall(nodes.reference):
            from_root(reference, page_of(self.env, self.env.docname))
        for strong in self.document.findall(nodes.strong):
            part(strong)
        without_foot(self.document)


def from_root(reference, page):
    """A relative address, seen from the repository's root: all pages of a PDF are one."""
    path, mark, anchor = reference.get("refuri", "").partition("#")
    if (path or mark) and not OTHER_SITE.match(path) and not path.startswith("/"):
        path = posixpath.join(posixpath.dirname(page), path) if path else page
        reference["refuri"] = "/" + posixpath.normpath(path) + mark + anchor


def formula(literal):
    """$`x`$: a literal between two dollars."""
    parent = literal.parent
    index = parent.index(literal)
    around = [*parent[max(index - 1, 0) : index], *parent[index + 1 : index + 2]]
    if len(around) < 2 or not all(isinstance(node, nodes.Text) for node in around):
        return
    before, after = around
    if before.endswith("$") and after.startswith("$"):
        math, mark = nodes.math("", literal.astext()), MARK.match(after, 1)[0]
        if mark:  # no line begins with it
            math = nodes.inline("", "", math, nodes.Text(mark), classes=["together"])
        literal.replace_self(math)
        parent.replace(before, nodes.Text(before[:-1]))
        parent.replace(after, nodes.Text(after[1 + len(mark) :]))


def alert(quote):
    """> [!NOTE]: an admonition."""
    first = quote.next_node(nodes.Text)
    match = first and ALERT.match(first)
    if match:
        first.parent.replace(first, nodes.Text(first[match.end() :]))
        quote.replace_self(getattr(nodes, match[1].lower())("", *quote.children))


def drawing(image, folder):
    """A drawing in a paragraph of its own: where the window has no room for it, it scrolls; a small
    one shrinks to the window of a phone; a tall one has most of a page of the book."""
    paragraph, file = image.parent, folder / image["uri"]
    svg = file.suffix == ".svg" and file.is_file()
    found = SIZE.search(file.read_text(encoding="utf-8")) if svg else None
    if found and float(found[1]) * (4 / 3 if found[2] else 1) <= SMALL:
        image["classes"].append("small")
    if found and float(found[3] or 0) > TALL * float(found[1]):
        image["classes"].append("tall")
    if isinstance(paragraph, nodes.paragraph) and len(paragraph) == 1:
        paragraph.replace_self(nodes.container("", image, classes=["drawing"]))


def part(strong):
    """The bold words that a part of a step begins with."""
    before = strong.parent.astext().partition(strong.astext())[0]
    match = PARTS.match(strong.astext())
    if match and not before and isinstance(strong.parent, nodes.paragraph):
        strong.parent["classes"] += ["part", match[1].lower().replace(" ", "-")]


def without_foot(document):
    """Takes the links at the end of a page, behind a rule: the site has its own."""
    box = [document, *document.findall(nodes.section)][-1]
    last = [node for node in box if not isinstance(node, nodes.compound)][-2:]  # but a toctree
    if [type(node) for node in last] == [nodes.transition, nodes.paragraph] and last[1].next_node(
        nodes.reference
    ):
        box.children = [node for node in box if node not in last]


# ---- Formulas: TeX as MathML by latex2mathml, with the spaces that TeX has.

OPENING = r'<mo stretchy="false">(?:&#x00028;|\[|&#x0007B;)</mo>'
NAMED = r"<m[io]>(max|min|gcd|ln|log|exp|tanh)</m[io]>"
PRIME = r"<mi>(&#x0203[23];)</mi>"
RULES = [
    # Fonts have primes that are raised already.
    (rf"<msup>(<mi[^>]*>[^<]*</mi>){PRIME}</msup>", r"<mrow>\1<mo>\2</mo></mrow>"),
    (rf"<msubsup>(<mi[^>]*>[^<]*</mi>)(<mi>[^<]*</mi>|<mn>[^<]*</mn>|<mrow>.*?</mrow>){PRIME}</msubsup>",
     r"<msub><mrow>\1<mo>\3</mo></mrow>\2</msub>"),
    # \mathrel{+}= is one operator.
    (r"<mo><mrow><mo>([^<]*)</mo></mrow></mo><mo>&#x0003D;</mo>", r"<mo>\1=</mo>"),
    # Infinity, a partial derivative and a transpose are no operators.
    (r"<mo>(&#x(?:0221E|02202|022A4);)</mo>", r"<mi>\1</mi>"),
    # A minus behind an operator, or before anything else, is a sign.
    (rf"(<(?:mrow|mtd[^>]*)>|<mo>[^<]*</mo>|{OPENING})<mo>&#x02212;</mo>",
     r'\1<mo form="prefix">&#x02212;</mo>'),
    # Between a function's name and its operand there is a space.
    (rf"(?<!<msub>)(?<!<msup>)(?<!<munder>){NAMED}(?=<m(?:i|n|row|sub|sup|frac)>)",
     r'<mi>\1</mi><mspace width="0.167em"/>'),
    (NAMED, r"<mi>\1</mi>"),
]  # fmt: skip


def mathml(tex, display):
    """(MathML, the command that became none or None). The TeX stays as what a reader without MathML
    gets."""
    # The converter knows align* but not the environment that GitHub wants.
    known = re.sub(r"(begin|end)\{aligned\}", r"\1{align*}", tex)
    made = latex2mathml.converter.convert(known, display=display)
    unknown = re.search(r"<m[io][^>]*>(\\\w*|&(?:#x0*26;)?)<", made)
    for pattern, new in RULES:
        made = re.sub(pattern, new, made)
    made = made.replace("<math ", f'<math alttext="{html.escape(tex)}" ', 1)
    return made, unknown and unknown[1]


def made_of(node, display):
    """The formula of a node as MathML."""
    made, unknown = mathml(node.astext(), display)
    if unknown:
        LOG.warning("the formula has '%s', which becomes no MathML", unknown, location=node)
    return made


def visit_math(self, node):
    self.body.append(made_of(node, "inline"))
    raise nodes.SkipNode


def visit_math_block(self, node):
    self.body.append(f'<div class="formula">{made_of(node, "block")}</div>\n')
    raise nodes.SkipNode
