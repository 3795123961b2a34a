/// @file
/// Both matmuls on tensor cores. A warp owns whole rows, so that their maxima and sums need no
/// other warp. The accumulators of Q K^T have the layout of the left operand of P V: P never leaves
/// the registers.
#pragma once

#include "common/attention/attention.cuh"
#include "common/gpu/fragment.cuh"

namespace fa::FA_TARGET {

/// A block of 4 warps with 32 queries each, over tiles of 64 keys, and what a warp does with its
/// accumulators. Accumulator [i][j] is the 16 x 8 fragment at row 16 i, column 8 j of the warp; its
/// element 2 h + e stands at row fragment_row(lane, 2 h), column fragment_column(lane, e).
template <int columns, class T>
struct TensorCoresBlock {
  static constexpr int d = columns, block_m = 128, block_n = 64;
  static constexpr int threads = 128, warp_rows = 32, row_tiles = 2;
  // Elements of a tile of Q and of one of K or V in shared memory.
  static constexpr int q_size = block_m * d, kv_size = block_n * d;
  static constexpr std::size_t shared_bytes =
      sizeof(T) * (q_size + 2 * kv_size);
  using Scores = float[row_tiles][block_n / 8][4];
  using Output = float[row_tiles][d / 8][4];
  /// The online softmax of this lane's rows [i][h]: running maximum, and this lane's part of the
  /// running sum.
  struct RowState {
    float m[row_tiles][2];
    float l[row_tiles][2];
  };

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

  /// S *= scale, and -infinity where a query does not see a key: those beyond length_k, which are
  /// zeros, are among them.
  static __device__ void scale_and_mask(Scores& s, const Attention<T>& a,
                                        int query0, int key0, int lane) {
#pragma unroll
    for (int i = 0; i < row_tiles; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int query = query0 + 16 * i + fragment_row(lane, 2 * h);
        const int visible = visible_keys(a, query) - key0;
#pragma unroll
        for (int j = 0; j < block_n / 8; ++j) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            float& x = s[i][j][2 * h + e];
            x *= a.scale;
            if (8 * j + fragment_column(lane, e) >= visible) x = -INFINITY;
          }
        }
      }
    }
  }

  /// One step of the online softmax: S becomes P = exp(S - m), l and O are rescaled.
  //! [softmax_step]
  static __device__ void softmax_step(Scores& s, Output& o, RowState& state) {
#pragma unroll
    for (int i = 0; i < row_tiles; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float m = state.m[i][h];
#pragma unroll
        for (int j = 0; j < block_n / 8; ++j) {
          m = fmaxf(m, fmaxf(s[i][j][2 * h], s[i][j][2 * h + 1]));
        }
        m = warp_max<4>(m);  // four lanes share a row
        const float rescale = exp_diff(state.m[i][h], m);
        state.m[i][h] = m;
        state.l[i][h] *= rescale;
#pragma unroll
        for (int j = 0; j < d / 8; ++j) {
          o[i][j][2 * h] *= rescale;
          o[i][j][2 * h + 1] *= rescale;
        }
#pragma unroll
        for (int j = 0; j < block_n / 8; ++j) {
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

  /// Drops probabilities; l has the sum of all of them.
  static __device__ void apply_dropout(Scores& p, const Attention<T>& a,
                                       int head, int query0, int key0,
                                       int lane) {
    if (a.dropout.threshold == 0) return;
#pragma unroll
    for (int i = 0; i < row_tiles; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int query = query0 + 16 * i + fragment_row(lane, 2 * h);
#pragma unroll
        for (int j = 0; j < block_n / 8; ++j) {
          // Two lanes share four keys: the even lane has the first two.
          const int key = key0 + 8 * j + fragment_column(lane, 0);
          const Words4 words = a.dropout.words(head, query, key / 4);
          const bool low = lane % 2 == 0;
          const std::uint32_t word[2] = {low ? words.x : words.z,
                                         low ? words.y : words.w};
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            p[i][j][2 * h + e] *=
                word[e] < a.dropout.threshold ? 0.0f : a.dropout.factor;
          }
        }
      }
    }
  }

  /// The left operand of P V for 16 keys: accumulators of Q K^T, rounded to T.
  //! [operand]
  static __device__ void probs_as_operand(std::uint32_t (&fragment)[4],
                                          const float (&p)[block_n / 8][4],
                                          int key) {
    const float(&low)[4] = p[key / 8], (&high)[4] = p[key / 8 + 1];
    fragment[0] = pack2<T>(low[0], low[1]);
    fragment[1] = pack2<T>(low[2], low[3]);
    fragment[2] = pack2<T>(high[0], high[1]);
    fragment[3] = pack2<T>(high[2], high[3]);
  }
  //! [operand]

  /// O /= l: writes a warp's rows of O and LSE.
  static __device__ void store_rows(const Attention<T>& a,
                                    const AttentionHead<T>& head,
                                    const Output& o, const RowState& state,
                                    int query0, int lane) {
#pragma unroll
    for (int i = 0; i < row_tiles; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float l = warp_sum<4>(state.l[i][h]);
        const int query = query0 + 16 * i + fragment_row(lane, 2 * h);
        if (query >= a.length_q) continue;
        const float factor = l == 0 ? 0 : 1 / l;
        T* row = head.o + query * a.o_strides.row;
#pragma unroll
        for (int j = 0; j < d / 8; ++j) {
          if (8 * j < a.head_dim) {
            store_pair(row + 8 * j + fragment_column(lane, 0),
                       pack2<T>(factor * o[i][j][2 * h],
                                factor * o[i][j][2 * h + 1]));
          }
        }
        if (lane % 4 == 0) head.lse[query] = log_sum(state.m[i][h], l);
      }
    }
  }
};

/// Attention in 16 bits. A warp processes 32 queries.
template <int d, class T>
__global__ void __launch_bounds__(128) flash_tensor_cores(Attention<T> a) {
  using Block = TensorCoresBlock<d, T>;
  T* const q_smem = dynamic_shared<T>();
  T* const k_smem = q_smem + Block::q_size;
  T* const v_smem = k_smem + Block::kv_size;
  const int thread = threadIdx.x, lane = thread % kWarp;
  const int g = lane / 4, t = lane % 4;  // a fragment's row, pair of columns
  const int warp_row = thread / kWarp * Block::warp_rows;
  const int query0 = blockIdx.x * Block::block_m;  // of the block
  const auto head = head_of(a, blockIdx.z, blockIdx.y);
  Block::template load_tile<Block::block_m>(q_smem, head.q, a.q_strides.row,
                                            query0, a.length_q, a.head_dim);
  typename Block::Output o = {};
  typename Block::RowState state = {};  // l = 0; m follows
#pragma unroll
  for (int i = 0; i < Block::row_tiles; ++i) {
    state.m[i][0] = state.m[i][1] = -INFINITY;
  }
  const int visible = visible_keys(a, query0 + Block::block_m - 1);
  for (int key0 = 0; key0 < visible; key0 += Block::block_n) {
    Block::template load_tile<Block::block_n>(k_smem, head.k, a.k_strides.row,
                                              key0, a.length_k, a.head_dim);
    Block::template load_tile<Block::block_n>(v_smem, head.v, a.v_strides.row,
                                              key0, a.length_k, a.head_dim);
    __syncthreads();  // the tiles have arrived; Q too, the first time
    //! [mainloop]
    typename Block::Scores s = {};
    // S = Q K^T
#pragma unroll
    for (int kk = 0; kk < d; kk += 16) {
      std::uint32_t q_frag[Block::row_tiles][4];
#pragma unroll
      for (int i = 0; i < Block::row_tiles; ++i) {
        const T* row = q_smem + (warp_row + 16 * i + g) * d + kk + 2 * t;
        q_frag[i][0] = load_pair(row);
        q_frag[i][1] = load_pair(row + 8 * d);
        q_frag[i][2] = load_pair(row + 8);
        q_frag[i][3] = load_pair(row + 8 * d + 8);
      }
#pragma unroll
      for (int j = 0; j < Block::block_n / 8; ++j) {
        const T* row = k_smem + (8 * j + g) * d + kk + 2 * t;
        const std::uint32_t k_frag[2] = {load_pair(row), load_pair(row + 8)};
#pragma unroll
        for (int i = 0; i < Block::row_tiles; ++i) {
          mma_m16n8k16<T>(s[i][j], q_frag[i], k_frag);
        }
      }
    }
    // S *= scale, masked
    Block::scale_and_mask(s, a, query0 + warp_row, key0, lane);
    // P = exp(S - m)
    Block::softmax_step(s, o, state);
    Block::apply_dropout(s, a, head.index, query0 + warp_row, key0, lane);
    // O += P V
#pragma unroll
    for (int key = 0; key < Block::block_n; key += 16) {
      std::uint32_t p_frag[Block::row_tiles][4];
#pragma unroll
      for (int i = 0; i < Block::row_tiles; ++i) {
        Block::probs_as_operand(p_frag[i], s[i], key);
      }
#pragma unroll
      for (int j = 0; j < d / 8; ++j) {
        const T* col = v_smem + (key + 2 * t) * d + 8 * j + g;
        const std::uint32_t v_frag[2] = {pack2(col[0], col[d]),
                                         pack2(col[8 * d], col[9 * d])};
#pragma unroll
        for (int i = 0; i < Block::row_tiles; ++i) {
          mma_m16n8k16<T>(o[i][j], p_frag[i], v_frag);
        }
      }
    }
    //! [mainloop]
    __syncthreads();  // all warps are done with the tiles
  }
  Block::store_rows(a, head, o, state, query0 + warp_row, lane);
}

/// Launches the kernel with a block for each tile of queries.
/// @param a with a head_dim of at most 128
template <class T>
void launch_tensor_cores(const Attention<T>& a, const Stream& stream) {
  with_head_dim<64, 128>(a.head_dim, [&](auto head_dim) {
    constexpr int d = decltype(head_dim)::value;
    using Block = TensorCoresBlock<d, T>;
    launch(stream, flash_tensor_cores<d, T>,
           {grid_of(a, Block::block_m), Block::threads, Block::shared_bytes},
           a);
  });
}

FA_LAUNCH_16_BIT(forward_steps, Attention, (const Stream&),
                 launch_tensor_cores);

FA_STEP_ROW(forward, 5) {
  return row("05_tensor_cores", "P stays in registers", half{}, bfloat16{})
      .needs(kNeedsMma)
      .head_dims(HeadDims<64, 128>{})
      .over_keys(TensorCoresBlock<64, half>{}, 1)
      .shared_bytes(
          [](auto d) { return TensorCoresBlock<d, half>::shared_bytes; })
      .launch([](auto& a, auto, auto& stream) {
        launch_tensor_cores(a, stream);
      });
}

}  // namespace fa::FA_TARGET
