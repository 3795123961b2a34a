"""Tests of machine_code.py with excerpts of machine code, and the whole with tools of paper."""

import contextlib
import io
import json
import os
import pathlib
import stat
import tempfile
import unittest
from unittest import mock

from common.bench import machine_code


def function(name, *lines):
    """A function as nvdisasm -c prints it: labels and instructions, which get addresses."""
    text = [f".text.{name}:"]
    for i, line in enumerate(lines):
        text.append(f"{line}:" if line.startswith(".L") else f"  /*{16 * i:04x}*/  {line} ;")
    return "\n".join(text) + "\n"


MATMUL = "HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8], R24"
ISSUE = MATMUL + ", gsb0"
EXP = "MUFU.EX2 R4, R4"
WAIT_1, WAIT_0 = (f"WARPGROUP.DEPBAR.LE gsb0, 0x{n}" for n in (1, 0))
STEP = (MATMUL, ISSUE, MATMUL, ISSUE, WAIT_1)
NAME = "_ZN2fa6on_gpu13flash_overlapINS0_10HopperTileI13__nv_bfloat16Li128ELi64EEEEvv"

# A loop with masks: both exponentials after the wait. A branch may skip a third one.
MASKED = (
    ".L_x_1",
    *STEP,
    *["FSEL R4, R4, -INF , !P2"] * 2,
    "FMNMX R5, R4, R5, !PT",
    "@!P0 BRA `(.L_x_2)",
    EXP,
    ".L_x_2",
    WAIT_0,
    EXP,
    EXP,
    "F2FP.BF16.F32.PACK_AB R8, R5, R4",
    "@P1 BRA `(.L_x_1)",
)
# One without: two of three before it. Its barrier is awaited at the end of the kernel.
UNMASKED = (
    ".L_x_3",
    *STEP,
    EXP,
    "@!P3 BRA `(.L_x_5)",
    ".L_x_4",
    EXP,
    WAIT_0,
    "MUFU.RCP R9, R9",
    EXP,
    "@P1 BRA `(.L_x_3)",
)
END = ("EXIT", ".L_x_5", "SYNCS.PHASECHK.TRANS64.TRYWAIT P3, [UR4], R2", "BRA `(.L_x_4)")
KERNEL = function(NAME, ISSUE, WAIT_0, EXP, *MASKED, *UNMASKED, *END)


class Measure(unittest.TestCase):
    def test_readable_names(self):
        self.assertEqual(machine_code.readable(NAME), "bfloat16 flash_overlap<128, 64>")
        for d_v, shown in ((192, ""), (128, ", 128")):
            tile = f"Li192ELi96ELi2ELi2ELi{d_v}E"
            name = machine_code.readable(NAME.replace("Li128ELi64E", tile))
            self.assertEqual(name, f"bfloat16 flash_overlap<192, 96, 2, 2{shown}>")
        mirrored = NAME.replace("10HopperTile", "12MirroredTile")
        self.assertEqual(
            machine_code.readable(mirrored), "bfloat16 flash_overlap<128, 64> mirrored"
        )
        self.assertEqual(machine_code.readable("plain"), "plain")

    def test_loops(self):
        masked, unmasked = machine_code.measure(KERNEL)
        self.assertEqual((masked["masked"], unmasked["masked"]), (True, False))
        self.assertEqual((masked["before"], masked["behind"]), (0, 2))
        self.assertEqual((unmasked["before"], unmasked["behind"]), (2, 1))

    def test_instructions_of_a_kernel_with_a_functor(self):
        name = "_ZN2fa6on_gpu4passIN6MaskedINS0_6WindowENS0_8WithDualINS0_7SoftCapEEEEEEEvT_"
        body = ("FMUL R1, R2, R3", "@P0 FMUL.FTZ R1, R2, R3", "MUFU.TANH R1, R2", "FFMA R1, R2")
        (row,) = machine_code.count(function(name, *body, "EXIT", "NOP"), "WithDual")
        self.assertEqual(row["kernel"], "pass: Window, WithDual SoftCap")
        self.assertEqual(row["instructions"], 5)
        self.assertEqual([row[words] for words in machine_code.ALONE.values()], [2, 1, 1])
        self.assertEqual(machine_code.count(KERNEL, "WithDual"), [])
        self.assertIn(
            "pass: Window, WithDual SoftCap             5", machine_code.tables([row], False)
        )

    def test_intervals(self):
        rows = machine_code.measure(KERNEL)[0]["intervals"]
        self.assertEqual(
            [(row["from"], row["in_flight"]) for row in rows],
            [
                ("begin", 0),
                ("issue 1", 1),
                ("issue 2", 2),
                ("wait, 1 left", 1),
                ("wait, 0 left", 0),
            ],
        )
        self.assertEqual([row["maxima"] for row in rows], [0, 0, 0, 1, 0])
        self.assertEqual([row["conversions"] for row in rows], [0, 0, 0, 0, 1])

    def test_groups_that_the_iteration_before_leaves_are_in_flight(self):
        loop = (".L_x_1", EXP, WAIT_0, EXP, EXP, ISSUE, "@P1 BRA `(.L_x_1)")
        (row,) = machine_code.measure(function(NAME, *loop))
        self.assertEqual((row["before"], row["behind"]), (1, 2))

    def test_an_outer_loop_is_not_counted(self):
        rows = machine_code.measure(function(NAME, ".L_x_9", EXP, *UNMASKED, EXP, "BRA `(.L_x_9)"))
        self.assertEqual([(row["before"], row["behind"]) for row in rows], [(2, 1)])

    def test_loops_without_matmuls_or_exponentials(self):
        self.assertEqual(
            machine_code.measure(
                function("a", ".L_x_1", EXP, "@P1 BRA `(.L_x_1)")
                + function("b", ".L_x_1", ISSUE, WAIT_0, "@P1 BRA `(.L_x_1)")
            ),
            [],
        )

    def test_only_named_kernels(self):
        self.assertEqual(machine_code.measure(KERNEL, "ping_pong"), [])
        self.assertEqual(len(machine_code.measure(KERNEL, "flash_overlap")), 2)


class Program(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = {"PATH": f"{self.folder}:/usr/bin:/bin", "CUDA_HOME": "/nowhere"}

    def tool(self, name, text):
        """A tool of paper."""
        path = self.folder / name
        path.write_text("#!/bin/sh\n" + text, encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def run_program(self, *arguments):
        out, error = io.StringIO(), io.StringIO()
        with (
            mock.patch.dict(os.environ, self.environment),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(error),
        ):
            status = machine_code.main([str(argument) for argument in arguments])
        return status, out.getvalue(), error.getvalue()

    def test_program_record_and_table(self):
        (self.folder / "code").write_text(KERNEL, encoding="utf-8")
        made_by = "Cuda compilation tools, release 13.0, V13.0.88"
        self.tool("cuobjdump", f"printf '{made_by}' > a.sm_90a.cubin\n")
        version = "echo 'nvdisasm, V13.0.85'"
        self.tool("nvdisasm", f"[ $1 = --version ] && {version} || cat {self.folder}/code\n")
        program, record = self.folder / "program", self.folder / "record.json"
        program.touch()
        status, out, error = self.run_program(program, "--json", record, "--commit", "abc")
        self.assertEqual((status, error), (0, ""))
        self.assertIn("bfloat16 flash_overlap<128, 64>  yes          0       2\n", out)
        self.assertIn("bfloat16 flash_overlap<128, 64>  no           2       1\n", out)
        written = json.loads(record.read_text(encoding="utf-8"))
        self.assertEqual((written["disassembler"], written["commit"]), ("13.0.85", "abc"))
        self.assertEqual(written["compiler"], "13.0.88")
        source = "(nvcc 13.0.88, for sm_90a, commit abc)\n"
        self.assertEqual(self.run_program("--table", record), (0, out + source, ""))
        _, out, _ = self.run_program("--table", record, "--intervals", "--kernel", "overlap")
        self.assertIn("wait, 1 left          1             0       1            0\n", out)
        self.assertEqual(self.run_program("--table", record, "--kernel", "other")[0], 2)

    def test_tools_are_missing(self):
        program = self.folder / "program"
        program.touch()
        status, _, error = self.run_program(program)
        self.assertEqual(status, 77)
        self.assertIn("is not installed here", error)

    def test_failures(self):
        self.tool("cuobjdump", "echo 'no device code' >&2; exit 1\n")
        self.tool("nvdisasm", "cat /dev/null\n")
        program = self.folder / "program"
        self.assertEqual(self.run_program(program)[0], 2)  # no such file
        program.touch()
        self.assertIn("cuobjdump ended with 1: no device code", self.run_program(program)[2])
        self.tool("cuobjdump", "exit 0\n")
        self.assertIn("no such kernel for sm_90a", self.run_program(program)[2])
        self.assertEqual(self.run_program()[0], 2)
