"""Tests of check_glossary.py: each thing that it must notice."""

from common.testing.tree import TreeTest
from docs.site import check_glossary

GOOD = """# Glossary

Words before the first term, with **bold** ones.

## B

### bank

A part of memory. See [lesson](README.md#bank).

### bank conflict

Two lanes meet, say in $`w . 3`$, once. Then they wait. See `a. b` and
[lesson](README.md).

## W

### warp

Lanes. See [lesson](README.md).

---

[Course](README.md)
"""


class GlossaryTest(TreeTest):
    def check(self, text, linked="bank bank-conflict warp"):
        self.write("docs/glossary.md", text)
        links = (f"[x](../docs/glossary.md#{anchor})" for anchor in linked.split())
        self.write("01_one/1_a.md", "[x](other.md#warp)\n" + "\n".join(links))
        return self.run_main(check_glossary.main, "--root", self.root)

    def assert_fault(self, words, before, after):
        self.assertEqual(GOOD.count(before), 1)
        status, out, _ = self.check(GOOD.replace(before, after))
        self.assertEqual(status, 1, out)
        self.assertIn(words, out)

    def test_a_good_page_has_no_fault(self):
        self.assertEqual(self.check(GOOD), (0, "3 terms, 0 faults.\n", ""))

    def test_terms_out_of_order_are_named(self):
        swapped = GOOD.replace("### bank\n", "### x\n").replace("### bank c", "### bank\n\nc")
        status, out, _ = self.check(swapped.replace("### x", "### bank conflict"))
        self.assertEqual(status, 1)
        self.assertIn("'bank' must stand before 'bank conflict'", out)

    def test_capitals_do_not_change_the_order(self):
        terms = (f"### {name}\n\nA. [l](a)\n\n" for name in ("bank", "Barrier", "bit"))
        page = "# G\n\n## B\n\n" + "".join(terms)
        self.assertEqual(self.check(page, "bank barrier bit")[:2], (0, "3 terms, 0 faults.\n"))

    def test_a_term_that_stands_twice_is_named(self):
        self.assert_fault("'Bank' stands here a second time", "### bank conflict", "### Bank")

    def test_a_wrong_letter_is_named(self):
        self.assert_fault("'warp' stands under 'V', not under 'W'", "## W", "## V")

    def test_a_term_without_a_link_is_named(self):
        self.assert_fault("'warp' has no link", "Lanes. See [lesson](README.md).", "Lanes.")

    def test_the_sentences_are_counted(self):
        self.assert_fault("'warp' has 0 sentences", "Lanes. See [lesson](README.md).", "[l](a.b)")
        self.assert_fault(
            "'bank' has 0 sentences", "A part of memory. See [lesson](README.md#bank).", ""
        )
        self.assert_fault("'warp' has 4 sentences", "Lanes.", "One. Two? Three!")

    def test_links_are_looked_for_in_lessons(self):
        status, out, _ = self.check(GOOD, "bank bank-conflict")
        self.assertEqual(status, 1)
        self.assertIn("links to 'warp'", out)
        self.assertNotIn("'bank conflict'", out)

    def test_a_page_without_terms_is_a_fault(self):
        status, out, _ = self.check("# Glossary\n\nNothing.\n")
        self.assertEqual(status, 1)
        self.assertIn("there is no term", out)

    def test_a_page_that_is_not_there(self):
        status, _, err = self.run_main(check_glossary.main, "--root", self.root)
        self.assertEqual(status, 2)
        self.assertIn("glossary.md", err)
