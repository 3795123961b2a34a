"""Attention of this lesson on PyTorch's tensors, through its C interface; checked and timed beside
PyTorch's own.

    python3 -m 05_flash_forward.interface.example --library LIBRARY --check
    python3 -m 05_flash_forward.interface.example --library LIBRARY --time

LIBRARY is BUILD/05_flash_forward/libflash_attention.so. One for GPUs takes CUDA tensors. One for
the CPU takes those in the host's memory: it is checked, on small tensors, but not timed. Without
the two: check and time for GPUs, the check alone for the CPU.

Exit status: 0 all is well, 1 an error is too large, 2 it could not be done, 77 PyTorch is missing.
"""

import math

from common.bench import peers
from common.bench.command import exit_with
from common.bench.peers import (
    FIXED_ORDER,
    OURS,
    SDPBackend,
    scaled_dot_product_attention,
    sdpa_kernel,
    torch,
)
from common.bench.problems import for_all_heads, largest, rms, visible
from common.bench.program import Example, parser_of, run

from .flash_attention import Library


def attention_in_float64(q, k, v, causal, window=0):
    """O and LSE; with a window a query sees so many keys at most."""
    q, k, v = q.double(), k.double(), v.double()
    k, v = (for_all_heads(x, q.shape[1]) for x in (k, v))
    mask = visible(q, k, causal)
    if window:
        mask = mask.triu(k.shape[2] - q.shape[2] + 1 - window)
    with sdpa_kernel(SDPBackend.MATH):
        o = scaled_dot_product_attention(q, k, v, attn_mask=mask)
    scores = (q @ k.transpose(2, 3) / math.sqrt(q.shape[3])).masked_fill(~mask, -math.inf)
    return o, scores.logsumexp(-1)


class Forward(Example):
    what = "o"
    explanation = (
        "Largest errors of o against float64; - is a backend that refuses, or is not there."
    )
    matmuls = (1, 1)

    def load(self, args):
        self.library = Library(args.library)
        self.timed = (OURS, FIXED_ORDER) if args.fixed_order else (OURS,)

    def errors(self, problem, device, _):
        q, k, v = problem.tensors(device)
        call, o, lse = self.library.prepare(q, k, v, problem.causal)
        call()
        exact_o, exact_lse = attention_in_float64(q, k, v, problem.causal)
        off = {OURS: o.double() - exact_o}
        for name in problem.backends():
            theirs = peers.backend_call(name, q, k, v, problem.causal)
            if theirs is not None:
                off[name] = theirs().double() - exact_o
        errors = {name: (largest(of), rms(of)) for name, of in off.items()}
        lse_error = largest(lse.double() - exact_lse)
        # P and o are rounded to the type: each costs half an epsilon of the largest
        # value. Twice that; in float32 the sums count as well.
        epsilons = (16 if q.dtype == torch.float32 else 2) * torch.finfo(q.dtype).eps
        allowed = epsilons * largest(v)
        allowed_lse = 32 * torch.finfo(torch.float32).eps * max(1, largest(exact_lse))
        if errors[OURS][0] <= allowed and lse_error <= allowed_lse:  # false for NaN
            objection = ""
        else:
            objection = (
                f"  too large: {allowed:.2e} is allowed; lse: {lse_error:.2e} of {allowed_lse:.2e}"
            )
        return [("", errors, objection, {})]

    def same_call(self, device):
        torch.manual_seed(2)
        q, k, v = (torch.randn(4, 24, 400, 128).bfloat16().to(device) for _ in range(3))
        call, o, lse = self.library.prepare(q, k, v, causal=True)
        return call, (o, lse)

    def prepare(self, names, q, k, v, causal):
        calls, kernels = {}, {}
        for name in names:
            if name in (OURS, FIXED_ORDER):
                call, o, _ = self.library.prepare(q, k, v, causal, fixed_order=name == FIXED_ORDER)
                calls[name] = lambda call=call, o=o: (call(), o)[1]
                kernels[name] = self.library.kernel_name(call)
            else:
                calls[name] = peers.backend_call(name, q, k, v, causal)
        return {name: call for name, call in calls.items() if call is not None}, kernels, (q, k, v)

    def reference(self, inputs, causal):
        q, k, v = inputs
        of_heads = (attention_in_float64(one, k, v, causal)[0] for one in q.split(1, 1))
        return {"o": torch.cat(list(of_heads), 1)}  # head by head to save memory


def main():
    parser = parser_of(__doc__)
    parser.add_argument(
        "--fixed-order", action="store_true", help="time calls without the tile scheduler, too"
    )
    return run(Forward(), parser.parse_args())


if __name__ == "__main__":
    exit_with(main)
