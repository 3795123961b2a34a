/// @file
/// The first kernel: c = a + b. One thread computes one element. The grid is rounded up to whole
/// blocks, so some threads of the last block have no element.
#pragma once

#include "common/gpu/kernel.cuh"
#include "common/gpu/launch.cuh"

namespace fa::FA_TARGET {

/// c[i] = a[i] + b[i] for i < n. Any 1D block.
//! [vector_add]
__global__ void vector_add(const float* a, const float* b, float* c,
                           std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) {  // the tail guard
    c[i] = a[i] + b[i];
  }
}
//! [vector_add]

/// Launches vector_add().
inline void launch_vector_add(const float* a, const float* b, float* c,
                              std::int64_t n) {
  const Size block(256);
  const Size grid(static_cast<unsigned>(ceil_div(n, std::int64_t{256})));
  launch(vector_add, {grid, block}, a, b, c, n);
}

FA_STEP_ROW(tiled, 1) {
  return row("01_vector_add", "grid, block, thread, tail")
      .tile(1, 256)
      .add(launch_vector_add);
}

}  // namespace fa::FA_TARGET
