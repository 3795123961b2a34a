"""Problems that the examples check and time, and how they are checked."""

import math
import typing

from common.bench.command import Failure
from common.bench.peers import BACKENDS, torch
from common.bench.tables import figures

LENGTHS = [512 << i for i in range(6)]  # in 16 bits
TOKENS = 16384  # of what is timed: batch * length


def name_of(dtype):
    return str(dtype).rsplit(".", 1)[-1]


class Problem(typing.NamedTuple):
    """Sizes to check. Without a head_dim_v, v has as many columns as q."""

    dtype: object
    shape: tuple  # [batch, heads, length_q, head_dim] of q
    kv_heads: int
    length_k: int
    length_first: bool  # in memory: [batch, length, heads, head_dim]
    causal: bool
    head_dim_v: int = None
    dropout: float = 0.0

    HEADING = f"{'type':9}{'q':>20}{'k':>12} {'first':7}{'causal':7}"

    def tensors(self, device):
        """q, k and v, [batch, heads, length, head_dim]."""
        batch, heads, length_q, head_dim = self.shape

        def make(n, length, columns):
            order = (length, n) if self.length_first else (n, length)
            x = torch.randn((batch, *order, columns), device=device).to(self.dtype)
            return x.transpose(1, 2) if self.length_first else x

        q, k = make(heads, length_q, head_dim), make(self.kv_heads, self.length_k, head_dim)
        return q, k, make(self.kv_heads, self.length_k, self.head_dim_v or head_dim)

    def backends(self):
        """Those that can be asked: PyTorch's causal mask is another one when lengths differ, and
        its dropout has another random sequence."""
        same_mask = not self.causal or self.shape[2] == self.length_k
        return BACKENDS if same_mask and not self.dropout else ()

    def first(self):
        return "length" if self.length_first else "heads"

    def text(self):
        q, k = "x".join(map(str, self.shape)), f"{self.kv_heads}x{self.length_k}"
        q += f"/{self.head_dim_v}" if self.head_dim_v else ""
        causal = "yes" if self.causal else "no"
        return f"{name_of(self.dtype):9}{q:>20}{k:>12} {self.first():7}{causal:7}"

    def row(self, backend, largest_error, rms_error, **more):
        """For the record."""
        sizes = dict(zip(("batch", "heads", "length_q", "head_dim"), self.shape))
        sizes |= {"kv_heads": self.kv_heads, "length_k": self.length_k}
        sizes["head_dim_v"] = self.head_dim_v or self.shape[3]
        kind = {"type": name_of(self.dtype), "first": self.first(), "causal": self.causal}
        errors = {"largest_error": largest_error, "rms_error": rms_error}
        return {"what": "error", "backend": backend, **more, **kind, **sizes, **errors}


def problems_to_check(small):
    """All types, masks and orders in memory for some sizes."""
    shapes = [  # [batch, heads, length_q, head_dim], kv_heads, length_k, head_dim_v
        ((2, 4, 70, 64), 4, 70) if small else ((2, 8, 1000, 64), 8, 1000),
        ((1, 4, 65, 128), 2, 65) if small else ((2, 8, 777, 128), 2, 777),
        ((1, 2, 33, 40), 1, 90) if small else ((2, 4, 333, 40), 1, 900),
        ((1, 1, 20, 256), 1, 20) if small else ((1, 4, 500, 256), 4, 500),
        ((1, 2, 30, 192), 1, 40, 128) if small else ((1, 8, 600, 192), 4, 600, 128),
    ]
    return [
        Problem(dtype, *sizes[:3], length_first, causal, *sizes[3:])
        for dtype in (torch.float32, torch.float16, torch.bfloat16)
        for sizes in shapes
        for length_first in (False, True)
        for causal in (False, True)
    ]


class Point(typing.NamedTuple):
    """What is timed: as many queries as keys, in several types if they are to alternate."""

    group: str
    types: tuple
    batch: int
    heads: int
    kv_heads: int
    length: int
    head_dim: int
    head_dim_v: int
    causal: bool

    def problem(self, dtype):
        shape = (self.batch, self.heads, self.length, self.head_dim)
        of = (self.kv_heads, self.length, False, self.causal, self.head_dim_v)
        return Problem(dtype, shape, *of)

    def name(self):
        return f"{self.group} {'causal' if self.causal else 'full'} {self.length}"

    def label(self, backend, dtype):
        """What a record says of a call. Old records lack group, kv_heads and head_dim_v."""
        fields = self._asdict()
        head = {"backend": backend, "group": fields.pop("group"), "type": name_of(dtype)}
        del fields["types"]
        return {**head, **fields}

    def flops(self, matmuls):
        """Of so many matmuls of length * length * (head_dim, head_dim_v). Under the mask half of
        them count, as in the literature."""
        of_d, of_d_v = matmuls
        columns = of_d * self.head_dim + of_d_v * self.head_dim_v
        size = self.batch * self.heads * self.length**2 * columns
        return 2 * size / (2 if self.causal else 1)


# What is timed, by the names that --points takes, each with and without the mask: (types, batch *
# length or None for batch 1, lengths, heads, kv_heads, head_dim); (head_dim, head_dim_v) where they
# differ, as in DeepSeek's latent attention.
FEW = (2048, 4096, 8192, 16384)  # with few heads of K and V
RAGGED = (300, 777, 3000)  # no multiples of a tile
BFLOAT16, FLOAT32, BOTH = ("bfloat16",), ("float32",), ("bfloat16", "float16")
GROUPS = {
    "d64": (BFLOAT16, TOKENS, LENGTHS, 32, 32, 64),
    "d128": (BFLOAT16, TOKENS, LENGTHS, 16, 16, 128),
    "d96": (BFLOAT16, TOKENS, (4096,), 16, 16, 96),
    "d192": (BFLOAT16, TOKENS, (4096,), 8, 8, 192),
    "d192_v128": (BFLOAT16, TOKENS, (4096,), 16, 16, (192, 128)),
    "d256": (BFLOAT16, TOKENS, (1024, 4096, 16384), 8, 8, 256),
    "gqa": (BFLOAT16, TOKENS, (2048, 8192), 32, 8, 128),
    "mqa_d64": (BFLOAT16, None, FEW, 32, 1, 64),
    "mqa_d128": (BFLOAT16, None, FEW, 32, 1, 128),
    "gqa8_d64": (BFLOAT16, None, FEW, 8, 1, 64),
    "gqa8_d128": (BFLOAT16, None, FEW, 8, 1, 128),
    "gqa32_d64": (BFLOAT16, None, FEW, 32, 8, 64),
    "gqa32_d128": (BFLOAT16, None, FEW, 32, 8, 128),
    "lengths_d64": (BFLOAT16, TOKENS, RAGGED, 32, 32, 64),
    "lengths_d128": (BFLOAT16, TOKENS, RAGGED, 16, 16, 128),
    "small": (BFLOAT16, 1024, (1024,), 16, 16, 128),
    "float32_d64": (FLOAT32, 4 * 1024, (1024,), 16, 16, 64),
    "float32_d128": (FLOAT32, 4 * 4096, (4096,), 16, 16, 128),
    "types_d64": (BOTH, TOKENS, LENGTHS, 32, 32, 64),
    "types_d128": (BOTH, TOKENS, LENGTHS, 16, 16, 128),
}
SETS = {  # of groups
    "goals": ("d64", "d128"),
    "shapes": ("d96", "d192", "d192_v128", "d256", "gqa", "small", "float32_d64", "float32_d128"),
    "few_heads": ("mqa_d64", "mqa_d128", "gqa8_d64", "gqa8_d128", "gqa32_d64", "gqa32_d128"),
    "lengths": ("lengths_d64", "lengths_d128"),
    "types": ("types_d64", "types_d128"),
}


def points_of(names):
    """The points of groups and sets, "goals,gqa", each once."""
    groups = []
    for name in names.split(","):
        if name not in GROUPS and name not in SETS:
            allowed = ", ".join([*SETS, *GROUPS])
            raise Failure(f"there are no points '{name}'; allowed are {allowed}")
        groups += SETS.get(name, (name,))
    return [
        Point(group, types, (tokens or length) // length, heads, kv_heads, length, *columns, causal)
        for group in dict.fromkeys(groups)
        for types, tokens, lengths, heads, kv_heads, head_dim in [GROUPS[group]]
        for columns in [head_dim if isinstance(head_dim, tuple) else (head_dim, head_dim)]
        for causal in (False, True)
        for length in lengths
    ]


# ---- What both examples check: errors against float64, and the same bits from every launch.


def visible(q, k, causal):
    """[length_q, length_k]: which keys a query sees."""
    length_q, length_k = q.shape[2], k.shape[2]
    ones = torch.ones(length_q, length_k, dtype=torch.bool, device=q.device)
    return ones.tril(length_k - length_q) if causal else ones


def for_all_heads(x, heads):
    """Keys or values, repeated for the query heads that share them."""
    return x.repeat_interleave(heads // x.shape[1], dim=1)


def largest(tensor):
    return tensor.abs().max().item()


def rms(tensor):
    return tensor.square().mean().sqrt().item()


def check_problems(example, device):
    """Prints errors against float64. Returns rows for the record, and whether all of ours are
    small enough."""
    torch.manual_seed(1)
    small = device == "cpu"
    columns = (*example.checked, *BACKENDS)
    print(example.explanation)
    print(Problem.HEADING + example.label_heading + "".join(f"{c:>20}" for c in columns))
    rows, good = [], True
    for seed, problem in enumerate(problems_to_check(small) + example.more_problems(small)):
        for label, errors, objection, fields in example.errors(problem, device, seed):
            most = {name: error for name, (error, _) in errors.items()}
            print(problem.text() + label + figures(most, columns, ".2e") + objection)
            rows += [problem.row(name, *of, **fields) for name, of in errors.items()]
            good = good and not objection
    return rows, good


def check_graphs_and_gpus(same_call):
    """Prints whether calls on each GPU, plain and replayed as a CUDA graph, give the same bits.
    Returns whether they do.

    same_call(device) gives a call on tensors there and its outputs, each time with the same inputs.
    """
    good, expected = True, None
    for gpu in range(torch.cuda.device_count()):
        call, outputs = same_call(f"cuda:{gpu}")
        with torch.cuda.device(gpu):
            graph = torch.cuda.CUDAGraph()
            # A stream of its own: the default one is on the first GPU.
            with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
                call()
        for name, launch in (("CUDA graph", graph.replay), ("plain call", call)):
            for output in outputs:
                output.fill_(math.nan)
            launch()  # the plain call with another GPU as the current one
            torch.cuda.synchronize(gpu)
            bits = [output.cpu() for output in outputs]
            expected = bits if expected is None else expected
            same = all(torch.equal(a, b) for a, b in zip(bits, expected))  # false for NaN
            verdict, what = ("PASS", "the same") if same else ("FAIL", "other")
            print(f"{verdict}  {name} on GPU {gpu}: {what} bits")
            good = good and same
    return good
