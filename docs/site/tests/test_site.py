"""Tests of the finished site: check_site.py alone, and the target docs on a small repository."""

import shutil
import subprocess
import unittest

from common.testing.tree import ROOT, TreeTest
from docs.site import check_site, cpp2dox

CMAKE = """cmake_minimum_required(VERSION 3.22)
project(fixture LANGUAGES NONE)
set(FA_LESSONS 01_a 02_none)
add_subdirectory(docs)
"""
HEADER = """/// @file
/// A file.
#pragma once

/// All of it.
namespace fa {

/// Doubles a number.
/// @param number any number
/// @return twice the number
//! [twice]
int twice(int number);
//! [twice]

/// Halves a number.
/// @param number any number
/// @return half the number
//! [half]
inline int half(int number) { return number / 2; }  // an ordinary comment
//! [half]

/// A point. Its fields need no comment, nor does each parameter.
struct Point {
  double x, y;
  /// The distance from the origin.
  double length(bool squared) const;
};

}  // namespace fa
"""
SOURCE = """#include "01_a/a.hpp"

//! [definition]
int fa::twice(int number) { return 2 * number; }
//! [definition]
"""
FRONT = """# The front

Read [lesson *one*](01_a/README.md#the-idea), then [the source](01_a/a.cpp).

![drawing](01_a/a.svg)
"""
LESSON = """# Lesson one

Back to [the front](../README.md). See `fa::twice()`.

1. [First](1_first.md), then
2. [*Second*](2_second.md); [again](2_second.md).

## The idea

$`a_b < c`$

```math
x = \\frac{1}{2}
```
"""


class CheckSite(TreeTest):
    def setUp(self):
        super().setUp()
        self.write(
            "site.txt", f"root {self.root}\nhtml {self.root}/html\npage README.md\npage a.md\n"
        )
        self.write("README.md", "# Front\n")
        self.write("a.md", "# Page *a*\n\n## One & `two`\n")
        self.write(
            "html/index.html",
            '<h1 id="x">Front</h1><a href="page_a.html#y"></a><img src="i.svg">'
            '<a href="#x"></a><a href="https://none"></a>',
        )
        self.write(
            "html/page_a.html",
            '<h1>Page a</h1>\n<a name="y"></a><h2>One &amp; two</h2><a href="index.html?q"></a>',
        )
        self.write("html/i.svg", "<svg/>")

    def check(self):
        return self.run_main(check_site.main, "--site", self.root / "site.txt")

    def assert_fault(self, sentence):
        status, out, _ = self.check()
        self.assertEqual(status, 1, out)
        self.assertIn(sentence, out)
        self.assertIn("1 faults.", out)

    def test_good(self):
        status, out, _ = self.check()
        self.assertEqual(status, 0, out)
        self.assertIn("2 files, 2 pages, 0 faults.", out)

    def test_missing_page(self):
        self.write("html/index.html", "Front")
        (self.root / "html/page_a.html").unlink()
        self.assert_fault("a.md is not on the site: there is no page_a.html. Did gfm2dox.py run?")

    def test_empty_page(self):
        self.write("html/page_a.html", '<h1>Page a</h1><a name="y"></a>')
        self.assert_fault("a.md:3: the heading 'One & two' is not in page_a.html.")

    def test_missing_file(self):
        (self.root / "html/i.svg").unlink()
        self.assert_fault("index.html:1: the link i.svg leads to no file.")

    def test_missing_anchor(self):
        self.write("html/page_a.html", "<h1>Page a</h1><h2>One &amp; two</h2>")
        self.assert_fault("index.html:1: the link page_a.html#y leads to no anchor.")

    def test_links_of_the_navigation(self):
        good = '[ "A", "page_a.html#y", [\n[ "f", "page_a.html#a' + "0" * 32 + '", null ]'
        self.write("html/navtreedata.js", good)
        self.write("html/site.css", "a { background: url(i.svg), url('data:x'), url(\"#z\") }\n")
        self.assertEqual(self.check()[0], 0)
        self.write("html/navtreedata.js", good + '\n"page_a.html#none"')
        self.assert_fault("navtreedata.js:3: the link page_a.html#none leads to no anchor.")
        self.write("html/navtreedata.js", "url:'none.html'")
        self.assert_fault("navtreedata.js:1: the link none.html leads to no file.")
        self.write("html/navtreedata.js", "")
        self.write("html/site.css", "\na { background: url('none.png') }")
        self.assert_fault("site.css:2: the link none.png leads to no file.")

    def test_jump_list_of_doxygen(self):
        text = '<div class="summary"><a href="#none"></a></div>'
        self.write("html/extra.html", text)
        self.assertEqual(self.check()[0], 0)
        self.write("html/extra.html", text + '<div class="x"><a href="#none"></a></div>')
        self.assert_fault("extra.html:1: the link #none leads to no anchor.")

    def test_namespace_without_description(self):
        self.write("site.txt", self.read("site.txt") + "sources src\n")
        self.write("src/a.hpp", "namespace fa {\n}\nnamespace fa::in_b {\nnamespace detail {\n")
        self.write("src/tests/b.hpp", "namespace fa::c {\n")
        self.write("html/namespacefa.html", "")
        self.assert_fault(
            "src/a.hpp:3: the namespace fa::in_b has no description; docs/site/namespaces"
        )
        self.write("html/namespacefa_1_1in__b.html", "")
        self.assertEqual(self.check()[0], 0)
        self.write(
            "src/a.hpp", "namespace fa {\nnamespace in_b {\n"
        )  # the same, opened in two steps
        self.assertEqual(self.check()[0], 0)
        self.write("src/a.hpp", "namespace fa {\nnamespace b {\n")
        self.assert_fault("src/a.hpp:2: the namespace b has no description;")

    def test_no_site(self):
        (self.root / "site.txt").unlink()
        status, _, err = self.check()
        self.assertEqual(status, 2)
        self.assertIn("check_site.py: ", err)


class CodeFilter(TreeTest):
    """cpp2dox.py."""

    def run_filter(self, name, text):
        path = self.write(name, text)
        status, out, err = self.run_main(cpp2dox.main, path)
        self.assertEqual((status, err), (0, ""))
        return out

    def test_marks_are_blanked(self):
        text = "  //! [a]\n//!< [b]\nint x;  //! [c]\n//! [d] e\n//! [f] \n"
        self.assertEqual(
            self.run_filter("a.hpp", text), "\n//!< [b]\nint x;  //! [c]\n//! [d] e\n\n\n"
        )

    def test_source_files_are_described(self):
        text = "#define A 1\n/// Known.\n#define B(x) x\n}  // namespace fa"
        self.assertEqual(
            self.run_filter("a.cu", text),
            text + "\n/** @file */\n/** @def A\nA macro of this file only. */\n",
        )
        self.assertEqual(self.run_filter("a.cuh", text), text + "\n")

    def test_unreadable_file(self):
        status, out, err = self.run_main(cpp2dox.main, self.write("a.cpp", b"\xff"))
        self.assertEqual(status, 2)
        self.assertIn("cpp2dox.py cannot read the file", err)
        self.assertIn("\\ref error_cpp2dox_could_not_read_this_file", out)


@unittest.skipUnless(shutil.which("doxygen") and shutil.which("cmake"), "needs Doxygen and CMake")
class Target(TreeTest):
    """Runs the real docs/CMakeLists.txt; the directory's name has a space in it."""

    def setUp(self):
        super().setUp()
        self.root = self.root / "a repository"
        shutil.copytree(
            ROOT / "docs",  # without the course's own pages
            self.root / "docs",
            ignore=shutil.ignore_patterns("tests", "__pycache__", "results", "theory", "*.md"),
        )
        shutil.copytree(
            ROOT / "common/files",
            self.root / "common/files",
            ignore=shutil.ignore_patterns("tests", "__pycache__", "*.?pp"),
        )
        for path, text in {
            "CMakeLists.txt": CMAKE,
            "README.md": FRONT,
            "01_a/README.md": LESSON,
            "01_a/1_first.md": "# 1. The first *chapter*\n\n[back](README.md#the-idea)\n",
            "01_a/2_second.md": "# 2. The second one\n",
            "01_a/a.hpp": HEADER,
            "01_a/a.cpp": SOURCE,
            "01_a/a.svg": "<svg/>",
            "docs/README.md": "# Pages\n",
            "01_a/tests/t.hpp": "/// @file\nint undocumented();\n",
        }.items():
            self.write(path, text)
        self.html = self.root / "build/docs/html"

    def build(self):
        """Returns (exit status, everything that was printed)."""
        configure = ["cmake", "-S", self.root, "-B", self.root / "build"]
        if shutil.which("ninja"):
            configure += ["-G", "Ninja"]
        out = ""
        for command in (configure, ["cmake", "--build", self.root / "build", "--target", "docs"]):
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
            )
            out += done.stdout
            if done.returncode:
                break
        return done.returncode, out

    def html_file(self, name):
        return (self.html / name).read_text(encoding="utf-8")

    def assert_broken(self, path, text, *words):
        self.write(path, text)
        status, out = self.build()
        self.assertNotEqual(status, 0, out)
        for word in words:
            self.assertIn(word, out)

    def test_good_site(self):
        status, out = self.build()
        self.assertEqual(status, 0, out)
        self.assertIn("0 faults.", out)
        front, lesson = self.html_file("index.html"), self.html_file("page_01_a.html")
        self.assertIn('href="page_01_a.html#page_01_a__the-idea"', front)
        self.assertIn('href="a_8cpp.html"', front)
        self.assertIn('src="images/01_a-a.svg"', front)
        self.assertIn('href="index.html#page_front"', lesson)
        self.assertIn(r"\(a_b &lt; c\)", lesson)
        self.assertIn('href="page_01_a_1_first.html"', lesson)
        tree = self.html_file("navtreedata.js") + self.html_file("page_01_a.js")
        self.assertRegex(tree, r'"First|"1\.\sThe first chapter", "page_01_a_1_first.html"')
        self.assertIn("page_01_a_2_second.html", self.html_file("page_01_a.js"))
        self.assertRegex(lesson, r"\\\[\s*x = \\frac\{1\}\{2\}\s*\\\]")
        self.assertRegex(
            lesson, r'<a class="el" href="namespacefa.html#\w+"[^>]*>fa::twice\(\)</a>'
        )
        # The marks of listings are no documentation, and the source is shown with its comments.
        for file in self.html.glob("namespace*.html"):
            self.assertNotIn("[twice]", file.read_text(encoding="utf-8"))
        self.assertIn("an ordinary comment", self.html_file("a_8hpp_source.html"))
        self.assertEqual(list(self.html.glob("t_8hpp*")), [])
        self.assertIn("Lessons", self.html_file("menudata.js"))
        if "libjs-mathjax is not installed" not in out:
            self.assertTrue((self.html / "mathjax/MathJax.js").is_file())
            self.assertIn('src="mathjax/MathJax.js"', lesson)
            self.assertNotRegex(lesson, r'(?:src|href)="https?://[^"]*\.(?:js|css)')

    def test_what_breaks_the_build(self):
        with self.subTest("a link on a page"):
            self.assert_broken(
                "README.md",
                FRONT + "\n[x](none.md)\n",
                "README.md:7: the link none.md leads to no file.",
                "error_the_link_none_md_leads_to_no_file",
            )
        self.write("README.md", FRONT)
        with self.subTest("an undocumented function"):
            self.assert_broken(
                "01_a/a.hpp",
                HEADER.replace(
                    "/// Halves a number.\n/// @param number any number\n"
                    "/// @return half the number\n",
                    "",
                ),
                "half",
                "not documented",
            )
        self.write("01_a/a.hpp", HEADER)
        with self.subTest("a description of a parameter that there is not"):
            self.assert_broken(
                "01_a/a.hpp", HEADER.replace("@param number any", "@param nmuber any", 1), "nmuber"
            )
        self.write("01_a/a.hpp", HEADER)
        with self.subTest("a filter that crashes"):
            filter_file = self.root / "docs/site/gfm2dox.py"
            good = filter_file.read_text(encoding="utf-8")
            self.assert_broken(
                "docs/site/gfm2dox.py",
                good.replace("self.title(out)", "self.no_such_thing()"),
                "gfm2dox.py cannot translate the page",
                "error_gfm2dox_could_not_translate_this_page",
            )
        with self.subTest("a filter that prints nothing"):
            self.assert_broken(
                "docs/site/gfm2dox.py",
                good.replace("sys.stdout.write(out)", "pass"),
                "README.md is not on the site",
                "Did gfm2dox.py run?",
            )


if __name__ == "__main__":
    unittest.main()
