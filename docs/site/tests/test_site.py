"""Tests of the site: the target docs on a small repository, links, formulas, and the packages that
the site needs."""

import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
import unittest

from common.testing.tree import ROOT, TreeTest
from docs.site import check_links, navigation, transforms

CMAKE = """cmake_minimum_required(VERSION 3.22)
project(fixture LANGUAGES NONE)
find_package(Python3 3.9 QUIET COMPONENTS Interpreter)
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

- It has <!-- fact: backward.tflops 12 -->644<!-- /fact --> TFLOP/s.
  It is *faster*. <!-- fact: backward.faster 12 11 -->

| a | b |
|---|---|
| one | <!-- fact: backward.tflops 12 -->645<!-- /fact --> ms |

1. [First](1_first.md), then
2. [*Second*](2_second.md); [again](2_second.md).

## The idea

$`a_b < c`$

```math
x = \\frac{1}{2}
```
"""
FIRST = """# 1. The first *chapter*

[back](README.md#the-idea)

<!-- listing: 01_a/a.hpp#twice -->
```cpp
int twice(int number);
```

<!-- diff: 01_a/kernels/01_old.cuh 02_new.cuh -->
```diff
-int one = 1;
+int one = 2;
```

<details><summary>The whole file</summary>

[02_new.cuh](kernels/02_new.cuh), after [01_old.cuh](kernels/01_old.cuh)

</details>
<!-- /diff -->

<!-- generated: docs.records.results docs/results/one.json -->

**The title**

| kernel |      ms |
| ---    |    ---: |
| a      | 2.00    |
| b      | **1.00** |

(the source)

<!-- /generated -->

> [!WARNING]
> Take care.

---

[Course](../README.md) · Next: [2. The second one](2_second.md)
"""
KERNEL = """/// @file
/// A step.
#pragma once

/// All of it.
namespace fa {

/// Of old.
constexpr int old = 1;

}  // namespace fa
"""
CITATION = """title: A course
abstract: >-
  All of it.
authors:
  - name: Its authors
version: 1.0
date-released: 2026-01-01
license: MIT
"""
SECOND = """# 2. The second one

<!-- on the site: look.js -->
![A <b](look.svg)

This is a still picture.
<!-- /on the site -->
"""
STEP = {"group": "bfloat16, D 128", "kernel": "12_a", "length": 1, "tflops": 644}
RECORD = {"command": "06_a", "kernels": {"compiler": "1", "12_a": "old"}, "measurements": [STEP]}
EXPLORER = ("explorer.css", "explorer.js", "look.js", "look_data.js")


@unittest.skipUnless(shutil.which("doxygen") and shutil.which("cmake"), "needs Doxygen and CMake")
class Target(TreeTest):
    """Runs the real docs/CMakeLists.txt; the directory's name has a space in it."""

    def setUp(self):
        super().setUp()
        self.root = self.root / "a repository"
        shutil.copytree(
            ROOT / "docs",  # without the course's own pages
            self.root / "docs",
            ignore=shutil.ignore_patterns(
                "tests", "__pycache__", "results", "theory", "explorers", "*.md"
            ),
        )
        for folder in ("bench", "classroom", "data", "drawing", "testing"):  # that docs imports
            for path in (ROOT / "common" / folder).glob("*.py"):
                copy = self.root / "common" / folder / path.name
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)
        for path, text in {
            "CMakeLists.txt": CMAKE,
            "LICENSE": "MIT\n",
            "CITATION.cff": CITATION,
            "README.md": FRONT,
            "01_a/README.md": LESSON,
            "01_a/1_first.md": FIRST,
            "01_a/2_second.md": SECOND,
            "01_a/look.svg": '<svg width="400" font-size="10"/>',
            **{f"01_a/{name}": "" for name in EXPLORER},
            "01_a/a.hpp": HEADER,
            "01_a/a.cpp": SOURCE,
            "01_a/kernels/01_old.cuh": KERNEL,
            "01_a/kernels/02_new.cuh": KERNEL.replace("1;", "2;").replace("old", "new"),
            "01_a/a.svg": '<svg width="400" height="100" font-size="10"/>',
            "docs/README.md": "# Pages\n",
            "docs/results/one.json": "{}",
            "docs/results/h200_06_flash_backward.json": json.dumps(RECORD),
            "docs/results/sm_90a_kernels.json": '{"compiler": "1", "06": {"12_a": "new"}}',
            "01_a/tests/t.hpp": "/// @file\nint undocumented();\n",
        }.items():
            self.write(path, text)
        self.html = self.root / "build/docs/html"

    def build(self):
        """Returns (exit status, everything that was printed)."""
        configure = ["cmake", "-S", self.root, "-B", self.root / "build"]
        configure += [f"-DFA_DOCS_PYTHON={sys.executable}"]
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
        front, lesson = self.html_file("index.html"), self.html_file("01_a/index.html")
        first, second = self.html_file("01_a/1_first.html"), self.html_file("01_a/2_second.html")
        with self.subTest("links to pages, sources and names of the code"):
            self.assertIn('href="01_a/index.html#the-idea"', front)
            self.assertIn('href="../index.html"', lesson)
            self.assertIn('href="reference/a_8cpp_source.html"', front)
            self.assertRegex(lesson, r'href="\.\./reference/namespacefa\.html#\w+"')
        with self.subTest("a figure that was measured before its kernel changed"):
            self.assertIn('title="measured before a change of 12_a">644</span>', lesson)
        with self.subTest("formulas"):
            self.assertIn('alttext="a_b &lt; c"', lesson)
            self.assertRegex(lesson, r'<div class="formula"><math [^>]*display="block"')
        with self.subTest("navigation"):
            self.assertIn("Lessons", front)
            self.assertIn('href="1_first.html"', lesson)
            self.assertRegex(first, r'class="next-page" href="2_second.html"')
            self.assertNotIn("Next: ", first)
            self.assertRegex(
                self.html_file("searchindex.js"), r'"docnames": *\["01_a/1_first",.*"index"'
            )
        with self.subTest("a listing"):
            self.assertIn('href="../reference/a_8hpp_source.html#l00012"', first)
            self.assertIn(", lines 12 to 12", first)
        with self.subTest("a step of a ladder"):
            self.assertIn("changes in", first)
            self.assertNotIn("The whole file", first)
        with self.subTest("a printed table"):
            self.assertRegex(first, r'<table class="[^"]*results[^"]*">')
            self.assertRegex(first, r'(?s)<td class="[^"]*\bbest\b[^"]*"><p>1.00</p>')
            self.assertIn('href="../files/docs/results/one.json"', first)
        with self.subTest("an explorer"):
            self.assertRegex(second, r'(?s)"explorer.js".*"look_data.js".*"look.js"')
            self.assertNotIn("a still picture", second)
            for name in EXPLORER:
                self.assertTrue((self.html / "01_a" / name).is_file(), name)
        with self.subTest("an alert"):
            self.assertRegex(first, r'(?s)<div class="admonition warning">.*?Take care')
        with self.subTest("the reference has no tests, and marks of listings are no documentation"):
            self.assertIn("Doubles a number.", self.html_file("reference/namespacefa.html"))
            self.assertEqual(list(self.html.rglob("t_8hpp*")), [])
            self.assertNotIn("[twice]", self.html_file("reference/namespacefa.html"))
        with self.subTest("the site stays when a build fails"):
            self.assert_broken("README.md", FRONT + "\n[x](none.md)\n", "leads to no file")
            self.assertEqual(self.html_file("index.html"), front)

    def test_what_breaks_the_build(self):
        with self.subTest("a formula"):
            self.assert_broken("01_a/2_second.md", "# 2.\n\n$`\\nosuch`$\n", "\\nosuch")
        self.write("01_a/2_second.md", SECOND)
        with self.subTest("an undocumented function"):
            bare = re.sub(r"/// Halves(.*\n///)+.*\n", "", HEADER)
            self.assert_broken("01_a/a.hpp", bare, "half", "not documented")
        self.write("01_a/a.hpp", HEADER)
        with self.subTest("a description of a parameter that there is not"):
            self.assert_broken(
                "01_a/a.hpp", HEADER.replace("@param number any", "@param nmuber any", 1), "nmuber"
            )


class Navigation(unittest.TestCase):
    def test_every_page_has_a_place(self):
        self.assertEqual(navigation.unlisted(ROOT), [])

    def test_no_two_pages_have_the_same_title(self):
        pages = navigation.pages(ROOT)
        titles = {(ROOT / page).read_text(encoding="utf-8").splitlines()[0] for page in pages}
        self.assertEqual(len(titles), len(pages))

    def test_keywords_name_pages_and_their_headings(self):
        for place in navigation.KEYWORDS:
            self.assertIn(place.partition("#")[0], navigation.pages(ROOT))
            self.assertIsNone(check_links.fault(ROOT, ROOT / "README.md", place))

    def test_the_book_numbers_chapters_and_has_the_exercises_last(self):
        numbers = navigation.numbers(ROOT)
        self.assertEqual({*numbers, navigation.FRONT}, {*navigation.pages(ROOT)})
        self.assertEqual(numbers["05_flash_forward/README.md"], "Part 5.")
        self.assertEqual(numbers["05_flash_forward/10_masks_and_scores.md"], "5.10")
        self.assertTrue(numbers["05_flash_forward/appendix_details.md"] > "5.11")
        self.assertTrue(list(numbers)[-1].endswith("/task.md"))


class Requirements(unittest.TestCase):
    def test_packages_run_with_the_oldest_python_that_the_pages_promise(self):
        oldest = (3, 10)
        listed = (ROOT / "docs/site/requirements.txt").read_text(encoding="utf-8")
        names = re.findall(r"^([\w.-]+)==[^;\n]*\\$", listed, re.M)
        self.assertGreater(len(names), 20)
        for name in names:
            needed = importlib.metadata.metadata(name).get("Requires-Python") or ""
            found = re.search(r">=\s*(\d+)\.(\d+)", needed)
            least = tuple(map(int, found.groups())) if found else oldest
            self.assertLessEqual(least, oldest, name)


class LinksTest(TreeTest):
    def setUp(self):
        super().setUp()
        self.write("lesson/README.md", "# Lesson\n\n## The *idea*\n\n## The idea\n")
        self.write("lesson/a.cpp", "1\n2\n3\n")
        self.write("img/a b.svg", "<svg/>")

    def check(self, text, path="README.md"):
        check_links.read.cache_clear()
        self.write(path, text)
        return self.run_main(check_links.main, "--root", self.root)

    def test_what_resolves(self):
        status, out, _ = self.check(
            "# Front\n[a](lesson/README.md) [b](lesson/) [c](lesson#the-idea-1) [d](#front)\n"
            "[e](/lesson/a.cpp) [f](lesson/a.cpp#L1-L3) ![g](img/a%20b.svg) ![h](<img/a b.svg>)\n"
            "[i](https://example.org/none#x) [j](lesson/README.md?plain=1) `[k](none)`\n\n"
            '<a id="here"></a><a href="#here">l</a>\n\n```\n[m](none)\n```\n'
        )
        self.assertEqual((status, out), (0, "2 pages, 11 links, 0 faults.\n"))

    def test_what_does_not(self):
        for target in (
            "none.md",
            "../other/x.md",
            "#fronts",
            "#Front",
            "lesson#none",
            "img#x",
            "lesson/a.cpp#main",
            "lesson/a.cpp#L4",
            "lesson/a.cpp#L3-L2",
        ):
            status, out, _ = self.check(f"# Front\n\ntext [x]({target})\n")
            self.assertEqual(status, 1, target)
            self.assertIn(f"README.md:3: the link {target} ", out)
        status, out, _ = self.check(b"# \xff")
        self.assertEqual(status, 1)
        self.assertIn("README.md: ", out)

    def test_links_of_deeper_pages_are_relative_to_them(self):
        self.assertEqual(self.check("[a](../lesson/README.md) [b](../img)", "docs/deep.md")[0], 0)
        self.assertEqual(self.check("[a](lesson/README.md)", "docs/deep.md")[0], 1)


class Formulas(unittest.TestCase):
    def made(self, tex):
        made, unknown = transforms.mathml(tex, "inline")
        self.assertIsNone(unknown, tex)
        return made.partition("<mrow>")[2]

    def test_a_minus_without_an_operand_before_it_is_a_sign(self):
        sign = '<mo form="prefix">&#x02212;</mo>'
        for tex in (r"m = -\infty", "-x", r"e^{-\infty}", "[0, -1]", "(-a)"):
            self.assertIn(sign, "<mrow>" + self.made(tex), tex)
        for tex in ("a - b", "(a) - b", "x_1 - b"):
            self.assertNotIn(sign, self.made(tex), tex)

    def test_a_space_between_a_name_and_its_operand(self):
        self.assertIn('<mi>ln</mi><mspace width="0.167em"/><mi>l</mi>', self.made(r"\ln l"))
        for tex in (r"\max(a, b)", r"\max_j"):
            self.assertNotIn("mspace", self.made(tex), tex)

    def test_an_operator_and_equals_are_one(self):
        self.assertIn("<mo>&#x0002B;=</mo>", self.made(r"a \mathrel{+}= b"))

    def test_a_prime_is_not_raised_twice(self):
        for tex in ("m'", "m'_i", "S'_{ij}", "e^{m - m'}"):
            made = transforms.mathml(tex, "inline")[0]
            self.assertRegex(made, "<mo>&#x02032;</mo></mrow>")
            self.assertNotIn("<mi>&#x02032;", made)
