/// @file
/// FlashAttention-2: the loops are exchanged. A block owns a tile of queries and iterates over
/// tiles of K and V. O, m and l stay in registers, O is divided by l once at the end, and global
/// memory holds only inputs and results. There is a block for each tile of queries, not only for
/// each head.
///
/// Source: Dao, FlashAttention-2, ICLR 2024, algorithm 1.
#pragma once

#include "05_flash_forward/kernels/float_rows.cuh"

namespace fa::FA_TARGET {

/// Queries of a tile, one for each thread.
constexpr int kFlash2Queries = 64;
/// Keys of a tile.
constexpr int kFlash2Keys = 32;

/// Attention in float32. A block processes a tile of queries, a thread one of them.
//! [flash_2]
//! [block]
template <int d>
__global__ void flash_2(Attention<float> a) {
  __shared__ __align__(16) float k_smem[kFlash2Keys][d];
  __shared__ __align__(16) float v_smem[kFlash2Keys][d];
  const auto h = head_of(a, blockIdx.z, blockIdx.y);
  const int query0 = blockIdx.x * kFlash2Queries;
  const int query = query0 + threadIdx.x;
  const bool exists = query < a.length_q;  // the other threads only copy
  const int visible = exists ? visible_keys(a, query) : 0;
  const int visible_to_last = visible_keys(a, query0 + kFlash2Queries - 1);
  float q[d] = {}, o[d] = {}, m = -INFINITY, l = 0;
  if (exists) load_row(q, h.q + query * a.q_strides.row, a.head_dim);
  for (int key0 = 0; key0 < visible_to_last; key0 += kFlash2Keys) {
    load_rows(k_smem, h.k, a.k_strides.row, key0, a.length_k, a.head_dim,
              threadIdx.x, kFlash2Queries);
    load_rows(v_smem, h.v, a.v_strides.row, key0, a.length_k, a.head_dim,
              threadIdx.x, kFlash2Queries);
    __syncthreads();  // the tiles have arrived
    //! [block]
    //! [scores]
    // S = scale Q K^T
    float s[kFlash2Keys], m_new = m;
    for (int j = 0; j < kFlash2Keys; ++j) {
      s[j] = key0 + j < visible ? a.scale * dot(q, k_smem[j]) : -INFINITY;
      m_new = fmaxf(m_new, s[j]);
    }
    //! [scores]
    //! [rescale]
    const float rescale = exp_diff(m, m_new);
    m = m_new;
    l *= rescale;
#pragma unroll
    for (int e = 0; e < d; ++e) o[e] *= rescale;
    //! [rescale]
    //! [accumulate]
    // P = exp(S - m), O += P V
    for (int j = 0; j < kFlash2Keys; ++j) {
      const float p = exp_diff(s[j], m);
      l += p;  // before dropout
      if (p == 0) continue;
      const float kept = p * a.dropout.of_weight(h.index, query, key0 + j);
#pragma unroll
      for (int e = 0; e < d; ++e) o[e] += kept * v_smem[j][e];
    }
    __syncthreads();  // all warps are done with the tiles
  }
  //! [accumulate]
  if (!exists) return;
#pragma unroll
  for (int e = 0; e < d; ++e) o[e] = l == 0 ? 0 : o[e] / l;
  store_row(h.o + query * a.o_strides.row, o, a.head_dim);
  h.lse[query] = log_sum(m, l);
}
//! [flash_2]

/// Launches the kernel with a block for each tile of queries.
/// @param a with a head_dim of at most 128
inline void launch_flash_2(const Attention<float>& a, const Stream& stream) {
  with_head_dim<32, 64, 128>(a.head_dim, [&](auto d) {
    launch(stream, flash_2<decltype(d)::value>,
           {grid_of(a, kFlash2Queries), {kFlash2Queries}}, a);
  });
}

FA_STEP_ROW(forward, 3) {
  return row("03_flash_2", "one block per tile of queries", float{})
      .slow()
      .head_dims(HeadDims<32, 64, 128>{})
      .tile(kFlash2Queries, kFlash2Keys, 0, 1)
      .reads("(2 N/64 + 1) N D",  // K and V for each tile of queries
             [](auto n, auto d) {
               return (2 * (n / kFlash2Queries) + 1) * n * d;
             })
      .writes("N D + N", [](auto n, auto d) { return n * d + n; })
      .launch([](auto& a, auto, auto& stream) { launch_flash_2(a, stream); });
}

}  // namespace fa::FA_TARGET
