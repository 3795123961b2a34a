"""Tests of what pages become on the site: callouts, ends of lines, formulas, colours of
listings."""

import pathlib
import re
import unittest

from docutils import nodes, utils
from docutils.utils import new_document
from pygments import token
from pygments.styles import get_style_by_name
from pygments.token import Generic, Name, Token

from common.drawing.dark import contrast
from docs.site import formulas, transforms
from docs.site.transforms import UNIT, Console, Units, phone_form, whole, without_way


def made(bold, rest=""):
    """The box of a paragraph that begins with bold words."""
    document = utils.new_document("a.md")
    lead = [nodes.Text(""), nodes.strong("", bold), nodes.Text(rest)]
    document += nodes.section("", nodes.paragraph("", "", *lead), nodes.table())
    transforms.Callouts(document).apply()
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


def parts(text):
    return [(kind, words) for kind, words in Console().get_tokens(text) if kind is not Token.Text]


class UnitsTest(unittest.TestCase):
    def test_no_line_ends_before_a_unit(self):
        for words in ("3 %", "900 TFLOP/s", "2.5 GB/s", "64 bytes", "16 bits", "2 h", "12 hours"):
            self.assertEqual(UNIT.sub("~", words), words.replace(" ", "~"))
        self.assertEqual(UNIT.sub("~", "1 h 50"), "1~h~50")

    def test_other_words_may_begin_a_line(self):
        for words in ("lesson 05 shows", "4 shapes", "64 bystanders", "a % b", "3 sums"):
            self.assertEqual(UNIT.sub("~", words), words)

    def test_code_keeps_its_spaces(self):
        document = new_document("")
        document += nodes.paragraph("", "", nodes.Text("3 %"), nodes.literal("", "3 %"))
        Units(document).apply()
        self.assertEqual(document.astext(), "3\N{NO-BREAK SPACE}%3 %")

    def test_a_comment_may_stand_between_a_figure_and_its_unit(self):
        document = new_document("")
        comment = nodes.raw("", "<!-- /value -->", format="html")
        document += nodes.paragraph("", "", nodes.Text("3"), comment, nodes.Text(""))
        document[0] += nodes.Text(" ms, then")
        Units(document).apply()
        self.assertTrue(document.astext().endswith("\N{NO-BREAK SPACE}ms, then"))

    def test_no_line_ends_behind_the_sign_of_infinity(self):
        document = new_document("")
        document += nodes.paragraph("", "", nodes.Text("LSE = -infinity, (-inf) and 0-inf"))
        Units(document).apply()
        self.assertEqual(document.astext(), "LSE = \u2212infinity, (\u2212inf) and 0-inf")


class WholeTest(unittest.TestCase):
    def test_a_formula_and_its_punctuation_stay_whole(self):
        formula = "<math><mi>t</mi></math>"
        for before, after in (("", "."), ("(", ""), ("", "),"), ("(", ")")):
            kept = f'a <span class="whole">{before}{formula}{after}</span> b'
            self.assertEqual(whole(f"a {before}{formula}{after} b"), kept)
        for free in (f"a {formula} b", f"<td>{formula}</td>"):
            self.assertEqual(whole(free), free)

    def test_options_and_short_words_of_code_stay_whole(self):
        for words in ("--epub", "-DFA_GPU=COMPILE", "wgmma_wait&lt;n&gt;(d)"):
            self.assertIn("pre whole", whole(f'<span class="pre">{words}</span>'))
        path = '<span class="pre">build/learn/01_naive_attention/01_naive_attention</span>'
        self.assertEqual(whole(path), path)

    def test_names_in_the_first_column_may_break(self):
        row = '<tr class="row-even"><td><p>{}</p></td>\n<td><p>a_b</p></td>'
        self.assertEqual(whole(row.format("07_matmul")), row.format("07_<wbr/>matmul"))
        linked = row.format('<a href="a_b">07_matmul</a>')
        self.assertEqual(whole(linked), linked.replace("07_", "07_<wbr/>"))


class TableTest(unittest.TestCase):
    def form(self, *words):
        cells = [nodes.entry("", nodes.paragraph("", text)) for text in words]
        group = nodes.tgroup("", nodes.tbody("", nodes.row("", *cells)))
        return phone_form(nodes.table("", group))

    def test_sentences_are_stacked_and_long_names_keep_their_room(self):
        name, sentence = "exp(x), after a multiplication by the scale", "a sentence of " * 3
        self.assertEqual(self.form("a name", sentence), ["stacked"])
        self.assertEqual(self.form(name, "1.02"), ["named"])
        self.assertEqual(self.form(2 * name, "short"), ["stacked"])
        self.assertEqual(self.form("float32", "1.02"), [])


class EndTest(unittest.TestCase):
    def end(self, *parts):
        """What is left of a page whose last line has these parts."""
        line = nodes.paragraph("", "", *parts)
        document = new_document("")
        document += nodes.section("", nodes.paragraph("", "text"), nodes.transition(), line)
        without_way(document)
        return [node.astext() for node in document[0]]

    def test_the_line_of_links_is_not_needed_on_the_site(self):
        link = nodes.reference("", "Course", refuri="/README.md")
        other = nodes.reference("", "Kernel fusion", refuri="/docs/theory/02_kernel_fusion.md")
        self.assertEqual(self.end(link.deepcopy(), nodes.Text(" · Next: "), other), ["text"])
        lessons = nodes.Text("Lessons: "), link, nodes.Text(" · Next: "), other.deepcopy()
        self.assertEqual(self.end(*lessons), ["text", "", "Lessons: Course "])
        self.assertEqual(self.end(nodes.Text("words")), ["text", "", "words"])


class ConsoleTest(unittest.TestCase):
    def test_a_command_is_its_first_word(self):
        found = parts("./learn test --build x  # all\nls | wc\n")
        commands = [words for kind, words in found if kind is Name.Function]
        self.assertEqual(commands, ["./learn", "ls", "wc"])
        self.assertIn((Name.Attribute, "--build"), found)
        self.assertIn("# all", [words for _, words in found])

    def test_a_continued_line_is_no_command(self):
        found = parts("python3 -m a \\\n    b --c\n")
        self.assertEqual([w for kind, w in found if kind is Name.Function], ["python3"])

    def test_behind_prompts_stand_commands_and_the_rest_is_output(self):
        found = parts("$ ls\na file\n$ wc a\n 1 2\n")
        self.assertEqual([w for kind, w in found if kind is Name.Function], ["ls", "wc"])
        output = [words for kind, words in found if kind is Generic.Output]
        self.assertEqual(output, ["a file\n", " 1 2\n"])

    def test_nothing_is_lost(self):
        for text in ("A=1 b 'c d' && e\n\n# f\n", "$ a\nb\n"):
            self.assertEqual("".join(words for _, words in Console().get_tokens(text)), text)


SITE = pathlib.Path(__file__).resolve().parents[1]
PARTS = (token.Comment.Single, token.Keyword, token.Keyword.Type, token.Number.Integer)


class Dark(unittest.TestCase):
    def setUp(self):
        text = (SITE / "conf.py").read_text("utf-8")
        self.style = get_style_by_name(re.search(r'pygments_dark_style = "(.*)"', text)[1])

    def test_parts_of_code_differ(self):
        colours = [self.style.style_for_token(part)["color"] for part in PARTS]
        self.assertEqual(len(set(colours)), len(PARTS), colours)

    def test_comments_are_grey(self):
        colour = self.style.style_for_token(token.Comment.Single)["color"]
        parts = [int(colour[i : i + 2], 16) for i in (0, 2, 4)]
        self.assertLess(max(parts) - min(parts), 48)

    def test_letters_stand_out(self):
        ground = self.style.background_color[1:]
        for part, look in self.style:
            if look["color"] and part is not token.Error:
                own = look["bgcolor"] or ground
                self.assertGreaterEqual(contrast(f"#{look['color']}", f"#{own}"), 4.5, part)


def operators_of(tex):
    """The elements of a formula: operators with their attributes, other elements by their text."""
    made, unknown = formulas.mathml(tex, "inline")
    assert not unknown, unknown
    return re.findall(r"<(m[ino](?: form=\"\w+\"| [lr]space=\"0\")*)(?: [^>/]*)?>([^<]*)<", made)


def functions(tex):
    """The names of functions with their spaces."""
    return re.findall(r"<(mo [lr]space=[^>]*)>(\w+)<", formulas.mathml(tex, "inline")[0])


PREFIX = 'mo form="prefix"'


class Formulas(unittest.TestCase):
    def test_a_sign_without_an_operand_before_it_is_a_prefix(self):
        for tex in (
            r"-\infty",
            r"m = -\infty",
            r"(-\infty)",
            r"e^{-\infty}",
            r"\{-1, 1\}",
            r"a, -b",
            r"x \cdot -y",
            r"\begin{aligned} a &= -b \end{aligned}",
            r"|-x|",
            r"a = {-b}",
        ):
            with self.subTest(tex):
                self.assertIn((PREFIX, "\u2212"), operators_of(tex))

    def test_a_sign_between_operands_is_none(self):
        for tex in (r"a - b", r"(a) - b", r"a_i - b", r"e^{s - m}", r"|a| - b", r"n! - 1"):
            with self.subTest(tex):
                self.assertNotIn((PREFIX, "\u2212"), operators_of(tex))
        self.assertEqual(
            [tag for tag, text in operators_of(r"-\infty - (-\infty)") if text == "\u2212"],
            [PREFIX, "mo", PREFIX],
        )

    def test_infinity_is_a_name(self):
        self.assertIn(("mi", "\u221e"), operators_of(r"m = -\infty"))
        self.assertIn(("mi", "\u22a4"), operators_of(r"Q K^\top"))

    def test_an_operator_and_equals_are_one(self):
        for tex in (
            r"d \mathrel{+}= A B",
            r"d += 1",
            r"\begin{aligned} d &\mathrel{+}= a \end{aligned}",
        ):
            with self.subTest(tex):
                found = [text for _, text in operators_of(tex)]
                self.assertIn("+=", found)
                self.assertNotIn("+", found)
        self.assertIn("\u2212=", [text for _, text in operators_of("a -= b")])

    def test_a_point_at_the_end_has_no_spaces(self):
        self.assertIn(('mo lspace="0" rspace="0"', "."), operators_of(r"a = b ."))

    def test_no_space_between_a_function_and_its_parenthesis(self):
        self.assertIn(('mo lspace="0.167em" rspace="0"', "max"), [*functions(r"x \max(a, b)")])
        self.assertIn(('mo lspace="0" rspace="0.167em"', "max"), [*functions(r"m = \max x")])

    def test_what_becomes_no_mathml_is_named(self):
        self.assertEqual(formulas.mathml(r"\nosuch", "inline"), ("", r"\nosuch"))
        self.assertTrue(formulas.mathml(r"a &= b", "inline")[1])
