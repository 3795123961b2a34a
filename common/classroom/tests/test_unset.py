"""Local variables without a value are found in students' files, and nothing else is."""

import time
import unittest

from common.classroom import unset
from common.classroom.tests.support import exercise


class Unset(unittest.TestCase):
    def test_declarations_without_a_value_are_found(self):
        for statement, names in (
            ("  float sum", ["sum"]),
            ("float q[d] = {}, o[d], m = -INFINITY, l", ["o", "l"]),
            ("Accumulators<Tile, d> o", ["o"]),
            ("for (int i = 0", []),
            ("if (a) { float x", ["x"]),
            ("const std::vector<double> e", ["e"]),
            ("float m[3] = {x[3 * at], x[3 * at], x[at]}", []),
            ("return x", []),
            ("using T = float", []),
            ("__shared__ float tile[4]", []),
            ("x.l = rescale * x.l + p", []),
            ("float s = a ? b : c, t = f(x, y)", []),
            ("const double s = a > 0 ? f(b) : c", []),
        ):
            self.assertEqual(unset.names_in(statement), names, statement)

    def test_a_value_is_put_behind_each_of_several_statements(self):
        text, names = unset.filled(exercise("04_map"), "  float a, b[2]; int c;  // here;")
        self.assertEqual(names, ["a", "b", "c"])
        self.assertTrue(
            text.endswith(
                "  float a, b[2]; ::fa_fill(a); ::fa_fill(b); int c; ::fa_fill(c);  // here;"
            )
        )

    def test_no_text_takes_long(self):
        one = exercise("03_one_step")
        for text in ("int " * 70, "a<b> " * 59, "int " + "a," * 140 + "b;", "int " + "{" * 290):
            began = time.monotonic()
            unset.filled(one, (text + ";\n") * 500)
            self.assertLess(time.monotonic() - began, 10, text)
