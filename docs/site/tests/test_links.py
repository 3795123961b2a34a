"""Tests of check_links.py: which links of Markdown files are right."""

from common.testing.tree import TreeTest
from docs.site import check_links


class LinksTest(TreeTest):
    def setUp(self):
        super().setUp()
        check_links.read.cache_clear()
        self.write("lesson/README.md", "# Lesson\n\n## The *idea*\n\n## The idea\n")
        self.write("lesson/a.cpp", "1\n2\n3\n")
        self.write("img/a b.svg", "<svg/>")

    def check(self, text, path="README.md"):
        check_links.read.cache_clear()
        self.write(path, text)
        return self.run_main(check_links.main, "--root", self.root)

    def test_what_resolves(self):
        status, out, _ = self.check(
            "# Front\n[a](lesson/README.md) [b](lesson/) [c](lesson#the-idea-1) [d](#front)\n"
            "[e](/lesson/a.cpp) [f](lesson/a.cpp#L1-L3) ![g](img/a%20b.svg) ![h](<img/a b.svg>)\n"
            "[i](https://example.org/none#x) [j](lesson/README.md?plain=1) `[k](none)`\n\n"
            '<a id="here"></a><a href="#here">l</a>\n\n```\n[m](none)\n```\n'
        )
        self.assertEqual((status, out), (0, "2 pages, 11 links, 0 faults.\n"))

    def test_what_does_not(self):
        for target in (
            "none.md",
            "../other/x.md",
            "#fronts",
            "#Front",
            "lesson#none",
            "img#x",
            "lesson/a.cpp#main",
            "lesson/a.cpp#L4",
            "lesson/a.cpp#L3-L2",
        ):
            status, out, _ = self.check(f"# Front\n\ntext [x]({target})\n")
            self.assertEqual(status, 1, target)
            self.assertIn(f"README.md:3: the link {target} ", out)

    def test_links_of_deeper_pages_are_relative_to_them(self):
        self.assertEqual(self.check("[a](../lesson/README.md) [b](../img)", "docs/deep.md")[0], 0)
        self.assertEqual(self.check("[a](lesson/README.md)", "docs/deep.md")[0], 1)

    def test_build_directories_are_left_out(self):
        self.write("build/page.md", "[a](none)")
        self.assertEqual(self.check("# Front\n")[0], 0)
        self.assertEqual(self.check("[a](none)", "docs/build/page.md")[0], 1)

    def test_a_page_that_cannot_be_read(self):
        status, out, _ = self.check(b"# \xff")
        self.assertEqual(status, 1)
        self.assertIn("README.md: ", out)
