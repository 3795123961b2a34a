"""Tests of digits.py: which differences another processor may make, and which ones the code must
have made."""

import unittest

from docs.site.digits import clauses, in_step
from docs.site.tables import Problem


class Digits(unittest.TestCase):
    SAME = (
        ("O 6.0167  3.9833", "O 6.0168  3.9832"),
        ("-9.70", "-9.69"),
        ("0.00", "-0.01"),
        ("0.45   0.5    wrong", "0.45   0.49   wrong"),  # %g drops a zero
        ("error 0.5, wrong", "error 0.49, wrong"),
        ("rows  1", "rows  1"),
        ("PASS  o  1.78e-15  (limit 5.25e-13)", "PASS  o  3.55e-15  (limit 5.24e-13)"),
        ("PASS  2.02e-11  (limit 3.67e-09)", "PASS  1.65e-10  (limit 3.67e-09)"),
        ("PASS  7.10e-17  (limit 5.68e-14)", "PASS  0.00e+00  (limit 5.68e-14)"),
        ("PASS  o     0.384  (limit 1.00)", "PASS  o    0.0899  (limit 1.00)"),
        ("PASS  o    0.0098  (limit 1.00)", "PASS  o  0.000433  (limit 1.00)"),
        ("PASS  o      1.99  (limit 2.08)", "PASS  o      2.00  (limit 2.08)"),
        ("float32  1e-07", "float32  2e-07"),  # 1.4e-07 and 1.6e-07
        ("9.9e-07", "1.1e-06"),
        ("-1.4e-06", "-1.2e-06"),
        ("loss 1.99e+00", "loss 2.00e+00"),
    )
    OTHER = (
        ("read 4096 bytes", "read 4100 bytes"),
        ("read 4096 bytes", "read 4096 words"),
        ("21 keys", "22 keys"),
        ("07_naive 1.0", "08_naive 1.0"),
        ("2 2.5", "3 2.6"),
        ("rows 2", "rows 2.0"),
        ("O 6.0167", "O 6.0169"),
        ("O 6.0167", "O -6.0167"),
        ("0.5", "0.48"),
        ("0.02", "-0.02"),
        ("8.61e-06", "1.73e-05"),
        ("8.61e-06", "4.30e-06"),
        ("3e-07", "6e-07"),
        ("5.3e-07", "-5.3e-07"),
        ("0.00e+00", "1.42e-16"),
        ("PASS  0.00e+00  (limit 0.00e+00)", "PASS  1.00e+00  (limit 0.00e+00)"),
        ("PASS  5.00e-11  (limit 3.67e-09)", "PASS  5.10e-10  (limit 3.67e-09)"),
        ("PASS  0.00e+00  (limit 5.68e-14)", "PASS  6.00e-16  (limit 5.68e-14)"),
        ("PASS  2.02e-11  (limit 3.67e-09)", "PASS  2.02e-11  (limit 7.35e-09)"),
        ("PASS  loss  1.99  (limit 2.08)", "PASS  loss  1.90  (limit 2.08)"),
        ("PASS  0.700  (limit 1.00)", "PASS  0.050  (limit 1.00)"),
        ("PASS  0.384  (limit 1.00)", "PASS  0.384  (limit 1.02)"),
        ("PASS  2.02e-11  (limit 3.67e-09)", "FAIL  2.02e-11  (limit 3.67e-09)"),
        ("PASS  01_unfused: no findings", "FAIL  01_unfused: 1 finding"),
        ("1.99e+00", "2.01e+00"),
        ("6.55e+04", "6.53e+04"),
        ("a 1e-07", "a 0.1"),
        ("nan", "0.5"),
        ("0.5", "inf"),
        ("PyTorch 2.11.0", "PyTorch 2.12.0"),
        ("a 0.51 0.52", "a 0.51"),
        ("a 0.51", "a 0.51\nb 0.51"),
        ("a  0.51", "a 0.51"),
        ("a   0.51", "a 0.52"),
        ("a 0.51  b", "a  0.51 b"),
    )

    # Rows of tables: the columns may have become wider.
    SAME_ROWS = (
        ("| a |  9.99 |", "| a | 10.00 |"),
        ("| a | 1e-07 |", "| a   | 2e-07 |"),
    )

    def same(self, old, new, rule=None, command="prog"):
        return in_step(old.split("\n"), new.split("\n"), command, rule)

    def test_last_digits_and_sizes_of_errors_may_differ(self):
        for one, other in (*self.SAME, *self.SAME_ROWS):
            for old, new in ((one, other), (other, one)):
                self.assertTrue(self.same(old, new), (old, new))

    def test_every_other_difference_is_found(self):
        for one, other in self.OTHER:
            for old, new in ((one, other), (other, one)):
                self.assertFalse(self.same(old, new), (old, new))
        self.assertFalse(self.same("| a | 1 |", "| a | 1 | 2 |"))
        self.assertFalse(self.same("| a | 0.5 |", "| b | 0.5 |"))

    def test_exact(self):
        for old, new in (("1.0 x", "1.1 x"), ("| a | 0.51 |", "| a | 0.52 |")):
            self.assertTrue(self.same(old, new))
            self.assertFalse(self.same(old, new, "exact"))
            self.assertFalse(self.same(old, new, "rows a | b, exact"))
            self.assertTrue(self.same(old, old, "exact"))

    def test_modules_print_the_same_everywhere(self):
        self.assertFalse(self.same("0.51", "0.52", command="tools.sum"))

    def test_noise(self):
        for old, new, wanted in (
            ("5.3e-07", "-4.8e-07", True),
            ("0.0e+00", "2.0e-06", True),
            ("0.0e+00", "2.1e-06", False),
            ("-1.9e-06", "-2.1e-06", True),
            ("1.0e-05", "2.0e-05", False),
            ("7", "8", False),
        ):
            self.assertEqual(self.same(old, new, "noise 2e-06"), wanted, (old, new))
        self.assertFalse(self.same("5.3e-07", "-4.8e-07"))

    def test_rules(self):
        self.assertEqual(
            clauses("rows 07_* | 08_*, columns ms, exact"),
            ({"rows": ["07_*", "08_*"], "columns": ["ms"]}, ["exact"]),
        )
        self.assertEqual(clauses(None), ({}, []))
        for rule in ("digits", "noise", "noise 2", "noise 1e-6, exact", "", "rows"):
            with self.assertRaisesRegex(Problem, f"the rule is '{rule}'; allowed are 'exact' and"):
                self.same("a", "b", rule)
