/// @file
/// Both products on tensor cores. A warp owns whole rows, so no other warp has a say in their maxima and sums. The
/// accumulators of the first product hold P exactly as the second one wants its left operand: P never leaves the
/// registers.
#pragma once

#include "common/attention/mma_tile.cuh"

namespace fa::FA_TARGET {

/// Sizes of the tensor-core kernels.
/// @tparam head_dim     columns, at least those of the inputs
/// @tparam keys         of a tile
/// @tparam warp_count   of a block
/// @tparam rows_of_warp 16 or 32 queries
template <int head_dim, int keys, int warp_count, int rows_of_warp>
struct ForwardTile {
  static constexpr int d = head_dim;                 ///< columns
  static constexpr int block_n = keys;               ///< keys of a tile
  static constexpr int warps = warp_count;           ///< of a block
  static constexpr int threads = 32 * warps;         ///< of a block
  static constexpr int warp_rows = rows_of_warp;     ///< queries of a warp
  static constexpr int block_m = warps * warp_rows;  ///< queries of a block
  static constexpr int row_tiles = warp_rows / 16;   ///< of a warp
  static constexpr int q_size = block_m * d;  ///< elements in shared memory
  static constexpr int kv_size =
      block_n * d;  ///< elements of a tile of K or V
};

/// A lane's part of 16 x 8 accumulators, for all rows of its warp.
template <class Tile, int cols>
using Accumulators = float[Tile::row_tiles][cols / 8][4];

/// What a lane knows of its rows: two of each 16, lane / 4 and 8 more.
template <class Tile>
struct WarpRowState {
  float m[Tile::row_tiles][2];  ///< the largest score so far
  float l[Tile::row_tiles][2];  ///< this lane's part of the sum of weights
};

/// The state before the first key.
template <class Tile>
__device__ void init_row_state(WarpRowState<Tile>& state) {
#pragma unroll
  for (int i = 0; i < Tile::row_tiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      state.m[i][h] = -INFINITY;
      state.l[i][h] = 0;
    }
  }
}

/// Scales the scores of a tile, and hides those of keys that a query does not see.
/// @param s      products of queries and keys; scores on return
/// @param a      what is computed
/// @param query0 the warp's first query
/// @param key0   the tile's first key
/// @param lane   in the warp
template <class Tile, class T>
__device__ void scale_and_mask(Accumulators<Tile, Tile::block_n>& s,
                               const Attention<T>& a, int query0, int key0,
                               int lane) {
#pragma unroll
  for (int i = 0; i < Tile::row_tiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int seen = visible_keys(a, query0 + 16 * i + 8 * h + lane / 4);
#pragma unroll
      for (int j = 0; j < Tile::block_n / 8; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int key = key0 + 8 * j + lane % 4 * 2 + e;
          float& x = s[i][j][2 * h + e];
          x = key < seen ? a.scale * x : -INFINITY;
        }
      }
    }
  }
}

/// One step of the online softmax: scores become weights, and what was summed so far is corrected.
//! [softmax_step]
template <class Tile>
__device__ void softmax_step(Accumulators<Tile, Tile::block_n>& s,
                             Accumulators<Tile, Tile::d>& o,
                             WarpRowState<Tile>& state) {
#pragma unroll
  for (int i = 0; i < Tile::row_tiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float m = state.m[i][h];
#pragma unroll
      for (int j = 0; j < Tile::block_n / 8; ++j) {
        m = fmaxf(m, fmaxf(s[i][j][2 * h], s[i][j][2 * h + 1]));
      }
      m = warp_max<4>(m);  // four lanes share a row
      const float rescale = exp_diff(state.m[i][h], m);
      state.m[i][h] = m;
      state.l[i][h] *= rescale;
#pragma unroll
      for (int j = 0; j < Tile::d / 8; ++j) {
        o[i][j][2 * h] *= rescale;
        o[i][j][2 * h + 1] *= rescale;
      }
#pragma unroll
      for (int j = 0; j < Tile::block_n / 8; ++j) {
#pragma unroll
        for (int e = 2 * h; e < 2 * h + 2; ++e) {
          s[i][j][e] = exp_diff(s[i][j][e], m);
          state.l[i][h] += s[i][j][e];
        }
      }
    }
  }
}
//! [softmax_step]

/// Drops weights. Their sums are taken before.
template <class Tile, class T>
__device__ void apply_dropout(Accumulators<Tile, Tile::block_n>& p,
                              const Attention<T>& a, int head, int query0,
                              int key0, int lane) {
  if (a.dropout.threshold == 0) return;
#pragma unroll
  for (int i = 0; i < Tile::row_tiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int query = query0 + 16 * i + 8 * h + lane / 4;
#pragma unroll
      for (int j = 0; j < Tile::block_n / 8; ++j) {
        // Two lanes share a quad of keys: columns 0, 1 are one's, 2, 3 the other's.
        const Words4 words =
            a.dropout.words(head, query, (key0 + 8 * j + lane % 4 * 2) / 4);
        const bool low = lane % 2 == 0;
        const std::uint32_t first = low ? words.x : words.z;
        const std::uint32_t second = low ? words.y : words.w;
        p[i][j][2 * h] *=
            first < a.dropout.threshold ? 0.0f : a.dropout.factor;
        p[i][j][2 * h + 1] *=
            second < a.dropout.threshold ? 0.0f : a.dropout.factor;
      }
    }
  }
}

/// Divides by the sums and writes a warp's rows of O and LSE.
/// @param a      what is computed
/// @param head   this one
/// @param o      sums of weighted values
/// @param state  of the rows, after the last key
/// @param query0 the warp's first query
/// @param lane   in the warp
template <class Tile, class T>
__device__ void store_rows(const Attention<T>& a,
                           const AttentionHead<T>& head,
                           const Accumulators<Tile, Tile::d>& o,
                           const WarpRowState<Tile>& state, int query0,
                           int lane) {
#pragma unroll
  for (int i = 0; i < Tile::row_tiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float l = warp_sum<4>(state.l[i][h]);
      const int query = query0 + 16 * i + 8 * h + lane / 4;
      if (query >= a.length_q) continue;
      const float factor = l == 0 ? 0 : 1 / l;
      T* row = head.o + query * a.o_strides.row;
#pragma unroll
      for (int j = 0; j < Tile::d / 8; ++j) {
        const int col = 8 * j + lane % 4 * 2;
        if (8 * j < a.head_dim) {
          store_pair(row + col, pack2<T>(factor * o[i][j][2 * h],
                                         factor * o[i][j][2 * h + 1]));
        }
      }
      if (lane % 4 == 0) head.lse[query] = log_sum(state.m[i][h], l);
    }
  }
}

/// The tile of rungs 05 to 07.
template <int d>
using PlainForwardTile = ForwardTile<d, 64, 4, 32>;

/// Attention in 16 bits; a warp has 32 queries.
/// Launch: blocks of 128; grid of ceil(length_q / 128) x heads x batch; dynamic shared memory for a tile of Q, one of
/// K and one of V.
//! [tensor_cores]
template <int d, class T>
__global__ void __launch_bounds__(128) flash_tensor_cores(Attention<T> a) {
  using Tile = PlainForwardTile<d>;
  T* const q_smem = dynamic_shared<T>();
  T* const k_smem = q_smem + Tile::q_size;
  T* const v_smem = k_smem + Tile::kv_size;
  const int thread = threadIdx.x, lane = thread % kWarp;
  const int g = lane / 4, t = lane % 4;  // a fragment's row, pair of columns
  const int warp_row = thread / kWarp * Tile::warp_rows;
  const int query0 = blockIdx.x * Tile::block_m;
  const auto head = head_of(a, blockIdx.z, blockIdx.y);
  const auto copy_to = [](T* tile) {
    return [=](int row, int col, const T* from, bool inside) {
      store4(tile + row * d + col,
             inside ? load4(from) : make_float4(0, 0, 0, 0));
    };
  };
  for_row_pieces<Tile::block_m, d, Tile::threads>(
      head.q, a.q_strides.row, query0, a.length_q, a.head_dim, thread,
      copy_to(q_smem));
  Accumulators<Tile, d> o = {};
  WarpRowState<Tile> state;
  init_row_state(state);
  const int seen = visible_keys(a, query0 + Tile::block_m - 1);
  for (int key0 = 0; key0 < seen; key0 += Tile::block_n) {
    for_row_pieces<Tile::block_n, d, Tile::threads>(
        head.k, a.k_strides.row, key0, a.length_k, a.head_dim, thread,
        copy_to(k_smem));
    for_row_pieces<Tile::block_n, d, Tile::threads>(
        head.v, a.v_strides.row, key0, a.length_k, a.head_dim, thread,
        copy_to(v_smem));
    __syncthreads();  // the tiles are there
    Accumulators<Tile, Tile::block_n> s = {};
#pragma unroll
    for (int l = 0; l < d; l += 16) {  // S = Q K^T
      std::uint32_t q_frag[Tile::row_tiles][4];
#pragma unroll
      for (int i = 0; i < Tile::row_tiles; ++i) {
        const T* row = q_smem + (warp_row + 16 * i + g) * d + l + 2 * t;
        q_frag[i][0] = load_pair(row);
        q_frag[i][1] = load_pair(row + 8 * d);
        q_frag[i][2] = load_pair(row + 8);
        q_frag[i][3] = load_pair(row + 8 * d + 8);
      }
#pragma unroll
      for (int j = 0; j < Tile::block_n / 8; ++j) {
        const T* row = k_smem + (8 * j + g) * d + l + 2 * t;
        const std::uint32_t k_frag[2] = {load_pair(row), load_pair(row + 8)};
#pragma unroll
        for (int i = 0; i < Tile::row_tiles; ++i) {
          mma_m16n8k16<T>(s[i][j], q_frag[i], k_frag);
        }
      }
    }
    scale_and_mask<Tile>(s, a, query0 + warp_row, key0, lane);
    softmax_step<Tile>(s, o, state);
    apply_dropout<Tile>(s, a, head.index, query0 + warp_row, key0, lane);
#pragma unroll
    for (int key = 0; key < Tile::block_n; key += 16) {  // O += P V
      std::uint32_t p_frag[Tile::row_tiles][4];
#pragma unroll
      for (int i = 0; i < Tile::row_tiles; ++i) {
        probs_as_operand<T>(p_frag[i], s[i], key);
      }
#pragma unroll
      for (int j = 0; j < d / 8; ++j) {
        const T* col = v_smem + (key + 2 * t) * d + 8 * j + g;
        const std::uint32_t v_frag[2] = {pack2(col[0], col[d]),
                                         pack2(col[8 * d], col[9 * d])};
#pragma unroll
        for (int i = 0; i < Tile::row_tiles; ++i) {
          mma_m16n8k16<T>(o[i][j], p_frag[i], v_frag);
        }
      }
    }
    __syncthreads();  // nobody needs the tiles any more
  }
  store_rows<Tile>(a, head, o, state, query0 + warp_row, lane);
}
//! [tensor_cores]

/// Dynamic shared memory of rungs 05 and 06.
template <int d, class T>
constexpr std::size_t plain_forward_bytes() {
  using Tile = PlainForwardTile<d>;
  return sizeof(T) * (Tile::q_size + 2 * Tile::kv_size);
}

}  // namespace fa::FA_TARGET
