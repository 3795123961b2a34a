"""Tests of the theory chapters' figures: small cases that one can check by hand, and refusals."""

import json
from fractions import Fraction

from common.testing.tree import ROOT, TreeTest
from docs.theory import examples

RECORD = ROOT / "docs/results/h200_04_tiled_matmul.json"


class ExamplesTest(TreeTest):
    def test_the_pipeline_of_the_drawing(self):
        # With one stage a round is copy + compute; with enough, only the first copy is seen.
        self.assertEqual(examples.schedule(3, 8, 4, 1)[-1][3], 3 * 12)
        self.assertEqual(examples.schedule(6, 8, 4, 2)[-1][3], 40)
        self.assertEqual(examples.schedule(6, 8, 4, 3)[-1][3], 8 + 6 * 4)
        for copy in range(1, 20):  # enough: 1 + copy / compute, rounded up
            enough = 1 + -(-copy // 4)
            self.assertEqual(examples.schedule(30, copy, 4, enough)[-1][3], copy + 30 * 4)
            if enough > 2:
                self.assertGreater(examples.schedule(30, copy, 4, enough - 1)[-1][3], copy + 120)

    def test_the_longest_tile_last_keeps_one_sm_busy(self):
        self.assertEqual(examples.last_finish([1, 2, 3, 4], 2), 6)  # the example of lesson 05
        self.assertEqual(examples.last_finish([4, 3, 2, 1], 2), 5)
        for tiles in ([5], [1] * 7, [9, 1, 1, 1]):
            least = max(max(tiles), -(-sum(tiles) // 3))
            self.assertGreaterEqual(examples.last_finish(tiles, 3), least)
            self.assertLess(examples.last_finish(tiles, 3), sum(tiles) / 3 + max(tiles))

    def test_e4m3_ends_at_448_and_steps_by_the_least_value_near_0(self):
        for x, rounded in ((1.0625, 1), (1.1875, 1.25), (-500, -448), (2.0**-10, 0), (0, 0)):
            self.assertEqual(examples.to_e4m3(x), rounded)
        self.assertEqual(examples.to_e4m3(2.0**-9), 2.0**-9)

    def test_tensor_cores_cut_off_what_lies_13_bits_behind_the_largest(self):
        for so_far, products in ((1.0, []), (0.0, [1.0])):
            self.assertEqual(
                examples.add_in_tensor_cores(so_far, [*products, 2.0**-13]), 1 + 2.0**-13
            )
            self.assertEqual(examples.add_in_tensor_cores(so_far, [*products] + 31 * [2.0**-14]), 1)

    def test_a_rounded_number_is_off_by_half_a_unit_of_its_last_bit(self):
        self.assertEqual(examples.to_bits(257.0, 8), 256)
        self.assertEqual(examples.to_bits(-0.75, 2), -0.75)
        for x in (1.0, 1.2345, -77.7, 3e-5):
            for bits in (8, 11):
                rounded = examples.to_bits(x, bits)
                self.assertLessEqual(abs(rounded - x), abs(x) * 2.0**-bits)
                self.assertEqual(examples.to_bits(rounded, bits), rounded)

    def test_no_tile_is_used_before_it_came_nor_replaced_before_it_was_used(self):
        for stages in (1, 2, 3):
            times = examples.schedule(10, 7, 3, stages)
            for i, (asked, arrived, begun, done) in enumerate(times):
                self.assertEqual((arrived - asked, done - begun), (7, 3))
                self.assertGreaterEqual(begun, arrived)
                if i:
                    self.assertGreaterEqual(begun, times[i - 1][3])
                if i >= stages:
                    self.assertGreaterEqual(asked, times[i - stages][3])

    def test_polynomials_for_exponentials(self):
        line = examples.chebyshev(1)  # through two points of 2^x
        for x in ((1 + 0.5**0.5) / 2, (1 - 0.5**0.5) / 2):
            self.assertAlmostEqual(line(x), 2**x)
        errors = [
            max(abs(examples.chebyshev(degree)(k / 100) - 2 ** (k / 100)) for k in range(101))
            for degree in range(1, 6)
        ]
        for coarse, fine in zip(errors, errors[1:]):
            self.assertLess(fine, coarse / 10)

    def test_rounding_to_bfloat16(self):
        self.assertEqual(examples.bfloat16(1 + 1 / 128), 1 + 1 / 128)
        self.assertEqual(examples.bfloat16(1 + 1 / 256), 1)  # ties go to even
        self.assertEqual(examples.bfloat16(1 + 3 / 256), 1 + 2 / 128)

    def test_cycles_of_a_tile(self):
        lines = [line.split() for line in examples.beyond()]
        self.assertIn(["H200", "128", "2048", "1024", "0.50"], lines)
        self.assertIn(["B200", "128", "1024", "1024", "1.00"], lines)

    def test_moments_merge_like_sets(self):
        numbers = [Fraction(n) for n in (3, -2, 5, 1, 1, 8)]

        def of(values):
            result = examples.Moments()
            for value in values:
                result = result.merge(examples.Moments(1, value))
            return result.count, result.mean, result.squares

        mean = sum(numbers) / len(numbers)
        whole = (6, mean, sum((x - mean) ** 2 for x in numbers))
        self.assertEqual(of(numbers), whole)
        for cut in range(7):
            left, right = examples.Moments(*of(numbers[:cut])), examples.Moments(*of(numbers[cut:]))
            both = left.merge(right)
            self.assertEqual((both.count, both.mean, both.squares), whole)

    def test_blocks_of_an_sm(self):
        # 8 warps of 128 registers: 4096 each, 4 to a quarter, 16 in all
        self.assertEqual(examples.resident(8, 128, 0), (2, 228, 8))
        # one more register is a piece more for each warp: 12 fit, which is one block
        self.assertEqual(examples.resident(8, 129, 0)[0], 1)
        # 227 KB and the one that is reserved fill it; a byte more does not fit
        self.assertEqual(examples.resident(4, 32, 227 * 1024)[1], 1)
        self.assertEqual(examples.resident(4, 32, 227 * 1024 + 1)[1], 0)
        self.assertEqual(examples.resident(1, 16, 0)[2], 32)  # no more than 32 blocks

    def test_a_record_that_contradicts_the_limits_ends_with_1(self):
        record = json.loads(RECORD.read_text(encoding="utf-8"))
        row = next(r for r in record["measurements"] if r["kernel"] == "11_matmul_2d_thread_tiling")
        row["registers"] = 160
        path = self.write("record.json", json.dumps(record))
        status, _, err = self.run_main(examples.main, "occupancy", path)
        self.assertEqual(status, 1)
        self.assertIn("1 of ", err)

    def test_what_cannot_be_read_is_refused(self):
        for records, words in (
            ([], "takes 1 records, not 0"),
            ([self.root / "no.json"], "no.json cannot be read"),
            ([self.write("a.json", '{"measurements": []}')], "has 0 rows"),
        ):
            status, _, err = self.run_main(examples.main, "tiles", *records)
            self.assertEqual(status, 2)
            self.assertIn(words, err)
