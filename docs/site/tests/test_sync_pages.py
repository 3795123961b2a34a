"""Tests of sync_pages.py: what it writes, what it leaves alone, and every message it can give."""

import os
import sys
import unittest

from common.testing.tree import TreeTest
from docs.site import sync_pages

SOURCE = """#include <x>
namespace fa {
//! [sum]
  //! [inner]
  int a = 1;
  //! [inner]

    int b = 2;   \t

//! [sum]
}
"""
PAGE = """# Title

<!-- listing: src/a.cpp#sum -->
```cpp
old
```

Some text.  \r
<!-- generated: prog --size 3 "two words" -->

~~~text
old
older
~~~

<!-- /generated -->
no line end at the end of the page"""


class SyncTest(TreeTest):
    def setUp(self):
        super().setUp()
        self.write("src/a.cpp", SOURCE)
        self.program("prog", 'printf "<%s>\\n" "$@"')

    def program(self, name, script):
        self.write(f"build/{name}/{name}", f"#!/bin/sh\n{script}\n", 0o755)

    def sync(self, *arguments):
        return self.run_main(
            sync_pages.main, "--root", self.root, "--programs", self.root / "build", *arguments
        )

    def sync_text(self, text, *arguments):
        self.write("page.md", text)
        return self.sync(*arguments, "page.md")

    def test_a_module_of_the_repository_runs_in_its_root(self):
        self.write("tools/count.py", "import sys\nprint(open(sys.argv[1]).read())\n")
        self.write("data.txt", "from the root")
        text = "<!-- generated: tools.count data.txt -->\n```text\n```\n<!-- /generated -->\n"
        self.assertEqual(self.sync_text(text)[0], 0)
        self.assertIn("```text\nfrom the root\n```", self.read("page.md"))
        self.assert_problem(
            text.replace("count", "none"), "page.md:1", "there is no module tools.none"
        )

    def assert_problem(self, text, place, *words):
        """The page gives this message and exit status 2, both ways; nothing is written."""
        for mode in ((), ("--check",)):
            status, _, err = self.sync_text(text, *mode)
            self.assertEqual(status, 2, err)
            self.assertIn(place, err)
            for word in words:
                self.assertIn(word, err)
            self.assertEqual(
                self.read("page.md").encode(), text if isinstance(text, bytes) else text.encode()
            )

    def listing(self, target, fence="```cpp\n```\n"):
        return f"<!-- listing: {target} -->\n{fence}"

    def generated(self, command):
        return f"text\n<!-- generated: {command} -->\n```text\n```\n<!-- /generated -->\n"


class Writing(SyncTest):
    def test_a_drawing_goes_where_the_page_shows_it(self):
        self.write(
            "tools/draw.py", "import sys\nprint('<svg>', sys.argv[1], '</svg>', sep='\\n')\n"
        )
        self.write("01_a/README.md", "<!-- drawn: tools.draw x -->\n![words](figures/pic.svg)\n")
        status, out, _ = self.sync("--check", "01_a/README.md")
        self.assertEqual(status, 1)
        self.assertIn("01_a/figures/pic.svg (as it is)", out)
        self.assertIn("1 of 1 pages and 1 drawings are out of step", out)
        self.assertFalse((self.root / "01_a/figures/pic.svg").exists())
        (self.root / "01_a/figures").mkdir()
        self.assertEqual(self.sync("01_a/README.md")[0], 0)
        self.assertEqual(self.read("01_a/figures/pic.svg"), "<svg>\nx\n</svg>\n")
        self.assertEqual(self.sync("--check", "01_a/README.md")[0], 0)
        self.write("01_a/figures/pic.svg", "<svg>\ny\n</svg>\n")
        status, out, _ = self.sync("--check", "01_a/README.md")
        self.assertEqual(status, 1)
        self.assertIn("-y\n+x\n", out)

    def test_a_drawing_without_its_image(self):
        self.write("tools/draw.py", "print('<svg/>')\n")
        for after in (
            "",
            "\n![w](a.svg)\n",
            "![w](../a.svg)\n",
            "![w](/a.svg)\n",
            "![w](a.png)\n",
            "![](a.svg)\n",
        ):
            status, _, err = self.sync_text(f"<!-- drawn: tools.draw -->\n{after}")
            self.assertEqual(status, 2)
            self.assertIn("page.md:1: the line after the drawn comment must be an image", err)
        self.assertFalse((self.root / "a.svg").exists())

    def test_one_file_is_drawn_by_one_command(self):
        self.write("tools/draw.py", "import sys\nprint(sys.argv[1])\n")
        one, two = (f"<!-- drawn: tools.draw {i} -->\n![w](a.svg)\n" for i in (1, 2))
        self.assertEqual(self.sync_text(one + one)[0], 0)
        status, _, err = self.sync_text(one + two)
        self.assertEqual(status, 2)
        self.assertIn("page.md:3: two commands draw a.svg.", err)

    def test_whole_page(self):
        status, out, err = self.sync_text(PAGE)
        self.assertEqual((status, err), (0, ""))
        self.assertIn("page.md: written", out)
        self.assertEqual(
            self.read("page.md"),
            PAGE.replace("```cpp\nold\n", "```cpp\nint a = 1;\n\n  int b = 2;\n").replace(
                "old\nolder\n", "<--size>\n<3>\n<two words>\n"
            ),
        )

    def test_second_run_changes_nothing(self):
        self.sync_text(PAGE)
        os.utime(self.root / "page.md", (1, 1))
        status, out, _ = self.sync("page.md")
        self.assertEqual((status, os.stat(self.root / "page.md").st_mtime), (0, 1))
        self.assertNotIn("written", out)
        self.assertEqual(self.sync("--check", "page.md")[0], 0)

    def test_line_ends_indentation_and_mode_are_kept(self):
        text = "1. item\n\n   <!-- listing: src/a.cpp#sum -->\n   ```cpp title\n   ```\n\nlast\n"
        text = text.replace("\n", "\r\n")
        self.write("page.md", text, 0o640)
        self.assertEqual(self.sync("page.md")[0], 0)
        self.assertEqual(
            self.read("page.md"),
            text.replace(
                "   ```cpp title\r\n", "   ```cpp title\r\n   int a = 1;\r\n\r\n     int b = 2;\r\n"
            ),
        )
        self.assertEqual((self.root / "page.md").stat().st_mode & 0o777, 0o640)
        self.assertEqual([p.name for p in self.root.glob("page*")], ["page.md"])

    def test_form_feed_and_byte_order_mark_are_kept(self):
        text = "\ufeffa\x0cb\u2028c\n" + self.listing(
            "src/a.cpp#inner", "```cpp\nint a = 1;\n```\n"
        )
        self.assertEqual(self.sync_text(text, "--check")[0], 0)
        self.assertEqual(self.sync_text(text)[0], 0)
        self.assertEqual(self.read("page.md"), text)

    def test_comments_inside_a_fence_are_left_alone(self):
        text = "````md\n" + self.listing("no/such.cpp#tag") + "````\n`<!-- generated: x -->`\n"
        self.assertEqual(self.sync_text(text, "--check")[0], 0)

    def test_lines_of_spaces_count_as_empty(self):
        self.program("prog", "printf '  \\n x\\n\\t\\n'")
        text = "<!-- generated: prog -->\n  \n```\n```\n \n<!-- /generated -->\n"
        self.assertEqual(self.sync_text(text)[0], 0)
        self.assertEqual(self.read("page.md"), text.replace("```\n", "```\n x\n", 1))

    def test_programs_of_another_processor(self):
        self.write("emulate", '#!/bin/sh\necho "$1 runs $(basename $2) $3"\n', 0o755)
        self.write("page.md", self.generated("prog 1"))
        self.assertEqual(self.sync("--emulator", f"'{self.root}/emulate' -cpu", "page.md")[0], 0)
        self.assertIn("\n-cpu runs prog 1\n", self.read("page.md"))

    def test_colours_that_the_user_forces_do_not_reach_programs(self):
        os.environ["FORCE_COLOR"] = "1"
        self.addCleanup(os.environ.pop, "FORCE_COLOR")
        self.program("prog", 'echo "<$FORCE_COLOR>"')
        self.assertEqual(self.sync_text(self.generated("prog"))[0], 0)
        self.assertIn("\n<>\n", self.read("page.md"))

    def test_programs_see_no_gpu(self):
        os.environ["CUDA_VISIBLE_DEVICES"] = "0"
        self.addCleanup(os.environ.pop, "CUDA_VISIBLE_DEVICES")
        self.program("prog", 'echo "<${CUDA_VISIBLE_DEVICES-all}>"')
        self.assertEqual(self.sync_text(self.generated("prog"))[0], 0)
        self.assertIn("\n<>\n", self.read("page.md"))

    def test_symbolic_link_stays_one(self):
        self.write("real.md", self.listing("src/a.cpp#inner"))
        (self.root / "link.md").symlink_to("real.md")
        self.assertEqual(self.sync("link.md")[0], 0)
        self.assertTrue((self.root / "link.md").is_symlink())
        self.assertIn("int a = 1;", self.read("real.md"))

    def test_same_command_runs_once(self):
        self.program("count", f'echo run >> "{self.root}/log"; echo out')
        self.write("second.md", self.generated("count  1"))
        self.write("page.md", self.generated("count 1") * 2)
        self.assertEqual(self.sync("page.md", "second.md")[0], 0)
        self.assertEqual(self.read("log"), "run\n")
        self.assertEqual(
            self.read("second.md"),
            self.generated("count  1").replace("```text\n", "```text\nout\n"),
        )

    def test_failing_command_runs_once_and_is_reported_at_each_place(self):
        self.program("count", f'echo run >> "{self.root}/log"; exit 1')
        status, _, err = self.sync_text(self.generated("count") * 2)
        self.assertEqual((status, self.read("log")), (2, "run\n"))
        self.assertIn("page.md:2:", err)
        self.assertIn("page.md:7:", err)

    def test_programs_find_records_by_their_paths_in_the_repository(self):
        self.write("docs/results/a.tsv", "a record\n")
        self.program("show", 'cat "$1" || echo none: "$1"')
        for name, shown in [("a", "a record"), ("b", "none: docs/results/b.tsv")]:
            page = f"<!-- generated: show docs/results/{name}.tsv -->\n```text\n```\n"
            status, _, err = self.sync_text(page + "<!-- /generated -->\n")
            self.assertEqual((status, err), (0, ""))
            self.assertIn(f"\n{shown}\n", self.read("page.md"))

    def test_programs_run_elsewhere_without_input_and_without_colours(self):
        self.program("prog", 'pwd; cat; touch made; echo "$NO_COLOR $TERM"')
        self.assertEqual(self.sync_text(self.generated("prog"))[0], 0)
        self.assertIn("\n1 dumb\n", self.read("page.md"))
        self.assertNotIn(f"\n{self.root}\n", self.read("page.md"))
        self.assertEqual(list(self.root.rglob("made")), [])

    def test_nothing_is_written_when_one_page_has_a_problem(self):
        self.write("good.md", self.listing("src/a.cpp#inner"))
        self.write("bad.md", self.listing("src/a.cpp#nothing"))
        status, _, err = self.sync("good.md", "bad.md")
        self.assertEqual(status, 2)
        self.assertIn("No page was written.", err)
        self.assertEqual(self.read("good.md"), self.listing("src/a.cpp#inner"))

    @unittest.skipIf(os.geteuid() == 0, "the superuser may write everywhere")
    def test_unwritable_directory(self):
        self.write("d/page.md", self.listing("src/a.cpp#inner"))
        (self.root / "d").chmod(0o555)
        self.addCleanup((self.root / "d").chmod, 0o755)
        status, _, err = self.sync("d/page.md")
        self.assertEqual(status, 2)
        self.assertIn("cannot be written", err)

    def test_failed_write_leaves_the_page_and_no_scrap(self):
        self.write("page.md", self.listing("src/a.cpp#inner"))
        original = sync_pages.os.replace

        def fail(*_):
            raise OSError(28, "No space left on device")

        sync_pages.os.replace = fail
        self.addCleanup(setattr, sync_pages.os, "replace", original)
        status, _, err = self.sync("page.md")
        self.assertEqual(status, 2)
        self.assertIn("page.md: the page cannot be written: No space left on device.", err)
        self.assertEqual(self.read("page.md"), self.listing("src/a.cpp#inner"))
        self.assertEqual([p.name for p in self.root.glob("page*")], ["page.md"])


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
LINKS = """
<details><summary>The whole file</summary>

[02_brand_new.cuh](src/02_brand_new.cuh), after [01_old.cuh](src/01_old.cuh)

</details>
"""


class Diffs(SyncTest):
    def setUp(self):
        super().setUp()
        self.write("src/01_old.cuh", OLD)
        self.write("src/02_brand_new.cuh", NEW)

    def page(self, command):
        return f"<!-- diff: {command} -->\n```diff\n```\n<!-- /diff -->\n"

    def diff(self, command):
        """The lines of the block."""
        status, _, err = self.sync_text(self.page(command))
        self.assertEqual((status, err), (0, ""))
        text = self.read("page.md")
        self.assertEqual(self.sync("--check", "page.md")[0], 0)
        self.assertEqual(self.sync("page.md")[0], 0)
        self.assertEqual(self.read("page.md"), text)
        return text.split("```diff\n")[1].split("```")[0].splitlines()

    def test_change_with_its_surroundings_and_links(self):
        lines = self.diff("src/01_old.cuh 02_brand_new.cuh --context 1")
        self.assertEqual(
            lines,
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
        self.assertTrue(self.read("page.md").endswith(f"```\n{LINKS}<!-- /diff -->\n"))

    def test_whole_files_say_nothing_of_headers_marks_and_documentation(self):
        text = "\n".join(self.diff("src/01_old.cuh src/02_brand_new.cuh --context 99"))
        for word in ("@file", "///", "pragma", "include", "namespace", "//!", "run_old"):
            self.assertNotIn(word, text)
        self.assertIn("\n   // that is all\n", text)
        self.assertIn("\n   tell(n);\n\n   return sum;\n }", text)

    def test_regions_may_be_several(self):
        self.write("src/b.cpp", "//! [x]\nint x;\n//! [x]\n//! [y]\n  int y;\n//! [y]\n")
        self.write("src/c.cpp", "//! [z]\nint x;\n\nint z;\n//! [z]\n")
        self.assertEqual(self.diff("src/b.cpp#x,y c.cpp#z"), [" int x;", "", "-int y;", "+int z;"])

    def test_two_regions_of_one_file(self):
        self.write("src/b.cpp", "//! [x]\nint x;\n//! [x]\n//! [y]\n  int y;\n//! [y]\n")
        self.assertEqual(self.diff("src/b.cpp#x src/b.cpp#y"), ["-int x;", "+int y;"])
        self.assertIn("\n[b.cpp](src/b.cpp)\n", self.read("page.md"))

    def test_a_file_that_uses_a_word_of_its_name_otherwise(self):
        self.write("src/03_wgmma.cuh", "void wgmma() {\n  wgmma_wait(0);\n  f();\n}\n")
        self.write("src/04_ring.cuh", "void ring() {\n  wgmma_wait(0);\n  g();\n}\n")
        self.assertEqual(
            self.diff("src/03_wgmma.cuh 04_ring.cuh"),
            [" void ring() {", "   wgmma_wait(0);", "-  f();", "+  g();", " }"],
        )

    def test_indentation_alone_is_no_change(self):
        self.write("src/b.cpp", "void f() {\n  first();\n  second();\n}\n")
        self.write("src/c.cpp", "void f() {\n  for (;;) {\n    first();\n    second();\n  }\n}\n")
        self.assertEqual(
            self.diff("src/b.cpp c.cpp"),
            [" void f() {", "+  for (;;) {", "     first();", "     second();", "+  }", " }"],
        )

    def test_lines_that_came_and_went(self):
        self.write("src/one.cpp", "int a;\nint b;\n\nint c;\n")
        self.write("src/two.cpp", "int a;\n\nint c;\n\nint d;\n")
        self.assertEqual(
            self.diff("src/one.cpp two.cpp"), [" int a;", "-int b;", "", " int c;", "+", "+int d;"]
        )

    def test_nothing_but_names(self):
        self.write("src/02_brand_new.cuh", OLD.replace("run_old", "run_brand_new"))
        words = "differ in nothing but names; there is no diff."
        self.assert_problem(self.page("src/01_old.cuh 02_brand_new.cuh"), "page.md:1", words)
        self.assert_problem(self.page("src/01_old.cuh 01_old.cuh"), "page.md:1", words)
        self.write("src/b.cpp", "int a;\n")
        self.write("src/c.cpp", "int z;\n")
        self.assert_problem(self.page("src/b.cpp c.cpp --rename a=z"), "page.md:1", words)
        self.assertEqual(self.diff("src/b.cpp c.cpp --rename b=z"), ["-int a;", "+int z;"])

    def test_problems(self):
        page = self.page
        self.assert_problem(
            page("src/01_old.cuh#none 02_brand_new.cuh"),
            "page.md:1: src/01_old.cuh has no mark //! [none]; its marks are: loop, run.",
        )
        self.assert_problem(
            page("src/01_old.cuh no.cuh"), "page.md:1: the diff's file src/no.cuh does not exist."
        )
        self.assert_problem(
            page("src/01_old.cuh ../a.cuh"), "page.md:1: the diff's path is '../a.cuh'; it must be"
        )
        self.assert_problem(
            page("src/01_old.cuh 02_brand_new.cuh --most 5"),
            "page.md:1: the diff of src/01_old.cuh and src/02_brand_new.cuh has 9 lines; "
            "allowed are 5. Choose regions",
        )
        for options in ("--most", "--most five", "--other 3", "--context 1 --most", "--rename a"):
            self.assert_problem(
                page(f"src/01_old.cuh 02_brand_new.cuh {options}"),
                f"page.md:1: the options are '{options}'; allowed are --context N, --most N and",
            )
        self.write("src/b.cpp", "/// only a comment\n")
        self.assert_problem(page("src/01_old.cuh b.cpp"), "page.md:1: the diff's src/b.cpp has no")
        self.write("src/b.cpp", "x" * 79)
        self.assert_problem(
            page("src/01_old.cuh b.cpp"), "src/b.cpp:1 has 79 columns", "a diff may"
        )
        good = page("src/01_old.cuh 02_brand_new.cuh")
        self.assert_problem(good.replace("<!-- /diff -->", ""), "page.md:1: the diff is not closed")
        self.assert_problem("<!-- /diff -->\n", "page.md:1: <!-- /diff --> stands here, but no")
        self.assert_problem(
            good.replace("```diff\n```\n", ""), "page.md:1: no fenced block follows"
        )
        self.assert_problem("<!-- diff: a -->\n", "page.md:1: this comment cannot be read;")


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


class Cuts(SyncTest):
    def cut(self, rule):
        self.write("tables.txt", TABLES)
        self.program("prog", f"cat '{self.root}/tables.txt'")
        text = f"<!-- generated, {rule}: prog -->\n```text\n```\n<!-- /generated -->\n"
        status, _, err = self.sync_text(text)
        if status:
            self.assert_problem(text, "page.md:1")
            return err
        self.assertEqual(self.sync("--check", "page.md")[0], 0)
        return self.read("page.md").split("```text\n")[1].split("```")[0]

    def test_rows(self):
        self.assertEqual(
            self.cut("rows 01_a"),
            "First\n"
            "            rate  rate\n"
            "kernel  ms   old     %\n"
            "------  --  ----  ----\n"
            "01_a     3  12.5    50\n"
            "(GPU, date:\n command)\n\nWords between.\n\n"
            "PASS  01_a, formula: no unexpected elements\nPASS  both: no findings\n",
        )

    def test_patterns_columns_and_another_rule(self):
        self.assertEqual(
            self.cut("rows 01_a* | 02_b, columns ms, exact"),
            "First\nkernel     ms\n---------  --\n01_a        3\n01_a, big   4\n02_b       11\n"
            "(GPU, date:\n command)\n\nWords between.\n\n"
            "kernel  ms\n------  --\n02_b     3\n64 steps: that is all\n\n"
            "PASS  01_a, formula: no unexpected elements\n"
            "PASS  02_b, formula: no unexpected elements\nPASS  both: no findings\n",
        )

    def test_columns_stay_flush_left_or_right(self):
        self.write(
            "tables.txt", "score  words  n\n-----  -----  -\n    3  a      1\n    2  bbbbb  2\n"
        )
        self.program("prog", f"cat '{self.root}/tables.txt'")
        text = "<!-- generated, rows 3: prog -->\n```text\n```\n<!-- /generated -->\n"
        self.assertEqual(self.sync_text(text)[0], 0)
        self.assertIn(
            "\nscore  words  n\n-----  -----  -\n    3  a      1\n```", self.read("page.md")
        )

    def test_headings_of_two_lines(self):
        self.assertIn("\n        rate\nkernel   old\n", self.cut("rows 01_a, columns rate old"))

    def test_problems(self):
        self.assertIn("no table has a row '03_c'.", self.cut("rows 01_a | 03_c"))
        self.assertIn(
            "the table has no column 'GB/s'; it has ms, rate old", self.cut("columns GB/s")
        )
        self.assertIn("the rule is 'rows'; allowed are", self.cut("rows"))
        self.program("prog", "echo words")
        text = "<!-- generated, rows a: prog -->\n```text\n```\n<!-- /generated -->\n"
        self.assert_problem(text, "page.md:1: the program printed no table;")


class Checking(SyncTest):
    def test_difference_is_shown_and_nothing_written(self):
        status, out, err = self.sync_text(PAGE, "--check")
        self.assertEqual((status, err), (1, ""))
        self.assertEqual(self.read("page.md"), PAGE)
        for line in ("--- page.md (as it is)", "-old", "+int a = 1;", "+<two words>"):
            self.assertIn(line + "\n", out)
        self.assertIn("1 of 1 pages are out of step", out)
        self.assertIn("python3 -m docs.site.sync_pages --root", out.splitlines()[-1])
        self.assertTrue(out.splitlines()[-1].endswith(" page.md"))

    def test_command_for_a_cmake_build(self):
        self.write("build/CMakeCache.txt", "")
        _, out, _ = self.sync_text(PAGE, "--check")
        self.assertEqual(
            out.splitlines()[-1], f"  cmake --build {self.root}/build --target sync_pages"
        )

    def test_changed_source_is_noticed(self):
        self.sync_text(PAGE)
        self.assertEqual(self.sync("--check", "page.md")[0], 0)
        self.write("src/a.cpp", SOURCE.replace("b = 2", "b = 3"))
        status, out, _ = self.sync("--check", "page.md")
        self.assertEqual(status, 1)
        self.assertIn("-  int b = 2;\n+  int b = 3;\n", out)

    def test_changed_output_is_noticed(self):
        self.sync_text(PAGE)
        self.program("prog", "echo other")
        self.assertEqual(self.sync("--check", "page.md")[0], 1)


class Digits(SyncTest):
    """Which differences another processor may make, and which ones the code must have made."""

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

    def status(self, old, new, rule=""):
        """The exit status of --check where the page has the one and the program prints the other.
        Without --check the page is written only then."""
        self.write("output.txt", new)
        self.program("prog", f"cat '{self.root}/output.txt'")
        text = f"<!-- generated{rule}: prog -->\n```text\n{old}\n```\n<!-- /generated -->\n"
        status = self.sync_text(text, "--check")[0]
        self.sync("page.md")
        self.assertEqual(self.read("page.md"), text.replace(old, new) if status == 1 else text)
        return status

    def test_last_digits_and_sizes_of_errors_may_differ(self):
        for one, other in self.SAME:
            for old, new in ((one, other), (other, one)):
                with self.subTest(old=old, new=new):
                    self.assertEqual(self.status(old, new), 0)

    def test_every_other_difference_is_found(self):
        for one, other in self.OTHER:
            for old, new in ((one, other), (other, one)):
                with self.subTest(old=old, new=new):
                    self.assertEqual(self.status(old, new), 1)

    def test_a_block_that_is_rewritten_is_of_one_run(self):
        self.assertEqual(self.status("0.11\n4096", "0.12\n4097"), 1)
        self.assertIn("0.12\n4097", self.read("page.md"))

    def test_exact(self):
        self.assertEqual(self.status("1.0 x least", "1.1 x least"), 0)
        self.assertEqual(self.status("1.0 x least", "1.1 x least", ", exact"), 1)
        self.assertEqual(self.status("1.0 x least", "1.0 x least", ", exact"), 0)

    def test_noise(self):
        noise = ", noise 2e-06"
        self.assertEqual(self.status("5.3e-07", "-4.8e-07"), 1)
        self.assertEqual(self.status("5.3e-07", "-4.8e-07", noise), 0)
        self.assertEqual(self.status("0.0e+00", "2.0e-06", noise), 0)
        self.assertEqual(self.status("0.0e+00", "2.1e-06", noise), 1)
        self.assertEqual(self.status("-1.9e-06", "-2.1e-06", noise), 0)
        self.assertEqual(self.status("1.0e-05", "2.0e-05", noise), 1)
        self.assertEqual(self.status("7", "8", noise), 1)

    def test_unknown_rule(self):
        for rule in ("digits", "noise", "noise 2", "noise 1e-6, exact", ""):
            text = self.generated("prog").replace("generated:", f"generated, {rule}:")
            self.assert_problem(text, f"page.md:2: the rule is '{rule}'; allowed are 'exact' and")

    def test_modules_print_the_same_everywhere(self):
        self.write("tools/sum.py", "print(0.52)\n")
        text = "<!-- generated: tools.sum -->\n```text\n0.51\n```\n<!-- /generated -->\n"
        self.assertEqual(self.sync_text(text, "--check")[0], 1)

    def test_drawings(self):
        self.program("prog", "echo '<svg x=\"0.52\"/>'")
        self.write("tools/draw.py", "print('<svg x=\"0.52\"/>')\n")
        for command, status in (("prog", 0), ("tools.draw", 1)):
            self.write("a.svg", '<svg x="0.51"/>\n')
            text = f"<!-- drawn: {command} -->\n![w](a.svg)\n"
            self.assertEqual(self.sync_text(text, "--check")[0], status)
            self.assertEqual(self.sync_text(text)[0], 0)
            self.assertEqual(self.read("a.svg"), f'<svg x="0.5{1 + status}"/>\n')


class Problems(SyncTest):
    def test_missing_file(self):
        self.assert_problem(
            "\n" + self.listing("src/b.cpp#x"),
            "page.md:2: the listing's file src/b.cpp does not exist.",
        )

    def test_path_outside(self):
        for path in ("../a.cpp", "/etc/passwd", "src/../src/a.cpp"):
            self.assert_problem(
                self.listing(path + "#x"),
                f"page.md:1: the listing's path is '{path}'; it must be relative",
            )

    def test_source_is_not_utf8(self):
        self.write("src/latin.cpp", b"//! [t]\n// caf\xe9\n//! [t]\n")
        self.assert_problem(
            self.listing("src/latin.cpp#t"),
            "page.md:1: the listing's file src/latin.cpp is not UTF-8",
        )

    def test_missing_tag(self):
        self.assert_problem(
            self.listing("src/a.cpp#x"),
            "page.md:1: src/a.cpp has no mark //! [x]; its marks are: inner, sum.",
        )

    def test_missing_tag_in_a_file_without_any(self):
        self.write("src/b.cpp", "int x;\n")
        self.assert_problem(self.listing("src/b.cpp#x"), "its marks are: none.")

    def test_unclosed_tag(self):
        self.write("src/b.cpp", "\n//! [t]\nint x;\n")
        self.assert_problem(
            self.listing("src/b.cpp#t"), "page.md:1: src/b.cpp:2: the mark //! [t] is not closed"
        )

    def test_tag_used_three_times(self):
        self.write("src/b.cpp", "//! [t]\nint x;\n" * 3)
        self.assert_problem(
            self.listing("src/b.cpp#t"),
            "page.md:1: src/b.cpp has 3 marks //! [t]; there must be exactly two.",
        )

    def test_width(self):
        self.write("src/b.cpp", "//! [t]\n    " + "x" * 78 + "\n    y\n//! [t]\n")
        self.assertEqual(self.sync_text(self.listing("src/b.cpp#t"))[0], 0)
        self.write("src/b.cpp", "//! [t]\n    y\n    " + "x" * 79 + "\n//! [t]\n")
        self.assert_problem(
            self.listing("src/b.cpp#t"),
            "page.md:1: src/b.cpp:3 has 79 columns without its indentation; a listing may have 78.",
        )

    def test_empty_listing(self):
        self.write("src/b.cpp", "//! [t]\n\n  //! [other]\n//! [t]\n")
        self.assert_problem(
            self.listing("src/b.cpp#t"), "page.md:1: the listing src/b.cpp#t is empty."
        )

    def test_no_fence_after_listing(self):
        for after in ("text\n```cpp\n```\n", "", "<!-- c -->\n```cpp\n```\n", "> ```cpp\n> ```\n"):
            self.assert_problem(
                self.listing("src/a.cpp#sum", after),
                "page.md:1: no fenced block follows the listing comment.",
            )

    def test_unclosed_fence(self):
        self.assert_problem(
            self.listing("src/a.cpp#sum", "```cpp\ntext\n"),
            "page.md:1: the fenced block at line 2 is never closed.",
        )

    def test_content_would_close_the_fence(self):
        self.write("src/b.cpp", "//! [t]\n```\n//! [t]\n")
        self.assert_problem(
            self.listing("src/b.cpp#t"),
            "page.md:1: the line '```' would close the fenced block at line 2",
        )
        self.assertEqual(self.sync_text(self.listing("src/b.cpp#t", "````\n````\n"))[0], 0)

    def test_unreadable_comment(self):
        for comment in (
            "<!-- listing: src/a.cpp -->",
            "<!-- Listing: src/a.cpp#sum -->",
            "<!-- generated -->",
            "<!--listing: src/a.cpp#sum-->",
            "<!-- / generated -->",
            "<!-- listing src/a.cpp#sum -->",
            "<!-- generated: prog --> more",
            "<!-- listing: a.cpp#t\n-->",
            "<!-- /listing -->",
        ):
            self.assert_problem(
                comment + "\n```\n```\n", "page.md:1: this comment cannot be read; allowed are"
            )

    def test_no_fence_in_generated_block(self):
        self.assert_problem(
            "<!-- generated: prog -->\ntext\n<!-- /generated -->\n",
            "page.md:1: no fenced block follows the generated comment.",
        )

    def test_generated_block_not_closed(self):
        for after in ("", "more\n<!-- /generated -->\n", "```\n```\n<!-- /generated -->\n"):
            self.assert_problem(
                "\n<!-- generated: prog -->\n```\n```\n" + after,
                "page.md:2: the generated block is not closed",
                "ends at line 4",
            )

    def test_end_without_beginning(self):
        self.assert_problem(
            "a\n<!-- /generated -->\n",
            "page.md:2: <!-- /generated --> stands here, but no generated",
        )

    def test_end_twice(self):
        self.assert_problem(
            self.generated("prog") + "<!-- /generated -->\n",
            "page.md:6: <!-- /generated --> stands here, but no generated block is open.",
        )

    def test_unreadable_command(self):
        self.assert_problem(
            self.generated("prog 'x"),
            "page.md:2: the command 'prog 'x' cannot be read: No closing quotation.",
        )

    def test_program_name(self):
        for name in ("../prog", "a/b/c", "a/../b", "/a", "a/", "-x", "''"):
            self.assert_problem(
                self.generated(name), "page.md:2: the program is '", "it must be a plain name"
            )

    def test_program_missing(self):
        self.assert_problem(
            self.generated("none --x"),
            "page.md:2: there is no program ",
            "/build/none/none; build it: cmake ",
        )

    def test_program_in_another_directory(self):
        self.write("build/common/prog", "#!/bin/sh\necho here\n", 0o755)
        status, _, err = self.sync_text(self.generated("common/prog"))
        self.assertEqual((status, err), (0, ""))
        self.assertIn("```text\nhere\n```", self.read("page.md"))

    def test_program_in_another_directory_missing(self):
        self.assert_problem(
            self.generated("common/none"), "/build/common/none; build it: cmake ", "--target none"
        )

    def test_program_cannot_start(self):
        self.write("build/prog/prog", "#!/bin/sh\n", 0o644)
        self.assert_problem(
            self.generated("prog"), "page.md:2: `prog` cannot be started: Permission denied."
        )

    def test_program_fails(self):
        self.program("prog", 'echo "bad shape" >&2; echo half; exit 3')
        self.assert_problem(
            self.generated("prog -a"),
            "page.md:2: `prog -a` ended with status 3; on stderr it said: \nbad shape\n",
        )

    def test_program_fails_silently(self):
        self.program("prog", "exit 77")
        self.assert_problem(
            self.generated("prog"), "ended with status 77; on stderr it said: nothing."
        )

    def test_program_is_killed(self):
        self.program("prog", "kill -SEGV $$")
        self.assert_problem(self.generated("prog"), "page.md:2: `prog` was ended by signal 11;")

    def test_program_takes_too_long(self):
        original = sync_pages.TIME_LIMIT
        self.addCleanup(setattr, sync_pages, "TIME_LIMIT", original)
        sync_pages.TIME_LIMIT = 0.2
        self.program("prog", "sleep 30 & sleep 30")  # the child holds the pipe open
        self.assert_problem(
            self.generated("prog"), "page.md:2: `prog` was still running after 0.2 s; it was ended."
        )

    def test_colours(self):
        self.program("prog", "printf '\\033[31mred\\033[0m\\n'")
        self.assert_problem(
            self.generated("prog"), "page.md:2: `prog` printed an ANSI escape sequence"
        )

    def test_other_control_character(self):
        self.program("prog", "printf 'a\\rb\\n'")
        self.assert_problem(
            self.generated("prog"),
            "page.md:2: `prog` printed the control character '\\r'; a page needs",
        )

    def test_output_is_not_utf8(self):
        self.program("prog", "printf 'ab\\377\\n'")
        self.assert_problem(
            self.generated("prog"),
            "page.md:2: `prog` printed bytes that are not UTF-8 text (byte 2).",
        )

    def test_no_output(self):
        self.program("prog", "echo; echo '  '")
        self.assert_problem(self.generated("prog"), "page.md:2: `prog` printed nothing.")

    def test_page_missing(self):
        status, _, err = self.sync("none.md")
        self.assertEqual(
            (status, err.splitlines()[0]),
            (2, "none.md: the page cannot be read: No such file or directory."),
        )

    def test_page_is_not_utf8(self):
        self.write("page.md", b"ab\xff")
        status, _, err = self.sync("--check", "page.md")
        self.assertEqual((status, err), (2, "page.md: the page is not UTF-8 text (byte 2).\n"))

    def test_every_problem_is_reported(self):
        text = self.listing("src/b.cpp#x") + self.listing("src/a.cpp#x") + self.generated("none")
        _, _, err = self.sync_text(text)
        self.assertEqual(
            [line.split(" ")[0] for line in err.splitlines() if line.startswith("page")],
            ["page.md:1:", "page.md:4:", "page.md:8:"],
        )

    def test_check_with_a_problem_shows_the_differences_too(self):
        self.write("bad.md", self.listing("src/a.cpp#x"))
        self.write("page.md", PAGE)
        status, out, _ = self.sync("--check", "bad.md", "page.md")
        self.assertEqual(status, 2)
        self.assertIn("+int a = 1;", out)

    def test_bad_use(self):
        for arguments in (
            (),
            ("--root", self.root, "page.md"),
            ("--programs", self.root, "page.md"),
            ("--unknown", "page.md"),
        ):
            self.assertEqual(self.run_main(sync_pages.main, *arguments)[0], 2)


if __name__ == "__main__":
    sys.exit(unittest.main())
