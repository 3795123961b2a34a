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

/// Launches the rung: the kernels of rung 14 where persistent blocks are faster, or else those of
/// rungs 11 and 12.
/// @tparam d            64, 96 or 128, at least head_dim
/// @param a             with a Workspace{d, true}
/// @param deterministic whether every run gives the same bits
/// @param stream        where
//! [launch]
template <int d, class T>
void launch_backward_dependent(const AttentionGradient<T>& a,
                               bool deterministic, const Stream& stream) {
  constexpr bool with_pdl = true;
  if (prefers_persistent_blocks(a)) {
    deterministic ? launch_backward_persistent<true>(a, stream, with_pdl)
                  : launch_backward_persistent<false>(a, stream, with_pdl);
  } else {
    deterministic ? launch_backward_ordered_dq<d>(a, stream, with_pdl)
                  : launch_backward_store_then_reduce<d>(a, stream, with_pdl);
  }
}
//! [launch]

}  // namespace fa::FA_TARGET
