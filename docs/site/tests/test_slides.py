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

    def test_a_question_stands_below_what_it_is_asked_about(self):
        fold = [raw("<details>"), raw("</details>")]
        asked = [bold("Predict.", " What goes wrong?"), *fold]
        words = "Predict. What goes wrong?"
        block, formula = nodes.literal_block("", "barrier 1"), nodes.math_block("", "x")
        steps = nodes.bullet_list("", nodes.list_item("", plain("One.")))
        far = [plain("a"), plain("b"), plain("c")]
        for before, texts in (
            ([plain("A masked row.")], ["A masked row."]),
            ([block], ["barrier 1"]),
            ([block, plain("An exercise.")], ["barrier 1", "An exercise."]),
            ([formula], ["x"]),
            ([steps], ["One."]),
            ([box("drawing", plain("d")), plain("word " * 61)], ["d"]),
            ([nodes.literal_block("", "x\n" * 17)], []),
            ([block, *far], ["c"]),
            ([plain("(Source: a record)")], []),
            ([*asked], []),
        ):
            nodes_before = [node.deepcopy() for node in before]
            *_, (_, kind, found) = deck(section("S", *nodes_before, *asked))
            self.assertEqual((kind, found[: found.index(words)]), ("question", texts))
        own = [bold("Predict.", " Which of these?"), nodes.literal_block("", "own"), *fold]
        *_, (_, _, found) = deck(section("S", block, *own))
        self.assertEqual(found[:2], ["Predict. Which of these?", "own"])

    def test_a_question_about_what_is_above_finds_it_in_earlier_sections(self):
        asked = [bold("Predict.", " What does the diff above return?"), raw("</details>")]
        before = section("S", nodes.literal_block("", "diff"), plain("Then."))
        *_, (_, _, found) = deck(before, section("T", asked[0]))
        self.assertEqual(found, ["diff", "Predict. What does the diff above return?"])

    def test_what_is_shown_again_has_no_anchor(self):
        shown = nodes.literal_block("", "x", ids=["here"])
        document = nodes.Element("", section("1. T", section("S", shown, bold("Predict."))))
        *_, (_, _, content) = slides.slides_of(document)
        self.assertEqual([node["ids"] for node in content], [[], []])
        self.assertEqual(shown["ids"], ["here"])

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

    def test_are_linked_below_a_title(self):
        body = '<h1>Lesson<a href="#x">#</a></h1>\n<p>x</p><h2>Slides</h2>\n<p>y</p>'
        links = {"slides.html": "Slides", "b/slides.html": "02. B & C"}
        line = (
            '<p class="slides-links"><a href="slides.html">Slides</a> · '
            '<a href="b/slides.html">02. B &amp; C</a></p>'
        )
        self.assertEqual(slides.with_links(body, links), body.replace("</h1>", f"</h1>\n{line}"))
        self.assertEqual(
            slides.with_links(body, links, "Slides"), body.replace("</h2>", f"</h2>\n{line}")
        )
        self.assertEqual(slides.with_links(body, links, "None"), body)


if __name__ == "__main__":
    unittest.main()
