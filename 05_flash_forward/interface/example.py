"""Attention of this lesson on PyTorch's tensors, through its C interface; checked and timed beside
PyTorch's own.

    python3 -m 05_flash_forward.interface.example --library
    BUILD/05_flash_forward/libflash_attention.so --check python3 -m
    05_flash_forward.interface.example --library BUILD/05_flash_forward/libflash_attention.so --time
    python3 -m 05_flash_forward.interface.example --library
    BUILD/05_flash_forward/libflash_attention.so --counters

A library for GPUs takes CUDA tensors. One for the CPU takes those in the host's memory: it is
checked, on small tensors, but neither timed nor counted. Without the three: check and time for
GPUs, the check alone for the CPU.

Exit status: 0 all is well, 1 an error is too large, 2 it could not be done, 77 PyTorch is missing.
"""

import functools
import math
import sys

if __package__ != "05_flash_forward.interface":
    print(
        "example.py: start it as a module, in the repository's root: "
        "python3 -m 05_flash_forward.interface.example",
        file=sys.stderr,
    )
    sys.exit(2)

from common.bench import peers
from common.bench.checks import check_graphs_and_gpus, for_all_heads, largest, rms, visible
from common.bench.command import exit_with
from common.bench.counters import count_problems
from common.bench.peers import BACKENDS, FIXED_ORDER, OURS
from common.bench.problems import Problem, problems_to_check
from common.bench.program import parser_of, run
from common.bench.pytorch import SDPBackend, scaled_dot_product_attention, sdpa_kernel, torch
from common.bench.tables import figures, print_record
from common.bench.timing import time_points

from .flash_attention import Library


def reference(q, k, v, causal):
    """O and LSE in float64."""
    q, k, v = q.double(), k.double(), v.double()
    k, v = (for_all_heads(x, q.shape[1]) for x in (k, v))
    mask = visible(q, k, causal)
    with sdpa_kernel(SDPBackend.MATH):
        o = scaled_dot_product_attention(q, k, v, attn_mask=mask)
    scores = (q @ k.transpose(2, 3) / math.sqrt(q.shape[3])).masked_fill(~mask, -math.inf)
    return o, scores.logsumexp(-1)


def check(library, device):
    """Prints errors of o against float64. Returns rows for the record, and whether all of ours are
    small."""
    torch.manual_seed(1)
    rows, good = [], True
    print("Largest errors of o against float64; - is a backend that refuses, or is not there.")
    columns = (OURS,) + BACKENDS
    print(Problem.HEADING + "".join(f"{c:>20}" for c in columns))
    for problem in problems_to_check(small=device == "cpu"):
        q, k, v = problem.tensors(device)
        call, o, lse = library.prepare(q, k, v, problem.causal)
        call()
        exact_o, exact_lse = reference(q, k, v, problem.causal)
        off = {OURS: o.double() - exact_o}
        for name in problem.backends():
            theirs = peers.backend_call(name, q, k, v, problem.causal)
            if theirs is not None:
                off[name] = theirs().double() - exact_o
        errors = {name: largest(of) for name, of in off.items()}
        lse_error = largest(lse.double() - exact_lse)
        # P and o are rounded to the type: each costs half an epsilon of the largest
        # value. Twice that; in float32 the sums count as well.
        dtype = problem.dtype
        allowed = (16 if dtype == torch.float32 else 2) * torch.finfo(dtype).eps * largest(v)
        allowed_lse = 32 * torch.finfo(torch.float32).eps * max(1, largest(exact_lse))
        fine = errors[OURS] <= allowed and lse_error <= allowed_lse  # false for NaN
        good = good and fine
        verdict = ""
        if not fine:
            verdict = (
                f"  too large: {allowed:.2e} is allowed; lse: {lse_error:.2e} of {allowed_lse:.2e}"
            )
        print(problem.text() + figures(errors, columns, ".2e") + verdict)
        rows += [problem.row(name, error, rms(off[name])) for name, error in errors.items()]
    if device == "cuda":
        good = check_graphs_and_gpus(functools.partial(same_call, library)) and good
    return rows, good


def same_call(library, device):
    """A causal call that has more tiles than a GPU has SMs, and its outputs."""
    torch.manual_seed(2)
    q, k, v = (torch.randn(4, 24, 400, 128).bfloat16().to(device) for _ in range(3))
    call, o, lse = library.prepare(q, k, v, causal=True)
    return call, (o, lse)


def prepare(library, names, q, k, v, causal):
    """What time_points() asks for."""
    calls, kernels = {}, {}
    for name in names:
        if name in (OURS, FIXED_ORDER):
            call, o, _ = library.prepare(q, k, v, causal, fixed_order=name == FIXED_ORDER)
            calls[name] = lambda call=call, o=o: (call(), o)[1]
            kernels[name] = library.kernel_name(call)
        else:
            calls[name] = peers.backend_call(name, q, k, v, causal)
    return {name: call for name, call in calls.items() if call is not None}, kernels, (q, k, v)


def time_all(library, points, args):
    """Prints times. Returns rows for the record."""
    return time_points(
        points,
        columns=(OURS, FIXED_ORDER) if args.fixed_order else (OURS,),
        products=(1, 1),
        repeats=args.repeats,
        seconds=args.seconds,
        prepare=functools.partial(prepare, library),
        reference=lambda inputs, causal: {"o": reference(*inputs, causal)[0]},
    )


def count_all(library):
    """Returns rows for the record."""
    return count_problems(functools.partial(prepare, library))


def main():
    parser = parser_of(__doc__)
    parser.add_argument(
        "--fixed-order", action="store_true", help="time calls without the tile scheduler, too"
    )
    args = parser.parse_args()
    if args.table:
        print_record(args.table, "o")
        return 0
    return run(
        args,
        lambda: Library(args.library),
        check,
        lambda library, points: time_all(library, points, args),
        count_all,
    )


if __name__ == "__main__":
    exit_with(main)
