/// @file
/// FlashAttention-1: one kernel, no scores in global memory. The outer loop iterates over tiles of
/// K and V, the inner one over the queries, whose O, m and l are read, rescaled and written back
/// for each tile of keys.
///
/// Source: Dao, Fu, Ermon, Rudra and Re, FlashAttention, NeurIPS 2022, algorithm 1.
#pragma once

#include "05_flash_forward/kernels/float_rows.cuh"

namespace fa::FA_TARGET {

/// Queries of a tile, one for each thread.
constexpr int kFlash1Queries = 64;
/// Keys of a tile.
constexpr int kFlash1Keys = 32;

/// Attention in float32. A block processes a head; the state of its queries is in global memory
/// between two tiles of keys.
/// @param running [batch, heads, length_q, 2]: m and l of each query
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
    __syncthreads();  // the tiles have arrived
    //! [query]
    for (int query = threadIdx.x; query < a.length_q;
         query += kFlash1Queries) {
      float q[d], o[d], s[kFlash1Keys];
      load_row(q, h.q + query * a.q_strides.row, a.head_dim);
      float m_old = -INFINITY, l_old = 0;
      for (float& x : o) x = 0;
      if (key0 > 0) {  // the state after the tile before
        m_old = running[2 * query];
        l_old = running[2 * query + 1];
        load_row(o, h.o + query * a.o_strides.row, a.head_dim);
      }
      const int visible = visible_keys(a, query) - key0;
      float m = m_old;
      // S = scale Q K^T
      for (int j = 0; j < kFlash1Keys; ++j) {
        s[j] = j < visible ? a.scale * dot(q, k_smem[j]) : -INFINITY;
        m = fmaxf(m, s[j]);
      }
      float l = exp_diff(m_old, m) * l_old;
      const float l_rescaled = l;  // of the tiles before
      // exp(S - m)
      for (int j = 0; j < kFlash1Keys; ++j) {
        s[j] = exp_diff(s[j], m);
        l += s[j];
      }
      // O is always normalised: undo the last division by l, do the next one
      for (float& x : o) x *= l == 0 ? 0 : l_rescaled / l;
      // O += P V
      for (int j = 0; j < kFlash1Keys && j < visible; ++j) {
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
    //! [query]
    __syncthreads();  // all warps are done with the tiles
  }
}

/// Elements of m and l: the workspace of launch_flash_1().
inline std::int64_t flash_1_workspace(const Attention<float>& a) {
  return std::int64_t{a.batch} * a.heads * a.length_q * 2;
}

/// Launches the kernel with a block for each head.
/// @param a         with a head_dim of at most 128
/// @param workspace flash_1_workspace() elements in global memory
inline void launch_flash_1(const Attention<float>& a, const Stream& stream,
                           float* workspace) {
  with_head_dim<32, 64, 128>(a.head_dim, [&](auto d) {
    launch(stream, flash_1<decltype(d)::value>,
           {{static_cast<unsigned>(a.heads), static_cast<unsigned>(a.batch)},
            {kFlash1Queries}},
           a, workspace);
  });
}

FA_STEP_ROW(forward, 2) {
  return row("02_flash_1", "outer loop over tiles of keys", float{})
      .slow()
      .head_dims(HeadDims<32, 64, 128>{})
      .tile(kFlash1Queries, kFlash1Keys, 1, 1)
      .memory_is("8 N", [](auto n, auto) { return 8 * n; })
      // K and V once; for each tile of keys Q, and O, m and l but for the
      // first tile.
      .reads("(2 N/32 + 1) N D + 2 (N/32 - 1) N",
             [](auto n, auto d) {
               const auto t = n / kFlash1Keys;
               return (2 * t + 1) * n * d + 2 * (t - 1) * n;
             })
      .writes(
          "N/32 (N D + 3 N)",
          [](auto n, auto d) { return n / kFlash1Keys * (n * d + 3 * n); })
      .floats([](const auto& a, auto) { return flash_1_workspace(a); })
      .launch([](auto& a, auto, auto& stream, float* sums) {
        launch_flash_1(a, stream, sums);
      });
}

}  // namespace fa::FA_TARGET
