/// @file
/// What steps 06, 07 and 17 share: tile sizes, the accumulators of mma.sync, the online softmax on them,
/// dropout, and the epilogue.
#pragma once

#include "common/attention/mma_tile.cuh"

namespace fa::FA_TARGET {

/// Tile sizes of the tensor-core kernels.
/// @tparam rows_of_warp 16 or 32 queries
template <int head_dim, int keys, int warp_count, int rows_of_warp>
struct ForwardTile {
  static constexpr int d = head_dim;
  static constexpr int block_n = keys;
  static constexpr int warps = warp_count;
  static constexpr int threads = 32 * warps;
  static constexpr int warp_rows = rows_of_warp;
  static constexpr int block_m = warps * warp_rows;
  static constexpr int row_tiles = warp_rows / 16;  // of a warp
  // Elements of a tile of Q and of a tile of K or V in shared memory.
  static constexpr int q_size = block_m * d;
  static constexpr int kv_size = block_n * d;
};

/// A lane's part of the accumulators of its warp: [i][j] is of rows from 16 i and columns from 8 j.
/// Its element 2 h + e, h and e 0 or 1, is in fragment_row(lane, 2 h) and fragment_column(lane, e).
template <class Tile, int cols>
using Accumulators = float[Tile::row_tiles][cols / 8][4];

/// The state of the online softmax for this lane's rows, as in Accumulators: rows [i][h].
template <class Tile>
struct WarpRowState {
  float m[Tile::row_tiles][2];  ///< running maximum
  float l[Tile::row_tiles][2];  ///< this lane's part of the running sum
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

/// S *= scale.
template <class Tile>
__device__ void scale_scores(Accumulators<Tile, Tile::block_n>& s,
                             float scale) {
#pragma unroll
  for (int i = 0; i < Tile::row_tiles; ++i) {
#pragma unroll
    for (int j = 0; j < Tile::block_n / 8; ++j) {
#pragma unroll
      for (float& x : s[i][j]) x *= scale;
    }
  }
}

/// One step of the online softmax: S becomes P = exp(S - m), l and O are rescaled.
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

/// Drops probabilities; l has the sum of all of them.
template <class Tile, class T>
__device__ void apply_dropout(Accumulators<Tile, Tile::block_n>& p,
                              const Attention<T>& a, int head, int query0,
                              int key0, int lane) {
  if (a.dropout.threshold == 0) return;
#pragma unroll
  for (int i = 0; i < Tile::row_tiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int query = query0 + 16 * i + fragment_row(lane, 2 * h);
#pragma unroll
      for (int j = 0; j < Tile::block_n / 8; ++j) {
        // Two lanes share four keys: 0 and 1 belong to the even lane.
        const int key = key0 + 8 * j + fragment_column(lane, 0);
        const Words4 words = a.dropout.words(head, query, key / 4);
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

/// O /= l: writes a warp's rows of O and LSE.
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
      const int query = query0 + 16 * i + 8 * h + fragment_row(lane, 0);
      if (query >= a.length_q) continue;
      const float factor = l == 0 ? 0 : 1 / l;
      T* row = head.o + query * a.o_strides.row;
#pragma unroll
      for (int j = 0; j < Tile::d / 8; ++j) {
        const int col = 8 * j + fragment_column(lane, 0);
        if (8 * j < a.head_dim) {
          store_pair(row + col, pack2<T>(factor * o[i][j][2 * h],
                                         factor * o[i][j][2 * h + 1]));
        }
      }
      if (lane % 4 == 0) head.lse[query] = log_sum(state.m[i][h], l);
    }
  }
}

/// The tile of steps 05 to 07.
template <int d>
using PlainForwardTile = ForwardTile<d, 64, 4, 32>;

/// Bytes of a tile of Q, one of K and one of V.
template <int d, class T>
constexpr std::size_t plain_forward_bytes() {
  using Tile = PlainForwardTile<d>;
  return sizeof(T) * (Tile::q_size + 2 * Tile::kv_size);
}

/// Bytes of a tile of Q, two of K and two of V.
template <class Tile, class T>
constexpr std::size_t pipeline_bytes() {
  return sizeof(T) * (Tile::q_size + 2 * kPipelineStages * Tile::kv_size);
}

}  // namespace fa::FA_TARGET
