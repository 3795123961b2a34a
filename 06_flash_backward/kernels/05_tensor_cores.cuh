/// @file
/// Five matmuls on tensor cores. A block owns a tile of keys, a warp 16 of them. Scores are
/// computed transposed, S^T = K Q^T, so that the accumulators of P^T and dS^T already are the left
/// operands of dV += P^T dO and dK += dS^T Q. Only dS, which dQ = dS K needs from all warps, goes
/// through shared memory.
///
/// Source: Dao et al., FlashAttention, NeurIPS 2022, algorithm 4, and Dao, FlashAttention-2, ICLR
/// 2024, algorithm 2.
#pragma once

#include "06_flash_backward/kernels/gradient.cuh"
#include "common/gpu/fragment.cuh"

namespace fa::FA_TARGET {

/// A block of 8 warps with 16 keys each, over tiles of 64 queries. Of 16 x 8 accumulators this lane
/// has rows g and g + 8 and columns 2 t and 2 t + 1, g = lane / 4 and t = lane % 4: element 2 h + e
/// is in fragment_row(lane, 2 h) and fragment_column(lane, e).
template <int columns, class T>
struct GradientBlock {
  static constexpr int d = columns, block_m = 64, block_n = 128;
  static constexpr int threads = 256, warp_keys = 16;
  // Elements of Q or dO, of K or V, and of dS in shared memory.
  static constexpr int q_size = block_m * d, kv_size = block_n * d;
  static constexpr int ds_size = block_n * block_m;
  static constexpr std::size_t shared_bytes =
      sizeof(T) * (2 * kv_size + 2 * q_size + ds_size);
  // dQ, block_m x d, is divided among the warps: two rows of four parts.
  static constexpr int d_q_rows = 32, d_q_columns = d / 4;
  using Scores = float[block_m / 8][4];  // S^T or dP^T of a warp
  using PackedScores = std::uint32_t[block_m / 8][2];  // rounded to T
  using KeySums = float[d / 8][4];                     // dK or dV of a warp
  using QuerySums = float[2][d_q_columns / 8][4];      // a part of dQ

  /// Copies rows of a matrix from row0 on to a tile, 16 bytes at a time, with zeros outside.
  template <int rows>
  static __device__ void load_tile(T* tile, const T* matrix,
                                   std::int64_t stride, int row0, int length,
                                   int head_dim) {
    constexpr int per_row = d / 8, at_once = threads / per_row;
    const int row = threadIdx.x / per_row, col = threadIdx.x % per_row * 8;
    const T* from = matrix + (row0 + row) * stride + col;
#pragma unroll
    for (int i = 0; i < rows; i += at_once) {
      const T* const piece = from + i * stride;
      const bool inside = row0 + row + i < length && col < head_dim;
      store4(tile + (row + i) * d + col,
             inside ? load4(piece) : make_float4(0, 0, 0, 0));
    }
  }

  /// S^T += K Q^T for a warp's keys, or dP^T += V dO^T.
  /// @param k_rows the warp's first row of K, or of V
  /// @param q_smem Q's tile, or dO's
  static __device__ void multiply_rows(Scores& s, const T* k_rows,
                                       const T* q_smem, int lane) {
    const int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int kk = 0; kk < d; kk += 16) {
      const T* row = k_rows + g * d + kk + 2 * t;
      const std::uint32_t k_frag[4] = {load_pair(row), load_pair(row + 8 * d),
                                       load_pair(row + 8),
                                       load_pair(row + 8 * d + 8)};
#pragma unroll
      for (int j = 0; j < block_m / 8; ++j) {
        const T* q = q_smem + (8 * j + g) * d + kk + 2 * t;
        const std::uint32_t q_frag[2] = {load_pair(q), load_pair(q + 8)};
        mma_m16n8k16<T>(s[j], k_frag, q_frag);
      }
    }
  }

  /// dV += P^T dO for a warp's keys, or dK += dS^T Q: the left operand is in registers, the right
  /// one, dO's tile or Q's, is read along its columns.
  static __device__ void multiply_columns(KeySums& sums,
                                          const PackedScores& p,
                                          const T* d_o_smem, int lane) {
    const int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int kk = 0; kk < block_m; kk += 16) {
      const std::uint32_t p_frag[4] = {p[kk / 8][0], p[kk / 8][1],
                                       p[kk / 8 + 1][0], p[kk / 8 + 1][1]};
#pragma unroll
      for (int j = 0; j < d / 8; ++j) {
        const T* column = d_o_smem + (kk + 2 * t) * d + 8 * j + g;
        const std::uint32_t low = pack2(column[0], column[d]);
        const std::uint32_t high = pack2(column[8 * d], column[9 * d]);
        const std::uint32_t d_o_frag[2] = {low, high};
        mma_m16n8k16<T>(sums[j], p_frag, d_o_frag);
      }
    }
  }

  /// dQ += dS K for a warp's part of dQ, from dS^T, a row for each key.
  static __device__ void multiply_transposed(QuerySums& d_q, const T* ds_smem,
                                             const T* k_smem, int warp,
                                             int lane) {
    constexpr int ld = block_m;
    const int g = lane / 4, t = lane % 4;
    const int row0 = warp % 2 * d_q_rows, col0 = warp / 2 * d_q_columns;
#pragma unroll
    for (int kk = 0; kk < block_n; kk += 16) {
      std::uint32_t ds_frag[2][4];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const T* at = ds_smem + (kk + 2 * t) * ld + row0 + 16 * i + g;
        ds_frag[i][0] = pack2(at[0], at[ld]);
        ds_frag[i][1] = pack2(at[8], at[ld + 8]);
        ds_frag[i][2] = pack2(at[8 * ld], at[9 * ld]);
        ds_frag[i][3] = pack2(at[8 * ld + 8], at[9 * ld + 8]);
      }
#pragma unroll
      for (int j = 0; j < d_q_columns / 8; ++j) {
        const T* column = k_smem + (kk + 2 * t) * d + col0 + 8 * j + g;
        const std::uint32_t k_frag[2] = {pack2(column[0], column[d]),
                                         pack2(column[8 * d], column[9 * d])};
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          mma_m16n8k16<T>(d_q[i][j], ds_frag[i], k_frag);
        }
      }
    }
  }

  /// Masks the keys that a query does not see, in S^T.
  static __device__ void apply_mask(Scores& s, const AttentionGradient<T>& a,
                                    int query0, int key0, int lane) {
#pragma unroll
    for (int j = 0; j < block_m / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int query = query0 + 8 * j + fragment_column(lane, e);
        const int visible =
            visible_keys(a, query) - key0 - fragment_row(lane, 0);
        if (0 >= visible) s[j][e] = -INFINITY;
        if (8 >= visible) s[j][2 + e] = -INFINITY;
      }
    }
  }

  /// P^T = exp2(scale S^T - LSE) and dS^T = P^T * (dP^T - delta), elementwise for queries 8 j to
  /// 8 j + 7. With dropout dP^T is that of the kept probabilities, and P^T is left as the forward
  /// pass multiplied it by V.
  /// @param s   S^T; P^T on return
  /// @param d_p dP^T; dS^T on return
  //! [score_gradients]
  static __device__ void score_gradients(Scores& s, Scores& d_p, int j,
                                         const AttentionGradient<T>& a,
                                         const GradientHead<T>& head,
                                         int query0, int key0, int lane) {
    const int column = 8 * j + fragment_column(lane, 0);
    const std::int64_t row = head.padded_row + query0 + column;
    float lse[2], delta[2];
    load2(lse, a.lse_base_2 + row);
    load2(delta, a.delta + row);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float p = exp2_approx(s[j][e] * (a.scale * kLog2E) - lse[e % 2]);
      const float kept = a.dropout.of_weight(
          head.index, query0 + column + e % 2, key0 + fragment_row(lane, e));
      d_p[j][e] = p * (d_p[j][e] * kept - delta[e % 2]);
      s[j][e] = p * kept;
    }
  }
  //! [score_gradients]

  /// Adds a warp's part of dQ to the accumulator in global memory, in the order of the registers:
  /// the four elements of a lane are neighbours there, and so are the lanes.
  //! [add_d_q]
  static __device__ void atomic_add_d_q(float* accum, const QuerySums& d_q,
                                        int warp, int lane) {
    constexpr int fragments = d_q_columns / 8;
    float* to = accum + (warp * 2 * fragments * kWarp + lane) * 4;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int j = 0; j < fragments; ++j) {
        atomic_add4(to + (i * fragments + j) * kWarp * 4,
                    make_float4(d_q[i][j][0], d_q[i][j][1], d_q[i][j][2],
                                d_q[i][j][3]));
      }
    }
  }
  //! [add_d_q]

  /// Writes a warp's rows of dK or dV, multiplied by a factor.
  static __device__ void store_key_sums(T* rows, std::int64_t stride,
                                        const AttentionGradient<T>& a,
                                        const KeySums& sums, float factor,
                                        int key0, int lane) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int key = key0 + fragment_row(lane, 2 * h);
      if (key >= a.length_k) continue;
#pragma unroll
      for (int j = 0; j < d / 8; ++j) {
        const int col = 8 * j + fragment_column(lane, 0);
        if (col < a.head_dim) {
          store_pair(
              rows + key * stride + col,
              pack2<T>(factor * sums[j][2 * h], factor * sums[j][2 * h + 1]));
        }
      }
    }
  }
};

/// Before: delta = rowsum(dO * O), LSE in base 2, and zeros for the accumulator of dQ. d / 8 lanes
/// share a row, eight columns each.
template <int d, class T>
__global__ void __launch_bounds__(256)
    tensor_cores_preprocess(AttentionGradient<T> a) {
  constexpr int lanes = d / 8;
  const int row = blockIdx.x * (256 / lanes) + threadIdx.x / lanes;
  const int col = threadIdx.x % lanes * 8;
  const auto head = gradient_head(a, blockIdx.z, blockIdx.y);
  float sum = 0;
  if (row < a.length_q && col < a.head_dim) {
    const float4 o4 = load4(head.o + row * a.o_strides.row + col);
    const float4 d_o4 = load4(head.d_o + row * a.d_o_strides.row + col);
    T o[8], d_o[8];
    memcpy(static_cast<void*>(o), &o4, 16);
    memcpy(static_cast<void*>(d_o), &d_o4, 16);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += to_float(o[i]) * to_float(d_o[i]);
  }
  sum = warp_sum<lanes>(sum);
  if (row >= padded_rows(a)) return;
  float* const accum = a.d_q_accum + (head.padded_row + row) * d + col;
  store4(accum, make_float4(0, 0, 0, 0));
  store4(accum + 4, make_float4(0, 0, 0, 0));
  if (col == 0) {
    const float lse = row < a.length_q ? head.lse[row] : -INFINITY;
    a.delta[head.padded_row + row] = sum;
    a.lse_base_2[head.padded_row + row] =
        lse == -INFINITY ? INFINITY : lse * kLog2E;
  }
}

/// dK and dV, and additions to d_q_accum. A block owns 128 keys and loops over the queries of all
/// heads of a group.
template <int d, class T>
__global__ void __launch_bounds__(256)
    flash_backward_tensor_cores(AttentionGradient<T> a) {
  using Block = GradientBlock<d, T>;
  T* const k_smem = dynamic_shared<T>();
  T* const v_smem = k_smem + Block::kv_size;
  T* const q_smem = v_smem + Block::kv_size;
  T* const d_o_smem = q_smem + Block::q_size;
  T* const ds_smem = d_o_smem + Block::q_size;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int warp_key = warp * Block::warp_keys;
  const int key0 = blockIdx.x * Block::block_n;
  const int kv_head = blockIdx.y, batch = blockIdx.z;
  const int group = group_size(a);
  const int first = first_query(a, key0) / Block::block_m * Block::block_m;
  Block::template load_tile<Block::block_n>(
      k_smem, kv_rows(a.k, a.k_strides, batch, kv_head), a.k_strides.row,
      key0, a.length_k, a.head_dim);
  Block::template load_tile<Block::block_n>(
      v_smem, kv_rows(a.v, a.v_strides, batch, kv_head), a.v_strides.row,
      key0, a.length_k, a.head_dim);
  typename Block::KeySums d_k = {}, d_v = {};
  for (int index = 0; index < group; ++index) {
    const auto head = gradient_head(a, batch, kv_head * group + index);
    for (int query0 = first; query0 < a.length_q; query0 += Block::block_m) {
      Block::template load_tile<Block::block_m>(
          q_smem, head.q, a.q_strides.row, query0, a.length_q, a.head_dim);
      Block::template load_tile<Block::block_m>(d_o_smem, head.d_o,
                                                a.d_o_strides.row, query0,
                                                a.length_q, a.head_dim);
      __syncthreads();  // the tiles are loaded
      //! [tile_step]
      typename Block::Scores p = {}, d_s = {};
      // S^T = K Q^T, dP^T = V dO^T
      Block::multiply_rows(p, k_smem + warp_key * d, q_smem, lane);
      Block::multiply_rows(d_s, v_smem + warp_key * d, d_o_smem, lane);
      Block::apply_mask(p, a, query0, key0 + warp_key, lane);
      typename Block::PackedScores p_packed, d_s_packed;
      // P = exp(scale S - LSE), dS = P * (dP - delta), elementwise
#pragma unroll
      for (int j = 0; j < Block::block_m / 8; ++j) {
        Block::score_gradients(p, d_s, j, a, head, query0, key0 + warp_key,
                               lane);
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          p_packed[j][h] = pack2<T>(p[j][2 * h], p[j][2 * h + 1]);
          d_s_packed[j][h] = pack2<T>(d_s[j][2 * h], d_s[j][2 * h + 1]);
          const int key = warp_key + fragment_row(lane, 2 * h);
          store_pair(ds_smem + key * Block::block_m + 8 * j +
                         fragment_column(lane, 0),
                     d_s_packed[j][h]);
        }
      }
      // dV += P^T dO, dK += dS^T Q
      Block::multiply_columns(d_v, p_packed, d_o_smem, lane);
      Block::multiply_columns(d_k, d_s_packed, q_smem, lane);
      // dQ = dS K
      __syncthreads();  // all warps have stored dS
      typename Block::QuerySums d_q = {};
      Block::multiply_transposed(d_q, ds_smem, k_smem, warp, lane);
      Block::atomic_add_d_q(a.d_q_accum + (head.padded_row + query0) * d, d_q,
                            warp, lane);
      __syncthreads();  // all warps have read the tiles
      //! [tile_step]
    }
  }
  Block::store_key_sums(kv_rows(a.d_k, a.d_k_strides, batch, kv_head),
                        a.d_k_strides.row, a, d_k, a.scale, key0 + warp_key,
                        lane);
  Block::store_key_sums(kv_rows(a.d_v, a.d_v_strides, batch, kv_head),
                        a.d_v_strides.row, a, d_v, 1.0f, key0 + warp_key,
                        lane);
}

/// After: dQ = scale d_q_accum, rounded. Eight neighbours of a row, and of the row eight below, were
/// those of four lanes; here one thread has them all.
template <int d, class T>
__global__ void tensor_cores_postprocess(AttentionGradient<T> a) {
  using Block = GradientBlock<d, T>;
  constexpr int fragments = Block::d_q_columns / 8;
  const int query0 = blockIdx.x * Block::block_m;
  const int fragment = threadIdx.x / 8;  // of 16 x 8 accumulators
  const int warp = fragment / (2 * fragments);
  const int row = query0 + warp % 2 * Block::d_q_rows +
                  fragment / fragments % 2 * 16 + threadIdx.x % 8;
  const int col = warp / 2 * Block::d_q_columns + fragment % fragments * 8;
  if (col >= a.head_dim) return;
  const auto head = gradient_head(a, blockIdx.z, blockIdx.y);
  const float* from = a.d_q_accum + (head.padded_row + query0) * d +
                      threadIdx.x * std::int64_t{16};
  std::uint32_t high[4], low[4];
#pragma unroll
  for (int lane = 0; lane < 4; ++lane) {
    const float4 sum = load4(from + 4 * lane);
    high[lane] = pack2<T>(a.scale * sum.x, a.scale * sum.y);
    low[lane] = pack2<T>(a.scale * sum.z, a.scale * sum.w);
  }
  T* to = head.d_q + row * a.d_q_strides.row + col;
  if (row < a.length_q) store4(to, as_float4(high));
  if (row + 8 < a.length_q) {
    store4(to + 8 * a.d_q_strides.row, as_float4(low));
  }
}

/// Launches the three kernels.
/// @param a with a Workspace{d}
template <int d, class T>
void launch_backward_tensor_cores(const AttentionGradient<T>& a,
                                  const Stream& stream) {
  using Block = GradientBlock<d, T>;
  constexpr int rows = 256 / (d / 8);  // of a block that preprocesses
  const Size all_rows{static_cast<unsigned>(ceil_div(padded_rows(a), rows)),
                      static_cast<unsigned>(a.heads),
                      static_cast<unsigned>(a.batch)};
  launch(stream, tensor_cores_preprocess<d, T>, {all_rows, {256}}, a);
  launch(
      stream, flash_backward_tensor_cores<d, T>,
      {grid_of_keys(a, Block::block_n), Block::threads, Block::shared_bytes},
      a);
  launch(stream, tensor_cores_postprocess<d, T>,
         {grid_of(a, Block::block_m), {Block::block_m * d / 16}}, a);
}

FA_LAUNCH_16_BIT(backward_steps, AttentionGradient, (const Stream&),
                 launch_backward_tensor_cores, (64), (128));

FA_STEP_ROW(backward, 5) {
  return row("05_tensor_cores", "P and dS stay in registers", half{},
             bfloat16{})
      .slow()
      .needs(kNeedsMma)
      .any_order()
      .head_dims(HeadDims<64, 128>{})
      .over_queries(GradientBlock<64, half>{}, 1)
      .shared_bytes(
          [](auto d) { return GradientBlock<d, half>::shared_bytes; })
      .memory_is("4 N D + 8 N",
                 [](auto n, auto d) { return 4 * n * d + 8 * n; })
      .workspace([](auto&, auto d) { return Workspace{d}; })
      .launch([](auto& a, auto d, auto& stream) {
        launch_backward_tensor_cores<d>(a, stream);
      });
}

}  // namespace fa::FA_TARGET
