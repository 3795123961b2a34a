"""Formulas: TeX as MathML, with the spaces that TeX has. The converter writes each sign as an
operator between two operands; what it is, only its neighbours say."""

import html
import re
import xml.etree.ElementTree as tree

import latex2mathml.converter

NAMES = set("∞∂∇∅⊤⊥∀∃ℓ…⋯")  # no operators: nothing stands beside them
SIGNS = set("+-−±∓")
JOINED = set("+-−*×/∗:")  # before =, as in +=
OPENING, CLOSING = set("([{⟨⌈⌊"), set(")]}⟩⌉⌋!′")
BARS = set("|‖∣∥")  # open and close by turns
FUNCTIONS = {"max", "min", "gcd"}  # ln, exp and the like are names already
THIN = "0.167em"


def local(element):
    """The tag without its namespace."""
    return element.tag.rpartition("}")[2]


def operator(element):
    """The character of an operator, else an empty string."""
    return (element.text or "").strip() if element is not None and local(element) == "mo" else ""


def flattened(element):
    """An operator holds text only: \\mathrel{+} gives <mo><mrow><mo>+</mo></mrow></mo>."""
    for inner in list(element.iter()):
        if local(inner) == "mo" and len(inner):
            inner.text = "".join(inner.itertext())
            for child in list(inner):
                inner.remove(child)


def joined(row):
    """+ and = beside each other are one operator."""
    for before, sign in zip(list(row), list(row)[1:]):
        if operator(before) in JOINED and operator(sign) == "=":
            sign.text = operator(before) + "="
            row.remove(before)


def spaced(row):
    """Gives the elements of a row what their neighbours make of them."""
    before, inside_bars = None, False
    elements = [element for element in row if local(element) != "mspace"]
    for element, after in zip(elements, [*elements[1:], None]):
        sign = operator(element)
        if sign in SIGNS:
            if before is None or (operator(before) and not ends_operand(before)):
                element.set("form", "prefix")
        elif sign == ".":
            element.set("lspace", "0")
            element.set("rspace", "0")
        elif sign in FUNCTIONS:
            operand = before is not None and (not operator(before) or ends_operand(before))
            element.set("lspace", THIN if operand else "0")
            element.set("rspace", "0" if operator(after) in OPENING else THIN)
        elif sign in BARS:
            element.set("form", "postfix" if inside_bars else "prefix")
            inside_bars = not inside_bars
        before = element


def ends_operand(element):
    """Whether an operator ends what stands to the left of the next one."""
    return operator(element) in CLOSING or element.get("form") == "postfix"


def mathml(tex, display):
    """(MathML, the command that became none or an empty string). The TeX stays as what a reader
    without MathML gets."""
    # The converter knows align* but not the environment that GitHub wants.
    made = latex2mathml.converter.convert(
        re.sub(r"(begin|end)\{aligned\}", r"\1{align*}", tex), display=display
    )
    unknown = re.search(r"<m[io][^>]*>(\\\w*|&(?:#x0*26;)?)<", made)
    if unknown:
        return "", unknown[1]
    tree.register_namespace("", "http://www.w3.org/1998/Math/MathML")
    root = tree.fromstring(made)
    flattened(root)
    for element in root.iter():
        if operator(element) in NAMES:
            element.tag = element.tag[:-2] + "mi"
    for row in list(root.iter()):
        if local(row) in ("math", "mrow", "mtd", "mstyle", "mpadded", "menclose"):
            joined(row)
            spaced(row)
    made = tree.tostring(root, encoding="unicode")
    return made.replace("<math ", f'<math alttext="{html.escape(tex)}" ', 1), ""
