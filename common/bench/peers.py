"""Attention of others, beside which the examples check and time their own: PyTorch's backends,
FlashAttention-3, FlashAttention-4 and, for decoding, FlashInfer."""

import ctypes
import functools
import importlib
import importlib.metadata
import importlib.util
import os
import pathlib
import site
import warnings

from common.bench.command import Failure
from common.bench.pytorch import SDPBackend, scaled_dot_product_attention, sdpa_kernel, torch

OURS = "this lesson"
FLASH_2 = "FLASH_ATTENTION"
FLASH_3 = "FLASH_ATTENTION_3"
FLASH_4 = "FLASH_ATTENTION_4"
EFFICIENT = "EFFICIENT_ATTENTION"
CUDNN = "CUDNN_ATTENTION"
MATH = "MATH"
FLASHINFER = "FLASHINFER"
BACKENDS = (FLASH_2, FLASH_3, FLASH_4, EFFICIENT, CUDNN, MATH)
FOR_16_BITS = (FLASH_2, FLASH_3, FLASH_4, CUDNN)
FOR_FLOAT32 = (EFFICIENT, MATH)
FOR_HOPPER = (FLASH_3, FLASH_4, CUDNN)  # counted
FIXED_ORDER = "fixed order"  # ours, without the dynamic tile scheduler
OURS_SAME_BITS = "deterministic"  # our kernels that give the same bits in every run
# The same mode of the others. PyTorch does not offer cuDNN's: nvidia-cudnn-frontend does.
SAME_BITS = {f"{name}, same bits": name for name in FOR_HOPPER}
HEADINGS = {  # of columns in the table of a record
    OURS: "lesson",
    FIXED_ORDER: "fixed",
    OURS_SAME_BITS: "determ.",
    FLASH_2: "flash",
    FLASH_3: "flash 3",
    FLASH_4: "flash 4",
    EFFICIENT: "efficient",
    CUDNN: "cuDNN",
    MATH: "math",
    FLASHINFER: "flashinfer",
    **{name: f"{heading} det" for name, heading in zip(SAME_BITS, ("flash 3", "flash 4", "cuDNN"))},
}
INSTALL = {
    FLASH_3: "pip install xformers==0.0.34 --no-deps nvidia-cuda-runtime-cu12",
    FLASH_4: "pip install --pre --target FOLDER --no-deps flash-attn-4 nvidia-cutlass-dsl "
    "nvidia-cutlass-dsl-libs-base nvidia-cutlass-dsl-libs-core nvidia-cutlass-dsl-libs-cu13 "
    "'apache-tvm-ffi<0.2' torch-c-dlpack-ext quack-kernels einops; then --flash-attention-4 FOLDER",
    f"{CUDNN}, same bits": "pip install 'nvidia-cudnn-frontend>=1.32'",
    FLASHINFER: "pip install flashinfer-python; it compiles its kernels when they are called first",
}


def folders_of(package):
    """Where an installed package lies; it is not imported."""
    spec = importlib.util.find_spec(package)
    return [pathlib.Path(f) for f in spec.submodule_search_locations or ()] if spec else []


def version_of(*packages):
    """The version of the first one that is installed, with its name; empty for none."""
    for package in packages:
        try:
            return f"{package} {importlib.metadata.version(package)}"
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""


def load_flash_attention_3(path=None):
    """Loads the library of FlashAttention-3, which PyTorch does not have, so that its operations
    are there. Without a path it is looked for in installed packages. Returns which it is; empty
    when there is none."""
    if path is None:
        places = {"xformers": "flash_attn_3/_C*.so", "flash_attn_3": "_C*.so"}
        found = [
            file
            for package, pattern in places.items()
            for folder in folders_of(package)
            for file in folder.glob(pattern)
        ]
        if not found:
            return ""
        path = found[0]
    # It may be for CUDA 12, whose runtime is a package of its own.
    for folder in folders_of("nvidia"):
        for runtime in folder.glob("cuda_runtime/lib/libcudart.so.12"):
            ctypes.CDLL(str(runtime), mode=ctypes.RTLD_GLOBAL)
    try:
        torch.ops.load_library(str(pathlib.Path(path).resolve()))
    except OSError as error:
        raise Failure(f"{path} cannot be loaded: {error}") from error
    if not hasattr(torch.ops.flash_attn_3, "fwd"):
        raise Failure(f"{path} has no operation flash_attn_3::fwd")
    known = "xformers" in str(path) and version_of("xformers")
    return known or str(path)


@functools.cache
def flash_attention_4():
    """FlashAttention-4's function and its version; (None, why) when it is not there."""
    try:
        function = importlib.import_module("flash_attn.cute").flash_attn_func
        return function, version_of("flash-attn-4")
    except ModuleNotFoundError as error:
        return None, str(error)
    except Exception as error:  # what an installation that does not fit raises is not known
        return None, f"{type(error).__name__}: {error}"


@functools.cache
def cudnn_frontend():
    """Whether cuDNN's deterministic mode can be had, and why not. FlashAttention-3 may have loaded
    a second runtime of CUDA, so the frontend, from 1.32 on, is told which one is PyTorch's."""
    runtime = f"libcudart.so.{str(torch.version.cuda).split('.', maxsplit=1)[0]}"
    os.environ.setdefault("CUDNN_FRONTEND_CUDART_LIB_NAME", runtime)
    try:
        q, o = (torch.zeros(1, 1, 64, 64, dtype=torch.bfloat16, device="cuda") for _ in range(2))
        cudnn_gradients(q, q, q, o, torch.zeros(1, 1, 64, 1, device="cuda"), False)
        return True, ""
    except ModuleNotFoundError:
        return False, ""
    except Exception as error:  # as above
        return False, f"{type(error).__name__}: {error}"


def load(flash_3_path=None, flash_4_folder=None):
    """Finds the peers that PyTorch does not have. Returns {peer: its version} and prints it, and
    for those that are not there how to install them."""
    if flash_4_folder is not None:
        # With what its packages add to Python's path in turn.
        site.addsitedir(str(pathlib.Path(flash_4_folder).resolve()))
    cudnn = torch.backends.cudnn.version()
    peers = {f"{FLASH_2}, {EFFICIENT}, {MATH}": f"PyTorch {torch.__version__}"}
    peers[CUDNN] = f"cuDNN {cudnn}"
    same_bits = f"{CUDNN}, same bits"
    there, why = cudnn_frontend()
    peers[same_bits] = version_of("nvidia-cudnn-frontend") if there else ""
    peers[FLASH_3] = load_flash_attention_3(flash_3_path)
    function, what = flash_attention_4()
    peers[FLASH_4] = what if function else ""
    peers[FLASHINFER] = version_of("flashinfer-python")
    for name, version in peers.items():
        print(f"{name}: {version or 'not found. ' + INSTALL[name]}")
    if function is None and "No module named 'flash_attn" not in what:
        print(f"{FLASH_4} was not imported: {what}")
    if why:
        print(f"{same_bits} was refused: {why}")
    return {name: version for name, version in peers.items() if version}


class FlashAttention3(torch.autograd.Function if torch else object):
    """FlashAttention-3 with its gradients. Its tensors are [batch, length, heads, head_dim], in any
    order in memory."""

    @staticmethod
    def forward(ctx, q, k, v, causal, same_bits):
        lengths_first = [x.transpose(1, 2) for x in (q, k, v)]
        o, lse, *_ = torch.ops.flash_attn_3.fwd(*lengths_first, is_causal=causal, num_splits=1)
        ctx.save_for_backward(*lengths_first, o, lse)
        ctx.causal, ctx.same_bits = causal, same_bits
        return o.transpose(1, 2)

    @staticmethod
    def backward(ctx, d_o):
        q, k, v, o, lse = ctx.saved_tensors
        d_q, d_k, d_v = (torch.empty_like(x) for x in (q, k, v))
        torch.ops.flash_attn_3.bwd(
            d_o.transpose(1, 2),
            q,
            k,
            v,
            o,
            lse,
            dq=d_q,
            dk=d_k,
            dv=d_v,
            is_causal=ctx.causal,
            deterministic=ctx.same_bits,
        )
        return *(x.transpose(1, 2) for x in (d_q, d_k, d_v)), None, None


class CudnnSameBits(torch.autograd.Function if torch else object):
    """cuDNN's attention, with gradients that are the same bits in every run."""

    @staticmethod
    def forward(ctx, q, k, v, causal):
        group = q.shape[1] // k.shape[1]
        wide = [x.repeat_interleave(group, 1) if group > 1 else x for x in (k, v)]
        o, lse, *_ = torch.ops.aten._scaled_dot_product_cudnn_attention(
            q, *wide, None, True, 0.0, causal
        )
        lse = lse.reshape(*lse.shape[:3], 1).contiguous()
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.launch = cudnn_gradients(q, k, v, o, lse, causal)
        return o

    @staticmethod
    def backward(ctx, d_o):
        q, k, v, o, lse = ctx.saved_tensors
        gradients = [torch.empty_like(x) for x in (q, k, v)]
        ctx.launch([q, k, v, o, d_o, lse, *gradients])
        return *gradients, None


def cudnn_gradients(q, k, v, o, lse, causal):
    """What launches cuDNN's deterministic backward pass on a list of q, k, v, o, d_o, lse, d_q, d_k
    and d_v."""
    cudnn = importlib.import_module("cudnn")
    kind = cudnn.data_type.HALF if q.dtype == torch.float16 else cudnn.data_type.BFLOAT16
    graph = cudnn.pygraph(
        io_data_type=kind,
        intermediate_data_type=cudnn.data_type.FLOAT,
        compute_data_type=cudnn.data_type.FLOAT,
    )
    inputs = [
        graph.tensor(dim=list(x.shape), stride=list(x.stride()), data_type=of)
        for x, of in ((q, kind), (k, kind), (v, kind), (o, kind), (o, kind))
    ]
    inputs.append(
        graph.tensor(
            dim=list(lse.shape), stride=list(lse.stride()), data_type=cudnn.data_type.FLOAT
        )
    )
    outputs = graph.sdpa_backward(
        **dict(zip(("q", "k", "v", "o", "dO", "stats"), inputs)),
        attn_scale=q.shape[3] ** -0.5,
        use_causal_mask=causal,
        use_deterministic_algorithm=True,
    )
    for tensor, like in zip(outputs, (q, k, v)):
        tensor.set_output(True).set_dim(list(like.shape)).set_stride(list(like.stride()))
    graph.validate()
    graph.build_operation_graph()
    graph.create_execution_plans([cudnn.heur_mode.A])
    graph.check_support()
    graph.build_plans()
    workspace = torch.empty(graph.get_workspace_size(), dtype=torch.uint8, device=q.device)
    handle = cudnn.create_handle()

    def launch(tensors):
        cudnn.set_stream(handle=handle, stream=torch.cuda.current_stream(q.device).cuda_stream)
        graph.execute(dict(zip((*inputs, *outputs), tensors)), workspace, handle=handle)

    return launch


def call_of(name, q, k, v, causal):
    """A function that computes o with one of BACKENDS or SAME_BITS; None when it is not there."""
    same_bits = name in SAME_BITS
    base = SAME_BITS.get(name, name)
    only_16_bits = same_bits or base in (FLASH_3, FLASH_4)
    if only_16_bits and (q.dtype == torch.float32 or not q.is_cuda):
        return None
    if base == FLASH_3:
        if not hasattr(torch.ops.flash_attn_3, "fwd"):
            return None
        return lambda: FlashAttention3.apply(q, k, v, causal, same_bits)
    if base == FLASH_4:
        function, _ = flash_attention_4()
        if function is None:
            return None
        of = [x.transpose(1, 2) for x in (q, k, v)]
        options = {"causal": causal, "deterministic": same_bits}

        def flash_4():
            o = function(*of, **options)
            return (o[0] if isinstance(o, tuple) else o).transpose(1, 2)

        return flash_4
    if same_bits:
        return (lambda: CudnnSameBits.apply(q, k, v, causal)) if cudnn_frontend()[0] else None
    backend = getattr(SDPBackend, name, None)
    if backend is None:
        return None
    gqa = {"enable_gqa": True} if q.shape[1] != k.shape[1] else {}

    def pytorch():
        with sdpa_kernel(backend):
            return scaled_dot_product_attention(q, k, v, is_causal=causal, **gqa)

    return pytorch


def backend_call(name, q, k, v, causal):
    """A function that computes attention with one of BACKENDS or SAME_BITS and returns o; None when
    that refuses, or is not there."""
    call = call_of(name, q, k, v, causal)
    if call is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # why it refuses
            call()
    except Exception as error:  # PyTorch raises RuntimeError, also without memory; others, others
        if not isinstance(error, RuntimeError):
            print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0][:200]}")
        if q.is_cuda:
            torch.cuda.empty_cache()
        return None
    return call
