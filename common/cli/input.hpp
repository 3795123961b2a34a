/// @file
/// The input of a lesson: queries, keys and values from `.npy` files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/tensor/tensor.hpp"

namespace fa::cli {

/// Queries, keys and values, and the tokens they stand for where these are known.
struct Input {
  std::filesystem::path directory;  ///< where they came from
  Tensor<float, 4> q;               ///< [batch, heads, length_q, head_dim]
  Tensor<float, 4> k;               ///< [batch, kv_heads, length_k, head_dim]
  Tensor<float, 4> v;               ///< [batch, kv_heads, length_k, head_dim]
  /// One per key from tokens.txt, as printable() shows it; empty when there is no such file.
  std::vector<std::string> tokens;
};

/// The directory of the real input that comes with the course: one attention layer over a real text (common/data).
std::filesystem::path shipped_input();

/// Reads q.npy, k.npy, v.npy and, where present, tokens.txt. Wider elements are rounded to float32;
/// from there on all that is computed and compared starts from the same numbers.
/// @throws std::invalid_argument for a missing or malformed file, rank other than 4, a size of 0, an
///   element that is NaN or infinite, or a number of tokens that is not the number of keys
Input read_input(const std::filesystem::path& directory);

/// The lines of a text file, without their ends (a line feed, or a carriage return and a line feed).
/// @throws std::invalid_argument when it cannot be read
std::vector<std::string> read_lines(const std::filesystem::path& path);

}  // namespace fa::cli
