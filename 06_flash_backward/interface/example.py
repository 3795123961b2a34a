"""Gradients of attention in PyTorch, through the C interfaces of lessons 05 and 06; checked and
timed beside PyTorch's.

    python3 -m 06_flash_backward.interface.example --forward FORWARD --library LIBRARY --check
    python3 -m 06_flash_backward.interface.example ... --time --deterministic

FORWARD is BUILD/05_flash_forward/libflash_attention.so, and LIBRARY
BUILD/06_flash_backward/libflash_attention_backward.so. Libraries for GPUs take CUDA tensors. Those
for the CPU take tensors in the host's memory: they are checked, on small tensors, but not timed.
Without the two: check and time for GPUs, the check alone for the CPU. What is timed is the backward
pass alone.

Exit status: 0 all is well, 1 an error is too large, 2 it could not be done, 77 PyTorch is missing.
"""

import collections
import ctypes
import importlib
import math
import pathlib

from common.bench import peers
from common.bench.command import Failure, exit_with
from common.bench.peers import OURS, SAME_BITS, torch
from common.bench.peers import OURS_SAME_BITS as DETERMINISTIC
from common.bench.problems import Problem, for_all_heads, largest, rms, visible
from common.bench.program import Example, parser_of, run

# Lesson 05's side of the interface; a name that begins with a digit cannot stand in an import
# statement.
forward_interface = importlib.import_module("05_flash_forward.interface.flash_attention")

GRADIENTS = ("d_q", "d_k", "d_v")
FACTOR = 3  # of the acceptance rule, for gradients

Options = collections.namedtuple(
    "Options", ("causal", "dropout", "seed", "deterministic"), defaults=(False, 0.0, 0, False)
)


HEADER = pathlib.Path(__file__).with_name("flash_attention_backward.h")
FUNCTIONS = forward_interface.read_header(HEADER)


class Libraries(forward_interface.CLibrary):
    """libflash_attention_backward.so, and libflash_attention.so as `forward`."""

    def __init__(self, forward, backward):
        super().__init__(backward, "fa_backward_", FUNCTIONS)
        self.forward = forward_interface.Library(forward)
        if self.forward.runs_on != self.runs_on:
            raise Failure(
                f"{forward} is for the {self.forward.runs_on}, {backward} for the {self.runs_on}"
            )

    @classmethod
    def of(cls, args):
        """Those that a program's options name."""
        if args.forward is None:
            raise Failure("which library computes the forward pass? Give --forward PATH")
        return cls(args.forward, args.library)

    def prepare(self, attention, saved, d_o, deterministic=False, kind="", given=(), outputs=()):
        """A call for gradients. `attention` and `saved`, which is (q, k, v, o, lse), are of the
        forward pass. Returns (call, (d_q, d_k, d_v)), which lie like q, k and v. `call()` begins it
        on the stream that is current. Of fa_backward_functor() the kind is "_functor"; `given` are
        the structs and `outputs` the pointers that it takes beside fa_gradient."""
        q, k, v, o, lse = saved
        expect = forward_interface.expect
        shape = (*q.shape[:3], v.shape[3])
        expect("o", o, shape, q.dtype, q, dense=False)
        expect("d_o", d_o, shape, q.dtype, q, dense=False)
        expect("lse", lse, q.shape[:3], torch.float32, q)
        # PyTorch may give one number for all elements, for instance.
        d_o = forward_interface.with_rows(d_o)
        gradients = tuple(torch.empty_like(x) for x in (q, k, v))
        if kind == "_packed":  # which writes no row of a token of no sequence
            gradients = tuple(torch.zeros_like(x) for x in (q, k, v))
        g = forward_interface.struct(
            "fa_gradient", attention=attention, deterministic=int(deterministic)
        )
        for name, tensor in zip(("q", "k", "v", "o"), saved):
            forward_interface.place(g.attention, name, tensor)
        g.attention.lse = lse.data_ptr()
        for name, tensor in zip(("d_o",) + GRADIENTS, (d_o,) + gradients):
            forward_interface.place(g, name, tensor)
        structs = [g, *given]
        with forward_interface.on_device_of(q):
            size = getattr(self.c, f"fa_backward{kind}_workspace_bytes")
            g.workspace_bytes = size(*map(ctypes.byref, structs))
        if g.workspace_bytes == 0:
            raise self.error()
        workspace = torch.empty(g.workspace_bytes, dtype=torch.uint8, device=q.device)
        g.workspace = workspace.data_ptr()
        tensors = (q, saved, d_o, gradients, workspace)
        function = getattr(self.c, f"fa_backward{kind}")
        call = self.bound(function, g.attention, [*structs, *outputs], tensors)
        return call, gradients

    def prepare_of(self, forward, d_o, outputs=()):
        """prepare() for what a call of Library.prepare_packed() or prepare_functor() computes."""
        made = self.prepare(
            forward.struct, forward.tensors[:5], d_o, False, forward.kind, forward.given, outputs
        )
        made[0].forward = forward  # what its structs point to lives with the call
        return made


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


def objection_to(errors, plain, exact, dtype):
    """What the acceptance rule objects to in a gradient; an empty text is none. Errors are
    (largest, rms)."""
    floor = 2 * torch.finfo(dtype).eps
    # In float32 the order of sums counts as well: the kernels add one product after the other.
    floor_of_largest = 4 * floor if dtype == torch.float32 else floor
    allowed = FACTOR * plain[0] + floor_of_largest * largest(exact)
    allowed_rms = FACTOR * plain[1] + floor * rms(exact)
    if errors[0] <= allowed and errors[1] <= allowed_rms:  # false for NaN
        return ""
    return f"  too large: {allowed:.2e} is allowed; rms: {errors[1]:.2e} of {allowed_rms:.2e}"


class Backward(Example):
    what = "the gradients"
    explanation = (
        "Largest errors of gradients against float64; - is a backend that refuses, or is not "
        "there. Plain is the\n"
        f"textbook's formulas in the type: {FACTOR} times as much is allowed, and a little."
    )
    label_heading = f"{'dropout':>7}    "
    checked = (OURS, DETERMINISTIC, "plain")
    matmuls = (3, 2)

    def load(self, args):
        self.library = Libraries.of(args)
        if args.deterministic:
            self.timed = (OURS, DETERMINISTIC, *SAME_BITS)

    def more_problems(self, small):
        shape, kv_heads, length_k = ((1, 4, 65, 64), 2, 90) if small else ((2, 8, 777, 64), 2, 900)
        return [
            Problem(dtype, shape, kv_heads, length_k, False, causal, dropout=0.17)
            for dtype in (torch.float32, torch.float16, torch.bfloat16)
            for causal in (False, True)
        ]

    def errors(self, problem, device, seed):
        dtype, causal, dropout = problem.dtype, problem.causal, problem.dropout
        inputs = tuple(x.requires_grad_() for x in problem.tensors(device))
        d_o = d_o_for(*inputs)
        factors = in_type = None
        if dropout > 0:
            q = inputs[0].detach()
            factors = factors_of_dropout(self.library, q, problem.length_k, dropout, seed)
            in_type = factors.to(dtype)
        wide = tuple(x.detach().double().requires_grad_() for x in inputs)
        exact = gradients_of(textbook(*wide, causal, factors), wide, d_o)

        def errors_of(o):
            gradients = gradients_of(o, inputs, d_o)
            off = [g.double() - e for g, e in zip(gradients, exact)]
            return [(largest(of), rms(of)) for of in off]

        errors = {"plain": errors_of(textbook(*inputs, causal, in_type))}
        for name in problem.backends():
            theirs = peers.backend_call(name, *inputs, causal)
            try:
                if theirs is not None:
                    errors[name] = errors_of(theirs())
            except (RuntimeError, AssertionError):  # forward only, or not for this problem
                pass
        for name in (OURS, DETERMINISTIC):
            options = Options(causal, dropout, seed, name == DETERMINISTIC)
            errors[name] = errors_of(FlashAttention.apply(*inputs, self.library, options))
        for i, gradient in enumerate(GRADIENTS):
            of = {name: of_pass[i] for name, of_pass in errors.items()}
            both = [
                objection_to(of[n], of["plain"], exact[i], dtype) for n in (OURS, DETERMINISTIC)
            ]
            fields = {"gradient": gradient, "dropout": dropout}
            yield f"{dropout:7.2f} {gradient}", of, both[0] or both[1], fields

    def same_call(self, device):
        torch.manual_seed(2)
        q, k, v, d_o = (torch.randn(4, 24, 400, 128).bfloat16().to(device) for _ in range(4))
        forward, o, lse = self.library.forward.prepare(q, k, v, causal=True)
        forward()
        return self.library.prepare(forward.struct, (q, k, v, o, lse), d_o, deterministic=True)

    def prepare(self, names, q, k, v, causal):
        inputs = tuple(x.requires_grad_() for x in (q, k, v))
        d_o = d_o_for(*inputs)
        calls, kernels = {}, {}
        for name in names:
            ours = name in (OURS, DETERMINISTIC)
            try:
                if ours:
                    options = Options(causal, deterministic=name == DETERMINISTIC)
                    o = FlashAttention.apply(*inputs, self.library, options)
                    kernels[name] = self.kernel_name(o, d_o)
                else:
                    theirs = peers.backend_call(name, *inputs, causal)
                    if theirs is None:
                        continue
                    o = theirs()
                call = lambda o=o: torch.autograd.grad(o, inputs, d_o, retain_graph=True)  # noqa: E731
                call()
                calls[name] = call
            except Exception as error:  # forward only, or too little memory
                if ours:
                    raise
                if not isinstance(error, RuntimeError):
                    print(f"{name}: {type(error).__name__}: {str(error)[:200]}")
                torch.cuda.empty_cache()
        return calls, kernels, (*inputs, d_o)

    def kernel_name(self, o, d_o):
        """Which kernels the gradients of o take."""
        ctx = o.grad_fn
        deterministic = ctx.options.deterministic
        call, _ = self.library.prepare(ctx.attention, ctx.saved_tensors, d_o, deterministic)
        return self.library.kernel_name(call)

    def reference(self, inputs, causal):
        q, k, v, d_o = (x.detach().double() for x in inputs)
        of_heads = []
        for one, gradient in zip(q.split(1, 1), d_o.split(1, 1)):  # to save memory
            wide = tuple(x.requires_grad_() for x in (one, k, v))
            of_heads.append(gradients_of(textbook(*wide, causal), wide, gradient))
        d_q, d_k, d_v = zip(*of_heads)
        return dict(zip(GRADIENTS, (torch.cat(d_q, 1), sum(d_k), sum(d_v))))


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--forward", metavar="PATH", help="lesson 05's library")
    parser.add_argument("--deterministic", action="store_true", help="time that mode of all, too")
    return run(Backward(), parser.parse_args())


if __name__ == "__main__":
    exit_with(main)
