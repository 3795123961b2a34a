"""Gradients of attention in PyTorch, through the C interfaces of lessons 05 and 06; checked and
timed beside PyTorch's.

    python3 -m 06_flash_backward.interface.example --forward
    BUILD/05_flash_forward/libflash_attention.so \\
        --library BUILD/06_flash_backward/libflash_attention_backward.so --check
    python3 -m 06_flash_backward.interface.example --forward ... --library ... --time
    --deterministic python3 -m 06_flash_backward.interface.example --forward ... --library ...
    --counters

Libraries for GPUs take CUDA tensors. Those for the CPU take tensors in the host's memory: they are
checked, on small tensors, but neither timed nor counted. Without the three: check and time for
GPUs, the check alone for the CPU. What is timed and counted is the backward pass alone.

Exit status: 0 all is well, 1 an error is too large, 2 it could not be done, 77 PyTorch is missing.
"""

import collections
import ctypes
import functools
import importlib
import math
import sys

if __package__ != "06_flash_backward.interface":
    print(
        "example.py: start it as a module, in the repository's root: "
        "python3 -m 06_flash_backward.interface.example",
        file=sys.stderr,
    )
    sys.exit(2)

from common.bench import peers
from common.bench.checks import check_graphs_and_gpus, for_all_heads, largest, rms, visible
from common.bench.command import Failure, exit_with
from common.bench.counters import count_problems
from common.bench.peers import BACKENDS, OURS, SAME_BITS
from common.bench.peers import OURS_SAME_BITS as DETERMINISTIC
from common.bench.problems import Problem, problems_to_check
from common.bench.program import parser_of, run
from common.bench.pytorch import torch
from common.bench.tables import figures, print_record
from common.bench.timing import time_points

# Lesson 05's side of the interface; a name that begins with a digit cannot stand in an import
# statement.
forward_interface = importlib.import_module("05_flash_forward.interface.flash_attention")

GRADIENTS = ("d_q", "d_k", "d_v")
FACTOR = 3  # of the acceptance rule, for gradients

Options = collections.namedtuple(
    "Options", ("causal", "dropout", "seed", "deterministic"), defaults=(False, 0.0, 0, False)
)


class Gradient(ctypes.Structure):
    """fa_gradient, field by field as in flash_attention_backward.h."""

    _fields_ = (
        [("size", ctypes.c_size_t), ("attention", forward_interface.Attention)]
        + [(name, ctypes.c_void_p) for name in ("d_o",) + GRADIENTS]
        + [(name + "_strides", forward_interface.Strides) for name in ("d_o",) + GRADIENTS]
        + [("workspace", ctypes.c_void_p), ("workspace_bytes", ctypes.c_size_t)]
        + [("deterministic", ctypes.c_int32)]
    )


def takes_rows(tensor):
    """Whether the interface takes a tensor as it lies: an alignment of 16 bytes, elements of rows
    side by side."""
    distances = [n for n, count in zip(tensor.stride()[:3], tensor.shape) if count > 1]
    bytes_apart = [n * tensor.element_size() for n in distances]
    return tensor.stride(3) == 1 and all(n % 16 == 0 for n in bytes_apart + [tensor.data_ptr()])


class Libraries(forward_interface.CLibrary):
    """libflash_attention_backward.so, and libflash_attention.so as `forward`."""

    def __init__(self, forward, backward):
        results = {"workspace_bytes": ctypes.c_size_t}
        super().__init__(backward, "fa_backward_", results)
        self.forward = forward_interface.Library(forward)
        if self.forward.runs_on != self.runs_on:
            raise Failure(
                f"{forward} is for the {self.forward.runs_on}, {backward} for the {self.runs_on}"
            )

    def prepare(self, attention, saved, d_o, deterministic):
        """A call for gradients. `attention` and `saved`, which is (q, k, v, o, lse), are of the
        forward pass. Returns (call, (d_q, d_k, d_v)), which lie like q, k and v. `call()` begins it
        on the stream that is
        current."""
        q, k, v, o, lse = saved
        if not takes_rows(d_o):  # PyTorch may give one number for all elements, for instance
            d_o = d_o.clone(memory_format=torch.contiguous_format)
        gradients = tuple(torch.empty_like(x) for x in (q, k, v))
        g = Gradient(
            size=ctypes.sizeof(Gradient), attention=attention, deterministic=int(deterministic)
        )
        for name, tensor in zip(("q", "k", "v", "o"), saved):
            forward_interface.place(g.attention, name, tensor)
        g.attention.lse = lse.data_ptr()
        for name, tensor in zip(("d_o",) + GRADIENTS, (d_o,) + gradients):
            forward_interface.place(g, name, tensor)
        with forward_interface.on_device_of(q):
            g.workspace_bytes = self.c.fa_backward_workspace_bytes(ctypes.byref(g))
        if g.workspace_bytes == 0:
            raise self.error()
        workspace = torch.empty(g.workspace_bytes, dtype=torch.uint8, device=q.device)
        g.workspace = workspace.data_ptr()

        def call():
            g.attention.stream = forward_interface.current_stream(q)
            if self.c.fa_backward(ctypes.byref(g)) != 0:
                raise self.error()

        call.struct, call.tensors = (
            g,
            (saved, d_o, gradients, workspace),
        )  # memory that g points to, as in lesson 05
        return call, gradients


# Refuses second derivatives, which the kernels do not compute.
once_differentiable = (
    torch.autograd.function.once_differentiable if torch else lambda function: function
)


class FlashAttention(torch.autograd.Function if torch else object):
    """softmax(q k^T / sqrt(head_dim)) v as one operation of PyTorch."""

    @staticmethod
    def forward(ctx, q, k, v, libraries, options):
        call, o, lse = libraries.forward.prepare(
            q, k, v, options.causal, None, options.dropout, options.seed
        )
        call()
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.libraries, ctx.options = libraries, options
        ctx.attention = call.struct  # sizes and options
        return o

    @staticmethod
    @once_differentiable
    def backward(ctx, d_o):
        call, gradients = ctx.libraries.prepare(
            ctx.attention, ctx.saved_tensors, d_o, ctx.options.deterministic
        )
        call()
        return *gradients, None, None


def textbook(q, k, v, causal, factors=None):
    """O by PyTorch's matmuls and softmax, each result rounded to the type. `factors` of the
    probabilities are those of dropout."""
    k, v = (for_all_heads(x, q.shape[1]) for x in (k, v))
    scores = (q @ k.transpose(2, 3)) * (1 / math.sqrt(q.shape[3]))
    probs = scores.masked_fill(~visible(q, k, causal), -math.inf).softmax(-1)
    return (probs if factors is None else probs * factors) @ v


def d_o_for(q, _, v):
    """A random gradient of o, which lies as o does."""
    return torch.randn_like(forward_interface.empty_as(q, v.shape[3]))


def gradients_of(o, inputs, d_o):
    return torch.autograd.grad(o, inputs, d_o.to(o.dtype))


def factors_of_dropout(libraries, q, length_k, dropout, seed):
    """[batch, heads, length_q, length_k]: 0, or 1 / (1 - dropout), as the kernels choose. Without
    scores all probabilities are the same, and where V has a single 1 in each column, each element
    of O is one probability."""
    batch, heads, _, head_dim = q.shape
    kept = []
    for first in range(0, length_k, head_dim):
        v = q.new_zeros(batch, heads, length_k, head_dim)
        count = min(head_dim, length_k - first)
        v[:, :, range(first, first + count), range(count)] = 1
        call, o, _ = libraries.forward.prepare(
            torch.zeros_like(q), torch.zeros_like(v), v, dropout=dropout, seed=seed
        )
        call()
        kept.append(o[..., :count] > 0)
    return torch.cat(kept, -1).double() / (1 - dropout)


def errors_of(gradients, exact):
    """(largest, rms) of each gradient's error."""
    return [(largest(off), rms(off)) for off in (g.double() - e for g, e in zip(gradients, exact))]


def objections(errors, plain, exact, dtype):
    """What the acceptance rule objects to, for each gradient; an empty text is none."""
    verdicts = []
    for (error, error_rms), (plain_error, plain_rms), e in zip(errors, plain, exact):
        floor = 2 * torch.finfo(dtype).eps
        # In float32 the order of sums counts as well: the kernels add one product after the other.
        allowed = FACTOR * plain_error + (4 * floor if dtype == torch.float32 else floor) * largest(
            e
        )
        allowed_rms = FACTOR * plain_rms + floor * rms(e)
        fine = error <= allowed and error_rms <= allowed_rms  # false for NaN
        verdicts.append(
            ""
            if fine
            else f"  too large: {allowed:.2e} is allowed; rms: {rms:.2e} of {allowed_rms:.2e}"
        )
    return verdicts


def problems_with_dropout(small):
    """(problem, dropout probability)"""
    shape, kv_heads, length_k = ((1, 4, 65, 64), 2, 90) if small else ((2, 8, 777, 64), 2, 900)
    return [
        (Problem(dtype, shape, kv_heads, length_k, False, causal), 0.17)
        for dtype in (torch.float32, torch.float16, torch.bfloat16)
        for causal in (False, True)
    ]


def check(libraries, device):
    """Prints errors of gradients against float64. Returns rows for the record, and whether all of
    ours are small."""
    torch.manual_seed(1)
    small = device == "cpu"
    rows, good = [], True
    print(
        "Largest errors of gradients against float64; - is a backend that refuses, or is not "
        "there. Plain is the"
    )
    print(f"textbook's formulas in the type: {FACTOR} times as much is allowed, and a little.")
    columns = (OURS, DETERMINISTIC, "plain") + BACKENDS
    print(Problem.HEADING + f"{'dropout':>7}    " + "".join(f"{c:>20}" for c in columns))
    problems = [(problem, 0.0) for problem in problems_to_check(small)] + problems_with_dropout(
        small
    )
    for seed, (problem, dropout) in enumerate(problems):
        causal = problem.causal
        inputs = tuple(x.requires_grad_() for x in problem.tensors(device))
        d_o = d_o_for(*inputs)
        factors = None
        if dropout > 0:
            factors = factors_of_dropout(
                libraries, inputs[0].detach(), problem.length_k, dropout, seed
            )
        wide = tuple(x.detach().double().requires_grad_() for x in inputs)
        exact = gradients_of(textbook(*wide, causal, factors), wide, d_o)
        in_type = None if factors is None else factors.to(problem.dtype)
        errors = {
            "plain": errors_of(gradients_of(textbook(*inputs, causal, in_type), inputs, d_o), exact)
        }
        for name in problem.backends() if dropout == 0 else ():
            theirs = peers.backend_call(name, *inputs, causal)
            try:
                if theirs is not None:
                    errors[name] = errors_of(gradients_of(theirs(), inputs, d_o), exact)
            except (RuntimeError, AssertionError):  # forward only, or not for this problem
                pass
        verdicts = [""] * 3
        for name in (OURS, DETERMINISTIC):
            options = Options(causal, dropout, seed, name == DETERMINISTIC)
            o = FlashAttention.apply(*inputs, libraries, options)
            errors[name] = errors_of(gradients_of(o, inputs, d_o), exact)
            of = objections(errors[name], errors["plain"], exact, problem.dtype)
            verdicts = [before or now for before, now in zip(verdicts, of)]
        good = good and not any(verdicts)
        for i, gradient in enumerate(GRADIENTS):
            of_gradient = {name: of[i][0] for name, of in errors.items()}
            print(
                problem.text()
                + f"{dropout:7.2f} {gradient}"
                + figures(of_gradient, columns, ".2e")
                + verdicts[i]
            )
            rows += [
                problem.row(name, *of[i], gradient=gradient, dropout=dropout)
                for name, of in errors.items()
            ]
    if not small:
        good = check_graphs_and_gpus(functools.partial(same_call, libraries)) and good
    return rows, good


def same_call(libraries, device):
    """A deterministic call that has more tiles than a GPU has SMs, and its outputs."""
    torch.manual_seed(2)
    q, k, v, d_o = (torch.randn(4, 24, 400, 128).bfloat16().to(device) for _ in range(4))
    forward, o, lse = libraries.forward.prepare(q, k, v, causal=True)
    forward()
    return libraries.prepare(forward.struct, (q, k, v, o, lse), d_o, deterministic=True)


def prepare(libraries, names, q, k, v, causal):
    """What time_points() asks for."""
    inputs = tuple(x.requires_grad_() for x in (q, k, v))
    d_o = d_o_for(*inputs)
    calls, kernels = {}, {}
    for name in names:
        try:
            if name in (OURS, DETERMINISTIC):
                options = Options(causal, deterministic=name == DETERMINISTIC)
                o = FlashAttention.apply(*inputs, libraries, options)
                kernels[name] = kernel_name(libraries, o, d_o)
            else:
                theirs = peers.backend_call(name, *inputs, causal)
                if theirs is None:
                    continue
                o = theirs()
            call = lambda o=o: torch.autograd.grad(o, inputs, d_o, retain_graph=True)  # noqa: E731
            call()
            calls[name] = call
        except Exception as error:  # forward only, or too little memory
            if name in (OURS, DETERMINISTIC):
                raise
            if not isinstance(error, RuntimeError):
                print(f"{name}: {type(error).__name__}: {str(error)[:200]}")
            torch.cuda.empty_cache()
    return calls, kernels, (*inputs, d_o)


def time_all(libraries, points, args):
    """Prints times of the backward pass. Returns rows for the record."""
    return time_points(
        points,
        columns=(OURS, DETERMINISTIC, *SAME_BITS) if args.deterministic else (OURS,),
        products=(3, 2),
        repeats=args.repeats,
        seconds=args.seconds,
        prepare=functools.partial(prepare, libraries),
        reference=reference,
    )


def reference(inputs, causal):
    """The gradients in float64, by name."""
    *wide, d_o = (x.detach().double() for x in inputs)
    wide = tuple(x.requires_grad_() for x in wide)
    return dict(zip(GRADIENTS, gradients_of(textbook(*wide, causal), wide, d_o)))


def count_all(libraries):
    """Returns rows for the record."""
    return count_problems(functools.partial(prepare, libraries))


def kernel_name(libraries, o, d_o):
    """Which kernels the gradients of o take."""
    ctx = o.grad_fn
    call, _ = libraries.prepare(ctx.attention, ctx.saved_tensors, d_o, ctx.options.deterministic)
    return libraries.kernel_name(call)


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--forward", metavar="PATH", help="lesson 05's library")
    parser.add_argument(
        "--deterministic",
        action="store_true",
        help="time that mode of all, too; it is not counted",
    )
    args = parser.parse_args()
    if args.table:
        print_record(args.table, "the gradients")
        return 0
    if args.library is not None and args.forward is None:
        raise Failure("which library computes the forward pass? Give --forward PATH")
    return run(
        args,
        lambda: Libraries(args.forward, args.library),
        check,
        lambda libraries, points: time_all(libraries, points, args),
        count_all,
    )


if __name__ == "__main__":
    exit_with(main)
