"""Attention through the C interface on PyTorch's tensors; and what the examples of this lesson and of a later one
share: problems to check and to time, PyTorch's own back ends and FlashAttention-3, records of what was measured.
"""

import argparse
import collections
import contextlib
import ctypes
import datetime
import json
import math
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import warnings

import counters  # beside this file

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "common"))
from files.write_file import check_writable, write_file  # noqa: E402

try:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention
except ImportError:
    torch = None

ROOT = pathlib.Path(__file__).resolve().parents[2]
OURS = "this lesson"
FIXED_ORDER = "fixed order"  # ours, without the dynamic tile scheduler
CUDNN = "CUDNN_ATTENTION"
FLASH_3 = "FLASH_ATTENTION_3"
BACKENDS = ("FLASH_ATTENTION", FLASH_3, "EFFICIENT_ATTENTION", CUDNN, "MATH")
FOR_16_BITS = ("FLASH_ATTENTION", FLASH_3, CUDNN)  # timed in both types
FOR_HOPPER = (FLASH_3, CUDNN)  # counted
LENGTHS = [512 << i for i in range(6)]  # in 16 bits
HEADINGS = {  # of columns in the table of a record
    OURS: "lesson",
    FIXED_ORDER: "fixed",
    "FLASH_ATTENTION": "flash",
    FLASH_3: "flash 3",
    "EFFICIENT_ATTENTION": "efficient",
    "CUDNN_ATTENTION": "cuDNN",
    "MATH": "math",
}
TOKENS, WIDTH = 16384, 2048  # of what is timed: batch * length, heads * head_dim
ROUNDS = 6  # in which calls take turns, at least
SLOW_MILLISECONDS = 300  # after which a call is not timed again in a round
FLUSH_BYTES = 1 << 29  # more than any level 2 cache
FLUSHES = 4  # they keep the GPU at work while the host prepares the launch


class Failure(Exception):
    """What cannot be done, in a sentence."""

    status = 2


class Skipped(Failure):
    """What this machine lacks, in a sentence."""

    status = 77


class Strides(ctypes.Structure):
    """fa_strides."""

    _fields_ = [("batch", ctypes.c_int64), ("head", ctypes.c_int64), ("row", ctypes.c_int64)]


class Attention(ctypes.Structure):
    """fa_attention, field by field as in flash_attention.h."""

    _fields_ = (
        [("size", ctypes.c_size_t)]
        + [(name, ctypes.c_void_p) for name in ("q", "k", "v", "o", "lse")]
        + [(name + "_strides", Strides) for name in ("q", "k", "v", "o")]
        + [
            (name, ctypes.c_int64)
            for name in ("batch", "heads", "kv_heads", "length_q", "length_k", "head_dim")
        ]
        + [("type", ctypes.c_int32), ("causal", ctypes.c_int32)]
        + [("scale", ctypes.c_double), ("dropout", ctypes.c_double)]
        + [("seed", ctypes.c_uint64), ("stream", ctypes.c_void_p)]
        + [("workspace", ctypes.c_void_p), ("workspace_bytes", ctypes.c_size_t)]
    )


def place(struct, name, tensor):
    """Tells a struct where a tensor [batch, heads, length, head_dim] is."""
    if tensor.stride(3) != 1:
        raise Failure(f"elements of the rows of {name} are {tensor.stride(3)} apart; allowed is 1")
    setattr(struct, name, tensor.data_ptr())
    setattr(struct, name + "_strides", Strides(*tensor.stride()[:3]))


class CLibrary:
    """A library with a C interface, whose functions have names that begin with `prefix` and take a struct."""

    def __init__(self, path, prefix, functions):
        """functions: what each returns, by its name without the prefix."""
        self.prefix = prefix
        try:
            self.c = ctypes.CDLL(str(pathlib.Path(path).resolve()))
            for name, result in {
                "runs_on": ctypes.c_char_p,
                "last_error": ctypes.c_char_p,
                "kernel_name": ctypes.c_char_p,
                **functions,
            }.items():
                getattr(self.c, prefix + name).restype = result
        except (OSError, AttributeError) as error:
            raise Failure(f"{path} is no library of this lesson: {error}") from error
        self.runs_on = self.function("runs_on")().decode()

    def function(self, name):
        return getattr(self.c, self.prefix + name)

    def error(self):
        return Failure(self.function("last_error")().decode())

    def kernel_name(self, call):
        name = self.function("kernel_name")(ctypes.byref(call.struct))
        if name is None:
            raise self.error()
        return name.decode()


class Library(CLibrary):
    """libflash_attention.so."""

    def __init__(self, path):
        results = {"forward": ctypes.c_int, "default_scale": ctypes.c_double, "workspace_bytes": ctypes.c_size_t}
        super().__init__(path, "fa_", results)
        self.c.fa_default_scale.argtypes = [ctypes.c_int64]

    def prepare(self, q, k, v, causal=False, scale=None, dropout=0.0, seed=0, fixed_order=False):
        """A call on tensors [batch, heads, length, head_dim] whose rows are contiguous, in whatever order the other
        dimensions lie. Returns (call, o, lse): o lies like q. `call()` begins it on the stream that is current. With
        `fixed_order` it gets no workspace for the tile scheduler's counter."""
        types = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}
        if q.dtype not in types or not q.dtype == k.dtype == v.dtype:
            raise Failure(f"types {q.dtype}, {k.dtype} and {v.dtype}; allowed is one of {list(types)}")
        (batch, heads, length_q, head_dim), (kv_heads, length_k) = q.shape, k.shape[1:3]
        expected = (batch, kv_heads, length_k, head_dim)
        if tuple(k.shape) != expected or tuple(v.shape) != expected:
            raise Failure(f"k is {list(k.shape)} and v {list(v.shape)}; q asks for {list(expected)}")
        if not q.device == k.device == v.device:
            raise Failure(f"q is on {q.device}, k on {k.device} and v on {v.device}")
        o = torch.empty_like(q)  # keeps the order of dimensions
        lse = torch.empty(batch, heads, length_q, dtype=torch.float32, device=q.device)
        a = Attention(size=ctypes.sizeof(Attention), batch=batch, heads=heads, kv_heads=kv_heads)
        a.length_q, a.length_k, a.head_dim, a.type = length_q, length_k, head_dim, types[q.dtype]
        for name, tensor in (("q", q), ("k", k), ("v", v), ("o", o)):
            place(a, name, tensor)
        a.lse, a.causal, a.dropout, a.seed = lse.data_ptr(), int(causal), dropout, seed
        a.scale = self.c.fa_default_scale(head_dim) if scale is None else scale
        with on_device_of(q):
            a.workspace_bytes = 0 if fixed_order else self.c.fa_workspace_bytes(ctypes.byref(a))
            # Zeros before the first call; each call leaves zeros.
            workspace = torch.zeros(a.workspace_bytes, dtype=torch.uint8, device=q.device)
        a.workspace = workspace.data_ptr() or None

        def call():
            a.stream = current_stream(q)
            if self.c.fa_forward(ctypes.byref(a)) != 0:
                raise self.error()

        call.struct, call.tensors = a, (q, k, v, o, lse, workspace)  # memory that a points to lives as long as the call
        return call, o, lse


def on_device_of(tensor):
    """Makes the GPU of a tensor the current one."""
    return torch.cuda.device(tensor.device) if tensor.is_cuda else contextlib.nullcontext()


def current_stream(tensor):
    """The stream on which PyTorch works with a tensor, for C; None on the CPU."""
    return torch.cuda.current_stream(tensor.device).cuda_stream if tensor.is_cuda else None


def load_flash_attention_3(path):
    """Loads the library of FlashAttention-3, which PyTorch does not have, so that its operations are there."""
    try:
        torch.ops.load_library(str(pathlib.Path(path).resolve()))
    except OSError as error:
        raise Failure(f"{path} cannot be loaded: {error}") from error
    if not hasattr(torch.ops.flash_attn_3, "fwd"):
        raise Failure(f"{path} has no operation flash_attn_3::fwd")


class FlashAttention3(torch.autograd.Function if torch else object):
    """FlashAttention-3 with its gradients. Its tensors are [batch, length, heads, head_dim], in any order in memory."""

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
    """A function that computes attention with FlashAttention-3 or one of PyTorch's back ends; None when that refuses,
    or is not there."""
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


def visible(q, k, causal):
    """[length_q, length_k]: which keys a query sees."""
    length_q, length_k = q.shape[2], k.shape[2]
    ones = torch.ones(length_q, length_k, dtype=torch.bool, device=q.device)
    return ones.tril(length_k - length_q) if causal else ones


def for_all_heads(x, heads):
    """Keys or values, repeated for the query heads that share them."""
    return x.repeat_interleave(heads // x.shape[1], dim=1)


def name_of(dtype):
    return str(dtype).rsplit(".", 1)[-1]


class Problem(
    collections.namedtuple("Problem", ("dtype", "shape", "kv_heads", "length_k", "length_first", "causal"))
):
    """Sizes to check; `shape` is [batch, heads, length_q, head_dim] of q."""

    HEADING = f"{'type':9}{'q':>20}{'k':>12} {'first':7}{'causal':7}"

    def tensors(self, device):
        """q, k and v, [batch, heads, length, head_dim], of which the length may come first in memory."""
        batch, heads, length_q, head_dim = self.shape

        def make(n, length):
            if self.length_first:
                size = (batch, length, n, head_dim)
                return torch.randn(size, device=device).to(self.dtype).transpose(1, 2)
            return torch.randn((batch, n, length, head_dim), device=device).to(self.dtype)

        return make(heads, length_q), make(self.kv_heads, self.length_k), make(self.kv_heads, self.length_k)

    def backends(self):
        """Those that can be asked: PyTorch's causal mask is another one when lengths differ."""
        return BACKENDS if not self.causal or self.shape[2] == self.length_k else ()

    def first(self):
        return "length" if self.length_first else "heads"

    def text(self):
        return (
            f"{name_of(self.dtype):9}{'x'.join(map(str, self.shape)):>20}{f'{self.kv_heads}x{self.length_k}':>12} "
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


def largest(tensor):
    return tensor.abs().max().item()


def rms(tensor):
    return tensor.square().mean().sqrt().item()


def check_graphs_and_gpus(make):
    """Prints whether calls on each GPU, plain and replayed as a CUDA graph, give the same bits. Returns whether they do.

    make(device) gives a call on tensors there and its outputs, each time with the same inputs.
    """
    good, expected = True, None
    for gpu in range(torch.cuda.device_count()):
        call, outputs = make(f"cuda:{gpu}")
        with torch.cuda.device(gpu):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=torch.cuda.Stream()):  # its own default is on the first GPU
                call()
        for name, launch in (("CUDA graph", graph.replay), ("plain call", call)):
            for output in outputs:
                output.fill_(math.nan)
            launch()  # the plain call with another GPU as the current one
            torch.cuda.synchronize(gpu)
            bits = [output.cpu() for output in outputs]
            expected = bits if expected is None else expected
            same = all(torch.equal(a, b) for a, b in zip(bits, expected))  # false for NaN
            print(f"{'PASS' if same else 'FAIL'}  {name} on GPU {gpu}: {'the same' if same else 'other'} bits")
            good = good and same
    return good


def figures(values, columns, form):
    """Numbers in columns of 20; - where there is none."""
    return "".join(f"{values[c]:{form}}".rjust(20) if c in values else f"{'-':>20}" for c in columns)


def median_milliseconds(call, repeats):
    """The median time of a call on the GPU, each time with a cold level 2 cache; of a slow one, fewer."""
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
    """Orders of 0 to count - 1, at least ROUNDS: each number stands at each place, and behind each other one, equally
    often (E. J. Williams, Experimental designs balanced for the estimation of residual effects of treatments, 1949)."""
    first = [-(i // 2) if i % 2 == 0 else i // 2 + 1 for i in range(count)]  # 0, 1, -1, 2, -2, ...
    orders = [[(i + step) % count for i in first] for step in range(count)]
    if count % 2 == 1:
        orders += [order[::-1] for order in orders]
    return orders * -(-ROUNDS // len(orders)) if orders else []


def time_in_turn(calls, repeats):
    """Times calls that are to be compared: {name: milliseconds} for {name: call}. A GPU changes its clock with its load
    and its temperature, and what a call leaves behind the next one finds: so they take turns, in orders that are fair
    to all, and the median of the rounds counts. A call for which memory does not suffice is left out."""
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


def problems_in_16_bits():
    """What is timed and counted: (types, batch, heads, length, head_dim, causal)."""
    return [
        ((torch.bfloat16, torch.float16), TOKENS // n, WIDTH // d, n, d, causal)
        for d in (64, 128)
        for causal in (False, True)
        for n in LENGTHS
    ]


def time_problems(float_lengths, columns, products, repeats, prepare):
    """Prints times. Returns rows for the record.

    columns: what is timed; in float16, which takes turns with bfloat16, only what is for 16 bits.
    products: matrix products of length * length * head_dim in what is timed.
    prepare(names, q, k, v, causal): gives {column: call} and {column: name of our kernel} for the names it can.
    """
    problems = problems_in_16_bits()
    problems += [((torch.float32,), 4, 16, n, 64, causal) for causal in (False, True) for n in float_lengths]
    rows = []
    print("Milliseconds; TFLOP/s of this lesson; its speed as a multiple of others'. - refuses, or is not there.")
    print(
        f"{'type':9}{'B':>3}{'H':>4}{'N':>7}{'D':>5} {'causal':7}"
        + "".join(f"{c:>20}" for c in columns)
        + f"{'TFLOP/s':>9}{'x FLASH':>9}{'x FA-3':>9}{'x cuDNN':>9}"
    )
    for types, batch, heads, length, head_dim, causal in problems:
        calls, kernels = {}, {}
        for dtype in types:
            names = columns
            if dtype == torch.float16:
                names = [name for name in columns if name in FOR_16_BITS or name not in BACKENDS]
            tensors = Problem(dtype, (batch, heads, length, head_dim), heads, length, False, causal).tensors("cuda")
            of_type, kernels[dtype] = prepare(names, *tensors, causal)
            calls.update({(dtype, name): call for name, call in of_type.items()})
        times = time_in_turn(calls, repeats)
        # Under the mask half of the products count, as in the literature.
        flops = 2 * products * batch * heads * length * length * head_dim / (2 if causal else 1)
        for dtype in types:
            milliseconds = {name: time for (of, name), time in times.items() if of == dtype}

            def ratio(name):
                return f"{milliseconds[name] / milliseconds[OURS]:9.2f}" if name in milliseconds else f"{'-':>9}"

            print(
                f"{name_of(dtype):9}{batch:3}{heads:4}{length:7}{head_dim:5} {'yes' if causal else 'no':7}"
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
                if name in kernels[dtype]:
                    row["kernel"] = kernels[dtype][name]
                rows.append(row)
    return rows


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


def count_problems(prepare):
    """What ncu counts of calls: see counters. Returns rows for the record. prepare() as for time_problems()."""
    if not counters.under_ncu():
        try:
            return counters.count()
        except counters.Uncounted as error:
            raise Failure(str(error)) from error
    for types, batch, heads, length, head_dim, causal in problems_in_16_bits():
        for dtype in types:
            sizes = (batch, heads, length, head_dim)
            tensors = Problem(dtype, sizes, heads, length, False, causal).tensors("cuda")
            calls, _ = prepare((OURS,) + FOR_HOPPER, *tensors, causal)
            for name, call in calls.items():
                label = label_of(name, dtype, batch, heads, length, head_dim, causal)
                counters.launch(torch, call, label)
    return []


def first_line(command):
    """What a command prints first; "unknown" when it prints nothing."""
    try:
        lines = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        lines = []
    return lines[0].strip() if lines else "unknown"


def write_record(path, on_gpu, commit, rows):
    """Writes the record, whole or not at all."""
    program = pathlib.Path(sys.argv[0]).resolve().relative_to(ROOT)
    record = {
        "gpu": torch.cuda.get_device_name() if on_gpu else "none",
        "driver": first_line(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]),
        "toolkit": torch.version.cuda or "none",
        "torch": torch.__version__,
        "commit": commit or first_line(["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"]),
        "date": datetime.date.today().isoformat(),
        "command": shlex.join(["python3", str(program)] + sys.argv[1:]),
    }
    head = "".join(f"  {json.dumps(name)}: {json.dumps(value)},\n" for name, value in record.items())
    body = ",\n".join("    " + json.dumps(row) for row in rows)
    with writing(path):
        write_file(path, "{\n" + head + '  "measurements": [\n' + body + "\n  ]\n}\n")


@contextlib.contextmanager
def writing(path):
    """Makes a Failure of what the system says."""
    try:
        yield
    except OSError as error:
        raise Failure(f"{path} cannot be written: {error.strerror}") from error


def print_errors(record, headings, field, what):
    """For each type and back end the most that an error of a record is. Old records have no rms."""
    most = {}
    for row in record["measurements"]:
        value = row.get(field) if row["what"] == "error" else None
        if value is not None:
            of_type = most.setdefault(row["type"], {})
            of_type[row["backend"]] = max(of_type.get(row["backend"], 0), value)
    if most:
        print(f"\n{what} against float64, the most over the problems that --check tries")
    for dtype, of_type in most.items():
        print(
            f"{dtype:<25}"
            + "".join(f"{of_type[n]:>10.2e}" if n in of_type else f"{'-':>10}" for n in headings)
        )


def by_problem(rows):
    """{(type, head_dim, mask, length): {back end: row}} of a record's rows."""
    problems = {}
    for row in rows:
        key = (row["type"], row["head_dim"], "causal" if row["causal"] else "full", row["length"])
        problems.setdefault(key, {})[row["backend"]] = row
    return problems


def print_types(title, problems, headings, speed, digits):
    """What float16 reaches of bfloat16's speed(row)."""
    lengths = sorted({length for dtype, _, _, length in problems if dtype == "float16"})
    if not lengths:
        return
    print(f"\n{title}, by length")
    print(f"{'':<12}{'D':>3} {'mask':<6}" + "".join(f"{n:>7}" for n in lengths))
    kinds = dict.fromkeys((head_dim, mask) for dtype, head_dim, mask, _ in problems if dtype == "float16")
    for backend, heading in headings.items():
        for kind in kinds:
            of = [[problems[(t, *kind, n)].get(backend) for t in ("float16", "bfloat16")] for n in lengths]
            if all(row is not None for rows in of for row in rows):
                ratios = "".join(f"{speed(half) / speed(brain):>7.{digits}f}" for half, brain in of)
                print(f"{heading:<12}{kind[0]:>3} {kind[1]:<6}{ratios}")


def print_counted(rows, headings):
    """What ncu counted, as a table, and whether float16 takes other cycles."""
    there = {row["backend"] for row in rows}
    headings = {backend: heading for backend, heading in headings.items() if backend in there}
    problems = by_problem(rows)
    counters.print_counters(problems, headings, OURS)
    title = "Cycles in bfloat16 over those in float16"
    print_types(title, problems, headings, lambda row: 1 / row["cycles"], 3)


def print_record(path, headings, what):
    """The times of a record as a table: TFLOP/s of each back end, and the errors of `what`."""
    try:
        record = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise Failure(f"{path} is no record: {error}") from error
    program = f"{pathlib.Path(sys.argv[0]).resolve().relative_to(ROOT)}"
    if not isinstance(record, dict) or program not in record.get("command", ""):
        raise Failure(f"{path} is no record of {program}")
    source = "({gpu}, driver {driver}, PyTorch {torch}, commit {commit}, {date})".format(**record)
    counted = [row for row in record["measurements"] if row["what"] == "counters"]
    if counted:
        print_counted(counted, headings)
        print(source)
        return
    there = {row["backend"] for row in record["measurements"]}
    headings = {backend: heading for backend, heading in headings.items() if backend in there}
    timed = [row for row in record["measurements"] if row["what"] == "time" and row["backend"] in headings]
    problems = by_problem(timed)
    compared = {name: heading for name, heading in ((FLASH_3, "x flash 3"), (CUDNN, "x cuDNN")) if name in there}
    print("TFLOP/s of this lesson and of others; - refuses. Behind them the lesson's speed over others'.")
    print(
        f"{'type':<9}{'D':>3} {'mask':<6}{'N':>6}"
        + "".join(f"{n:>10}" for n in headings.values())
        + "".join(f"{n:>10}" for n in compared.values())
    )
    for (dtype, head_dim, mask, length), of in problems.items():
        if dtype == "float16":  # below
            continue
        rates = {name: row["tflops"] for name, row in of.items()}
        print(
            f"{dtype:<9}{head_dim:>3} {mask:<6}{length:>6}"
            + "".join(f"{rates[n]:>10.1f}" if n in rates else f"{'-':>10}" for n in headings)
            + "".join(f"{rates[OURS] / rates[n]:>10.2f}" if n in rates else f"{'-':>10}" for n in compared)
        )
    title = "Speed in float16 over that in bfloat16"
    print_types(title, problems, headings, lambda row: row["tflops"], 2)
    print_errors(record, headings, "largest_error", f"Largest error of {what}")
    print_errors(record, headings, "rms_error", f"Rms of the error of {what}")
    print(source)


def parser_of(doc):
    """The options of an example."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--library", metavar="PATH", help="this lesson's library")
    parser.add_argument("--table", metavar="FILE", help="print a record; needs no PyTorch")
    parser.add_argument("--check", action="store_true", help="errors against float64")
    parser.add_argument("--time", action="store_true", help="times beside PyTorch's back ends")
    parser.add_argument("--counters", action="store_true", help="what ncu counts, for Hopper GPUs; alone")
    parser.add_argument(
        "--flash-attention-3",
        metavar="PATH",
        help="FlashAttention-3's library for PyTorch, to be checked and timed, too",
    )
    parser.add_argument("--repeats", type=int, default=20, help="how often a call is timed at least (default 20)")
    parser.add_argument("--json", metavar="FILE", help="write a record of what was measured")
    parser.add_argument("--commit", help="of the code, for the record of a copy without git")
    return parser


def run(args, load, check, time_all, count_all):
    """Does what the options ask for. Returns the exit status.

    load() gives an object with `runs_on`; check(it, device) gives rows and whether all errors are small;
    time_all(it, repeats) and count_all(it) give rows.
    """
    if args.repeats < 1:
        raise Failure(f"{args.repeats} repeats to time; at least 1 is needed")
    if args.counters and (args.check or args.time):
        raise Failure("--counters goes with neither --check nor --time: ncu would slow them down")
    if args.library is None:
        raise Failure("which library is to be called? Give --library PATH")
    if torch is None:
        raise Skipped("PyTorch is needed, and this Python has none")
    library = load()
    if args.flash_attention_3 is not None:
        load_flash_attention_3(args.flash_attention_3)
    on_gpu = library.runs_on == "gpu"
    if on_gpu and not torch.cuda.is_available():
        raise Failure("the library is for GPUs, and PyTorch finds none")
    if args.time and not on_gpu:
        raise Failure("the library is for the CPU, where times would say nothing")
    if args.counters and not on_gpu:
        raise Failure("the library is for the CPU, where ncu counts nothing")
    if args.json:
        with writing(args.json):
            check_writable(args.json)
    both = not (args.check or args.time or args.counters)
    rows, good = [], True
    if args.counters:
        rows = count_all(library)
        if counters.under_ncu():
            return 0
        print_counted(rows, HEADINGS)
    if args.check or both:
        rows, good = check(library, "cuda" if on_gpu else "cpu")
    if args.time or (both and on_gpu):
        rows += time_all(library, args.repeats)
    if args.json:
        write_record(args.json, on_gpu, args.commit, rows)
    return 0 if good else 1


def exit_with(main):
    """Runs main() as a program."""
    try:
        sys.exit(main())
    except Failure as error:
        print(f"example.py: {error}", file=sys.stderr)
        sys.exit(error.status)
