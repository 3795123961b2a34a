"""Tests of stale.py with kernels and a record of paper: what counts as a change, and what may be a
record."""

import json
import pathlib
from unittest import mock

from common.data.records import Problem
from common.testing.tree import TreeTest
from docs.records import stale

PTX = """
.visible .entry _ZN2fa6on_gpu4stepILi64EEEvPf(
	.param .u64 _ZN2fa6on_gpu4stepILi64EEEvPf_param_0
)
.maxntid 128
{
	.reg .b32 	%r<9>;
	mov.b64 	%rd1, _ZN2fa6on_gpu4stepILi64EEEvPf_param_0;
	add.s64 	%rd2, %rd1, 164;
	ld.param.u32 	%r1, [%rd1+24]; // a comment
	@%p1 bra 	$L__BB0_2;
	add.s32 	%r2, %r1, 5;
$L__BB0_2:
	ret;
}
"""
SAME = {"a comment": "of another line", "%r1": "%r7", "$L__BB0": "$L__BB3", "<9>": "<12>"}
SAME |= {"164": "168", "+24": "+28", "EEEvPf": "EEEv6TensorIfE"}
CHANGED = {"128": "256", "r1, 5": "r1, 6", "add.s32": "sub.s32", "bra": "bra.uni"}
RECORD = {"command": "05_flash_forward", "commit": "06fdf09c"}
HASHES = {"compiler": "13.0.88", "06_swizzle": "a b", "07_pipeline": "a c", "09_wgmma": "-e"}
TREE = {"06_swizzle": "a b d", "07_pipeline": "b c", "08_edge_masks": "d", "09_wgmma": "a b"}
TREE = {"compiler": "13.0.88", "05": TREE}


class Hashes(TreeTest):
    def test_only_what_runs_changes_a_hash(self):
        (first,) = stale.hashes(PTX).values()
        for words, same in ((SAME, True), (CHANGED, False)):
            for old, new in words.items():
                self.assertIn(old, PTX)
                (other,) = stale.hashes(PTX.replace(old, new)).values()
                self.assertEqual(first == other, same, old)

    def why(self, kernel, **hashes):
        with mock.patch.object(stale, "tree", lambda: TREE):
            return stale.state({**RECORD, "kernels": hashes}, {"kernel": kernel})

    def test_a_row_is_old_if_its_kernel_has_changed_or_cannot_be_compared(self):
        self.assertEqual(self.why("06_swizzle", **HASHES), "")
        self.assertEqual(self.why("cuBLAS", **HASHES), "")
        for kernel in ("07_pipeline", "09_wgmma"):
            self.assertEqual(self.why(kernel, **HASHES), f"measured before a change of {kernel}")
        self.assertIn("not compared", self.why("08_edge_masks", **HASHES))
        self.assertIn("not compared", self.why("06_swizzle", **{**HASHES, "compiler": "12.9.0"}))

    def test_a_record_is_of_a_commit_in_the_history(self):
        for commit in ("06fdf09c-dirty", "ffffffffffff"):
            text = json.dumps(
                {**RECORD, "commit": commit, "measurements": [{"kernel": "06_swizzle"}]}
            )
            self.write("record.json", text)
            with mock.patch.object(stale, "compiler", lambda: "13.0.88"):
                with self.assertRaises(Problem):
                    stale.put_hashes(pathlib.Path(self.root / "record.json"))

    def test_the_kernels_of_a_step_are_those_that_its_file_names(self):
        kernel = "__global__ void __launch_bounds__(f(1), 1)\n    {}(int n) {{}}  // other\n"
        self.write("05_a/kernels/01_one.cuh", kernel.format("one"))
        self.write("05_a/kernels/02_two.cuh", kernel.format("other") + "launch(one);")
        found = stale.kernels_of(self.root, "05_a/kernels")
        self.assertEqual(
            found, {"01_one": {"one"}, "02_two": {"one", "other"}, "05_a/library": set()}
        )
