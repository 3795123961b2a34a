"""Times FlashAttention-3's forward pass in e4m3 beside its own in bfloat16, and cuDNN's, where
nvidia-cudnn-frontend and cuda-bindings are installed.

    python3 -m 05_flash_forward.interface.fp8 --flash-attention-3 PATH --json FILE

PATH is a library of FlashAttention-3 for PyTorch that has the type: xformers' refuses it, that of
the wheel tokenspeed-fa3 (flash_attn_3/_C.abi3.so) takes it. The problems are those of
`05_flash_forward --section fp8_kernels`.

Exit status: 0 all was measured, 2 it could not be done, 77 PyTorch or a GPU is missing.
"""

import argparse

from common.bench import peers
from common.bench.command import Skipped, exit_with
from common.bench.peers import CUDNN, FLASH_3, torch
from common.bench.problems import points_of, rms
from common.bench.program import Record, record_head
from common.bench.tables import mask_of
from common.bench.timing import clock_and_power, row_of_times, time_in_turn

try:
    import cudnn  # of nvidia-cudnn-frontend
except ImportError:
    cudnn = None

LENGTHS = (1024, 4096, 16384)
E4M3_MAX = 448


def call_of(q, k, v, causal):
    """A function that computes O; tensors are [batch, length, heads, head_dim], scales are 1."""
    scales = {}
    if q.dtype == torch.float8_e4m3fn:
        ones = torch.ones(k.shape[0], k.shape[2], device=k.device)
        scales = dict.fromkeys(("q_descale", "k_descale", "v_descale"), ones)
    return lambda: torch.ops.flash_attn_3.fwd(q, k, v, is_causal=causal, num_splits=1, **scales)[0]


def cudnn_call(q, k, v, causal, scale_o):
    """The same of cuDNN, whose O is e4m3, too, times `scale_o`; None where it has no kernel."""
    handle, types = cudnn.create_handle(), cudnn.data_type
    of_8_bits, of_32 = types.FP8_E4M3, types.FLOAT
    graph = cudnn.pygraph(intermediate_data_type=of_32, compute_data_type=of_32, handle=handle)
    scales = dict.fromkeys(("descale_q", "descale_k", "descale_v"), 1)  # P is at most 1
    scales |= {"scale_s": E4M3_MAX, "descale_s": 1 / E4M3_MAX, "scale_o": scale_o}
    memory = {name: x.transpose(1, 2) for name, x in (("q", q), ("k", k), ("v", v))}
    memory |= {x: torch.full((1, 1, 1, 1), float(y), device=q.device) for x, y in scales.items()}
    inputs = {
        name: graph.tensor(
            dim=list(x.shape),
            stride=list(x.stride()),
            data_type=of_32 if name in scales else of_8_bits,
        )
        for name, x in memory.items()
    }
    scale = q.shape[-1] ** -0.5
    o, _, *largest = graph.sdpa_fp8(
        **inputs, attn_scale=scale, use_causal_mask=causal, generate_stats=False
    )
    given = {inputs[name]: x for name, x in memory.items()}
    given[o] = torch.empty_like(memory["q"])
    given |= {node: torch.empty_like(memory["scale_o"]) for node in largest}
    for node in (o, *largest):
        x = given[node]
        node.set_output(True).set_dim(list(x.shape)).set_stride(list(x.stride()))
        node.set_data_type(of_8_bits if node is o else of_32)
    try:
        graph.build([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
    except cudnn.cudnnGraphNotSupportedError as error:
        return print(f"{CUDNN}: {error}")
    workspace = torch.empty(graph.get_workspace_size(), device=q.device, dtype=torch.uint8)
    return lambda: (graph.execute(given, workspace, handle=handle), given[o].transpose(1, 2))[1]


def time_point(point, repeats, seconds):
    """Rows for the record: bfloat16, and e4m3 with its error, in percent of the norm of bfloat16's
    result."""
    problem = point.problem(torch.bfloat16)._replace(length_first=True)
    tensors = [x.transpose(1, 2) for x in problem.tensors("cuda")]
    calls = {
        (FLASH_3, dtype): call_of(*(x.to(dtype) for x in tensors), point.causal)
        for dtype in (torch.bfloat16, torch.float8_e4m3fn)
    }
    exact = calls[FLASH_3, torch.bfloat16]().float()
    factor = {FLASH_3: 1, CUDNN: E4M3_MAX / exact.abs().max().item()}  # of O in 8 bits
    if cudnn is not None:
        of_8_bits = [x.to(torch.float8_e4m3fn) for x in tensors]
        call = cudnn_call(*of_8_bits, point.causal, factor[CUDNN])
        calls |= {(CUDNN, torch.float8_e4m3fn): call} if call else {}
    timed = time_in_turn(calls, repeats, seconds)
    ran_at, work = clock_and_power(), point.flops((1, 1)) / 1e9
    rows = []
    for (peer, dtype), rounds in timed.items():
        rows.append(row_of_times(point.label(peer, dtype), rounds, ran_at, tflops=work))
        if dtype == torch.float8_e4m3fn:
            off = calls[peer, dtype]().float() / factor[peer] - exact
            rows[-1]["percent_error"] = round(100 * rms(off) / rms(exact), 3)
    return rows


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
    if cudnn is not None:
        found[CUDNN] = f"cuDNN {cudnn.backend_version()}"
    record = Record(args.json, record_head(True, args, found))
    torch.manual_seed(1)
    for point in points_of("d64,d128,d256"):
        if point.length in LENGTHS:
            rows = time_point(point, args.repeats, args.seconds)
            record.put(rows)
            times = ", ".join(f"{r['backend']} {r['type']} {r['tflops']:.0f}" for r in rows)
            of = f"D {point.head_dim}, {mask_of(rows[0])}, N {point.length}"
            print(f"{of}: TFLOP/s {times}; error {rows[1]['percent_error']:.1f} %")
    return 0


if __name__ == "__main__":
    exit_with(main)
