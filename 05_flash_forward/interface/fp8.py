"""Times FlashAttention-3's forward pass in e4m3 beside its own in bfloat16.

    python3 -m 05_flash_forward.interface.fp8 --flash-attention-3 PATH --json FILE

PATH is a library of FlashAttention-3 for PyTorch that has the type: xformers' refuses it, that of
the wheel tokenspeed-fa3 (flash_attn_3/_C.abi3.so) takes it. The problems are those of
`05_flash_forward --section fp8_kernels`.

Exit status: 0 all was measured, 2 it could not be done, 77 PyTorch or a GPU is missing.
"""

import argparse

from common.bench import peers
from common.bench.command import Skipped, exit_with
from common.bench.peers import FLASH_3, torch
from common.bench.problems import points_of, rms
from common.bench.program import Record, record_head
from common.bench.tables import mask_of
from common.bench.timing import clock_and_power, row_of_times, time_in_turn

LENGTHS = (1024, 4096, 16384)


def call_of(q, k, v, causal):
    """A function that computes O; tensors are [batch, length, heads, head_dim], scales are 1."""
    scales = {}
    if q.dtype == torch.float8_e4m3fn:
        ones = torch.ones(k.shape[0], k.shape[2], device=k.device)
        scales = dict.fromkeys(("q_descale", "k_descale", "v_descale"), ones)
    return lambda: torch.ops.flash_attn_3.fwd(q, k, v, is_causal=causal, num_splits=1, **scales)[0]


def time_point(point, repeats, seconds):
    """Rows for the record: bfloat16, and e4m3 with its error, in percent of the norm of bfloat16's
    result."""
    problem = point.problem(torch.bfloat16)._replace(length_first=True)
    tensors = [x.transpose(1, 2) for x in problem.tensors("cuda")]
    calls = {
        dtype: call_of(*(x.to(dtype) for x in tensors), point.causal)
        for dtype in (torch.bfloat16, torch.float8_e4m3fn)
    }
    exact, rounded = (call().float() for call in calls.values())
    timed = time_in_turn(calls, repeats, seconds)
    ran_at, work = clock_and_power(), point.flops((1, 1)) / 1e9
    rows = {
        dtype: row_of_times(point.label(FLASH_3, dtype), rounds, ran_at, tflops=work)
        for dtype, rounds in timed.items()
    }
    off = 100 * rms(rounded - exact) / rms(exact)
    rows[torch.float8_e4m3fn]["percent_error"] = round(off, 3)
    return list(rows.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flash-attention-3", metavar="PATH", required=True, help="its library")
    parser.add_argument("--json", metavar="FILE", help="the record to write, after each point")
    parser.add_argument("--commit", metavar="ID", help="of the code, for a copy without git")
    parser.add_argument("--repeats", type=int, default=20, help="of a call, at least (default 20)")
    parser.add_argument("--seconds", type=float, default=1, help="of a point (default 1)")
    args = parser.parse_args()
    if torch is None or not torch.cuda.is_available():
        raise Skipped("PyTorch with a GPU is needed")
    found = {FLASH_3: peers.load_flash_attention_3(args.flash_attention_3)}
    record = Record(args.json, record_head(True, args, found))
    torch.manual_seed(1)
    for point in points_of("d64,d128,d256"):
        if point.length in LENGTHS:
            rows = time_point(point, args.repeats, args.seconds)
            record.put(rows)
            times = ", ".join(f"{row['type']} {row['tflops']:.0f}" for row in rows)
            of = f"D {point.head_dim}, {mask_of(rows[0])}, N {point.length}"
            print(f"{of}: TFLOP/s {times}; error {rows[-1]['percent_error']:.1f} %")
    return 0


if __name__ == "__main__":
    exit_with(main)
