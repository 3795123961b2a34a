"""What the checks of both examples need: masks, heads, errors, and the same bits from every
launch."""

import math

from common.bench.pytorch import torch


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


def check_graphs_and_gpus(make):
    """Prints whether calls on each GPU, plain and replayed as a CUDA graph, give the same bits.
    Returns whether they do.

    make(device) gives a call on tensors there and its outputs, each time with the same inputs.
    """
    good, expected = True, None
    for gpu in range(torch.cuda.device_count()):
        call, outputs = make(f"cuda:{gpu}")
        with torch.cuda.device(gpu):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(
                graph, stream=torch.cuda.Stream()
            ):  # its own default is on the first GPU
                call()
        for name, launch in (("CUDA graph", graph.replay), ("plain call", call)):
            for output in outputs:
                output.fill_(math.nan)
            launch()  # the plain call with another GPU as the current one
            torch.cuda.synchronize(gpu)
            bits = [output.cpu() for output in outputs]
            expected = bits if expected is None else expected
            same = all(torch.equal(a, b) for a, b in zip(bits, expected))  # false for NaN
            print(
                f"{'PASS' if same else 'FAIL'}  {name} on GPU {gpu}: "
                f"{'the same' if same else 'other'} bits"
            )
            good = good and same
    return good
