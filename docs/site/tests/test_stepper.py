"""Tests of the tile stepper's tools that need no browser: its files, how its numbers are compared,
and what is said where there is no browser or no Playwright."""

import json
import os
import unittest
from unittest import mock

from common.testing.tree import TreeTest
from docs.site import drive_site, drive_stepper, stepper_driver
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
        same = stepper_driver.same
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
        self.assertEqual(stepper_driver.strength(orange), 0.6)
        self.assertEqual(stepper_driver.strength(""), 0)
        for shade, x, right in ((orange, 1, True), (orange, -1, False), (blue, -1, True)):
            self.assertEqual(stepper_driver.right_shade(shade, x), right)
        self.assertFalse(stepper_driver.right_shade(orange, None))
        self.assertTrue(stepper_driver.right_shade("", None))


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
