"""What to do about constructs that the lab does not have."""

import re

# Headers of the CUDA Toolkit and of what stands on it, by how their names begin.
TOOLKIT = {
    "thrust": "use plain kernels, or the algorithms of C++ on the host",
    "cub": "write the block's reduction or scan as a kernel",
    "cublas": "compute the matmul by a kernel, or on the host",
    "curand": "fill the input on the host, with <random>",
    "(cudnn|cufft|cusparse|cusolver)": "it is a library without source",
    "nccl": "the lab has one card",
    "nvrtc": "compile the kernel with the program",
    "nvtx": "leave the marks out",
    "nvToolsExt": "leave the marks out",
    "(cutlass|cute)": "write the kernel with PTX or <cuda/ptx>; see lesson 05 for examples",
    "nvml": "the lab has no driver",
}
OTHERS = {
    "cuda/": "of libcu++ it has <cuda/atomic>, <cuda/barrier>, <cuda/pipeline>, <cuda/ptx> and "
    "<cuda/std/...>",
    "torch": "call the kernel from a main() of its own",
    "ATen": "call the kernel from a main() of its own",
    "pybind11": "call the kernel from a main() of its own",
    "helper_": "it is of NVIDIA's samples; put it beside the file, or give its folder by -I",
}
NAMES = {
    r"__(shfl|shfl_(up|down|xor)|ballot|any|all)":
        "CUDA 9 replaced it, and new GPUs do not have it: the same name with _sync and a mask, as "
        "__shfl_down_sync(0xffffffff, x, 1)",
    r"omp_\w+": "OpenMP: the lab ignores its pragmas, and the loops run on one thread; put "
        "the call behind #ifdef _OPENMP",
    r"cudaGraph\w*|cudaKernelNodeParams|cudaStream(Get)?Captur\w*":
        "capture a stream instead of adding nodes, or launch the kernels one after the other",
    r"tex\dD\w*|cudaCreateTextureObject|cudaTextureObject_t|texture|cudaBindTexture\w*":
        "textures: read the array through a pointer",
    r"surf\dD\w*|cudaSurfaceObject_t": "surfaces: use an array through a pointer",
    r"cudaArray\w*|cudaMallocArray|cudaMemcpyToArray": "arrays for textures: use cudaMalloc()",
    r"cudaMalloc3D\w*|cudaMemcpy3D\w*|cudaPitchedPtr|make_cudaExtent":
        "use cudaMalloc() and cudaMemcpy()",
    r"cudaIpc\w*|cudaDeviceEnablePeerAccess|cudaMemcpyPeer\w*": "the lab has one card",
    r"cu[A-Z]\w*|CU\w+": "the driver's interface: use the runtime's (cudaMalloc() and the like)",
    r"cublas\w+": "of cuBLAS the lab has cublasSgemm(), cublasGemmEx() and the same with strides "
        "in batches",
    r"thrust|cub|curand\w*|cufft\w*|cusparse\w*": "a library of the CUDA Toolkit, which "
        "the lab does not have",
    r"__nv\w+": "a type that the lab does not have",
}  # fmt: skip


def of_toolkit(header):
    """What to do about a header of the CUDA Toolkit that the lab does not have; None for others."""
    name = header.split("/")
    for start, text in sorted(TOOLKIT.items(), reverse=True):  # cublas before cub
        if re.fullmatch(start, name[0]) or (
            len(name) == 1 and re.match(rf"{start}(_\w+|Lt|Xt|Ext)?\.(h|hpp|cuh)$", name[0])
        ):
            return text
    return None


def of_name(name):
    """What to do about a name; None where nothing is known of it."""
    for pattern, text in NAMES.items():
        if re.fullmatch(pattern, name):
            return f"not in the lab: {text}"
    return None


def of_error(text):
    """A compiler's message, with what to do where that is known."""
    missing = re.match(r"'?(?P<file>[^':]+)'?(?:: No such file| file not found)", text)
    if missing:
        name = missing["file"]
        for start, what in OTHERS.items():
            if name.split("/")[-1].startswith(start) or name.startswith(start):
                return f"<{name}> is not in the lab: {what}"
        return f"<{name}> is not found; give its folder by -I"
    library = re.search(r"include: (?P<file>[^\"'\s]+)", text)
    if library:
        return f"<{library['file']}> is not in the lab: {of_toolkit(library['file'])}"
    ptx = re.search(r"PTX: (?P<text>[^\"']*)", text)
    if ptx:
        return f"inline PTX that the lab does not have: {ptx['text'].strip()}"
    for name in re.findall(r"['‘]([A-Za-z_][\w:]*)[^'’]*['’]", text):
        for part in name.split("::"):
            advice = of_name(part)
            if advice:
                return f"{part}: {advice}"
    return text
