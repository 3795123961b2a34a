/// @file
/// How fast the kernels of this lesson are, beside the library that is the measure.
#pragma once

#include <cstdint>
#include <vector>

#include "04_tiled_matmul/src/backend.hpp"
#include "common/cli/results.hpp"

namespace fa::tiled {

/// Times the kernels of a group in turn, cuBLAS first where it computes the same.
/// @param machine a GPU
/// @param group   one of its groups
/// @param size    rows, columns and depth
/// @return a row for each kernel: time, rate, shares of the peak and of cuBLAS, and what it takes of a
///         multiprocessor
/// @throws std::runtime_error when the device reports an error
std::vector<cli::Measurement> time_kernels(const Backend& backend,
                                           const Group& group,
                                           std::int64_t size);

}  // namespace fa::tiled
