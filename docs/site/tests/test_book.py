"""Tests of what the site has beside its pages: books, their PDF and EPUB, slides, the search's
text."""

import types
import unittest
import unittest.mock
import zipfile

import pypdf
from docutils import nodes

from common.testing.tree import ROOT, TreeTest
from docs.site import book, browser, check, print_pdf, search_index, slides


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
        read = pypdf.PdfReader(pdf)

        def titles(items):
            return [titles(one) if isinstance(one, list) else one.title for one in items]

        inside = ['1. "B"', ["S \u2013"], "X", "Y"]
        self.assertEqual(titles(read.outline), ["Lesson", inside, "Z"])
        first = read.get_destination_page_number(read.outline[0])
        self.assertEqual(first + 1, print_pdf.page_numbers(pdf)["l"])
        self.assertEqual(read.page_mode, "/UseOutlines")


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


def text(words):
    return nodes.Text(words)


def bold(words, rest=""):
    """A paragraph as MyST makes it: an empty text before what is bold."""
    return nodes.paragraph("", "", text(""), nodes.strong("", words), text(rest))


def plain(words):
    return nodes.paragraph("", words)


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


class Readable(unittest.TestCase):
    CASES = {
        r"e^{m - m_{\text{new}}}": "e^(m - m_new)",
        r"\frac{N^2 d}{B_n}": "(N^2 d) / (B_n)",
        r"\frac{1}{\sqrt{d}}": "(1) / (√d)",
        r"\frac{1}{2}": "1 / 2",
        r"P = \text{softmax}(S) , \qquad O": "P = softmax (S) , O",
        r"j \le i + \alpha": "j ≤ i + alpha",
        r"\begin{aligned} a &= b \\ c &= d \end{aligned}": "a = b c = d",
        r"Q K^\top": "Q Kᵀ",
        r"V^{\mathrm{T}}": "Vᵀ",
        r"\sqrt[3]{\varepsilon}": "∛ε",
        r"\sqrt{\varepsilon}": "√ε",
        r"\sqrt{a + b}": "√(a + b)",
    }

    def test_a_formula_is_shown_without_commands(self):
        for tex, text in self.CASES.items():
            self.assertEqual(search_index.readable(tex), text, tex)
            self.assertNotIn("\\", search_index.readable(tex))


class TextOf(unittest.TestCase):
    def test_figures_of_tables_are_found_and_not_shown(self):
        row = nodes.row("", *(nodes.entry("", nodes.paragraph("", w)) for w in ("kernel", "1.25")))
        table = nodes.table("", nodes.tgroup("", nodes.tbody("", row)))
        origin = nodes.paragraph("", "commit 0123456789ab", classes=["printed-origin"])
        section = nodes.section("", nodes.paragraph("", "Words"), table, origin)
        self.assertEqual(search_index.text_of(section), ["Words", "kernel 1.25"])

    def test_captions_of_listings_are_left_out(self):
        caption = nodes.paragraph("", "a.cuh, lines 1 to 2", classes=["listing-caption"])
        section = nodes.section("", nodes.paragraph("", "Words"), caption)
        self.assertEqual(search_index.text_of(section)[0], "Words")

    def test_subsections_are_left_out(self):
        inner = nodes.section("", nodes.title("", "T"), nodes.paragraph("", "no"))
        section = nodes.section("", nodes.paragraph("", "", nodes.math("", r"a \le b")), inner)
        self.assertEqual(search_index.text_of(section)[0], "a ≤ b")

    def test_a_term_says_where_it_is_taught(self):
        links = [nodes.reference("", "x", refuri=u) for u in ("/01_a/1_b.md#c", "/x.cu", "http:/")]
        section = nodes.section("", nodes.paragraph("", "", *links))
        self.assertEqual(list(search_index.taught(section)), ["01_a/1_b.html#c"])
