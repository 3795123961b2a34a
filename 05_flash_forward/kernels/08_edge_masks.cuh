/// @file
/// Masks at the edge only, and exponentials of base 2. Tiles that all queries of the block see need
/// no mask. The scale is folded into the exponent: exp(scale (x - m)) = 2^(c x - c m) with
/// c = scale / ln 2, which is one fused multiply-add and one exponential. Under the causal mask the
/// blocks with the most keys start first.
#pragma once

#include "05_flash_forward/kernels/mma_forward.cuh"
#include "common/gpu/parts.hpp"

namespace fa::FA_TARGET {

/// The tile for a head dimension: as large as the registers allow.
template <int d>
using ForwardTileFor = ForwardTile<d,
                                   d == 256   ? 32
                                   : d == 128 ? 64
                                              : 96,
                                   d == 256 ? 8 : 4, d == 256 ? 16 : 32>;

/// The tile for 256 columns, on GPUs whose blocks have at most 99 KiB of shared memory.
using SmallForwardTile256 = ForwardTile<256, 32, 4, 16>;
template <int d>
using SmallForwardTileFor =
    std::conditional_t<d == 256, SmallForwardTile256, ForwardTileFor<d>>;

/// softmax_step() for scores that are not scaled: P = exp2(exponent_scale (S - m)).
/// @tparam masked         whether scores may be -infinity
/// @param  s              Q K^T; P on return
/// @param  exponent_scale scale / ln 2
//! [base_2]
template <class Tile, bool masked>
__device__ void softmax_step_base_2(Accumulators<Tile, Tile::block_n>& s,
                                    Accumulators<Tile, Tile::d>& o,
                                    WarpRowState<Tile>& state,
                                    float exponent_scale) {
#pragma unroll
  for (int i = 0; i < Tile::row_tiles; ++i) {
    float rescale[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float m = state.m[i][h];
#pragma unroll
      for (int j = 0; j < Tile::block_n / 8; ++j) {
        m = fmaxf(m, fmaxf(s[i][j][2 * h], s[i][j][2 * h + 1]));
      }
      m = warp_max<4>(m);
      //! [base_2_row]
      // Where all keys are masked m is -infinity, and -infinity - -infinity
      // would be NaN: subtract 0.
      const float offset =
          masked && m == -INFINITY ? 0.0f : __fmul_rn(m, exponent_scale);
      // Both products are rounded: where m stays, the rescale factor is 1.
      rescale[h] =
          exp2_approx(__fmul_rn(state.m[i][h], exponent_scale) - offset);
      state.m[i][h] = m;
      float sum = 0;
#pragma unroll
      for (int j = 0; j < Tile::block_n / 8; ++j) {
#pragma unroll
        for (int e = 2 * h; e < 2 * h + 2; ++e) {
          s[i][j][e] = exp2_approx(s[i][j][e] * exponent_scale - offset);
          sum += s[i][j][e];
        }
      }
      state.l[i][h] = state.l[i][h] * rescale[h] + sum;
      //! [base_2_row]
    }
    // Rare: after a few tiles the maximum of a row seldom grows.
    if (__any_sync(kAllLanes, rescale[0] != 1 || rescale[1] != 1)) {
#pragma unroll
      for (int j = 0; j < Tile::d / 8; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) o[i][j][e] *= rescale[e / 2];
      }
    }
  }
}
//! [base_2]

/// A tile of queries. A warp processes Tile::warp_rows of them; tiles are swizzled, and the next
/// ones of K and V are in flight.
/// @tparam Tile a ForwardTile
//! [edge_masks]
template <class Tile, bool has_dropout, class T>
__device__ void edge_masks_block(const Attention<T>& a, int block,
                                 int head_index, int batch) {
  constexpr int d = Tile::d;
  T* const q_smem = dynamic_shared<T>();
  T* const k_smem = q_smem + Tile::q_size;
  T* const v_smem = k_smem + 2 * Tile::kv_size;
  const int thread = threadIdx.x, lane = thread % kWarp;
  const int warp_row = thread / kWarp * Tile::warp_rows;
  const int query0 = block * Tile::block_m;
  const auto head = head_of(a, batch, head_index);
  //! [tiles]
  const int tiles =
      ceil_div(visible_keys(a, query0 + Tile::block_m - 1), Tile::block_n);
  const int unmasked_tiles = visible_keys(a, query0) / Tile::block_n;
  //! [tiles]
  //! [exponent_scale]
  const float exponent_scale = a.scale * kLog2E;
  //! [exponent_scale]
  const auto load = [&](int tile, auto last) {
    constexpr bool ragged = decltype(last)::value;
    const int key0 = tile * Tile::block_n, at = tile % 2 * Tile::kv_size;
    copy_rows_async<Tile::block_n, d, Tile::threads, ragged>(
        k_smem + at, head.k, a.k_strides.row, key0, a.length_k, a.head_dim,
        thread);
    copy_rows_async<Tile::block_n, d, Tile::threads, ragged>(
        v_smem + at, head.v, a.v_strides.row, key0, a.length_k, a.head_dim,
        thread);
  };
  if (tiles > 0) {
    copy_rows_async<Tile::block_m, d, Tile::threads>(
        q_smem, head.q, a.q_strides.row, query0, a.length_q, a.head_dim,
        thread);
    load(tiles - 1, std::true_type{});
    cp_async_commit();
  }
  Accumulators<Tile, d> o = {};
  WarpRowState<Tile> state;
  init_row_state(state);
  //! [steps]
  const auto step = [&](int tile, auto edge) {
    constexpr bool masked = decltype(edge)::value;
    const int key0 = tile * Tile::block_n, at = tile % 2 * Tile::kv_size;
    cp_async_wait<0>();
    __syncthreads();  // this tile has arrived, no warp reads the last one
    if (tile > 0) load(tile - 1, std::false_type{});
    cp_async_commit();
    Accumulators<Tile, Tile::block_n> s = {};
    // S = Q K^T
    multiply_q_k<d>(s, q_smem, k_smem + at, warp_row, lane);
    if constexpr (masked) {
      apply_mask(s, a, query0 + warp_row, key0, lane);
    }
    // P = exp2(scale (S - m))
    softmax_step_base_2<Tile, masked>(s, o, state, exponent_scale);
    if constexpr (has_dropout) {
      apply_dropout<Tile>(s, a, head.index, query0 + warp_row, key0, lane);
    }
    // O += P V
    multiply_p_v<d>(o, s, v_smem + at, lane);
  };
  int tile = tiles - 1;  // the edge first
  for (; tile >= unmasked_tiles; --tile) step(tile, std::true_type{});
  for (; tile >= 0; --tile) step(tile, std::false_type{});
    //! [steps]
#pragma unroll
  for (int i = 0; i < Tile::row_tiles; ++i) {  // m of scaled scores
    //! [m_of_scores]
    state.m[i][0] *= a.scale;
    state.m[i][1] *= a.scale;
    //! [m_of_scores]
  }
  store_rows<Tile>(a, head, o, state, query0 + warp_row, lane);
}
//! [edge_masks]

/// Attention in 16 bits.
/// @tparam Tile a ForwardTile
/// @tparam T    half or bfloat16
template <class Tile, class T, bool has_dropout>
__global__ void __launch_bounds__(Tile::threads, Tile::d == 256 ? 1 : 2)
    flash_edge_masks(Attention<T> a) {
  edge_masks_block<Tile, has_dropout>(a, longest_first_m_block(a), blockIdx.y,
                                      blockIdx.z);
}

/// Launches the kernel with a block for each tile of queries.
/// @tparam Tile ForwardTile with at least head_dim columns
//! [launch]
template <class Tile, class T>
void launch_edge_masks(const Attention<T>& a, const Stream& stream) {
  const auto kernel = a.dropout.threshold > 0
                          ? flash_edge_masks<Tile, T, true>
                          : flash_edge_masks<Tile, T, false>;
  launch(stream, kernel,
         {grid_of(a, Tile::block_m),
          {Tile::threads},
          pipeline_bytes<Tile, T>(),
          kPipelineStages},
         a);
}
//! [launch]

/// @cond compiled once for all who launch it: common/gpu/parts.hpp
FA_LAUNCH_16_BIT(forward, Attention, (const Stream&),
                 launch_edge_masks<ForwardTileFor<32>>);
FA_LAUNCH_16_BIT(forward, Attention, (const Stream&),
                 launch_edge_masks<ForwardTileFor<64>>);
FA_LAUNCH_16_BIT(forward, Attention, (const Stream&),
                 launch_edge_masks<ForwardTileFor<128>>);
FA_LAUNCH_16_BIT(forward, Attention, (const Stream&),
                 launch_edge_masks<ForwardTileFor<256>>);
FA_LAUNCH_16_BIT(forward, Attention, (const Stream&),
                 launch_edge_masks<SmallForwardTile256>);
/// @endcond

/// The step's row: see common/attention/host/step_row.cuh.
template <class Row>
auto forward_step(std::integral_constant<int, 8>, Row row) {
  return row("08_edge_masks", "masks at the edge only, exp2", half{},
             bfloat16{})
      .needs(kNeedsMma)
      .head_dims(HeadDims<32, 64, 128, 256>{})
      .over_keys(ForwardTileFor<64>{}, kPipelineStages)
      .over_keys(ForwardTileFor<256>{}, kPipelineStages)
      .shared_bytes([](auto d) {
        return pipeline_bytes<SmallForwardTileFor<d>, half>();
      })
      .launch([](auto& a, auto d, auto& stream) {
        if (pipeline_bytes<ForwardTileFor<d>, half>() <=
            device_properties().shared_bytes) {
          launch_edge_masks<ForwardTileFor<d>>(a, stream);
        } else {
          launch_edge_masks<SmallForwardTileFor<d>>(a, stream);
        }
      });
}

}  // namespace fa::FA_TARGET
