"""Tests of markdown.py, check_pages.py and exercise_pages.py: what is accepted, every message, and
what the page of an exercise shows."""

import json
import unittest

from common.classroom import catalogue
from common.testing.tree import TreeTest
from docs.site import check, exercise_pages, navigation
from docs.site.markdown import Page


class LinksTest(TreeTest):
    def setUp(self):
        super().setUp()
        self.write("lesson/README.md", "# Lesson\n\n## The *idea*\n")
        self.write("lesson/a.cpp", "1\n2\n3\n")
        self.write("img/a b.svg", "<svg/>")
        self.write("empty/x.txt", "")

    def check(self, text, path="README.md"):
        self.write(path, text)
        return self.run_main(check.main, "links", "--root", self.root)

    def test_what_resolves(self):
        status, out, _ = self.check(
            "# Front\n[a](lesson/README.md) [b](lesson/) [c](lesson#the-idea) [d](#front)\n"
            "[e](lesson/README.md#lesson) [f](/lesson/a.cpp) [g](lesson/a.cpp#L2)\n"
            "[h](lesson/a.cpp#L1-L3) ![i](img/a%20b.svg) ![j](<img/a b.svg>) [n](.)\n"
            "[k](https://example.org/none#x) [l](mailto:a@b.c) [m](//example.org)\n"
            "[o](lesson/README.md?plain=1)\n"
        )
        self.assertEqual((status, out), (0, "2 pages, 15 links, 0 faults.\n"))

    def test_what_does_not(self):
        for target, sentence in {
            "none.md": "the link none.md leads to no file.",
            "lesson/readme.md": "the link lesson/readme.md leads to no file.",
            "../other/x.md": "the link ../other/x.md leaves the repository.",
            "#fronts": "the link #fronts leads to no heading of README.md.",
            "#Front": "the link #Front leads to no heading of README.md. Meant is perhaps #front.",
            "lesson/README.md#theidea": "lesson/README.md. Meant is perhaps #the-idea.",
            "lesson#none": "the link lesson#none leads to no heading of lesson/README.md.",
            "empty#x": "the link empty#x has an anchor, but the directory has no README.md.",
            "lesson/a.cpp#main": "has an anchor, but a.cpp is no Markdown page (lines are",
            "lesson/a.cpp#L4": "#L4 names lines that a.cpp does not have; it has 3.",
            "lesson/a.cpp#L3-L2": "names lines that a.cpp does not have; it has 3.",
        }.items():
            status, out, _ = self.check(f"# Front\n\ntext [x]({target})\n")
            self.assertEqual(status, 1, target)
            self.assertIn("README.md:3: ", out)
            self.assertIn(sentence, out)
            self.assertIn("1 faults", out)

    def test_links_of_deeper_pages_are_relative_to_them(self):
        self.assertEqual(self.check("[a](../lesson/README.md) [b](../img)", "docs/deep.md")[0], 0)
        self.assertEqual(self.check("[a](lesson/README.md)", "docs/deep.md")[0], 1)

    def test_capitals_in_the_file_name(self):
        self.write("OTHER.MD", "# Other\n\n[x](none)\n")
        status, out, _ = self.check("# Front\n[a](OTHER.MD#other) [b](OTHER.MD#none)\n")
        self.assertEqual(status, 1)
        self.assertIn("OTHER.MD:3: the link none leads to no file.", out)
        self.assertIn("README.md:2: the link OTHER.MD#none leads to no heading of OTHER.MD.", out)
        self.assertIn("2 faults", out)

    def test_build_directories_are_left_out(self):
        self.write("build/page.md", "[a](none)")
        self.write("build-x/page.md", "[a](none)")
        self.write("out/CMakeCache.txt", "")
        self.write("out/page.md", "[a](none)")
        self.write(".git/page.md", "[a](none)")
        self.assertEqual(self.check("# Front\n")[0], 0)
        self.write("docs/build/page.md", "[a](none)")
        self.assertEqual(self.check("# Front\n")[0], 1)

    def test_page_is_not_utf8(self):
        status, out, _ = self.check(b"# \xff")
        self.assertEqual(status, 1)
        self.assertIn("README.md: 'utf-8' codec can't decode byte 0xff", out)

    def test_a_page_of_theory_is_no_chapter(self):
        self.write("docs/theory/05_a.md", "# A\n")
        self.assertEqual(self.check("[theory 5](docs/theory/05_a.md)\n")[0], 0)
        _, out, _ = self.check("\nSee [chapter 5](docs/theory/05_a.md).\n")
        self.assertIn("README.md:2: [chapter 5](docs/theory/...) is a page of theory", out)

    def test_no_page(self):
        status, _, err = self.run_main(check.main, "links", "--root", self.root / "empty")
        self.assertEqual(status, 2)
        self.assertIn("there is no Markdown file below", err)


GOOD = """# Glossary

Words before the first term, with **bold** ones.

## B

### bank

A part of memory. See [lesson](README.md#bank).

### bank conflict

Two lanes meet, say in $`w . 3`$, once. Then they wait. See `a. b` and
[lesson](README.md).

## W

### warp

Lanes. See [lesson](README.md).

---

[Course](README.md)
"""


class GlossaryTest(TreeTest):
    def check(self, text, linked="bank bank-conflict warp"):
        self.write("docs/glossary.md", text)
        links = (f"[x](../docs/glossary.md#{anchor})" for anchor in linked.split())
        self.write("01_one/1_a.md", "[x](other.md#warp)\n" + "\n".join(links))
        return self.run_main(check.main, "glossary", "--root", self.root)

    def assert_fault(self, words, before, after):
        self.assertEqual(GOOD.count(before), 1)
        status, out, _ = self.check(GOOD.replace(before, after))
        self.assertEqual(status, 1, out)
        self.assertIn(words, out)

    def test_a_good_page_has_no_fault(self):
        self.assertEqual(self.check(GOOD), (0, "3 terms, 0 faults.\n", ""))

    def test_terms_out_of_order_are_named(self):
        swapped = GOOD.replace("### bank\n", "### x\n").replace("### bank c", "### bank\n\nc")
        status, out, _ = self.check(swapped.replace("### x", "### bank conflict"))
        self.assertEqual(status, 1)
        self.assertIn("'bank' must stand before 'bank conflict'", out)

    def test_capitals_do_not_change_the_order(self):
        terms = (f"### {name}\n\nA. [l](a)\n\n" for name in ("bank", "Barrier", "bit"))
        page = "# G\n\n## B\n\n" + "".join(terms)
        self.assertEqual(self.check(page, "bank barrier bit")[:2], (0, "3 terms, 0 faults.\n"))

    def test_a_term_that_stands_twice_is_named(self):
        self.assert_fault("'Bank' stands here a second time", "### bank conflict", "### Bank")

    def test_a_wrong_letter_is_named(self):
        self.assert_fault("'warp' stands under 'V', not under 'W'", "## W", "## V")

    def test_a_term_without_a_link_is_named(self):
        self.assert_fault("'warp' has no link", "Lanes. See [lesson](README.md).", "Lanes.")

    def test_the_sentences_are_counted(self):
        self.assert_fault("'warp' has 0 sentences", "Lanes. See [lesson](README.md).", "[l](a.b)")
        self.assert_fault(
            "'bank' has 0 sentences", "A part of memory. See [lesson](README.md#bank).", ""
        )
        self.assert_fault("'warp' has 4 sentences", "Lanes.", "One. Two? Three!")

    def test_links_are_looked_for_in_lessons(self):
        status, out, _ = self.check(GOOD, "bank bank-conflict")
        self.assertEqual(status, 1)
        self.assertIn("links to 'warp'", out)
        self.assertNotIn("'bank conflict'", out)

    def test_a_page_without_terms_is_a_fault(self):
        status, out, _ = self.check("# Glossary\n\nNothing.\n")
        self.assertEqual(status, 1)
        self.assertIn("there is no term", out)

    def test_a_page_that_is_not_there(self):
        status, _, err = self.run_main(check.main, "glossary", "--root", self.root)
        self.assertEqual(status, 2)
        self.assertIn("glossary.md", err)


ABOUT = {"title": "T", "kind": "fill the hole", "minutes": 20, "machine": "cpu"}
ABOUT |= {"stages": {"compiles": 1, "easy": 3}, "start_fails": ["easy", "x"]}
PUZZLE = ABOUT | {"kind": "predict, then run", "variants": [{"row": "2 1"}]}
FRAME = """namespace student {

/// The sum.
template <class T>
T sum(const T* x,
      int n) {
  //@ solution
  return x[0];
  //@ start
  // TODO
  //@ end
}

}  // namespace student
"""
LINKED = "[`01_sum`](exercises/sum/task.md)"


class NamesTest(TreeTest):
    def setUp(self):
        super().setUp()
        navigation.asked.cache_clear()
        navigation.way.cache_clear()
        self.write("README.md", "# The course\n")
        self.write("01_a/README.md", "# 01. First\n")
        exercises = {"sum": ABOUT, "sums": ABOUT, "count": PUZZLE}
        self.write("01_a/exercises/lesson.json", json.dumps({"exercises": exercises}))
        for name in exercises:
            self.write(f"01_a/exercises/{name}/task.md", f"# 01_{name}: it\n")
            self.write(f"01_a/exercises/{name}/frame.txt", FRAME)

    def check(self, *options):
        return self.run_main(check.main, "exercises", "--root", self.root, *options)

    def test_titles_that_repeat_the_name(self):
        for title, repeats in {
            "01_sum: sum: of three": True,
            "01_sum: Sum memory: of three": True,
            "01_sum: sums: of three": False,
            "01_sum: of three": False,
            "01_sum: the sum: three": False,
        }.items():
            with self.subTest(title):
                self.write("01_a/exercises/sum/task.md", f"# {title}\n")
                status, out, _ = self.check()
                self.assertEqual((status, "repeats its name" in out), (repeats, repeats))

    def test_names_that_are_not_linked(self):
        for line, wanted in {
            "do `01_sum` now": f"do {LINKED} now",
            "do 01_sum.": f"do {LINKED}.",
            "01_sum, 01_sums": f"{LINKED}, [`01_sums`](exercises/sums/task.md)",
            "`./learn exercise start 01_sum` (5)": "[`./learn exercise start 01_sum`]"
            "(exercises/sum/task.md) (5)",
            "| `01_sum` | x |": f"| {LINKED} | x |",
        }.items():
            with self.subTest(line):
                self.write("01_a/1_one.md", f"# 1. One\n\n{line}\n")
                status, out, _ = self.check()
                self.assertEqual(status, 1)
                self.assertIn("01_a/1_one.md:3: not linked: 01_sum", out)
                self.assertEqual(self.check("--write")[0], 0)
                self.assertEqual(self.read("01_a/1_one.md"), f"# 1. One\n\n{wanted}\n")
                self.assertEqual(self.check()[0], 0)

    def test_names_that_may_stand_alone(self):
        for lines in (
            f"do {LINKED} now",
            "[the sum `01_sum`](exercises/sum/task.md)",
            "```sh\n./learn exercise start 01_sum\n```",
            "<details><summary>The lines, after 01_sum</summary>",
            "<!-- 01_sum -->",
            "<!-- generated: x -->\n\n| 01_sum |\n\n<!-- /generated -->",
            '`{"01_sum": 1}`',
            "01_sum.hpp, 01_summary, kernels/01_sum, my-01_sum",
        ):
            with self.subTest(lines):
                self.write("01_a/1_one.md", f"# 1. One\n\n{lines}\n")
                self.assertEqual(self.check()[:2], (0, "3 exercises, 0 faults.\n"))

    def test_places_of_tasks(self):
        self.write("01_a/1_one.md", "# 1. One\n\n`01_sum`, `01_count`\n")
        self.write("01_a/2_two.md", "# 2. Two\n")
        sums, one, count = (f"01_a/exercises/{name}/task.md" for name in ("sums", "sum", "count"))
        below = {page: navigation.below(self.root, page) for page in navigation.way(self.root)}
        self.assertEqual(below["01_a/1_one.md"], [one, count])
        self.assertEqual(below["01_a/README.md"], ["01_a/1_one.md", "01_a/2_two.md", sums])
        wanted = {
            "README.md": (None, "01_a/README.md"),
            "01_a/1_one.md": ("01_a/README.md", "01_a/2_two.md"),
            one: ("01_a/1_one.md", count),
            count: ("01_a/1_one.md", "01_a/2_two.md"),
            "01_a/2_two.md": ("01_a/1_one.md", None),
        }
        for page, neighbours in wanted.items():
            self.assertEqual(navigation.neighbours(self.root, page), neighbours, page)
        self.assertEqual(navigation.parents(self.root, one), ["01_a/README.md", "01_a/1_one.md"])

    def test_page_of_an_exercise(self):
        self.write("01_a/1_one.md", "# 1. One\n\n`01_sum`, `01_count`\n")
        task = "# 01_sum: it\n\nAs in 01_sums.\n\n"
        task += "<details><summary>Hint 1</summary>\n\nh\n\n</details>\n"
        page = exercise_pages.page(self.root, "01_a/exercises/sum/task.md", task)
        for part in (
            "<span>fill the hole</span> <span>20 minutes</span> <span>4 points</span>",
            "Read [1.1 One](/01_a/1_one.md) first.",
            "```cpp\ntemplate <class T>\nT sum(const T* x,\n      int n)\n```",
            "As in [`01_sums`](/01_a/exercises/sums/task.md).",
            "`start` makes `sum.hpp`:",
            "  // TODO\n",
            "| right on easy sizes | 3 |",
            "## Hints\n\n<details><summary>Hint 1",
        ):
            self.assertIn(part, page)
        self.assertNotIn("return x[0]", page)

    def test_page_of_a_prediction(self):
        self.write("01_a/1_one.md", "# 1. One\n\n`01_sum`, `01_count`\n")
        task = "# 01_count: it\n\nThe row {{row}}.\n"
        page = exercise_pages.page(self.root, "01_a/exercises/count/task.md", task)
        self.assertIn("The row 2 1.", page)
        self.assertNotIn("You write:", page)


class SignaturesTest(unittest.TestCase):
    def test_every_exercise_with_code_has_one(self):
        count = 0
        for exercise in catalogue.exercises():
            if exercise.predicts:
                continue
            count += 1
            heads = exercise_pages.signatures(exercise.start())
            self.assertTrue(heads, exercise.id)
            for head in heads:
                self.assertRegex(
                    head, r"(?s)^(\S.*\w\(.*\)( const)?|struct \w+ : \w+)$", exercise.id
                )
        self.assertGreater(count, 50)

    def test_which_functions(self):
        text = (
            "int a(int x) {\n  // TODO\n  if (x) {\n  }\n}\nint b() {\n}\nint c() {\n  // TODO\n}\n"
        )
        self.assertEqual(exercise_pages.signatures(text), ["int a(int x)", "int c()"])
        self.assertEqual(exercise_pages.signatures(text.replace("TODO", "")), ["int c()"])


class Anchors(unittest.TestCase):
    # Right-hand sides: what github.com makes of these headings.
    CASES = {
        "Build and check": "build-and-check",
        "What's new in 2.0?": "whats-new-in-20",
        "`std::exp` and `a_b`": "stdexp-and-a_b",
        "**Bold** _it_ snake_case_name": "bold-it-snake_case_name",
        "A -- B": "a----b",
        "Tiles: 64×32": "tiles-6432",
        "C++ & CUDA": "c--cuda",
        "Größe α": "größe-α",
        "[Link *text*](x.md) end": "link-text-end",
        "1. Naive attention": "1-naive-attention",
        "a\\_b \\* c": "a_b--c",
        "N &lt; 3": "n--3",
        "O(N²) memory": "on-memory",
        "  padded  ": "padded",
        "$x$ and $`y_i`$ and $$z$$": "x-and-y_i-and-z",
    }

    def test_of_headings(self):
        for heading, anchor in self.CASES.items():
            self.assertEqual(Page(f"# {heading}\n").headings[0].anchor, anchor, heading)

    def test_repeated_headings_are_numbered(self):
        page = Page("# A\n## b\n## B\n### b ##\n```\n# not\n```\nC\n---\n#no\n")
        self.assertEqual(
            [(h.line, h.level, h.anchor) for h in page.headings],
            [(0, 1, "a"), (1, 2, "b"), (2, 2, "b-1"), (3, 3, "b-2"), (7, 2, "c")],
        )

    def test_html_anchors_count(self):
        text = '# T\n<a id="x"></a> and <a name=\'y\'></a> <h2 id="z">Z</h2> `<a id="no"></a>`'
        self.assertEqual(Page(text).anchors, {"t", "x", "y", "z"})


class Links(unittest.TestCase):
    CASES = {
        '[a](b.md) ![c](d.svg)\n[e](<f g.md> "t") <img src=\'h.png\'> <A HREF="i">j</A>': (
            [(0, "b.md"), (0, "d.svg"), (1, "f%20g.md"), (1, "h.png"), (1, "i")]
        ),
        "one\n[a\nb](c.md) [d](e.md)": [(1, "c.md"), (2, "e.md")],
        "[![a](b.svg)](c.md) [x [y]](d(e).md)": [(0, "c.md"), (0, "b.svg"), (0, "d(e).md")],
        "[a][b]\n\n[b]: c.md 'title'": [(2, "c.md"), (0, "c.md")],
        "- a ` b\n- [c](d) ` e": [(1, "d")],
        "| a ` | [b](c) |\n|---|---|\n| [d](e) | ` |": [(0, "c"), (2, "e")],
        "<div>\n<img src='a.svg'>\n</div>": [(1, "a.svg")],
    }
    NONE = (
        "`[a](b)`",
        "``[a](b) ` ``",
        "```\n[a](b)\n```",
        "$`[a](b)`$",
        "\\[a](b)",
        "<!-- [a](b) -->",
        "x <!-- [a](b) --> y",
        "<!--\n[a](b)\n-->",
        "~~~\n[a](b)",
    )

    def test_every_form(self):
        for text, links in self.CASES.items():
            self.assertEqual(Page(text).links, links, text)

    def test_code_formulas_comments_and_escapes_hold_none(self):
        for text in self.NONE:
            self.assertEqual(Page(text).links, [], text)
