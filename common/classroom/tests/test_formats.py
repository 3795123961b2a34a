"""Marks in the forms that other programs read, with texts that must not break them."""

import json
import os
import unittest
import unittest.mock
import xml.etree.ElementTree as xml

from common.classroom import formats
from common.classroom.stage import StageResult
from common.classroom.tests.support import exercise

NUMBER = (int, float)
SHOWN = ("hidden", "after_due_date", "after_published", "visible")


class Marks(unittest.TestCase):
    def setUp(self):
        says, notes = "l & m < 3\x1b[31m\x00\nline", [["a", 2]]
        results = [
            StageResult("compiles", "it compiles", 1, "passed", "", [], 1.25),
            StageResult("easy", 'right <&> "easy"', 3, "refused", says, notes, 0.5),
            StageResult("odd", "odd", 3, "skipped", "no lab", [], 0),
            StageResult("proof", "proof", 3, "not reached"),
        ]
        self.marks = [(exercise("03_one_step"), results)]

    def assert_fields(self, record, allowed):
        """Every field of a record is allowed and has its type."""
        for field, value in record.items():
            self.assertIsInstance(value, allowed[field], field)

    def test_text_for_people(self):
        text = formats.plain("a\x1b]da", self.marks)
        self.assertEqual(text.split("\n")[0], "a\\x1b]da")
        self.assertIn("l & m < 3\\x1b[31m\\x00\n", text)

    def test_gradescope(self):
        """Fields, types and values that its page on results.json allows."""
        result = json.loads(formats.gradescope("ada", self.marks))
        common = {"score": NUMBER, "output_format": str, "output": str, "visibility": str}
        common["extra_data"] = dict
        self.assert_fields(
            result,
            {**common, "stdout_visibility": str, "tests": list, "execution_time": NUMBER},
        )
        self.assertEqual(result["score"], 4)
        self.assertIn(result["stdout_visibility"], SHOWN)
        words = dict.fromkeys(("status", "name", "name_format", "number"), str)
        for test in result["tests"]:
            self.assert_fields(test, {**common, **words, "max_score": NUMBER, "tags": list})
            self.assertIn(test["status"], ("passed", "failed"))
            self.assertIn(test["output_format"], ("text", "html", "simple_format", "md", "ansi"))
            self.assertIn(test["visibility"], SHOWN)
            self.assertTrue(all(isinstance(tag, str) for tag in test["tags"]))
            self.assertNotIn("\x1b", test["output"])
            self.assertLessEqual(test["score"], test["max_score"])
        self.assertEqual([t["score"] for t in result["tests"]], [1, 0, 3, 0])

    def test_classroom50(self):
        """The table of fields of the result.json contract, schema classroom50/result/v1."""
        with unittest.mock.patch.dict(os.environ, CLASSROOM="flash"):
            result = json.loads(formats.classroom50("ada", self.marks))
        texts = "schema classroom assignment assignment_type owner submission commit release review"
        fields = dict.fromkeys([*texts.split(), "datetime", "graded_at"], str)
        fields.update({"score": int, "max-score": int, "tests": list})
        self.assertEqual(set(result), set(fields))
        for field, kind in fields.items():
            self.assertIs(type(result[field]), kind, field)
            self.assertTrue(result[field], field)
        self.assertEqual(
            (result["schema"], result["classroom"]), ("classroom50/result/v1", "flash")
        )
        self.assertIn(result["assignment_type"], ("individual", "group"))
        self.assertRegex(result["datetime"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertEqual((result["score"], result["max-score"]), (4, 10))
        for test in result["tests"]:
            self.assertLessEqual({"test-name", "passed", "score", "max-score"}, set(test))
            self.assertIs(type(test["passed"]), bool)
            self.assertIs(type(test["score"]), int)
        self.assertEqual(result["score"], sum(t["score"] for t in result["tests"]))
        self.marks[0][1][0].points = 0.5
        with self.assertRaisesRegex(ValueError, "whole points only"):
            formats.classroom50("ada", self.marks)

    def test_junit(self):
        """Elements and attributes of the schema junit-10.xsd."""
        root = xml.fromstring(formats.junit("ada & co", self.marks))
        of_suite = "group skipped timestamp hostname id package file log url version"
        attributes = {
            "testsuites": "name time tests failures errors disabled",
            "testsuite": "name time tests failures errors " + of_suite,
            "testcase": "name time classname group",
            "failure": "type message",
            "skipped": "type message",
        }
        children = {
            "testsuites": {"testsuite"},
            "testsuite": {"testcase"},
            "testcase": {"failure", "skipped"},
        }
        for element in root.iter():
            self.assertLessEqual(set(element.attrib), set(attributes[element.tag].split()))
            self.assertLessEqual({child.tag for child in element}, children.get(element.tag, set()))
        suite = root.find("testsuite")
        self.assertEqual([suite.get(a) for a in ("tests", "failures", "skipped")], ["4", "1", "2"])
        self.assertEqual(suite[1].find("failure").get("message"), "l & m < 3 [31m ")
        self.assertEqual(suite[0].get("time"), "1.250")
