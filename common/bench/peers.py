"""Attention of others, beside which the examples check and time their own: PyTorch's backends,
FlashAttention-3, FlashAttention-4 and, for decoding, FlashInfer."""

import ctypes
import functools
import importlib
import importlib.metadata
import importlib.util
import pathlib
import site
import warnings

from common.bench.command import Failure

try:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention
except ImportError:  # Python has no PyTorch
    torch = SDPBackend = sdpa_kernel = scaled_dot_product_attention = None

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
FIXED_ORDER = "fixed order"  # ours, without the dynamic tile scheduler
OURS_SAME_BITS = "deterministic"  # our kernels that give the same bits in every run
# The same mode of the others. PyTorch does not offer cuDNN's: only records have it.
SAME_BITS = {f"{name}, same bits": name for name in (FLASH_3, FLASH_4, CUDNN)}
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


def load(flash_3_path=None, flash_4_folder=None):
    """Finds the peers that PyTorch does not have. Returns {peer: its version} and prints it, and
    for those that are not there how to install them."""
    if flash_4_folder is not None:
        # With what its packages add to Python's path in turn.
        site.addsitedir(str(pathlib.Path(flash_4_folder).resolve()))
    cudnn = torch.backends.cudnn.version()
    peers = {f"{FLASH_2}, {EFFICIENT}, {MATH}": f"PyTorch {torch.__version__}"}
    peers[CUDNN] = f"cuDNN {cudnn}"
    peers[FLASH_3] = load_flash_attention_3(flash_3_path)
    function, what = flash_attention_4()
    peers[FLASH_4] = what if function else ""
    peers[FLASHINFER] = version_of("flashinfer-python")
    for name, version in peers.items():
        print(f"{name}: {version or 'not found. ' + INSTALL[name]}")
    if function is None and "No module named 'flash_attn" not in what:
        print(f"{FLASH_4} was not imported: {what}")
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
        options = {"is_causal": ctx.causal, "deterministic": ctx.same_bits}
        options |= {"dq": d_q, "dk": d_k, "dv": d_v}
        torch.ops.flash_attn_3.bwd(d_o.transpose(1, 2), q, k, v, o, lse, **options)
        return *(x.transpose(1, 2) for x in (d_q, d_k, d_v)), None, None


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
    backend = getattr(SDPBackend, name, None)  # None for a mode with the same bits
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
