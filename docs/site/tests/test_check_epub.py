"""Tests of check_epub.py, on small books."""

import unittest
import unittest.mock
import zipfile

from common.testing.tree import TreeTest
from docs.site import check

OPF = """<package unique-identifier="u"><dc:identifier id="u">book-1</dc:identifier>
<item href="toc.ncx" id="ncx"/><item href="c.svg" id="c" properties="cover-image"/>
<item href="a%20b.css" id="s"/><itemref idref="c"/>"""


class CheckEpub(TreeTest):
    def check(self, **changed):
        """(status, what was printed) for a good book with some files changed."""
        book = {
            "mimetype": "application/epub+zip",
            "content.opf": OPF,
            "toc.ncx": '<meta name="dtb:uid" content="book-1"/>',
            "c.svg": "<svg/>",
            "a b.css": "p { background: url(c.svg) }",
        }
        book.update({name.replace("_", "."): text for name, text in changed.items()})
        with zipfile.ZipFile(self.root / "book.epub", "w") as archive:
            for name, text in book.items():
                if text is not None:
                    archive.writestr(name, text)
        with unittest.mock.patch("shutil.which", return_value=None):
            return self.run_main(check.main, "epub", "--epub", self.root / "book.epub")[:2]

    def test_good(self):
        status, out = self.check()
        self.assertEqual(status, 0, out)
        self.assertIn("5 files (epubcheck is not installed), 0 faults.", out)

    def test_each_fault_is_found(self):
        for changed, words in (
            ({"toc_ncx": "other"}, "another identifier"),
            ({"content_opf": OPF.replace("dc:", "")}, "no identifier"),
            ({"content_opf": OPF.replace("cover-image", "x")}, "the cover"),
            ({"content_opf": OPF.replace('idref="c"', 'idref="d"')}, "the order names d"),
            ({"c_svg": None}, "there is no file c.svg"),
            ({"x_css": ""}, "x.css is not in the list"),
            ({"x_xhtml": "<p>a<wbr>b</p>"}, "x.xhtml is no XML: mismatched tag"),
            ({"x_xhtml": '<p><img src="none.svg"/></p>'}, "x.xhtml: there is no none.svg"),
            ({"x_xhtml": '<p id="a"><a href="#b"/></p>'}, "x.xhtml: x.xhtml has no place b"),
            ({"x_css": "@font-face { src: url('f.otf') }"}, "x.css: there is no f.otf"),
            ({"x_css": "@page { @bottom-center { content: none } }"}, "for paper"),
        ):
            with self.subTest(words):
                status, out = self.check(**changed)
                self.assertEqual(status, 1, out)
                self.assertIn(words, out)

    def test_not_a_book(self):
        self.write("book.epub", "x")
        status, _, err = self.run_main(check.main, "epub", "--epub", self.root / "book.epub")
        self.assertEqual((status, "is not an EPUB" in err), (2, True))


if __name__ == "__main__":
    unittest.main()
