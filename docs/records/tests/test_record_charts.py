"""Tests of record_charts.py: the ladder, the charts of whole records, the pictures of the front
page, and what is refused."""

import json
import re
import xml.dom.minidom

from common.data.records import read
from common.testing.tree import ROOT, TreeTest
from docs.records import record_charts, tables

HEAD = {"gpu": "GPU 1", "driver": "2.3", "toolkit": "4.5", "commit": "abc", "date": "2026-01-02"}


def record(command, *rows):
    return {**HEAD, "command": f"{command} --section time", "measurements": list(rows)}


def row(group, kernel, tflops, length=4096):
    rates = {"tflops": tflops, "percent_of_peak": tflops / 10}
    return {"group": group, "title": group, "kernel": kernel, "length": length, **rates}


def timed(causal, tflops):
    of = {"backend": "CUDNN_ATTENTION", "type": "bfloat16", "head_dim": 128, "length": 4096}
    return {"what": "time", **of, "causal": causal, "tflops": tflops}


LESSONS = [
    record(
        "04_tiled_matmul",
        row("matmul", "cuBLAS", 50.0),
        row("matmul", "07_naive", 1.0),
        row("matmul", "08_better", 10.0),
        row("mma", "15_tensor", 100.0),
    ),
    record(
        "05_flash_forward",
        row("float32, D 64", "01_unfused", 8.0),
        row("float32, D 64", "01_unfused", 9.0, length=1024),
        row("float32, D 64, causal", "01_unfused", 7.0),
        row("bfloat16, D 128", "08_edge_masks", 400.0),
    ),
    record(
        "python3 05_flash_forward/interface/example.py",
        timed(False, 500.0),
        timed(True, 1.0),
        dict(what="error", backend="CUDNN_ATTENTION"),
    ),
    record("06_flash_backward", row("bfloat16, D 128", "06_swizzled_pipeline", 300.0)),
]


def texts(svg):
    return [
        t.firstChild.data for t in xml.dom.minidom.parseString(svg).getElementsByTagName("text")
    ]


class RecordChartsTest(TreeTest):
    def files(self, records):
        return [self.write(f"{i}.json", json.dumps(r)) for i, r in enumerate(records)]

    def run_tool(self, what, *arguments):
        return self.run_main(record_charts.main, what, *arguments)

    def test_the_ladder_has_every_rung_once_and_says_what_each_gains(self):
        status, out, _ = self.run_tool("ladder_table", *self.files(LESSONS))
        self.assertEqual(status, 0)
        rungs = [re.split(r"  +", line) for line in out.split("\n") if "float" in line]
        self.assertEqual(
            rungs,
            [
                ["07_naive", "float32", "1.00", "0.1", "-"],
                ["08_better", "float32", "10.00", "1.0", "10.00"],
                ["cuBLAS", "float32", "50.00", "5.0", "-"],
                ["15_tensor", "bfloat16", "100.00", "10.0", "-"],
                ["01_unfused", "float32", "8.00", "0.8", "-"],
                ["08_edge_masks", "bfloat16", "400.00", "40.0", "-"],
                ["PyTorch, cuDNN", "bfloat16", "500.00", "-", "-"],
                ["06_swizzled_pipeline", "bfloat16", "300.00", "30.0", "-"],
            ],
        )

    def test_a_rung_of_two_records_is_that_of_the_later_one(self):
        later = [
            record(
                "05_flash_forward",
                row("bfloat16, D 128", "08_edge_masks", 410.0),
                row("bfloat16, D 128", "09_wgmma", 500.0),
            )
        ]
        status, out, _ = self.run_tool("ladder_table", *self.files(LESSONS + later))
        self.assertEqual(status, 0)
        self.assertRegex(
            out, "08_edge_masks +bfloat16 +410.00 +41.0 +-\n09_wgmma +bfloat16 +500.00 +50.0 +1.22"
        )

    def test_points_of_the_ladder_are_where_their_values_say(self):
        status, svg, _ = self.run_tool("ladder", *self.files(LESSONS))
        self.assertEqual(status, 0)
        circles = xml.dom.minidom.parseString(svg).getElementsByTagName("circle")
        x = [float(circle.getAttribute("cx")) for circle in circles][:4]  # 1, 10, 50, 100
        self.assertAlmostEqual(x[1] - x[0], x[3] - x[1], places=1)
        self.assertLess(x[1], x[2])
        self.assertLessEqual({"07_naive", "1.00", "50.0", "400", "PyTorch, cuDNN"}, set(texts(svg)))

    def test_a_record_that_is_missing_is_named(self):
        status, out, err = self.run_tool("ladder", *self.files(LESSONS[:2]))
        self.assertEqual((status, out), (2, ""))
        self.assertIn("no record of 06_flash_backward", err)

    def test_lengths_has_a_panel_for_each_group(self):
        groups = (("a", "01_x", 6.0), ("b", "02_y", 9.0))
        rows = [(row(g, k, 5.0), row(g, k, tflops, length=1024)) for g, k, tflops in groups]
        (file,) = self.files([record("p", *sum(rows, ()))])
        status, svg, _ = self.run_tool("lengths", file, "a", "b")
        self.assertEqual(status, 0)
        self.assertLessEqual({"a", "b", "01_x", "02_y", "1k", "4k"}, set(texts(svg)))
        self.assertIn("no group c", self.run_tool("lengths", file, "c")[2])

    def test_rungs_has_the_first_and_the_last_length_of_each_kernel(self):
        of = {"01_x": ((1024, 6.0), (2048, 7.0), (4096, 8.0)), "02_y": ((1024, 9.0), (4096, 11.0))}
        rows = [row("a", k, t, length=n) for k, values in of.items() for n, t in values]
        (file,) = self.files([record("p", *rows)])
        status, svg, _ = self.run_tool("rungs", file, "a")
        self.assertEqual(status, 0)
        for label in ("01_x", "02_y", "1024 keys", "4096 keys"):
            self.assertIn(f">{label}</text>", svg)
        self.assertNotIn("2048 keys", svg)
        self.assertIn("no group c", self.run_tool("rungs", file, "c")[2])
        self.assertIn("takes the groups", self.run_tool("rungs", file)[2])

    def test_verdicts_count_kernels_that_a_tool_reports(self):
        none, some = {"errors": 0, "warnings": 0}, {"errors": 0, "warnings": 2}

        def verdict(version, findings, *said):
            tools = dict(zip(("memcheck", "racecheck"), said))
            return {"version": version, "lab": {"findings": findings}, "tools": tools}

        verdicts = [verdict("right", 0, some, some), verdict("broken", 1, none, some)]
        verdicts.append(verdict("broken", 2, "timeout", none))
        fidelity = {**LESSONS[3], "verdicts": verdicts}
        status, svg, _ = self.run_tool("verdicts", *self.files([fidelity]))
        self.assertEqual(status, 0)
        labels = texts(svg)
        expected = {"the lab": "2", "memcheck": "0", "racecheck": "1", "any of the four": "1"}
        self.assertEqual({name: labels[labels.index(name) + 1] for name in expected}, expected)

    def test_a_file_that_is_not_a_record_is_refused(self):
        file = self.write("no.json", "{}")
        charts = "matmuls", "bytes", "backends", "errors", "verdicts", "lengths", "rungs", "ladder"
        for what in charts:
            status, out, err = self.run_tool(what, file)
            self.assertEqual((status, out), (2, ""), what)
            self.assertTrue(err.startswith("record_charts.py: "), err)

    def test_every_record_is_on_a_results_page(self):
        results = ROOT / "docs/results"
        pages = "\n".join(page.read_text(encoding="utf-8") for page in results.glob("*.md"))
        for file in sorted(results.glob("*.json")):
            command = rf"[\w.]+ ((--table|\w+) )?(\S+ )*docs/results/{file.name}( \S+)*"
            whole = f"<!-- generated: {command} -->"
            self.assertRegex(pages, whole, f"{file.name} has no table on a page of docs/results")

    def test_results_pages_are_of_one_lesson_each(self):
        results = ROOT / "docs/results"
        for page in sorted(results.glob("0*.md")):
            text = page.read_text(encoding="utf-8")
            shown = "".join(re.findall(r"<!-- (?:drawn|generated).*-->", text))
            others = set(re.findall(r"results/[a-z0-9]+?_(?:90a_)?(0\d)_", shown)) - {page.name[:2]}
            self.assertFalse(others, f"{page.name} shows records of other lessons")
            # A reader sees a chart before the first table.
            if "![" in text:
                self.assertLess(text.index("!["), text.index("<!-- generated"), page.name)


RESULTS = ROOT / "docs" / "results"
FORWARD, BACKWARD = (RESULTS / f"h100_0{lesson}_interface.json" for lesson in (5, 6))
LESSON, PEERS = RESULTS / "h200_05_flash_forward.json", RESULTS / "h200_05_interface.json"


class FrontCharts(TreeTest):
    def picture(self, *arguments):
        status, out, err = self.run_main(record_charts.main, *arguments)
        self.assertEqual((status, err), (0, ""))
        return out

    def test_steps_rise(self):
        drawn = self.picture("steps", LESSON, PEERS)
        widths = [float(w) for w in re.findall(r'width="([\d.]+)" height="13"', drawn)]
        self.assertEqual(len(widths), len(record_charts.STEPS))
        self.assertEqual(widths, sorted(widths))
        self.assertRegex(drawn, r">FlashAttention-3: \d+<")

    def test_no_number_touches_the_line(self):
        drawn = self.picture("steps", LESSON, PEERS)
        line = float(re.search(r'<line x1="([\d.]+)"[^>]*dasharray', drawn)[1])
        numbers = re.findall(r'<text x="([\d.]+)"([^>]*bold[^>]*)>(\d+)<', drawn)
        self.assertEqual(len(numbers), len(record_charts.STEPS))
        for x, look, digits in numbers:
            width = 8 * len(digits)
            first = float(x) - (width if 'anchor="end"' in look else 0)
            self.assertFalse(first - 2 < line < first + width + 2, digits)

    def test_others_have_a_mark_for_each_figure(self):
        drawn = self.picture("others", FORWARD, BACKWARD)
        figures = 0
        for path in (FORWARD, BACKWARD):
            for lengths in tables.problems(read(path)).values():
                figures += len(lengths[record_charts.LENGTH])
        legend = 1 + len(record_charts.MARKS)
        self.assertEqual(len(re.findall("<(?:circle|polygon)", drawn)), figures + legend)

    def test_letters_are_legible_on_a_phone(self):
        for arguments in (("steps", LESSON, PEERS), ("others", FORWARD, BACKWARD)):
            drawn = self.picture(*arguments)
            self.assertGreaterEqual(min(map(float, re.findall(r'font-size="([\d.]+)', drawn))), 12)
            self.assertLessEqual(float(re.search(r'<svg [^>]*width="(\d+)', drawn)[1]), 420)

    def test_what_is_missing_is_named(self):
        status, _, err = self.run_main(record_charts.main, "steps", PEERS)
        self.assertEqual(status, 2)
        self.assertIn("no record of 05_flash_forward", err)
