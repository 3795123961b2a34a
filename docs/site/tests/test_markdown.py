"""Tests of markdown.py: headings, anchors and links as GitHub reads them."""

import unittest

from docs.site.markdown import Page


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
        "1. Naive attention": "1-naive-attention",
        "a\\_b \\* c": "a_b--c",
        "N &lt; 3": "n--3",
        "O(N²) memory": "on-memory",
        "  padded  ": "padded",
        "$x$ and $`y_i`$ and $$z$$": "x-and-y_i-and-z",
    }

    def test_of_headings(self):
        for heading, anchor in self.CASES.items():
            self.assertEqual(Page(f"# {heading}\n").headings[0].anchor, anchor, heading)

    def test_repeated_headings_are_numbered(self):
        page = Page("# A\n## b\n## B\n### b ##\n```\n# not\n```\nC\n---\n#no\n")
        self.assertEqual(
            [(h.line, h.level, h.anchor) for h in page.headings],
            [(0, 1, "a"), (1, 2, "b"), (2, 2, "b-1"), (3, 3, "b-2"), (7, 2, "c")],
        )

    def test_html_anchors_count(self):
        text = '# T\n<a id="x"></a> and <a name=\'y\'></a> <h2 id="z">Z</h2> `<a id="no"></a>`'
        self.assertEqual(Page(text).anchors, {"t", "x", "y", "z"})


class Links(unittest.TestCase):
    CASES = {
        '[a](b.md) ![c](d.svg)\n[e](<f g.md> "t") <img src=\'h.png\'> <A HREF="i">j</A>': (
            [(0, "b.md"), (0, "d.svg"), (1, "f%20g.md"), (1, "h.png"), (1, "i")]
        ),
        "one\n[a\nb](c.md) [d](e.md)": [(1, "c.md"), (2, "e.md")],
        "[![a](b.svg)](c.md) [x [y]](d(e).md)": [(0, "c.md"), (0, "b.svg"), (0, "d(e).md")],
        "[a][b]\n\n[b]: c.md 'title'": [(2, "c.md"), (0, "c.md")],
        "- a ` b\n- [c](d) ` e": [(1, "d")],
        "| a ` | [b](c) |\n|---|---|\n| [d](e) | ` |": [(0, "c"), (2, "e")],
        "<div>\n<img src='a.svg'>\n</div>": [(1, "a.svg")],
    }
    NONE = (
        "`[a](b)`",
        "``[a](b) ` ``",
        "```\n[a](b)\n```",
        "$`[a](b)`$",
        "\\[a](b)",
        "<!-- [a](b) -->",
        "x <!-- [a](b) --> y",
        "<!--\n[a](b)\n-->",
        "~~~\n[a](b)",
    )

    def test_every_form(self):
        for text, links in self.CASES.items():
            self.assertEqual(Page(text).links, links, text)

    def test_code_formulas_comments_and_escapes_hold_none(self):
        for text in self.NONE:
            self.assertEqual(Page(text).links, [], text)
