/// @file
/// What steps 10 to 16 share: a warpgroup processes 64 queries, its S and O are accumulators of
/// wgmma, and tiles lie in shared memory as TMA writes them.
///
/// Source: Shah et al., FlashAttention-3, NeurIPS 2024.
#pragma once

#include "common/attention/hopper_tile.cuh"

namespace fa::FA_TARGET {

/// Attention with the TMA maps of its tensors.
template <class T, class Map = TensorMap>
struct TmaAttention {
  // Boxes of kQueries rows (q, o) and of a tile of keys (k, v).
  Map q;
  Map k;
  Map v;
  Map o;
  Attention<T> a;
};

/// Makes the maps for a kernel.
/// @tparam Tile    HopperTile of the kernel
/// @param  queries rows of a box of q and o
/// @throws as tensor_map()
template <class Tile, class T>
TmaAttention<T> tma_attention(const Attention<T>& a, int queries = kQueries) {
  const int d = a.head_dim, columns_v = a.head_dim_v;
  return {map_of_queries(a, a.q, a.q_strides, d, queries),
          map_of_keys(a, a.k, a.k_strides, d, Tile::block_n),
          map_of_keys(a, a.v, a.v_strides, columns_v, Tile::block_n),
          map_of_queries<T>(a, a.o, a.o_strides, columns_v, queries), a};
}

/// Tile sizes of a kernel.
/// @tparam head_dim    columns, at least those of the inputs: 64, 96, 128, 192 or 256
/// @tparam warpgroups  consumers: they compute, kQueries queries each
/// @tparam stage_count tiles of K, and of V, in shared memory
/// @tparam head_dim_v  columns of V and O: up to head_dim, a multiple of 64 if fewer
template <class Type, int head_dim, int keys, int warpgroups, int stage_count,
          int head_dim_v = head_dim>
struct HopperTile {
  using T = Type;  // half or bfloat16
  static constexpr int d = head_dim;
  static constexpr int columns_v = head_dim_v;
  static constexpr int block_n = keys;
  static constexpr int consumers = warpgroups;
  static constexpr int block_m = kQueries * warpgroups;
  static constexpr int stages = stage_count;
  using QTile = SwizzledTile<T, kQueries, d>;  // of a warpgroup
  using KTile = SwizzledTile<T, block_n, d>;
  using VTile = SwizzledTile<T, block_n, columns_v>;

  /// The first query of a warpgroup of a block.
  __device__ static int first_query(const Attention<T>&, int block,
                                    int warpgroup) {
    return block * block_m + warpgroup * kQueries;
  }
};

/// The tile of steps 10 to 14: 128 queries and keys, up to 128 columns. Step 09 has its own, of the
/// same size.
template <class T>
using HopperTile128 = HopperTile<T, 128, 128, 2, 2>;

/// Tiles of keys that a tile of queries needs; 0 where all keys are masked.
template <class Tile, class T>
__device__ int key_tiles(const Attention<T>& a, int block) {
  const int last_query = block * Tile::block_m + Tile::block_m - 1;
  return ceil_div(visible_keys(a, last_query), Tile::block_n);
}

/// Registers of a thread of the producer and of a consumer; a block has 64 Ki.
template <class Tile>
constexpr int kProducerRegisters = Tile::consumers == 3 ? 32 : 40;
/// See kProducerRegisters.
template <class Tile>
constexpr int kConsumerRegisters = Tile::consumers == 3 ? 160 : 232;

/// Shared memory of a block in steps 10 to 12.
template <class Tile>
struct SpecializedShared {
  typename Tile::QTile q[Tile::consumers];  // of each warpgroup; at the end O
  typename Tile::KTile k[Tile::stages];
  typename Tile::VTile v[Tile::stages];
  Mbarrier q_full[Tile::consumers];
  Pipeline<Tile::stages> k_pipe;
  Pipeline<Tile::stages> v_pipe;
};

/// Initialises a block's barriers; all threads call it.
template <class Tile>
__device__ void init_barriers(SpecializedShared<Tile>& shared) {
  if (threadIdx.x == 0) {
    for (Mbarrier& full : shared.q_full) full.init(1);
    // Each warp of the consumers releases: it has waited for its own wgmma.
    shared.k_pipe.init(4 * Tile::consumers);
    shared.v_pipe.init(4 * Tile::consumers);
    fence_barrier_init();
  }
  __syncthreads();  // the barriers are initialised
}

/// A consumer's states of the pipelines of K and V.
template <class Tile>
struct KvState {
  PipelineState<Tile::stages> k;
  PipelineState<Tile::stages> v;
};

/// This lane's part of S, 64 x block_n, of a warpgroup.
template <class Tile>
using WarpgroupScores = float[Tile::block_n / 2];
/// This lane's part of O, 64 x columns_v, before the division by l.
template <class Tile>
using WarpgroupOutput = float[Tile::columns_v / 2];
/// P rounded to 16 bits, as left operands of 16 keys each.
template <class Tile>
using WarpgroupProbs = std::uint32_t[Tile::block_n / 16][4];

/// The state of the online softmax for this lane's two rows.
struct RowState {
  float m[2];  ///< running maximum of Q K^T
  float l[2];  ///< this lane's part of the running sum
};
/// The state before the first key.
__device__ inline RowState empty_row_state() {
  return {{-INFINITY, -INFINITY}, {0, 0}};
}

/// Issues S = Q K^T for the first 2 r keys of a tile.
template <class Q, class K, int r>
__device__ void issue_qk(float (&s)[r], const Q& q, const K& k) {
  issue_gemm_nt(s, q, k);
}

/// Issues O += P V for the first keys of a tile, 16 of them in each part of P.
template <class V, int r, int parts>
__device__ void issue_pv(float (&o)[r], std::uint32_t (&p)[parts][4],
                         const V& v) {
  issue_gemm_rs(o, p, v);
}

/// The largest of this lane's scores in its row h.
template <int r>
__device__ float lane_max(float (&s)[r], int h) {
  float chain[4];  // four independent chains of fmaxf(), not one
#pragma unroll
  for (int i = 0; i < 4; ++i) chain[i] = row_element(s, h, i);
#pragma unroll
  for (int i = 4; i < r / 2; ++i) {
    chain[i % 4] = fmaxf(chain[i % 4], row_element(s, h, i));
  }
  return fmaxf(fmaxf(chain[0], chain[1]), fmaxf(chain[2], chain[3]));
}

/// What is subtracted in the exponent: exponent_scale m. It is 0 where m is -infinity, as all keys
/// are masked: -infinity - -infinity would be NaN.
template <bool masked>
__device__ float exponent_offset(float m, float exponent_scale) {
  return masked && m == -INFINITY ? 0.0f : __fmul_rn(m, exponent_scale);
}

/// Takes larger scores into m and l of both rows. The four lanes of a row call it together.
/// @param largest        of this lane's scores, by row
/// @param rescale        on return the factors of what was summed before, by row
template <bool masked>
__device__ void raise_max(RowState& rows, const float (&largest)[2],
                          float (&rescale)[2], float exponent_scale) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float m = warp_max<4>(fmaxf(rows.m[h], largest[h]));
    // __fmul_rn() forbids an FMA: both products round alike, so the factor is
    // exactly 1 where m stays.
    rescale[h] = exp2_approx(__fmul_rn(rows.m[h], exponent_scale) -
                             exponent_offset<masked>(m, exponent_scale));
    rows.m[h] = m;
    rows.l[h] *= rescale[h];
  }
}

/// P = exp2(exponent_scale (S - m)), l += the sums of P.
/// @param exponent P is stored times 2^exponent
template <bool masked, int r>
__device__ void exp_scores(float (&s)[r], RowState& rows,
                           float exponent_scale, float exponent = 0) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float offset =
        exponent_offset<masked>(rows.m[h], exponent_scale) - exponent;
    float sums[2] = {rows.l[h], 0};
#pragma unroll
    for (int i = 0; i < r / 2; ++i) {
      float& x = row_element(s, h, i);
      x = exp2_approx(x * exponent_scale - offset);
      sums[i % 2] += x;
    }
    rows.l[h] = sums[0] + sums[1];
  }
}

/// One step of the online softmax: S becomes P. The lanes of a row exchange their maxima only when
/// a lane of the warp has found a larger score, which is rare after a few hundred keys.
/// @tparam masked  whether scores may be -infinity
/// @param  s       Q K^T; P on return
/// @param  rescale on return the factors of rescale_o(), if the result is true
/// @return whether O must be rescaled
//! [softmax]
template <bool masked, int r>
__device__ bool online_softmax(float (&s)[r], RowState& rows,
                               float (&rescale)[2], float exponent_scale) {
  float largest[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) largest[h] = lane_max(s, h);
  const auto grows = [&](int h) {  // false for NaN: both are -infinity
    return (largest[h] - rows.m[h]) * exponent_scale > 0;
  };
  const bool rescaled = __any_sync(kAllLanes, grows(0) || grows(1));
  if (rescaled) raise_max<masked>(rows, largest, rescale, exponent_scale);
  exp_scores<masked>(s, rows, exponent_scale);
  return rescaled;
}
//! [softmax]

/// O *= rescale, by rows.
template <int r>
__device__ void rescale_o(float (&o)[r], const float (&rescale)[2]) {
#pragma unroll
  for (int i = 0; i < r; ++i) o[i] *= rescale[element_row(i)];
}

/// Writes LSE of a warpgroup's rows.
/// @param factor  on return 1 / l of this lane's rows, 0 for l = 0
template <class T>
__device__ void write_lse(float (&factor)[2], const Attention<T>& a,
                          const RowState& rows, int query0, int head,
                          int batch) {
  float* const lse =
      a.lse + (std::int64_t{batch} * a.heads + head) * a.length_q;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float l = warp_sum<4>(rows.l[h]);
    factor[h] = l == 0 ? 0 : inverse_approx(l);
    const int query = query0 + lane_row(h);
    if (lane_column() == 0 && query < a.length_q) {
      lse[query] = l == 0 ? -INFINITY : rows.m[h] * a.scale + log_approx(l);
    }
  }
}

/// The epilogue, O /= l: rounds and writes O and LSE of a warpgroup, whose threads call it
/// together.
/// @param o_smem a stage for O: the warpgroup's tile of Q, whose matmuls this thread has waited for
/// @param maps   TmaAttention, or maps of one sequence
/// @return true in one thread, which calls bulk_wait_read<0>() before o_smem is used again or the
///         block ends
template <class Tile, class Maps>
__device__ bool write_output(const Maps& maps, const WarpgroupOutput<Tile>& o,
                             const RowState& rows,
                             typename Tile::QTile& o_smem, int query0,
                             int head, int batch) {
  using T = typename Tile::T;
  float factor[2];
  write_lse(factor, maps.a, rows, query0, head, batch);
  const int lane = threadIdx.x % kWarp;
  const int row = threadIdx.x / kWarp % 4 * 16 + lane % 16;
  // Until here wgmma of other warps may still read these rows of Q.
  named_barrier_wait(1 + threadIdx.x / kWarpgroup, kWarpgroup);
#pragma unroll
  for (int col = 0; col < Tile::columns_v; col += 16) {
    std::uint32_t o_frag[4];  // 16 columns of this warp's 16 rows
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int h = i % 2, first = col / 4 + i / 2 * 2;
      o_frag[i] = pack2<T>(factor[h] * row_element(o, h, first),
                           factor[h] * row_element(o, h, first + 1));
    }
    stmatrix_x4(o_smem.at(row, col + lane / 16 * 8), o_frag);
  }
  fence_async_proxy();  // TMA sees what this thread wrote
  named_barrier_wait(1 + threadIdx.x / kWarpgroup, kWarpgroup);
  if (threadIdx.x % kWarpgroup != 0) return false;
  store_tile(maps.o, o_smem, query0, head, batch);  // the columns of O only
  bulk_commit();
  return true;
}

}  // namespace fa::FA_TARGET
