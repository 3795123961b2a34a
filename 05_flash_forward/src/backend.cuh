/// @file
/// The ladder of this lesson as a table, on one backend. Compiled once for each: see
/// common/gpu/target.hpp.
#pragma once

#include "05_flash_forward/kernels/01_unfused.cuh"
#include "05_flash_forward/kernels/02_flash_1.cuh"
#include "05_flash_forward/kernels/03_flash_2.cuh"
#include "05_flash_forward/src/dispatch.cuh"
#include "05_flash_forward/src/forward_rung.cuh"

namespace fa::FA_TARGET {
namespace {  // one source file for each backend includes this

// Tiles of blocks that own a tile of queries and iterate over tiles of keys.
template <class... Tile>
std::vector<Tiles> forward_tiles(int stages, bool persists = false) {
  return {{Tile::block_m, Tile::block_n, 0, stages, Tile::d, persists}...};
}

// @{ Blocks of rungs 04, 05 to 07, 08, 15, 16 and 17; shared memory of the smallest tiles.
inline Blocks register_blocks() {
  return {forward_tiles<FloatTile<64>, FloatTile<256>>(1),
          bytes_by(kPow2<32, 256>, [](auto d) { return FloatTile<d, (d > 32)>::shared_bytes; })};
}
inline Blocks plain_blocks(int stages) {
  return {forward_tiles<PlainForwardTile<64>>(stages), bytes_by(kPow2<64, 128>, [=](auto d) {
            return stages == 1 ? plain_forward_bytes<d, half>()
                               : pipeline_bytes<PlainForwardTile<d>, half>();
          })};
}
inline Blocks edge_mask_blocks() {
  return {forward_tiles<ForwardTileFor<64>, ForwardTileFor<256>>(kPipelineStages),
          bytes_by(kPow2<32, 256>, [](auto d) {
            using Small = std::conditional_t<d == 256, SmallForwardTile256, ForwardTileFor<d>>;
            return pipeline_bytes<Small, half>();
          })};
}
inline Blocks warpgroup_blocks() {
  using Mla = HopperTileFor<half, kMlaHeadDim, kMlaHeadDimV>;
  std::vector<Tiles> tiles =
      forward_tiles<HopperTileFor<half, 64>, HopperTileFor<half, 96>, HopperTileFor<half, 192>,
                    HopperTileFor<half, 256>, Mla>(2, true);
  tiles.front().key_stages = 3;
  tiles.back().head_dim_v = kMlaHeadDimV;
  return {tiles};
}
inline Blocks mirrored_blocks() {
  std::vector<Tiles> tiles = forward_tiles<MirroredTile<half, 64>, MirroredTile<half, 256>>(2);
  tiles.front().key_stages = 3;
  return {tiles};
}
inline Blocks split_blocks() {
  return {forward_tiles<SplitForwardTile<64>, SplitForwardTile<128>>(kPipelineStages),
          bytes_by(kPow2<32, 128>,
                   [](auto d) { return pipeline_bytes<SplitForwardTile<d>, float>(); })};
}
// @}

// clang-format off
// The ladder: a row for each rung.
inline std::vector<flash::Rung> ladder() {
  const auto bits32 = forward_rung<float>;
  const auto mma = [](auto... name) {
    return forward_rung<half, bfloat16>(name...).needs(kNeedsMma);
  };
  const auto hopper = [](auto... name) { return forward_rung<half, bfloat16>(name...).hopper(); };
  const Blocks tma{forward_tiles<HopperTile128<half>>(2)};
  const Blocks persistent{forward_tiles<HopperTile128<half>>(2, true)};
  return {
      bits32("01_unfused", "three kernels, scores in global memory")
          .blocks({{{kUnfusedTile, kUnfusedTile, 0, 1}}})
          .launch(floats(unfused_workspace),
                 [](auto& a, auto on) { launch_unfused(a, on, on.workspace); }),
      bits32("02_flash_1", "outer loop over tiles of keys").columns(kAny<128>)
          .blocks({{{kFlash1Queries, kFlash1Keys, 1, 1}}})
          .launch(floats(flash_1_workspace),
                 [](auto& a, auto on) { launch_flash_1(a, on, on.workspace); }),
      bits32("03_flash_2", "one block per tile of queries").columns(kAny<128>)
          .blocks({{{kFlash2Queries, kFlash2Keys, 0, 1}}})
          .launch([](auto& a, auto on) { launch_flash_2(a, on); }),
      bits32("04_register_tiles", "8 x 8 scores per lane").needs(kNeedsCpAsync)
          .blocks(register_blocks())
          .launch([](auto& a, auto on) { register_tiles_kernel(a).launch(on, nullptr); }),
      mma("05_tensor_cores", "P stays in registers").columns(kAny<128>).blocks(plain_blocks(1))
          .launch([](auto& a, auto on) { launch_tensor_cores(a, on); }),
      mma("06_swizzle", "ldmatrix, no bank conflicts").columns(kAny<128>).blocks(plain_blocks(1))
          .launch([](auto& a, auto on) { launch_swizzle(a, on); }),
      mma("07_pipeline", "cp.async pipeline").columns(kAny<128>)
          .blocks(plain_blocks(kPipelineStages))
          .launch([](auto& a, auto on) { launch_pipeline(a, on); }),
      mma("08_edge_masks", "masks at the edge only, exp2").blocks(edge_mask_blocks())
          .launch([](auto& a, auto on) { sm_80_kernel(a).launch(on, nullptr); }),
      hopper("09_wgmma", "wgmma and TMA").columns(kAny<128>).blocks(tma)
          .launch([](auto& a, auto on) { launch_wgmma(a, on); }),
      hopper("10_warp_specialized", "a producer warpgroup").columns(kAny<128>).blocks(tma)
          .launch([](auto& a, auto on) { launch_warp_specialized(a, on); }),
      hopper("11_overlap", "softmax overlaps the matmuls").columns(kAny<128>).blocks(tma)
          .launch([](auto& a, auto on) { launch_overlap(a, on); }),
      hopper("12_ping_pong", "ping-pong warpgroup scheduling").columns(kAny<128>).blocks(tma)
          .launch([](auto& a, auto on) { launch_ping_pong(a, on); }),
      hopper("13_persistent", "dynamic tile scheduler").columns(kAny<128>).blocks(persistent)
          .launch(TileCounterWorkspace{},
                 [](auto& a, auto on) { launch_persistent(a, on, on.workspace); }),
      hopper("14_lazy_rescaling", "lazy rescaling").columns(kAny<128>).blocks(persistent)
          .launch(TileCounterWorkspace{},
                 [](auto& a, auto on) { launch_lazy_rescaling(a, on, on.workspace); }),
      hopper("15_warpgroup_tiles", "skip masked tiles per warpgroup").columns(kTma<64, 256>).mla()
          .blocks(warpgroup_blocks())
          .launch(TileCounterWorkspace{},
              [](auto& a, auto on) { launch_warpgroup_tiles<on.d, on.d_v>(a, on, on.workspace); }),
      hopper("16_mirrored_tiles", "mirrored tiles for small problems").columns(kPow2<64, 256>)
          .blocks(mirrored_blocks())
          .launch([](auto& a, auto on) { launch_mirrored_tiles<on.d>(a, on); }),
      bits32("17_split_tf32", "float32 on tensor cores, 3xTF32").columns(kPow2<32, 128>)
          .needs(kNeedsMma).blocks(split_blocks())
          .launch([](auto& a, auto on) { launch_split_tf32<SplitForwardTile<on.d>>(a, on); }),
  };
}
// clang-format on

// The kernel that is chosen for a device, as a rung of this backend.
inline flash::Rung dispatched_rung(const DeviceProperties& device) {
  return forward_rung<float, half, bfloat16>("dispatched", "").mla().launch([=](auto& a, auto on) {
    forward_kernel(a, device).launch(on, nullptr);
  });
}

// The file of the kernel that is chosen for a problem on a device.
inline std::string chosen_kernel(const Problem& problem, const DeviceProperties& device) {
  return with_device_type<float, half, bfloat16>(problem.type, [&](auto type) -> std::string {
    using T = typename decltype(type)::device;
    return forward_kernel(attention_of<T>(problem), device).name;
  });
}

}  // namespace

/// A backend with all kernels of the lesson.
inline flash::Backend backend(const std::string& kind) {
  auto result = backend_with<flash::Backend>(kind, ladder());
  result.chosen = chosen_kernel;
  result.dispatched = dispatched_rung;
  return result;
}

}  // namespace fa::FA_TARGET
