/// @file
/// Which kernel computes attention on a device: for the C interface and lesson 06.
#pragma once

#include <functional>

#include "05_flash_forward/kernels/04_register_tiles.cuh"
#include "05_flash_forward/kernels/08_edge_masks.cuh"
#include "05_flash_forward/kernels/17_split_tf32.cuh"
#include "05_flash_forward/kernels/any_gpu.cuh"
#include "05_flash_forward/library/hopper_kernel.cuh"
#include "common/attention/shape.hpp"
#include "common/attention/tma_support.cuh"

namespace fa::FA_TARGET {

/// A kernel that supports a problem.
struct ForwardKernel {
  /// Launches it. The second argument is the workspace, the counter of the tile scheduler: see
  /// launch_persistent(). Kernels without a tile scheduler ignore it.
  std::function<void(const Stream&, unsigned*)> launch;
  /// Name of its file in kernels/, or of the step that explains it.
  const char* name;
  /// Columns that it is compiled for, at least the problem's.
  int head_dim;
  /// 0 without a tile scheduler.
  std::size_t workspace_bytes = 0;
  /// Columns of v and o that it is compiled for.
  int head_dim_v = head_dim;
};

/// The kernel for what no other one supports: GPUs, and a head_dim_v that is not head_dim.
template <class T>
ForwardKernel any_gpu_kernel(const Attention<T>& a) {
  return {[=](const Stream& stream, unsigned*) { launch_any_gpu(a, stream); }, "any_gpu",
          kAnyGpuColumns};
}

/// The fastest kernel for float32 without tensor cores.
inline ForwardKernel register_tiles_kernel(const Attention<float>& a,
                                           const DeviceProperties& device = device_properties()) {
  if (a.head_dim_v != a.head_dim) return any_gpu_kernel(a);
  const auto fits = [&](auto tile) {
    return can_run(device, kNeedsCpAsync.with_shared(decltype(tile)::shared_bytes));
  };
  const auto kernel = [&](auto tile) {
    using Tile = decltype(tile);
    return ForwardKernel{
        [=](const Stream& stream, unsigned*) { launch_register_tiles<Tile>(a, stream); },
        "04_register_tiles", Tile::d};
  };
  return with_head_dim<32, 64, 128, 256>(a.head_dim, [&](auto head_dim) {
    constexpr int d = decltype(head_dim)::value;
    if (fits(FloatTile<d>{})) return kernel(FloatTile<d>{});
    if constexpr (d > 32) {
      using Small = FloatTile<d, true>;
      if (fits(Small{})) return kernel(Small{});
    }
    return any_gpu_kernel(a);
  });
}

/// The fastest kernel for a problem with a head dimension up to 256, for float32. Not step 17 in
/// the lab: nothing is fast there, and it takes longest to emulate tensor cores.
/// @param device of the machine, the choice depends on this alone
inline ForwardKernel forward_kernel(const Attention<float>& a,
                                    const DeviceProperties& device = device_properties()) {
  if (device.compute_capability == 0 || a.head_dim > 128 || a.head_dim_v != a.head_dim) {
    return register_tiles_kernel(a, device);
  }
  return with_head_dim<32, 64, 128>(a.head_dim, [&](auto head_dim) {
    using Tile = SplitForwardTile<decltype(head_dim)::value>;
    if (!can_run(device, kNeedsMma.with_shared(pipeline_bytes<Tile, float>()))) {
      return register_tiles_kernel(a, device);
    }
    return ForwardKernel{
        [=](const Stream& stream, unsigned*) { launch_split_tf32<Tile>(a, stream); },
        "17_split_tf32", Tile::d};
  });
}

/// The fastest kernel without Hopper's instructions, for the 16-bit types.
template <class T>
ForwardKernel sm_80_kernel(const Attention<T>& a,
                           const DeviceProperties& device = device_properties()) {
  if (a.head_dim_v != a.head_dim) return any_gpu_kernel(a);
  return with_head_dim<32, 64, 128, 256>(a.head_dim, [&](auto d) {
    if (!can_run(device, kNeedsMma.with_shared(SmallEdgeMasksBlock<T, d>::shared_bytes))) {
      return any_gpu_kernel(a);
    }
    return ForwardKernel{
        [=](const Stream& stream, unsigned*) { launch_edge_masks(a, stream, device); },
        "08_edge_masks", d};
  });
}

/// Whether a device has what the Hopper kernels are made for. Not the lab: nothing is fast there,
/// and the older kernels support all problems.
inline bool prefers_hopper(const DeviceProperties& device = device_properties()) {
  return device.compute_capability != 0 && can_run(device, kNeedsHopper);
}

/// Whether step 15 is faster than step 14 with 128 columns: the last tile of queries or of keys is
/// at most half full, and step 15 leaves the other half out.
template <class T>
bool leaves_out_half_tiles(const Attention<T>& a) {
  const auto is_half = [](int length) { return (length - 1) % (2 * kHalfKeys) < kHalfKeys; };
  return is_half(a.length_q) || is_half(a.length_k);
}

/// Whether step 16 is faster than steps 14 and 15. It is if there are no more tiles of queries than
/// SMs, and either the mask is causal or there are at most 64 columns: step 15's tile has more
/// queries then, and so leaves more SMs without one.
template <class T>
bool prefers_mirrored_tiles(const Attention<T>& a, int sm_count) {
  const std::int64_t tiles = std::int64_t{a.batch} * a.heads * ceil_div(a.length_q, 2 * kQueries);
  return tiles <= sm_count && (a.causal || a.head_dim <= 64);
}

/// The fastest kernel with Hopper's instructions.
/// @param a a problem for which can_use_tma() holds
template <class T>
ForwardKernel sm_90_kernel(const Attention<T>& a, const DeviceProperties& device) {
  if (a.head_dim_v != a.head_dim) {
    return {[=](const Stream& stream, unsigned* tile_counter) {
              launch_forward<ForwardForm::kOwn, kMlaHeadDim, kMlaHeadDimV>(a, stream, tile_counter);
            },
            "15_warpgroup_tiles", kMlaHeadDim, sizeof(unsigned), kMlaHeadDimV};
  }
  if (prefers_mirrored_tiles(a, device.sm_count)) {
    // Whatever the size of a problem, callers give the same workspace.
    return with_head_dim<64, 128, 256>(a.head_dim, [&](auto head_dim) {
      constexpr int d = decltype(head_dim)::value;
      return ForwardKernel{[=](const Stream& stream, unsigned*) {
                             launch_forward<ForwardForm::kMirrored, d>(a, stream, nullptr);
                           },
                           "16_mirrored_tiles", d, sizeof(unsigned)};
    });
  }
  return with_head_dim<64, 96, 128, 192, 256>(a.head_dim, [&](auto head_dim) {
    constexpr int d = decltype(head_dim)::value;
    if constexpr (d == 128) {
      if (!leaves_out_half_tiles(a)) {
        return ForwardKernel{[=](const Stream& stream, unsigned* tile_counter) {
                               launch_forward<ForwardForm::kWhole, d>(a, stream, tile_counter);
                             },
                             "14_lazy_rescaling", d, sizeof(unsigned)};
      }
    }
    return ForwardKernel{[=](const Stream& stream, unsigned* tile_counter) {
                           launch_forward<ForwardForm::kOwn, d>(a, stream, tile_counter);
                         },
                         "15_warpgroup_tiles", d, sizeof(unsigned)};
  });
}

/// The fastest kernel for a problem, for the 16-bit types.
/// @param device of the machine, the choice depends on this alone
template <class T>
ForwardKernel forward_kernel(const Attention<T>& a,
                             const DeviceProperties& device = device_properties()) {
  static_assert(sizeof(T) == 2, "half or bfloat16");
  return prefers_hopper(device) && can_use_tma(a) ? sm_90_kernel(a, device)
                                                  : sm_80_kernel(a, device);
}

}  // namespace fa::FA_TARGET
