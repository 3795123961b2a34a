"""Packed sequences on PyTorch's tensors, through the C interfaces of lessons 05 and 06; checked
against float64 and timed beside FlashAttention-3, and beside our own kernels on sequences that all
have the mean length.

    python3 -m 06_flash_backward.interface.packed --forward FORWARD --library LIBRARY
    python3 -m 06_flash_backward.interface.packed ... --json FILE
    python3 -m 06_flash_backward.interface.packed --table FILE

FORWARD is BUILD/05_flash_forward/libflash_attention.so, and LIBRARY
BUILD/06_flash_backward/libflash_attention_backward.so. Libraries for the CPU are checked, on small
tensors, and not timed. The last command prints the record FILE as a table.

Exit status: 0 all is well, 1 an error is too large, 2 it could not be done, 77 PyTorch is missing.
"""

import importlib
import typing

from common.bench import points
from common.bench.command import exit_with
from common.bench.peers import FLASH_3, HEADINGS, OURS, torch
from common.bench.problems import largest
from common.bench.tables import both, mask_of, points_in, ratio
from common.data import records

from .example import FACTOR, Libraries, textbook

forward_interface = importlib.import_module("05_flash_forward.interface.flash_attention")
as_batch = forward_interface.as_batch

DENSE = "same length"  # ours, on sequences of the mean length


class Point(typing.NamedTuple):
    """Sequences, each with as many keys as queries; the forward or the backward pass."""

    group: str
    backward: bool
    lengths: tuple
    causal: bool = True
    heads: int = 16
    kv_heads: int = 16
    head_dim: int = 128

    def mean(self):
        return sum(self.lengths) // len(self.lengths)

    def flops(self, lengths):
        """Of two matmuls forward, five backward."""
        pairs = sum(n * (n + 1) // 2 if self.causal else n * n for n in lengths)
        return (10 if self.backward else 4) * self.heads * self.head_dim * pairs


def both_passes(group, *sizes):
    return [Point(f"{group}_{of}", of == "backward", *sizes) for of in ("forward", "backward")]


DOCUMENTS = (500, 900, 1300, 2000, 2500, 3000, 3500, 4000)
MESSAGES = tuple(100 + 130 * i % 900 for i in range(64))
MIXED = tuple(128 * (1 + 5 * i % 16) for i in range(16))
SHORT = tuple(64 * (1 + 3 * i % 8) for i in range(64))
EQUAL = (4096,) * 8
POINTS = (
    *both_passes("documents", DOCUMENTS),
    *both_passes("documents_full", DOCUMENTS, False),
    *both_passes("messages_gqa", MESSAGES, True, 32, 8),
    *both_passes("mixed", MIXED),
    *both_passes("mixed_full", MIXED, False),
    *both_passes("short", SHORT),
    *both_passes("equal", EQUAL),
)
SMALL = (
    *both_passes("small", (40, 0, 1, 75), True, 4, 2, 64),
    *both_passes("small_full", (40, 0, 1, 75), False, 2, 1),
)


def prepare_backward(libraries, forward_call, d_o):
    """A call of fa_backward_packed() for what a call of Library.prepare_packed() computed; d_o lies
    like q. Returns (call, (d_q, d_k, d_v)), which lie like q, k and v."""
    call, gradients = libraries.prepare_of(forward_call, as_batch(d_o))
    return call, tuple(map(forward_interface.of_batch, gradients))


class Case(points.Case):
    """The tensors of a point: [tokens, heads, head_dim]."""

    headings = {**HEADINGS, DENSE: DENSE}

    def __init__(self, point, device):
        torch.manual_seed(1)
        self.point = point
        options = {"dtype": torch.bfloat16, "device": device}
        tokens, d = sum(point.lengths), point.head_dim
        self.q, self.d_o = (torch.randn(tokens, point.heads, d, **options) for _ in range(2))
        self.k, self.v = (torch.randn(tokens, point.kv_heads, d, **options) for _ in range(2))
        begins = torch.tensor((0, *point.lengths)).cumsum(0)
        self.cu_seqlens = begins.to(dtype=torch.int32, device=device)

    def ours(self, libraries):
        """A call that returns (o,), or the gradients."""
        self.libraries = libraries
        forward, o, _ = libraries.forward.prepare_packed(
            self.q, self.k, self.v, self.cu_seqlens, self.cu_seqlens, self.point.causal
        )
        if not self.point.backward:
            return lambda: (forward(), (o,))[1]
        forward()
        backward, gradients = prepare_backward(libraries, forward, self.d_o)
        return lambda: (backward(), gradients)[1]

    def others(self):
        return {DENSE: self.dense, FLASH_3: self.flash_3}

    def dense(self):
        """The same of sequences that all have the mean length."""
        shape = len(self.point.lengths), self.point.mean()

        def like(x):
            return torch.randn(*shape, *x.shape[1:], dtype=x.dtype, device=x.device).transpose(1, 2)

        q, k, v, d_o = (like(x) for x in (self.q, self.k, self.v, self.d_o))
        forward, o, lse = self.libraries.forward.prepare(q, k, v, self.point.causal)
        if not self.point.backward:
            return forward
        forward()
        return self.libraries.prepare(forward.struct, (q, k, v, o, lse), d_o, False)[0]

    def flash_3(self):
        """FlashAttention-3; None when it is not there."""
        if not hasattr(torch.ops.flash_attn_3, "fwd"):
            return None
        longest = max(self.point.lengths)
        options = {f"cu_seqlens_{x}": self.cu_seqlens for x in "qk"}
        options |= {"max_seqlen_q": longest, "max_seqlen_k": longest}
        options |= {"is_causal": self.point.causal}
        of = self.q, self.k, self.v

        def forward():
            return torch.ops.flash_attn_3.fwd(*of, num_splits=1, **options)

        if not self.point.backward:
            return forward
        o, lse, *_ = forward()
        names = dict(zip(("dq", "dk", "dv"), (torch.empty_like(x) for x in of)))

        def backward():
            torch.ops.flash_attn_3.bwd(self.d_o, *of, o, lse, **names, **options)
            return tuple(names.values())

        return backward

    def check(self, calls):
        """Errors of ours in the two shortest sequences, beside those of the textbook."""
        point, begins = self.point, self.cu_seqlens.tolist()
        names = ("d_q", "d_k", "d_v") if point.backward else ("o",)
        outputs = calls[OURS]()
        rows, good = [], True
        some = [i for i in range(len(point.lengths)) if point.lengths[i] > 0]
        for i in sorted(some, key=lambda i: point.lengths[i])[:2]:
            at = slice(begins[i], begins[i + 1])
            exact, plain = (self.textbook_of(at, t) for t in (torch.float64, torch.bfloat16))
            # Of one key d_q and d_k are 0, and what rounds to them is not.
            floor = torch.finfo(torch.bfloat16).eps * max(map(largest, exact))
            for name, x, e, p in zip(names, outputs, exact, plain):
                error = largest(as_batch(x[at]).double() - e)
                allowed = FACTOR * largest(p.double() - e) + floor
                right = error <= allowed  # false for NaN
                good = good and right
                print(
                    f"{point.group:24}{point.lengths[i]:6} {name:4} largest error {error:.2e}"
                    + ("" if right else f"  too large: {allowed:.2e} is allowed")
                )
                row = {"what": "error", **self.label(OURS), "output": name}
                rows.append({**row, "length": point.lengths[i], "largest_error": error})
        return rows, good

    def textbook_of(self, at, kind):
        """(o,) or the gradients of one sequence, in a type."""
        of = [as_batch(x[at]).to(kind) for x in (self.q, self.k, self.v, self.d_o)]
        leaves = [x.detach().requires_grad_() for x in of[:3]]
        o = textbook(*leaves, self.point.causal)
        return torch.autograd.grad(o, leaves, of[3]) if self.point.backward else (o.detach(),)

    def work(self):
        return self.point.flops(self.point.lengths)

    def time(self, calls, repeats, seconds):
        rows = super().time(calls, repeats, seconds)
        dense = self.point.flops([self.point.mean()] * len(self.point.lengths))
        for row in rows:
            if row["backend"] == DENSE:
                row["tflops"] = round(dense / row["milliseconds"] / 1e9, 1)
        return rows


def print_times(rows):
    """A line for each point: TFLOP/s."""
    cells = [["point", "sequences", "mean", "heads", "D", "mask", "lesson", DENSE]]
    cells[0] += [HEADINGS[FLASH_3], "x same", "x flash 3"]
    for of in points_in(rows):
        row = of[OURS]
        speeds = [of[name]["tflops"] if name in of else None for name in (OURS, DENSE, FLASH_3)]
        found = ratio(of)
        ratios = [speeds[0] / speeds[1] if speeds[1] else None, found[0] if found else None]
        lengths = row["lengths"]
        about = [row["group"], len(lengths), sum(lengths) // len(lengths)]
        about += [both(row["heads"], row["kv_heads"]), row["head_dim"], mask_of(row)]
        cells.append(
            about
            + [f"{x:.1f}" if x else "-" for x in speeds]
            + [f"{x:.3f}" if x else "-" for x in ratios]
        )
    print(
        "TFLOP/s. same length: our kernels on as many sequences of the mean length; "
        "x: our speed over that."
    )
    print("\n".join(records.aligned(cells, 1)))


def main():
    parser = points.parser_of(__doc__)
    parser.add_argument("--forward", metavar="PATH", help="lesson 05's library")
    args = parser.parse_args()
    return points.run(args, Libraries.of, POINTS, lambda _: SMALL, Case, print_times)


if __name__ == "__main__":
    exit_with(main)
