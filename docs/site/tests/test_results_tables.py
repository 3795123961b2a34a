"""Tests of results_tables.py: which text is a table, and which of its figures are the best. They
need docutils, which the target docs fetches with Sphinx."""

import unittest

try:
    from docs.site import results_tables
except ImportError:
    results_tables = None

PEERS = """TFLOP/s; - means not supported. x best: our speed over that of the fastest other.
type       B heads   D mask       N   lesson    flash  flash 3    cuDNN  flash 3 det  x best best
bfloat16  32    32  64 full     512    426.2    264.7    330.4    389.5        300.1   1.094 cuDNN
bfloat16   4    16 128 causal  4096    285.7    305.9    281.6    271.8            -   0.934 flash
float32    4    16  64 full    1024     41.2        -        -        -            -   1.259 -

The lesson's speed over that of the fastest other, by length
                              512   1024
bfloat16    32   64 full    1.094  1.132
float32     16   64 full           1.259
28 points: least 1.004 (bfloat16), median 1.053
(NVIDIA H200, driver 580)"""


@unittest.skipUnless(results_tables, "this Python has no docutils")
class Tables(unittest.TestCase):
    def pieces(self, text, command="docs.records.results"):
        found = results_tables.pieces(text.split("\n"))
        if results_tables.PEERS.search(command):
            found = [x for piece in found for x in results_tables.plain(piece)]
        return list(found)

    def best(self, table):
        heads = [" ".join(filter(None, column)) for column in zip(*table.heads)]
        return {
            (table.rows[r][0], heads[c], table.rows[r][c])
            for r, c in results_tables.best(table, heads)
        }

    def test_a_table_with_its_title_and_the_text_around_it(self):
        text = (
            "words\n\nThe title\nkernel    ms\n------  ----\na       1.50\nb       2.25\nPASS  all"
        )
        before, table, after = self.pieces(text)
        self.assertEqual((before, after), (["words"], ["PASS  all"]))
        self.assertEqual(table.title, "The title")
        self.assertEqual(table.rows, [["a", "1.50"], ["b", "2.25"]])

    def test_the_best_kernel_of_each_length(self):
        text = (
            "kernel     N     ms  TFLOP/s\n------  ----  -----  -------\n"
            "a       1024  3.000     1.00\nb       1024  2.000     1.50\n"
            "a       2048  1.000     9.00"
        )
        (table,) = self.pieces(text)
        self.assertEqual(self.best(table), {("b", "TFLOP/s", "1.50")})

    def test_the_best_kernel_of_each_column(self):
        text = (
            "TFLOP/s: bfloat16\nN  1024  2048\n-  ----  ----\na  1.00     -\nb  2.00  3.00\n"
            "c  2.00  4.00"
        )
        (table,) = self.pieces(text)
        self.assertEqual(
            self.best(table), {("b", "1024", "2.00"), ("c", "1024", "2.00"), ("c", "2048", "4.00")}
        )

    def test_tables_without_a_line_of_dashes(self):
        command = "05_flash_forward.interface.example --table docs/results/x.json"
        shapes, ratios, points, source = self.pieces(PEERS, command)
        heads = "type B heads D mask N lesson flash|flash 3|cuDNN|flash 3 det|x best|best"
        wanted = heads.split("|")[0].split() + heads.split("|")[1:]
        self.assertEqual(shapes.heads, [wanted])
        self.assertEqual(shapes.rows[1][-2:], ["0.934", "flash"])
        self.assertEqual(
            self.best(shapes),
            {("bfloat16", "lesson", "426.2"), ("bfloat16", "flash", "305.9")},
        )
        self.assertEqual(ratios.heads, [["", "512", "1024"]])
        self.assertEqual(ratios.rows[1], ["float32 16 64 full", "-", "1.259"])
        self.assertTrue(points[0].startswith("28 points") and source[0].startswith("(NVIDIA"))


if __name__ == "__main__":
    unittest.main()
