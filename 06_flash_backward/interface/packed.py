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

import argparse
import importlib
import statistics
import sys
import typing

if __package__ != "06_flash_backward.interface":
    print(
        "packed.py: start it as a module, in the repository's root: "
        "python3 -m 06_flash_backward.interface.packed",
        file=sys.stderr,
    )
    sys.exit(2)

from common.bench import peers
from common.bench.checks import largest
from common.bench.command import Failure, Skipped, exit_with
from common.bench.peers import FLASH_3, HEADINGS, OURS
from common.bench.problems import name_of
from common.bench.program import record_head, writing
from common.bench.pytorch import torch
from common.bench.timing import clock_and_power, percentiles, time_in_turn
from common.data import records
from common.data.files import check_writable, write_file

from .example import FACTOR, Libraries, textbook

forward_interface = importlib.import_module("05_flash_forward.interface.flash_attention")

DENSE = "same length"  # ours, on sequences of the mean length
PASSES = ("forward", "backward")


class Point(typing.NamedTuple):
    """Sequences, each with as many keys as queries."""

    group: str
    lengths: tuple
    causal: bool = True
    heads: int = 16
    kv_heads: int = 16
    head_dim: int = 128

    def mean(self):
        return sum(self.lengths) // len(self.lengths)

    def flops(self, of, lengths):
        """Of two matmuls forward, five backward."""
        pairs = sum(n * (n + 1) // 2 if self.causal else n * n for n in lengths)
        return (4 if of == "forward" else 10) * self.heads * self.head_dim * pairs


DOCUMENTS = (500, 900, 1300, 2000, 2500, 3000, 3500, 4000)
MESSAGES = tuple(100 + 130 * i % 900 for i in range(64))
POINTS = (
    Point("documents", DOCUMENTS),
    Point("documents_full", DOCUMENTS, causal=False),
    Point("messages_gqa", MESSAGES, heads=32, kv_heads=8),
)
SMALL = (
    Point("small", (40, 0, 1, 75), heads=4, kv_heads=2, head_dim=64),
    Point("small_full", (40, 0, 1, 75), False, 2, 1),
)


def prepare_backward(libraries, forward_call, d_o):
    """A call of fa_backward_packed() for what a call of Library.prepare_packed() computed; d_o lies
    like q. Returns (call, (d_q, d_k, d_v)), which lie like q, k and v."""
    q, k, v, o, lse, *_ = forward_call.tensors
    saved = tuple(map(forward_interface.as_batch, (q, k, v, o))) + (lse[None],)
    call, gradients = libraries.prepare(
        forward_call.struct,
        saved,
        forward_interface.as_batch(d_o),
        kind="_packed",
        given=(forward_call.packed,),
    )
    call.forward = forward_call
    return call, tuple(map(forward_interface.of_batch, gradients))


class Case:
    """The tensors of a point: [tokens, heads, head_dim]."""

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
        """{pass: call}; a call returns o, or the gradients."""
        forward, o, _ = libraries.forward.prepare_packed(
            self.q, self.k, self.v, self.cu_seqlens, self.cu_seqlens, self.point.causal
        )
        forward()
        backward, gradients = prepare_backward(libraries, forward, self.d_o)
        return {
            "forward": lambda: (forward(), (o,))[1],
            "backward": lambda: (backward(), gradients)[1],
        }

    def dense(self, libraries):
        """The same of sequences that all have the mean length."""
        point = self.point
        shape = len(point.lengths), point.mean()

        def like(x):
            return torch.randn(*shape, *x.shape[1:], dtype=x.dtype, device=x.device).transpose(1, 2)

        q, k, v, d_o = (like(x) for x in (self.q, self.k, self.v, self.d_o))
        forward, o, lse = libraries.forward.prepare(q, k, v, point.causal)
        forward()
        backward, _ = libraries.prepare(forward.struct, (q, k, v, o, lse), d_o, False)
        return {"forward": forward, "backward": backward}

    def flash_3(self):
        """FlashAttention-3; nothing when it is not there."""
        if not hasattr(torch.ops.flash_attn_3, "fwd"):
            return {}
        longest = max(self.point.lengths)
        options = {
            "cu_seqlens_q": self.cu_seqlens,
            "cu_seqlens_k": self.cu_seqlens,
            "max_seqlen_q": longest,
            "max_seqlen_k": longest,
            "is_causal": self.point.causal,
        }
        of = self.q, self.k, self.v

        def forward():
            return torch.ops.flash_attn_3.fwd(*of, num_splits=1, **options)

        o, lse, *_ = forward()
        names = dict(zip(("dq", "dk", "dv"), (torch.empty_like(x) for x in of)))

        def backward():
            torch.ops.flash_attn_3.bwd(self.d_o, *of, o, lse, **names, **options)
            return tuple(names.values())

        return {"forward": lambda: forward()[:1], "backward": backward}

    def sequence(self, i):
        """q, k, v and d_o of a sequence alone, as batches."""
        begin = sum(self.point.lengths[:i])
        rows = slice(begin, begin + self.point.lengths[i])
        of = (self.q, self.k, self.v, self.d_o)
        return rows, [forward_interface.as_batch(x[rows]) for x in of]


def works(name, call):
    """Whether a peer takes a call; prints why not."""
    try:
        call()
        return True
    except Exception as error:  # what a peer raises is not known
        if name != FLASH_3:
            raise
        print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0][:200]}")
        return False


def check_point(point, libraries, device):
    """Errors of the two shortest sequences, as often as those of the textbook in the type. Returns
    rows for the record, and whether they are right."""
    case = Case(point, device)
    calls = case.ours(libraries)
    outputs = [x for of in PASSES for x in calls[of]()]
    rows, good = [], True
    some = [i for i in range(len(point.lengths)) if point.lengths[i] > 0]
    for i in sorted(some, key=lambda i: point.lengths[i])[:2]:
        at, (q, k, v, d_o) = case.sequence(i)

        def textbook_of(kind, inputs=(q, k, v), d_o=d_o):
            leaves = [x.to(kind).requires_grad_() for x in inputs]
            o = textbook(*leaves, point.causal)
            return o.detach(), *torch.autograd.grad(o, leaves, d_o.to(kind))

        exact, plain = textbook_of(torch.float64), textbook_of(torch.bfloat16)
        for name, x, e, p in zip(("o", "d_q", "d_k", "d_v"), outputs, exact, plain):
            error = largest(forward_interface.as_batch(x[at]).double() - e)
            allowed = FACTOR * largest(p.double() - e) + torch.finfo(torch.bfloat16).eps * largest(
                e
            )
            right = error <= allowed  # false for NaN
            good = good and right
            print(
                f"{point.group:16}{point.lengths[i]:6} {name:4} largest error {error:.2e}"
                + ("" if right else f"  too large: {allowed:.2e} is allowed")
            )
            fields = {"group": point.group, "length": point.lengths[i], "output": name}
            rows.append({"what": "error", **fields, "largest_error": error, "allowed": allowed})
    return rows, good


def time_point(point, libraries, repeats, seconds):
    """Rows for the record; the calls of a pass alternate."""
    case = Case(point, "cuda")
    found = {OURS: case.ours(libraries), DENSE: case.dense(libraries), FLASH_3: case.flash_3()}
    rows = []
    for of in PASSES:
        calls = {name: calls[of] for name, calls in found.items() if of in calls}
        calls = {name: call for name, call in calls.items() if works(name, call)}
        for name, rounds in time_in_turn(calls, repeats, seconds).items():
            milliseconds = statistics.median(rounds)
            lengths = [point.mean()] * len(point.lengths) if name == DENSE else point.lengths
            rows.append(
                {
                    "what": "time",
                    "backend": name,
                    "type": name_of(torch.bfloat16),
                    **point._asdict(),
                    "group": f"{point.group}_{of}",
                    "lengths": len(point.lengths),
                    "mean_length": point.mean(),
                    "milliseconds": round(milliseconds, 6),
                    "milliseconds_5_95": [round(x, 6) for x in percentiles(rounds, (5, 95))],
                    "tflops": round(point.flops(of, lengths) / milliseconds / 1e9, 1),
                    "rounds": len(rounds),
                    **clock_and_power(),
                }
            )
    torch.cuda.empty_cache()
    return rows


def print_times(rows):
    """A line for each point and pass: TFLOP/s."""
    cells = [["point", "sequences", "mean", "heads", "D", "mask", "lesson", "same length"]]
    cells[0] += [HEADINGS[FLASH_3], "x same", "x flash 3"]
    lines = {}
    for row in rows:
        lines.setdefault(row["group"], {})[row["backend"]] = row
    for group, line in lines.items():
        row = line[OURS]
        speeds = [line[name]["tflops"] if name in line else None for name in (OURS, DENSE, FLASH_3)]
        ratios = [f"{speeds[0] / x:.3f}" if x else "-" for x in speeds[1:]]
        mask = "causal" if row["causal"] else "full"
        heads = f"{row['heads']}/{row['kv_heads']}"
        about = [group, row["lengths"], row["mean_length"], heads, row["head_dim"], mask]
        cells.append(about + [f"{x:.1f}" if x else "-" for x in speeds] + ratios)
    print(
        "TFLOP/s. same length: our kernels on as many sequences of the mean length; "
        "x: our speed over that."
    )
    print("\n".join(records.aligned([[str(x) for x in line] for line in cells], 1)))


def print_record(path):
    """The times of a record, and where they are from."""
    record = records.read(path)
    print_times(records.rows_with(record, what="time"))
    print("\n".join(records.source_lines(record)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--forward", metavar="PATH", help="lesson 05's library")
    parser.add_argument("--library", metavar="PATH", help="this lesson's library")
    parser.add_argument("--flash-attention-3", metavar="PATH", help="as in example.py")
    parser.add_argument("--repeats", type=int, default=20, help="as in example.py")
    parser.add_argument("--seconds", type=float, default=2, help="as in example.py")
    parser.add_argument("--json", metavar="FILE", help="write a record of what was measured")
    parser.add_argument("--commit", default="", help="the commit of a copy without git")
    parser.add_argument("--table", metavar="FILE", help="print a record, and nothing else")
    args = parser.parse_args()
    if args.table:
        print_record(args.table)
        return 0
    if args.library is None or args.forward is None:
        raise Failure("which libraries are to be called? Give --forward and --library")
    if torch is None:
        raise Skipped("PyTorch is needed, and this Python has none")
    libraries = Libraries(args.forward, args.library)
    on_gpu = libraries.runs_on == "gpu"
    if on_gpu and not torch.cuda.is_available():
        raise Failure(f"{args.library} is for GPUs, and PyTorch finds none")
    found = peers.load(args.flash_attention_3) if on_gpu else {}
    if args.json:
        with writing(args.json):
            check_writable(args.json)
    rows, good = [], True
    for point in POINTS if on_gpu else SMALL:
        of_point, right = check_point(point, libraries, "cuda" if on_gpu else "cpu")
        rows, good = rows + of_point, good and right
    if on_gpu:
        timed = [
            row for x in POINTS for row in time_point(x, libraries, args.repeats, args.seconds)
        ]
        print()
        print_times(timed)
        rows += timed
    if args.json:
        with writing(args.json):
            write_file(args.json, records.text_of(record_head(on_gpu, args.commit, found), rows))
    return 0 if good else 1


if __name__ == "__main__":
    exit_with(main)
