"""Tests of check_links.py: what resolves, and every message."""

import unittest

from common.testing.tree import TreeTest
from docs.site import check_links


class LinksTest(TreeTest):
    def setUp(self):
        super().setUp()
        self.write("lesson/README.md", "# Lesson\n\n## The *idea*\n")
        self.write("lesson/a.cpp", "1\n2\n3\n")
        self.write("img/a b.svg", "<svg/>")
        self.write("empty/x.txt", "")

    def check(self, text, path="README.md"):
        self.write(path, text)
        return self.run_main(check_links.main, "--root", self.root)

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

    def test_no_page(self):
        status, _, err = self.run_main(check_links.main, "--root", self.root / "empty")
        self.assertEqual(status, 2)
        self.assertIn("there is no Markdown file below", err)


if __name__ == "__main__":
    unittest.main()
