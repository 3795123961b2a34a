"""Tests of tables.py and programs.py: which text is a table, which part of it was asked for, which
figures are the best, and which differences another processor may make."""

import unittest

from common.classroom import catalogue
from docs.site.programs import in_step
from docs.site.tables import Problem, Table, escaped, markdown

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

    def test_a_title_of_two_lines_and_columns_that_are_none(self):
        text = "words\nmore\na  b\n-  -\n1  2\n2 steps: that is all\n\na  b\n-  -\n1  c"
        self.assertEqual(
            shown(text).split("\n\n"),
            [
                "**words**\\\n**more**",
                "|    a |    b |\n| ---: | ---: |\n|    1 |    2 |",
                "```text\n2 steps: that is all\n```",
                "|    a | b   |\n| ---: | --- |\n|    1 | c   |",
            ],
        )

    def test_exercises_are_linked(self):
        first = catalogue.exercises()[0]
        text = "exercise          minutes\n----------------  -------\n"
        text += f"{first.id:<16}       15\nsum 1             15"
        task = first.folder.relative_to(catalogue.ROOT).as_posix() + "/task.md"
        self.assertIn(f"| [{first.id}](/{task}) |", shown(text))
        self.assertNotIn("](", shown(text.replace("exercise  ", "kernel    ", 1)))

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
    def test_rows(self):
        self.assertEqual(
            shown(TABLES, rows=["01_a"]),
            "**First**\n\n| kernel |   ms | rate old | rate % |\n"
            "| ---    | ---: |     ---: |   ---: |\n| 01_a   |    3 |     12.5 |     50 |\n\n"
            "(GPU, date: command)\n\n```text\nWords between.\n\n"
            "PASS  01_a, formula: no unexpected elements\nPASS  both: no findings\n```",
        )

    def test_patterns_and_columns(self):
        self.assertEqual(
            shown(TABLES, rows=["01_a*", "02_b"], columns=["ms"]),
            "**First**\n\n| kernel    |   ms |\n| ---       | ---: |\n| 01_a      |    3 |\n"
            "| 01_a, big |    4 |\n| 02_b      |   11 |\n\n(GPU, date: command)\n\n"
            f"{SECOND}```text\n64 steps: that is all\n\n{CHECKS}",
        )

    def test_problems(self):
        for chosen, words in (
            ({"rows": ["01_a", "03_c"]}, "no table has a row '03_c'."),
            ({"columns": ["GB/s"]}, "the table has no column 'GB/s'; it has ms, rate old, rate %."),
        ):
            with self.assertRaisesRegex(Problem, words):
                shown(TABLES, **chosen)
        with self.assertRaisesRegex(Problem, "the program printed no table;"):
            shown("words", rows=["a"])


class Best(unittest.TestCase):
    def assert_best(self, text, *wanted):
        lines = text.split("\n")
        table = Table(lines, next(i for i, line in enumerate(lines) if line.startswith("---")))
        found = {(table.rows[r][0], table.heads[c], table.rows[r][c]) for r, c in table.best()}
        self.assertEqual(found, set(wanted))

    def test_of_the_kernels_of_each_length(self):
        text = (
            "kernel     N     ms  TFLOP/s\n------  ----  -----  -------\n"
            "a       1024  3.000     1.00\nb       1024  2.000     1.50\n"
            "a       2048  1.000     9.00"
        )
        self.assert_best(text, ("b", "TFLOP/s", "1.50"))
        self.assertIn("| b      | 1024 | 2.000 | **1.50** |", shown(text))

    def test_of_lengths_that_are_columns_or_rows(self):
        head = "TFLOP/s: bfloat16\nN      1024  2048\n-----  ----  ----\n"
        best = ("b", "1024", "2.00"), ("c", "1024", "2.00"), ("c", "2048", "4.00")
        self.assert_best(head + "a      1.00     -\nb      2.00  3.00\nc      2.00  4.00", *best)
        head = "TFLOP/s: bfloat16\n   N  08_old  09_new\n----  ------  ------\n"
        best = ("1024", "09_new", "2.00"), ("2048", "08_old", "9.00")
        self.assert_best(head + "1024    1.00    2.00\n2048    9.00    8.00", *best)

    def test_what_differs_by_noise_is_as_good(self):
        text = "TFLOP/s: D 64\nN        a        b       c\n----  -----  -------  ------\n"
        a, b = ("1024", "a", "100"), ("1024", "b", "102.00")
        self.assert_best(text + "1024    100   102.00    51.0", a, b)
        self.assert_best(text + "1024    100   102.01    51.0", ("1024", "b", "102.01"))

    def test_of_the_implementations_of_each_shape(self):
        self.assert_best(
            "type        N  lesson  flash  flash 3  flash 3 det  x best  best\n"
            "--------  ---  ------  -----  -------  -----------  ------  -----\n"
            "bfloat16  512   426.2  264.7    330.4        500.0   1.094  cuDNN\n"
            "float16   512   285.7  305.9        -            -   0.934  flash\n"
            "float32   512    41.2      -        -            -   1.259  -",
            ("bfloat16", "lesson", "426.2"),
            ("float16", "flash", "305.9"),
        )


class Digits(unittest.TestCase):
    SAME = (
        ("O 6.0167  3.9833", "O 6.0168  3.9832"),
        ("0.00", "-0.01"),
        ("error 0.5, wrong", "error 0.49, wrong"),  # %g drops a zero
        ("PASS  o  1.78e-15  (limit 5.25e-13)", "PASS  o  0.00e+00  (limit 5.24e-13)"),
        ("PASS  o     0.384  (limit 1.00)", "PASS  o    0.0899  (limit 1.00)"),
        ("9.9e-07", "1.1e-06"),
        ("loss 1.99e+00", "loss 2.00e+00"),
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
        ("6.55e+04", "6.53e+04"),
        ("a 1e-07", "a 0.1"),
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
