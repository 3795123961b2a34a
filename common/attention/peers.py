"""Attention of others, beside which the examples check and time their own: PyTorch's backends and
FlashAttention-3."""

import pathlib
import warnings

from common.attention.command import Failure
from common.attention.pytorch import SDPBackend, scaled_dot_product_attention, sdpa_kernel, torch

OURS = "this lesson"
CUDNN = "CUDNN_ATTENTION"
FLASH_3 = "FLASH_ATTENTION_3"
BACKENDS = ("FLASH_ATTENTION", FLASH_3, "EFFICIENT_ATTENTION", CUDNN, "MATH")
FOR_16_BITS = ("FLASH_ATTENTION", FLASH_3, CUDNN)  # timed in both types
FOR_HOPPER = (FLASH_3, CUDNN)  # counted
HEADINGS = {  # of columns in the table of a record
    OURS: "lesson",
    "FLASH_ATTENTION": "flash",
    FLASH_3: "flash 3",
    "EFFICIENT_ATTENTION": "efficient",
    CUDNN: "cuDNN",
    "MATH": "math",
}


def load_flash_attention_3(path):
    """Loads the library of FlashAttention-3, which PyTorch does not have, so that its operations
    are there."""
    try:
        torch.ops.load_library(str(pathlib.Path(path).resolve()))
    except OSError as error:
        raise Failure(f"{path} cannot be loaded: {error}") from error
    if not hasattr(torch.ops.flash_attn_3, "fwd"):
        raise Failure(f"{path} has no operation flash_attn_3::fwd")


class FlashAttention3(torch.autograd.Function if torch else object):
    """FlashAttention-3 with its gradients. Its tensors are [batch, length, heads, head_dim], in any
    order in memory."""

    @staticmethod
    def forward(ctx, q, k, v, causal):
        lengths_first = [x.transpose(1, 2) for x in (q, k, v)]
        o, lse, *_ = torch.ops.flash_attn_3.fwd(*lengths_first, is_causal=causal, num_splits=1)
        ctx.save_for_backward(*lengths_first, o, lse)
        ctx.causal = causal
        return o.transpose(1, 2)

    @staticmethod
    def backward(ctx, d_o):
        q, k, v, o, lse = ctx.saved_tensors
        d_q, d_k, d_v = (torch.empty_like(x) for x in (q, k, v))
        torch.ops.flash_attn_3.bwd(
            d_o.transpose(1, 2), q, k, v, o, lse, dq=d_q, dk=d_k, dv=d_v, is_causal=ctx.causal
        )
        return *(x.transpose(1, 2) for x in (d_q, d_k, d_v)), None


def backend_call(name, q, k, v, causal):
    """A function that computes attention with FlashAttention-3 or one of PyTorch's backends; None
    when that refuses, or is not there."""
    gqa = {"enable_gqa": True} if q.shape[1] != k.shape[1] else {}
    if name == FLASH_3:
        if not hasattr(torch.ops.flash_attn_3, "fwd") or q.dtype == torch.float32:
            return None

        def call():
            return FlashAttention3.apply(q, k, v, causal)

    else:
        backend = getattr(SDPBackend, name, None)
        if backend is None:
            return None

        def call():
            with sdpa_kernel(backend):
                return scaled_dot_product_attention(q, k, v, is_causal=causal, **gqa)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # why it refuses
            call()
    except RuntimeError:  # too little memory is one, too
        if q.is_cuda:
            torch.cuda.empty_cache()
        return None
    return call
