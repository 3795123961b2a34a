"""The parts of a step as the eye finds them: a paragraph that begins with one of NAMES in bold gets
a class of its own; style sheets give it an icon and a tint. A name with nothing behind it is a
label of what follows. A prediction is a box, with its folded answer inside. And the title of a
chapter has its lesson's number."""

import re

from docutils import nodes
from sphinx.transforms import SphinxTransform

from docs.site import chapters
from docs.site.links import page_of

NAMES = {
    "stand": r"Where we stand",
    "limit": r"What limits it(?: now)?",
    "predict": r"Predict",
    "idea": r"The idea",
    "change": r"The change",
    "measure": r"Measure(?: the \w+)?",
    "write": r"Write it",
}
FIRST_NUMBER = re.compile(r"\d\.(?= )")


def lead_in(paragraph):
    """The bold words that a paragraph begins with, or None. MyST leaves empty texts there."""
    first = next((child for child in paragraph if child.astext()), None)
    return first if isinstance(first, nodes.strong) else None


def kind_of(node):
    """Which part of a step a paragraph begins; None for others."""
    bold = lead_in(node) if isinstance(node, nodes.paragraph) else None
    words = bold.astext().strip() if bold else ""
    return next(
        (kind for kind, name in NAMES.items() if re.fullmatch(name + r"[.?:]?", words)), None
    )


def begins_fold(node):
    return isinstance(node, nodes.raw) and node.astext().lstrip().startswith("<details")


def ends_fold(node):
    return isinstance(node, nodes.raw) and "</details>" in node.astext()


def answer(siblings):
    """How many of the nodes behind a prediction belong to it: up to the end of the first fold, if
    one follows in this part of the step."""
    inside = False
    for count, node in enumerate(siblings, 1):
        if isinstance(node, nodes.section) or kind_of(node):
            return 0
        inside = inside or begins_fold(node)
        if inside and ends_fold(node):
            return count
    return 0


class Callouts(SphinxTransform):
    """Boxes around predictions, classes for the other parts of a step."""

    default_priority = 320

    def apply(self, **_):
        for paragraph in list(self.document.findall(nodes.paragraph)):
            kind = kind_of(paragraph)
            if kind is None:
                continue
            name = lead_in(paragraph)
            name["classes"].append("callout-name")
            parent = paragraph.parent
            at = parent.index(paragraph)
            count = answer(parent[at + 1 :]) if kind == "predict" else 0
            box = nodes.container(classes=["callout", f"callout-{kind}"])
            if paragraph.astext().strip() == name.astext().strip():
                box["classes"].append("callout-label")
                name[:] = [nodes.Text(name.astext().strip().rstrip(".:"))]
            taken = parent[at : at + 1 + count]
            for node in taken:
                parent.remove(node)
            box += taken
            parent.insert(at, box)


class ChapterTitle(SphinxTransform):
    """# 3. Attention on Hopper, in lesson 05: 5.3 Attention on Hopper. Its anchor stays."""

    default_priority = 330

    def apply(self, **_):
        number = chapters.number(page_of(self.env, self.env.docname))
        title = self.document.next_node(nodes.title)
        text = title and title.next_node(nodes.Text)
        if number and text and FIRST_NUMBER.match(text):
            text.parent.replace(text, nodes.Text(FIRST_NUMBER.sub(number, text, count=1)))
