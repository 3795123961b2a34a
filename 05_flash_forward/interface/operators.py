"""The kernels as operators of PyTorch, for torch.compile and torch.export.

    pip install ./05_flash_forward/interface

    from flash_attention_lessons import attention
    o = attention(q, k, v, causal=True)

In the repository, load("BUILD/05_flash_forward/libflash_attention.so") comes first. Tensors are
[batch, heads, length, head_dim]. Lesson 06's operators give forward() its gradients.
"""

import pathlib
from typing import Optional

import torch

from .flash_attention import Library, as_batch, empty_outputs, of_batch, with_rows

NAMESPACE = "flash_attention_lessons"
loaded = []


def load(path=pathlib.Path(__file__).parent / "libflash_attention.so"):
    """Makes the operators call a library; without a call, the one beside this file."""
    loaded[:] = [Library(path)]


def library():
    if not loaded:
        load()
    return loaded[0]


@torch.library.custom_op(f"{NAMESPACE}::forward", mutates_args=())
def forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    scale: Optional[float] = None,
    dropout: float = 0.0,
    seed: int = 0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """O and LSE."""
    q, k, v = map(with_rows, (q, k, v))
    call, o, lse = library().prepare(q, k, v, causal, scale, dropout, seed)
    call()
    return o, lse


@forward.register_fake
def _(q, k, v, causal=False, scale=None, dropout=0.0, seed=0):
    return empty_outputs(with_rows(q), v)


def attention(q, k, v, causal=False, scale=None, dropout=0.0, seed=0):
    """softmax(scale q k^T) v; the scale is 1 / sqrt(head_dim) if none is given."""
    return forward(q, k, v, causal, scale, dropout, seed)[0]


@torch.library.custom_op(f"{NAMESPACE}::forward_packed", mutates_args=())
def forward_packed(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    causal: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """O and LSE of packed sequences, as Library.prepare_packed() takes them."""
    q, k, v = (of_batch(with_rows(as_batch(x))) for x in (q, k, v))
    call, o, lse = library().prepare_packed(q, k, v, cu_seqlens_q, cu_seqlens_k, causal)
    call()
    return o, lse


@forward_packed.register_fake
def _(q, k, v, cu_seqlens_q, cu_seqlens_k, causal=False):
    o, lse = empty_outputs(with_rows(as_batch(q)), as_batch(v))
    return of_batch(o), lse[0]


def packed_attention(q, k, v, cu_seqlens_q, cu_seqlens_k, causal=False):
    """attention() within each of several sequences, [tokens, heads, head_dim]."""
    return forward_packed(q, k, v, cu_seqlens_q, cu_seqlens_k, causal)[0]


@torch.library.custom_op(f"{NAMESPACE}::decode", mutates_args=())
def decode(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    lengths_k: Optional[torch.Tensor] = None,
    block_table: Optional[torch.Tensor] = None,
    length_k: Optional[int] = None,
    causal: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """O and LSE of few queries and a cache, as Library.prepare_decode() takes it."""
    call, o, lse = library().prepare_decode(
        with_rows(q), k, v, causal, lengths_k, block_table, length_k
    )
    call()
    return o, lse


@decode.register_fake
def _(q, k, v, lengths_k=None, block_table=None, length_k=None, causal=False):
    return empty_outputs(with_rows(q), v)
