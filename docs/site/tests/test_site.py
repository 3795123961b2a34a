"""Tests of the finished site, check_site.py alone and the target docs on a small repository, and of
the packages that it needs."""

import importlib.metadata
import re
import shutil
import subprocess
import sys
import unittest

from common.testing.tree import ROOT, TreeTest
from docs.site import check, check_site, course

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

- It has <!-- value: [06 12 tflops] -->644<!-- /value --> TFLOP/s.
  It is *faster*. <!-- claim: [06 12 tflops] > 1 -->

| a | b |
|---|---|
| one | <!-- value: [06 12 tflops] -->645<!-- /value --> ms <!-- arithmetic --> |

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

## A step

**Predict.**
How many?

<details><summary>Answer</summary>

Three.

</details>

---

<!-- navigation -->
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


class CheckSite(TreeTest):
    """check_site.py, on a site of two pages."""

    def setUp(self):
        super().setUp()
        self.write("README.md", "# Front\n")
        self.write("docs/notation.md", "# Symbols\n")
        self.write(
            "html/index.html",
            '<h1 id="x">Front</h1><a href="docs/notation.html#y"></a><img src="i.svg">'
            '<a href="#x"></a><a href="https://none"></a>',
        )
        self.write("html/docs/notation.html", '<h1 id="y">S</h1><a href="../index.html?q"></a>')
        self.write("html/i.svg", "<svg/>")

    def check(self):
        return self.run_main(check.main, "site", "--root", self.root, "--site", self.root / "html")

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
        (self.root / "html/docs/notation.html").unlink()
        self.assert_fault("docs/notation.md is not on the site: there is no docs/notation.html.")

    def test_unlisted_page(self):
        self.write("docs/other.md", "# Other\n")
        self.assert_fault("docs/other.md is not in the navigation;")

    def test_missing_file(self):
        (self.root / "html/i.svg").unlink()
        self.assert_fault("index.html:1: the link i.svg leads to no file.")

    def test_missing_anchor(self):
        self.write("html/docs/notation.html", "<h1>S</h1>")
        self.assert_fault("index.html:1: the link docs/notation.html#y leads to no anchor.")

    def test_links_of_styles(self):
        self.write("html/a/b.css", "a { background: url(../i.svg), url('data:x'), url(\"#z\") }\n")
        self.assertEqual(self.check()[0], 0)
        self.write("html/a/b.css", "\na { background: url('none.png') }")
        self.assert_fault("a/b.css:2: the link none.png leads to no file.")

    def test_a_large_reference(self):
        self.write("html/reference/a.html", "a" * check_site.LARGEST)
        self.assertEqual(self.check()[0], 0)
        self.write("html/reference/a.html", "a" * (check_site.LARGEST + 1))
        self.assert_fault("reference/a.html has 300 KB; allowed are 300.")
        for number in range(check_site.ALL // 250_000 + 1):
            self.write(f"html/reference/{number}.html", "a" * 250_000)
        self.write("html/reference/a.html", "")
        self.assert_fault("the reference has 10.2 MB; allowed are 10.")

    def namespace(self, name, words):
        """What Doxygen finds of a namespace."""
        self.write(
            f"xml/{name.replace('::', '_')}.xml",
            f'<doxygen><compounddef kind="namespace"><compoundname>{name}</compoundname>'
            f"<briefdescription><para>{words}</para></briefdescription></compounddef></doxygen>",
        )

    def test_namespace_without_description(self):
        self.write("common/a.hpp", "namespace fa {\n}\nnamespace fa::in_b {\nnamespace detail {\n")
        self.write("common/tests/b.hpp", "namespace fa::c {\n")
        self.namespace("fa", "All of it.")
        self.namespace("fa::in_b", "")
        self.assert_fault(
            "common/a.hpp:3: the namespace fa::in_b has no description; docs/site/namespaces"
        )
        self.namespace("fa::in_b", "A part.")
        self.assertEqual(self.check()[0], 0)
        self.write(
            "common/a.hpp", "namespace fa {\nnamespace in_b {\n"
        )  # the same, opened in two steps
        self.assertEqual(self.check()[0], 0)
        self.write("common/a.hpp", "namespace fa {\nnamespace b {\n")
        self.assert_fault("common/a.hpp:2: the namespace b has no description;")

    def test_warnings_of_doxygen(self):
        self.write("warnings.txt", "Member x (variable) of struct fa::P is not documented.\n")
        self.assertEqual(self.check()[0], 0)
        self.write("warnings.txt", "a.hpp:3: warning: argument 'n' is not found\n")
        self.assert_fault("a.hpp:3: warning: argument 'n' is not found")


class CodeFilter(TreeTest):
    """cpp2dox.awk."""

    def filtered(self, name, text):
        command = ["awk", "-f", ROOT / "docs/site/cpp2dox.awk", self.write(name, text)]
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout

    def test_marks_are_blanked(self):
        text = "  //! [a]\n//!< [b]\nint x;  //! [c]\n//! [d] e\n//! [f] \n"
        self.assertEqual(self.filtered("a.hpp", text), "\n//!< [b]\nint x;  //! [c]\n//! [d] e\n\n")


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

**What limits it?**
The memory.

**Predict.**
How fast is it?
<details><summary>Answer</summary>

Twice.

</details>

**More** is no part of a step.
"""
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
        for folder in (
            "bench",
            "classroom",
            "data",
            "drawing",
            "flatten",
            "testing",
        ):  # that docs imports
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
            "docs/glossary.md": "# Glossary\n\nTerms.\n\n## B\n\n### barrier\n\nA place.\n",
            "docs/results/one.json": "{}",
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
        self.assertIn("0 faults.", out)
        front, lesson = self.html_file("index.html"), self.html_file("01_a/index.html")
        self.assertIn('href="01_a/index.html#the-idea"', front)
        self.assertIn('href="reference/01_a/a.cpp.html"', front)
        # The drawing is so large that its letters of 10 have 16, and at least 9.
        self.assertRegex(front, r'<img width="400" height="100" alt="drawing"[^>]* src="_images/a')
        self.assertRegex(front, r'src="_images/a.svg" style="min-width: 360px; width: 640px;')
        self.assertIn('href="../index.html"', lesson)
        with self.subTest("formulas"):
            self.assertIn('alttext="a_b &lt; c"', lesson)
            self.assertRegex(lesson, r'<div class="formula"><math [^>]*display="block"')
        with self.subTest("names of the code"):
            self.assertRegex(
                lesson, r'<a class="reference external" href="\.\./reference/01_a/a.hpp.html#l12"'
            )
        with self.subTest("figures in sentences"):
            self.assertRegex(lesson, r"It has 644\s+TFLOP/s.\s+It is <em>faster</em>.\s*<")
            self.assertRegex(lesson, r"<td><p>645\s+ms\s*</p></td>")
            self.assertNotIn("<!-- value", lesson)
        with self.subTest("navigation"):
            self.assertIn('href="1_first.html"', lesson)
            self.assertIn("Lessons", front)
        first = self.html_file("01_a/1_first.html")
        with self.subTest("a listing"):
            self.assertIn('href="../reference/01_a/a.hpp.html#l12"', first)
            self.assertIn(", lines 12 to 12", first)
        with self.subTest("a step of a ladder"):
            self.assertIn('href="../changes/01_a/kernels/02_new.html"', first)
            self.assertIn("changes in", first)
            self.assertNotIn("The whole file", first)
            self.assertIn(
                "From 01_old to 02_new", self.html_file("changes/01_a/kernels/02_new.html")
            )
        with self.subTest("a printed table"):
            self.assertRegex(first, r'<table class="[^"]*results[^"]*">')
            self.assertRegex(first, r'(?s)<td class="[^"]*\bbest\b[^"]*"><p>1.00</p>')
            self.assertRegex(first, r'<p class="printed-title"><strong>The title')
            self.assertRegex(
                first, r'(?s)<details class="provenance"><summary>.*<p class="printed-source">\(the'
            )
            self.assertIn('href="../files/docs/results/one.json"', first)
        with self.subTest("an explorer"):
            second = self.html_file("01_a/2_second.html")
            self.assertRegex(
                second, r'id="look-explorer"[^>]*><img [^>]*src="look.svg" alt="A &lt;b'
            )
            self.assertRegex(second, r'(?s)"explorer.js".*"look_data.js".*"look.js"')
            self.assertNotIn("a still picture", second)
            for name in (*EXPLORER, "look.svg"):
                self.assertTrue((self.html / "01_a" / name).is_file(), name)
        with self.subTest("where a chapter is"):
            self.assertRegex(first, r"<title>1\.1 The first chapter")
            self.assertRegex(first, r"<h1>1\.1 The first <em>chapter</em>")
            self.assertRegex(
                first,
                r'(?s)class="crumbs".*<a href="../index.html">Course</a>.*'
                r'<a href="index.html">Lesson one</a>',
            )
            self.assertRegex(first, r'class="next-page" href="2_second.html"')
            self.assertNotIn("crumbs", front)
        second = self.html_file("01_a/2_second.html")
        with self.subTest("the parts of a step"):
            self.assertRegex(
                second,
                r'callout callout-limit[^>]*>\s*<p><strong class="callout-name">What limits it\?',
            )
            box = re.search(r'(?s)<div class="callout callout-predict[^>]*>(.*?)</details>', second)
            self.assertIn("<p>Twice.</p>", box[1])
            self.assertNotIn("callout-name", second.split("More</strong>")[1])
        with self.subTest("the letters of the glossary"):
            glossary = self.html_file("docs/glossary.html")
            self.assertIn('<nav class="letters" aria-label="Letters"><a href="#b">B</a>', glossary)
            self.assertIn('id="b"', glossary)
        with self.subTest("an alert"):
            self.assertRegex(first, r'(?s)<div class="admonition warning">.*?Take care')
        with self.subTest("links between chapters are the theme's"):
            self.assertNotIn("Next: ", first)
        source = self.html_file("reference/01_a/a.hpp.html")
        with self.subTest("the way back"):
            self.assertIn('In the course: <a href="../../01_a/1_first.html">1.1 The first', source)
            self.assertIn("an ordinary comment", source)
        with self.subTest("the reference: what names mean, sources, a start page"):
            self.assertIn('<a href="#l12"><code>twice</code></a> Doubles a number.', source)
            self.assertRegex(source, r'<i id="l12"></i><span class="kt">int</span> twice')
            self.assertIn("Point::length</code></a> The distance from the origin.", source)
            self.assertRegex(source, r'<label>Search <input type="search" name="q">')
            included = self.html_file("reference/01_a/a.cpp.html")
            self.assertIn('<a href="../../reference/01_a/a.hpp.html">', included)
            start = self.html_file("reference/index.html")
            self.assertRegex(start, r'(?s)<h2 id="01_a">Lesson <a href="\.\./01_a/index.html">')
            self.assertRegex(start, r'(?s)The ladder.*01_old\.cuh.html">01_old.cuh</a> A step\.')
            self.assertIn('<a href="01_a/a.hpp.html">a.hpp</a> A file.', start)
            data = self.html_file("_static/search_data.js")
            self.assertIn('["fa::twice","01_a/a.hpp.html#l12"]', data)
        with self.subTest("slides"):
            deck = self.html_file("01_a/slides.html")
            self.assertRegex(deck, r'(?s)class="slide question".*How many\?.*<details>.*Three\.')
        with self.subTest("the site stays when a build fails"):
            self.assert_broken("README.md", FRONT + "\n[x](none.md)\n", "leads to no file")
            self.assertEqual(self.html_file("index.html"), front)
        # The marks of listings are no documentation.
        self.assertNotIn("[twice]", source.split("<pre")[0])
        self.assertEqual(list(self.html.rglob("t.hpp*")), [])
        with self.subTest("nothing from the network"):
            for page in (front, lesson, first, self.html_file("search.html")):
                self.assertNotRegex(page, r'(?:src|href)="https?://[^"]*\.(?:js|css)')

    def test_what_breaks_the_build(self):
        with self.subTest("a link on a page"):
            self.assert_broken(
                "README.md", FRONT + "\n[x](none.md)\n", "the link none.md leads to no file"
            )
        self.write("README.md", FRONT)
        with self.subTest("a formula"):
            self.assert_broken("01_a/2_second.md", "# 2.\n\n$`\\nosuch`$\n", "\\nosuch")
        self.write("01_a/2_second.md", SECOND)
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


class Clone(unittest.TestCase):
    def test_the_front_page_has_the_address(self):
        text = (ROOT / "README.md").read_text(encoding="utf-8")
        shown = course.with_address(text, "https://host/a")
        self.assertIn("`git clone https://host/a`.\nIn its folder:", shown)


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
