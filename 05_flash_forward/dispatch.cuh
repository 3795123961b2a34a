/// @file
/// Which kernel computes attention, and how it is launched. The last rungs of the ladder and the C interface share
/// it.
#pragma once

#include <string>
#include <type_traits>

#include "05_flash_forward/grid.cuh"
#include "05_flash_forward/kernels/04_register_tiles.cuh"
#include "05_flash_forward/kernels/08_finish.cuh"

namespace fa::FA_TARGET {

/// A kernel that computes all of a problem, with the sizes of its launch.
template <class T>
struct ForwardKernel {
  void (*kernel)(Attention<T>);  ///< the kernel
  Launch sizes;                  ///< of its launch
  const char* name;              ///< of its file in kernels/
  int head_dim;                  ///< columns that it is compiled for
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

/// The fastest kernel for a problem with a head dimension up to 256.
inline ForwardKernel<float> forward_kernel(const Attention<float>& a) {
  return with_head_dim<32, 256>(a.head_dim, [&](auto head_dim) {
    constexpr int d = decltype(head_dim)::value;
    using Tile = FloatTile<d>;
    return ForwardKernel<float>{
        a.dropout.threshold > 0 ? flash_register_tiles<d, true>
                                : flash_register_tiles<d, false>,
        {grid_of(a, Tile::block_m), {Tile::threads}, Tile::shared_bytes},
        "04_register_tiles",
        d};
  });
}

/// The same for the 16-bit types.
/// @tparam T half or bfloat16
template <class T>
ForwardKernel<T> forward_kernel(const Attention<T>& a) {
  static_assert(sizeof(T) == 2, "half or bfloat16");
  return with_head_dim<32, 256>(a.head_dim, [&](auto head_dim) {
    constexpr int d = decltype(head_dim)::value;
    using Tile = FinishedTile<d>;
    return ForwardKernel<T>{a.dropout.threshold > 0
                                ? flash_finish<Tile, T, true>
                                : flash_finish<Tile, T, false>,
                            {grid_of(a, Tile::block_m),
                             {Tile::threads},
                             pipeline_bytes<Tile, T>()},
                            "08_finish",
                            d};
  });
}

/// Launches the kernel that forward_kernel() names.
/// @param a      with a head dimension that is a multiple of 8 up to 256
/// @param stream where
/// @throws as launch()
template <class T>
void launch_forward(const Attention<T>& a, const Stream& stream) {
  const ForwardKernel<T> forward = forward_kernel(a);
  launch(stream, forward.kernel, forward.sizes, a);
}

}  // namespace fa::FA_TARGET
