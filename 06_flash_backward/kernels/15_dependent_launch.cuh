/// @file
/// Programmatic dependent launch: of the three kernels of a backward pass each may start before the
/// one before it has ended. Its blocks become resident as SMs become free, initialize their barriers
/// and wait in grid_dependency_wait() for what the kernel before writes. Launching a kernel takes
/// some microseconds, which a small problem notices.
///
/// Source: NVIDIA, CUDA C++ Programming Guide, programmatic dependent launch and synchronization.
#pragma once

#include "06_flash_backward/kernels/14_persistent.cuh"

namespace fa::FA_TARGET {

/// Launches the rung: rung 14's kernels with 64 columns, rung 12's with 128, where a persistent
/// block has no room for a second stage of K and V.
/// @tparam d     64 or 128, at least head_dim
/// @param a      with a Workspace{d, true}
/// @param stream where
//! [launch]
template <int d, class T>
void launch_backward_dependent(const AttentionGradient<T>& a,
                               const Stream& stream) {
  if constexpr (d == 64) {
    launch_backward_persistent<d>(a, stream, true);
  } else {
    launch_backward_store_then_reduce<d>(a, stream, true);
  }
}
//! [launch]

}  // namespace fa::FA_TARGET
