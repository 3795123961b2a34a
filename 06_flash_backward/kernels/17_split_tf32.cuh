/// @file
/// float32 gradients on tensor cores, as lesson 05's step 17: operands are sums of two TF32
/// numbers. The loop is that of step 06. Two things differ. Elements of 32 bits cannot be
/// transposed by ldmatrix, so dS goes to shared memory in the orientation that dQ = dS K wants. And
/// float32 cannot do with LSE alone: a first kernel recomputes the row sums of P, as in step 03,
/// and here as well each score must come out with the same bits both times, so both kernels compute
/// S^T.
#pragma once

#include "06_flash_backward/kernels/float_gradient.cuh"
#include "06_flash_backward/kernels/mma_backward.cuh"
#include "common/attention/split_tf32.cuh"

namespace fa::FA_TARGET {

/// Sizes of the split-TF32 kernels.
/// @tparam keys_of_warp 16 or 32
/// @tparam stage_count  tiles of Q and dO in shared memory
template <int head_dim, int queries, int warp_count, int keys_of_warp,
          int stage_count>
struct SplitBackwardTile {
  static constexpr int d = head_dim;
  static constexpr int block_m = queries;
  static constexpr int warps = warp_count;
  static constexpr int threads = 32 * warps;
  static constexpr int warp_keys = keys_of_warp;
  static constexpr int block_n = warps * warp_keys;
  static constexpr int stages = stage_count;
  // S^T of a warp: accumulators of 16 keys x 8 queries. dK and dV: all columns.
  static constexpr int row_tiles = warp_keys / 16;
  static constexpr int query_tiles = block_m / 8;
  static constexpr int columns = d;
  // Elements of Q or dO, of K or V, and of dS.
  static constexpr int q_size = block_m * d;
  static constexpr int kv_size = block_n * d;
  static constexpr int ds_size = block_m * block_n;
  // dQ, block_m x d, is divided among the warps: 32 columns and some rows each.
  static constexpr int d_q_columns = 32;
  static constexpr int d_q_warp_columns = d / d_q_columns;
  static constexpr int d_q_rows = block_m * d_q_warp_columns / warps;
  static_assert(d_q_rows % 16 == 0 && block_n % 32 == 0, "whole fragments");
  /// Dynamic shared memory, with LSE, the row sums and delta of the queries.
  static constexpr std::size_t shared_bytes =
      sizeof(float) *
      (2 * kv_size + 2 * stages * q_size + ds_size + 3 * stages * block_m);
};

/// A tile of queries in shared memory: Q, dO, and three values for each row.
struct SplitQueryTile {
  float* q;
  float* d_o;
  float* lse;
  float* inv_row_sum;
  float* delta;
};

/// P^T = exp(scale S^T - LSE), masked, for a warp's keys.
/// @param s      S^T; P^T on return
template <bool masked, int row_tiles, int query_tiles>
__device__ void recompute_split_probs(float (&s)[row_tiles][query_tiles][4],
                                      const AttentionGradient<float>& a,
                                      const float* lse, int query0, int key0,
                                      int lane) {
#pragma unroll
  for (int j = 0; j < query_tiles; ++j) {
    const int column = 8 * j + fragment_column(lane, 0);
    float of_column[2];
    load2(of_column, lse + column);
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      constexpr int many = 1 << 30;  // lengths are at most 10^9
      const int visible =
          masked ? visible_keys(a, query0 + column + e) : many;
      const int beyond = visible - key0 - fragment_row(lane, 0);
#pragma unroll
      for (int i = 0; i < row_tiles; ++i) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          float& x = s[i][j][2 * h + e];
          x = masked && 16 * i + 8 * h >= beyond
                  ? 0.0f
                  : recomputed_prob(x, a.scale, of_column[e], visible);
        }
      }
    }
  }
}

/// P^T /= its row sums. With dropout, a probability that is dropped gets a minus sign: dV needs the
/// kept ones alone, dS all of them.
template <bool has_dropout, int row_tiles, int query_tiles>
__device__ void normalize_split_probs(float (&p)[row_tiles][query_tiles][4],
                                      const AttentionGradient<float>& a,
                                      const float* inv_row_sum, int head,
                                      int query0, int key0, int lane) {
#pragma unroll
  for (int j = 0; j < query_tiles; ++j) {
    const int column = 8 * j + fragment_column(lane, 0);
    float factor[2];
    load2(factor, inv_row_sum + column);
#pragma unroll
    for (int i = 0; i < row_tiles; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        p[i][j][e] *= factor[e % 2];
        if constexpr (has_dropout) {
          const int key = key0 + 16 * i + fragment_row(lane, e);
          //! [dropped]
          const float kept =
              a.dropout.of_weight(head, query0 + column + e % 2, key);
          p[i][j][e] *= kept == 0 ? -1.0f : 1.0f;
          //! [dropped]
        }
      }
    }
  }
}

/// Issues copies of LSE of a tile's queries; 0 for those that do not exist.
template <int rows>
__device__ void copy_lse_async(float* to, const AttentionGradient<float>& a,
                               const GradientHead<float>& head, int query0,
                               int thread) {
  if (thread < rows) {
    cp_async4(to + thread, head.lse + query0 + thread,
              query0 + thread < a.length_q);
  }
}

/// Tiles of the kernel of row sums.
template <int head_dim>
struct SplitRowSumTile {
  static constexpr int d = head_dim;
  static constexpr int warps = 4;
  static constexpr int threads = 32 * warps;
  static constexpr int block_m = 64;
  static constexpr int block_n = 16 * warps;
  static constexpr int q_size = block_m * d;
  static constexpr int k_size = block_n * d;
  /// Dynamic shared memory: Q, two tiles of K, LSE, the sums of each warp.
  static constexpr std::size_t shared_bytes =
      sizeof(float) * (q_size + 2 * k_size + (1 + warps) * block_m);
};

/// Whether the row sums of P of 64 rows need not be computed: with a thousand keys and an LSE of at
/// most log(keys) + 1 no score is large, and LSE is rounded by 2^-21 at most. All lanes call it.
/// @param visible keys that the last row sees
//! [moderate]
__device__ inline bool scores_are_moderate(const float* lse, int visible) {
  const int lane = threadIdx.x % kWarp;
  const float most = logf(static_cast<float>(visible)) + 1;
  const bool is_small =
      fabsf(lse[lane]) <= most && fabsf(lse[lane + kWarp]) <= most;
  return visible >= 1024 && __all_sync(kAllLanes, is_small);
}
//! [moderate]

/// inv_row_sum = 1 / rowsum(P), with P recomputed tile by tile: see stored_row_sums() for what it
/// is good for. A warp has 16 keys of each tile.
template <int d>
__global__ void __launch_bounds__(128, d <= 64 ? 3 : 2)
    split_row_sums(AttentionGradient<float> a) {
  using Tile = SplitRowSumTile<d>;
  float* const q_smem = dynamic_shared<float>();
  float* const k_smem = q_smem + Tile::q_size;  // two of them
  float* const lse_smem = k_smem + 2 * Tile::k_size;
  float* const sums_smem = lse_smem + Tile::block_m;
  const int thread = threadIdx.x, lane = thread % kWarp;
  const int warp = thread / kWarp;
  const int query0 = longest_first_m_block(a) * Tile::block_m;
  const auto head = gradient_head(a, blockIdx.z, blockIdx.y);
  const auto kv = head_of(a, blockIdx.z, blockIdx.y);
  const int visible = query0 < a.length_q
                          ? visible_keys(a, query0 + Tile::block_m - 1)
                          : 0;  // rows that do not exist get a 0
  const int tiles = ceil_div(visible, Tile::block_n);
  const int unmasked_tiles = visible_keys(a, query0) / Tile::block_n;
  if (query0 + Tile::block_m <= a.length_q &&
      scores_are_moderate(head.lse + query0, visible)) {
    if (thread < Tile::block_m) {
      a.inv_row_sum[head.padded_row + query0 + thread] = 1;
    }
    return;
  }
  const auto load = [&](int tile) {
    copy_float_rows_async<Tile::block_n, d, Tile::threads>(
        k_smem + tile % 2 * Tile::k_size, kv.k, a.k_strides.row,
        tile * Tile::block_n, a.length_k, a.head_dim, thread);
  };
  if (tiles > 0) {
    copy_float_rows_async<Tile::block_m, d, Tile::threads>(
        q_smem, head.q, a.q_strides.row, query0, a.length_q, a.head_dim,
        thread);
    copy_lse_async<Tile::block_m>(lse_smem, a, head, query0, thread);
    load(0);
    cp_async_commit();
  }
  float sums[Tile::block_m / 8][2] = {};
  for (int tile = 0; tile < tiles; ++tile) {
    cp_async_wait<0>();
    __syncthreads();  // arrived; no warp still reads the stage load() fills
    if (tile + 1 < tiles) load(tile + 1);
    cp_async_commit();
    const int warp_key = 16 * warp, key0 = tile * Tile::block_n + warp_key;
    float p[1][Tile::block_m / 8][4] = {};
    // S^T = K Q^T
    multiply_split_rows<d>(p, k_smem + tile % 2 * Tile::k_size + warp_key * d,
                           q_smem, lane);
    if (tile < unmasked_tiles) {
      recompute_split_probs<false>(p, a, lse_smem, query0, key0, lane);
    } else {
      recompute_split_probs<true>(p, a, lse_smem, query0, key0, lane);
    }
#pragma unroll
    for (int j = 0; j < Tile::block_m / 8; ++j) {
      sums[j][0] += p[0][j][0] + p[0][j][2];
      sums[j][1] += p[0][j][1] + p[0][j][3];
    }
  }
#pragma unroll
  for (int j = 0; j < Tile::block_m / 8; ++j) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {  // the eight lanes that share a query
      for (const int distance : {4, 8, 16}) {
        sums[j][e] += __shfl_xor_sync(kAllLanes, sums[j][e], distance);
      }
    }
    if (lane < 4) {
      store2(sums_smem + warp * Tile::block_m + 8 * j + 2 * lane, sums[j][0],
             sums[j][1]);
    }
  }
  __syncthreads();  // each warp has stored its sums
  if (thread < Tile::block_m) {
    float sum = 0;
#pragma unroll
    for (int w = 0; w < Tile::warps; ++w) {
      sum += sums_smem[w * Tile::block_m + thread];
    }
    a.inv_row_sum[head.padded_row + query0 + thread] = sum == 0 ? 0 : 1 / sum;
  }
}

/// Where a lane keeps its accumulators of P^T, and then of dS^T, in shared memory: in a swizzled
/// tile with a row for each query, as dQ = dS K wants it. Of eight keys the even ones come first:
/// so multiply_split_columns() can read K's rows as it reads V's.
template <class Tile>
__device__ int first_ds_place(int warp_key, int lane) {
  const int query = fragment_column(lane, 0), key = fragment_row(lane, 0);
  return swizzled_float<Tile::block_n>(query, warp_key + key % 2 * 4) +
         key / 2;
}
/// The place of element e of queries 8 j and keys 16 i. XOR selects other columns; the row below
/// has the next phase.
template <class Tile>
__device__ int ds_place(int first, int i, int j, int e) {
  return (first ^ 16 * i ^ e / 2 * 8 ^ e % 2 * 4) +
         (8 * j + e % 2) * Tile::block_n;
}

/// Leaves P^T there: the registers have no room for it beside dP^T.
template <class Tile>
__device__ void store_split_probs(float* ds_smem, int first,
                                  const Scores<Tile>& p) {
#pragma unroll
  for (int j = 0; j < Tile::query_tiles; ++j) {
#pragma unroll
    for (int i = 0; i < Tile::row_tiles; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        ds_smem[ds_place<Tile>(first, i, j, e)] = p[i][j][e];
      }
    }
  }
}

/// 16 queries of keys 16 i of what the lane left there, as left operands: see probs_as_split().
/// @tparam positive whether negative ones count as 0
template <class Tile, bool positive>
__device__ void load_split_probs(SplitFragment<4> (&fragment)[2],
                                 const float* ds_smem, int first, int i,
                                 int query) {
  float p[2][4];
#pragma unroll
  for (int step = 0; step < 2; ++step) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float x = ds_smem[ds_place<Tile>(first, i, query / 8 + step, e)];
      p[step][e] = positive ? fmaxf(x, 0.0f) : x;
    }
  }
  probs_as_split(fragment, p, 0);
}

/// dS^T = P^T * (dP^T - delta), elementwise, in the place of P^T.
template <class Tile, bool has_dropout>
__device__ void split_score_gradients(float* ds_smem, int first,
                                      const Scores<Tile>& d_p,
                                      const AttentionGradient<float>& a,
                                      const float* delta, int lane) {
#pragma unroll
  for (int j = 0; j < Tile::query_tiles; ++j) {
    float sum[2];
    load2(sum, delta + 8 * j + fragment_column(lane, 0));
#pragma unroll
    for (int i = 0; i < Tile::row_tiles; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float& p = ds_smem[ds_place<Tile>(first, i, j, e)];
        const float x = d_p[i][j][e];
        if constexpr (has_dropout) {
          const float kept = p > 0 ? a.dropout.factor * x : 0.0f;
          p = float_score_gradient(fabsf(p), kept, sum[e % 2]);
        } else {
          p = float_score_gradient(p, x, sum[e % 2]);
        }
      }
    }
  }
}

/// dK and dV, and additions to dQ. A block owns keys and loops over the queries.
/// @tparam Tile a SplitBackwardTile
template <class Tile, bool has_dropout>
__global__ void __launch_bounds__(Tile::threads, 2)
    flash_backward_split_tf32(AttentionGradient<float> a) {
  constexpr int d = Tile::d;
  float* const k_smem = dynamic_shared<float>();
  float* const v_smem = k_smem + Tile::kv_size;
  float* const q_smem = v_smem + Tile::kv_size;  // of each stage
  float* const d_o_smem = q_smem + Tile::stages * Tile::q_size;
  float* const ds_smem = d_o_smem + Tile::stages * Tile::q_size;
  float* const rows_smem = ds_smem + Tile::ds_size;
  const int thread = threadIdx.x;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int warp_key = warp * Tile::warp_keys;
  const int key0 = blockIdx.x * Tile::block_n;
  const int kv_head = blockIdx.y, batch = blockIdx.z;
  const auto stage_of = [&](int stage) -> SplitQueryTile {
    float* const rows = rows_smem + 3 * stage * Tile::block_m;
    return {q_smem + stage * Tile::q_size, d_o_smem + stage * Tile::q_size,
            rows, rows + Tile::block_m, rows + 2 * Tile::block_m};
  };
  // Pointers are computed where they are used: there are no registers to keep them.
  const auto head_of_tile = [&](const QueryTile<float>& tile) {
    return gradient_head(a, batch, kv_head * group_size(a) + tile.index);
  };
  const auto fetch = [&](const QueryTile<float>& tile, int stage) {
    if (!exists(tile, a)) return;
    const SplitQueryTile to = stage_of(stage);
    const auto head = head_of_tile(tile);
    copy_float_rows_async<Tile::block_m, d, Tile::threads>(
        to.q, head.q, a.q_strides.row, tile.query0, a.length_q, a.head_dim,
        thread);
    copy_float_rows_async<Tile::block_m, d, Tile::threads>(
        to.d_o, head.d_o, a.d_o_strides.row, tile.query0, a.length_q,
        a.head_dim, thread);
    copy_lse_async<Tile::block_m>(to.lse, a, head, tile.query0, thread);
    if (thread < Tile::block_m / 4) {
      const std::int64_t row = head.padded_row + tile.query0 + 4 * thread;
      cp_async16(to.inv_row_sum + 4 * thread, a.inv_row_sum + row);
      cp_async16(to.delta + 4 * thread, a.delta + row);
    }
  };
  const auto next = [&](const QueryTile<float>& tile) {
    return next_query_tile<Tile>(tile, a, batch, kv_head, key0);
  };
  auto tile = first_query_tile<Tile>(a, batch, kv_head, key0);
  if (exists(tile, a)) {
    copy_float_rows_async<Tile::block_n, d, Tile::threads>(
        k_smem, kv_rows(a.k, a.k_strides, batch, kv_head), a.k_strides.row,
        key0, a.length_k, a.head_dim, thread);
    copy_float_rows_async<Tile::block_n, d, Tile::threads>(
        v_smem, kv_rows(a.v, a.v_strides, batch, kv_head), a.v_strides.row,
        key0, a.length_k, a.head_dim, thread);
    fetch(tile, 0);
    cp_async_commit();
  }
  const int own = first_ds_place<Tile>(warp_key, lane);
  KeySums<Tile> d_k = {}, d_v = {};
  for (int count = 0; exists(tile, a); ++count) {
    const int stage = count % Tile::stages, query0 = tile.query0;
    const SplitQueryTile in = stage_of(stage);
    cp_async_wait<0>();
    __syncthreads();  // this tile is loaded, the last one has been read
    if constexpr (Tile::stages == 2) {
      fetch(next(tile), 1 - stage);
      cp_async_commit();
    }
    //! [step]
    Scores<Tile> p = {};
    // S^T = K Q^T, P^T = exp(S^T - LSE)
    multiply_split_rows<d>(p, k_smem + warp_key * d, in.q, lane);
    if (visible_keys(a, query0) < key0 + Tile::block_n) {
      recompute_split_probs<true>(p, a, in.lse, query0, key0 + warp_key,
                                  lane);
    } else {
      recompute_split_probs<false>(p, a, in.lse, query0, key0 + warp_key,
                                   lane);
    }
    normalize_split_probs<has_dropout>(p, a, in.inv_row_sum,
                                       head_of_tile(tile).index, query0,
                                       key0 + warp_key, lane);
    store_split_probs<Tile>(ds_smem, own, p);
    // dV += P^T dO
    multiply_split_columns<d, Tile::block_m, true>(
        d_v,
        [&](auto& fragment, int i, int query) {
          load_split_probs<Tile, has_dropout>(fragment, ds_smem, own, i,
                                              query);
        },
        in.d_o, lane, 0);
    // dP^T = V dO^T, dS^T = P^T * (dP^T - delta), elementwise
    Scores<Tile> d_p = {};
    multiply_split_rows<d>(d_p, v_smem + warp_key * d, in.d_o, lane);
    split_score_gradients<Tile, has_dropout>(ds_smem, own, d_p, a, in.delta,
                                             lane);
    // dK += dS^T Q
    multiply_split_columns<d, Tile::block_m, true>(
        d_k,
        [&](auto& fragment, int i, int query) {
          load_split_probs<Tile, false>(fragment, ds_smem, own, i, query);
        },
        in.q, lane, 0);
    __syncthreads();  // all warps have stored dS
    //! [step]
    if constexpr (Tile::stages == 1) {
      fetch(next(tile), 0);  // all warps have read Q and dO
      cp_async_commit();
    }
    // dQ += dS K
    float d_q[Tile::d_q_rows / 16][4][4] = {};
    const int row0 = warp / Tile::d_q_warp_columns * Tile::d_q_rows;
    const int col0 = warp % Tile::d_q_warp_columns * Tile::d_q_columns;
    const int of_ds = swizzled_float<Tile::block_n>(lane % 16, lane / 16 * 4);
    multiply_split_columns<d, Tile::block_n, true>(
        d_q,
        [&](auto& fragment, int i, int key) {
          load_split_rows<Tile::block_n>(
              fragment,
              ds_smem + (row0 + 16 * i) * Tile::block_n + key / 32 * 32,
              of_ds ^ key % 32);
        },
        k_smem, lane, col0);
    float* const to = head_of_tile(tile).d_q;
#pragma unroll
    for (int i = 0; i < Tile::d_q_rows / 16; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int query =
            query0 + row0 + 16 * i + 8 * h + fragment_row(lane, 0);
#pragma unroll
        for (int part = 0; part < 2; ++part) {
          const int col = col0 + split_column(lane, part);
          const float4 sum = four_columns(d_q[i], 0, h, part);
          if (query < a.length_q && col < a.head_dim) {
            atomic_add4(to + query * a.d_q_strides.row + col,
                        make_float4(a.scale * sum.x, a.scale * sum.y,
                                    a.scale * sum.z, a.scale * sum.w));
          }
        }
      }
    }
    tile = next(tile);
  }
  const auto store = [&](float* rows, std::int64_t stride,
                         const KeySums<Tile>& sums, float factor) {
#pragma unroll
    for (int i = 0; i < Tile::row_tiles; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int key =
            key0 + warp_key + 16 * i + 8 * h + fragment_row(lane, 0);
        if (key >= a.length_k) continue;
#pragma unroll
        for (int group = 0; group < d / 32; ++group) {
#pragma unroll
          for (int part = 0; part < 2; ++part) {
            const int col = 32 * group + split_column(lane, part);
            const float4 sum = four_columns(sums[i], group, h, part);
            if (col < a.head_dim) {
              store4(rows + key * stride + col,
                     make_float4(factor * sum.x, factor * sum.y,
                                 factor * sum.z, factor * sum.w));
            }
          }
        }
      }
    }
  };
  store(kv_rows(a.d_k, a.d_k_strides, batch, kv_head), a.d_k_strides.row, d_k,
        a.scale);
  store(kv_rows(a.d_v, a.d_v_strides, batch, kv_head), a.d_v_strides.row, d_v,
        has_dropout ? a.dropout.factor : 1.0f);
}

/// The tile for a head dimension: two blocks of an SM fit in its shared memory. Dropout needs
/// registers; with 128 columns there are some for half as many queries.
template <int d, bool has_dropout = false>
using SplitBackwardTileFor = SplitBackwardTile<d,
                                               d == 32                   ? 64
                                               : d == 128 && has_dropout ? 16
                                                                         : 32,
                                               4, 16, d == 128 ? 1 : 2>;

/// Dynamic shared memory of the largest block of the step.
template <int d>
constexpr std::size_t kSplitBackwardBytes = std::max(
    SplitBackwardTileFor<d>::shared_bytes, SplitRowSumTile<d>::shared_bytes);

/// Launches the step.
/// @param a with a Workspace{0}
template <int d>
void launch_backward_split_tf32(const AttentionGradient<float>& a,
                                const Stream& stream) {
  using Sums = SplitRowSumTile<d>;
  launch(stream, preprocess<d>, preprocess_launch<d>(a), a);
  const Size of_rows{static_cast<unsigned>(padded_rows(a) / Sums::block_m),
                     static_cast<unsigned>(a.heads),
                     static_cast<unsigned>(a.batch)};
  launch(stream, split_row_sums<d>,
         {of_rows, Sums::threads, Sums::shared_bytes, kPipelineStages}, a);
  launch_zero_d_q<d>(a, stream);
  const auto launch_gradients = [&](auto has_dropout) {
    constexpr bool drops = decltype(has_dropout)::value;
    using Tile = SplitBackwardTileFor<d, drops>;
    launch(stream, flash_backward_split_tf32<Tile, drops>,
           {grid_of_keys(a, Tile::block_n), Tile::threads, Tile::shared_bytes,
            Tile::stages},
           a);
  };
  a.dropout.threshold > 0 ? launch_gradients(std::true_type{})
                          : launch_gradients(std::false_type{});
}

FA_LAUNCH_FLOAT(backward_float, AttentionGradient, (const Stream&),
                launch_backward_split_tf32, (32), (64), (128));

FA_STEP_ROW(backward, 17) {
  return row("17_split_tf32", "float32 on tensor cores, 3xTF32", float{})
      .needs(kNeedsMma)
      .any_order()
      .head_dims(HeadDims<32, 64, 128>{})
      .over_queries(SplitBackwardTileFor<64>{}, 2)
      .over_queries(SplitBackwardTileFor<128>{}, 1)
      .shared_bytes([](auto d) { return kSplitBackwardBytes<d>; })
      .memory_is("8 N", [](auto n, auto) { return 8 * n; })
      .workspace([](auto&, auto) { return Workspace{0}; })
      .launch([](auto& a, auto d, auto& stream) {
        launch_backward_split_tf32<d>(a, stream);
      });
}

}  // namespace fa::FA_TARGET
