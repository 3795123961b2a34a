"""Tests of check_links.py and check glossary: what they accept, and every message."""

from common.testing.tree import TreeTest
from docs.site import check


class LinksTest(TreeTest):
    def setUp(self):
        super().setUp()
        self.write("lesson/README.md", "# Lesson\n\n## The *idea*\n")
        self.write("lesson/a.cpp", "1\n2\n3\n")
        self.write("img/a b.svg", "<svg/>")
        self.write("empty/x.txt", "")

    def check(self, text, path="README.md"):
        self.write(path, text)
        return self.run_main(check.main, "links", "--root", self.root)

    def test_what_resolves(self):
        status, out, _ = self.check(
            "# Front\n[a](lesson/README.md) [b](lesson/) [c](lesson#the-idea) [d](#front)\n"
            "[e](lesson/README.md#lesson) [f](/lesson/a.cpp) [g](lesson/a.cpp#L2)\n"
            "[h](lesson/a.cpp#L1-L3) ![i](img/a%20b.svg) ![j](<img/a b.svg>) [n](.)\n"
            "[k](https://example.org/none#x) [l](mailto:a@b.c) [m](//example.org)\n"
            "[o](lesson/README.md?plain=1)\n"
        )
        self.assertEqual((status, out), (0, "2 pages, 15 links, 0 faults.\n"))

    def test_what_does_not(self):
        for target, sentence in {
            "none.md": "the link none.md leads to no file.",
            "lesson/readme.md": "the link lesson/readme.md leads to no file.",
            "../other/x.md": "the link ../other/x.md leaves the repository.",
            "#fronts": "the link #fronts leads to no heading of README.md.",
            "#Front": "the link #Front leads to no heading of README.md. Meant is perhaps #front.",
            "lesson/README.md#theidea": "lesson/README.md. Meant is perhaps #the-idea.",
            "lesson#none": "the link lesson#none leads to no heading of lesson/README.md.",
            "empty#x": "the link empty#x has an anchor, but the directory has no README.md.",
            "lesson/a.cpp#main": "has an anchor, but a.cpp is no Markdown page (lines are",
            "lesson/a.cpp#L4": "#L4 names lines that a.cpp does not have; it has 3.",
            "lesson/a.cpp#L3-L2": "names lines that a.cpp does not have; it has 3.",
        }.items():
            status, out, _ = self.check(f"# Front\n\ntext [x]({target})\n")
            self.assertEqual(status, 1, target)
            self.assertIn("README.md:3: ", out)
            self.assertIn(sentence, out)
            self.assertIn("1 faults", out)

    def test_links_of_deeper_pages_are_relative_to_them(self):
        self.assertEqual(self.check("[a](../lesson/README.md) [b](../img)", "docs/deep.md")[0], 0)
        self.assertEqual(self.check("[a](lesson/README.md)", "docs/deep.md")[0], 1)

    def test_capitals_in_the_file_name(self):
        self.write("OTHER.MD", "# Other\n\n[x](none)\n")
        status, out, _ = self.check("# Front\n[a](OTHER.MD#other) [b](OTHER.MD#none)\n")
        self.assertEqual(status, 1)
        self.assertIn("OTHER.MD:3: the link none leads to no file.", out)
        self.assertIn("README.md:2: the link OTHER.MD#none leads to no heading of OTHER.MD.", out)
        self.assertIn("2 faults", out)

    def test_build_directories_are_left_out(self):
        self.write("build/page.md", "[a](none)")
        self.write("build-x/page.md", "[a](none)")
        self.write("out/CMakeCache.txt", "")
        self.write("out/page.md", "[a](none)")
        self.write(".git/page.md", "[a](none)")
        self.assertEqual(self.check("# Front\n")[0], 0)
        self.write("docs/build/page.md", "[a](none)")
        self.assertEqual(self.check("# Front\n")[0], 1)

    def test_page_is_not_utf8(self):
        status, out, _ = self.check(b"# \xff")
        self.assertEqual(status, 1)
        self.assertIn("README.md: is not UTF-8 text (byte 2).", out)

    def test_a_page_of_theory_is_no_chapter(self):
        self.write("docs/theory/05_a.md", "# A\n")
        self.assertEqual(self.check("[theory 5](docs/theory/05_a.md)\n")[0], 0)
        _, out, _ = self.check("\nSee [chapter 5](docs/theory/05_a.md).\n")
        self.assertIn("README.md:2: [chapter 5](docs/theory/...) is a page of theory", out)

    def test_no_page(self):
        status, _, err = self.run_main(check.main, "links", "--root", self.root / "empty")
        self.assertEqual(status, 2)
        self.assertIn("there is no Markdown file below", err)


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
        return self.run_main(check.main, "glossary", "--root", self.root)

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
        status, _, err = self.run_main(check.main, "glossary", "--root", self.root)
        self.assertEqual(status, 2)
        self.assertIn("glossary.md", err)
