"""Times PyTorch's context parallelism on the GPUs of one machine, for a comparison with
ring_attention_nccl --section time, whose rows have the same fields.

    torchrun --standalone --nproc-per-node 2 -m 06_flash_backward.ring.beside_pytorch
"""

import argparse
import json
import os
import statistics
import time

from common.bench.command import Failure, Skipped, exit_with
from common.bench.pytorch import SDPBackend, sdpa_kernel, torch
from common.data.files import check_writable, write_file

BACKENDS = ("FLASH_ATTENTION", "CUDNN_ATTENTION")
ROTATIONS = ("allgather", "alltoall")  # of K and V: all at once, or round the ring


def arguments():
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", default="16,32,64,128", help="in 1024 (default %(default)s)")
    parser.add_argument("--heads", type=int, default=16, help="(default %(default)s)")
    parser.add_argument("--head-dim", type=int, default=128, help="(default %(default)s)")
    parser.add_argument("--repeats", type=int, default=5, help="(default %(default)s)")
    parser.add_argument("--json", metavar="FILE", help="write a record")
    return parser.parse_args()


def context_parallelism():
    """PyTorch's module, which has moved."""
    try:
        from torch.distributed.tensor.experimental._context_parallel import _attention
    except ImportError:
        from torch.distributed.tensor.experimental import _attention
    return _attention


def seconds_of(call, repeats):
    """The median of what the slowest rank takes from a common start on."""
    times = []
    for i in range(-2, repeats):
        torch.cuda.synchronize()
        torch.distributed.barrier()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        call()
        torch.cuda.synchronize()
        own = torch.tensor([time.perf_counter() - begin], device="cuda")
        torch.distributed.all_reduce(own, torch.distributed.ReduceOp.MAX)
        if i >= 0:
            times.append(own.item())
    return statistics.median(times)


def time_pass(mesh, backend, rotation, length, causal, args):
    """Seconds of the forward and of the backward pass, and the most memory of a rank."""
    parallel = context_parallelism()
    parallel.set_rotate_method(rotation)
    parallel._cp_options.enable_load_balance = causal  # zig-zag order
    shape = (1, args.heads, length, args.head_dim)
    q, k, v, d_o = (torch.randn(shape, dtype=torch.bfloat16, device="cuda") for _ in range(4))
    buffers = [q, k, v, d_o]
    ranks = parallel.context_parallel(
        mesh, buffers=buffers, buffer_seq_dims=[2] * 4, no_restore_buffers=set(buffers)
    )
    with sdpa_kernel(getattr(SDPBackend, backend)), ranks:  # buffers have a rank's rows here
        torch.cuda.reset_peak_memory_stats()
        inputs = [x.detach().requires_grad_() for x in (q, k, v)]

        def forward():
            # The attribute: PyTorch puts its own function there.
            return torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=causal)

        of_forward = seconds_of(forward, args.repeats)
        o = forward()
        of_backward = seconds_of(
            lambda: torch.autograd.grad(o, inputs, d_o, retain_graph=True), args.repeats
        )
    return of_forward, of_backward, torch.cuda.max_memory_allocated()


def rows_of(mesh, args):
    """A row for each length, mask, pass, backend and rotation."""
    gpus = mesh.size()
    for length in (1024 * int(n) for n in args.lengths.split(",")):
        for causal in (False, True):
            pairs = length * (length + 1) // 2 if causal else length * length
            for backend in BACKENDS:
                for rotation in ROTATIONS:
                    try:
                        *times, most = time_pass(mesh, backend, rotation, length, causal, args)
                    except (RuntimeError, NotImplementedError) as error:
                        if mesh.get_rank() == 0:
                            print(f"{backend}, {rotation}: {str(error).splitlines()[0]}")
                        continue
                    for name, seconds, matmuls in zip(("forward", "backward"), times, (2, 5)):
                        flops = 2 * matmuls * args.heads * args.head_dim * pairs
                        yield {
                            "implementation": f"PyTorch, {backend}, {rotation}",
                            "mask": "causal" if causal else "full",
                            "pass": name,
                            "gpus": gpus,
                            "length": length,
                            "milliseconds": round(1e3 * seconds, 4),
                            "tflops_per_gpu": round(flops / seconds / gpus / 1e12, 2),
                            "mebibytes_per_gpu": most >> 20,
                        }


def main():
    """Times all and writes the record on rank 0."""
    args = arguments()
    if torch is None or not torch.cuda.is_available():
        raise Skipped("skipped: PyTorch with GPUs is needed")
    if "LOCAL_RANK" not in os.environ:
        raise Failure("start it with torchrun, as its first lines show")
    if args.json:
        check_writable(args.json)
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    mesh = torch.distributed.device_mesh.init_device_mesh("cuda", (int(os.environ["WORLD_SIZE"]),))
    rows = []
    for row in rows_of(mesh, args):
        rows.append(row)
        if mesh.get_rank() == 0:
            print("  ".join(f"{value}" for value in row.values()), flush=True)
    if args.json and mesh.get_rank() == 0:
        record = {
            "gpu": torch.cuda.get_device_name(),
            "torch": torch.__version__,
            "measurements": rows,
        }
        write_file(args.json, json.dumps(record, indent=1) + "\n")
    torch.distributed.destroy_process_group()
    return 0


if __name__ == "__main__":
    exit_with(main)
