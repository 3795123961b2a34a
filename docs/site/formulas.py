"""Formulas: TeX as MathML by latex2mathml, with the spaces that TeX has."""

import html
import re

import latex2mathml.converter

OPENING = r'<mo stretchy="false">(?:&#x00028;|\[|&#x0007B;)</mo>'
NAMED = r"<m[io]>(max|min|gcd|ln|log|exp|tanh)</m[io]>"
RULES = [
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
