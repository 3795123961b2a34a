"""Tests of sync_pages.py and programs.py: what they write, what they leave alone, and every message
they can give."""

import os
from unittest import mock

from common.testing.tree import TreeTest
from docs.site import programs, sync_pages

SOURCE = "//! [sum]\n  //! [inner]\n  int a = 1;\n  //! [inner]\n\n    int b = 2;\n//! [sum]\n"
PAGE = """# Title

<!-- listing: src/a.cpp#sum -->
```cpp
old
```

Some text.  \r
<!-- generated: prog --size 3 "two words" -->
old
<!-- /generated -->
no line end at the end of the page"""
SYNCED = PAGE.replace("```cpp\nold\n", "```cpp\nint a = 1;\n\n  int b = 2;\n").replace(
    "-->\nold\n", "-->\n\n```text\n<--size>\n<3>\n<two words>\n```\n\n"
)
LINKS = """
<details><summary>The whole file</summary>

{}

</details>
<!-- /diff -->
"""


def listing(target, fence="```cpp\n```\n"):
    return f"<!-- listing: {target} -->\n{fence}"


def generated(command, shown=""):
    block = f"\n```text\n{shown}\n```\n\n" if shown else ""
    return f"text\n<!-- generated: {command} -->\n{block}<!-- /generated -->\n"


def diff(command):
    return f"<!-- diff: {command} -->\n```diff\n```\n<!-- /diff -->\n"


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

    def synced(self, text):
        """The page that becomes of a text; a second run leaves it as it is."""
        status, _, err = self.sync_text(text)
        self.assertEqual((status, err), (0, ""))
        result = self.read("page.md")
        self.assertEqual(self.sync("--check", "page.md")[0], 0)
        self.assertEqual(self.sync("page.md")[0], 0)
        self.assertEqual(self.read("page.md"), result)
        return result

    def assert_problem(self, text, place, *words):
        """The page gives this message and exit status 2, both ways; nothing is written."""
        for mode in ((), ("--check",)):
            with self.subTest(text):
                status, _, err = self.sync_text(text, *mode)
                self.assertEqual(status, 2, err)
                for word in (place, *words):
                    self.assertIn(word, err)
                self.assertEqual(self.read("page.md"), text)


class Writing(SyncTest):
    def test_whole_page(self):
        self.assertEqual(self.synced(PAGE), SYNCED)
        self.assertIn("page.md: written", self.sync_text(PAGE)[1])

    def test_a_page_in_step_is_not_written(self):
        self.sync_text(SYNCED)
        os.utime(self.root / "page.md", (1, 1))
        self.assertNotIn("written", self.sync("page.md")[1])
        self.assertEqual(os.stat(self.root / "page.md").st_mtime, 1)

    def test_line_ends_indentation_and_mode_are_kept(self):
        start = "1. item\n\n   <!-- listing: src/a.cpp#sum -->\n   ```cpp title\n"
        text = f"{start}   ```\n\n   <!-- generated: prog -->\n   <!-- /generated -->\nlast\n"
        wanted = text.replace(start, f"{start}   int a = 1;\n\n     int b = 2;\n").replace(
            "prog -->\n", "prog -->\n\n   ```text\n   <>\n   ```\n\n"
        )
        self.write("page.md", text.replace("\n", "\r\n"), 0o640)
        self.assertEqual(self.sync("page.md")[0], 0)
        self.assertEqual(self.read("page.md"), wanted.replace("\n", "\r\n"))
        self.assertEqual((self.root / "page.md").stat().st_mode & 0o777, 0o640)
        self.assertEqual([p.name for p in self.root.glob("page*")], ["page.md"])

    def test_what_is_left_alone(self):
        for text in (
            "\ufeffa\x0cb\u2028c\n" + listing("src/a.cpp#inner", "```cpp\nint a = 1;\n```\n"),
            "````md\n" + listing("no/such.cpp#tag") + "````\n`<!-- generated: x -->`\n",
            "<!--\n" + listing("no/such.cpp#tag") + "-->\n",
            "~~~\n```\n<!-- generated: x -->\n~~~\n",
        ):
            self.assertEqual(self.synced(text), text)

    def test_a_table_is_written_as_one(self):
        self.program("prog", "printf 'kernel  ms\\n------  --\\n07_a     3\\n08_b     4\\n'")
        text = "<!-- generated, rows 08_*: prog -->\n<!-- /generated -->\n"
        table = "| kernel |   ms |\n| ---    | ---: |\n| 08_b   |    4 |"
        self.assertEqual(self.synced(text), text.replace("prog -->\n", f"prog -->\n\n{table}\n\n"))

    def test_a_block_in_step_by_its_rule_stays(self):
        self.program("prog", "echo 0.52 $(cat '" + str(self.write("n", "1")) + "')")
        page = generated("prog", "0.51 1")
        self.assertEqual(self.synced(page), page)
        self.write("n", "2")
        self.assertEqual(self.synced(page), generated("prog", "0.52 2"))
        self.write("n", "1")
        exact = generated("prog", "0.51 1").replace("generated:", "generated, exact:", 1)
        self.assertIn("0.52 1", self.synced(exact))

    def test_a_difference_and_the_links_below_it(self):
        self.write("src/one.cpp", "int a;\nint b;\n//! [b]\nint c;\n//! [b]\n")
        self.write("src/two.cpp", "int a;\nint c;\n")
        both = "[two.cpp](src/two.cpp), after [one.cpp](src/one.cpp)"
        for command, block, links in (
            ("src/one.cpp two.cpp --context 0", " int a;\n-int b;\n int c;", both),
            ("src/one.cpp src/one.cpp#b --most 9", "-int a;\n-int b;\n int c;", both[-22:]),
            ("src/one.cpp#b two.cpp --rename c=d", "+int a;\n int c;", both),
        ):
            page = f"<!-- diff: {command} -->\n```diff\n{block}\n```\n{LINKS.format(links)}"
            self.assertEqual(self.synced(diff(command)), page)

    def test_pages_that_are_links_stay_so(self):
        self.write("real.md", listing("src/a.cpp#inner"))
        (self.root / "link.md").symlink_to("real.md")
        self.assertEqual(self.sync("link.md")[0], 0)
        self.assertTrue((self.root / "link.md").is_symlink())
        self.assertIn("int a = 1;", self.read("real.md"))

    def test_nothing_is_written_when_one_page_has_a_problem(self):
        self.write("good.md", listing("src/a.cpp#inner"))
        self.write("bad.md", listing("src/a.cpp#nothing"))
        status, _, err = self.sync("good.md", "bad.md")
        self.assertEqual(status, 2)
        self.assertIn("No page was written.", err)
        self.assertEqual(self.read("good.md"), listing("src/a.cpp#inner"))

    def test_a_page_that_cannot_be_written(self):
        self.write("page.md", listing("src/a.cpp#inner"))
        error = OSError(28, "No space left on device")
        with mock.patch("docs.site.sync_pages.write_file", side_effect=error):
            status, _, err = self.sync("page.md")
        self.assertEqual(status, 2)
        self.assertIn("page.md: the page cannot be written: No space left on device.", err)


class Drawings(SyncTest):
    def setUp(self):
        super().setUp()
        self.write("tools/draw.py", "import sys\nprint('<svg>', *sys.argv[1:], sep='\\n')\n")

    def test_goes_where_the_page_shows_it(self):
        self.write("01_a/README.md", "<!-- drawn: tools.draw x -->\n![words](figures/pic.svg)\n")
        status, out, _ = self.sync("--check", "01_a/README.md")
        self.assertEqual(status, 1)
        self.assertIn("01_a/figures/pic.svg (as it is)", out)
        self.assertIn("1 of 1 pages and 1 drawings are out of step", out)
        self.assertFalse((self.root / "01_a/figures/pic.svg").exists())
        (self.root / "01_a/figures").mkdir()
        self.assertEqual(self.sync("01_a/README.md")[0], 0)
        self.assertEqual(self.read("01_a/figures/pic.svg"), "<svg>\nx\n")
        self.assertEqual(self.sync("--check", "01_a/README.md")[0], 0)
        self.write("01_a/figures/pic.svg", "<svg>\ny\n")
        status, out, _ = self.sync("--check", "01_a/README.md")
        self.assertEqual(status, 1)
        self.assertIn("-y\n+x\n", out)

    def test_without_its_image(self):
        for after in (
            "",
            "\n![w](a.svg)\n",
            "![w](../a.svg)\n",
            "![w](/a.svg)\n",
            "![w](a.png)\n",
            "![](a.svg)\n",
        ):
            self.assert_problem(
                f"<!-- drawn: tools.draw -->\n{after}",
                "page.md:1: the line after the drawn comment must be an image",
            )
        self.assertFalse((self.root / "a.svg").exists())

    def test_one_file_is_drawn_by_one_command(self):
        one, two = (f"<!-- drawn: tools.draw {i} -->\n![w](a.svg)\n" for i in (1, 2))
        self.assertEqual(self.sync_text(one + one)[0], 0)
        self.assert_problem(one + two, "page.md:3: two commands draw a.svg.")

    def test_digits_of_a_program(self):
        self.program("prog", "echo '<svg x=\"0.52\"/>'")
        for command, wanted in (("prog", '<svg x="0.51"/>\n'), ("tools.draw", "<svg>\n")):
            self.write("a.svg", '<svg x="0.51"/>\n')
            self.assertEqual(self.sync_text(f"<!-- drawn: {command} -->\n![w](a.svg)\n")[0], 0)
            self.assertEqual(self.read("a.svg"), wanted)


class Running(SyncTest):
    """How programs are started."""

    def test_a_module_runs_in_the_repository(self):
        self.write("tools/count.py", "import sys\nprint(open(sys.argv[1]).read())\n")
        self.write("data.txt", "from the root")
        page = generated("tools.count data.txt")
        self.assertEqual(self.synced(page), generated("tools.count data.txt", "from the root"))

    def test_a_program_in_another_directory(self):
        self.write("build/common/prog", "#!/bin/sh\necho here\n", 0o755)
        page = generated("common/prog")
        self.assertEqual(self.synced(page), generated("common/prog", "here"))

    def test_programs_of_another_processor(self):
        self.write("emulate", '#!/bin/sh\necho "$1 runs $(basename $2) $3"\n', 0o755)
        self.write("page.md", generated("prog 1"))
        self.assertEqual(self.sync("--emulator", f"'{self.root}/emulate' -cpu", "page.md")[0], 0)
        self.assertEqual(self.read("page.md"), generated("prog 1", "-cpu runs prog 1"))

    def test_elsewhere_without_input_colours_and_gpu(self):
        self.program(
            "prog",
            'cat; touch made; test "$PWD" != "' + str(self.root) + '" && echo "'
            '<$NO_COLOR $TERM $FORCE_COLOR ${CUDA_VISIBLE_DEVICES-all}>"',
        )
        with mock.patch.dict(os.environ, FORCE_COLOR="1", CUDA_VISIBLE_DEVICES="0"):
            self.assertEqual(self.synced(generated("prog")), generated("prog", "<1 dumb  >"))
        self.assertEqual(list(self.root.rglob("made")), [])

    def test_programs_find_records_by_their_paths_in_the_repository(self):
        self.write("docs/results/a.tsv", "a record\n")
        self.program("show", 'cat "$1" || echo none: "$1"')
        for name, shown in (("a", "a record"), ("b", "none: docs/results/b.tsv")):
            command = f"show docs/results/{name}.tsv"
            self.assertEqual(self.synced(generated(command)), generated(command, shown))

    def test_the_same_command_runs_once(self):
        for status in (0, 1):
            self.program("count", f'echo run >> "{self.root}/log{status}"; echo x; exit {status}')
            self.write("second.md", generated("count  1"))
            self.write("page.md", generated("count 1") * 2)
            _, _, err = self.sync("page.md", "second.md")
            self.assertEqual(self.read(f"log{status}"), "run\n")
            self.assertEqual(err.count("`count 1` ended with status 1"), 3 * status)

    def test_lines_of_spaces_count_as_empty(self):
        self.program("prog", "printf '  \\n x\\n\\t\\n'")
        self.assertEqual(self.synced(generated("prog")), generated("prog", " x"))

    def test_too_long(self):
        self.program("prog", "sleep 30 & sleep 30")  # the child holds the pipe open
        with mock.patch.object(programs, "TIME_LIMIT", 0.2):
            self.assert_problem(generated("prog"), "`prog` was still running after 0.2 s; it was")

    def test_programs_that_cannot_be_used(self):
        self.write("build/data/data", "", 0o644)
        for script, sentence in (
            ("echo a b >&2; echo half; exit 3", "ended with status 3; on stderr it said: \na b\n"),
            ("exit 77", "ended with status 77; on stderr it said: nothing."),
            ("kill -SEGV $$", "was ended by signal 11;"),
            ("printf '\\033[31mred\\n'", "printed an ANSI escape sequence"),
            ("printf 'a\\rb\\n'", "printed the control character '\\r'; a page needs plain text."),
            ("printf 'ab\\377\\n'", "printed bytes that are not UTF-8 text (byte 2)."),
            ("echo; echo '  '", "printed nothing."),
        ):
            self.program("prog", script)
            self.assert_problem(generated("prog"), f"page.md:2: `prog` {sentence}")
        for command, sentence in (
            ("data", "`data` cannot be started: Permission denied."),
            ("prog 'x", "the command 'prog 'x' cannot be read: No closing quotation."),
            ("none --x", "there is no program "),
            ("none --x", "/build/none/none; build it: cmake "),
            ("common/none", "/build/common/none; build it: cmake "),
            ("tools.none", "there is no module tools.none."),
        ):
            self.assert_problem(generated(command), sentence)
        for name in ("../prog", "a/b/c", "a/../b", "/a", "a/", "-x", "''"):
            self.assert_problem(generated(name), "the program is '", "it must be a plain name")


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
        self.write("build/CMakeCache.txt", "")
        command = f"  cmake --build {self.root}/build --target sync_pages"
        self.assertEqual(self.sync("--check", "page.md")[1].splitlines()[-1], command)

    def test_changes_are_noticed(self):
        self.synced(PAGE)
        self.write("src/a.cpp", SOURCE.replace("b = 2", "b = 3"))
        status, out, _ = self.sync("--check", "page.md")
        self.assertEqual(status, 1)
        self.assertIn("-  int b = 2;\n+  int b = 3;\n", out)
        self.synced(PAGE)
        self.program("prog", "echo other")
        self.assertEqual(self.sync("--check", "page.md")[0], 1)

    def test_a_problem_does_not_hide_the_differences(self):
        self.write("bad.md", listing("src/a.cpp#x"))
        self.write("page.md", PAGE)
        status, out, _ = self.sync("--check", "bad.md", "page.md")
        self.assertEqual(status, 2)
        self.assertIn("+int a = 1;", out)

    def test_bad_use(self):
        for arguments in ((), ("--root", self.root, "page.md"), ("--unknown", "page.md")):
            self.assertEqual(self.run_main(sync_pages.main, *arguments)[0], 2)


class Problems(SyncTest):
    FENCE = "the fenced block at line 2"
    CASES = (
        (listing("src/b.cpp#x"), 1, "the listing's file src/b.cpp does not exist."),
        (listing("src/a.cpp#sum", "text\n```cpp\n```\n"), 1, "no fenced block follows the listing"),
        (listing("src/a.cpp#sum", ""), 1, "no fenced block follows the listing comment."),
        (listing("src/a.cpp#sum", "> ```\n> ```\n"), 1, "no fenced block follows the listing"),
        (listing("src/a.cpp#sum", "```cpp\ntext\n"), 1, f"{FENCE} is never closed."),
        (listing("src/f.cpp#t"), 1, f"the line '```' would close {FENCE}; give that fence more"),
        ("\n<!-- generated: prog -->\n", 2, "the generated block is not closed:"),
        (generated("prog").replace("/gen", "/diff -->\n<!-- /gen"), 2, "the generated block is"),
        ("a\n<!-- /generated -->\n", 2, "<!-- /generated --> stands here, but no generated block"),
        (generated("prog", "<>") + "<!-- /generated -->\n", 9, "<!-- /generated --> stands here,"),
        ("<!-- /diff -->\n", 1, "<!-- /diff --> stands here, but no diff block is open."),
        (
            diff("src/a.cpp a.cpp").replace("<!-- /diff -->\n", ""),
            1,
            "the diff block is not closed",
        ),
        (diff("src/a.cpp a.cpp"), 1, "differ in nothing but names; there is no diff."),
        (diff("src/f.cpp a.cpp").replace("```diff\n```\n", ""), 1, "no fenced block follows"),
        *(
            (diff(f"src/a.cpp f.cpp {options}"), 1, f"the options are '{options}'; allowed are")
            for options in ("--most", "--most five", "--other 3", "--context 1 --most")
        ),
        *(
            (comment + "\n```\n```\n", 1, "this comment cannot be read; allowed are")
            for comment in (
                "<!-- listing: src/a.cpp -->",
                "<!-- Listing: src/a.cpp#sum -->",
                "<!-- diff: a -->",
                "<!-- generated -->",
                "<!--listing: src/a.cpp#sum-->",
                "<!-- / generated -->",
                "<!-- listing src/a.cpp#sum -->",
                "<!-- generated: prog --> more",
                "<!-- listing: a.cpp#t\n-->",
                "<!-- /listing -->",
            )
        ),
    )

    def test_every_message(self):
        self.write("src/f.cpp", "//! [t]\n```\n//! [t]\n")
        for text, line, sentence in self.CASES:
            self.assert_problem(text, f"page.md:{line}: ", sentence)
        longer = listing("src/f.cpp#t", "````\n````\n")
        self.assertEqual(self.synced(longer), listing("src/f.cpp#t", "````\n```\n````\n"))

    def test_pages_that_cannot_be_read(self):
        self.write("page.md", b"ab\xff")
        for name, sentence in (
            ("none.md", "the page cannot be read: No such file or directory."),
            ("page.md", "the page is not UTF-8 text (byte 2)."),
        ):
            status, _, err = self.sync("--check", name)
            self.assertEqual((status, err), (2, f"{name}: {sentence}\n"))

    def test_every_problem_is_reported(self):
        text = listing("src/b.cpp#x") + listing("src/a.cpp#x") + generated("none")
        _, _, err = self.sync_text(text)
        self.assertEqual(
            [line.split(" ")[0] for line in err.splitlines() if line.startswith("page")],
            ["page.md:1:", "page.md:4:", "page.md:8:"],
        )
