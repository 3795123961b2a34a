"""Times attention over the GPUs of one machine by others beside the lesson's ring: PyTorch's
context parallelism and, where it is installed, ring-flash-attn.

    torchrun --standalone --nproc-per-node 2 -m 06_flash_backward.ring.beside_pytorch \
        --program build/learn/06_flash_backward/ring_attention_nccl

For each length the lesson's program is timed by --section time, then the others. Without
flash-attn, ring-flash-attn gets FlashAttention-2 as PyTorch has it. --ring-flash-attn makes it an
error that ring-flash-attn is not there.
"""

import argparse
import contextlib
import datetime
import functools
import importlib
import json
import os
import pathlib
import shlex
import site
import statistics
import subprocess
import sys
import tempfile
import time
import types

from common.bench.command import Failure, Skipped, exit_with
from common.bench.peers import folders_of, version_of
from common.bench.program import record_head
from common.bench.pytorch import SDPBackend, scaled_dot_product_attention, sdpa_kernel, torch
from common.bench.record import Record, add_options

BACKENDS = ("FLASH_ATTENTION", "CUDNN_ATTENTION")
ROTATIONS = ("allgather", "alltoall")  # of K and V: all at once, or round the ring
FIELDS = ("mask", "pass", "gpus", "length", "milliseconds", "tflops_per_gpu", "mebibytes_per_gpu")
FIELDS += ("milliseconds_least", "milliseconds_most")
OF_LESSON = ("percent_of_linear",)


def arguments():
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", default="16,32,64,128", help="in 1024 (default %(default)s)")
    parser.add_argument("--heads", type=int, default=16, help="(default %(default)s)")
    parser.add_argument("--head-dim", type=int, default=128, help="(default %(default)s)")
    parser.add_argument("--repeats", type=int, default=7, help="(default %(default)s)")
    parser.add_argument(
        "--ring-flash-attn",
        nargs="?",
        const="",
        metavar="FOLDER",
        help="ring-flash-attn must be there: installed, or in the folder of pip install --target",
    )
    parser.add_argument("--program", metavar="PATH", help="ring_attention_nccl, timed as well")
    add_options(parser, lists=False)
    return parser.parse_args()


def context_parallelism():
    """PyTorch's module, which has moved."""
    try:
        from torch.distributed.tensor.experimental._context_parallel import _attention
    except ImportError:
        from torch.distributed.tensor.experimental import _attention
    return _attention


# ---------------------------------------------------------------- ring-flash-attn


def pytorch_flash_attention():
    """The two functions of flash-attn that ring-flash-attn calls, by PyTorch's operations. LSE is
    [batch, heads, queries] in both; gradients are copied to where flash-attn writes them."""
    kept = {}  # state of the random numbers of dropout, which is never used

    def forward(
        q,
        k,
        v,
        dropout_p,
        softmax_scale,
        causal,
        window_size_left=-1,
        window_size_right=-1,
        alibi_slopes=None,
        return_softmax=False,
    ):
        o, lse, *kept["rng"], _ = torch.ops.aten._flash_attention_forward(
            *(q, k, v, None, None, q.shape[1], k.shape[1], float(dropout_p), causal, False),
            scale=softmax_scale,
        )
        return o, lse, None, None

    def backward(
        dout,
        q,
        k,
        v,
        out,
        softmax_lse,
        dq,
        dk,
        dv,
        dropout_p,
        softmax_scale,
        causal,
        window_size_left=-1,
        window_size_right=-1,
        alibi_slopes=None,
        deterministic=False,
    ):
        gradients = torch.ops.aten._flash_attention_backward(
            *(dout.contiguous(), q, k, v, out.contiguous(), softmax_lse.contiguous()),
            *(None, None, q.shape[1], k.shape[1]),
            *(float(dropout_p), causal, *kept["rng"]),
            scale=softmax_scale,
        )
        for to, gradient in zip((dq, dk, dv), gradients):
            to.copy_(gradient)

    module = types.ModuleType("flash_attn.flash_attn_interface")
    module._flash_attn_forward, module._flash_attn_backward = forward, backward
    return module


def load_ring_flash(place=None):
    """ring-flash-attn's functions {causal: function} and what it is; ({}, "") without it.

    place: a folder that it is in, or "": a Failure without it
    """
    if place:
        site.addsitedir(str(pathlib.Path(place).resolve()))
    version, flash = version_of("ring-flash-attn"), version_of("flash-attn")
    if not version:
        if place is not None:
            raise Failure(f"ring-flash-attn is not installed{f' in {place}' if place else ''}")
        return {}, ""
    if not flash:
        flash = "PyTorch's FlashAttention-2"
        sys.modules["flash_attn"] = types.ModuleType("flash_attn")
        sys.modules["flash_attn.flash_attn_interface"] = pytorch_flash_attention()
    # Its __init__ imports adapters for a package that need not be there.
    package = types.ModuleType("ring_flash_attn")
    package.__path__ = [str(folder) for folder in folders_of("ring_flash_attn")]
    sys.modules["ring_flash_attn"] = package
    found = {}
    for causal, name in ((False, "ring_flash_attn"), (True, "zigzag_ring_flash_attn")):
        module = importlib.import_module(f"ring_flash_attn.{name}")
        found[causal] = getattr(module, f"{name}_func")
    return found, f"{version}, with {flash}"


def own_rows(x, mesh, causal, dim):
    """A rank's rows of a whole tensor, in zig-zag order under the causal mask."""
    if not causal:
        return x.chunk(mesh.size(), dim)[mesh.get_rank()]
    pieces, rank = x.chunk(2 * mesh.size(), dim), mesh.get_rank()
    return torch.cat((pieces[rank], pieces[-1 - rank]), dim)


def check_ring_flash(functions, mesh):
    """A Failure where O or a gradient is not what attention on one GPU gives."""
    torch.manual_seed(1)  # the same inputs on all ranks
    shape = (1, 2048, 4, 64)
    whole = [torch.randn(shape, dtype=torch.bfloat16, device="cuda") for _ in range(4)]
    for causal, function in functions.items():
        heads_first = [x.transpose(1, 2).float().requires_grad_() for x in whole[:3]]
        o = scaled_dot_product_attention(*heads_first, is_causal=causal)
        gradients = torch.autograd.grad(o, heads_first, whole[3].transpose(1, 2).float())
        own = [own_rows(x, mesh, causal, 1).detach().requires_grad_() for x in whole[:3]]
        result = function(*own, causal=causal)
        d_o = own_rows(whole[3], mesh, causal, 1)
        results = (result, *torch.autograd.grad(result, own, d_o))
        for name, got, right in zip(("O", "dQ", "dK", "dV"), results, (o, *gradients)):
            right = own_rows(right.transpose(1, 2), mesh, causal, 1)
            error = ((got.float() - right).norm() / right.norm()).item()
            if not error < 0.02:
                raise Failure(f"ring-flash-attn: {name} differs by {error:.3g} of its size")


# ---------------------------------------------------------------- times


@contextlib.contextmanager
def in_pytorch(mesh, backend, rotation, shape, causal):
    """The inputs of a rank, dO, and PyTorch's function, within its context."""
    parallel = context_parallelism()
    parallel.set_rotate_method(rotation)
    parallel._cp_options.enable_load_balance = causal  # zig-zag order
    q, k, v, d_o = (torch.randn(shape, dtype=torch.bfloat16, device="cuda") for _ in range(4))
    buffers = [q, k, v, d_o]
    ranks = parallel.context_parallel(
        mesh, buffers=buffers, buffer_seq_dims=[2] * 4, no_restore_buffers=set(buffers)
    )
    with sdpa_kernel(getattr(SDPBackend, backend)), ranks:  # buffers have a rank's rows here
        inputs = [x.detach().requires_grad_() for x in (q, k, v)]
        # The attribute: PyTorch puts its own function there.
        yield (
            inputs,
            d_o,
            lambda: torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=causal),
        )


@contextlib.contextmanager
def in_ring_flash(mesh, function, shape, causal):
    """The same for ring-flash-attn."""
    batch, heads, length, head_dim = shape
    own = (batch, length // mesh.size(), heads, head_dim)
    *inputs, d_o = (torch.randn(own, dtype=torch.bfloat16, device="cuda") for _ in range(4))
    inputs = [x.requires_grad_() for x in inputs]
    yield inputs, d_o, lambda: function(*inputs, causal=causal)


def seconds_of(call):
    """What the slowest rank takes from a common start on, and what the call returns."""
    torch.cuda.synchronize()
    torch.distributed.barrier()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    result = call()
    torch.cuda.synchronize()
    own = torch.tensor([time.perf_counter() - begin], device="cuda")
    torch.distributed.all_reduce(own, torch.distributed.ReduceOp.MAX)
    return own.item(), result


def time_pass(prepared, repeats):
    """Seconds of the forward and of the backward pass, each in turn, after two rounds that do not
    count, and the most memory of a rank."""
    with prepared as (inputs, d_o, forward):
        torch.cuda.reset_peak_memory_stats()
        times = [], []
        for i in range(-2, repeats):
            of_forward, o = seconds_of(forward)
            of_backward, _ = seconds_of(lambda o=o: torch.autograd.grad(o, inputs, d_o))
            if i >= 0:
                times[0].append(of_forward)
                times[1].append(of_backward)
            del o, _
    return *times, torch.cuda.max_memory_allocated()


def others(mesh, functions, shape, causal):
    """{implementation: what prepares it}."""
    found = {
        f"PyTorch, {backend}, {rotation}": in_pytorch(mesh, backend, rotation, shape, causal)
        for backend in BACKENDS
        for rotation in ROTATIONS
    }
    if functions:
        found["ring-flash-attn"] = in_ring_flash(mesh, functions[causal], shape, causal)
    return found


def rows_of_lesson(mesh, length, args):
    """The rows of the lesson's program, which rank 0 starts; the other ranks wait for its end on
    the CPU, so that their GPUs are idle."""
    store = torch.distributed.distributed_c10d._get_default_store()
    key, rows = f"lesson {length}", []
    if mesh.get_rank() == 0:
        with tempfile.TemporaryDirectory() as folder:
            record = pathlib.Path(folder, "record.json")
            options = f"--section time --gpus {mesh.size()} --repeats {args.repeats}"
            options += f" --shortest {length} --longest {length} --head-dim {args.head_dim}"
            options += f" --heads {args.heads} --kv-heads {args.heads} --json {record}"
            command = [args.program, *options.split()]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise Failure(f"{shlex.join(command)}: {done.stdout}{done.stderr}")
            measured = json.loads(record.read_text(encoding="utf-8"))["measurements"]
        for row in measured:
            if row["gpus"] == mesh.size():
                of_row = {name: row[name] for name in FIELDS + OF_LESSON}
                rows.append({"implementation": "lesson", **of_row})
        store.set(key, "timed")
    else:
        store.wait([key], datetime.timedelta(seconds=300))
    return rows


def rows_beside(mesh, name, prepared, point, args):
    """A row for each pass of an implementation that is not the lesson's; none where it fails."""
    length = point["length"]
    try:
        *times, most = time_pass(prepared, args.repeats)
    except (RuntimeError, NotImplementedError) as error:
        if mesh.get_rank() == 0:
            print(f"{name}: {str(error).splitlines()[0]}")
        return []
    pairs = length * (length + 1) // 2 if point["mask"] == "causal" else length * length
    rows = []
    for which, seconds, matmuls in zip(("forward", "backward"), times, (2, 5)):
        middle = statistics.median(seconds)
        flops = 2 * matmuls * args.heads * args.head_dim * pairs
        values = (point["mask"], which, mesh.size(), length, round(1e3 * middle, 4))
        values += (round(flops / middle / mesh.size() / 1e12, 2), most >> 20)
        values += tuple(round(1e3 * f(seconds), 4) for f in (min, max))
        rows.append({"implementation": name, **dict(zip(FIELDS, values))})
    return rows


def points_of(mesh, functions, args):
    """{name: (point of a record, what measures its rows)}."""
    found = {}
    for kilo in map(int, args.lengths.split(",")):
        length = 1024 * kilo
        at = {"gpus": mesh.size(), "length": length}
        if args.program:
            point = {"implementation": "lesson", **at}
            found[f"lesson {kilo}"] = point, functools.partial(rows_of_lesson, mesh, kilo, args)
        for causal in (False, True):
            mask = "causal" if causal else "full"
            shape = (1, args.heads, length, args.head_dim)
            for name, prepared in others(mesh, functions, shape, causal).items():
                point = {"implementation": name, "mask": mask, **at}
                measured = functools.partial(rows_beside, mesh, name, prepared, point, args)
                found[f"{name} {mask} {kilo}"] = point, measured
    return found


def on_any_rank(late):
    """Whether it holds on one of the ranks, which all ask."""
    found = torch.tensor([float(late)], device="cuda")
    torch.distributed.all_reduce(found, torch.distributed.ReduceOp.MAX)
    return bool(found.item())


def main():
    """Times all and writes the record on rank 0."""
    args = arguments()
    if torch is None or not torch.cuda.is_available():
        raise Skipped("skipped: PyTorch with GPUs is needed")
    if "LOCAL_RANK" not in os.environ:
        raise Failure("start it with torchrun, as its first lines show")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    functions, ring_flash = load_ring_flash(args.ring_flash_attn)
    head = record_head(True, args, {"ring-flash-attn": ring_flash} if ring_flash else {})
    start = f"torchrun --standalone --nproc-per-node {os.environ['WORLD_SIZE']}"
    head["command"] = head["command"].replace("python3", start, 1)
    record = Record(args, head)  # all ranks read it before the first one can write
    mesh = torch.distributed.device_mesh.init_device_mesh("cuda", (int(os.environ["WORLD_SIZE"]),))
    if functions:
        check_ring_flash(functions, mesh)
    points = points_of(mesh, functions, args)
    if mesh.get_rank() > 0:
        record.path = None
    for name in record.left({name: point for name, (point, _) in points.items()}, on_any_rank):
        point, measured = points[name]
        rows = measured()
        record.put(point, rows)
        for row in rows if mesh.get_rank() == 0 else ():
            print("  ".join(f"{value}" for value in row.values()), flush=True)
    torch.distributed.destroy_process_group()
    return record.status() if mesh.get_rank() == 0 else 0


if __name__ == "__main__":
    exit_with(main)
