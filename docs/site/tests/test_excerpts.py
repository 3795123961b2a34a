"""Tests of excerpts.py: listings, differences of two files, and every message about them."""

from common.testing.tree import TreeTest
from docs.site import excerpts
from docs.site.tables import Problem

OLD = """/// @file
/// The old one.
#pragma once

#include "a.hpp"

namespace fa {

/// Adds.
//! [run]
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
  tell(n);

  return sum;
}
//! [run]

}  // namespace fa
"""
NEW = (
    OLD.replace("The old one", "The new one")
    .replace("run_old(int n, int a,\n            int b)", "run_brand_new(int n,\n    int a, int b)")
    .replace("sum += a;", "sum += b;")
    .replace("Adds.", "Adds more.")
)


class Diffs(TreeTest):
    def setUp(self):
        super().setUp()
        self.write("src/01_old.cuh", OLD)
        self.write("src/02_brand_new.cuh", NEW)

    def diff(self, old, new, **options):
        return excerpts.diff(self.root, old, new, **options)

    def test_change_with_its_surroundings(self):
        self.assertEqual(
            self.diff("src/01_old.cuh", "src/02_brand_new.cuh", context=1),
            [
                " int run_brand_new(int n,",
                " ...",
                "   for (int i = 0; i < n; ++i) {",
                "-    sum += a;",
                "+    sum += b;",
                "   }",
                " ...",
            ],
        )

    def test_whole_files_say_nothing_of_headers_marks_and_documentation(self):
        text = "\n".join(self.diff("src/01_old.cuh", "src/02_brand_new.cuh", context=99))
        for word in ("@file", "///", "pragma", "include", "namespace", "//!", "run_old"):
            self.assertNotIn(word, text)
        self.assertIn("\n   // that is all\n", text)
        self.assertIn("\n   tell(n);\n\n   return sum;\n }", text)

    def test_regions_may_be_several(self):
        self.write("src/b.cpp", "//! [x]\nint x;\n//! [x]\n//! [y]\n  int y;\n//! [y]\n")
        self.write("src/c.cpp", "//! [z]\nint x;\n\nint z;\n//! [z]\n")
        self.assertEqual(
            self.diff("src/b.cpp#x,y", "src/c.cpp#z"), [" int x;", "", "-int y;", "+int z;"]
        )

    def test_two_regions_of_one_file(self):
        self.write("src/b.cpp", "//! [x]\nint x;\n//! [x]\n//! [y]\n  int y;\n//! [y]\n")
        self.assertEqual(self.diff("src/b.cpp#x", "src/b.cpp#y"), ["-int x;", "+int y;"])

    def test_a_file_that_uses_a_word_of_its_name_otherwise(self):
        self.write("src/03_wgmma.cuh", "void wgmma() {\n  wgmma_wait(0);\n  f();\n}\n")
        self.write("src/04_ring.cuh", "void ring() {\n  wgmma_wait(0);\n  g();\n}\n")
        self.assertEqual(
            self.diff("src/03_wgmma.cuh", "src/04_ring.cuh"),
            [" void ring() {", "   wgmma_wait(0);", "-  f();", "+  g();", " }"],
        )

    def test_indentation_alone_is_no_change(self):
        self.write("src/b.cpp", "void f() {\n  first();\n  second();\n}\n")
        self.write("src/c.cpp", "void f() {\n  for (;;) {\n    first();\n    second();\n  }\n}\n")
        self.assertEqual(
            self.diff("src/b.cpp", "src/c.cpp"),
            [" void f() {", "+  for (;;) {", "     first();", "     second();", "+  }", " }"],
        )

    def test_lines_that_came_and_went(self):
        self.write("src/one.cpp", "int a;\nint b;\n\nint c;\n")
        self.write("src/two.cpp", "int a;\n\nint c;\n\nint d;\n")
        self.assertEqual(
            self.diff("src/one.cpp", "src/two.cpp"),
            [" int a;", "-int b;", "", " int c;", "+", "+int d;"],
        )

    def test_nothing_but_names(self):
        self.write("src/02_brand_new.cuh", OLD.replace("run_old", "run_brand_new"))
        self.write("src/b.cpp", "int a;\n")
        self.write("src/c.cpp", "int z;\n")
        for old, new, renames in (
            ("src/01_old.cuh", "src/02_brand_new.cuh", ()),
            ("src/01_old.cuh", "src/01_old.cuh", ()),
            ("src/b.cpp", "src/c.cpp", [("a", "z")]),
        ):
            with self.assertRaisesRegex(Problem, "differ in nothing but names; there is no diff."):
                self.diff(old, new, renames=renames)
        renamed = self.diff("src/b.cpp", "src/c.cpp", renames=[("b", "z")])
        self.assertEqual(renamed, ["-int a;", "+int z;"])

    def test_problems(self):
        self.write("src/comment.cpp", "/// only a comment\n")
        self.write("src/wide.cpp", "x" * 79)
        old = "src/01_old.cuh"
        for place, most, sentence in (
            ("src/01_old.cuh#none", 60, "has no mark //! [none]; its marks are: loop, run."),
            ("src/no.cuh", 60, "the diff's file src/no.cuh does not exist."),
            ("../a.cuh", 60, "the diff's path is '../a.cuh'; it must be"),
            ("src/02_brand_new.cuh", 5, "has 9 lines; allowed are 5. Choose regions"),
            ("src/comment.cpp", 60, "the diff's src/comment.cpp has no code."),
            ("src/wide.cpp", 60, "has 79 columns without its indentation; a diff may have 78."),
        ):
            with self.assertRaises(Problem) as caught:
                self.diff(old, place, most=most)
            self.assertIn(sentence, str(caught.exception))


class Listings(TreeTest):
    def test_between_its_marks_at_the_left_margin(self):
        text = "//! [t]\n  //! [u]\n  int a;\n  //! [u]\n\n    int b;  \t\n\n//! [t]\n"
        self.write("a.cpp", text)
        self.assertEqual(excerpts.listing(self.root, "a.cpp", "t"), ["int a;", "", "  int b;"])

    def test_width(self):
        self.write("b.cpp", "//! [t]\n    " + "x" * 78 + "\n    y\n//! [t]\n")
        self.assertEqual(len(excerpts.listing(self.root, "b.cpp", "t")), 2)

    def test_problems(self):
        mark = "//! [t]\n"
        for text, sentence in (
            (None, "the listing's file b.cpp does not exist."),
            ("int x;\n", "b.cpp has no mark //! [t]; its marks are: none."),
            ("//! [u]\n//! [a]\n", "b.cpp has no mark //! [t]; its marks are: a, u."),
            (f"\n{mark}int x;\n", "b.cpp:2: the mark //! [t] is not closed by a second one."),
            (f"{mark}int x;\n" * 3, "b.cpp has 3 marks //! [t]; there must be exactly two."),
            (f"{mark}\n  //! [other]\n{mark}", "the listing b.cpp#t is empty."),
            (b"//! [t]\n// caf\xe9\n", "the listing's file b.cpp is not UTF-8 text (byte 14)."),
            (
                f"{mark}    y\n    {'x' * 79}\n{mark}",
                "b.cpp:3 has 79 columns without its indentation; a listing may have 78.",
            ),
        ):
            if text is not None:
                self.write("b.cpp", text)
            with self.assertRaises(Problem) as caught:
                excerpts.listing(self.root, "b.cpp", "t")
            self.assertEqual(str(caught.exception), sentence)

    def test_path_outside(self):
        for path in ("../a.cpp", "/etc/passwd", "src/../src/a.cpp"):
            with self.assertRaisesRegex(Problem, f"path is '{path}'; it must be relative"):
                excerpts.listing(self.root, path, "x")
