"""Tests of gfm.py: fences, headings, anchors and links as GitHub reads them."""

import unittest

from common.testing.tree import TreeTest
from docs.site import gfm


def kinds(text):
    return " ".join(gfm.scan(text.split("\n"))[0])


class Scan(unittest.TestCase):
    def test_fence_needs_its_own_kind_of_end(self):
        self.assertEqual(kinds("```\n~~~\n``\n````\na"), "open code code close text")
        self.assertEqual(kinds("~~~~ x\n~~~\n~~~~~ \na"), "open code close text")

    def test_end_of_a_fence_has_no_language(self):
        self.assertEqual(kinds("```\n```cpp\n```"), "open code close")

    def test_backtick_in_the_language_is_inline_code(self):
        self.assertEqual(kinds("``` a`b ```\nx"), "text text")

    def test_unclosed_fence_reaches_the_end(self):
        _, fences = gfm.scan(["a", "```", "b"])
        self.assertEqual((fences[0].first, fences[0].last), (1, None))

    def test_fence_in_a_quotation_ends_with_it(self):
        self.assertEqual(kinds("> ```\n> a\n> ```\nb"), "open code close text")
        self.assertEqual(kinds("> ```\n> a\nb"), "open code text")

    def test_comments(self):
        self.assertEqual(kinds("<!-- a -->\nb"), "comment text")
        self.assertEqual(kinds("<!--\n```\n-->\nb"), "comment comment comment text")
        self.assertEqual(kinds("<!-- a --> \t\nb"), "comment text")
        self.assertEqual(kinds("<!-- a --> b\nc"), "text text")
        self.assertEqual(kinds("a <!-- b\n-->"), "text text")

    def test_indented_code_but_not_list_text(self):
        self.assertEqual(
            kinds("a\n\n    code\n    code\n\nb"), "text text indented indented text text"
        )
        self.assertEqual(kinds("a\n    goes on"), "text text")
        self.assertEqual(kinds("    code\n  \n\tcode"), "indented text indented")
        self.assertEqual(kinds("- a\n\n    goes on"), "text text text")
        self.assertEqual(kinds("- a\n\nb\n\n    code"), "text text text text indented")


class Anchors(unittest.TestCase):
    # Right-hand sides: what github.com makes of these headings.
    CASES = {
        "Build and check": "build-and-check",
        "What's new in 2.0?": "whats-new-in-20",
        "`std::exp` and `a_b`": "stdexp-and-a_b",
        "**Bold** _it_ snake_case_name": "bold-it-snake_case_name",
        "A -- B": "a----b",
        "Tiles: 64×32": "tiles-6432",
        "C++ & CUDA": "c--cuda",
        "Größe α": "größe-α",
        "[Link *text*](x.md) end": "link-text-end",
        "![image](x.svg) end": "-end",
        "1. Naive attention": "1-naive-attention",
        "a\\_b \\* c": "a_b--c",
        "N &lt; 3": "n--3",
        "O(N²) memory": "on-memory",
        "  padded  ": "padded",
        "Tab\tstop": "tabstop",
        "$x$ and $`y_i`$ and $$z$$": "x-and-y_i-and-z",
        "A `  b  ` c": "a-b-c",
    }

    def test_slugs(self):
        for heading, anchor in self.CASES.items():
            self.assertEqual(gfm.slug(heading), anchor, heading)

    def test_repeated_headings_are_numbered(self):
        lines = "# A\n## b\n## B\n### b ##\n```\n# not\n```\nC\n---\n#no\n".split("\n")
        self.assertEqual(
            [(h.level, h.anchor) for h in gfm.headings(lines)],
            [(1, "a"), (2, "b"), (2, "b-1"), (3, "b-2"), (2, "c")],
        )

    def test_levels_of_underlined_headings(self):
        found = gfm.headings(" Title \n==\n\nA - b\n--\n`c`\n".split("\n"))
        self.assertEqual([(h.level, h.text) for h in found], [(1, "Title"), (2, "A - b")])

    def test_rule_and_table_are_no_headings(self):
        self.assertEqual(gfm.headings("a\n\n---\n| a |\n|---|\n- b\n---".split("\n")), [])

    def test_html_anchors_count(self):
        text = '# T\n<a id="x"></a> and <a name=\'y\'></a> <h2 id="z">Z</h2> `<a id="no"></a>`'
        self.assertEqual(gfm.anchors(text.split("\n")), {"t", "x", "y", "z"})


class Links(unittest.TestCase):
    def links(self, text):
        return list(gfm.links(text.split("\n")))

    def test_every_form(self):
        self.assertEqual(
            self.links(
                '[a](b.md) ![c](d.svg)\n[e](<f g.md> "t") <img src=\'h.png\'> <a href="i">j</a>'
            ),
            [(0, "b.md"), (0, "d.svg"), (1, "f g.md"), (1, "h.png"), (1, "i")],
        )

    def test_over_two_lines(self):
        self.assertEqual(self.links("one\n[a\nb](c.md) [d](e.md)"), [(1, "c.md"), (2, "e.md")])

    def test_nested(self):
        self.assertEqual(
            self.links("[![a](b.svg)](c.md) [x [y]](d(e).md)"),
            [(0, "c.md"), (0, "b.svg"), (0, "d(e).md")],
        )

    def test_definitions(self):
        self.assertEqual(self.links("[a][b]\n\n[b]: c.md 'title'\n[^1]: no"), [(2, "c.md")])

    def test_code_formulas_comments_and_escapes_hold_none(self):
        for text in (
            "`[a](b)`",
            "``[a](b) ` ``",
            "```\n[a](b)\n```",
            "$`[a](b)`$",
            "\\[a](b)",
            "<!-- [a](b) -->",
            "x <!-- [a](b) --> y",
            "<!--\n[a](b)\n-->",
            "~~~\n[a](b)",
        ):
            self.assertEqual(self.links(text), [], text)

    def test_backtick_does_not_reach_the_next_list_item(self):
        self.assertEqual(self.links("- a ` b\n- [c](d) ` e"), [(1, "d")])

    def test_heading_definition_and_quotation_end_a_unit(self):
        for first in ("# a `", "[b]: c `", "| a ` |", "> a `"):
            found = [target for line, target in self.links(first + "\n# [d](e) ` f")]
            self.assertIn("e", found, first)
        self.assertEqual(self.links("> a `[b](c)\n> d` [e](f)"), [(1, "f")])
        self.assertEqual(self.links("a ` b\n \n[c](d) ` e"), [(2, "d")])

    def test_capitals(self):
        self.assertEqual(
            self.links("<IMG SRC='a.svg'> <A HREF='b'>c</A>"), [(0, "a.svg"), (0, "b")]
        )

    def test_table_rows(self):
        self.assertEqual(
            self.links("| a ` | [b](c) |\n|---|---|\n| [d](e) | ` |"), [(0, "c"), (2, "e")]
        )


class Read(TreeTest):
    def test_not_utf8(self):
        self.write("a.md", b"abc\xff")
        with self.assertRaisesRegex(ValueError, r"is not UTF-8 text \(byte 3\)"):
            gfm.read_lines(self.root / "a.md")


if __name__ == "__main__":
    unittest.main()
