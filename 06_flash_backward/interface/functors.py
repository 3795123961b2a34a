"""Gradients of masks and scores by functors on PyTorch's tensors, through the C interfaces of
lessons 05 and 06; checked against float64 and timed beside FlexAttention and FlashAttention-3.

    python3 -m 06_flash_backward.interface.functors --forward FORWARD --library LIBRARY
    python3 -m 06_flash_backward.interface.functors ... --json FILE

FORWARD is BUILD/05_flash_forward/libflash_attention.so, and LIBRARY
BUILD/06_flash_backward/libflash_attention_backward.so. Libraries for the CPU are checked, on small
tensors, and not timed. What is timed is the backward pass alone.

Exit status: 0 all is well, 1 an error is too large, 2 it could not be done, 77 PyTorch is missing.
"""

import ctypes
import importlib

from common.bench import points
from common.bench.command import exit_with
from common.bench.peers import OURS, torch
from common.bench.problems import largest

from .example import FACTOR, GRADIENTS, Libraries

forward = importlib.import_module("05_flash_forward.interface.functors")


def prepare_functor(libraries, forward_call, d_o):
    """A call of fa_backward_functor() for what a call of Library.prepare_functor() computed.
    Returns (call, {name: gradient}); that of a bias is added to what it holds."""
    parameters = forward_call.parameters
    more = {
        "d_" + name: torch.zeros_like(parameters[name])
        for name in ("bias", "sinks")
        if name in parameters
    }
    wanted = [more.get(name) for name in ("d_bias", "d_sinks")]
    outputs = [ctypes.c_void_p(None if x is None else x.data_ptr()) for x in wanted]
    call, gradients = libraries.prepare_of(forward_call, d_o, outputs)
    call.more = more
    return call, {**dict(zip(GRADIENTS, gradients)), **more}


class GradientCase(forward.Case):
    """A point with the gradient of its output."""

    def __init__(self, point, device):
        super().__init__(point, device)
        self.d_o = torch.randn_like(self.q)

    def ours(self, libraries):
        point = self.point
        call, _, _ = libraries.forward.prepare_functor(
            self.q, self.k, self.v, point.kind, point.left, point.right, **self.parameters
        )
        call()
        backward, gradients = prepare_functor(libraries, call, self.d_o)
        found = [gradients[name] for name in GRADIENTS]
        return lambda: (backward(), found)[1]

    def flex(self):
        leaves = [x.detach().requires_grad_() for x in (self.q, self.k, self.v)]
        q, k, v, self.q, self.k, self.v = self.q, self.k, self.v, *leaves
        call = super().flex()
        o = call() if call is not None else None
        self.q, self.k, self.v = q, k, v
        if o is None:
            return None
        return lambda: torch.autograd.grad(o, leaves, self.d_o, retain_graph=True)

    def flash_3(self):
        options = self.flash_3_options()
        if not hasattr(torch.ops.flash_attn_3, "bwd") or options is None:
            return None
        q, k, v, d_o = (x.transpose(1, 2) for x in (self.q, self.k, self.v, self.d_o))
        o, lse, *_ = torch.ops.flash_attn_3.fwd(q, k, v, num_splits=1, **options)
        found = [torch.empty_like(x) for x in (q, k, v)]
        given = dict(zip(("dq", "dk", "dv"), found))
        back = [x.transpose(1, 2) for x in found]
        return lambda: (
            torch.ops.flash_attn_3.bwd(d_o, q, k, v, o, lse, **given, **options),
            back,
        )[1]

    def reference(self, dtype):
        """d_q, d_k and d_v of the first head, by the textbook in a type."""
        q, k, v = (x[0, 0].detach().to(dtype).requires_grad_() for x in (self.q, self.k, self.v))
        o = self.textbook(q, k, v, 0, 0, torch.arange(self.point.length, device=q.device))
        return torch.autograd.grad(o, (q, k, v), self.d_o[0, 0].to(dtype))

    def work(self):
        return 2.5 * super().work()

    def check(self, calls):
        """Errors of the first head."""
        ref = [x.double() for x in self.reference(torch.float64)]
        plain = [x.double() for x in self.reference(torch.bfloat16)]
        rows, good = [], True
        for name, call in calls.items():
            shares = {}
            for which, out, exact, rounded in zip(GRADIENTS, call(), ref, plain):
                allowed = FACTOR * largest(rounded - exact)
                shares[which] = largest(out[0, 0].double() - exact) / allowed
            right = all(share <= 1 for share in shares.values())  # false for NaN
            good = good and (right or name != OURS)
            print(
                f"{self.point.group:16}{self.headings[name]:>10}  largest error / tolerance "
                + ", ".join(f"{which} {share:.2f}" for which, share in shares.items())
                + ("" if right else "  too large")
            )
            rows.append({"what": "error", **self.label(name), **shares})
        return rows, good


def main():
    parser = points.parser_of(__doc__)
    parser.add_argument("--forward", metavar="PATH", help="lesson 05's library")
    return points.run(
        parser.parse_args(),
        Libraries.of,
        forward.GOALS,
        lambda of: map(forward.small, of),
        GradientCase,
        forward.print_times,
    )


if __name__ == "__main__":
    exit_with(main)
