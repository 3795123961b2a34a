"""Gradients for the operators of lesson 05, so that torch.compile takes a model's training, too.

    from 06_flash_backward.interface import operators     # by importlib
    operators.load(FORWARD, BACKWARD)
    operators.attention(q, k, v, causal=True).sum().backward()

The gradients are deterministic where torch.use_deterministic_algorithms(True) asks for it. Those of
packed sequences have no such form: they are refused then, or, with warn_only, a warning is given.
"""

import importlib
import warnings
from typing import Optional

import torch

from .example import Libraries

forward_operators = importlib.import_module("05_flash_forward.interface.operators")
interface = importlib.import_module("05_flash_forward.interface.flash_attention")
attention, forward = forward_operators.attention, forward_operators.forward
packed_attention = forward_operators.packed_attention
loaded = []


def load(forward_library, backward_library):
    """Makes the operators call these libraries."""
    loaded[:] = [Libraries(forward_library, backward_library)]
    forward_operators.loaded[:] = [loaded[0].forward]


@torch.library.custom_op(f"{forward_operators.NAMESPACE}::backward", mutates_args=())
def backward(
    d_o: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    causal: bool = False,
    scale: Optional[float] = None,
    dropout: float = 0.0,
    seed: int = 0,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """dQ, dK and dV, from what forward() was given and returned."""
    q, k, v = map(interface.with_rows, (q, k, v))
    (libraries,) = loaded
    call, gradients = libraries.prepare(
        libraries.forward.describe(q, k, v, causal, scale, dropout, seed),
        (q, k, v, o, lse),
        d_o,
        torch.are_deterministic_algorithms_enabled(),
    )
    call()
    return gradients


@backward.register_fake
def _(d_o, q, k, v, o, lse, causal=False, scale=None, dropout=0.0, seed=0):
    return tuple(torch.empty_like(interface.with_rows(x)) for x in (q, k, v))


@torch.library.custom_op(f"{forward_operators.NAMESPACE}::backward_packed", mutates_args=())
def backward_packed(
    d_o: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    causal: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """dQ, dK and dV, from what forward_packed() was given and returned."""
    if torch.are_deterministic_algorithms_enabled():
        text = "gradients of packed sequences have no deterministic form"
        if not torch.is_deterministic_algorithms_warn_only_enabled():
            raise RuntimeError(text)
        warnings.warn(text, stacklevel=2)
    (libraries,) = loaded
    heads = [interface.with_rows(interface.as_batch(x)) for x in (q, k, v)]
    call, gradients = libraries.prepare(
        libraries.forward.describe(*heads, causal),
        (*heads, interface.as_batch(o), lse[None]),
        interface.as_batch(d_o),
        kind="_packed",
        given=(interface.packed_struct(q, cu_seqlens_q, cu_seqlens_k),),
    )
    call()
    return tuple(map(interface.of_batch, gradients))


@backward_packed.register_fake
def _(d_o, q, k, v, cu_seqlens_q, cu_seqlens_k, o, lse, causal=False):
    heads = (interface.with_rows(interface.as_batch(x)) for x in (q, k, v))
    return tuple(interface.of_batch(torch.empty_like(x)) for x in heads)


def register(operator, gradients, tensors):
    """Gives an operator, whose first arguments are so many tensors, its gradients."""

    def save(ctx, inputs, output):
        ctx.save_for_backward(*inputs[:tensors], *output)
        ctx.options = inputs[tensors:]
        ctx.mark_non_differentiable(output[1])  # the lse

    def gradients_of(ctx, d_o, _):
        of_qkv = gradients(d_o, *ctx.saved_tensors, *ctx.options)
        return *of_qkv, *[None] * (tensors - 3 + len(ctx.options))

    operator.register_autograd(gradients_of, setup_context=save)


register(forward, backward, 3)
register(forward_operators.forward_packed, backward_packed, 5)
