/// @file
/// P is recomputed where it is needed and never leaves the chip. Each sum belongs to one block: dK
/// and dV to blocks that own keys and loop over the queries, dQ to blocks that own queries and loop
/// over the keys. So P and dP are computed twice, and no two blocks write the same place: the
/// result has the same bits in every run. Four launches: delta, the row sums of the recomputed P,
/// dK and dV, dQ.
///
/// Source: Dao et al., FlashAttention, NeurIPS 2022, appendix B.4.
#pragma once

#include "06_flash_backward/kernels/float_gradient.cuh"
#include "06_flash_backward/kernels/preprocess.cuh"

namespace fa::FA_TARGET {

/// Sizes of the float32 kernels.
/// @tparam head_dim columns: 32, 64, 128 or 256
template <int head_dim>
struct FloatBackwardTile {
  static constexpr int d = head_dim;
  static constexpr int side = 32;      ///< queries and keys of a tile
  static constexpr int threads = 256;  ///< of a block
  // Leading dimensions and elements of Q, K, V and dO, and of P and dS.
  static constexpr int ld = d + 4;
  static constexpr int score_ld = 36;
  static constexpr int size = side * ld;
  static constexpr int score_size = side * score_ld;
  static constexpr int fours =
      d / 32;  ///< float4s of a thread, in a row of d
  /// Dynamic shared memory.
  static constexpr std::size_t shared_bytes =
      sizeof(float) * (4 * size + 2 * score_size);
};

/// The tiles of a block in shared memory: q, d_o, k and v are [side][ld]; p and d_s are
/// [side][score_ld], a row for each query.
template <class Tile>
struct FloatBackwardTiles {
  float* q;
  float* d_o;
  float* k;
  float* v;
  float* p;
  float* d_s;
};

/// Where they are in the dynamic shared memory.
template <class Tile>
__device__ FloatBackwardTiles<Tile> float_backward_tiles() {
  float* const first = dynamic_shared<float>();
  return {first,
          first + Tile::size,
          first + 2 * Tile::size,
          first + 3 * Tile::size,
          first + 4 * Tile::size,
          first + 4 * Tile::size + Tile::score_size};
}

/// Copies rows of a matrix to a tile, with zeros outside of the matrix.
template <class Tile>
__device__ void load_float_tile(float* tile, const float* matrix,
                                std::int64_t stride, int row0, int length,
                                int head_dim) {
  for (int e = threadIdx.x; e < Tile::side * Tile::d / 4;
       e += Tile::threads) {
    const int row = e / (Tile::d / 4), col = e % (Tile::d / 4) * 4;
    const bool inside = row0 + row < length && col < head_dim;
    store4(tile + row * Tile::ld + col,
           inside ? load4(matrix + (row0 + row) * stride + col)
                  : make_float4(0, 0, 0, 0));
  }
}

/// The dot product of four elements.
__device__ inline float dot4(float4 a, float4 b) {
  return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}

/// P after dropout and dS = P * (dP - delta), elementwise of a tile, to shared memory. A thread
/// computes 2 x 2 of each.
template <class Tile>
__device__ void probs_and_d_s(const FloatBackwardTiles<Tile>& tiles,
                              const AttentionGradient<float>& a,
                              const GradientHead<float>& head, int query0,
                              int key0) {
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;
  float s[2][2] = {}, d_p[2][2] = {};  // S = Q K^T and dP = dO V^T
#pragma unroll 4
  for (int kk = 0; kk < Tile::d; kk += 4) {
    float4 q[2], d_o[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      q[i] = load4(tiles.q + (y + 16 * i) * Tile::ld + kk);
      d_o[i] = load4(tiles.d_o + (y + 16 * i) * Tile::ld + kk);
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const float4 k = load4(tiles.k + (x + 16 * j) * Tile::ld + kk);
      const float4 v = load4(tiles.v + (x + 16 * j) * Tile::ld + kk);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        s[i][j] += dot4(q[i], k);
        d_p[i][j] += dot4(d_o[i], v);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = y + 16 * i, query = query0 + row;
    const std::int64_t padded = head.padded_row + query;
    const float lse = lse_of(a, head, query), delta = a.delta[padded];
    const float inv_row_sum = a.inv_row_sum[padded];
    const int visible = visible_keys(a, query);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int col = x + 16 * j, key = key0 + col;
      const float p =
          key < visible
              ? recomputed_prob(s[i][j], a.scale, lse, visible) * inv_row_sum
              : 0.0f;
      const float kept = a.dropout.of_weight(head.index, query, key);
      tiles.p[row * Tile::score_ld + col] = p * kept;
      tiles.d_s[row * Tile::score_ld + col] =
          float_score_gradient(p, d_p[i][j] * kept, delta);
    }
  }
}

/// Sizes of recomputed_row_sums().
/// @tparam head_dim columns: 32, 64, 128 or 256
template <int head_dim>
struct RowSumTile {
  static constexpr int d = head_dim;
  static constexpr int side = 64;         ///< queries and keys of a tile
  static constexpr int threads = 256;     ///< of a block
  static constexpr int own = side / 16;   ///< queries and keys of a thread
  static constexpr int ld = d + 4;        ///< leading dimension of Q and K
  static constexpr int size = side * ld;  ///< elements of Q or K
  /// Dynamic shared memory.
  static constexpr std::size_t shared_bytes = sizeof(float) * 2 * size;
};

/// inv_row_sum = 1 / rowsum(P), with P recomputed tile by tile: see stored_row_sums() for what it
/// is good for.
template <int d>
__global__ void __launch_bounds__(256)
    recomputed_row_sums(AttentionGradient<float> a) {
  using Tile = RowSumTile<d>;
  float* const q_smem = dynamic_shared<float>();
  float* const k_smem = q_smem + Tile::size;
  const int query0 = blockIdx.x * Tile::side;
  const auto head = gradient_head(a, blockIdx.z, blockIdx.y);
  const auto kv = head_of(a, blockIdx.z, blockIdx.y);
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;
  const std::int64_t padded0 = head.padded_row + query0 + y;
  load_float_tile<Tile>(q_smem, head.q, a.q_strides.row, query0, a.length_q,
                        a.head_dim);
  float lse[Tile::own], sum[Tile::own] = {};
#pragma unroll
  for (int i = 0; i < Tile::own; ++i) {
    lse[i] = lse_of(a, head, query0 + y + 16 * i);
  }
  const int end = query0 < a.length_q
                      ? visible_keys(a, query0 + Tile::side - 1)
                      : 0;  // rows that do not exist get a 0
  for (int key0 = 0; key0 < end; key0 += Tile::side) {
    load_float_tile<Tile>(k_smem, kv.k, a.k_strides.row, key0, a.length_k,
                          a.head_dim);
    __syncthreads();  // Q and K are loaded
    // S = Q K^T, added up in the same order as in probs_and_d_s()
    float s[Tile::own][Tile::own] = {};
#pragma unroll 4
    for (int kk = 0; kk < d; kk += 4) {
      float4 q[Tile::own];
#pragma unroll
      for (int i = 0; i < Tile::own; ++i) {
        q[i] = load4(q_smem + (y + 16 * i) * Tile::ld + kk);
      }
#pragma unroll
      for (int j = 0; j < Tile::own; ++j) {
        const float4 k = load4(k_smem + (x + 16 * j) * Tile::ld + kk);
#pragma unroll
        for (int i = 0; i < Tile::own; ++i) s[i][j] += dot4(q[i], k);
      }
    }
#pragma unroll
    for (int i = 0; i < Tile::own; ++i) {
      const int visible = visible_keys(a, query0 + y + 16 * i);
#pragma unroll
      for (int j = 0; j < Tile::own; ++j) {
        if (key0 + x + 16 * j < visible) {
          sum[i] += recomputed_prob(s[i][j], a.scale, lse[i], visible);
        }
      }
    }
    __syncthreads();  // all threads have read K
  }
#pragma unroll
  for (int i = 0; i < Tile::own; ++i) {
    const float of_row = warp_sum<16>(sum[i]);
    if (x == 0) {
      a.inv_row_sum[padded0 + 16 * i] = of_row == 0 ? 0 : 1 / of_row;
    }
  }
}

/// A thread's part of a row of d sums: columns 32 c + 4 (thread % 8) and the next three of row
/// thread / 8.
template <class Tile>
using FloatRow = float4[Tile::fours];

/// sums += factor * (a row of a tile)
template <class Tile>
__device__ void add_float_row(FloatRow<Tile>& sums, float factor,
                              const float* row) {
#pragma unroll
  for (int c = 0; c < Tile::fours; ++c) {
    const float4 x = load4(row + 32 * c + threadIdx.x % 8 * 4);
    sums[c].x += factor * x.x;
    sums[c].y += factor * x.y;
    sums[c].z += factor * x.z;
    sums[c].w += factor * x.w;
  }
}

/// all += sums. Sums over thousands of queries are added up tile by tile: so the rounding errors
/// grow with the number of tiles, not of queries.
template <class Tile>
__device__ void add_sums(FloatRow<Tile>& all, const FloatRow<Tile>& sums) {
#pragma unroll
  for (int c = 0; c < Tile::fours; ++c) {
    all[c].x += sums[c].x;
    all[c].y += sums[c].y;
    all[c].z += sums[c].z;
    all[c].w += sums[c].w;
  }
}

/// Writes factor * sums to a row.
template <class Tile>
__device__ void store_float_row(float* row, const FloatRow<Tile>& sums,
                                float factor, int head_dim) {
#pragma unroll
  for (int c = 0; c < Tile::fours; ++c) {
    const int col = 32 * c + threadIdx.x % 8 * 4;
    if (col < head_dim) {
      store4(row + col, make_float4(factor * sums[c].x, factor * sums[c].y,
                                    factor * sums[c].z, factor * sums[c].w));
    }
  }
}

/// dK and dV. A block owns keys and loops over the queries of all heads that share them.
//! [keys]
template <int d>
__global__ void __launch_bounds__(256)
    backward_keys(AttentionGradient<float> a) {
  using Tile = FloatBackwardTile<d>;
  const auto tiles = float_backward_tiles<Tile>();
  const int key0 = blockIdx.x * Tile::side, kv_head = blockIdx.y;
  const int batch = blockIdx.z, group = group_size(a);
  load_float_tile<Tile>(tiles.k, kv_rows(a.k, a.k_strides, batch, kv_head),
                        a.k_strides.row, key0, a.length_k, a.head_dim);
  load_float_tile<Tile>(tiles.v, kv_rows(a.v, a.v_strides, batch, kv_head),
                        a.v_strides.row, key0, a.length_k, a.head_dim);
  const int row = threadIdx.x / 8;  // a key, for the sums
  //! [key_loop]
  FloatRow<Tile> all_d_k = {}, all_d_v = {};
  for (int member = 0; member < group; ++member) {
    const auto head = gradient_head(a, batch, kv_head * group + member);
    for (int query0 = first_query(a, key0) / Tile::side * Tile::side;
         query0 < a.length_q; query0 += Tile::side) {
      load_float_tile<Tile>(tiles.q, head.q, a.q_strides.row, query0,
                            a.length_q, a.head_dim);
      load_float_tile<Tile>(tiles.d_o, head.d_o, a.d_o_strides.row, query0,
                            a.length_q, a.head_dim);
      __syncthreads();  // the tiles are loaded
      probs_and_d_s<Tile>(tiles, a, head, query0, key0);
      __syncthreads();  // P and dS are ready
      // dV += P^T dO, dK += dS^T Q
      FloatRow<Tile> d_k = {}, d_v = {};  // of this tile
      for (int kk = 0; kk < Tile::side; ++kk) {
        add_float_row<Tile>(d_v, tiles.p[kk * Tile::score_ld + row],
                            tiles.d_o + kk * Tile::ld);
        add_float_row<Tile>(d_k, tiles.d_s[kk * Tile::score_ld + row],
                            tiles.q + kk * Tile::ld);
      }
      add_sums<Tile>(all_d_v, d_v);
      add_sums<Tile>(all_d_k, d_k);
      __syncthreads();  // all threads have read the tiles
    }
  }
  //! [key_loop]
  const int key = key0 + row;
  if (key >= a.length_k) return;
  store_float_row<Tile>(
      kv_rows(a.d_k, a.d_k_strides, batch, kv_head) + key * a.d_k_strides.row,
      all_d_k, a.scale, a.head_dim);
  store_float_row<Tile>(
      kv_rows(a.d_v, a.d_v_strides, batch, kv_head) + key * a.d_v_strides.row,
      all_d_v, 1.0f, a.head_dim);
}
//! [keys]

/// dQ. A block owns queries and loops over the keys.
template <int d>
__global__ void __launch_bounds__(256)
    backward_queries(AttentionGradient<float> a) {
  using Tile = FloatBackwardTile<d>;
  const auto tiles = float_backward_tiles<Tile>();
  const int query0 = blockIdx.x * Tile::side, batch = blockIdx.z;
  const auto head = gradient_head(a, batch, blockIdx.y);
  const auto kv = head_of(a, batch, blockIdx.y);
  load_float_tile<Tile>(tiles.q, head.q, a.q_strides.row, query0, a.length_q,
                        a.head_dim);
  load_float_tile<Tile>(tiles.d_o, head.d_o, a.d_o_strides.row, query0,
                        a.length_q, a.head_dim);
  const int row = threadIdx.x / 8;  // a query, for the sums
  const int visible = visible_keys(a, query0 + Tile::side - 1);
  FloatRow<Tile> d_q = {};
  for (int key0 = 0; key0 < visible; key0 += Tile::side) {
    load_float_tile<Tile>(tiles.k, kv.k, a.k_strides.row, key0, a.length_k,
                          a.head_dim);
    load_float_tile<Tile>(tiles.v, kv.v, a.v_strides.row, key0, a.length_k,
                          a.head_dim);
    __syncthreads();  // the tiles are loaded
    probs_and_d_s<Tile>(tiles, a, head, query0, key0);
    __syncthreads();  // dS is ready
    // dQ += dS K
    for (int kk = 0; kk < Tile::side; ++kk) {
      add_float_row<Tile>(d_q, tiles.d_s[row * Tile::score_ld + kk],
                          tiles.k + kk * Tile::ld);
    }
    __syncthreads();  // all threads have read the tiles
  }
  const int query = query0 + row;
  if (query >= a.length_q) return;
  store_float_row<Tile>(head.d_q + query * a.d_q_strides.row, d_q, a.scale,
                        a.head_dim);
}

/// Dynamic shared memory of the largest block of this step.
template <int d>
constexpr std::size_t kTwoKernelsBytes =
    FloatBackwardTile<d>::shared_bytes > RowSumTile<d>::shared_bytes
        ? FloatBackwardTile<d>::shared_bytes
        : RowSumTile<d>::shared_bytes;

/// Launches the kernels that fill delta and inv_row_sum.
template <int d>
void launch_float_row_sums(const AttentionGradient<float>& a,
                           const Stream& stream) {
  using Tile = RowSumTile<d>;
  launch(stream, preprocess<d>, preprocess_launch<d>(a), a);
  const Size grid{static_cast<unsigned>(padded_rows(a) / Tile::side),
                  static_cast<unsigned>(a.heads),
                  static_cast<unsigned>(a.batch)};
  launch(stream, recomputed_row_sums<d>,
         {grid, Tile::threads, Tile::shared_bytes}, a);
}

/// Launches the step.
/// @param a with a Workspace{0}
template <int d>
void launch_backward_two_kernels(const AttentionGradient<float>& a,
                                 const Stream& stream) {
  using Tile = FloatBackwardTile<d>;
  launch_float_row_sums<d>(a, stream);
  launch(stream, backward_keys<d>,
         {grid_of_keys(a, Tile::side), Tile::threads, Tile::shared_bytes}, a);
  launch(stream, backward_queries<d>,
         {grid_of(a, Tile::side), Tile::threads, Tile::shared_bytes}, a);
}

FA_LAUNCH_FLOAT(backward_float, AttentionGradient, (const Stream&),
                launch_backward_two_kernels, (32), (64), (128), (256));

FA_STEP_ROW(backward, 3) {
  return row("03_two_kernels", "keys outside, then queries", float{})
      .slow()
      .head_dims(HeadDims<32, 64, 128, 256>{})
      .tile(FloatBackwardTile<64>::side, FloatBackwardTile<64>::side, 1, 1)
      .shared_bytes([](auto d) { return kTwoKernelsBytes<d>; })
      .memory_is("8 N", [](auto n, auto) { return 8 * n; })
      // Each kernel keeps two tiles and reads the other two T times; the row
      // sums read K for each 64 queries, and 16 threads the LSE of a row.
      .reads("9/2 T N D + 3 N^2 + 7 N D + 16 N",
             [](auto n, auto d) {
               const auto t = n / FloatBackwardTile<64>::side;
               return 9 * t * n * d / 2 + 3 * n * n + 7 * n * d + 16 * n;
             })
      .writes("3 N D + 2 R",
              [](auto n, auto d) {
                return 3 * n * d + 2 * ceil_div<decltype(n)>(n, kPaddedRows) *
                                       kPaddedRows;
              })
      .workspace([](auto&, auto) { return Workspace{0}; })
      .launch([](auto& a, auto d, auto& stream) {
        launch_backward_two_kernels<d>(a, stream);
      });
}

}  // namespace fa::FA_TARGET
