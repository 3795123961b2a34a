"""Tests of book.py and print_pdf.py: the order of a book, answers, ranks, numbers of pages."""

import re
import types
import unittest

from docutils import nodes

from common.testing.tree import ROOT, TreeTest
from docs.site import book, browser, print_pdf


def raw(words):
    return nodes.raw("", words, format="html")


class Order(unittest.TestCase):
    def test_exercises_stand_behind_their_lesson(self):
        pages = book.pages(ROOT, "course")
        lessons = [page for page in pages if page[:2].isdigit()]
        self.assertEqual(lessons, sorted(lessons, key=lambda page: page[:2]))
        for one, other in zip(lessons, lessons[1:]):
            if "/exercises/" in one and "/exercises/" not in other:
                self.assertNotEqual(one[:2], other[:2], "a chapter behind exercises")
        self.assertEqual(len(pages), len(set(pages)))

    def test_teachers_have_pages_of_their_own(self):
        course, teaching = (set(book.pages(ROOT, name)) for name in ("course", "teaching"))
        self.assertFalse(course & teaching)
        self.assertIn("docs/contributing.md", teaching)
        self.assertIn("common/classroom/teaching.md", teaching)


class Answers(unittest.TestCase):
    def moved(self, *children):
        """The chapter with its answers moved, as [(kind, text)]."""
        section = nodes.section("", nodes.title("", "Step"), *children)
        document = nodes.Element("", nodes.section("", nodes.title("", "1. T"), section))
        fake = types.SimpleNamespace(document=document, end_of=book.OnPaper.end_of)
        book.OnPaper.answers_last(fake, "01_a/1_b.md")
        return section, document

    def test_stand_at_the_end_with_links_there_and_back(self):
        paragraph = nodes.paragraph("", "Four.")
        fold = [raw("<details><summary>Answer</summary>"), paragraph, raw("</details>")]
        section, document = self.moved(nodes.paragraph("", "How many?"), *fold)
        self.assertNotIn("Four.", section.astext())
        last = document[0][-1]
        self.assertEqual(last[0].astext(), "Answers")
        self.assertIn("Four.", last.astext())
        there, back = section.next_node(nodes.reference), last.next_node(nodes.reference)
        self.assertIn(there["refid"], [i for node in last for i in node.get("ids", ())])
        self.assertIn(back["refid"], [i for node in section for i in node.get("ids", ())])

    def test_in_one_piece_and_with_something_folded_in_them(self):
        section, document = self.moved(raw("<details><summary>Answer</summary>One.</details>"))
        self.assertIn("One.", document[0][-1].astext())
        inner = [raw("<details><summary>More</summary>"), raw("</details>")]
        fold = [raw("<details><summary>Answer</summary>"), *inner, nodes.paragraph("", "Two.")]
        section, document = self.moved(*fold, raw("</details>"), nodes.paragraph("", "Then."))
        self.assertIn("Two.", document[0][-1].astext())
        self.assertIn("Then.", section.astext())

    def test_other_folds_stay(self):
        _, document = self.moved(raw("<details><summary>The file</summary>x</details>"))
        self.assertIn("The file", document.astext())
        self.assertEqual(len(document[0]), 2)


class Print(TreeTest):
    PAGE = (
        '<p>front</p><span id="document-01_a/README"></span><section id="l"><h3>Lesson</h3>'
        '<span id="document-01_a/1_b"></span><section id="c"><h5>1. "B"</h5><h6>S</h6></section>'
        '<span id="document-01_a/exercises/x/task"></span><section id="t"><h5>X</h5></section>'
        '<span id="document-01_a/exercises/y/task"></span><section id="u"><h5>Y</h5></section>'
        '</section><span id="document-docs/z"></span><section id="z"><h3>Z</h3></section>'
    )

    def test_headings_show_their_rank(self):
        text, styles = print_pdf.ranked(self.PAGE)
        for heading in ("<h1>Lesson</h1>", "<h2>1. ", "<h3>S</h3>", "<h2>X</h2>", "<h1>Z</h1>"):
            self.assertIn(heading, text)
        self.assertIn(
            """@top-left { content: "Lesson" } @top-right { content: "1. 'B'" }""", styles
        )
        self.assertEqual(styles.count("Exercises: Lesson"), 1)  # they follow each other
        self.assertEqual(text.count("part-01-exercises"), 4)

    def test_links_within_the_book_say_where_they_lead(self):
        text = '<a href="#c">B</a> <a href="x.html">no</a>'
        self.assertIn("B (7)</a>", print_pdf.numbered(text, {"c": 7}, " ({})"))
        self.assertIn(">no</a>", print_pdf.numbered(text, {"c": 7}, " ({})"))
        self.assertIn("B (000)</a>", print_pdf.numbered(text, None, " ({})"))

    def test_the_title_page_has_author_version_and_licence(self):
        citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
        page = print_pdf.title_page("<title>The course</title>", citation)
        for words in ("<h1>The course</h1>", "contributors", "Version ", "MIT licence"):
            self.assertIn(words, page)

    @unittest.skipIf(browser.missing(), browser.missing())
    def test_the_outline_has_chapters_and_sections(self):
        text, _ = print_pdf.ranked(
            self.PAGE.replace("<h6>S", '</section><section id="s"><h6>S \u2013')
        )
        entries = print_pdf.headings(text)
        self.assertEqual(
            entries,
            [(1, "Lesson", "l"), (2, '1. "B"', "c"), (3, "S \u2013", "s"), (2, "X", "t")]
            + [(2, "Y", "u"), (1, "Z", "z")],
        )
        links = "".join(f'<a href="#{anchor}"></a>' for *_, anchor in entries)
        page = self.write("a.html", f'<meta charset="utf-8"><div hidden>{links}</div>{text}')
        pdf = self.root / "a.pdf"
        with browser.Browser() as window:
            window.open(page)
            window.page.pdf(path=pdf)
        print_pdf.outline(pdf, entries)
        raw = pdf.read_bytes()
        items = re.findall(rb"\n?(\d+) 0 obj\n<</Title <feff(\w+)> /Dest /(\w+) /Parent (\d+)", raw)
        number = {name.decode(): object_ for object_, _, name, _ in items}
        parent = {name.decode(): above for *_, name, above in items}
        titles = [bytes.fromhex(title.decode()).decode("utf-16-be") for _, title, *_ in items]
        self.assertEqual(titles, [title for _, title, _ in entries])
        self.assertEqual(parent["s"], number["c"])
        self.assertEqual(parent["c"], number["l"])
        self.assertEqual(parent["z"], parent["l"])
        self.assertRegex(raw, rb"/Catalog[^%]* /Outlines " + parent["l"] + rb" 0 R")
        table = int(re.search(rb"startxref\n(\d+)\n%%EOF\n$", raw)[1])
        places = re.findall(rb"(\d+) 1\n(\d{10}) 00000 n \n", raw[table:])
        self.assertEqual(len(places), len(items) + 2)  # the outline itself, and the catalog
        for object_, place in places:
            self.assertTrue(raw[int(place) :].startswith(object_ + b" 0 obj\n"))


if __name__ == "__main__":
    unittest.main()
