"""Tests of fidelity.py: how it reads the tools' output, and the whole with tools of paper."""

import contextlib
import io
import os
import pathlib
import stat
import sys
import tempfile
import time
import unittest
from unittest import mock

from common.lab import fidelity
from common.lab.nvidia_tools import Outcome

LD, ST = (fidelity.SECTORS.format(op) for op in ("ld", "st"))

# The page `details`: a line for each metric; the profiler's and the program's own words around it.
DETAILS = f"""==PROF== Connected to process 4711 (/build/04_tiled_matmul)
==PROF== Profiling "matmul_naive" - 0: 0%....50%....100% - 2 passes
{{"kernel": "07_matmul_naive", "group": "matmul", "size": 128, "machine": "gpu"}}
==PROF== Disconnected from process 4711
"ID","Process ID","Kernel Name","Block Size","Metric Name","Metric Unit","Metric Value"
"0","4711","void matmul_naive<(bool)0>(Product<float>)","(16, 16, 1)","{LD}","sector","69,632"
"0","4711","void matmul_naive<(bool)0>(Product<float>)","(16, 16, 1)","{ST}","sector","2,048"
"1","4711","void matmul_naive<(bool)1>(Product<float>)","(16, 16, 1)","{LD}","sector","(!) n/a"
"""

# The page `raw`: a column for each metric, and a line of units.
RAW = f"""==PROF== Disconnected from process 4711
"ID","Process ID","Kernel Name","Grid Size","device__attribute_warp_size","{LD}","{ST}"
"","","","","","sector","sector"
"1","4711","second","(1, 1, 1)","32","12.5","1000000"
"0","4711","first","(1, 1, 1)","32","4096","n/a"
"""

RACES = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at reverse+0x90 in broken.cuh:37
=========     and Read access at reverse+0x130 in broken.cuh:39 [248 hazards]
=========
========= RACECHECK SUMMARY: 3 hazards displayed (1 error, 2 warnings)
"""

ERRORS = """========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at guard_off_by_one+0x90 in broken.cuh:230
========= ERROR SUMMARY: 12 errors
========= ERROR SUMMARY: 2 errors were not printed. Use --print-limit option to adjust the number
"""


class Parsing(unittest.TestCase):
    def test_ncu_writes_a_line_for_each_metric(self):
        launches = fidelity.parse_ncu(DETAILS)
        self.assertEqual(len(launches), 2)
        self.assertEqual(launches[0]["metrics"], {LD: 69632, ST: 2048})
        self.assertEqual(launches[1]["metrics"], {LD: None})
        self.assertIn("(bool)0", launches[0]["function"])

    def test_ncu_writes_a_column_for_each_metric(self):
        first, second = fidelity.parse_ncu(RAW)
        self.assertEqual(first["function"], "first")
        self.assertEqual(first["metrics"][LD], 4096)
        self.assertIsNone(first["metrics"][ST])
        self.assertEqual(second["metrics"][LD], 12.5)
        self.assertEqual(second["metrics"][ST], 1000000)

    def test_ncu_says_nothing(self):
        self.assertEqual(fidelity.parse_ncu("==ERROR== ERR_NVGPUCTRPERM\n"), [])

    def test_racecheck_counts_errors_and_warnings(self):
        said = fidelity.parse_sanitizer(Outcome(0, RACES, ""))
        self.assertEqual(said, {"errors": 1, "warnings": 2})

    def test_the_other_tools_count_errors(self):
        said = fidelity.parse_sanitizer(Outcome(1, ERRORS, "broken_on_gpu: it failed\n"))
        self.assertEqual(said, {"errors": 12, "warnings": 0})

    def test_a_tool_without_a_summary_has_failed(self):
        text = "========= COMPUTE-SANITIZER\n========= Error: Device not supported.\n=========\n"
        said = fidelity.parse_sanitizer(Outcome(255, text, ""))
        self.assertEqual(said, {"failed": "Error: Device not supported."})

    def test_a_tool_that_does_not_end_is_a_timeout(self):
        self.assertEqual(fidelity.parse_sanitizer(Outcome(None, ERRORS, "")), "timeout")

    def test_the_labs_lines_are_summed(self):
        report = {
            "findings": [
                {"kind": "race", "count": 3},
                {"kind": "unwritten", "count": 1},
                {"kind": "race", "count": 4},
            ],
            "traffic": [
                {"memory": "global", "access": "read", "sectors": 4, "wavefronts": 0},
                {"memory": "global", "access": "read", "sectors": 5, "wavefronts": 0},
                {"memory": "global", "access": "write", "sectors": 6, "wavefronts": 0},
                {"memory": "shared", "access": "read", "sectors": 0, "wavefronts": 32},
                {"memory": "shared", "access": "write", "sectors": 0, "wavefronts": 2},
            ],
        }
        self.assertEqual(
            fidelity.lab_counts(report),
            {"sectors_ld": 9, "sectors_st": 6, "wavefronts_ld": 32, "wavefronts_st": 2},
        )
        self.assertEqual(
            fidelity.lab_verdict(report), {"findings": 3, "kinds": {"race": 7, "unwritten": 1}}
        )

    def test_lines_that_are_no_objects_are_passed_over(self):
        self.assertEqual(fidelity.json_lines('words\n{"a": 1}\n==PROF== {\n'), [{"a": 1}])
        with self.assertRaises(fidelity.Refusal):
            fidelity.json_lines("{broken\n")


class Processes(unittest.TestCase):
    def test_a_process_that_does_not_end_is_ended_with_its_children(self):
        start = time.monotonic()
        outcome = fidelity.run(["sh", "-c", "echo first; sleep 60 & sleep 60"], seconds=0.5)
        self.assertIsNone(outcome.status)
        self.assertEqual(outcome.output, "first\n")
        self.assertLess(time.monotonic() - start, 30)

    def test_the_last_words_are_those_that_say_something(self):
        self.assertEqual(Outcome(1, "======= a\n", "== b \n=======\n").last_words(), "b")
        self.assertEqual(Outcome(3, "", "").last_words(), "exit status 3")


# ---------------------------------------------------------------- the whole, with tools of paper

LESSON = """
import json, sys
chosen = sys.argv[sys.argv.index("--kernel") + 1] if "--kernel" in sys.argv else ""
size = int(sys.argv[sys.argv.index("--size") + 1])
report = {"findings": [], "traffic": [
    {"memory": "global", "access": "read", "sectors": size, "wavefronts": 0},
    {"memory": "shared", "access": "read", "sectors": 0, "wavefronts": 32}]}
for kernel, group in (("03_t", "transpose"), ("03_t, padded", "transpose"),
                      ("07_m", "matmul"), ("07_m", "matmul_bt")):
    if chosen in kernel:
        line = {"kernel": kernel, "group": group, "size": size}
        if "cpu" in sys.argv:
            line["report"] = report
        print(json.dumps(line))
"""

BROKEN_ON_LAB = """
import json
for name in ("reverse", "hangs"):
    for version in ("right", "broken"):
        findings = [{"kind": "race", "count": 64}] if version == "broken" else []
        print(json.dumps({"name": name, "version": version, "wrong": "Wrong.", "kind": "race",
                          "report": {"findings": findings, "traffic": []}}))
"""

# Knows but two metrics, and refuses to work when it is asked for others.
NCU = f"""
import subprocess, sys
if "--version" in sys.argv:
    sys.exit(print("Version 2025.3.1.0"))
at = sys.argv.index("--metrics")
metrics = sys.argv[at + 1].split(",")
if any(metric not in ("{LD}", "{ST}") for metric in metrics):
    sys.exit("==ERROR== Failed to find metric")
output = subprocess.run(sys.argv[at + 2:], capture_output=True, text=True).stdout
print(output, end="")
print(",".join(f'"{{cell}}"' for cell in ["ID", "Kernel Name", *metrics]))
print('"",""' + ',"sector"' * len(metrics))
for number in range(output.count("kernel")):
    cells = [number, "f<1, 2>", *(10 * (number + 1) for _ in metrics)]
    print(",".join(f'"{{cell}}"' for cell in cells))
"""

SANITIZER = """
import sys, time
if "--version" in sys.argv:
    sys.exit(print("Version 2025.3.1"))
if "--help" in sys.argv:
    sys.exit(print("  --initcheck-address-space arg"))
tool = sys.argv[sys.argv.index("--tool") + 1]
if ("--initcheck-address-space" in sys.argv) != (tool == "initcheck") or "no" in sys.argv:
    sys.exit("unknown option")
wrong = "broken_on_gpu" in " ".join(sys.argv) and "--right" not in sys.argv
if wrong and "hangs" in sys.argv:
    time.sleep(60)
if tool == "racecheck":
    print(f"========= RACECHECK SUMMARY: {+wrong} hazards displayed ({+wrong} errors, 0 warnings)")
else:
    print("========= ERROR SUMMARY: 0 errors")
"""

SMI = 'print("NVIDIA H200, 580.1")'


def put(path, code):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{sys.executable}\n{code}", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


class Whole(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        self.tools, self.build = self.root / "tools", self.root / "build"
        self.output = self.root / "results" / "record.json"
        put(self.build / "04_tiled_matmul" / "04_tiled_matmul", LESSON)
        put(self.build / "common" / "broken_on_lab", BROKEN_ON_LAB)
        put(self.build / "common" / "broken_on_gpu", "")
        put(self.tools / "ncu", NCU)
        put(self.tools / "compute-sanitizer", SANITIZER)
        put(self.tools / "nvidia-smi", SMI)
        environment = {"PATH": str(self.tools), "CUDA_HOME": str(self.root / "no-cuda")}
        for patch in (
            mock.patch.dict(os.environ, environment),
            mock.patch.object(fidelity, "commit_of", lambda root, given: given or "abc"),
            mock.patch.object(fidelity.glob, "glob", lambda pattern: []),
        ):
            patch.start()
            self.addCleanup(patch.stop)

    def call(self, *arguments):
        output, error = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(error):
            status = fidelity.main([str(argument) for argument in arguments])
        return status, output.getvalue(), error.getvalue()

    def record(self):
        real = fidelity.run
        with mock.patch.object(fidelity, "run", lambda c, s=3: real(c, min(s, 3))):
            status, _, error = self.call("--build", self.build, "--output", self.output)
        self.assertEqual(status, 0, error)
        self.assertEqual([p.name for p in self.output.parent.iterdir()], [self.output.name])
        return fidelity.read_record(self.output)

    def test_a_record_has_the_labs_word_beside_the_tools(self):
        record = self.record()
        self.assertEqual((record["gpu"], record["driver"]), ("NVIDIA H200", "580.1"))
        self.assertEqual(record["commit"], "abc")
        self.assertEqual(record["metrics"], [LD, ST])
        text = self.output.read_text(encoding="utf-8")
        self.assertEqual(text.count(LD), 1)  # each name stands once, each row on its own line
        self.assertEqual(text, fidelity.compact(record))
        self.assertEqual(
            len(text.splitlines()),
            len(record) + len(record["counts"]) + len(record["verdicts"]) + 4,
        )
        counts = {(c["kernel"], c["group"]): c for c in record["counts"]}
        self.assertEqual(len(counts), 4)
        # Kernels of one file are distinguished by their order.
        self.assertEqual(counts["03_t", "transpose"]["ncu"], {LD: 10, ST: 10})
        self.assertEqual(counts["03_t, padded", "transpose"]["ncu"], {LD: 20, ST: 20})
        self.assertEqual(counts["07_m", "matmul_bt"]["ncu"], {LD: 20, ST: 20})
        self.assertEqual(counts["07_m", "matmul_bt"]["lab"]["sectors_ld"], fidelity.COUNT_SIZE)
        verdicts = {(v["kernel"], v["version"]): v for v in record["verdicts"]}
        self.assertEqual(len(verdicts), 6)
        none, one = {"errors": 0, "warnings": 0}, {"errors": 1, "warnings": 0}
        self.assertEqual(
            verdicts["reverse", "broken"]["tools"],
            {"memcheck": none, "racecheck": one, "initcheck": none, "synccheck": none},
        )
        self.assertEqual(verdicts["reverse", "broken"]["lab"]["kinds"], {"race": 64})
        self.assertEqual(verdicts["reverse", "right"]["tools"]["racecheck"], none)
        self.assertEqual(verdicts["hangs", "broken"]["tools"]["memcheck"], "timeout")
        self.assertEqual(verdicts["07_m", "lesson"]["tools"]["initcheck"], none)

        status, text, error = self.call("--table", self.output)
        self.assertEqual(status, 0, error)
        lines = text.splitlines()
        self.assertTrue(all(len(line) <= 100 for line in lines))
        self.assertIn("(NVIDIA H200, driver 580.1, CUDA unknown,", lines)
        self.assertIn(" commit abc, 2", text)
        words = [line.split() for line in lines]
        self.assertIn("07_m, B^T 128 40 32 - 0 -".split(), words)
        self.assertIn("reverse race 0 1 0 0".split(), words)
        self.assertIn("hangs race timeout timeout timeout timeout".split(), words)
        self.assertIn("right twins blamed, of 2 0 0 0 0 0".split(), words)
        self.assertIn("lesson 04 blamed, of 2 0 0 0 0 0".split(), words)

    def test_where_counters_are_forbidden_the_verdicts_are_recorded(self):
        put(self.tools / "ncu", 'print("==ERROR== ERR_NVGPUCTRPERM - no permission")')
        record = self.record()
        self.assertEqual(record["metrics"], [])
        self.assertIn("ERR_NVGPUCTRPERM", record["counts"][0]["ncu"]["failed"])
        self.assertEqual(len(record["verdicts"]), 6)
        self.assertIn("-", self.call("--table", self.output)[1])

    def test_a_dry_run_prints_commands_and_needs_no_gpu(self):
        for name in ("ncu", "compute-sanitizer", "nvidia-smi"):
            (self.tools / name).unlink()
        (self.build / "common" / "broken_on_gpu").unlink()
        status, text, error = self.call("--build", self.build, "--dry-run")
        self.assertEqual(status, 0, error)
        self.assertIn("ncu --csv", text)
        self.assertIn("broken_on_gpu reverse --right\n", text)
        self.assertEqual(text.count("compute-sanitizer --tool"), 4 * 6)

    def test_what_is_missing_is_said_in_one_sentence(self):
        for path, words in (
            (self.tools / "nvidia-smi", "there is no NVIDIA GPU here"),
            (self.tools / "compute-sanitizer", "compute-sanitizer is not installed here"),
            (self.tools / "ncu", "ncu is not installed here"),
            (self.build / "common" / "broken_on_gpu", "build with FA_GPU=REQUIRED"),
            (self.build / "common" / "broken_on_lab", "build the whole course"),
        ):
            path.unlink()
            status, _, error = self.call("--build", self.build, "--output", self.output)
            self.assertEqual(status, 2)
            self.assertIn(words, error)
            self.assertEqual(error.count("\n"), 1)
            self.assertFalse(self.output.exists())
        self.assertEqual(self.call()[0], 2)
        self.assertEqual(self.call("--table", self.root / "none.json")[0], 2)


if __name__ == "__main__":
    unittest.main()
