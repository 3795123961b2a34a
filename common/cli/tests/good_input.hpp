/// @file
/// For tests: folders for read_input().
#pragma once

#include <filesystem>

#include "common/data/files.hpp"
#include "common/tensor/npy.hpp"
#include "common/tensor/random.hpp"

namespace fa::cli {

/// q, k and v that read_input() accepts, with as many tokens as keys.
inline void write_good_input(const std::filesystem::path& directory) {
  write_npy(directory / "q.npy", normal_tensor<float, 4>({1, 2, 5, 4}, 1));
  write_npy(directory / "k.npy", normal_tensor<float, 4>({1, 2, 3, 4}, 2));
  write_npy(directory / "v.npy", normal_tensor<float, 4>({1, 2, 3, 4}, 3));
  write_file(directory / "tokens.txt", "[CLS]\nAlice\n[SEP]\n");
}

/// q, k and v of three types: two sequences, and two query heads for each head of k and v.
inline void write_gqa_input(const std::filesystem::path& directory, std::int64_t length_q,
                            std::int64_t length_k) {
  write_npy(directory / "q.npy", normal_tensor<double, 4>({2, 4, length_q, 16}, 1));
  write_npy(directory / "k.npy", normal_tensor<half, 4>({2, 2, length_k, 16}, 2));
  write_npy(directory / "v.npy", normal_tensor<float, 4>({2, 2, length_k, 16}, 3));
}

/// An input that is refused: three query heads, and two heads of k and v.
inline void write_uneven_heads(const std::filesystem::path& directory) {
  write_npy(directory / "q.npy", normal_tensor<float, 4>({1, 3, 5, 8}, 1));
  write_npy(directory / "k.npy", normal_tensor<float, 4>({1, 2, 5, 8}, 2));
  write_npy(directory / "v.npy", normal_tensor<float, 4>({1, 2, 5, 8}, 3));
}

}  // namespace fa::cli
