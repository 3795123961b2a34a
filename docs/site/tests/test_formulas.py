"""Tests of formulas.py."""

import unittest

from docs.site import formulas


class Formulas(unittest.TestCase):
    def made(self, tex):
        made, unknown = formulas.mathml(tex, "inline")
        self.assertIsNone(unknown, tex)
        return made.partition("<mrow>")[2]

    def test_a_minus_without_an_operand_before_it_is_a_sign(self):
        sign = '<mo form="prefix">&#x02212;</mo>'
        for tex in (r"m = -\infty", "-x", r"e^{-\infty}", "[0, -1]", "(-a)"):
            self.assertIn(sign, "<mrow>" + self.made(tex), tex)
        for tex in ("a - b", "(a) - b", "x_1 - b"):
            self.assertNotIn(sign, self.made(tex), tex)

    def test_names_are_no_operators(self):
        for tex, name in (
            (r"\infty", "&#x0221E;"),
            (r"\partial x", "&#x02202;"),
            (r"\max x", "max"),
        ):
            self.assertIn(f"<mi>{name}</mi>", self.made(tex))

    def test_a_space_between_a_name_and_its_operand(self):
        self.assertIn('<mi>ln</mi><mspace width="0.167em"/><mi>l</mi>', self.made(r"\ln l"))
        for tex in (r"\max(a, b)", r"\max_j"):
            self.assertNotIn("mspace", self.made(tex), tex)

    def test_an_operator_and_equals_are_one(self):
        self.assertIn("<mo>&#x0002B;=</mo>", self.made(r"a \mathrel{+}= b"))

    def test_primes_show(self):
        self.assertIn("&#x02032;", self.made("x'"))

    def test_the_tex_stays(self):
        made, _ = formulas.mathml("a < b", "block")
        self.assertIn('alttext="a &lt; b"', made)

    def test_what_becomes_no_mathml_is_named(self):
        self.assertEqual(formulas.mathml(r"\nosuch", "inline")[1], r"\nosuch")
