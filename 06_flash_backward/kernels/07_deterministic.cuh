/// @file
/// The same bits in every run, at the speed of tensor cores: step 03's two kernels with step 06's
/// means. One kernel computes dK and dV, step 06's without dQ; another computes dQ and loops over
/// the keys. S and dP are computed twice: seven matmuls instead of five.
/// (Ordered accumulation of dQ with semaphores, as in FlashAttention-3, is step 11.)
#pragma once

#include "06_flash_backward/library/mma_block.cuh"

namespace fa::FA_TARGET {

/// dK and dV: step 06's kernel without dQ. The room of dS stays, unused.
//! [keys]
template <class Tile, class T, bool has_dropout>
__global__ void __launch_bounds__(Tile::threads, Tile::warps == 4 ? 2 : 1)
    flash_backward_deterministic_keys(AttentionGradient<T> a) {
  swizzled_pipeline_block<Tile, has_dropout, false>(
      a, blockIdx.x * Tile::block_n, blockIdx.y, blockIdx.z);
}
//! [keys]

/// Sizes of the kernel for dQ.
/// @tparam warp_count of a block, each with 16 queries
template <int head_dim, int keys, int warp_count>
struct QueryGradientSizes {
  static constexpr int d = head_dim;
  static constexpr int warps = warp_count;
  static constexpr int threads = 32 * warps;
  static constexpr int warp_rows = 16;
  static constexpr int block_m = warps * warp_rows;
  static constexpr int block_n = keys;
  // Elements of Q or dO, and of a tile of K or V.
  static constexpr int q_size = block_m * d;
  static constexpr int kv_size = block_n * d;
};

/// The tile of the kernel for dQ.
template <int d>
using QueryGradientTile = QueryGradientSizes<d, d == 256 ? 32 : 64, 8>;

/// The same on GPUs whose blocks have at most 99 KiB of shared memory.
template <int d>
using SmallQueryGradientTile = QueryGradientSizes<d, d == 256 ? 16 : 32, 4>;

/// Dynamic shared memory of flash_backward_deterministic_queries().
template <class Tile, class T>
constexpr std::size_t query_gradient_bytes() {
  return sizeof(T) * (2 * Tile::q_size + 4 * Tile::kv_size);
}
/// The same of the smallest tile for d columns.
template <int d>
constexpr std::size_t least_queries_bytes() {
  using Tile = std::conditional_t <
               d<128, QueryGradientTile<d>, SmallQueryGradientTile<d>>;
  return query_gradient_bytes<Tile, half>();
}

/// dQ. A block owns queries and loops over the keys.
/// @tparam Tile a QueryGradientSizes
template <class Tile, class T, bool has_dropout>
__global__ void __launch_bounds__(Tile::threads, 1)
    flash_backward_deterministic_queries(AttentionGradient<T> a) {
  constexpr int d = Tile::d;
  T* const q_smem = dynamic_shared<T>();
  T* const d_o_smem = q_smem + Tile::q_size;
  T* const k_smem = d_o_smem + Tile::q_size;  // two of them
  T* const v_smem = k_smem + 2 * Tile::kv_size;
  const int thread = threadIdx.x, lane = thread % kWarp;
  const int warp_row = thread / kWarp * Tile::warp_rows;
  const int query0 = longest_first_m_block(a) * Tile::block_m;
  const auto head = gradient_head(a, blockIdx.z, blockIdx.y);
  const auto kv = head_of(a, blockIdx.z, blockIdx.y);
  const int tiles =
      ceil_div(visible_keys(a, query0 + Tile::block_m - 1), Tile::block_n);
  const float exponent_scale = a.scale * kLog2E;
  const auto fetch = [&](int tile) {
    const int key0 = tile * Tile::block_n, at = tile % 2 * Tile::kv_size;
    copy_rows_async<Tile::block_n, d, Tile::threads>(
        k_smem + at, kv.k, a.k_strides.row, key0, a.length_k, a.head_dim,
        thread);
    copy_rows_async<Tile::block_n, d, Tile::threads>(
        v_smem + at, kv.v, a.v_strides.row, key0, a.length_k, a.head_dim,
        thread);
  };
  if (tiles > 0) {
    copy_rows_async<Tile::block_m, d, Tile::threads>(
        q_smem, head.q, a.q_strides.row, query0, a.length_q, a.head_dim,
        thread);
    copy_rows_async<Tile::block_m, d, Tile::threads>(
        d_o_smem, head.d_o, a.d_o_strides.row, query0, a.length_q, a.head_dim,
        thread);
    fetch(0);
    cp_async_commit();
  }
  // Of this lane's two rows.
  float lse[2], delta[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const std::int64_t row =
        head.padded_row + query0 + warp_row + 8 * h + fragment_row(lane, 0);
    lse[h] = a.lse_base_2[row];
    delta[h] = a.delta[row];
  }
  float d_q[1][d / 8][4] = {};
  for (int tile = 0; tile < tiles; ++tile) {
    const int key0 = tile * Tile::block_n, at = tile % 2 * Tile::kv_size;
    cp_async_wait<0>();
    __syncthreads();  // this tile is loaded, the last one has been read
    if (tile + 1 < tiles) fetch(tile + 1);
    cp_async_commit();
    float s[1][Tile::block_n / 8][4] = {}, d_p[1][Tile::block_n / 8][4] = {};
    multiply_q_k<d>(s, q_smem, k_smem + at, warp_row, lane);  // S = Q K^T
    if (visible_keys(a, query0) < key0 + Tile::block_n) {
      apply_mask(s, a, query0 + warp_row, key0, lane);
    }
    // dP = dO V^T
    multiply_q_k<d>(d_p, d_o_smem, v_smem + at, warp_row, lane);
    // dS = exp(scale S - LSE) * (dP - delta)
#pragma unroll
    for (int j = 0; j < Tile::block_n / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float gradient = d_p[0][j][e];
        if constexpr (has_dropout) {
          gradient *= a.dropout.of_weight(
              head.index, query0 + warp_row + fragment_row(lane, e),
              key0 + 8 * j + fragment_column(lane, e));
        }
        s[0][j][e] = exp2_approx(s[0][j][e] * exponent_scale - lse[e / 2]) *
                     (gradient - delta[e / 2]);
      }
    }
    multiply_p_v<d>(d_q, s, k_smem + at, lane);  // dQ += dS K
  }
  const int row = query0 + warp_row + fragment_row(lane, 0);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (row + 8 * h >= a.length_q) continue;
    T* const to = head.d_q + (row + 8 * h) * a.d_q_strides.row;
#pragma unroll
    for (int j = 0; j < d / 8; ++j) {
      if (8 * j < a.head_dim) {
        store_pair(to + 8 * j + fragment_column(lane, 0),
                   pack2<T>(a.scale * d_q[0][j][2 * h],
                            a.scale * d_q[0][j][2 * h + 1]));
      }
    }
  }
}

/// Launches the step.
/// @param given  with a Workspace{0}; an accumulator of dQ is left alone
/// @param device where; it decides on the tiles
template <int d, class T>
void launch_backward_deterministic(
    const AttentionGradient<T>& given, const Stream& stream,
    const DeviceProperties& device = device_properties()) {
  AttentionGradient<T> a = given;
  a.d_q_accum = nullptr;
  const bool has_dropout = a.dropout.threshold > 0;
  launch(stream, preprocess_16_bit<d, T>, preprocess_launch<d>(a), a);
  with_swizzled_tile<d, T>(device, [&](auto tile) {
    using Tile = decltype(tile);
    const std::size_t bytes = swizzled_backward_bytes<Tile, T>();
    launch(stream,
           has_dropout ? flash_backward_deterministic_keys<Tile, T, true>
                       : flash_backward_deterministic_keys<Tile, T, false>,
           {grid_of_keys(a, Tile::block_n), Tile::threads, bytes,
            kPipelineStages},
           a);
  });
  const auto launch_queries = [&](auto tile) {
    using Tile = decltype(tile);
    const std::size_t bytes = query_gradient_bytes<Tile, T>();
    launch(stream,
           has_dropout ? flash_backward_deterministic_queries<Tile, T, true>
                       : flash_backward_deterministic_queries<Tile, T, false>,
           {grid_of(a, Tile::block_m), Tile::threads, bytes, kPipelineStages},
           a);
  };
  using Large = QueryGradientTile<d>;
  if constexpr (d < 128) {
    launch_queries(Large{});
  } else if (can_run(device, kNeedsMma.with_shared(
                                 query_gradient_bytes<Large, T>()))) {
    launch_queries(Large{});
  } else {
    launch_queries(SmallQueryGradientTile<d>{});
  }
}

FA_LAUNCH_16_BIT(backward_mma, AttentionGradient,
                 (const Stream&, const DeviceProperties&),
                 launch_backward_deterministic, (32), (64), (128), (256));

FA_STEP_ROW(backward, 7) {
  return row("07_deterministic", "the same bits in every run", half{},
             bfloat16{})
      .needs(kNeedsMma)
      .head_dims(HeadDims<32, 64, 128, 256>{})
      .over_both(SwizzledBackwardTile<64>{}, kPipelineStages, kPipelineStages)
      .over_both(SwizzledBackwardTile<256>{}, kPipelineStages,
                 kPipelineStages)
      .shared_bytes([](auto d) {
        return std::max(least_keys_bytes<d>(), least_queries_bytes<d>());
      })
      .memory_is("8 N", [](auto n, auto) { return 8 * n; })
      .workspace([](auto&, auto) { return Workspace{0}; })
      .launch([](auto& a, auto d, auto& stream) {
        launch_backward_deterministic<d>(a, stream);
      });
}

}  // namespace fa::FA_TARGET
