#!/usr/bin/env python3
"""Attention of this lesson on PyTorch's tensors, through its C interface; checked and timed beside PyTorch's own.

    05_flash_forward/interface/example.py --library BUILD/05_flash_forward/libflash_attention.so --check
    05_flash_forward/interface/example.py --library BUILD/05_flash_forward/libflash_attention.so --time

A library for GPUs takes CUDA tensors. One for the CPU takes those in the host's memory: it is checked, on small
tensors, but not timed. Without --check and --time: both for GPUs, the check alone for the CPU.

Exit status: 0 all is well, 1 an error is too large, 2 it could not be done.
"""

import argparse
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

try:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention
except ImportError:
    torch = None

OURS = "this lesson"
BACKENDS = ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH")
TOKENS, WIDTH = 16384, 2048  # of what is timed: batch * length, heads * head_dim
FLUSH_BYTES = 1 << 29  # more than any level 2 cache; sets the GPU to work while the host prepares the launch


class Failure(Exception):
    """What cannot be done, in a sentence."""


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
    )


class Library:
    """libflash_attention.so."""

    def __init__(self, path):
        try:
            self.c = ctypes.CDLL(str(pathlib.Path(path).resolve()))
            self.c.fa_forward.argtypes = [ctypes.POINTER(Attention)]
            self.c.fa_kernel_name.argtypes = [ctypes.POINTER(Attention)]
            self.c.fa_default_scale.argtypes = [ctypes.c_int64]
            self.c.fa_default_scale.restype = ctypes.c_double
            for function in ("fa_kernel_name", "fa_runs_on", "fa_last_error"):
                getattr(self.c, function).restype = ctypes.c_char_p
        except (OSError, AttributeError) as error:
            raise Failure(f"{path} is no library of this lesson: {error}")
        self.runs_on = self.c.fa_runs_on().decode()

    def error(self):
        return Failure(self.c.fa_last_error().decode())

    def prepare(self, q, k, v, causal=False, scale=None, dropout=0.0, seed=0):
        """A call on tensors [batch, heads, length, head_dim] whose rows are contiguous, in whatever order the other
        dimensions lie. Returns (call, o, lse): o lies like q. `call()` begins it on the stream that is current."""
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
            if tensor.stride(3) != 1:
                raise Failure(f"elements of the rows of {name} are {tensor.stride(3)} apart; allowed is 1")
            setattr(a, name, tensor.data_ptr())
            setattr(a, name + "_strides", Strides(*tensor.stride()[:3]))
        a.lse, a.causal, a.dropout, a.seed = lse.data_ptr(), int(causal), dropout, seed
        a.scale = self.c.fa_default_scale(head_dim) if scale is None else scale

        def call():
            if q.is_cuda:
                a.stream = torch.cuda.current_stream(q.device).cuda_stream
            if self.c.fa_forward(a) != 0:
                raise self.error()

        call.attention, call.tensors = a, (q, k, v, o, lse)  # memory that a points to lives as long as the call
        return call, o, lse

    def kernel_name(self, call):
        name = self.c.fa_kernel_name(call.attention)
        if name is None:
            raise self.error()
        return name.decode()


def backend_call(name, q, k, v, causal):
    """A function that computes attention with one of PyTorch's back ends; None when that refuses."""
    backend = getattr(SDPBackend, name, None)
    if backend is None:
        return None
    gqa = {"enable_gqa": True} if q.shape[1] != k.shape[1] else {}

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


def reference(q, k, v, causal):
    """O and LSE in float64."""
    q, k, v = q.double(), k.double(), v.double()
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
    length_q, length_k = q.shape[2], k.shape[2]
    ones = torch.ones(length_q, length_k, dtype=torch.bool, device=q.device)
    mask = ones.tril(length_k - length_q) if causal else ones
    with sdpa_kernel(SDPBackend.MATH):
        o = scaled_dot_product_attention(q, k, v, attn_mask=mask)
    scores = (q @ k.transpose(2, 3) / math.sqrt(q.shape[3])).masked_fill(~mask, -math.inf)
    return o, scores.logsumexp(-1)


def tensors(shape, kv_heads, length_k, dtype, device, length_first):
    """q, k and v, [batch, heads, length, head_dim], of which the length may come first in memory."""
    batch, heads, length_q, head_dim = shape

    def make(n, length):
        if length_first:
            size = (batch, length, n, head_dim)
            return torch.randn(size, device=device).to(dtype).transpose(1, 2)
        return torch.randn((batch, n, length, head_dim), device=device).to(dtype)

    return make(heads, length_q), make(kv_heads, length_k), make(kv_heads, length_k)


def largest(tensor):
    return tensor.abs().max().item()


def rms(tensor):
    return tensor.square().mean().sqrt().item()


def check(library, device):
    """Prints errors of o against float64. Returns rows for the record, and whether all of ours are small."""
    torch.manual_seed(1)
    small = device == "cpu"
    shapes = [  # [batch, heads, length_q, head_dim], kv_heads, length_k
        ((2, 4, 70, 64), 4, 70) if small else ((2, 8, 1000, 64), 8, 1000),
        ((1, 4, 65, 128), 2, 65) if small else ((2, 8, 777, 128), 2, 777),
        ((1, 2, 33, 40), 1, 90) if small else ((2, 4, 333, 40), 1, 900),
        ((1, 1, 20, 256), 1, 20) if small else ((1, 4, 500, 256), 4, 500),
    ]
    rows, good = [], True
    print("Largest errors of o against float64; - is a back end that refuses.")
    columns = (OURS,) + BACKENDS
    print(f"{'type':9}{'q':>20}{'k':>12} {'first':7}{'causal':7}" + "".join(f"{c:>20}" for c in columns))
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for shape, kv_heads, length_k in shapes:
            for length_first in (False, True):
                for causal in (False, True):
                    q, k, v = tensors(shape, kv_heads, length_k, dtype, device, length_first)
                    call, o, lse = library.prepare(q, k, v, causal)
                    call()
                    exact_o, exact_lse = reference(q, k, v, causal)
                    off = o.double() - exact_o
                    error = largest(off)
                    lse_error = largest(lse.double() - exact_lse)
                    errors, rms_errors = {OURS: error}, {OURS: rms(off)}
                    # PyTorch's causal mask is another one when lengths differ.
                    for name in BACKENDS if not causal or shape[2] == length_k else ():
                        theirs = backend_call(name, q, k, v, causal)
                        if theirs is not None:
                            off = theirs().double() - exact_o
                            errors[name], rms_errors[name] = largest(off), rms(off)
                    # The weights and o are rounded to the type: each costs half an epsilon of the largest value.
                    # Twice that; in float32 the sums count as well.
                    allowed = (16 if dtype == torch.float32 else 2) * torch.finfo(dtype).eps * largest(v)
                    allowed_lse = 32 * torch.finfo(torch.float32).eps * max(1, largest(exact_lse))
                    fine = error <= allowed and lse_error <= allowed_lse  # false for NaN
                    good = good and fine
                    verdict = ""
                    if not fine:
                        verdict = f"  too large: {allowed:.2e} is allowed; lse: {lse_error:.2e} of {allowed_lse:.2e}"
                    kind = str(dtype).rsplit(".", 1)[-1]
                    first = "length" if length_first else "heads"
                    print(
                        f"{kind:9}{'x'.join(map(str, shape)):>20}{f'{kv_heads}x{length_k}':>12} {first:7}"
                        f"{'yes' if causal else 'no':7}"
                        + "".join(f"{errors[c]:20.2e}" if c in errors else f"{'-':>20}" for c in columns)
                        + verdict
                    )
                    for name, value in errors.items():
                        rows.append(
                            {
                                "what": "error",
                                "backend": name,
                                "type": kind,
                                "batch": shape[0],
                                "heads": shape[1],
                                "kv_heads": kv_heads,
                                "length_q": shape[2],
                                "length_k": length_k,
                                "head_dim": shape[3],
                                "first": first,
                                "causal": causal,
                                "largest_error": value,
                                "rms_error": rms_errors[name],
                            }
                        )
    return rows, good


def median_milliseconds(call, repeats):
    """The median time of a call on the GPU, each time with a cold level 2 cache."""
    flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for i in range(-3, repeats):
        flush.zero_()
        start.record()
        call()
        stop.record()
        stop.synchronize()
        if i >= 0:
            times.append(start.elapsed_time(stop))
    return statistics.median(times)


def time_all(library, repeats):
    """Prints times. Returns rows for the record."""
    lengths = [1024 << i for i in range(5)]
    problems = [
        (torch.bfloat16, TOKENS // n, WIDTH // d, n, d, causal)
        for d in (64, 128)
        for causal in (False, True)
        for n in lengths
    ]
    problems += [(torch.float32, 4, 16, n, 64, causal) for causal in (False, True) for n in (1024, 4096)]
    rows = []
    print("Milliseconds; TFLOP/s of this lesson; its speed as a multiple of others'. - is a back end that refuses.")
    columns = (OURS,) + BACKENDS
    print(
        f"{'type':9}{'B':>3}{'H':>4}{'N':>7}{'D':>5} {'causal':7}"
        + "".join(f"{c:>20}" for c in columns)
        + f"{'TFLOP/s':>9}{'x FLASH':>9}{'x EFF.':>9}"
    )
    for dtype, batch, heads, length, head_dim, causal in problems:
        q, k, v = tensors((batch, heads, length, head_dim), heads, length, dtype, "cuda", False)
        ours, _, _ = library.prepare(q, k, v, causal)
        milliseconds = {}
        for name in columns:
            call = ours if name == OURS else backend_call(name, q, k, v, causal)
            if call is not None:
                try:
                    milliseconds[name] = median_milliseconds(call, repeats)
                except torch.cuda.OutOfMemoryError:
                    torch.cuda.empty_cache()
        # Under the mask half of the products count, as in the literature.
        flops = 4 * batch * heads * length * length * head_dim / (2 if causal else 1)
        kind = str(dtype).rsplit(".", 1)[-1]

        def ratio(name):
            return f"{milliseconds[name] / milliseconds[OURS]:9.2f}" if name in milliseconds else f"{'-':>9}"

        print(
            f"{kind:9}{batch:3}{heads:4}{length:7}{head_dim:5} {'yes' if causal else 'no':7}"
            + "".join(f"{milliseconds[c]:20.3f}" if c in milliseconds else f"{'-':>20}" for c in columns)
            + f"{flops / milliseconds[OURS] / 1e9:9.1f}{ratio('FLASH_ATTENTION')}{ratio('EFFICIENT_ATTENTION')}",
            flush=True,
        )
        for name, value in milliseconds.items():
            row = {
                "what": "time",
                "backend": name,
                "type": kind,
                "batch": batch,
                "heads": heads,
                "length": length,
                "head_dim": head_dim,
                "causal": causal,
                "milliseconds": round(value, 6),
                "tflops": round(flops / value / 1e9, 3),
            }
            if name == OURS:
                row["kernel"] = library.kernel_name(ours)
            rows.append(row)
    return rows


def first_line(command):
    """What a command prints first; "unknown" when it prints nothing."""
    try:
        lines = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        lines = []
    return lines[0].strip() if lines else "unknown"


def write_record(path, on_gpu, commit, rows):
    """Writes the record, whole or not at all."""
    root = str(pathlib.Path(__file__).resolve().parents[2])
    record = {
        "gpu": torch.cuda.get_device_name() if on_gpu else "none",
        "driver": first_line(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]),
        "toolkit": torch.version.cuda or "none",
        "torch": torch.__version__,
        "commit": commit or first_line(["git", "-C", root, "describe", "--always", "--dirty", "--abbrev=12"]),
        "date": datetime.date.today().isoformat(),
        "command": shlex.join(["python3", "05_flash_forward/interface/example.py"] + sys.argv[1:]),
    }
    head = "".join(f"  {json.dumps(name)}: {json.dumps(value)},\n" for name, value in record.items())
    body = ",\n".join("    " + json.dumps(row) for row in rows)
    unfinished = path + ".unfinished"
    try:
        with open(unfinished, "w", encoding="utf-8") as file:
            file.write("{\n" + head + '  "measurements": [\n' + body + "\n  ]\n}\n")
        os.replace(unfinished, path)
    except OSError as error:
        raise Failure(f"{path} cannot be written: {error.strerror}")


def print_errors(record, names, field, what):
    """For each type and back end the most that an error of a record is. Old records have no rms."""
    most = {}
    for row in record["measurements"]:
        value = row.get(field) if row["what"] == "error" else None
        if value is not None:
            of_type = most.setdefault(row["type"], {})
            of_type[row["backend"]] = max(of_type.get(row["backend"], 0), value)
    if most:
        print(f"\n{what} of o against float64, the most over the problems that --check tries")
    for dtype, of_type in most.items():
        print(
            f"{dtype:<25}" + "".join(f"{of_type[n]:>11.2e}" if n in of_type else f"{'-':>11}" for n in names)
        )


def print_record(path):
    """The times of a record as a table: TFLOP/s of each back end, and the errors."""
    try:
        record = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Failure(f"{path}: {error}") from error
    names = {
        "this lesson": "lesson",
        "FLASH_ATTENTION": "flash",
        "EFFICIENT_ATTENTION": "efficient",
        "CUDNN_ATTENTION": "cuDNN",
        "MATH": "math",
    }
    problems = {}
    for row in record["measurements"]:
        if row["what"] == "time" and row["backend"] in names:
            key = (row["type"], row["head_dim"], "causal" if row["causal"] else "full", row["length"])
            problems.setdefault(key, {})[row["backend"]] = row["tflops"]
    print("TFLOP/s of this lesson and of PyTorch's back ends; - refuses")
    print(f"{'type':<9}{'D':>3} {'mask':<6}{'N':>6}" + "".join(f"{n:>11}" for n in names.values()))
    for (dtype, head_dim, mask, length), rates in problems.items():
        print(
            f"{dtype:<9}{head_dim:>3} {mask:<6}{length:>6}"
            + "".join(f"{rates[n]:>11.1f}" if n in rates else f"{'-':>11}" for n in names)
        )
    print_errors(record, names, "largest_error", "Largest error")
    print_errors(record, names, "rms_error", "Rms of the error")
    print("({gpu}, driver {driver}, PyTorch {torch}, commit {commit}, {date})".format(**record))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", metavar="PATH", help="libflash_attention.so")
    parser.add_argument("--table", metavar="FILE", help="print a record; needs no PyTorch")
    parser.add_argument("--check", action="store_true", help="errors against float64")
    parser.add_argument("--time", action="store_true", help="times beside PyTorch's back ends")
    parser.add_argument("--repeats", type=int, default=20, help="how often a call is timed (default 20)")
    parser.add_argument("--json", metavar="FILE", help="write a record of what was measured")
    parser.add_argument("--commit", help="of the code, for the record of a copy without git")
    args = parser.parse_args()
    if args.repeats < 1:
        raise Failure(f"{args.repeats} repeats to time; at least 1 is needed")
    if args.table:
        print_record(args.table)
        return 0
    if args.library is None:
        raise Failure("which library is to be called? Give --library PATH")
    if torch is None:
        raise Failure("PyTorch is needed, and this Python has none")
    library = Library(args.library)
    on_gpu = library.runs_on == "gpu"
    if on_gpu and not torch.cuda.is_available():
        raise Failure("the library is for GPUs, and PyTorch finds none")
    if args.time and not on_gpu:
        raise Failure("the library is for the CPU, where times would say nothing")
    both = not (args.check or args.time)
    rows, good = [], True
    if args.check or both:
        rows, good = check(library, "cuda" if on_gpu else "cpu")
    if args.time or (both and on_gpu):
        rows += time_all(library, args.repeats)
    if args.json:
        write_record(args.json, on_gpu, args.commit, rows)
    return 0 if good else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as error:
        print(f"example.py: {error}", file=sys.stderr)
        sys.exit(2)
