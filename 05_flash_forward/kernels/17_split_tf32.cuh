/// @file
/// float32 on tensor cores. Each operand is the sum of two TF32 numbers, and three of their four
/// products are computed: see common/attention/split_tf32.cuh. The rest is step 08 with elements of
/// 32 bits: P stays in registers, copies are asynchronous, masks at the edge only.
#pragma once

#include "05_flash_forward/library/mma_loop.cuh"
#include "common/attention/split_tf32.cuh"

namespace fa::FA_TARGET {

/// The tile for a head dimension: two blocks of an SM fit in its shared memory.
template <int d>
using SplitForwardTile = ForwardTile<d, d == 128 ? 32 : 64, 4, 16>;

/// Attention in float32. A warp processes Tile::warp_rows queries.
/// @tparam Tile a ForwardTile
template <class Tile, bool has_dropout>
__global__ void __launch_bounds__(Tile::threads, 2)
    flash_split_tf32(Attention<float> a) {
  constexpr int d = Tile::d;
  float* const q_smem = dynamic_shared<float>();
  float* const k_smem = q_smem + Tile::q_size;
  float* const v_smem = k_smem + 2 * Tile::kv_size;
  const int thread = threadIdx.x, lane = thread % kWarp;
  const int warp_row = thread / kWarp * Tile::warp_rows;
  const int block = longest_first_m_block(a);
  const int query0 = block * Tile::block_m;
  const auto head = head_of(a, blockIdx.z, blockIdx.y);
  const int tiles =
      ceil_div(visible_keys(a, query0 + Tile::block_m - 1), Tile::block_n);
  const int unmasked_tiles = visible_keys(a, query0) / Tile::block_n;
  const auto load = [&](int tile) {
    const int key0 = tile * Tile::block_n, at = tile % 2 * Tile::kv_size;
    copy_float_rows_async<Tile::block_n, d, Tile::threads>(
        k_smem + at, head.k, a.k_strides.row, key0, a.length_k, a.head_dim,
        thread);
    copy_float_rows_async<Tile::block_n, d, Tile::threads>(
        v_smem + at, head.v, a.v_strides.row, key0, a.length_k, a.head_dim,
        thread);
  };
  if (tiles > 0) {
    copy_float_rows_async<Tile::block_m, d, Tile::threads>(
        q_smem, head.q, a.q_strides.row, query0, a.length_q, a.head_dim,
        thread);
    load(tiles - 1);
    cp_async_commit();
  }
  const float exponent_scale = a.scale * kLog2E;
  Accumulators<Tile, d> o = {};  // columns as four_columns() has them
  WarpRowState<Tile> state;
  init_row_state(state);
  //! [steps]
  const auto step = [&](int tile, auto edge) {
    constexpr bool masked = decltype(edge)::value;
    const int key0 = tile * Tile::block_n, at = tile % 2 * Tile::kv_size;
    cp_async_wait<0>();
    __syncthreads();  // arrived; no warp still reads the stage load() fills
    if (tile > 0) load(tile - 1);
    cp_async_commit();
    Accumulators<Tile, Tile::block_n> s = {};
    // S = Q K^T, not scaled
    multiply_split_rows<d>(s, q_smem + warp_row * d, k_smem + at, lane);
    if constexpr (masked) {
      apply_mask(s, a, query0 + warp_row, key0, lane);
    }
    // P = exp2(exponent_scale (S - m))
    softmax_step_base_2<Tile, masked>(s, o, state, exponent_scale);
    if constexpr (has_dropout) {
      apply_dropout<Tile>(s, a, head.index, query0 + warp_row, key0, lane);
    }
    // O += P V
    multiply_split_columns<d, Tile::block_n>(
        o,
        [&](auto& fragment, int i, int key) {
          probs_as_split(fragment, s[i], key);
        },
        v_smem + at, lane, 0);
  };
  int tile = tiles - 1;  // the edge first
  for (; tile >= unmasked_tiles; --tile) step(tile, std::true_type{});
  for (; tile >= 0; --tile) step(tile, std::false_type{});
    //! [steps]
#pragma unroll
  for (int i = 0; i < Tile::row_tiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float l = warp_sum<4>(state.l[i][h]);
      const int query =
          query0 + warp_row + 16 * i + fragment_row(lane, 2 * h);
      if (query >= a.length_q) continue;
      const float factor = l == 0 ? 0 : 1 / l;
#pragma unroll
      for (int group = 0; group < d / 32; ++group) {
#pragma unroll
        for (int part = 0; part < 2; ++part) {
          const int col = 32 * group + split_column(lane, part);
          const float4 sum = four_columns(o[i], group, h, part);
          if (col < a.head_dim) {
            store4(head.o + query * a.o_strides.row + col,
                   make_float4(factor * sum.x, factor * sum.y, factor * sum.z,
                               factor * sum.w));
          }
        }
      }
      if (lane % 4 == 0) {
        head.lse[query] = log_sum(state.m[i][h] * a.scale, l);
      }
    }
  }
}

/// Launches the kernel with a block for each tile of queries.
/// @tparam Tile ForwardTile with at least head_dim columns
template <class Tile>
void launch_split_tf32(const Attention<float>& a, const Stream& stream) {
  const auto kernel = a.dropout.threshold > 0 ? flash_split_tf32<Tile, true>
                                              : flash_split_tf32<Tile, false>;
  launch(stream, kernel,
         {grid_of(a, Tile::block_m), Tile::threads,
          pipeline_bytes<Tile, float>(), kPipelineStages},
         a);
}

FA_LAUNCH_FLOAT(forward_float, Attention, (const Stream&), launch_split_tf32,
                (SplitForwardTile<32>), (SplitForwardTile<64>),
                (SplitForwardTile<128>));

FA_STEP_ROW(forward, 17) {
  return row("17_split_tf32", "float32 on tensor cores, 3xTF32", float{})
      .needs(kNeedsMma)
      .head_dims(HeadDims<32, 64, 128>{})
      .over_keys(SplitForwardTile<64>{}, kPipelineStages)
      .over_keys(SplitForwardTile<128>{}, kPipelineStages)
      .shared_bytes(
          [](auto d) { return pipeline_bytes<SplitForwardTile<d>, float>(); })
      .launch([](auto& a, auto d, auto& stream) {
        launch_split_tf32<SplitForwardTile<d>>(a, stream);
      });
}

}  // namespace fa::FA_TARGET
