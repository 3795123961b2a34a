"""Times calls on a GPU that are to be compared."""

import statistics

from common.attention.peers import BACKENDS, FOR_16_BITS, OURS
from common.attention.problems import (
    Problem,
    label_of,
    name_of,
    problems_in_16_bits,
    problems_with_groups,
)
from common.attention.pytorch import torch
from common.attention.tables import figures

ROUNDS = 6  # in which calls alternate, at least
SLOW_MILLISECONDS = 300  # after which a call is not timed again in a round
FLUSH_BYTES = 1 << 29  # more than any level 2 cache
FLUSHES = 4  # they keep the GPU at work while the host prepares the launch


def median_milliseconds(call, repeats):
    """The median time of a call on the GPU, each time with a cold level 2 cache; of a slow one,
    fewer."""
    flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for i in range(-1, repeats):
        for _ in range(FLUSHES):
            flush.zero_()
        start.record()
        call()
        stop.record()
        stop.synchronize()
        if i >= 0:
            times.append(start.elapsed_time(stop))
            if sum(times) > SLOW_MILLISECONDS:
                break
    return statistics.median(times)


def orders_of(count):
    """Orders of 0 to count - 1, at least ROUNDS: each number stands at each place, and behind each
    other one, equally often (E. J. Williams, Experimental designs balanced for the estimation of
    residual effects of
    treatments, 1949)."""
    first = [-(i // 2) if i % 2 == 0 else i // 2 + 1 for i in range(count)]  # 0, 1, -1, 2, -2, ...
    orders = [[(i + step) % count for i in first] for step in range(count)]
    if count % 2 == 1:
        orders += [order[::-1] for order in orders]
    return orders * -(-ROUNDS // len(orders)) if orders else []


def time_in_turn(calls, repeats):
    """Times calls that are to be compared: {name: milliseconds} for {name: call}. The clock of a
    GPU depends on its load and temperature, and a call leaves the caches in a state that the next
    one finds: so they alternate,
    in balanced orders, and the median of the rounds counts. A call for which memory does not
    suffice is left out."""
    names = list(calls)
    rounds = {name: [] for name in names}
    orders = orders_of(len(names))
    for order in orders:
        for name in (names[i] for i in order):
            if name not in rounds:
                continue
            try:
                rounds[name].append(median_milliseconds(calls[name], -(-repeats // len(orders))))
            except torch.cuda.OutOfMemoryError:
                torch.cuda.empty_cache()
                del rounds[name]
    return {name: statistics.median(times) for name, times in rounds.items()}


def time_problems(float_lengths, columns, products, repeats, prepare):
    """Prints times. Returns rows for the record.

    columns: what is timed; in float16, which alternates with bfloat16, only what is for 16 bits.
    products: matmuls of length * length * head_dim in what is timed.
    prepare(names, q, k, v, causal): gives {column: call} and {column: name of our kernel} for the
    names it can.
    """
    without_groups = problems_in_16_bits()
    without_groups += [
        ((torch.float32,), 4, 16, n, 64, causal) for causal in (False, True) for n in float_lengths
    ]
    problems = [
        (types, batch, heads, heads, *rest) for types, batch, heads, *rest in without_groups
    ]
    problems += problems_with_groups()
    rows = []
    print(
        "Milliseconds; TFLOP/s of this lesson; its speed divided by the others'. - means not "
        "supported."
    )
    print(
        f"{'type':9}{'B':>3}{'H':>5}{'N':>7}{'D':>5} {'causal':7}"
        + "".join(f"{c:>20}" for c in columns)
        + f"{'TFLOP/s':>9}{'x FLASH':>9}{'x FA-3':>9}{'x cuDNN':>9}"
    )
    for types, batch, heads, kv_heads, length, head_dim, causal in problems:
        calls, kernels = {}, {}
        for dtype in types:
            names = columns
            if dtype == torch.float16:
                names = [name for name in columns if name in FOR_16_BITS or name not in BACKENDS]
            tensors = Problem(
                dtype, (batch, heads, length, head_dim), kv_heads, length, False, causal
            ).tensors("cuda")
            of_type, kernels[dtype] = prepare(names, *tensors, causal)
            calls.update({(dtype, name): call for name, call in of_type.items()})
        times = time_in_turn(calls, repeats)
        # Under the mask half of the products count, as in the literature.
        flops = 2 * products * batch * heads * length * length * head_dim / (2 if causal else 1)
        heads_text = str(heads) if kv_heads == heads else f"{heads}/{kv_heads}"
        for dtype in types:
            milliseconds = {name: time for (of, name), time in times.items() if of == dtype}

            def ratio(name, of=milliseconds):
                return f"{of[name] / of[OURS]:9.2f}" if name in of else f"{'-':>9}"

            print(
                f"{name_of(dtype):9}{batch:3}{heads_text:>5}{length:7}{head_dim:5} "
                f"{'yes' if causal else 'no':7}"
                + figures(milliseconds, columns, ".3f")
                + f"{flops / milliseconds[OURS] / 1e9:9.1f}"
                + "".join(ratio(name) for name in FOR_16_BITS),
                flush=True,
            )
            for name, time in milliseconds.items():
                row = {
                    "what": "time",
                    **label_of(name, dtype, batch, heads, length, head_dim, causal),
                    "milliseconds": round(time, 6),
                    "tflops": round(flops / time / 1e9, 3),
                }
                if kv_heads != heads:  # in a table of their own
                    row["what"] = "time with groups"
                    row["kv_heads"] = kv_heads
                if name in kernels[dtype]:
                    row["kernel"] = kernels[dtype][name]
                rows.append(row)
    return rows
