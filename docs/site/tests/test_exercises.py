"""Tests of check_exercises.py and exercise_pages.py: which names are links, and what the page of an
exercise shows."""

import json
import unittest

from common.classroom import catalogue
from common.testing.tree import TreeTest
from docs.site import check, exercise_pages, navigation

ABOUT = {"title": "T", "kind": "fill the hole", "minutes": 20, "machine": "cpu"}
ABOUT |= {"stages": {"compiles": 1, "easy": 3}, "start_fails": ["easy", "x"]}
PUZZLE = ABOUT | {"kind": "predict, then run", "variants": [{"row": "2 1"}]}
FRAME = """namespace student {

/// The sum.
template <class T>
T sum(const T* x,
      int n) {
  //@ solution
  return x[0];
  //@ start
  // TODO
  //@ end
}

}  // namespace student
"""
LINKED = "[`01_sum`](exercises/sum/task.md)"


class NamesTest(TreeTest):
    def setUp(self):
        super().setUp()
        navigation.asked.cache_clear()
        navigation.way.cache_clear()
        self.write("README.md", "# The course\n")
        self.write("01_a/README.md", "# 01. First\n")
        exercises = {"sum": ABOUT, "sums": ABOUT, "count": PUZZLE}
        self.write("01_a/exercises/lesson.json", json.dumps({"exercises": exercises}))
        for name in exercises:
            self.write(f"01_a/exercises/{name}/task.md", f"# 01_{name}: it\n")
            self.write(f"01_a/exercises/{name}/frame.txt", FRAME)

    def check(self, *options):
        return self.run_main(check.main, "exercises", "--root", self.root, *options)

    def test_titles_that_repeat_the_name(self):
        for title, repeats in {
            "01_sum: sum: of three": True,
            "01_sum: Sum memory: of three": True,
            "01_sum: sums: of three": False,
            "01_sum: of three": False,
            "01_sum: the sum: three": False,
        }.items():
            with self.subTest(title):
                self.write("01_a/exercises/sum/task.md", f"# {title}\n")
                status, out, _ = self.check()
                self.assertEqual((status, "repeats its name" in out), (repeats, repeats))

    def test_names_that_are_not_linked(self):
        for line, wanted in {
            "do `01_sum` now": f"do {LINKED} now",
            "do 01_sum.": f"do {LINKED}.",
            "01_sum, 01_sums": f"{LINKED}, [`01_sums`](exercises/sums/task.md)",
            "`./learn exercise start 01_sum` (5)": "[`./learn exercise start 01_sum`]"
            "(exercises/sum/task.md) (5)",
            "| `01_sum` | x |": f"| {LINKED} | x |",
        }.items():
            with self.subTest(line):
                self.write("01_a/1_one.md", f"# 1. One\n\n{line}\n")
                status, out, _ = self.check()
                self.assertEqual(status, 1)
                self.assertIn("01_a/1_one.md:3: not linked: 01_sum", out)
                self.assertEqual(self.check("--write")[0], 0)
                self.assertEqual(self.read("01_a/1_one.md"), f"# 1. One\n\n{wanted}\n")
                self.assertEqual(self.check()[0], 0)

    def test_names_that_may_stand_alone(self):
        for lines in (
            f"do {LINKED} now",
            "[the sum `01_sum`](exercises/sum/task.md)",
            "```sh\n./learn exercise start 01_sum\n```",
            "<details><summary>The lines, after 01_sum</summary>",
            "<!-- 01_sum -->",
            "<!-- generated: x -->\n\n| 01_sum |\n\n<!-- /generated -->",
            '`{"01_sum": 1}`',
            "01_sum.hpp, 01_summary, kernels/01_sum, my-01_sum",
        ):
            with self.subTest(lines):
                self.write("01_a/1_one.md", f"# 1. One\n\n{lines}\n")
                self.assertEqual(self.check()[:2], (0, "3 exercises, 0 faults.\n"))

    def test_places_of_tasks(self):
        self.write("01_a/1_one.md", "# 1. One\n\n`01_sum`, `01_count`\n")
        self.write("01_a/2_two.md", "# 2. Two\n")
        sums, one, count = (f"01_a/exercises/{name}/task.md" for name in ("sums", "sum", "count"))
        below = {page: navigation.below(self.root, page) for page in navigation.way(self.root)}
        self.assertEqual(below["01_a/1_one.md"], [one, count])
        self.assertEqual(below["01_a/README.md"], ["01_a/1_one.md", "01_a/2_two.md", sums])
        wanted = {
            "README.md": (None, "01_a/README.md"),
            "01_a/1_one.md": ("01_a/README.md", "01_a/2_two.md"),
            one: ("01_a/1_one.md", count),
            count: ("01_a/1_one.md", "01_a/2_two.md"),
            "01_a/2_two.md": ("01_a/1_one.md", None),
        }
        for page, neighbours in wanted.items():
            self.assertEqual(navigation.neighbours(self.root, page), neighbours, page)
        self.assertEqual(navigation.parents(self.root, one), ["01_a/README.md", "01_a/1_one.md"])

    def test_page_of_an_exercise(self):
        self.write("01_a/1_one.md", "# 1. One\n\n`01_sum`, `01_count`\n")
        task = "# 01_sum: it\n\nAs in 01_sums.\n\n"
        task += "<details><summary>Hint 1</summary>\n\nh\n\n</details>\n"
        page = exercise_pages.page(self.root, "01_a/exercises/sum/task.md", task)
        for part in (
            "<span>fill the hole</span> <span>20 minutes</span> <span>4 points</span>",
            "Read [1.1 One](/01_a/1_one.md) first.",
            "```cpp\ntemplate <class T>\nT sum(const T* x,\n      int n)\n```",
            "As in [`01_sums`](/01_a/exercises/sums/task.md).",
            "`start` makes `sum.hpp`:",
            "  // TODO\n",
            "| right on easy sizes | 3 |",
            "## Hints\n\n<details><summary>Hint 1",
        ):
            self.assertIn(part, page)
        self.assertNotIn("return x[0]", page)

    def test_page_of_a_prediction(self):
        self.write("01_a/1_one.md", "# 1. One\n\n`01_sum`, `01_count`\n")
        task = "# 01_count: it\n\nThe row {{row}}.\n"
        page = exercise_pages.page(self.root, "01_a/exercises/count/task.md", task)
        self.assertIn("The row 2 1.", page)
        self.assertNotIn("You write:", page)


class SignaturesTest(unittest.TestCase):
    def test_every_exercise_with_code_has_one(self):
        count = 0
        for exercise in catalogue.exercises():
            if exercise.predicts:
                continue
            count += 1
            heads = exercise_pages.signatures(exercise.start())
            self.assertTrue(heads, exercise.id)
            for head in heads:
                self.assertRegex(
                    head, r"(?s)^(\S.*\w\(.*\)( const)?|struct \w+ : \w+)$", exercise.id
                )
        self.assertGreater(count, 50)

    def test_which_functions(self):
        text = (
            "int a(int x) {\n  // TODO\n  if (x) {\n  }\n}\nint b() {\n}\nint c() {\n  // TODO\n}\n"
        )
        self.assertEqual(exercise_pages.signatures(text), ["int a(int x)", "int c()"])
        self.assertEqual(exercise_pages.signatures(text.replace("TODO", "")), ["int c()"])


if __name__ == "__main__":
    unittest.main()
