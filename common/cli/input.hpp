/// @file
/// The input of a lesson: Q, K and V from `.npy` files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/tensor/tensor.hpp"

namespace fa::cli {

/// Q [batch, heads, length_q, head_dim], K and V [batch, kv_heads, length_k, head_dim] from a
/// directory, and the tokens from its tokens.txt: one per key, as printable() shows it, or none
/// without that file.
struct Input {
  std::filesystem::path directory;
  Tensor<float, 4> q, k, v;
  std::vector<std::string> tokens;
};

/// The directory of the shipped input: one attention layer applied to a real text (common/data).
std::filesystem::path shipped_input();

/// Reads q.npy, k.npy, v.npy and, where present, tokens.txt. Wider elements are rounded to float32,
/// before anything is computed from them.
/// @throws std::invalid_argument for a missing or malformed file, a rank other than 4, a size of 0,
///   an element that is NaN or infinite, or a number of tokens that is not the number of keys
Input read_input(const std::filesystem::path& directory);

/// The lines of a text file, without their line ends (LF or CRLF).
/// @throws std::invalid_argument when it cannot be read
std::vector<std::string> read_lines(const std::filesystem::path& path);

}  // namespace fa::cli
