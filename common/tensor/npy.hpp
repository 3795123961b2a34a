/// @file
/// Reading and writing `.npy`, the array file of NumPy (format description: NumPy Enhancement
/// Proposal 1, versions 1.0 to 3.0). PyTorch writes the same file by `np.save(path, t.numpy())`.
#pragma once

#include <filesystem>

#include "common/tensor/tensor.hpp"

namespace fa {

/// Reads a file of float64, float32 or float16 and `Rank` dimensions, and rounds its elements to
/// type T: double, float or half.
/// @throws std::invalid_argument when the file is missing, is not a `.npy` file, is truncated, or
///   holds another type or rank, big-endian elements or column-major order
template <class T, int Rank>
Tensor<T, Rank> read_npy(const std::filesystem::path& path);

/// Writes a view as a row-major, little-endian `.npy` file, version 1.0, completely or not at all.
/// @throws std::runtime_error when the file cannot be written
template <class T, int Rank>
void write_npy(const std::filesystem::path& path, View<const T, Rank> view);

/// Writes a tensor, as above.
/// @throws std::runtime_error when the file cannot be written
template <class T, int Rank>
void write_npy(const std::filesystem::path& path, const Tensor<T, Rank>& tensor) {
  write_npy<T, Rank>(path, tensor.view());
}

}  // namespace fa
