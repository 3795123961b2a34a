"""Tests of line_ends.py: units and options stay whole, names may break, commands are told from
what they print."""

import unittest

from docutils import nodes
from docutils.utils import new_document
from pygments.token import Generic, Name, Token

from docs.site.github_pages import phone_form, without_way
from docs.site.line_ends import UNIT, Console, Units, whole


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


if __name__ == "__main__":
    unittest.main()
