"""Tests of gfm2dox.py: the translation line by line, and every fault that must fail the build."""

import unittest

from common.testing.tree import TreeTest
from docs.site import gfm2dox

SITE = """root {0}
html {0}/html
page README.md
page 01_a/README.md
page 01_a/1_one.md
page 01_a/appendix.md
page docs/theory.md
sources 01_a
sources common
"""


class FilterTest(TreeTest):
    def setUp(self):
        super().setUp()
        self.write("site.txt", SITE.format(self.root))
        self.write("README.md", "# Front\n\n## One\n")
        self.write("01_a/README.md", "# Lesson\n\n## The `idea` of it\n\n## The idea of it\n")
        self.write("docs/theory.md", "# Theory\n")
        self.write("01_a/1_one.md", "# 1. One\n\n## Two\n")
        self.write("01_a/appendix.md", "# Appendix\n")
        self.write("01_a/a.cpp", "int x;\n")
        self.write("01_a/tests/t.cpp", "int x;\n")
        self.write("01_a/img/a.svg", "<svg/>")
        self.write("LICENSE", "free")
        self.write("other/README.md", "# Not on the site\n")

    def run_filter(self, text, page="docs/theory.md"):
        self.write(page, text)
        return self.run_main(gfm2dox.main, "--site", self.root / "site.txt", self.root / page)

    def translate(self, text, page="docs/theory.md"):
        """The translation of a text that stands below a title."""
        status, out, err = self.run_filter("# T\n" + text, page)
        self.assertEqual((status, err), (0, ""), text)
        self.assertEqual(out.count("\n"), text.count("\n") + 1)
        return out.split("\n", 1)[1]

    def assert_translated(self, cases):
        for text, expected in cases.items():
            self.assertEqual(self.translate(text), expected, text)

    def assert_fault(self, text, place, sentence):
        """The fault is on stderr; a reference that Doxygen cannot resolve is on the same line."""
        status, out, err = self.run_filter(text)
        self.assertEqual(status, 1, text)
        self.assertIn(f"docs/theory.md:{place}: {sentence}", err)
        self.assertIn("\\ref error_", out.split("\n")[place - 1])
        self.assertGreaterEqual(out.count("\n"), text.count("\n"))


class Translation(FilterTest):
    def test_the_first_link_of_a_map_puts_a_chapter_below_it(self):
        text = '[*a*](1_one.md#two), [*b* "c"](1_one.md), [d](1_one.md), [e](../01_a/appendix.md)'
        self.assertEqual(
            self.translate(text, "01_a/README.md"),
            '<a class="el" href="page_01_a_1_one.html#page_01_a_1_one__two">*a*</a>, '
            '\\subpage page_01_a_1_one "b &quot;c&quot;", '
            '[d](\\ref page_01_a_1_one), \\subpage page_01_a_appendix "e"',
        )
        self.assertEqual(
            self.translate("[x](1_one.md)", "01_a/appendix.md"), "[x](\\ref page_01_a_1_one)"
        )

    def test_math(self):
        self.assert_translated(
            {
                "$`a_b < \\frac{1}{2}`$ and $x$.": "\\f$a_b < \\frac{1}{2}\\f$ and \\f$x\\f$.",
                "```math\nx\n\ny_i\n```": "\\f[\nx\n\ny_i\n\\f]",
                "1. a\n\n   ```math\n   x\n   ```": "1. a\n\n   \\f[\n   x\n   \\f]",
                "so $$x$$ is": "so \\f[x\\f] is",
                "$`a\nb`$ c d": "\\f$a b\\f$\nc d",
                "$5 and $6, `$x$`, \\$y$": "$5 and $6, `$x$`, \\$y$",
            }
        )

    def test_title_table_of_contents_and_sections(self):
        status, out, _ = self.run_filter(
            "<!-- c -->\n# A < *b*\n\ntext\n\n## Two `c_d`\n\n"
            '"Three"\n-----\n## Größe\n## Two c_d\n'
        )
        self.assertEqual(status, 0)
        self.assertEqual(
            out,
            "\n# A &lt; b {#page_docs_theory}\n[TOC]\ntext\n\n"
            "## Two c_d {#page_docs_theory__two-c_d}\n\n"
            '"Three" {#page_docs_theory__three}\n-----\n## Größe {#page_docs_theory__gr_uf6_udfe}\n'
            "## Two c_d {#page_docs_theory__two-c_d-1}\n",
        )

    def test_number_of_a_chapter_begins_no_list(self):
        status, out, _ = self.run_filter("# 5. Hopper\n")
        self.assertEqual(status, 0)
        self.assertIn("# 5.\u00a0Hopper {#", out)

    def test_underlined_title(self):
        self.assertEqual(
            self.run_filter("  \nThe *title*\n=========\n\ntext\n")[1],
            "  \n# The title {#page_docs_theory}\n\n\ntext\n",
        )

    def test_short_page_has_no_table_of_contents(self):
        self.assertEqual(
            self.run_filter("# A\n\n## One\n")[1],
            "# A {#page_docs_theory}\n\n## One {#page_docs_theory__one}\n",
        )

    def test_page_names(self):
        site = gfm2dox.Site(self.root / "site.txt")
        self.assertEqual(
            [(site.page_id(p), site.page_file(p)) for p in site.pages],
            [
                ("page_front", "index.html"),
                ("page_01_a", "page_01_a.html"),
                ("page_01_a_1_one", "page_01_a_1_one.html"),
                ("page_01_a_appendix", "page_01_a_appendix.html"),
                ("page_docs_theory", "page_docs_theory.html"),
            ],
        )

    def test_links(self):
        self.write("01_a/a b.cpp", "")
        self.assert_translated(
            {
                "[a](../01_a/README.md)": "[a](\\ref page_01_a)",
                '["a"](../01_a/)': "[&quot;a&quot;](\\ref page_01_a)",
                "[a](/01_a)": "[a](\\ref page_01_a)",
                "[a](../01_a/README.md#the-idea-of-it-1)": "[a](\\ref page_01_a__the-idea-of-it-1)",
                "[a](../README.md)": "[a](\\ref page_front)",
                "[a](#t)": "[a](\\ref page_docs_theory__t)",
                "[`a` *b*](../README.md#one)": '<a class="el" href="index.html#page_front__one">'
                "`a` *b*</a>",
                "[the\nlink](../README.md), and\nmore": "[the link](\\ref page_front),\nand\nmore",
                "> [the\n> link](../README.md) x": "> [the link](\\ref page_front)\n> x",
                "[`a.cpp`](../01_a/a.cpp)": "[a.cpp](\\ref 01_a/a.cpp)",
                '["a"](../01_a/a.cpp) ["b"](https://c.d)': "[&quot;a&quot;](\\ref 01_a/a.cpp) "
                "[&quot;b&quot;](https://c.d)",
                "[a](../01_a/img/) [b](../other) [c](../01_a/tests)": "a b c",
                "[A][Key]\n\n[kEY]: ../README.md": "[A](\\ref page_front)\n\n",
                "[free *x*](../LICENSE), [t](../01_a/tests/t.cpp)": "free *x*, t",
                "[web](https://a.b/c_d#e)": "[web](https://a.b/c_d#e)",
                "[w *x*](https://a.b)": '<a class="el" href="https://a.b">w *x*</a>',
                "[a][l] [l] [b] [c][]\n\n[l]: ../README.md\n[c]: ../LICENSE": ""
                "[a](\\ref page_front) [l](\\ref page_front) \\[b\\] c\n\n\n",
                "<https://a.b/c> https://a.b/c_d(e). (https://a.b)": '<a href="https://a.b/c">'
                'https://a.b/c</a> <a href="https://a.b/c_d(e)">https://a.b/c_d(e)</a>. '
                '(<a href="https://a.b">https://a.b</a>)',
                '<a href="../README.md">x</a>': '<a href="index.html">x</a>',
                '<a id="h"></a>x [y](#h)': "\\anchor page_docs_theory__h x "
                "[y](\\ref page_docs_theory__h)",
            }
        )

    def test_prose_that_doxygen_would_misread(self):
        self.assert_translated(
            {
                'a@b \\n \\\\ "q" 5%x 50%': "a\\@b \\\\n \\\\ &quot;q&quot; 5\\%x 50%",
                "#3 # --help a--b ::x() a::b": "\\#3 # \\--help a--b \\::x() a::b",
                "N<3 a > b": "N&lt;3 a > b",
                "\\* \\_ \\< \\( \\| \\@": "\\* \\_ &lt; ( \\| \\@",
                "&lt; &#42; &alpha; &amp;lt; a&nbsp;b R&D": "&lt; * α &amp;lt; a&nbsp;b R&amp;D",
                "`it's` `a@b \\n <c>` ``x`y``": "``it's`` `a@b \\n <c>` ``x`y``",
                "`%d` `::f(a*b)` `a::b`": "<code>\\%d</code> <code>\\::f(a\\*b)</code> `a::b`",
                "a\\\nb": "a<br>\nb",
                "`a\nb` c": "`a b`\nc",
                "H<sub>2</sub>O<br/><BR>": "H<sub>2</sub>O<br/><BR>",
                "x <!-- no --> y": "x  y",
            }
        )

    def test_fences(self):
        self.assert_translated(
            {
                "```cpp\na $`x`$ @b\n```": "```{.cpp}\na $`x`$ @b\n```",
                "```cuda\n```": "```{.cpp}\n```",
                "~~~text\n```\n~~~": "~~~{.unparsed}\n```\n~~~",
                "```\nx\n```": "```{.unparsed}\nx\n```",
                "  ```Python title\n  ```": "  ```{.py}\n  ```",
            }
        )

    def test_comments_disappear(self):
        self.assert_translated(
            {
                "<!-- listing: a.cpp#t -->\n```cpp\nx\n```\n<!--\n[a](none)\n-->\nend": "\n"
                "```{.cpp}\nx\n```\n\n\n\nend"
            }
        )

    def test_tables(self):
        self.assert_translated(
            {
                "| a | b |\n|-|:-:|\n| `x\\|y` | $`z`$ |": "| a | b |\n|---|:---:|\n"
                "| <code>x\\|y</code> | \\f$z\\f$ |",
                "---": "---",
                "***": "***",
            }
        )

    def test_task_list(self):
        self.assert_translated({"- [ ] a\n- [x] b\n* [y] c": "- ☐ a\n- ☑ b\n* \\[y\\] c"})
        self.assert_translated({"  [x] a": "  \\[x\\] a"})

    def test_notes(self):
        self.assert_translated(
            {
                "> [!NOTE]\n> a $`x`$\n>\n> ```cpp\n> b\n> ```\n\nend": "\\note \\parblock\n"
                "a \\f$x\\f$\n\n```{.cpp}\nb\n```\n\\endparblock\nend",
                "> [!tip]\n> a\n  ": "\\fatip\na\n\\endparblock",
                "```\n> [!NOTE]\n```": "```{.unparsed}\n> [!NOTE]\n```",
                "> just a\n> quotation": "> just a\n> quotation",
            }
        )

    def test_note_at_the_very_end(self):
        self.assertEqual(
            self.run_filter("# T\n> [!WARNING]\n> a")[1],
            "# T {#page_docs_theory}\n\\warning \\parblock\na\n\\endparblock",
        )

    def test_details(self):
        self.assert_translated(
            {
                "<details>\n<summary>A & `b`</summary>\n\n*c*\n\n</details>": ""
                "\\htmlonly[block]<details>\\endhtmlonly\n"
                "\\htmlonly[block]<summary>A & `b`</summary>\\endhtmlonly\n\n*c*\n\n"
                "\\htmlonly[block]</details>\\endhtmlonly"
            }
        )

    def test_html_for_the_site(self):
        self.write("docs/part.html", "<div id='x'>\n  a -- b\n</div>\n")
        begin, end = "<!-- on the site: part.html -->", "<!-- /on the site -->"
        self.assertEqual(
            self.translate(f"a\n\n{begin}\n![x](none.svg)\n\n# b\n{end}\nc"),
            "a\n\n\\htmlonly[block]<div id='x'>   a -- b </div> \\endhtmlonly\n\n\n\n\nc",
        )
        # The text is as wide as can be: no table of contents beside it.
        text = "\n## One\n\n## Two\n"
        self.assertIn("[TOC]", self.translate(text))
        self.assertNotIn("[TOC]", self.translate(f"{text}\n{begin}\n{end}\n"))
        # In a listing it is text.
        self.assertIn(begin, self.translate(f"```text\n{begin}\n```"))

    def test_images_are_copied(self):
        image = (
            '\\htmlonly<img class="fa-image" src="images/01_a-img-a.svg" '
            'alt="the &lt;alt&gt;"%s>\\endhtmlonly'
        )
        self.assert_translated(
            {
                "![the `<alt>`](../01_a/img/a.svg)": image % "",
                '<img src="../01_a/img/a.svg" alt="the <alt>" width="50%" onload="x">': image
                % ' width="50%"',
                '<p align="center">x</p>': '<div align="center">x</div>',
            }
        )
        self.assertEqual(self.read("html/images/01_a-img-a.svg"), "<svg/>")

    def test_carriage_returns(self):
        self.assertEqual(
            self.run_filter("# T\r\n\r\n[a](../README.md)\r\n")[1],
            "# T {#page_docs_theory}\n\n[a](\\ref page_front)\n",
        )


class Faults(FilterTest):
    def test_links(self):
        for target, sentence in {
            "none.md": "the link none.md leads to no file.",
            "../../x.md": "the link ../../x.md leaves the repository.",
            "#none": "the link #none leads to no heading; docs/theory.md has none with",
            "../01_a/README.md#none": "the link ../01_a/README.md#none leads to no heading; 01_a",
        }.items():
            self.assert_fault(f"# T\n\n- a\n- b\n  [x]({target})\n", 5, sentence)
            self.assert_fault(f'# T\n\n<a href="{target}">x</a>\n', 3, sentence)
        self.assert_fault("# T\n\n[x][none]\n", 3, "[none] is defined nowhere on the page.")
        for target in ("../LICENSE", "../01_a/a.cpp"):
            self.assert_fault(
                f'# T\n\n<a href="{target}">x</a>\n',
                3,
                f"write the link to {target[3:]} in Markdown",
            )

    def test_images(self):
        self.assert_fault("# T\n\n![x](none.svg)\n", 3, "there is no image none.svg.")
        self.assert_fault("# T\n\n<img alt='x'>\n", 3, "there is no image .")
        self.assert_fault(
            "# T\n\n![x](https://a.b/c.svg)\n",
            3,
            "the image https://a.b/c.svg is on another site; commit it.",
        )

    def test_what_the_site_cannot_show(self):
        self.assert_fault(
            "# T\n\n```mermaid\ngraph\n```\n",
            3,
            "Mermaid drawings are not on the site; commit an SVG.",
        )
        self.assert_fault("# T\n\na[^1]\n", 3, "footnotes are not on the site ([^1]);")
        self.assert_fault("# T\n\n<picture>\n", 3, "the HTML tag <picture> is not on the site;")
        self.assert_fault("# T\n\nvector<float> x\n", 3, "the HTML tag <float> is not on the site;")
        self.assert_fault("# T\n\n## a $`x`$\n", 3, "a heading cannot hold a formula;")

    def test_structure(self):
        self.assert_fault("no title\n", 1, "the page must begin with a title, # and its text.")
        self.assert_fault("## Two\n", 1, "the page must begin with a title, # and its text.")
        self.assert_fault("text\n\n# T\n", 3, "there is text before the page's title.")
        self.assert_fault(
            "# T\n\n# U\n", 3, "the page has a second title; use ## for its sections."
        )
        self.assert_fault("# T\n\n```cpp\nx\n", 3, "the fenced block is never closed.")

    def test_notes(self):
        self.assert_fault(
            "# T\n\n> [!HINT]\n> x\n",
            3,
            "[!HINT] is no kind of note; allowed are NOTE, TIP, IMPORTANT,",
        )
        self.assert_fault("# T\n\n> [!NOTE]\n> x\ny\n", 3, "an empty line must follow the note.")

    def assert_failure(self, page, sentence, site="site.txt"):
        status, out, err = self.run_main(gfm2dox.main, "--site", self.root / site, self.root / page)
        self.assertEqual((status, out), (2, "\\ref error_gfm2dox_could_not_translate_this_page\n"))
        self.assertIn("gfm2dox.py cannot translate the page: ", err)
        self.assertIn(sentence, err)

    def test_html_for_the_site(self):
        self.write("docs/part.html", "<hr>")
        begin, end = "<!-- on the site: part.html -->", "<!-- /on the site -->"
        wrong = "the comments are <!-- on the site: FILE.html --> and"
        for text, place, sentence in (
            (begin, 3, "<!-- /on the site --> is missing."),
            (end, 3, wrong),
            (f"{begin}\n{begin}\n{end}", 4, wrong),
            (f"<!-- on the site part.html -->\n{end}", 3, wrong),
            (f"<!-- on the site: ../part.html -->\n{end}", 3, wrong),
            (f"<!-- on the site: none.html -->\n{end}", 3, "there is no file none.html."),
        ):
            self.assert_fault(f"# T\n\n{text}\n", place, sentence)

    def test_failures_are_not_silent(self):
        self.write("docs/theory.md", b"# \xff")
        self.assert_failure("docs/theory.md", "is not UTF-8 text (byte 2)")
        self.write("other.md", "# T\n")
        self.assert_failure("other.md", "other.md is not among the pages of")
        self.assert_failure("01_a/README.md", "No such file", site="none.txt")
        self.write("bad.txt", "rot x\n")
        self.assert_failure(
            "01_a/README.md", "'rot' is not one of root, html, page and sources", site="bad.txt"
        )
        self.write("bad.txt", f"root {self.root}\n")
        self.assert_failure("01_a/README.md", "root or html is missing", site="bad.txt")

    def test_a_bug_in_the_filter_is_not_silent(self):
        original = gfm2dox.Filter.unit
        self.addCleanup(setattr, gfm2dox.Filter, "unit", original)
        gfm2dox.Filter.unit = lambda *_: 1 // 0
        self.assert_failure("01_a/README.md", "by zero")


if __name__ == "__main__":
    unittest.main()
