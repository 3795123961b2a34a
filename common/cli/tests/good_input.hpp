/// @file
/// For tests: a folder that read_input() accepts.
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

}  // namespace fa::cli
