/// @file
/// Sections of this lesson's program: how fast the kernels are, compared with cuBLAS, and the order
/// of operations of the steps for Hopper, which shows which warpgroup waits for what.
#pragma once

#include <cstdint>
#include <vector>

#include "04_tiled_matmul/src/backend.hpp"
#include "common/cli/table.hpp"
#include "common/cli/timelines.hpp"

namespace fa::tiled {

/// Times the kernels of a group, interleaved, cuBLAS first where it computes the same.
/// @param backend a GPU
/// @param size    m, n and k
/// @return a row for each kernel: time, rate, percentages of the peak and of cuBLAS, and the
///         resources of a block
/// @throws std::runtime_error when the device reports an error
std::vector<cli::Measurement> time_kernels(const Backend& backend, const Group& group,
                                           std::int64_t size);

/// The sizes of a matmul A B.
struct MatmulSizes {
  std::int64_t m, n, k;
};

/// Whose operations are shown: two tiles of C, with 8 steps along k each.
constexpr MatmulSizes kDrawn{128, 512, 512};

/// What the lab records of a step that computes A B.
/// @param backend the lab
/// @param step    of its group "mma", from step 19 on
/// @throws std::runtime_error when the step does not compute in the lab
cli::RecordedStep recorded(const Backend& backend, const Kernel& step);

/// Prints the order of operations of steps 19 to 21.
/// @param backend the lab
void show_operations(const Backend& backend, const cli::TimelineOptions& options);

}  // namespace fa::tiled
