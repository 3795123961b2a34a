"""What both examples check: errors against float64, and the same bits from every launch."""

import math

from common.bench.peers import BACKENDS, torch
from common.bench.problems import Problem, problems_to_check
from common.bench.tables import figures


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
