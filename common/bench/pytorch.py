"""What the examples take of PyTorch; None where Python has none."""

try:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention
except ImportError:
    torch = SDPBackend = sdpa_kernel = scaled_dot_product_attention = None

__all__ = ["SDPBackend", "scaled_dot_product_attention", "sdpa_kernel", "torch"]
