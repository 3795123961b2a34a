/// @file
/// The first kernel: c = a + b. One thread for each element; the grid is rounded up to whole blocks, so the
/// last block has threads with nothing to do.
#pragma once

#include "common/gpu/kernel.cuh"

namespace fa::FA_TARGET {

/// c[i] = a[i] + b[i] for i < n.
/// Launch: any block of one dimension; at least n threads in all.
//! [vector_add]
__global__ void vector_add(const float* a, const float* b, float* c,
                           std::int64_t n) {
  //! [vector_add_body]
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) {  // the tail guard
    c[i] = a[i] + b[i];
  }
  //! [vector_add_body]
}
//! [vector_add]

}  // namespace fa::FA_TARGET
