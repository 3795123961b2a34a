"""Tests of slides.py, on chapters as MyST reads them."""

import unittest

from docutils import nodes

from docs.site import slides


def text(words):
    return nodes.Text(words)


def bold(words, rest=""):
    """A paragraph as MyST makes it: an empty text before what is bold."""
    return nodes.paragraph("", "", text(""), nodes.strong("", words), text(rest))


def plain(words):
    return nodes.paragraph("", words)


def raw(words):
    return nodes.raw("", words, format="html")


def section(title, *children):
    return nodes.section("", nodes.title("", title), *children)


def box(kind, *children):
    return nodes.container("", *children, classes=[kind])


def table(rows, columns):
    group = nodes.tgroup("", nodes.tbody("", *(nodes.row() for _ in range(rows))), cols=columns)
    return box("printed", nodes.table("", group))


def listing(lines):
    return box("listing", nodes.literal_block("", "x\n" * lines))


def deck(*sections):
    """[(heading, kind, the texts)] of a chapter with aims and these sections."""
    aims = nodes.enumerated_list("", nodes.list_item("", plain("do it")))
    document = nodes.Element("", section("1. T", plain("You can"), aims, *sections))
    return [
        (heading, kind, [node.astext().strip() for node in content])
        for heading, kind, content in slides.slides_of(document)
    ]


class Slides(unittest.TestCase):
    def test_begin_with_the_aims(self):
        self.assertEqual(deck(), [("1. T", "aims", ["You can", "do it"])])

    def test_a_question_has_its_answer_folded(self):
        answer = [raw("<details><summary>Answer</summary>"), plain("Four."), raw("</details>")]
        found = deck(section("S", bold("Predict.", " How many?"), *answer, plain("Then")))
        texts = ["Predict. How many?", "<details><summary>Answer</summary>", "Four.", "</details>"]
        self.assertEqual(found[1:], [("S", "question", texts)])

    def test_what_stands_between_question_and_answer_belongs_to_it(self):
        answer = [raw("<details><summary>A</summary>\n<details>"), raw("</details>")]
        found = deck(section("S", bold("Predict."), plain("x"), *answer, raw("</details>")))
        self.assertEqual(len(found[1][2]), 5)

    def test_a_question_in_a_box_counts(self):
        asked = nodes.tip("", bold("Predict."), raw("<details>"), raw("</details>"))
        self.assertEqual([kind for _, kind, _ in deck(section("S", asked))], ["aims", "question"])

    def test_a_question_without_an_answer_is_asked(self):
        found = deck(section("S", bold("Predict."), plain("x"), section("T", bold("Predict."))))
        self.assertEqual([kind for _, kind, _ in found], ["aims", "question", "question"])

    def test_a_question_is_not_repeated_over_what_follows_its_answer(self):
        asked = [bold("Predict.", " How many?"), raw("<details>"), raw("</details>")]
        for after in (table(2, 2), listing(2), box("drawing", plain("d"))):
            *_, (_, _, texts) = deck(section("S", *asked, after))
            self.assertEqual(texts, [after.astext().strip()])

    def test_what_is_folded_has_no_slide_of_its_own(self):
        folded = [raw("<details><summary>More</summary>"), box("drawing"), listing(2), table(2, 2)]
        self.assertEqual(len(deck(section("S", *folded, raw("</details>\n<!-- x -->")))), 1)
        self.assertEqual(len(deck(section("S", *folded, raw("</details>"), box("drawing")))), 2)

    def test_a_drawing_has_the_short_paragraph_before_it(self):
        drawing = box("drawing", plain("d"))
        for before, texts in (
            ([plain("Look.")], ["Look.", "d"]),
            ([plain("word " * 61)], ["d"]),
            ([plain("Look."), nodes.math_block("", "x")], ["d"]),
            ([plain("(Source: a record)")], ["d"]),
        ):
            self.assertEqual(deck(section("S", *before, drawing.deepcopy()))[1][2], texts)

    def test_listings_and_tables_that_fit_have_slides(self):
        large = listing(slides.LISTING_LINES + 1), table(slides.TABLE_ROWS + 1, 2), table(2, 9)
        self.assertEqual(len(deck(section("S", *large))), 1)
        kinds = [kind for _, kind, _ in deck(section("S", listing(3), table(3, 4)))]
        self.assertEqual(kinds, ["aims", "listing", "table"])

    def test_end_with_the_summary(self):
        found = deck(section("Summary", plain("All.")))
        self.assertEqual(found[1], ("1. T: summary", "summary", ["All."]))


if __name__ == "__main__":
    unittest.main()
