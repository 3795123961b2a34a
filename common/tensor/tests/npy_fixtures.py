"""Prints .npy files that NumPy and PyTorch themselves wrote: name and bytes, one file a line.

    python3 common/tensor/tests/npy_fixtures.py > common/tensor/tests/npy_fixtures.txt

Needs the packages numpy, ml_dtypes and torch. The tests read the list that is stored here; this
script is for whoever wants to see where it comes from, or to add a file.

Element i, in row-major order, is (i - 2) * 0.75: exact in all four number types.
"""

import io

import ml_dtypes
import numpy as np
import torch


def values(shape, dtype):
    count = int(np.prod(shape, dtype=np.int64))
    return ((np.arange(count) - 2) * 0.75).reshape(shape).astype(dtype)


def save(name, array, version=None):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version=version)
    print(name, file.getvalue().hex())


# Files that load: the four types, ranks 0 to 5, the three versions of the format, no element at
# all.
save("float64_rank2", values((2, 3), np.float64))
save("float32_rank2", values((2, 3), np.float32))
save("float16_rank2", values((2, 3), np.float16))
save("bfloat16_rank2", values((2, 3), ml_dtypes.bfloat16))
save("float32_rank0", values((), np.float32))
save("float32_rank1", values((5,), np.float32))
save("float32_rank3", values((2, 1, 3), np.float32))
save("float32_rank4", values((1, 2, 3, 2), np.float32))
save("float32_rank5", values((1, 1, 2, 1, 2), np.float32))
save("float32_version2", values((2, 3), np.float32), (2, 0))
save("float32_version3", values((2, 3), np.float32), (3, 0))
save("float32_empty", values((0, 3), np.float32))

# The same from PyTorch: a tensor, and the transpose of one, made contiguous.
tensor = torch.tensor(values((2, 3), np.float32))
save("torch_float32", tensor.numpy())
save("torch_transposed", tensor.t().contiguous().numpy())

# Files that are refused.
save("refused_fortran_order", np.asfortranarray(values((2, 3), np.float32)))
save("refused_torch_transposed_view", tensor.t().numpy())
save("refused_big_endian", values((2, 3), ">f4"))
save("refused_int32", values((2, 3), np.int32))
save("refused_bool", values((2, 3), np.bool_))
save("refused_complex64", values((2, 3), np.complex64))
save("refused_structured", np.zeros(3, dtype=[("q", "<f4"), ("k", "<f4")]))
