/// @file
/// FlashAttention-1: one kernel, no scores in global memory. The outer loop goes over tiles of K and V, the inner
/// one over the queries, whose O, m and l are read, corrected and written back for each tile of keys.
///
/// Source: Dao, Fu, Ermon, Rudra and Re, FlashAttention, NeurIPS 2022, algorithm 1.
#pragma once

#include "common/attention/attention.cuh"

namespace fa::FA_TARGET {

/// Queries of a tile: a thread for each.
constexpr int kFlash1Queries = 64;
/// Keys of a tile.
constexpr int kFlash1Keys = 32;

/// Copies rows of keys or values to shared memory, 0 outside of the matrix.
/// @tparam rows of the tile
/// @tparam d    columns of the tile; those beyond head_dim get 0
template <int rows, int d>
__device__ void load_rows(float (&tile)[rows][d], const float* from,
                          std::int64_t stride, int row0, int length,
                          int head_dim, int thread, int threads) {
  for (int e = thread; e < rows * d / 4; e += threads) {
    const int row = e / (d / 4), col = e % (d / 4) * 4;
    const bool inside = row0 + row < length && col < head_dim;
    store4(&tile[row][col], inside ? load4(from + (row0 + row) * stride + col)
                                   : make_float4(0, 0, 0, 0));
  }
}

/// One row of at most d numbers, from global memory to registers, 0 beyond head_dim.
template <int d>
__device__ void load_row(float (&row)[d], const float* from, int head_dim) {
#pragma unroll
  for (int e = 0; e < d; e += 4) {
    const float4 four =
        e < head_dim ? load4(from + e) : make_float4(0, 0, 0, 0);
    row[e] = four.x;
    row[e + 1] = four.y;
    row[e + 2] = four.z;
    row[e + 3] = four.w;
  }
}

/// The way back: a row of at most d numbers from registers to global memory.
template <int d>
__device__ void store_row(float* to, const float (&row)[d], int head_dim) {
#pragma unroll
  for (int e = 0; e < d; e += 4) {
    if (e < head_dim) {
      store4(to + e, make_float4(row[e], row[e + 1], row[e + 2], row[e + 3]));
    }
  }
}

/// The scalar product of two rows of d numbers.
template <int d>
__device__ float dot(const float (&a)[d], const float (&b)[d]) {
  float sum = 0;
#pragma unroll
  for (int e = 0; e < d; e += 4) {
    const float4 four = load4(&b[e]);
    sum += a[e] * four.x + a[e + 1] * four.y + a[e + 2] * four.z +
           a[e + 3] * four.w;
  }
  return sum;
}

/// Attention in float32; a block has a head, and its state lies in global memory between tiles of keys.
/// Launch: blocks of 64; grid of heads x batch.
/// @tparam d at least head_dim
/// @param a what is computed
/// @param running [batch, heads, length_q, 2]: m and l of each query between two tiles of keys
//! [flash_1]
template <int d>
__global__ void flash_1(Attention<float> a, float* running) {
  __shared__ __align__(16) float k_smem[kFlash1Keys][d];
  __shared__ __align__(16) float v_smem[kFlash1Keys][d];
  const auto h = head_of(a, blockIdx.y, blockIdx.x);
  running += std::int64_t{h.index} * a.length_q * 2;
  for (int key0 = 0; key0 < a.length_k; key0 += kFlash1Keys) {
    load_rows(k_smem, h.k, a.k_strides.row, key0, a.length_k, a.head_dim,
              threadIdx.x, kFlash1Queries);
    load_rows(v_smem, h.v, a.v_strides.row, key0, a.length_k, a.head_dim,
              threadIdx.x, kFlash1Queries);
    __syncthreads();  // the tiles are there
    for (int query = threadIdx.x; query < a.length_q;
         query += kFlash1Queries) {
      float q[d], o[d], s[kFlash1Keys];
      load_row(q, h.q + query * a.q_strides.row, a.head_dim);
      float m_old = -INFINITY, l_old = 0;
      for (float& x : o) x = 0;
      if (key0 > 0) {  // where the last tile left this query
        m_old = running[2 * query];
        l_old = running[2 * query + 1];
        load_row(o, h.o + query * a.o_strides.row, a.head_dim);
      }
      const int seen = visible_keys(a, query) - key0;
      float m = m_old;
      for (int j = 0; j < kFlash1Keys; ++j) {
        s[j] = j < seen ? a.scale * dot(q, k_smem[j]) : -INFINITY;
        m = fmaxf(m, s[j]);
      }
      float l = exp_diff(m_old, m) * l_old;
      const float l_kept = l;  // of the tiles before
      for (int j = 0; j < kFlash1Keys; ++j) {
        s[j] = exp_diff(s[j], m);
        l += s[j];
      }
      // O is always normalised: undo the last division, do the next one
      for (float& x : o) x *= l == 0 ? 0 : l_kept / l;
      for (int j = 0; j < kFlash1Keys && j < seen; ++j) {
        const float p =
            s[j] / l * a.dropout.of_weight(h.index, query, key0 + j);
#pragma unroll
        for (int e = 0; e < d; ++e) o[e] += p * v_smem[j][e];
      }
      store_row(h.o + query * a.o_strides.row, o, a.head_dim);
      running[2 * query] = m;
      running[2 * query + 1] = l;
      h.lse[query] = log_sum(m, l);
    }
    __syncthreads();  // nobody needs the tiles any more
  }
}
//! [flash_1]

}  // namespace fa::FA_TARGET
