"""Problems that the examples check, time and count."""

import collections

from common.attention.peers import BACKENDS
from common.attention.pytorch import torch

LENGTHS = [512 << i for i in range(6)]  # in 16 bits
TOKENS, WIDTH = 16384, 2048  # of what is timed: batch * length, heads * head_dim


def name_of(dtype):
    return str(dtype).rsplit(".", 1)[-1]


class Problem(
    collections.namedtuple(
        "Problem", ("dtype", "shape", "kv_heads", "length_k", "length_first", "causal")
    )
):
    """Sizes to check; `shape` is [batch, heads, length_q, head_dim] of q."""

    HEADING = f"{'type':9}{'q':>20}{'k':>12} {'first':7}{'causal':7}"

    def tensors(self, device):
        """q, k and v, [batch, heads, length, head_dim], of which the length may come first in
        memory."""
        batch, heads, length_q, head_dim = self.shape

        def make(n, length):
            if self.length_first:
                size = (batch, length, n, head_dim)
                return torch.randn(size, device=device).to(self.dtype).transpose(1, 2)
            return torch.randn((batch, n, length, head_dim), device=device).to(self.dtype)

        return (
            make(heads, length_q),
            make(self.kv_heads, self.length_k),
            make(self.kv_heads, self.length_k),
        )

    def backends(self):
        """Those that can be asked: PyTorch's causal mask is another one when lengths differ."""
        return BACKENDS if not self.causal or self.shape[2] == self.length_k else ()

    def first(self):
        return "length" if self.length_first else "heads"

    def text(self):
        q, k = "x".join(map(str, self.shape)), f"{self.kv_heads}x{self.length_k}"
        return (
            f"{name_of(self.dtype):9}{q:>20}{k:>12} "
            f"{self.first():7}{'yes' if self.causal else 'no':7}"
        )

    def row(self, backend, largest_error, rms_error, **more):
        """For the record."""
        batch, heads, length_q, head_dim = self.shape
        return {
            "what": "error",
            "backend": backend,
            **more,
            "type": name_of(self.dtype),
            "batch": batch,
            "heads": heads,
            "kv_heads": self.kv_heads,
            "length_q": length_q,
            "length_k": self.length_k,
            "head_dim": head_dim,
            "first": self.first(),
            "causal": self.causal,
            "largest_error": largest_error,
            "rms_error": rms_error,
        }


def problems_to_check(small):
    """All types, masks and orders in memory for some sizes."""
    shapes = [  # [batch, heads, length_q, head_dim], kv_heads, length_k
        ((2, 4, 70, 64), 4, 70) if small else ((2, 8, 1000, 64), 8, 1000),
        ((1, 4, 65, 128), 2, 65) if small else ((2, 8, 777, 128), 2, 777),
        ((1, 2, 33, 40), 1, 90) if small else ((2, 4, 333, 40), 1, 900),
        ((1, 1, 20, 256), 1, 20) if small else ((1, 4, 500, 256), 4, 500),
    ]
    return [
        Problem(dtype, *sizes, length_first, causal)
        for dtype in (torch.float32, torch.float16, torch.bfloat16)
        for sizes in shapes
        for length_first in (False, True)
        for causal in (False, True)
    ]


def problems_in_16_bits():
    """What is timed and counted: (types, batch, heads, length, head_dim, causal)."""
    return [
        ((torch.bfloat16, torch.float16), TOKENS // n, WIDTH // d, n, d, causal)
        for d in (64, 128)
        for causal in (False, True)
        for n in LENGTHS
    ]


def problems_with_groups():
    """What is timed beside that: eight heads of keys and values, each for four of queries."""
    return [
        ((torch.bfloat16,), TOKENS // n, 32, 8, n, 128, causal)
        for causal in (False, True)
        for n in (512, 2048, 8192)
    ]


def label_of(backend, dtype, batch, heads, length, head_dim, causal):
    """What a record says of a call."""
    return {
        "backend": backend,
        "type": name_of(dtype),
        "batch": batch,
        "heads": heads,
        "length": length,
        "head_dim": head_dim,
        "causal": causal,
    }
