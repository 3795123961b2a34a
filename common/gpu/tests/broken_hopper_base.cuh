/// @file
/// What the broken kernels for Hopper share: see broken_hopper.cuh.
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "common/gpu/hopper.cuh"
#include "common/gpu/tensor_map.cuh"
#include "common/gpu/tests/broken.cuh"

namespace fa::FA_TARGET {

/// An entry of the table. Its kind is that of a lab::Finding, or "deadlock": then the launch
/// throws.
struct BrokenHopperKernel : BrokenKernel {
  std::string says{};  ///< values that the message has; may be empty
  std::string file{};  ///< in this folder, which has the marked lines
};

/// Entries whose kernels are in a file of this folder.
inline std::vector<BrokenHopperKernel> in_file(const char* file,
                                               std::vector<BrokenHopperKernel> kernels) {
  for (BrokenHopperKernel& kernel : kernels) kernel.file = file;
  return kernels;
}

/// The tile of all of them.
using HopperTile = SwizzledTile<half, 64, 64>;
/// Shared memory of those that have barriers.
struct HopperShared {
  HopperTile tiles[2];
  Mbarrier full[2], empty;
  Pipeline<1> pipe;
};

/// Fills a tile with ones.
__device__ inline void fill_tile(HopperTile& tile) {
  for (unsigned i = threadIdx.x; i < 64 * 64; i += kWarpgroup) tile.data[i] = from_float<half>(1);
}

/// A tile and its barrier.
struct HopperStage {
  HopperTile& tile;
  Mbarrier& full;
};
/// The first ones of HopperShared, in dynamic shared memory.
__device__ inline HopperStage first_stage() {
  auto& shared = *dynamic_shared<HopperShared>();
  return {shared.tiles[0], shared.full[0]};
}

/// A tile of ones that wgmma may read, in dynamic shared memory. All threads of the block call it.
__device__ inline HopperTile& tile_of_ones() {
  HopperTile& tile = *dynamic_shared<HopperTile>();
  fill_tile(tile);
  fence_async_proxy();
  __syncthreads();
  return tile;
}

/// Zeros, as a tensor of three tiles, and room for outputs.
struct HopperInput {
  DeviceBuffer<half> data{3 * 64 * 64};
  DeviceBuffer<half> out{64 * 64};
  DeviceBuffer<float> sums{2 * kWarpgroup};
  HopperInput() {
    data.zero();
    sums.zero();
  }
  TensorMap map() const { return tensor_map(data.data(), 3 * 64, 64, 64, 64); }
  /// What a kernel takes as a parameter of a type.
  template <class T>
  auto argument() {
    if constexpr (std::is_same_v<T, half*>) {
      return out.data();
    } else if constexpr (std::is_same_v<T, float*>) {
      return sums.data();
    } else {
      return map();
    }
  }
};

/// BrokenKernel::run of a kernel that takes of HopperInput what it has parameters for.
/// @param how    its first parameter, what is wrong; the right twin has another
/// @param blocks more than one are a cluster
template <class How, class... Params>
auto hopper(void (*kernel)(How, Params...), How how, unsigned threads, unsigned blocks = 1,
            How right = How{}) {
  return [=](bool is_broken) {
    HopperInput in;
    const int cluster = static_cast<int>(blocks);
    launch(kernel, {{blocks}, {threads}, sizeof(HopperShared), 0, false, cluster},
           is_broken ? how : right, in.argument<std::remove_const_t<Params>>()...);
    device_synchronize();
  };
}

}  // namespace fa::FA_TARGET
