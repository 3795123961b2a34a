/// @file
/// FlashAttention-2: the loops change places. A block owns a tile of queries; O, m and l stay in registers while the
/// keys go by, O is divided once at the end, and global memory sees nothing but the inputs and the results. Blocks
/// are as many as there are tiles of queries, not only heads.
///
/// Source: Dao, FlashAttention-2, ICLR 2024, algorithm 1.
#pragma once

#include "05_flash_forward/kernels/02_flash_1.cuh"

namespace fa::FA_TARGET {

/// Queries of a block: a thread for each.
constexpr int kFlash2Queries = 64;
/// Keys of a tile.
constexpr int kFlash2Keys = 32;

/// Attention in float32; a block has 64 queries, a thread one of them.
/// Launch: blocks of 64; grid of ceil(length_q / 64) x heads x batch.
/// @tparam d at least head_dim
//! [flash_2]
template <int d>
__global__ void flash_2(Attention<float> a) {
  __shared__ __align__(16) float k_smem[kFlash2Keys][d];
  __shared__ __align__(16) float v_smem[kFlash2Keys][d];
  const auto h = head_of(a, blockIdx.z, blockIdx.y);
  const int query0 = blockIdx.x * kFlash2Queries;
  const int query = query0 + threadIdx.x;
  const bool exists = query < a.length_q;  // the others help to copy
  const int seen = exists ? visible_keys(a, query) : 0;
  const int seen_by_last = visible_keys(a, query0 + kFlash2Queries - 1);
  float q[d] = {}, o[d] = {}, m = -INFINITY, l = 0;
  if (exists) load_row(q, h.q + query * a.q_strides.row, a.head_dim);
  for (int key0 = 0; key0 < seen_by_last; key0 += kFlash2Keys) {
    load_rows(k_smem, h.k, a.k_strides.row, key0, a.length_k, a.head_dim,
              threadIdx.x, kFlash2Queries);
    load_rows(v_smem, h.v, a.v_strides.row, key0, a.length_k, a.head_dim,
              threadIdx.x, kFlash2Queries);
    __syncthreads();  // the tiles are there
    float s[kFlash2Keys], m_new = m;
    for (int j = 0; j < kFlash2Keys; ++j) {
      s[j] = key0 + j < seen ? a.scale * dot(q, k_smem[j]) : -INFINITY;
      m_new = fmaxf(m_new, s[j]);
    }
    //! [correction]
    const float rescale = exp_diff(m, m_new);
    m = m_new;
    l *= rescale;
#pragma unroll
    for (int e = 0; e < d; ++e) o[e] *= rescale;
    //! [correction]
    for (int j = 0; j < kFlash2Keys; ++j) {
      const float p = exp_diff(s[j], m);
      l += p;  // of all weights, also of those that are dropped
      if (p == 0) continue;
      const float kept = p * a.dropout.of_weight(h.index, query, key0 + j);
#pragma unroll
      for (int e = 0; e < d; ++e) o[e] += kept * v_smem[j][e];
    }
    __syncthreads();  // nobody needs the tiles any more
  }
  //! [end_of_row]
  if (!exists) return;
#pragma unroll
  for (int e = 0; e < d; ++e) o[e] = l == 0 ? 0 : o[e] / l;
  store_row(h.o + query * a.o_strides.row, o, a.head_dim);
  h.lse[query] = log_sum(m, l);
  //! [end_of_row]
}
//! [flash_2]

}  // namespace fa::FA_TARGET
