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
import itertools
import typing

from common.bench import peers, points
from common.bench.command import exit_with
from common.bench.peers import CUDNN, FLASH_2, FLASH_3, FLASHINFER, HEADINGS, OURS, torch
from common.bench.tables import headings_in, points_in, ratio
from common.bench.timing import nvidia_smi
from common.data import records

from .example import attention_in_float64
from .flash_attention import Library, Refused


class Point(typing.NamedTuple):
    """A cache, and the queries that read it. Without a page_size it has no pages. `lengths`: given,
    although all are length_k; `ragged`: from an eighth of length_k to length_k, in random order.
    `prompts`: so many sequences have length_q queries, the others one; all are packed. `tree`: the
    queries are draft tokens. `prefix`: so many first keys are the same pages in all sequences, and
    are read once for all; "whole" reads them for each sequence. `eight_bits`: the cache is in
    e4m3."""

    group: str
    batch: int
    length_q: int
    length_k: int
    ragged: bool = False
    page_size: int = 0
    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    causal: bool = False
    lengths_given: bool = False
    prompts: int = 0
    window: int = 0
    part_keys: int = 0
    tree: bool = False
    prefix: int = 0
    eight_bits: bool = False

    def queries(self):
        """Of each sequence."""
        if not self.prompts:
            return [self.length_q] * self.batch
        return [self.length_q] * self.prompts + [1] * (self.batch - self.prompts)

    def lengths(self):
        """Keys of each sequence."""
        if not self.ragged:
            return [self.length_k] * self.batch
        generator = torch.Generator().manual_seed(1)
        least = max(1, self.length_k // 8)
        drawn = torch.randint(least, self.length_k + 1, (self.batch,), generator=generator)
        return [max(n, q) if self.prompts else n for n, q in zip(drawn.tolist(), self.queries())]

    def bytes(self):
        """What must be read and written at least; q and o have 16 bits."""
        pairs = zip(self.queries(), self.lengths())
        seen = [min(n, self.window + q - 1 if self.window else n) for q, n in pairs]
        of_keys = 2 * (sum(seen) - self.prefix * (self.batch - 1)) * self.kv_heads
        of_keys /= 2 if self.eight_bits else 1
        return 2 * self.head_dim * (of_keys + 2 * self.heads * sum(self.queries()))

    def flops(self):
        """Of both matmuls; lengths are at least the queries'."""
        pairs = zip(self.queries(), self.lengths())
        scores = sum(q * (2 * k - (q - 1 if self.causal else 0)) // 2 for q, k in pairs)
        return 4 * self.head_dim * self.heads * scores


GOALS = (
    Point("b1_32k", 1, 1, 32768),
    Point("b1_128k", 1, 1, 131072),
    Point("b16_8k", 16, 1, 8192),
    Point("b64_4k", 64, 1, 4096),
    Point("q16_b4_32k", 4, 16, 32768),
    Point("ragged", 64, 1, 8192, ragged=True),
    Point("ragged_page_16", 64, 1, 8192, ragged=True, page_size=16),
    Point("ragged_page_64", 64, 1, 8192, ragged=True, page_size=64),
    Point("b16_8k_e4m3", 16, 1, 8192, eight_bits=True),
    Point("ragged_page_64_e4m3", 64, 1, 8192, ragged=True, page_size=64, eight_bits=True),
    Point("chunk_q16_b4_32k", 4, 16, 32768, causal=True, lengths_given=True),
    Point("chunk_q256_b1_32k", 1, 256, 32768, causal=True),
    Point("chunk_q2048_b8_8k", 8, 2048, 8192, causal=True),
    Point("mix_prompt", 64, 2048, 8192, True, 64, causal=True, prompts=1),
    Point("mix_prompts", 64, 512, 4096, True, 16, causal=True, prompts=8),
    Point("mix_chunks", 128, 256, 16384, True, 64, causal=True, prompts=4),
    *(Point(f"window_{n}", 16, 1, 8192, page_size=64, window=n) for n in (128, 1024)),
    *(Point(f"parts_{n}", 64, 1, 8192, True, 64, part_keys=n) for n in (0, 512, 2048)),
    *(Point(f"parts_b1_{n}", 1, 1, 32768, page_size=64, part_keys=n) for n in (0, 512, 2048)),
    Point("tree_q16_b16_8k", 16, 16, 8192, page_size=64, tree=True),
    Point("prefix_b64", 64, 1, 8704, page_size=64, prefix=8192),
)
GRID = tuple(
    Point(f"grid_q{q}_b{b}_p{page}", b, q, k, page_size=page, causal=True)
    for b, k in ((1, 32768), (8, 8192), (16, 8192))
    for page in (0, 16, 64, 128)
    for q in (16, 64, 256, 1024, 2048)
)
SMALL = (
    Point("one_query", 2, 1, 150, heads=8, kv_heads=2, head_dim=64),
    Point("queries", 1, 5, 90, heads=4, kv_heads=1),
    Point("ragged", 3, 1, 150, ragged=True, heads=8, kv_heads=2, head_dim=64),
    Point("ragged_page_16", 3, 2, 150, True, 16, heads=8, kv_heads=2, head_dim=64),
    Point("e4m3", 3, 1, 150, True, 16, heads=8, kv_heads=2, head_dim=64, eight_bits=True),
    Point("chunks", 2, 40, 150, page_size=16, heads=4, kv_heads=2, head_dim=64, causal=True),
    Point("mix", 3, 70, 150, True, 16, heads=4, kv_heads=2, head_dim=64, causal=True, prompts=1),
    Point("window", 2, 3, 150, page_size=16, heads=4, kv_heads=2, head_dim=64, window=20),
    Point("parts", 3, 1, 150, True, heads=4, kv_heads=2, head_dim=64, part_keys=128),
    Point("tree", 2, 5, 150, page_size=16, heads=4, kv_heads=2, head_dim=64, tree=True),
    Point("prefix", 3, 2, 150, page_size=16, heads=4, kv_heads=2, head_dim=64, prefix=96),
)
# Kernels that are timed beside the chosen one, for more than one query: their fa_decode_kernel.
KERNELS = {"forward": 1, "even": 4, "paged": 5, "wgmma": 6, "chunked": 7}


PAGE_SIZE = 64  # for FlashInfer, where a point has none
SCALE = 2**-6  # of codes, which are up to 448


class Cache(points.Case):
    """The tensors of a point."""

    rate, unit = "gigabytes_per_second", 1e9
    clean = True  # what the cache writes back would count as time of the call
    own = (OURS, "whole", *KERNELS)
    headings = {**HEADINGS, **{name: name for name in ("whole", *KERNELS)}}

    def __init__(self, point, device):
        torch.manual_seed(1)
        self.point = point
        options = {"dtype": torch.bfloat16, "device": device}
        numbers = {"dtype": torch.int32, "device": device}
        self.begins = [0, *itertools.accumulate(point.queries())]
        self.cu_seqlens = torch.tensor(self.begins, **numbers) if point.prompts else None
        shape = (point.batch, point.heads, point.length_q, point.head_dim)
        if point.prompts:
            shape = (1, point.heads, self.begins[-1], point.head_dim)
        self.q = torch.randn(shape, **options)
        if point.prefix:
            self.q = self.q.transpose(1, 2).contiguous().transpose(1, 2)
        self.tree = None
        if point.tree:  # each draft token follows the one before; they fit one word
            bits = 2 ** torch.arange(1, point.length_q + 1, **numbers) - 1
            self.tree = bits[:, None].repeat(point.batch, 1, 1)
        self.used = {}  # kernel and workspace of each of our calls
        most = -(-point.length_k // point.page_size) if point.page_size else 1
        rows = point.page_size or point.length_k
        shape = (point.batch * most, point.kv_heads, rows, point.head_dim)
        # As caches lie: [pages or batch, length, kv_heads, head_dim].
        self.k, self.v = (
            torch.randn(shape[0], shape[2], shape[1], shape[3], **options).transpose(1, 2)
            for _ in range(2)
        )
        self.codes, self.scales = (self.k, self.v), None
        if point.eight_bits:  # bfloat16 holds what they stand for
            self.codes = [(x / SCALE).to(torch.float8_e4m3fn) for x in (self.k, self.v)]
            self.k, self.v = (x.to(self.q.dtype) * SCALE for x in self.codes)
            self.scales = torch.full((1,), SCALE, dtype=torch.float32, device=device)
        given = point.ragged or point.lengths_given
        self.lengths = torch.tensor(point.lengths(), **numbers) if given else None
        self.table = None
        if point.page_size:
            order = torch.randperm(point.batch * most).reshape(point.batch, most)
            shared = point.prefix // point.page_size
            order[:, :shared] = order[0, :shared]
            self.table = order.to(**numbers).contiguous()

    def rows(self, x, b):
        """What q or o has of a sequence."""
        packed = self.cu_seqlens is not None
        return x[:, :, self.begins[b] : self.begins[b + 1]] if packed else x[b : b + 1]

    def sequence(self, b):
        """q, k and v of a sequence alone."""
        length = self.point.lengths()[b]
        q = self.rows(self.q, b)
        if self.table is None:
            return q, self.k[b : b + 1, :, :length], self.v[b : b + 1, :, :length]
        pages = self.table[b].long()
        k, v = (x[pages].transpose(0, 1).flatten(1, 2)[None, :, :length] for x in (self.k, self.v))
        return q, k, v

    def ours(self, library, kernel=0, name=OURS):
        self.library, point = library, self.point
        cache = dict(zip("kv", self.codes))
        options = {"lengths_k": self.lengths, "block_table": self.table}
        options |= {"cu_seqlens_q": self.cu_seqlens, "causal": point.causal, "kernel": kernel}
        options |= {"window": point.window, "part_keys": point.part_keys, "tree": self.tree}
        options |= {"length_k": point.length_k, "k_scales": self.scales, "v_scales": self.scales}
        if point.prefix and name == OURS:
            pages = point.prefix // point.page_size
            first = {"block_table": self.table[:1, :pages].contiguous(), "length_k": point.prefix}
            last = {"block_table": self.table[:, pages:].contiguous()}
            last["length_k"] = point.length_k - point.prefix
            call, o, _ = library.prepare_shared_prefix(self.q, cache | first, cache | last)
        else:
            call, o, _ = library.prepare_decode(self.q, **cache, **options)
        self.used[name] = {"kernel": call.kernel, "workspace_bytes": call.bytes}
        return lambda: (call(), o)[1]

    def named(self, name):
        """A kernel that is not chosen; None where it does not support the point."""
        try:
            return self.ours(self.library, KERNELS.get(name, 0), name)
        except Refused:
            return None

    def flash_3(self):
        """FlashAttention-3 with its own choice of splits; None when it is not there. Its queries
        have the type of the cache."""
        if not hasattr(torch.ops.flash_attn_3, "fwd") or self.point.tree:
            return None
        q, k, v = (x.transpose(1, 2) for x in (self.q, *self.codes))
        options = {"is_causal": self.point.causal, "num_splits": 0}
        if self.point.window:
            options |= {"window_size_left": self.point.window - 1, "window_size_right": 0}
        if self.point.eight_bits:
            q = (q / SCALE).to(k.dtype)
            of_heads = self.scales.expand(self.point.batch, self.point.kv_heads)
            names = ("q_descale", "k_descale", "v_descale")
            options |= dict.fromkeys(names, of_heads.contiguous())
        if self.lengths is not None:
            options["seqused_k"] = self.lengths
        if self.table is not None:
            options["page_table"] = self.table
        if self.cu_seqlens is None:
            return lambda: torch.ops.flash_attn_3.fwd(q, k, v, **options)[0].transpose(1, 2)
        options |= {"cu_seqlens_q": self.cu_seqlens, "max_seqlen_q": self.point.length_q}
        call = torch.ops.flash_attn_3.fwd
        return lambda: call(q[0], k, v, **options)[0].transpose(0, 1)[None]

    def flashinfer(self):
        """FlashInfer, planned ahead; None when it is not there. It reads pages, so without a block
        table they are neighbouring rows."""
        point = self.point
        other_mask = point.window or point.tree or self.cu_seqlens is not None
        if not peers.version_of("flashinfer-python") or other_mask:
            return None
        library = importlib.import_module("flashinfer")
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
        k, v = (x.transpose(1, 2).reshape(-1, size, *sizes[1:]) for x in self.codes)
        workspace = torch.empty(1 << 28, dtype=torch.uint8, device=self.q.device)
        types = {"q_data_type": self.q.dtype, "kv_data_type": k.dtype}
        scales = {"k_scale": SCALE, "v_scale": SCALE} if point.eight_bits else {}
        if point.length_q == 1:
            wrapper = library.BatchDecodeWithPagedKVCacheWrapper(workspace, use_tensor_cores=True)
            wrapper.plan(begins, indices, last, *sizes, size, **types)
            q = self.q[:, :, 0].contiguous()
            return lambda: wrapper.run(q, (k, v), **scales).unsqueeze(2)
        wrapper = library.BatchPrefillWithPagedKVCacheWrapper(workspace)
        rows = torch.arange(point.batch + 1, **numbers) * point.length_q
        causal = self.point.causal
        wrapper.plan(rows, begins, indices, last, *sizes, size, causal=causal, **types)
        q = self.q.transpose(1, 2).flatten(0, 1).contiguous()
        shape = (point.batch, point.length_q, point.heads, point.head_dim)
        return lambda: wrapper.run(q, (k, v)).reshape(shape).transpose(1, 2)

    def others(self):
        found = {FLASH_3: self.flash_3, FLASHINFER: self.flashinfer}
        if self.lengths is None and self.table is None and not self.point.eight_bits:
            # Their causal mask is aligned to the top left.
            for name in () if self.point.causal else (FLASH_2, CUDNN):
                call = peers.backend_call(name, self.q, self.k, self.v, False)
                found = {name: lambda call=call: call, **found}
        if self.point.prefix:
            found["whole"] = lambda: self.named("whole")
        if self.point.length_q > 1:
            found |= {name: lambda name=name: self.named(name) for name in KERNELS}
        return found

    def label(self, backend):
        return {**super().label(backend), **self.used.get(backend, {})}

    def time(self, calls, repeats, seconds):
        rows = super().time(calls, repeats, seconds)
        gpu = torch.cuda.get_device_properties(self.q.device)
        for row in rows:
            for mhz in nvidia_smi("clocks.max.sm").values():
                clocks = 1e3 * mhz * row["milliseconds"] * gpu.multi_processor_count
                row["flops_per_clock"] = round(self.point.flops() / clocks, 1)
        return rows

    def differences(self, o):
        """Of the first and the last sequence, and of these the first and the last head of K."""
        point, found = self.point, []
        group = point.heads // point.kv_heads
        causal = point.causal or point.tree or point.window > 0
        for b in {0, point.batch - 1}:
            q, k, v = self.sequence(b)
            for head in {0, point.kv_heads - 1}:
                of_q, of_k = slice(head * group, (head + 1) * group), slice(head, head + 1)
                own = q[:, of_q], k[:, of_k], v[:, of_k]
                exact, _ = attention_in_float64(*own, causal, point.window)
                found.append(self.rows(o, b)[:, of_q].double() - exact)
        return found

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
    print_choices(found_points)


def print_choices(found_points):
    """The chosen kernel beside those that were named, and the rates of a model of their times."""
    names = [name for name in KERNELS if any(name in of for of in found_points)]
    cells, fastest = [["point", "chosen", "time", *names, "x fastest", "MB"]], {}
    for of in found_points:
        named = {name: of[name]["milliseconds"] for name in names if name in of}
        if len(named) < 2:
            continue  # there was no choice
        ours = of[OURS]
        line = [ours["group"], ours["kernel"], f"{1e3 * ours['milliseconds']:.1f}"]
        line += [f"{1e3 * named[name]:.1f}" if name in named else "-" for name in names]
        line.append(f"{min(named.values()) / ours['milliseconds']:.3f}")
        cells.append([*line, f"{ours['workspace_bytes'] / 1e6:.1f}"])
        for name in named:
            half = "half " if ours["length_q"] * ours["heads"] <= 64 * ours["kv_heads"] else ""
            rate = of[name].get("flops_per_clock", 0)
            fastest[half + name] = max(fastest.get(half + name, 0), rate)
    if not fastest:
        return
    print("\nMicroseconds of the kernels of this lesson; MB: workspace of the chosen one.")
    print("\n".join(records.aligned(cells, 1)))
    print("\nFLOPs of an SM for each clock, the most over points; half: items of at most 64 rows.")
    rates = [[name, f"{rate:.0f}"] for name, rate in sorted(fastest.items())]
    print("\n".join(records.aligned([["kernel", "FLOPs"], *rates], 1)))


def main():
    args = points.parser_of(__doc__).parse_args()
    return points.run(
        args, lambda _: Library(args.library), GOALS + GRID, lambda _: SMALL, Cache, print_times
    )


if __name__ == "__main__":
    exit_with(main)
