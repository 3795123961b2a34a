"""Tests of nvidia_tools.py: how it reads what ncu prints, and that a process ends in time."""

import time
import unittest

from common.lab.nvidia_tools import Outcome, parse_ncu, run

LD, ST = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "dram__bytes_write.sum"

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


class Tools(unittest.TestCase):
    def test_ncu_writes_a_line_for_each_metric(self):
        launches = parse_ncu(DETAILS)
        self.assertEqual(len(launches), 2)
        self.assertEqual(launches[0]["metrics"], {LD: 69632, ST: 2048})
        self.assertEqual(launches[1]["metrics"], {LD: None})
        self.assertIn("(bool)0", launches[0]["function"])

    def test_ncu_writes_a_column_for_each_metric(self):
        first, second = parse_ncu(RAW)
        self.assertEqual(first["function"], "first")
        self.assertEqual(first["metrics"][LD], 4096)
        self.assertIsNone(first["metrics"][ST])
        self.assertEqual(second["metrics"][LD], 12.5)
        self.assertEqual(second["metrics"][ST], 1000000)

    def test_ncu_says_nothing(self):
        self.assertEqual(parse_ncu("==ERROR== ERR_NVGPUCTRPERM\n"), [])

    def test_a_process_that_does_not_end_is_ended_with_its_children(self):
        start = time.monotonic()
        outcome = run(["sh", "-c", "echo first; sleep 60 & sleep 60"], seconds=0.5)
        self.assertIsNone(outcome.status)
        self.assertEqual(outcome.output, "first\n")
        self.assertLess(time.monotonic() - start, 30)

    def test_the_last_words_are_those_that_say_something(self):
        self.assertEqual(Outcome(1, "======= a\n", "== b \n=======\n").last_words(), "b")
        self.assertEqual(Outcome(3, "", "").last_words(), "exit status 3")
