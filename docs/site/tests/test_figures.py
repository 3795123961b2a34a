"""Tests of figures.py and check figures: figures in sentences that are rewritten,
claims that are checked, and figures that are bound to nothing."""

import json

from common.testing.tree import TreeTest
from docs.site import check, sync_pages

TFLOPS = "[06 bfloat16 D128 12 4096 TFLOP/s]"
GAIN = "[06 bfloat16 D128 12 tflops] / [06 bfloat16 D128 11 tflops]"
PRINTED = """Waits, measured
kernel       N  % of time
--------  ----  ---------
11_first  1024         20
11_first  2048         30
12_last   1024       4.5%

behind: 6 of 42
"""
TABLE = "<!-- generated: {} -->\n<!-- /generated -->\n"


def row(kernel, length, tflops, group="bfloat16, D 128"):
    return {"group": group, "kernel": kernel, "length": length, "tflops": tflops}


def peer(backend, length, tflops, causal=False):
    point = {"what": "time", "group": "d128", "type": "bfloat16", "head_dim": 128}
    return {**point, "causal": causal, "length": length, "backend": backend, "tflops": tflops}


class FiguresTest(TreeTest):
    def setUp(self):
        super().setUp()
        self.record(
            "h200_06_flash_backward",
            row("11_ordered_dq", 1024, 500.0),
            row("11_ordered_dq", 4096, 600.0),
            row("12_store_then_reduce", 1024, 520.0),
            row("12_store_then_reduce", 4096, 644.358),
            row("12_store_then_reduce", 4096, 500.0, "bfloat16, D 128, causal"),
        )
        self.record(
            "h200_06_interface",
            peer("this lesson", 1024, 660.0),
            peer("this lesson", 2048, 594.0),
            peer("FLASH_ATTENTION_3", 1024, 600.0),
            peer("FLASH_ATTENTION_3", 2048, 600.0),
            peer("CUDNN_ATTENTION", 1024, 400.0),
            peer("this lesson", 2048, 300.0, causal=True),
        )

        for name, text in (("prog", PRINTED), ("slow", PRINTED.replace("  20", "  90"))):
            self.write(f"build/{name}/{name}", f"#!/bin/sh\ncat <<E\n{text}E\n", 0o755)

    def record(self, name, *rows):
        self.write(f"docs/results/{name}.json", json.dumps({"measurements": rows}))

    def sync(self, text, *arguments):
        """(exit status, errors, the page afterwards)."""
        self.write("page.md", text)
        options = ("--root", self.root, "--programs", self.root / "build", *arguments, "page.md")
        status, _, err = self.run_main(sync_pages.main, *options)
        return status, err, self.read("page.md")

    def check(self, text):
        """(exit status, lines) of the check of a page."""
        self.write("page.md", text)
        status, out, _ = self.run_main(check.main, "figures", "--root", self.root)
        return status, out.splitlines()

    def assert_value(self, query, old, new, page=""):
        text = "About <!-- value: {} -->{}<!-- /value --> here.\n"
        status, err, result = self.sync(text.format(query, old) + page)
        self.assertEqual((status, err), (0, ""), query)
        self.assertEqual(result.splitlines(True)[0], text.format(query, new))

    def assert_problem(self, comment, sentence):
        text = f"One.\nAbout {comment}.\n"
        status, err, result = self.sync(text)
        self.assertEqual((status, result), (2, text))
        self.assertIn("page.md:2: ", err)
        self.assertIn(sentence, err)


class Values(FiguresTest):
    def test_the_text_before_says_how_a_value_is_written(self):
        for old, new in (
            ("1", "644"),
            ("1.00", "644.36"),
            ("1,000", "644"),
            ("1.0e+00", "6.4e+02"),
        ):
            self.assert_value(TFLOPS, old, new)
        self.assert_value("[06 bfloat16 D128 12 4096 TFLOP/s] * 1000", "1,000", "644,358")
        self.assert_value("2 * 8", "three", "sixteen")
        self.assert_value("7 - 0", "Two", "Seven")
        self.assert_value("0 - 0.04", "1.0", "0.0")

    def test_several_rows_are_a_range(self):
        self.assert_value(GAIN, "1.0 to 2.0", "1.0 to 1.1")
        self.assert_value(GAIN, "1", "1")
        self.assert_value(
            "more([06 bfloat16 D128 12 tflops], [06 bfloat16 D128 11 tflops])", "9", "4 to 7"
        )

    def test_functions(self):
        for query, value in (
            (f"max({GAIN})", "1.074"),
            ("less([06 bfloat16 D128 11 4096 tflops], [06 bfloat16 D128 12 4096 tflops])", "6.884"),
            (
                "apart([06 bfloat16 D128 11 1024 tflops], [06 bfloat16 D128 12 1024 tflops])",
                "4.000",
            ),
            (f"count({GAIN} > 1.05)", "1.000"),
            (f"len(upto(1.05, {GAIN}, 9))", "1.000"),
            (f"min(above(1.05, {GAIN}, 9))", "1.074"),
            ("median([06 bfloat16 D128 11 tflops])", "550.000"),
            ("-2 + 3 ** 2 / 2", "2.500"),
        ):
            self.assert_value(query, "0.000", value)

    def test_masks_and_other_implementations_are_chosen(self):
        self.assert_value("[06 bfloat16 D128 causal 12 4096 tflops]", "0", "500")
        self.assert_value("[06 bfloat16 D128 causal=* 12 4096 tflops]", "0", "500 to 644")
        self.assert_value("[06_peers bfloat16 D128 course ratio]", "0.00", "0.99 to 1.10")
        self.assert_value("[06_peers D* length<2000 F*-3 tflops]", "0", "600")

    def test_tables_of_pages(self):
        self.sync(TABLE.format("prog"))
        self.write("other.md", self.read("page.md"))
        for query, new in (
            ("[; 11_first; % of time]", "20 to 30"),
            ("[; 11_first, N=2048; % of time]", "30"),
            ("[; 12_*; %*]", "4"),
            ("[; 12_last; % of time; Waits*measured]", "4"),
            ("[; behind:]", "6"),
            ("[; 11_*, N=1024; % of time] + [other.md; 11_first, N=2048; % of time]", "50"),
        ):
            self.assert_value(query, "1", new, TABLE.format("prog"))

    def test_the_nearest_table_above_comes_first(self):
        text = "{}\nAbout <!-- value: [; 11_first, N=1024; % of time] -->1<!-- /value -->.\n{}"
        slow, prog = TABLE.format("slow"), TABLE.format("prog")
        self.assertIn(">90<", self.sync(text.format(slow, prog))[2])
        self.assertIn(">20<", self.sync(text.format("", prog + slow))[2])

    def test_a_fenced_example_is_left_alone(self):
        text = f"```md\n<!-- value: {TFLOPS} -->1<!-- /value -->\n```\n"
        self.assertEqual(self.sync(text), (0, "", text))


class Problems(FiguresTest):
    def test_messages(self):
        for query, sentence in (
            ("[07 x]", "there is no record '07'; there are 04, "),
            ("[05 x]", "cannot be read: No such file"),
            ("[06]", "[06] names no column."),
            ("[06 x]", "the record 06 has no column 'x'."),
            ("[06 float32 tflops]", "no row is left at 'float32'."),
            ("[06 length>=x tflops]", "'length>=x' compares no numbers."),
            ("[06 kernel>=5 tflops]", "'kernel>=5' compares no numbers."),
            ("[06 D128 12 4096 tflops] +", "this is no expression."),
            ("1 / 0", "this divides by zero."),
            ("open(1)", "'open(1)' is not understood."),
            ("1 < 2", "this is a relation; write it as a claim."),
            ("[; none; N]", "no printed table has this row and column."),
            ("[; none]", "no printed block has a number behind these words."),
            ("[none.md; a; b]", "none.md cannot be read"),
        ):
            self.assert_problem(f"<!-- value: {query} -->1<!-- /value -->", sentence)

    def test_rows_that_cannot_be_paired(self):
        rows = [row("11_a", 1024, 1.0), row("11_a", 1024, 2.0)]
        self.record("h200_06_flash_backward", *rows)
        self.assert_problem("<!-- value: [06 11 tflops] -->1<!-- /value -->", "several rows agree")
        self.record("h200_06_flash_backward", row("11_a", 1024, 1.0), row("11_a", 2048, 2.0))
        self.record("h200_04_tiled_matmul", row("11_a", 4096, 1.0), row("11_a", 8192, 2.0))
        query = "[06 11 tflops] / [04 11 tflops]"
        self.assert_problem(f"<!-- value: {query} -->1<!-- /value -->", "have no pair")

    def test_comments_that_cannot_be_read(self):
        for comment in (
            f"<!-- value: {TFLOPS} -->1",
            "1<!-- /value -->",
            "<!-- value -->1<!-- /value -->",
            "<!-- Claim: 1 < 2 -->",
        ):
            self.assert_problem(comment, "this comment cannot be read; allowed are <!-- value: ")
        self.assert_problem("<!-- claim: 1 + 2 -->", "this is no relation")
        self.assert_problem(f"<!-- value: {TFLOPS} -->many<!-- /value -->", "the figure is 'many'")
        for start in ("", "- ", "1. ", "> "):
            text = f"{start}<!-- value: {TFLOPS} -->1<!-- /value --> TFLOP/s\n"
            self.assertIn("a line must not begin with a value", self.sync(text)[1])


class Claims(FiguresTest):
    def claim(self, relation):
        return self.sync(f"Faster. <!-- claim: {relation} -->\n")

    def test_what_holds(self):
        for relation in (
            f"{GAIN} in 1.03..1.08",
            f"{GAIN} > 1",
            "[06 bfloat16 D128 causal 12 4096 tflops] < [06 bfloat16 D128 12 4096 tflops]",
            f"count({GAIN} >= 1) == 2",
        ):
            self.assertEqual(self.claim(relation)[:2], (0, ""), relation)

    def test_what_does_not_is_named_with_its_values(self):
        status, err, _ = self.claim(f"{GAIN} in 1.05..1.08")
        self.assertEqual(status, 1)
        self.assertIn("page.md:1: the claim '[06 bfloat16 D128 12", err)
        self.assertIn("compared are 1.05, 1.04 to 1.07393, 1.08 (1 of 2, such as 1024).", err)
        self.assertIn("1 statements do not hold; change them.", err)
        self.assertIn("compared are 1, 1.", self.claim("1 < 1")[1])

    def test_a_new_record_rewrites_the_page_and_names_the_claims_that_no_longer_hold(self):
        text = (
            f"Step 12: <!-- value: {TFLOPS} -->644<!-- /value --> TFLOP/s.\n"
            f"It is faster. <!-- claim: {GAIN} > 1 -->\n"
        )
        self.assertEqual(self.sync(text), (0, "", text))
        rows = [row("11_ordered_dq", 4096, 700.0), row("12_store_then_reduce", 4096, 690.4)]
        self.record("h200_06_flash_backward", *rows)
        status, err, result = self.sync(text, "--check")
        self.assertEqual((status, result), (1, text))
        self.assertIn("page.md:2: the claim", err)
        status, err, result = self.sync(text)
        self.assertEqual(status, 1)
        self.assertEqual(result, text.replace("644", "690"))
        self.assertIn("page.md:2: the claim", err)

    def test_values_that_a_sentence_cannot_have(self):
        for query, new, sentence in (
            ("more([06 11 tflops], [06 bfloat16 12 tflops])", "-7 to -4", "has no sign."),
            ("max(above(2, 1))", "5", "no value is left."),
            ("above(2, 1)", "5", "no value is left."),
        ):
            status, err, result = self.sync(f"By <!-- value: {query} -->5<!-- /value --> %.\n")
            self.assertEqual(status, 1)
            self.assertIn(f"page.md:1: the value '{query}'", err)
            self.assertIn(sentence, err)
            self.assertIn(f"-->{new}<!--", result)
        self.assertIn("no value is left.", self.claim("max(above(2, 1)) > 1")[1])


class Check(FiguresTest):
    def test_a_planted_wrong_figure_and_a_planted_false_claim_fail(self):
        bound = f"It has <!-- value: {TFLOPS} -->644<!-- /value --> TFLOP/s.\n"
        self.assertEqual(self.check(bound), (0, ["1 pages, 0 faults."]))
        status, lines = self.check(bound.replace("644", "643"))
        self.assertEqual((status, lines[0]), (1, f"page.md:1: '643' is 644 by {TFLOPS}."))
        status, lines = self.check(f"Faster. <!-- claim: {GAIN} > 1.05 -->")
        self.assertEqual(status, 1)
        self.assertIn("page.md:1: the claim", lines[0])

    def test_unbound_figures_fail(self):
        for figure in (
            "396 TFLOP/s",
            "1.5 TB/s",
            "0.7 ms",
            "2 to 5 %",
            "9, 5, 2 and 1 %",
            "five percent",
            "12.3 s",
            "56 microseconds",
            "1.3 times",
            "three times as fast",
            "168 registers per thread",
            "12 KiB per thread",
            "40 points",
            "a rate that climbs from 168 to 432",
            "a third more",
            "twice as fast",
            "gains about a half.",
            "a price of 0.99 to 1.03",
            "the rate falls by a fifth",
        ):
            status, lines = self.check(f"One.\nIt has {figure}.\n")
            self.assertEqual(status, 1, figure)
            self.assertIn("page.md:2: '", lines[0])
            self.assertIn("' is bound to no record", lines[0])
            self.assertEqual(self.check(f"It has {figure}. <!-- arithmetic -->")[0], 0, figure)

    def test_a_claim_covers_the_figures_that_it_names(self):
        for figure, holds in (("3 to 8 %", True), ("3 to 9 %", False), ("1.08 times", True)):
            status, _ = self.check(f"It gains {figure}. <!-- claim: {GAIN} in 1.03..1.08 -->")
            self.assertEqual(status, 0 if holds else 1, figure)
        self.assertEqual(self.check(f"A third more. <!-- claim: {GAIN} > 1 -->")[0], 0)

    def test_what_is_no_measured_figure(self):
        self.write("CHANGELOG.md", "Twice as fast, 10 ms less.\n")
        for text in (
            "At 4.8 TB/s.",
            "Row `5 ms`, [a](b_5%20ms.md), three times a row, column % 8 / 2, 64 keys.",
            "# From 1 % to cuBLAS",
            "```\n5 ms\n```",
            "<!-- generated: x.y -->\n5 ms\n<!-- /generated -->",
            "<!-- navigation -->\n[From 1 %](x.md)",
            "With 25 % of NVIDIA's. <!-- cited: their paper -->",
        ):
            status, lines = self.check(text)
            self.assertEqual((status, len(lines)), (0, 1), (text, lines))
