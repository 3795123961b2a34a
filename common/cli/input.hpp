/// @file
/// The input of a lesson: Q, K and V from `.npy` files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/tensor/tensor.hpp"

namespace fa::cli {

/// The input of a lesson and the directory that it was read from.
struct Input {
  /// @{ Q is [batch, heads, length_q, head_dim], K and V are [batch, kv_heads, length_k, head_dim].
  std::filesystem::path directory;
  Tensor<float, 4> q, k, v;
  /// @}
  /// One per key from tokens.txt, as printable() shows it; empty without that file.
  std::vector<std::string> tokens;
};

/// The directory of the shipped input: one attention layer applied to a real text (common/data).
std::filesystem::path shipped_input();

/// Reads q.npy, k.npy, v.npy and, where present, tokens.txt. Wider elements are rounded to float32,
/// before anything is computed from them.
/// @throws std::invalid_argument for a missing or malformed file, a rank other than 4, a size of 0,
///   an element that is NaN or infinite, or a number of tokens that is not the number of keys
Input read_input(const std::filesystem::path& directory);

}  // namespace fa::cli
