/// @file
/// The kernels of this lesson as a table. Compiled once for each backend: see
/// common/gpu/target.hpp.
#pragma once

#include "05_flash_forward/src/backend.hpp"
#include "06_flash_backward/kernels/02_preprocess.cuh"
#include "06_flash_backward/src/dispatch.cuh"
#include "06_flash_backward/src/gradient_rung.cuh"

namespace fa::FA_TARGET {
namespace {  // one source file for each backend includes this

// Tiles of a kernel whose blocks own keys and loop over the queries; with key_stages, of those as
// well whose blocks own queries and loop over the keys.
template <class Tile>
Tiles backward_tiles(int query_stages, int key_stages = 0) {
  return {Tile::block_m, Tile::block_n, query_stages, key_stages, Tile::d};
}

// @{ Blocks of rungs 01 and 02, 03 and 04, 05, 06 and 07, 08 to 12, 14, 15 and 19, 13, 17, 18, and 20.
inline Blocks unfused_blocks() {
  return {{{kUnfusedGradientTile, kUnfusedGradientTile, 1, 1}}};
}
inline Blocks float_blocks(int key_stages) {
  using Tile = FloatBackwardTile<64>;
  return {{{Tile::side, Tile::side, 1, key_stages}}, float_backward_bytes};
}
inline Blocks plain_blocks() {
  return {{backward_tiles<PlainBackwardTile<64>>(1)}, bytes_by(kPow2<64, 128>, [](auto d) {
            return plain_backward_bytes<PlainBackwardTile<d>, half>();
          })};
}
inline Blocks swizzled_blocks(bool deterministic) {
  const int key_stages = deterministic ? kPipelineStages : 0;
  return {{backward_tiles<SwizzledBackwardTile<64>>(kPipelineStages, key_stages),
           backward_tiles<SwizzledBackwardTile<256>>(kPipelineStages, key_stages)},
          [=](std::int64_t head_dim) { return sm_80_backward_bytes(head_dim, deterministic); }};
}
template <int stages, int... d>
Blocks tma_blocks() {
  return {{backward_tiles<HopperBackwardTileFor<half, d, stages>>(stages)...}};
}
inline Blocks split_blocks() {
  using Narrow = SplitBackwardTileFor<64>;
  using Wide = SplitBackwardTileFor<128>;
  return {{backward_tiles<Narrow>(2), backward_tiles<Wide>(1)}, split_backward_bytes};
}
inline Blocks transposed_blocks() {
  using Tile = TransposedTile<half>;
  return {{backward_tiles<Tile>(Tile::stages)}};
}
// Tiles of which V and dO may have fewer columns.
template <class Tile>
Tiles tiles_with_d_v(Tiles tiles) {
  if (Tile::d_v != Tile::d) tiles.head_dim_v = Tile::d_v;
  return tiles;
}
template <int d, int d_v = d>
Tiles wide_tiles() {
  using Tile = WideTile<half, d, d_v>;
  return tiles_with_d_v<Tile>({kWideQueries, Tile::block_n, Tile::stages, Tile::stages, d});
}
inline Blocks wide_blocks() {
  return {{wide_tiles<192>(), wide_tiles<kMlaHeadDim, kMlaHeadDimV>(), wide_tiles<256>()}};
}
template <int... d_v>
Blocks pair_blocks() {
  Blocks blocks{{tiles_with_d_v<PairTile<half, d_v>>(
      backward_tiles<PairTile<half, d_v>>(PairTile<half, d_v>::stages))...}};
  for (Tiles& tiles : blocks.tiles) tiles.cluster = 2;
  return blocks;
}
inline Blocks split_wide_blocks() {
  Blocks blocks = pair_blocks<192, kMlaHeadDimV>();
  blocks.tiles.push_back(wide_tiles<256>());
  return blocks;
}
// @}

// What rungs 19 and 20 need: as many columns of dQ as the latter adds to, and parts of dK and dV.
struct KvParts {
  template <class T, class D>
  auto operator()(AttentionGradient<T>& a, D d) const {
    const bool deterministic = d > kTransposedColumns;
    return allocate_workspace(a, {deterministic ? 0 : int{d}, d < kWideHeads,
                                  kv_part_floats(a, d, deterministic, device_properties())});
  }
};
// P and dS of all heads.
struct Scores {
  template <class D>
  auto operator()(AttentionGradient<float>& a, D) const {
    return std::make_shared<DeviceBuffer<float>>(2 * score_count(a));
  }
};
// Row statistics, and P and dS behind them.
struct StatisticsAndScores {
  template <class D>
  auto operator()(AttentionGradient<float>& a, D) const {
    const auto memory =
        std::make_shared<DeviceBuffer<float>>(workspace_floats(a, {0}) + 2 * score_count(a));
    set_workspace(a, memory->data(), {0});
    return memory;
  }
};
inline float* scores_in(const AttentionGradient<float>& a, float* workspace) {
  return workspace + workspace_floats(a, {0});
}

// clang-format off
// The ladder: a row for each rung.
inline std::vector<Rung> ladder() {
  const auto bits32 = gradient_rung<float>;
  const auto mma = [](auto... name) {
    return gradient_rung<half, bfloat16>(name...).needs(kNeedsMma);
  };
  const auto hopper = [](auto... name) { return gradient_rung<half, bfloat16>(name...).hopper(); };
  const auto wide = [=](auto... name) { return hopper(name...).from(kWideHeads).mla(); };
  constexpr RowStatistics<false> statistics{};
  constexpr DqAccumulator sums{};
  constexpr DqSemaphores ordered{};
  constexpr KvParts parts{};
  return {
      bits32("01_unfused", "a kernel for each formula").blocks(unfused_blocks())
          .launch(Scores{}, [](auto& a, auto on) { launch_backward_unfused(a, on.workspace, on); }),
      bits32("02_preprocess", "LSE and delta, one sum of each row").columns(kPow2<32, 256>)
          .blocks(unfused_blocks())
          .launch(StatisticsAndScores{},
              [](auto& a, auto on) {
                launch_backward_preprocess<on.d>(a, scores_in(a, on.workspace), on);
              }),
      bits32("03_two_kernels", "keys outside, then queries").columns(kPow2<32, 256>)
          .blocks(float_blocks(1))
          .launch(statistics, [](auto& a, auto on) { launch_backward_two_kernels<on.d>(a, on); }),
      bits32("04_atomics", "one kernel adds to dQ").any_order().columns(kPow2<32, 256>)
          .blocks(float_blocks(0))
          .launch(statistics, [](auto& a, auto on) { launch_backward_atomics<on.d>(a, on); }),
      mma("05_tensor_cores", "P and dS stay in registers").any_order().columns(kPow2<64, 128>)
          .blocks(plain_blocks())
          .launch(sums, [](auto& a, auto on) { launch_backward_tensor_cores<on.d>(a, on); }),
      mma("06_swizzled_pipeline", "swizzle, cp.async, P and dS between matmuls").any_order()
          .columns(kPow2<32, 256>).blocks(swizzled_blocks(false))
          .launch(sums, [](auto& a, auto on) { launch_backward_swizzled_pipeline<on.d>(a, on); }),
      mma("07_deterministic", "the same bits in every run").columns(kPow2<32, 256>)
          .blocks(swizzled_blocks(true))
          .launch(statistics, [](auto& a, auto on) { launch_backward_deterministic<on.d>(a, on); }),
      hopper("08_wgmma", "Hopper's matmuls and copies").any_order().columns(kPow2<64, 128>)
          .blocks(tma_blocks<1, 64, 128>())
          .launch(sums, [](auto& a, auto on) { launch_backward_wgmma<on.d>(a, on); }),
      hopper("09_warp_specialized", "warps that load, warps that add").any_order()
          .columns(kPow2<64, 128>).blocks(tma_blocks<2, 64, 128>())
          .launch(sums, [](auto& a, auto on) { launch_backward_warp_specialized<on.d>(a, on); }),
      hopper("10_delayed_dq", "dQ one tile later").any_order().columns(kPow2<64, 128>)
          .blocks(tma_blocks<2, 64, 128>())
          .launch(sums, [](auto& a, auto on) { launch_backward_delayed_dq<on.d>(a, on); }),
      hopper("11_ordered_dq", "the same bits, ordered accumulation").columns(kTma<64, 128>)
          .blocks(tma_blocks<2, 64, 96, 128>())
          .launch(ordered, [](auto& a, auto on) { launch_backward_ordered_dq<on.d>(a, on); }),
      hopper("12_store_then_reduce", "the first stores, no zeros").any_order()
          .columns(kTma<64, 128>).blocks(tma_blocks<2, 64, 96, 128>())
          .launch(ordered,
              [](auto& a, auto on) { launch_backward_store_then_reduce<on.d>(a, on); }),
      wide("13_wide_heads", "wide heads, no accumulation of dQ").columns(kTma<192, 256>)
          .blocks(wide_blocks())
          .launch(statistics,
              [](auto& a, auto on) { launch_backward_wide_heads<on.d, on.d_v>(a, on); }),
      hopper("14_persistent", "persistent blocks").any_order().columns(kPow2<64, 64>)
          .blocks(tma_blocks<2, 64>())
          .launch(ordered, [](auto& a, auto on) { launch_backward_persistent<false>(a, on); }),
      hopper("15_dependent_launch", "programmatic dependent launch").any_order()
          .columns(kTma<64, 128>).blocks(tma_blocks<2, 64, 96, 128>())
          .launch(ordered, [](auto& a, auto on) { launch_backward_dependent<on.d>(a, false, on); }),
      wide("16_transposed_gradients", "dK and dV transposed, 96 keys").any_order()
          .columns(kTma<192, 192>).blocks(transposed_blocks())
          .launch(sums, [](auto& a, auto on) { launch_backward_transposed(a, on); }),
      bits32("17_split_tf32", "float32 on tensor cores, 3xTF32").any_order().columns(kPow2<32, 128>)
          .needs(kNeedsMma).blocks(split_blocks())
          .launch(statistics, [](auto& a, auto on) { launch_backward_split_tf32<on.d>(a, on); }),
      wide("18_block_pairs", "pairs of blocks share dQ").any_order().columns(kTma<192, 192>)
          .blocks(pair_blocks<192, kMlaHeadDimV>())
          .launch(sums, [](auto& a, auto on) { launch_backward_pairs<on.d_v>(a, on); }),
      hopper("19_split_groups", "query heads of a group divided").any_order()
          .columns(kTma<64, 128>).blocks(tma_blocks<2, 64, 96, 128>())
          .launch(parts,
              [](auto& a, auto on) {
                narrow_kernels<on.d>(a, false, device_properties()).launch(on);
              }),
      wide("20_split_wide_groups", "the same with wide heads").any_order()
          .columns(kTma<192, 256>).blocks(split_wide_blocks())
          .launch(parts,
              [](auto& a, auto on) {
                if constexpr (on.d == kTransposedColumns) {
                  pair_kernels<on.d_v>(a, device_properties()).launch(on);
                } else {
                  wide_kernels<on.d, on.d_v>(a, device_properties()).launch(on);
                }
              }),
  };
}
// clang-format on

// What is chosen for a device.
inline Rung dispatched_rung(bool deterministic, const DeviceProperties& device) {
  return gradient_rung<float, half, bfloat16>("dispatched", "")
      .mla()
      .launch([=](auto& a,
                  auto) { return allocate_workspace(a, workspace_of(a, deterministic, device)); },
              [=](auto& a, auto on) { launch_backward(a, deterministic, on, device); });
}

// The file of what is chosen for a problem on a device.
inline std::string chosen_kernels(const Problem& problem, bool deterministic,
                                  const DeviceProperties& device) {
  return with_device_type<float, half, bfloat16>(problem.type, [&](auto type) -> std::string {
    using T = typename decltype(type)::device;
    return backward_kernels(gradient_of<T>(problem), deterministic, device).name;
  });
}

}  // namespace

/// This backend with all kernels of the lesson.
inline backward::Backend backend(const std::string& kind) {
  auto result = backend_with<backward::Backend>(kind, ladder());
  result.forward = [kind](const Problem& problem, const attention::Inputs& inputs) {
    return flash::dispatched_forward(kind, problem, inputs);
  };
  result.chosen = chosen_kernels;
  result.dispatched = dispatched_rung;
  return result;
}

}  // namespace fa::FA_TARGET
