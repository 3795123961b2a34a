"""Tests of search_index.py: what a section's text is."""

import unittest

from docutils import nodes

from docs.site import search_index


class Readable(unittest.TestCase):
    CASES = {
        r"e^{m - m_{\text{new}}}": "e^(m - m_new)",
        r"\frac{N^2 d}{B_n}": "(N^2 d) / (B_n)",
        r"\frac{1}{\sqrt{d}}": "(1) / (√d)",
        r"\frac{1}{2}": "1 / 2",
        r"P = \text{softmax}(S) , \qquad O": "P = softmax (S) , O",
        r"j \le i + \alpha": "j ≤ i + alpha",
        r"\begin{aligned} a &= b \\ c &= d \end{aligned}": "a = b c = d",
        r"Q K^\top": "Q Kᵀ",
        r"V^{\mathrm{T}}": "Vᵀ",
        r"\sqrt[3]{\varepsilon}": "∛ε",
        r"\sqrt{\varepsilon}": "√ε",
        r"\sqrt{a + b}": "√(a + b)",
    }

    def test_a_formula_is_shown_without_commands(self):
        for tex, text in self.CASES.items():
            self.assertEqual(search_index.readable(tex), text, tex)
            self.assertNotIn("\\", search_index.readable(tex))


class TextOf(unittest.TestCase):
    def test_figures_of_tables_are_found_and_not_shown(self):
        row = nodes.row("", *(nodes.entry("", nodes.paragraph("", w)) for w in ("kernel", "1.25")))
        table = nodes.table("", nodes.tgroup("", nodes.tbody("", row)))
        origin = nodes.paragraph("", "commit 0123456789ab", classes=["printed-origin"])
        section = nodes.section("", nodes.paragraph("", "Words"), table, origin)
        self.assertEqual(search_index.text_of(section), ["Words", "kernel 1.25"])

    def test_captions_of_listings_are_left_out(self):
        caption = nodes.paragraph("", "a.cuh, lines 1 to 2", classes=["listing-caption"])
        section = nodes.section("", nodes.paragraph("", "Words"), caption)
        self.assertEqual(search_index.text_of(section)[0], "Words")

    def test_subsections_are_left_out(self):
        inner = nodes.section("", nodes.title("", "T"), nodes.paragraph("", "no"))
        section = nodes.section("", nodes.paragraph("", "", nodes.math("", r"a \le b")), inner)
        self.assertEqual(search_index.text_of(section)[0], "a ≤ b")

    def test_a_term_says_where_it_is_taught(self):
        links = [nodes.reference("", "x", refuri=u) for u in ("/01_a/1_b.md#c", "/x.cu", "http:/")]
        section = nodes.section("", nodes.paragraph("", "", *links))
        self.assertEqual(list(search_index.taught(section)), ["01_a/1_b.html#c"])


if __name__ == "__main__":
    unittest.main()
