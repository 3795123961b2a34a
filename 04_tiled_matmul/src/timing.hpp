/// @file
/// How fast the kernels of this lesson are, compared with cuBLAS.
#pragma once

#include <cstdint>
#include <vector>

#include "04_tiled_matmul/src/backend.hpp"
#include "common/cli/results.hpp"

namespace fa::tiled {

/// Times the kernels of a group, interleaved, cuBLAS first where it computes the same.
/// @param backend a GPU
/// @param group   one of its groups
/// @param size    m, n and k
/// @return a row for each kernel: time, rate, percentages of the peak and of cuBLAS, and the
///         resources of a block
/// @throws std::runtime_error when the device reports an error
std::vector<cli::Measurement> time_kernels(const Backend& backend, const Group& group,
                                           std::int64_t size);

}  // namespace fa::tiled
