"""Times calls on a GPU that are to be compared."""

import statistics
import subprocess
import time

from common.bench.peers import FOR_16_BITS, FOR_FLOAT32, HEADINGS, torch
from common.bench.problems import rms

ROUNDS = 6  # in which calls alternate, at least
SLOW_MILLISECONDS = 300  # after which a call is not timed again in a round
FLUSH_BYTES = 1 << 29  # more than any level 2 cache
FLUSHES = 4  # they keep the GPU at work while the host prepares the launch


def median_milliseconds(call, repeats, clean=False):
    """The median time of a call on the GPU, each time with a cold level 2 cache; of a slow one,
    fewer. clean: the cache has nothing to write back while the call runs."""
    flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for i in range(-1, repeats):
        for _ in range(FLUSHES):
            flush.zero_()
        if clean:
            flush.view(torch.int64).max()  # only reads
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
    residual effects of treatments,
    1949)."""
    first = [-(i // 2) if i % 2 == 0 else i // 2 + 1 for i in range(count)]  # 0, 1, -1, 2, -2, ...
    orders = [[(i + step) % count for i in first] for step in range(count)]
    if count % 2 == 1:
        orders += [order[::-1] for order in orders]
    return orders * -(-ROUNDS // len(orders)) if orders else []


def time_in_turn(calls, repeats, seconds=0, clean=False):
    """Times calls that are to be compared: {name: medians of the rounds} for {name: call}. The
    clock of a GPU depends on its load and temperature, and a call leaves the caches in a state that
    the next one finds: so they alternate, in balanced orders, and the median of the rounds counts.
    All orders come again until so many seconds have gone. A call for which memory does not suffice
    is left out."""
    names = list(calls)
    rounds = {name: [] for name in names}
    orders = orders_of(len(names))
    begin = time.monotonic()
    while True:
        for order in orders:
            for name in (names[i] for i in order):
                if name not in rounds:
                    continue
                try:
                    of_round = median_milliseconds(calls[name], -(-repeats // len(orders)), clean)
                    rounds[name].append(of_round)
                except torch.cuda.OutOfMemoryError:
                    torch.cuda.empty_cache()
                    del rounds[name]
        if not rounds or time.monotonic() - begin >= seconds:
            return rounds


def nvidia_smi(*fields):
    """What nvidia-smi says of the first GPU, by the names of its queries; empty without it."""
    command = ["nvidia-smi", "--query-gpu=" + ",".join(fields), "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
        values = [float(x) for x in answer.stdout.splitlines()[0].split(",")]
        return dict(zip(fields, values))
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return {}


def clock_and_power():
    """What the GPU has just run at; empty without nvidia-smi."""
    names = {"clocks.sm": "sm_mhz", "power.draw": "watts"}
    return {names[field]: value for field, value in nvidia_smi(*names).items()}


def percentiles(values, percents):
    """Of sorted values, the one that so many percent of them do not exceed."""
    ordered = sorted(values)
    return [ordered[round((len(ordered) - 1) * percent / 100)] for percent in percents]


def errors_of_head(call, exact):
    """The rms error of each output of a call, over the rms of that output, in the heads that share
    the first key head. exact: these outputs in float64, by name."""
    results = call()
    results = results if isinstance(results, tuple) else (results,)
    errors = {}
    for (name, right), result in zip(exact.items(), results):
        of = result[:1, : right.shape[1]].double()
        errors[name] = float(f"{rms(of - right) / rms(right):.3e}")
    return errors


def row_of_times(label, rounds, ran_at, **rates):
    """A row for the record. rates: fields by name, each work per millisecond in its unit."""
    milliseconds = statistics.median(rounds)
    return {
        "what": "time",
        **label,
        "milliseconds": round(milliseconds, 6),
        "milliseconds_5_95": [round(float(x), 6) for x in percentiles(rounds, (5, 95))],
        **{name: round(work / milliseconds, 3) for name, work in rates.items()},
        "rounds": len(rounds),
        **ran_at,
    }


def time_points(example, points, record, repeats, seconds):
    """Prints times while they are measured, and puts them into the record.

    points: see points_of(); those of more than one type alternate between them.
    repeats, seconds: how often a call is timed at least, and how long a point takes at least.
    """
    for point in points:
        rows = time_point(example, point, repeats, seconds)
        of = (f"{HEADINGS[row['backend']]} {row['tflops']:.1f}" for row in rows)
        print(f"{point.name()}, TFLOP/s: {', '.join(of)}")
        record.put(rows)
        torch.cuda.empty_cache()


def time_point(example, point, repeats, seconds):
    """Rows for the record of one point: all calls in turn."""
    calls, kernels, errors = {}, {}, {}
    for dtype in (getattr(torch, name) for name in point.types):
        tensors = point.problem(dtype).tensors("cuda")
        names = example.timed + (FOR_FLOAT32 if dtype == torch.float32 else FOR_16_BITS)
        of_type, kernels[dtype], inputs = example.prepare(names, *tensors, point.causal)
        group = point.heads // point.kv_heads
        heads = [x[:1, :n] for x, n in zip(inputs, (group, 1, 1, group))]
        exact = example.reference(heads, point.causal)
        for name, call in of_type.items():
            calls[dtype, name] = call
            errors[dtype, name] = errors_of_head(call, exact)
    rows = []
    timed = time_in_turn(calls, repeats, seconds)
    ran_at = clock_and_power()
    for (dtype, name), rounds in timed.items():
        work = point.flops(example.matmuls) / 1e9
        row = row_of_times(point.label(name, dtype), rounds, ran_at, tflops=work)
        row["rms_errors"] = errors[dtype, name]
        if name in kernels[dtype]:
            row["kernel"] = kernels[dtype][name]
        rows.append(row)
    return rows
