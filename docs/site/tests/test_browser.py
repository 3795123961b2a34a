"""Tests of the programs that drive a browser: the tile stepper's files and numbers, what is said
without a browser, and what drive_site.py asks of a page, on pages with one fault each."""

import json
import os
import pathlib
import tempfile
import unittest
from unittest import mock

from common.testing.tree import TreeTest
from docs.site import browser, drive_site, drive_stepper
from docs.stepper import page

STEPS = {"runs": [{"steps": []}], "queries": ["a"], "keys": ["</script>"]}


class Files(TreeTest):
    def test_the_numbers_as_a_script(self):
        steps = self.write("steps.json", json.dumps(STEPS))
        target = self.root / "data.js"
        self.assertEqual(self.run_main(page.main, "data", steps, target), (0, "", ""))
        text = self.read("data.js")
        self.assertTrue(text.startswith("window.tileSteps = {") and text.endswith("};\n"), text)
        self.assertEqual(json.loads(text[len("window.tileSteps = ") : -2]), STEPS)

    def test_a_page_of_its_own(self):
        steps = self.write("steps.json", json.dumps(STEPS))
        self.assertEqual(self.run_main(page.main, "alone", steps, self.root / "out")[0], 0)
        text = self.read("out/stepper.html")
        for name in ("stepper.css", "stepper.js", "stepper_data.js"):
            self.assertIn(f'"{name}"', text)
            self.assertTrue((self.root / "out" / name).is_file())
        self.assertNotIn("http", text)

    def test_half_a_file_is_refused(self):
        for text in (json.dumps(STEPS)[:20], '{"runs": []}', "{}"):
            steps = self.write("steps.json", text)
            status, _, err = self.run_main(page.main, "data", steps, self.root / "data.js")
            self.assertEqual(status, 2, text)
            self.assertTrue(err.startswith("page.py: "), err)
            self.assertFalse((self.root / "data.js").exists())
        self.assertEqual(
            self.run_main(page.main, "data", self.root / "none", self.root / "x")[0], 2
        )


class Numbers(unittest.TestCase):
    def test_a_shown_number_is_the_rounded_one(self):
        same = drive_stepper.same
        for shown, value in (
            ("1.23", 1.2349),
            ("\u22121.23", -1.2251),
            (".12", 0.1199),
            ("\u2212.12", -0.12),
            ("\u2212\u221e", None),
            ("3.600 \u2192", 3.60007),
            ("0.00", -0.004),
        ):
            self.assertTrue(same(shown, value), (shown, value))
        for shown, value in (
            ("1.23", 1.2351),
            ("1.23", -1.23),
            ("0.00", None),
            ("\u2212\u221e", 0.0),
            ("", 0.0),
            ("one", 1.0),
        ):
            self.assertFalse(same(shown, value), (shown, value))

    def test_shades(self):
        orange, blue = "rgba(217, 114, 43, 0.6)", "rgba(42, 111, 184, 0.6)"
        self.assertEqual(drive_stepper.strength(orange), 0.6)
        self.assertEqual(drive_stepper.strength(""), 0)
        for shade, x, right in ((orange, 1, True), (orange, -1, False), (blue, -1, True)):
            self.assertEqual(drive_stepper.right_shade(shade, x), right)
        self.assertFalse(drive_stepper.right_shade(orange, None))
        self.assertTrue(drive_stepper.right_shade("", None))


class Skipped(TreeTest):
    def both_say(self, words):
        self.write("index.html", "")
        for main, option in ((drive_site.main, "--html"), (drive_stepper.main, "--program")):
            status, out, _ = self.run_main(main, option, self.root)
            self.assertEqual((status, out), (77, f"skipped: {words}.\n"))

    def test_without_playwright(self):
        with mock.patch("docs.site.browser.sync_playwright", None):
            self.both_say("this Python has no Playwright (./learn docs installs it)")

    def test_without_a_browser(self):
        with (
            mock.patch.dict(os.environ, {"PATH": str(self.root), "CHROME": ""}),
            mock.patch.multiple("docs.site.browser", MAC="/none", sync_playwright=True),
        ):
            self.both_say("there is no Chromium (apt install chromium)")

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
