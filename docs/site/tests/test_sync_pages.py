"""Tests of sync_pages.py, excerpts.py and tables.py: what they write, what they leave alone, what
they refuse; which text is a table, and which differences another processor may make."""

import os
import unittest
from unittest import mock

from common.testing.tree import TreeTest
from docs.site import excerpts, sync_pages
from docs.site.sync_pages import in_step
from docs.site.tables import Problem, escaped, markdown

SOURCE = "//! [sum]\n  //! [inner]\n  int a = 1;\n  //! [inner]\n\n    int b = 2;\n//! [sum]\n"
PAGE = """# Title

<!-- listing: src/a.cpp#sum -->
```cpp
old
```

<!-- generated: prog --size 3 "two words" -->
old
<!-- /generated -->
no line end at the end of the page"""
SYNCED = PAGE.replace("```cpp\nold\n", "```cpp\nint a = 1;\n\n  int b = 2;\n").replace(
    "-->\nold\n", "-->\n\n```text\n<--size>\n<3>\n<two words>\n```\n\n"
)


def listing(target, fence="```cpp\n```\n"):
    return f"<!-- listing: {target} -->\n{fence}"


def generated(command, shown=""):
    block = f"\n```text\n{shown}\n```\n\n" if shown else ""
    return f"text\n<!-- generated: {command} -->\n{block}<!-- /generated -->\n"


def drawn(command, file="a.svg"):
    return f"<!-- generated: {command} -->\n![words]({file})\n<!-- /generated -->\n"


class SyncTest(TreeTest):
    def setUp(self):
        super().setUp()
        self.write("src/a.cpp", SOURCE)
        self.program("prog", 'printf "<%s>\\n" "$@"')

    def program(self, name, script):
        self.write(f"build/{name}/{name}", f"#!/bin/sh\n{script}\n", 0o755)

    def sync(self, *arguments):
        return self.run_main(
            sync_pages.main, "--root", self.root, "--programs", self.root / "build", *arguments
        )

    def synced(self, text):
        """The page that becomes of a text; a second run leaves it as it is."""
        self.write("page.md", text)
        status, _, err = self.sync("page.md")
        self.assertEqual((status, err), (0, ""))
        self.assertEqual(self.sync("--check", "page.md")[0], 0)
        return self.read("page.md")

    def assert_problem(self, text, *words):
        """The page gives a message with these words and exit status 2; nothing is written."""
        self.write("page.md", text)
        for mode in ((), ("--check",)):
            status, _, err = self.sync(*mode, "page.md")
            self.assertEqual(status, 2, text)
            for word in words:
                self.assertIn(word, err)
            self.assertEqual(self.read("page.md"), text)


class Pages(SyncTest):
    def test_a_page_is_written_once(self):
        self.assertEqual(self.synced(PAGE), SYNCED)
        os.utime(self.root / "page.md", (1, 1))
        self.sync("page.md")
        self.assertEqual(os.stat(self.root / "page.md").st_mtime, 1)

    def test_check_shows_the_difference_and_writes_nothing(self):
        self.write("page.md", PAGE)
        status, out, _ = self.sync("--check", "page.md")
        self.assertEqual((status, self.read("page.md")), (1, PAGE))
        for line in ("-old", "+int a = 1;", "+<two words>"):
            self.assertIn(line + "\n", out)

    def test_indentation_is_kept(self):
        start = "1. item\n\n   <!-- listing: src/a.cpp#sum -->\n   ```cpp title\n"
        text = f"{start}   ```\n\n   <!-- generated: prog -->\n   <!-- /generated -->\nlast\n"
        wanted = text.replace(start, f"{start}   int a = 1;\n\n     int b = 2;\n").replace(
            "prog -->\n", "prog -->\n\n   ```text\n   <>\n   ```\n\n"
        )
        self.assertEqual(self.synced(text), wanted)

    def test_what_stands_in_fences_and_comments_is_left_alone(self):
        for text in (
            "````md\n" + listing("no/such.cpp#tag") + "````\n`<!-- generated: x -->`\n",
            "<!--\n" + listing("no/such.cpp#tag") + "-->\n",
            "~~~\n```\n<!-- generated: x -->\n~~~\n",
        ):
            self.assertEqual(self.synced(text), text)

    def test_a_table_is_cut_to_rows_and_columns(self):
        self.program(
            "prog", "printf 'kernel  ms  a\\n------  --  -\\n07_a     3  1\\n08_b     4  2\\n'"
        )
        text = "<!-- generated: prog | rows 08_*; 09 a | columns ms -->\n<!-- /generated -->\n"
        self.assert_problem(text, "page.md:1", "09 a")
        text = text.replace("; 09 a", "")
        table = "| kernel |   ms |\n| ---    | ---: |\n| 08_b   |    4 |"
        self.assertEqual(self.synced(text), text.replace("-->\n<", f"-->\n\n{table}\n\n<", 1))

    def test_a_block_that_differs_only_in_last_digits_stays(self):
        self.program("prog", f"echo 0.52 $(cat '{self.write('n', '1')}')")
        page = generated("prog", "0.51 1")
        self.assertEqual(self.synced(page), page)
        self.write("n", "2")
        self.assertEqual(self.synced(page), generated("prog", "0.52 2"))

    def test_facts_are_checked(self):
        self.write("page.md", "Is <!-- fact: no_such_fact -->1<!-- /fact -->.\n")
        status, _, err = self.sync("page.md")
        self.assertEqual(status, 2)
        self.assertIn("no_such_fact", err)

    def test_nothing_is_written_when_one_page_has_a_problem(self):
        self.write("good.md", listing("src/a.cpp#inner"))
        self.write("bad.md", listing("src/a.cpp#nothing"))
        self.assertEqual(self.sync("good.md", "bad.md")[0], 2)
        self.assertEqual(self.read("good.md"), listing("src/a.cpp#inner"))

    def test_what_is_wrong_is_named_with_its_line(self):
        self.write("src/f.cpp", "//! [t]\n```\n//! [t]\n")
        for text, line, word in (
            (listing("src/b.cpp#x"), 1, "src/b.cpp"),
            (listing("src/a.cpp#sum", "text\n```cpp\n```\n"), 1, "no fenced block"),
            (listing("src/a.cpp#sum", "```cpp\ntext\n"), 1, "no fenced block"),
            (listing("src/f.cpp#t"), 1, "would close"),
            ("\n<!-- generated: prog -->\n", 2, "not closed"),
            (generated("prog").replace("/gen", "/diff -->\n<!-- /gen"), 2, "not closed"),
            ("a\n<!-- /generated -->\n", 2, "no block is open"),
            ("<!-- diff: src/a.cpp a.cpp -->\n```diff\n```\n<!-- /diff -->\n", 1, "no diff"),
            *(
                (comment + "\n```\n```\n", 1, "cannot be read")
                for comment in (
                    "<!-- listing: src/a.cpp -->",
                    "<!-- Listing: src/a.cpp#sum -->",
                    "<!-- diff: a b --most 3 -->",
                    "<!-- generated -->",
                    "<!--listing: src/a.cpp#sum-->",
                    "<!-- drawn: prog -->",
                    "<!-- /listing -->",
                )
            ),
        ):
            self.assert_problem(text, f"page.md:{line}: ", word)


class Drawings(SyncTest):
    def setUp(self):
        super().setUp()
        self.write("tools/draw.py", "import sys\nprint('<svg>', *sys.argv[1:], sep='\\n')\n")

    def test_a_drawing_goes_where_the_page_shows_it(self):
        self.write("01_a/README.md", drawn("tools.draw x", "figures/pic.svg"))
        (self.root / "01_a/figures").mkdir()
        self.assertEqual(self.sync("--check", "01_a/README.md")[0], 1)
        self.assertEqual(self.sync("01_a/README.md")[0], 0)
        self.assertEqual(self.read("01_a/figures/pic.svg"), "<svg>\nx\n")
        self.write("01_a/figures/pic.svg", "<svg>\ny\n")
        status, out, _ = self.sync("--check", "01_a/README.md")
        self.assertEqual(status, 1)
        self.assertIn("-y\n+x\n", out)

    def test_one_file_is_drawn_by_one_command(self):
        self.synced(drawn("tools.draw 1") * 2)
        self.assert_problem(drawn("tools.draw 1") + drawn("tools.draw 2"), "page.md:4", "a.svg")


class Running(SyncTest):
    def test_programs_and_modules_run_in_the_repository(self):
        self.write("tools/show.py", "import sys\nprint(open(sys.argv[1]).read())\n")
        self.write("build/common/show", '#!/bin/sh\ncat "$1"\n', 0o755)
        self.write("data.txt", "from the root")
        for name in ("tools.show", "common/show"):
            page = generated(f"{name} data.txt")
            self.assertEqual(self.synced(page), generated(f"{name} data.txt", "from the root"))

    def test_programs_of_another_processor(self):
        self.write("emulate", '#!/bin/sh\necho "$1 runs $(basename $2) $3"\n', 0o755)
        self.write("page.md", generated("prog 1"))
        self.assertEqual(self.sync("--emulator", f"'{self.root}/emulate' -cpu", "page.md")[0], 0)
        self.assertEqual(self.read("page.md"), generated("prog 1", "-cpu runs prog 1"))

    def test_without_input_colours_and_gpu(self):
        self.program("prog", 'cat; echo "<$NO_COLOR $TERM ${CUDA_VISIBLE_DEVICES-all}>"')
        self.assertEqual(self.synced(generated("prog")), generated("prog", "<1 dumb >"))

    def test_programs_that_fail_print_nothing_or_colours_or_do_not_end(self):
        for script, word in (
            ("echo a b >&2; echo half; exit 3", "status 3: a b"),
            ("printf '\\033[31mred\\n'", "colours"),
            ("printf 'ab\\377\\n'", "utf-8"),
            ("true", "nothing"),
            ("exec sleep 30", "0.2 s"),
        ):
            self.program("prog", script)
            with mock.patch.object(sync_pages, "TIME_LIMIT", 0.2 if "sleep" in script else 9):
                self.assert_problem(generated("prog"), "page.md:2: `prog`", word)
        self.assert_problem(generated("none --x"), "/build/none/none", "--target none")
        self.assert_problem(generated("prog 'x"), "quotation")


OLD = """/// @file
#pragma once

namespace fa {

//! [run]
/// Adds.
int run_old(int n, int a,
            int b) {
  int sum = 0;
  prepare(n);
  //! [loop]
  for (int i = 0; i < n; ++i) {
    sum += a;
  }
  //! [loop]
  finish(n);
  // that is all
  return sum;
}
//! [run]

}  // namespace fa
"""
NEW = OLD.replace(
    "run_old(int n, int a,\n            int b)", "run_brand_new(int n,\n    int a, int b)"
)
NEW = NEW.replace("sum += a;", "sum += b;").replace("Adds.", "Adds more.")


class Excerpts(TreeTest):
    def diff(self, old, new, **options):
        self.write("src/01_old.cuh", old)
        self.write("src/02_brand_new.cuh", new)
        return excerpts.diff(self.root, "src/01_old.cuh", "src/02_brand_new.cuh", **options)

    def test_a_difference_with_its_surroundings(self):
        wanted = [" int run_brand_new(int n,", " ...", "   for (int i = 0; i < n; ++i) {"]
        wanted += ["-    sum += a;", "+    sum += b;", "   }", " ..."]
        self.assertEqual(self.diff(OLD, NEW, context=1), wanted)

    def test_indentation_and_new_names_alone_are_no_change(self):
        old = "void old() {\n  first();\n  second();\n}\n"
        new = "void brand_new() {\n  for (;;) {\n    first();\n    second();\n  }\n}\n"
        wanted = [
            " void brand_new() {",
            "+  for (;;) {",
            "     first();",
            "     second();",
            "+  }",
            " }",
        ]
        self.assertEqual(self.diff(old, new), wanted)
        with self.assertRaisesRegex(Problem, "no diff"):
            self.diff(OLD, OLD.replace("run_old", "run_brand_new"))
        with self.assertRaisesRegex(Problem, "no diff"):
            self.diff("int a;\n", "int z;\n", renames=[("a", "z")])

    def test_two_regions_of_one_file(self):
        self.write("b.cpp", "//! [x]\nint x;\n//! [x]\n//! [y]\n  int y;\n//! [y]\n")
        self.assertEqual(excerpts.diff(self.root, "b.cpp#x", "b.cpp#y"), ["-int x;", "+int y;"])

    def test_a_difference_has_at_most_60_lines(self):
        with self.assertRaisesRegex(Problem, "61 lines"):
            self.diff("int a;\n", "int b;\n" * 60)

    def test_listings_that_cannot_be_shown(self):
        mark = "//! [t]\n"
        for text, words in (
            ("//! [u]\n//! [a]\n", r"0 marks //! \[t\].*: a, u"),
            (f"\n{mark}int x;\n", "1 marks"),
            (f"{mark}int x;\n" * 3, "3 marks"),
            (f"{mark}\n  //! [other]\n{mark}", "b.cpp is empty"),
            (f"{mark}    y\n    {'x' * 79}\n{mark}", "b.cpp:3 has 79 columns"),
        ):
            self.write("b.cpp", text)
            with self.assertRaisesRegex(Problem, words):
                excerpts.listing(self.root, "b.cpp", "t")


TABLES = """First
               rate  rate
kernel     ms   old     %
---------  --  ----  ----
01_a        3  12.5    50
01_a, big   4     -  12.5
02_b       11   0.5     1
(GPU, date:
 command)

Words between.

kernel  ms
------  --
02_b     3
64 steps: that is all

PASS  01_a, formula: no unexpected elements
PASS  02_b, formula: no unexpected elements
PASS  both: no findings
"""
SECOND = "**Words between.**\n\n| kernel |   ms |\n| ---    | ---: |\n| 02_b   |    3 |\n\n"
CHECKS = """PASS  01_a, formula: no unexpected elements
PASS  02_b, formula: no unexpected elements
PASS  both: no findings
```"""


def shown(text, **chosen):
    return "\n".join(markdown(text.rstrip().split("\n"), **chosen))


class Markdown(unittest.TestCase):
    def test_tables_titles_sources_and_text(self):
        self.assertEqual(
            shown(TABLES),
            """**First**

| kernel    |   ms | rate old | rate % |
| ---       | ---: |     ---: |   ---: |
| 01_a      |    3 |     12.5 |     50 |
| 01_a, big |    4 |        - |   12.5 |
| 02_b      |   11 |      0.5 |      1 |

(GPU, date: command)

"""
            + SECOND
            + "```text\n64 steps: that is all\n\n"
            + CHECKS,
        )

    def test_output_without_a_table_stays_as_it_is(self):
        self.assertEqual(shown("a   b\n\n(c)"), "```text\na   b\n\n(c)\n```")
        self.assertEqual(shown("a\n---\n```x"), "````text\na\n---\n```x\n````")

    def test_what_markdown_would_read_as_more_than_text(self):
        for text, wanted in {
            "max|o - r| < 1e-3": "max\\|o - r\\| \\< 1e-3",
            "flash<64, 2>": "flash\\<64, 2\\>",
            "07_matmul_naive": "07_matmul_naive",
            "__global__ a_ *x* `y` [z] $k$ ~": (
                "\\_\\_global\\_\\_ a\\_ \\*x\\* \\`y\\` \\[z\\] \\$k\\$ \\~"
            ),
        }.items():
            self.assertEqual(escaped(text), wanted)


class Cuts(unittest.TestCase):
    def test_problems(self):
        for chosen, words in (
            ({"rows": ["01_a", "03_c"]}, "no table has a row '03_c'."),
            ({"columns": ["GB/s"]}, "the table has no column 'GB/s'; it has ms, rate old, rate %."),
        ):
            with self.assertRaisesRegex(Problem, words):
                shown(TABLES, **chosen)
        with self.assertRaisesRegex(Problem, "the program printed no table;"):
            shown("words", rows=["a"])


class Digits(unittest.TestCase):
    SAME = (
        ("O 6.0167  3.9833", "O 6.0168  3.9832"),
        ("0.00", "-0.01"),
        ("error 0.5, wrong", "error 0.49, wrong"),  # %g drops a zero
        ("PASS  o  1.78e-15  (limit 5.25e-13)", "PASS  o  0.00e+00  (limit 5.24e-13)"),
        ("PASS  o     0.384  (limit 1.00)", "PASS  o    0.0899  (limit 1.00)"),
        ("9.9e-07", "1.1e-06"),
        ("| a |  9.99 |", "| a   | 10.00 |"),  # a column may have become wider
    )
    OTHER = (
        ("read 4096 bytes", "read 4100 bytes"),
        ("read 4096 bytes", "read 4096 words"),
        ("07_naive 1.0", "08_naive 1.0"),
        ("rows 2", "rows 2.0"),
        ("O 6.0167", "O 6.0169"),
        ("0.02", "-0.02"),
        ("8.61e-06", "1.73e-05"),
        ("5.3e-07", "-5.3e-07"),
        ("0.00e+00", "1.42e-16"),
        ("PASS  2.02e-11  (limit 3.67e-09)", "PASS  2.02e-11  (limit 7.35e-09)"),
        ("PASS  2.02e-11  (limit 3.67e-09)", "FAIL  2.02e-11  (limit 3.67e-09)"),
        ("1.99e+00", "2.01e+00"),
        ("nan", "0.5"),
        ("PyTorch 2.11.0", "PyTorch 2.12.0"),
        ("a 0.51 0.52", "a 0.51"),
        ("a 0.51", "a 0.51\nb 0.51"),
        ("| a | 1 |", "| a | 1 | 2 |"),
    )

    def same(self, old, new, command="prog"):
        return in_step(old.split("\n"), new.split("\n"), command)

    def test_last_digits_and_sizes_of_errors_may_differ(self):
        for one, other in self.SAME:
            self.assertTrue(self.same(one, other) and self.same(other, one), (one, other))

    def test_every_other_difference_is_found(self):
        for one, other in self.OTHER:
            self.assertFalse(self.same(one, other) or self.same(other, one), (one, other))

    def test_modules_print_the_same_everywhere(self):
        self.assertTrue(self.same("0.51", "0.51", "tools.sum"))
        self.assertFalse(self.same("0.51", "0.52", "tools.sum"))
