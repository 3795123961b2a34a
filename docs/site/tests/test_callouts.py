"""Tests of callouts.py, on paragraphs as MyST reads them."""

import unittest

from docutils import nodes, utils

from docs.site import callouts


def made(bold, rest=""):
    """The box of a paragraph that begins with bold words."""
    document = utils.new_document("a.md")
    lead = [nodes.Text(""), nodes.strong("", bold), nodes.Text(rest)]
    document += nodes.section("", nodes.paragraph("", "", *lead), nodes.table())
    callouts.Callouts(document).apply()
    return document.next_node(nodes.container)


class Labels(unittest.TestCase):
    def test_a_name_alone_is_a_label_above_what_follows(self):
        for name, label in (("Measure.", "Measure"), ("The change.", "The change")):
            box = made(name)
            self.assertIn("callout-label", box["classes"])
            self.assertEqual(box.astext(), label)

    def test_a_question_keeps_its_mark(self):
        self.assertEqual(made("What limits it?").astext(), "What limits it?")

    def test_a_name_before_a_sentence_is_none(self):
        box = made("Measure.", " It takes 3 ms.")
        self.assertNotIn("callout-label", box["classes"])
        self.assertEqual(box.astext(), "Measure. It takes 3 ms.")


if __name__ == "__main__":
    unittest.main()
