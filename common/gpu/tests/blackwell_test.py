"""What ptxas says of code for Blackwell, since no such GPU runs it here.

    python3 -m unittest common/gpu/tests/blackwell_test.py

It must compile each step with tcgen05 for sm_100a, without spills, and must reject faults. With
nvdisasm (common/cmake/witness_requirements.txt) the machine code must have the instructions that
the source asks for. Skipped without nvcc, and where that knows no sm_100a.
"""

import collections
import functools
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from common.flatten import flatten
from common.flatten.tests.flatten_test import ALL, find_nvcc

NVDISASM = shutil.which("nvdisasm") or shutil.which(
    flatten.ROOT / "build/witnesses/nvidia/cu13/bin/nvdisasm"
)
STEPS = [one for one in ALL if "common/gpu/blackwell.cuh" in flatten.flatten(*one)]
SM_100A = "-gencode=arch=compute_100a,code=sm_100a"

# A kernel with one instruction, and what ptxas says of it: nothing of the right ones.
RIGHT = {
    "alloc": "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [r0], 128;",
    "mma": "tcgen05.mma.cta_group::1.kind::f16 [r0], l0, l1, r1, p;",
    # The lab finds it: see wrong_descriptor().
    "bad descriptor": "mov.b32 r1, -1; tcgen05.mma.cta_group::1.kind::f16 [r0], l0, l1, r1, p;",
}
COMMIT = "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [r0];"
FAULTS = {
    "100 columns": (RIGHT["alloc"].replace("128", "100"), "must be power of 2"),
    "16 columns": (RIGHT["alloc"].replace("128", "16"), "out of range"),
    "1024 columns": (RIGHT["alloc"].replace("128", "1024"), "out of range"),
    "one lane": (RIGHT["alloc"].replace(".sync.aligned", ""), ".sync modifier required"),
    "no group": (RIGHT["alloc"].replace(".cta_group::1", ""), ".cta_group modifier required"),
    "mixed groups": (RIGHT["alloc"] + COMMIT, "that is not allowed"),
    "48 columns freed": ("tcgen05.dealloc.cta_group::1.sync.aligned.b32 r0, 48;", "multiple of 32"),
    "x3": ("tcgen05.ld.sync.aligned.32x32b.x3.b32 {r1, r2, r3}, [r0];", "Unknown modifier"),
    "three of x4": ("tcgen05.ld.sync.aligned.32x32b.x4.b32 {r1, r2, r3}, [r0];", "size mismatch"),
    "64 lanes": ("tcgen05.ld.sync.aligned.64x32b.x1.b32 {r1}, [r0];", "syntax error"),
    "no such kind": (RIGHT["mma"].replace("f16", "f32"), "Unknown modifier"),
    "A of 32 bits": (RIGHT["mma"].replace("l0", "r2"), "Arguments mismatch"),
    "B in tensor memory": (RIGHT["mma"].replace("l1", "[r2]"), "Arguments mismatch"),
    "wgmma": ("wgmma.commit_group.sync.aligned;", "not supported on .target 'sm_100a'"),
}


# Each wrapper of common/gpu/blackwell.cuh that no step calls.
WRAPPERS = """
#include "common/gpu/blackwell.cuh"
namespace fa::on_gpu {
__global__ void all(float* out) {
  extern __shared__ char raw[];
  auto& tile = *reinterpret_cast<SwizzledTile<half, 128, 64>*>(raw);
  const std::uint32_t d = 0, a = 256;
  constexpr auto descriptor = tcgen05_descriptor<half>(64, Major::kK, Major::kMN);
  float sums[16], more[32];
  std::uint32_t words[32], few[16];
  tcgen05_ld(sums, tensor_quarter(d, 0));
  tcgen05_ld(words, tensor_quarter(d, 16));
  tcgen05_ld(few, tensor_quarter(d, 48));
  tcgen05_wait_ld(sums, words, few);
  for (int i = 0; i < 32; ++i) more[i] = sums[i % 16] + few[i % 16];
  tcgen05_st(tensor_quarter(a, 0), words);
  tcgen05_st(tensor_quarter(a, 32), more);
  tcgen05_st(tensor_quarter(a, 64), few);
  tcgen05_st(tensor_quarter(a, 80), sums);
  tcgen05_wait_st();
  tcgen05_mma(d, a, tile.by_columns(0, 0), descriptor, true);
}
}
"""


def ptx(instruction, target):
    """A kernel with an instruction."""
    return (
        f".version 8.7\n.target {target}\n.address_size 64\n.visible .entry k() {{\n"
        ".reg .b32 r<4>; .reg .b64 l<2>; .reg .pred p;\n.shared .align 8 .b8 s[16];\n"
        f"mov.b32 r0, s;\n{instruction}\nret;\n}}\n"
    )


@functools.lru_cache
def knows_blackwell():
    """Whether nvcc is there and makes code for sm_100a."""
    command = [find_nvcc(), "--dryrun", "-E", "-x", "cu", "/dev/null", SM_100A]
    return find_nvcc() and subprocess.run(command, capture_output=True).returncode == 0


@unittest.skipUnless(knows_blackwell(), "no nvcc that knows sm_100a is installed")
class Ptxas(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def assembled(self, instruction, target="sm_100a"):
        """What ptxas says of an instruction; empty where it accepts it."""
        source = self.folder / "one.ptx"
        source.write_text(ptx(instruction, target), "utf-8")
        ptxas = pathlib.Path(find_nvcc()).with_name("ptxas")
        command = [ptxas, f"-arch={target}", source, "-o", self.folder / "one.cubin"]
        result = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(result.returncode == 0, result.stderr == "", result.stderr)
        return result.stderr

    def test_right_instructions_pass_and_faults_do_not(self):
        for name, instruction in RIGHT.items():
            self.assertEqual(self.assembled(instruction), "", name)
        for name, (instruction, says) in FAULTS.items():
            self.assertIn(says, self.assembled(instruction), name)
        for target in ("sm_90a", "sm_100"):  # tensor memory is in sm_100a only
            self.assertIn("not supported", self.assembled(RIGHT["mma"], target))

    def test_the_other_wrappers_compile(self):
        found = self.compiled(WRAPPERS, f"-I{flatten.ROOT}", "-std=c++17")
        if found is not None:
            self.assertEqual(
                found,
                {"UTCHMMA": 1, "LDTM.x16": 2, "LDTM.x32": 1, "STTM.x16": 2, "STTM.x32": 2},
            )

    def compiled(self, text, *options):
        """Compiles a source, without spills; its tensor instructions, where nvdisasm is."""
        source, cubin = self.folder / "step.cu", self.folder / "step.cubin"
        source.write_text(text, "utf-8")
        command = [find_nvcc(), SM_100A, "--expt-relaxed-constexpr", "-cubin", "-Xptxas=-v"]
        result = subprocess.run(
            [*command, *options, source, "-o", cubin], capture_output=True, text=True
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("warning", result.stderr)
        spills = re.findall(r"(\d+) bytes spill", result.stderr)
        self.assertEqual(set(spills), {"0"}, result.stderr)
        if NVDISASM is None:
            return None
        code = subprocess.run([NVDISASM, cubin], capture_output=True, text=True, check=True)
        instructions = r"\b(UTCHMMA|(?:LDTM|STTM)(?:\.x\d+)?|UTCBAR|MUFU\.EX2|LDL|STL)\b"
        return collections.Counter(re.findall(instructions, code.stdout))

    def test_each_step_compiles_without_spills_to_the_instructions_it_asks_for(self):
        self.assertGreater(len(STEPS), 0)
        for lesson, step in STEPS:
            text = flatten.flatten(lesson, step)  # with the smallest head_dim
            for one in {text, text.replace("HeadDims<64, 128>", "HeadDims<128>")}:
                found = self.compiled(one)
                if found is not None:
                    self.check_machine_code(step, 64 if "HeadDims<64, 128>" in one else 128, found)

    def check_machine_code(self, step, head_dim, found):
        if step == "18_tensor_memory":
            # For each of two tiles: Q K^T before the loop and in it, P V. Of 128 exponentials 96
            # are not by FMAs, one rescales. Loads: four of S, two of each O. Stores: two of P, one
            # of each O.
            expected = {"UTCHMMA": 2 * (2 * head_dim // 16 + 8), "UTCBAR": 8, "MUFU.EX2": 97}
            return self.assertEqual(found, {**expected, "LDTM.x32": 8, "STTM.x32": 4})
        self.assertEqual(step, "23_matmul_tensor_memory")
        # The compiler unrolls the loop over stages: each has four matmuls and a commit, and behind
        # the loop there is one more. All columns are loaded by the same instruction.
        commits = found["UTCBAR"] - 1
        self.assertGreater(commits, 0)
        self.assertEqual(found, {"UTCHMMA": 4 * commits, "UTCBAR": commits + 1, "LDTM.x32": 1})


if __name__ == "__main__":
    unittest.main()
