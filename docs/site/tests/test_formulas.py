"""Tests of formulas.py: which operators of a formula get which spaces."""

import re
import unittest

from docs.site import formulas


def parts(tex):
    """The elements of a formula: operators with their attributes, other elements by their text."""
    made, unknown = formulas.mathml(tex, "inline")
    assert not unknown, unknown
    return re.findall(r"<(m[ino](?: form=\"\w+\"| [lr]space=\"0\")*)(?: [^>/]*)?>([^<]*)<", made)


def functions(tex):
    """The names of functions with their spaces."""
    return re.findall(r"<(mo [lr]space=[^>]*)>(\w+)<", formulas.mathml(tex, "inline")[0])


PREFIX = 'mo form="prefix"'


class Formulas(unittest.TestCase):
    def test_a_sign_without_an_operand_before_it_is_a_prefix(self):
        for tex in (
            r"-\infty",
            r"m = -\infty",
            r"(-\infty)",
            r"e^{-\infty}",
            r"\{-1, 1\}",
            r"a, -b",
            r"x \cdot -y",
            r"\begin{aligned} a &= -b \end{aligned}",
            r"|-x|",
            r"a = {-b}",
        ):
            with self.subTest(tex):
                self.assertIn((PREFIX, "\u2212"), parts(tex))

    def test_a_sign_between_operands_is_none(self):
        for tex in (r"a - b", r"(a) - b", r"a_i - b", r"e^{s - m}", r"|a| - b", r"n! - 1"):
            with self.subTest(tex):
                self.assertNotIn((PREFIX, "\u2212"), parts(tex))
        self.assertEqual(
            [tag for tag, text in parts(r"-\infty - (-\infty)") if text == "\u2212"],
            [PREFIX, "mo", PREFIX],
        )

    def test_infinity_is_a_name(self):
        self.assertIn(("mi", "\u221e"), parts(r"m = -\infty"))
        self.assertIn(("mi", "\u22a4"), parts(r"Q K^\top"))

    def test_an_operator_and_equals_are_one(self):
        for tex in (
            r"d \mathrel{+}= A B",
            r"d += 1",
            r"\begin{aligned} d &\mathrel{+}= a \end{aligned}",
        ):
            with self.subTest(tex):
                found = [text for _, text in parts(tex)]
                self.assertIn("+=", found)
                self.assertNotIn("+", found)
        self.assertIn("\u2212=", [text for _, text in parts("a -= b")])

    def test_a_point_at_the_end_has_no_spaces(self):
        self.assertIn(('mo lspace="0" rspace="0"', "."), parts(r"a = b ."))

    def test_no_space_between_a_function_and_its_parenthesis(self):
        self.assertIn(('mo lspace="0.167em" rspace="0"', "max"), [*functions(r"x \max(a, b)")])
        self.assertIn(('mo lspace="0" rspace="0.167em"', "max"), [*functions(r"m = \max x")])

    def test_what_becomes_no_mathml_is_named(self):
        self.assertEqual(formulas.mathml(r"\nosuch", "inline"), ("", r"\nosuch"))
        self.assertTrue(formulas.mathml(r"a &= b", "inline")[1])


if __name__ == "__main__":
    unittest.main()
