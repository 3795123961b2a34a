"""Decoding on PyTorch's tensors, through this lesson's C interface: few queries, and a cache of
many keys; checked and timed beside PyTorch's backends, FlashAttention-3 and FlashInfer.

    python3 -m 05_flash_forward.interface.decode --library LIBRARY
    python3 -m 05_flash_forward.interface.decode --library LIBRARY --json FILE
    python3 -m 05_flash_forward.interface.decode --table FILE

LIBRARY is BUILD/05_flash_forward/libflash_attention.so. One for the CPU is checked, on small
tensors, and not timed. The last command prints the record FILE as a table.

Exit status: 0 all is well, 1 an error is too large, 2 it could not be done, 77 PyTorch is missing.
"""

import importlib
import typing

from common.bench import peers, points
from common.bench.command import exit_with
from common.bench.peers import CUDNN, FLASH_2, FLASH_3, FLASHINFER, HEADINGS, OURS, torch
from common.bench.tables import headings_in, points_in, ratio
from common.data import records

from .example import attention_in_float64
from .flash_attention import Library


class Point(typing.NamedTuple):
    """A cache, and the queries that read it. Without a page_size it has no pages. `ragged`: lengths
    from an eighth of length_k to length_k, in random order."""

    group: str
    batch: int
    length_q: int
    length_k: int
    ragged: bool = False
    page_size: int = 0
    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128

    def lengths(self):
        """Keys of each sequence."""
        if not self.ragged:
            return [self.length_k] * self.batch
        generator = torch.Generator().manual_seed(1)
        least = max(1, self.length_k // 8)
        return torch.randint(least, self.length_k + 1, (self.batch,), generator=generator).tolist()

    def bytes(self):
        """What must be read and written at least, in 16 bits."""
        of_keys = 2 * sum(self.lengths()) * self.kv_heads
        return 2 * self.head_dim * (of_keys + 2 * self.batch * self.heads * self.length_q)


GOALS = (
    Point("b1_32k", 1, 1, 32768),
    Point("b1_128k", 1, 1, 131072),
    Point("b16_8k", 16, 1, 8192),
    Point("b64_4k", 64, 1, 4096),
    Point("q16_b4_32k", 4, 16, 32768),
    Point("ragged", 64, 1, 8192, ragged=True),
    Point("ragged_page_16", 64, 1, 8192, ragged=True, page_size=16),
    Point("ragged_page_64", 64, 1, 8192, ragged=True, page_size=64),
)
SMALL = (
    Point("one_query", 2, 1, 150, heads=8, kv_heads=2, head_dim=64),
    Point("queries", 1, 5, 90, heads=4, kv_heads=1),
    Point("ragged", 3, 1, 150, ragged=True, heads=8, kv_heads=2, head_dim=64),
    Point("ragged_page_16", 3, 2, 150, True, 16, heads=8, kv_heads=2, head_dim=64),
)


PAGE_SIZE = 64  # for FlashInfer, where a point has none


class Cache(points.Case):
    """The tensors of a point."""

    rate, unit = "gigabytes_per_second", 1e9
    clean = True  # what the cache writes back would count as time of the call

    def __init__(self, point, device):
        torch.manual_seed(1)
        self.point = point
        options = {"dtype": torch.bfloat16, "device": device}
        self.q = torch.randn(point.batch, point.heads, point.length_q, point.head_dim, **options)
        most = -(-point.length_k // point.page_size) if point.page_size else 1
        rows = point.page_size or point.length_k
        shape = (point.batch * most, point.kv_heads, rows, point.head_dim)
        # As caches lie: [pages or batch, length, kv_heads, head_dim].
        self.k, self.v = (
            torch.randn(shape[0], shape[2], shape[1], shape[3], **options).transpose(1, 2)
            for _ in range(2)
        )
        numbers = {"dtype": torch.int32, "device": device}
        self.lengths = torch.tensor(point.lengths(), **numbers) if point.ragged else None
        self.table = None
        if point.page_size:
            order = torch.randperm(point.batch * most).reshape(point.batch, most)
            self.table = order.to(**numbers).contiguous()

    def sequence(self, b):
        """q, k and v of a sequence alone."""
        length = self.point.lengths()[b]
        q = self.q[b : b + 1]
        if self.table is None:
            return q, self.k[b : b + 1, :, :length], self.v[b : b + 1, :, :length]
        pages = self.table[b].long()
        k, v = (x[pages].transpose(0, 1).flatten(1, 2)[None, :, :length] for x in (self.k, self.v))
        return q, k, v

    def ours(self, library):
        options = {"lengths_k": self.lengths, "block_table": self.table}
        call, o, _ = library.prepare_decode(
            self.q, self.k, self.v, length_k=self.point.length_k, **options
        )
        return lambda: (call(), o)[1]

    def flash_3(self):
        """FlashAttention-3 with its own choice of splits; None when it is not there."""
        if not hasattr(torch.ops.flash_attn_3, "fwd"):
            return None
        q, k, v = (x.transpose(1, 2) for x in (self.q, self.k, self.v))
        options = {"is_causal": False, "num_splits": 0}
        if self.lengths is not None:
            options["seqused_k"] = self.lengths
        if self.table is not None:
            options["page_table"] = self.table
        return lambda: torch.ops.flash_attn_3.fwd(q, k, v, **options)[0].transpose(1, 2)

    def flashinfer(self):
        """FlashInfer, planned ahead; None when it is not there. It reads pages, so without a block
        table they are neighbouring rows."""
        if not peers.version_of("flashinfer-python"):
            return None
        library, point = importlib.import_module("flashinfer"), self.point
        size = point.page_size or PAGE_SIZE
        most = -(-point.length_k // size)
        numbers = {"dtype": torch.int32, "device": self.q.device}
        table = self.table
        if table is None:
            table = torch.arange(point.batch * most, **numbers).reshape(point.batch, most)
        lengths = torch.tensor(point.lengths())
        pages = (lengths + size - 1) // size
        begins = torch.cat([torch.zeros(1, dtype=torch.int64), pages.cumsum(0)]).to(**numbers)
        indices = torch.cat([table[b, : int(n)] for b, n in enumerate(pages)])
        last = ((lengths - 1) % size + 1).to(**numbers)
        sizes = (point.heads, point.kv_heads, point.head_dim)
        k, v = (x.transpose(1, 2).reshape(-1, size, *sizes[1:]) for x in (self.k, self.v))
        workspace = torch.empty(1 << 28, dtype=torch.uint8, device=self.q.device)
        types = {"q_data_type": self.q.dtype, "kv_data_type": self.k.dtype}
        if point.length_q == 1:
            wrapper = library.BatchDecodeWithPagedKVCacheWrapper(workspace, use_tensor_cores=True)
            wrapper.plan(begins, indices, last, *sizes, size, **types)
            q = self.q[:, :, 0].contiguous()
            return lambda: wrapper.run(q, (k, v)).unsqueeze(2)
        wrapper = library.BatchPrefillWithPagedKVCacheWrapper(workspace)
        rows = torch.arange(point.batch + 1, **numbers) * point.length_q
        wrapper.plan(rows, begins, indices, last, *sizes, size, causal=False, **types)
        q = self.q.transpose(1, 2).flatten(0, 1).contiguous()
        shape = (point.batch, point.length_q, point.heads, point.head_dim)
        return lambda: wrapper.run(q, (k, v)).reshape(shape).transpose(1, 2)

    def others(self):
        found = {FLASH_3: self.flash_3, FLASHINFER: self.flashinfer}
        if self.lengths is None and self.table is None:
            for name in (FLASH_2, CUDNN):
                call = peers.backend_call(name, self.q, self.k, self.v, False)
                found = {name: lambda call=call: call, **found}
        return found

    def differences(self, o):
        """Of the first and the last sequence."""
        return [
            o[b : b + 1].double() - attention_in_float64(*self.sequence(b), False)[0]
            for b in {0, self.point.batch - 1}
        ]

    def work(self):
        return self.point.bytes()


def print_times(rows):
    """A line for each point: GB/s of each backend, and our microseconds."""
    found_points = points_in(rows)
    backends = list(headings_in(rows))
    names = ["us", *(HEADINGS[backend] for backend in backends), "x best", "best"]
    cells = [["point", "B", "queries", "keys", "page", *names]]
    for of in found_points:
        row, found = of[OURS], ratio(of)
        length = f"{row['length_k'] // 8}-{row['length_k']}" if row["ragged"] else row["length_k"]
        line = [row["group"], row["batch"], row["length_q"], length, row["page_size"] or "-"]
        line.append(f"{1e3 * row['milliseconds']:.1f}")
        line += [
            f"{of[name]['gigabytes_per_second']:.0f}" if name in of else "-" for name in backends
        ]
        cells.append(line + ([f"{found[0]:.3f}", HEADINGS[found[1]]] if found else ["-", "-"]))
    print(
        "GB/s, and microseconds of the lesson; - means not supported, or not measured. "
        "x best: our speed over that of the fastest other."
    )
    print("\n".join(records.aligned(cells, 1)))


def main():
    args = points.parser_of(__doc__).parse_args()
    return points.run(
        args, lambda _: Library(args.library), GOALS, lambda _: SMALL, Cache, print_times
    )


if __name__ == "__main__":
    exit_with(main)
