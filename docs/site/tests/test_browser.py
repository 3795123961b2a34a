"""Tests of the program that drives a browser over the site: what is said without a browser, and
what it asks of a page, on pages with one fault each."""

import os
import pathlib
import tempfile
import unittest
from unittest import mock

from common.testing.tree import TreeTest
from docs.site import browser, drive_site


class Skipped(TreeTest):
    def says(self, words):
        self.write("index.html", "")
        status, out, _ = self.run_main(drive_site.main, "--html", self.root)
        self.assertEqual((status, out), (77, f"skipped: {words}.\n"))

    def test_without_playwright(self):
        with mock.patch("docs.site.browser.sync_playwright", None):
            self.says("this Python has no Playwright (./learn docs installs it)")

    def test_without_a_browser(self):
        with (
            mock.patch.dict(os.environ, {"PATH": str(self.root), "CHROME": ""}),
            mock.patch.multiple("docs.site.browser", MAC="/none", sync_playwright=True),
        ):
            self.says("there is no Chromium (apt install chromium)")

    def test_without_a_site(self):
        status, out, _ = self.run_main(drive_site.main, "--html", self.root)
        self.assertEqual(status, 77)
        self.assertRegex(out, r"^skipped: there is no site in [^\n]*\n$")


PAGE = """<!doctype html><html lang="en"><title>Page</title><style>body { color: #222 }</style>
<main><h1>Page</h1><p>first</p><p>second</p><p style="%s">third <em>fourth</em></p><p>last</p>
%s</main>"""


@unittest.skipIf(browser.missing(), browser.missing())
class Axe(unittest.TestCase):
    def found(self, style="", more=""):
        """What axe finds on the page with this style of its third paragraph."""
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "page.html"
            page.write_text(PAGE % (style, more), encoding="utf-8")
            self.window.open(page)
            self.window.value(drive_site.axe())
            return self.window.value(drive_site.AXE, drive_site.LEVELS)

    @classmethod
    def setUpClass(cls):
        cls.window = browser.Browser()
        cls.addClassCleanup(cls.window.close)

    def test_a_page_without_a_fault_has_no_finding(self):
        self.assertEqual(self.found(more="<p style='color: #222'>the same</p>"), [])

    def test_text_of_its_own_colour_background_or_opacity_is_compared(self):
        for style in ("color: #bbb", "background: #444", "opacity: 0.3"):
            self.assertEqual(len(self.found(style)), 1, style)
            self.assertIn("color-contrast: ", self.found(style)[0])

    def test_text_below_an_element_with_a_background_is_compared(self):
        more = "<div style='background: #333'><section><p>dark on dark</p></section></div>"
        self.assertEqual(len(self.found(more=more)), 1)

    def test_large_text_needs_less_contrast_than_small_text_of_the_same_colour(self):
        large = "<p style='color: #888; font-size: 40px'>large</p>"
        small = "<p style='color: #888'>small</p>"
        self.assertEqual(self.found(more=large), [])
        self.assertEqual(len(self.found(more=large + small)), 1)

    def test_a_letter_or_covered_text_does_not_stand_for_the_others_of_its_style(self):
        letters = "<p style='color: #bbb'>x</p>" * 5
        covered = "<div style='position: relative'><p style='color: #bbb'>below</p><p style="
        covered += "'position: absolute; inset: 0; background: #fff; margin: 0'>above</p></div>"
        seen = "<p style='color: #bbb'>seen</p>"
        self.assertEqual(self.found(more=letters + covered), [])
        self.assertEqual(len(self.found(more=letters + covered + seen)), 1)

    def test_what_is_no_matter_of_colour_is_found_at_every_element(self):
        more = "<p><a href='#a'></a></p><p><a href='#b'></a></p>"
        self.assertRegex(self.found(more=more)[0], "^link-name: .*; ")


@unittest.skipIf(browser.missing(), browser.missing())
class PageFaults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.window = browser.Browser()
        cls.addClassCleanup(cls.window.close)

    def found(self, kind, body):
        """What page_faults.js says of this kind on a page with this text."""
        self.window.page.set_content(f"<!doctype html><article>{body}</article>")
        self.window.value(drive_site.FAULTS.read_text(encoding="utf-8"))
        return self.window.value(f"pageFaults.{kind}()")

    def test_punctuation_of_a_formula_does_not_begin_a_line(self):
        formula = "<math><mi>t</mi></math>."
        narrow = '<p style="width: 1px">{} word</p>'
        found = self.found("ends", narrow.format(formula))
        self.assertEqual(found, ["a line begins with '. word'"])
        whole = f'<span style="white-space: nowrap">{formula}</span>'
        self.assertEqual(self.found("ends", narrow.format(whole)), [])

    def test_no_line_ends_behind_the_sign_of_infinity(self):
        narrow = '<p style="width: 1px">{}infinity</p>'
        self.assertEqual(len(self.found("ends", narrow.format("-"))), 1)
        self.assertEqual(self.found("ends", narrow.format("\u2212")), [])

    def test_a_table_of_few_columns_that_is_cut_is_found(self):
        box = '<div class="table-wrapper" style="width: {}px; overflow: auto"><table><tbody><tr>{}'
        cells = "<td>3.14159</td>"
        self.assertEqual(len(self.found("tables", box.format(90, 3 * cells))), 1)
        self.assertEqual(self.found("tables", box.format(900, 3 * cells)), [])
        self.assertEqual(self.found("tables", box.format(90, 13 * cells)), [])

    def test_what_is_long_must_be_divided_on_paper(self):
        text = '<pre style="break-inside: {}; height: {}px">text</pre>'
        found = self.found("paper", text.format("avoid", 600))
        self.assertEqual(found, ["in one piece: PRE text"])
        for style in (("auto", 600), ("avoid", 300)):
            self.assertEqual(self.found("paper", text.format(*style)), [])

    def test_a_squeezed_first_column_is_found(self):
        table = '<div class="table-wrapper"><table><tbody><tr><td style="{}">before the long wait'
        squeezed = self.found("phones", table.format("display: block; width: 50px"))
        self.assertEqual(squeezed, ["a squeezed first column: before the long wait"])
        self.assertEqual(self.found("phones", table.format("min-width: 120px")), [])
