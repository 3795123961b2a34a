"""Masks and scores by functors on PyTorch's tensors, through this lesson's C interface; checked
against float64 and timed beside FlexAttention and FlashAttention-3.

    python3 -m 05_flash_forward.interface.functors --library LIBRARY
    python3 -m 05_flash_forward.interface.functors --library LIBRARY --json FILE

LIBRARY is BUILD/05_flash_forward/libflash_attention.so. One for the CPU is checked, on small
tensors, and not timed. FlexAttention is compiled for all points first, side by side; what has been
compiled stays in TORCHINDUCTOR_CACHE_DIR, by default in /tmp, for the next time.

Exit status: 0 all is well, 1 an error is too large, 2 it could not be done, 77 PyTorch is missing.
"""

import functools
import importlib
import math
import typing

from common.bench import points
from common.bench.command import exit_with
from common.bench.peers import FLASH_3, HEADINGS, OURS, torch
from common.bench.tables import points_in
from common.data import records

from .flash_attention import Library

FLEX = "FLEX_ATTENTION"
BACKENDS = (OURS, FLEX, FLASH_3)
NAMES = {**HEADINGS, FLEX: "flex"}


class Point(typing.NamedTuple):
    """A functor on a problem; cu_seqlens of the kind "documents"."""

    group: str
    kind: str
    length: int
    left: int = -1
    right: int = -1
    batch: int = 1
    heads: int = 16
    head_dim: int = 128
    cap: float = 20.0
    prefix: int = 0
    block_size: int = 128
    cu_seqlens: tuple = ()


DOCUMENTS = (0, 2100, 2600, 5800, 9896, 10900, 13000, 13700, 16384)
GOALS = (
    Point("plain_4k", "plain", 4096, batch=4),
    Point("causal_4k", "causal", 4096, batch=4),
    Point("causal_16k", "causal", 16384),
    Point("window_4096_16k", "window", 16384, 4096, 0),
    Point("window_512_16k", "window", 16384, 512, 0),
    Point("prefix_4k", "prefix", 4096, batch=4, prefix=1024),
    Point("documents_16k", "documents", 16384, -1, 0, cu_seqlens=DOCUMENTS),
    Point("soft_cap_4k", "soft_cap", 4096, -1, 0, batch=4),
    Point("alibi_4k", "alibi", 4096, -1, 0, batch=4),
    Point("sinks_4k", "sinks", 4096, -1, 0, batch=4),
    Point("bias_4k", "bias", 4096, -1, 0, batch=4),
    Point("blocks_4k", "block_sparse", 4096, batch=4),
    Point("bits_4k", "bits", 4096, batch=4),
)


def small(point):
    """The same functor on a problem that the CPU computes in a moment."""
    return point._replace(
        length=150,
        batch=2 if point.kind != "documents" else 1,
        heads=2,
        left=min(point.left, 40),
        prefix=min(point.prefix, 37),
        block_size=40,
        cap=1.5,
        cu_seqlens=(0, 70, 100, 150) if point.cu_seqlens else (),
    )


@functools.cache
def flex_attention():
    """PyTorch's module, and its function, which is compiled for each functor, mask and shape."""
    module = importlib.import_module("torch.nn.attention.flex_attention")
    importlib.import_module("torch._dynamo.config").recompile_limit = 2 * len(GOALS)
    # Lesson 06 calls the gradients of one forward pass again and again.
    importlib.import_module("torch._functorch.config").donated_buffer = False
    # fullgraph: beyond the limit it would run without being compiled, and say nothing.
    return module, torch.compile(module.flex_attention, dynamic=False, fullgraph=True)


class Case(points.Case):
    """The tensors of a point, its parameters for the library, and its functions for others."""

    headings = NAMES

    def __init__(self, point, device):
        torch.manual_seed(1)
        self.point, n = point, point.length
        shape = (point.batch, n, point.heads, point.head_dim)
        options = {"dtype": torch.bfloat16, "device": device}
        self.q, self.k, self.v = (torch.randn(shape, **options).transpose(1, 2) for _ in range(3))
        p = self.parameters = {}
        if point.kind == "documents":
            ranges = torch.tensor([*zip(point.cu_seqlens, point.cu_seqlens[1:])])
            of_tokens = ranges.repeat_interleave(ranges[:, 1] - ranges[:, 0], 0)[None]
            p["documents"] = of_tokens.to(dtype=torch.int32, device=device)
        elif point.kind == "alibi":
            exponents = torch.arange(1, point.heads + 1, device=device) * (-8 / point.heads)
            p["slopes"] = torch.exp2(exponents.float())
        elif point.kind == "sinks":
            p["sinks"] = torch.randn(point.heads, device=device)
        elif point.kind == "bias":
            p["bias"] = torch.randn(1, 1, n, n, device=device)
        elif point.kind == "block_sparse":
            blocks = -(-n // point.block_size)
            kept = torch.rand(1, blocks, blocks, device=device) < 1 / 3
            p["blocks"] = kept.expand(point.heads, -1, -1).to(torch.uint8).contiguous()
            p["block_size"] = point.block_size
        elif point.kind == "bits":
            block = torch.arange(n, device=device) // 64
            tiles = torch.rand(-(-n // 64), -(-n // 64), device=device) < 0.4
            self.seen = (torch.rand(n, n, device=device) < 0.5) & tiles[block[:, None], block]
            p["bits"] = packed(self.seen).expand(point.batch, -1, -1).contiguous()
        elif point.kind == "soft_cap":
            p["cap"] = point.cap
        elif point.kind == "prefix":
            p["prefix"] = point.prefix

    def visible(self, b, h, i, j):
        """Whether query i sees key j, as FlexAttention's mask_mod."""
        point, p = self.point, self.parameters
        if point.kind == "causal":
            return j <= i
        if point.kind == "prefix":
            return (j <= i) | (j < point.prefix)
        if point.kind == "block_sparse":
            return p["blocks"][h, i // point.block_size, j // point.block_size] == 1
        if point.kind == "bits":
            return self.seen[i, j]
        seen = i == i
        if point.left >= 0:
            seen = seen & (j >= i - point.left)
        if point.right >= 0:
            seen = seen & (j <= i + point.right)
        if point.kind == "documents":
            begins = p["documents"][0, :, 0]
            seen = seen & (begins[i] == begins[j])
        return seen

    def score(self, s, b, h, i, j):
        """The changed score, as FlexAttention's score_mod."""
        point, p = self.point, self.parameters
        if point.kind == "soft_cap":
            return point.cap * torch.tanh(s / point.cap)
        if point.kind == "alibi":
            return s - p["slopes"][h] * (i - j).abs()
        if point.kind == "bias":
            return s + p["bias"][0, 0][i, j]
        return s

    def ours(self, library):
        point = self.point
        call, o, _ = library.prepare_functor(
            self.q, self.k, self.v, point.kind, point.left, point.right, **self.parameters
        )
        return lambda: (call(), o)[1]

    def flex(self):
        """FlexAttention, compiled; None for sinks, which it adds after the fact."""
        if self.point.kind == "sinks":
            return None
        module, attend = flex_attention()
        n, point = self.point.length, self.point
        masks = point.kind != "plain" and (point.kind not in SCORES or point.right >= 0)
        heads = point.heads if point.kind == "block_sparse" else None
        visible = lambda b, h, i, j: self.visible(b, h, i, j)  # noqa: E731, it counts arguments
        shape, device = (None, heads, n, n), self.q.device
        mask = module.create_block_mask(visible, *shape, device=device) if masks else None
        score = self.score if point.kind in SCORES else None
        return lambda: attend(self.q, self.k, self.v, score_mod=score, block_mask=mask)

    def flash_3_options(self):
        """Of FlashAttention-3's operation; None for what it lacks on tensors of a batch."""
        point = self.point
        return {
            "plain": {},
            "causal": {"is_causal": True},
            "window": {"window_size_left": point.left, "window_size_right": point.right},
        }.get(point.kind)

    def flash_3(self):
        """FlashAttention-3, for what its operation has: windows, and documents as varlen."""
        point = self.point
        if not hasattr(torch.ops.flash_attn_3, "fwd"):
            return None
        q, k, v = (x.transpose(1, 2) for x in (self.q, self.k, self.v))
        options = self.flash_3_options()
        if point.kind == "documents":
            q, k, v = q[0], k[0], v[0]
            ends = torch.tensor(point.cu_seqlens, dtype=torch.int32, device=q.device)
            longest = int((ends[1:] - ends[:-1]).max())
            options = {"cu_seqlens_q": ends, "cu_seqlens_k": ends, "is_causal": True}
            options |= {"max_seqlen_q": longest, "max_seqlen_k": longest}
        if options is None:
            return None
        call = torch.ops.flash_attn_3.fwd
        shape = self.q.transpose(1, 2).shape
        return lambda: call(q, k, v, num_splits=1, **options)[0].reshape(shape).transpose(1, 2)

    def others(self):
        return {FLEX: self.flex, FLASH_3: self.flash_3}

    def label(self, backend):
        fields = super().label(backend)
        del fields["cu_seqlens"]
        return fields

    def differences(self, o):
        """Of some rows of the first and the last head."""
        point = self.point
        rows = torch.arange(0, point.length, max(1, point.length // 150), device=o.device)
        found = []
        for b, h in {(0, 0), (point.batch - 1, point.heads - 1)}:
            of_head = (x[b, h].double() for x in (self.q, self.k, self.v))
            found.append(o[b, h][rows].double() - self.textbook(*of_head, b, h, rows))
        return found

    def textbook(self, q, k, v, b, h, rows):
        """O of some queries of a head, in the type of its q, k and v."""
        i, j = rows[:, None], torch.arange(len(k), device=k.device)
        s = (q[rows] @ k.T) * (1 / math.sqrt(self.point.head_dim))
        s = self.score(s, b, h, i, j).to(q.dtype)
        seen = torch.as_tensor(self.visible(b, h, i, j)).expand_as(s)
        some = seen.any(1, keepdim=True)  # a row without a key has no gradient
        s = s.masked_fill(~seen, -math.inf).masked_fill(~some, 0)
        if self.point.kind == "sinks":
            sink = self.parameters["sinks"][h].to(q.dtype).expand(len(rows), 1)
            p = torch.softmax(torch.cat((s, sink), 1), 1)[:, :-1]
        else:
            p = torch.softmax(s, 1)
        return p.masked_fill(~some, 0) @ v

    def work(self):
        """FLOPs of two matmuls over the visible scores."""
        n, count = self.point.length, 0
        j = torch.arange(n, device=self.q.device)
        for begin in range(0, n, 1024):
            i = torch.arange(begin, min(n, begin + 1024), device=self.q.device)[:, None]
            seen = torch.as_tensor(self.visible(0, 0, i, j))
            count += int(seen.expand(len(i), n).sum())
        return 4 * self.point.batch * self.point.heads * self.point.head_dim * count


SCORES = ("soft_cap", "alibi", "bias")


def packed(seen):
    """The bits of a mask [length_q, length_k], a word for each 32 keys."""
    rows, n = seen.shape
    padded = torch.zeros(rows, -(-n // 32) * 32, dtype=torch.int64, device=seen.device)
    padded[:, :n] = seen
    powers = 2 ** torch.arange(32, device=seen.device)
    words = (padded.view(rows, -1, 32) * powers).sum(2)
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)[None]


PRINTED = {"milliseconds": 3, "tflops": 0}  # and digits behind the point


def print_times(rows):
    """A line for each point: milliseconds and TFLOP/s over visible scores of each backend."""
    print("Milliseconds and TFLOP/s over visible scores; - is a backend that lacks it, or failed.")
    cells = [["", *(x for name in BACKENDS for x in (NAMES[name], ""))]]
    for found in points_in(rows):
        cells.append([found[OURS]["group"]])
        for name in BACKENDS:
            row = found.get(name, {})
            cells[-1] += [f"{row[x]:.{n}f}" if row else "-" for x, n in PRINTED.items()]
    print("\n".join(records.aligned(cells, 1)))


def main():
    args = points.parser_of(__doc__).parse_args()
    return points.run(
        args, lambda _: Library(args.library), GOALS, lambda of: map(small, of), Case, print_times
    )


if __name__ == "__main__":
    exit_with(main)
