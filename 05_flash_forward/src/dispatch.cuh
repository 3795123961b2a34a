/// @file
/// Which kernel computes attention, and how it is launched. The last rungs of the ladder and the C interface share
/// it.
#pragma once

#include <functional>
#include <string>
#include <type_traits>

#include "05_flash_forward/kernels/04_register_tiles.cuh"
#include "05_flash_forward/kernels/08_edge_masks.cuh"
#include "05_flash_forward/kernels/any_gpu.cuh"
#include "05_flash_forward/src/tma_launch.cuh"
#include "common/attention/grid.cuh"

namespace fa::FA_TARGET {

/// A kernel that computes all of a problem.
struct ForwardKernel {
  /// Kernels without a tile scheduler ignore the counter.
  PersistentLaunch launch;
  /// Name of its file in kernels/.
  const char* name;
  /// Columns that it is compiled for, at least the problem's.
  int head_dim;
  /// Bytes of the tile counter; 0 without a tile scheduler.
  std::size_t workspace_bytes = 0;
};

/// Calls work with the head dimension that a kernel is compiled for: the least that suffices.
/// @tparam least a power of two
/// @tparam most  a power of two, not less than head_dim
template <int least, int most, class Work>
auto with_head_dim(std::int64_t head_dim, Work work) {
  if constexpr (least < most) {
    if (head_dim > least) {
      return with_head_dim<2 * least, most>(head_dim, work);
    }
  }
  return work(std::integral_constant<int, least>{});
}

/// The kernel for a GPU that the others do not fit.
template <class T>
ForwardKernel any_gpu_kernel(const Attention<T>& a) {
  const Launch sizes{grid_of(a, kAnyGpuWarps), {kAnyGpuWarps * kWarp}};
  return {[=](const Stream& stream, unsigned*) {
            launch(stream, flash_any_gpu<T>, sizes, a);
          },
          "any_gpu", kAnyGpuColumns};
}

/// The fastest kernel for a problem with a head dimension up to 256.
/// @param a      what is computed
/// @param device where; the choice depends on nothing else
inline ForwardKernel forward_kernel(
    const Attention<float>& a,
    const DeviceProperties& device = device_properties()) {
  return with_head_dim<32, 256>(a.head_dim, [&](auto head_dim) {
    constexpr int d = decltype(head_dim)::value;
    const auto with_tile = [&](auto tile) {
      using Tile = decltype(tile);
      const auto kernel = a.dropout.threshold > 0
                              ? flash_register_tiles<Tile, true>
                              : flash_register_tiles<Tile, false>;
      const Launch sizes{
          grid_of(a, Tile::block_m), {Tile::threads}, Tile::shared_bytes};
      return ForwardKernel{[=](const Stream& stream, unsigned*) {
                             launch(stream, kernel, sizes, a);
                           },
                           "04_register_tiles", d};
    };
    using Tile = FloatTile<d>;
    if (can_run(device, kNeedsCpAsync.with_shared(Tile::shared_bytes))) {
      return with_tile(Tile{});
    }
    if constexpr (d > 32) {
      using Small = FloatTile<d, true>;
      if (can_run(device, kNeedsCpAsync.with_shared(Small::shared_bytes))) {
        return with_tile(Small{});
      }
    }
    return any_gpu_kernel(a);
  });
}

/// The fastest kernel without Hopper's instructions, for the 16-bit types.
/// @tparam T half or bfloat16
/// @param a      what is computed
/// @param device where
template <class T>
ForwardKernel sm_80_kernel(
    const Attention<T>& a,
    const DeviceProperties& device = device_properties()) {
  const auto with_tile = [&](auto tile) {
    using Tile = decltype(tile);
    const auto kernel = a.dropout.threshold > 0
                            ? flash_edge_masks<Tile, T, true>
                            : flash_edge_masks<Tile, T, false>;
    const Launch sizes{grid_of(a, Tile::block_m),
                       {Tile::threads},
                       pipeline_bytes<Tile, T>(),
                       kPipelineStages};
    return ForwardKernel{[=](const Stream& stream, unsigned*) {
                           launch(stream, kernel, sizes, a);
                         },
                         "08_edge_masks", Tile::d};
  };
  return with_head_dim<32, 256>(a.head_dim, [&](auto head_dim) {
    constexpr int d = decltype(head_dim)::value;
    using Tile = EdgeMaskTile<d>;
    if (can_run(device, kNeedsMma.with_shared(pipeline_bytes<Tile, T>()))) {
      return with_tile(Tile{});
    }
    if constexpr (d == 256) {
      using Small = SmallEdgeMaskTile;
      if (can_run(device,
                  kNeedsMma.with_shared(pipeline_bytes<Small, T>()))) {
        return with_tile(Small{});
      }
    }
    return any_gpu_kernel(a);
  });
}

/// Whether a device has what the last rungs are made for. In the lab nothing is fast, and the older kernels take all
/// problems.
inline bool prefers_hopper(
    const DeviceProperties& device = device_properties()) {
  return device.compute_capability != 0 && can_run(device, kNeedsHopper);
}

/// The fastest kernel with Hopper's instructions.
/// @tparam T half or bfloat16
/// @param a  a problem for which can_use_tma() holds
template <class T>
ForwardKernel sm_90_kernel(const Attention<T>& a) {
  if (a.head_dim > 64 && a.head_dim <= 128) {
    using Tile = LadderTile<T>;
    return {persistent_launch<Tile>(a, flash_lazy_rescaling<Tile, T>),
            "14_lazy_rescaling", 128, sizeof(unsigned)};
  }
  const auto shares = [&](auto head_dim) {
    constexpr int d = decltype(head_dim)::value;
    using Tile = WarpgroupTilesTile<T, d>;
    return ForwardKernel{
        persistent_launch<Tile>(a, flash_warpgroup_tiles<Tile, T>),
        "15_warpgroup_tiles", d, sizeof(unsigned)};
  };
  return a.head_dim <= 64 ? shares(std::integral_constant<int, 64>{})
                          : shares(std::integral_constant<int, 256>{});
}

/// The fastest kernel for a problem, for the 16-bit types.
/// @tparam T half or bfloat16
/// @param a      what is computed
/// @param device where; the choice depends on nothing else
template <class T>
ForwardKernel forward_kernel(
    const Attention<T>& a,
    const DeviceProperties& device = device_properties()) {
  static_assert(sizeof(T) == 2, "half or bfloat16");
  return prefers_hopper(device) && can_use_tma(a) ? sm_90_kernel(a)
                                                  : sm_80_kernel(a, device);
}

/// Launches the kernel that forward_kernel() names.
/// @param a            with a head dimension that is a multiple of 8 up to 256
/// @param stream       where
/// @param tile_counter as for PersistentLaunch
/// @throws as launch()
template <class T>
void launch_forward(const Attention<T>& a, const Stream& stream,
                    unsigned* tile_counter = nullptr) {
  forward_kernel(a).launch(stream, tile_counter);
}

}  // namespace fa::FA_TARGET
