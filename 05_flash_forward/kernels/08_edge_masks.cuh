/// @file
/// Masks at the edge only, and exponentials of base 2. Tiles that all queries of the block see need
/// no mask. The scale is folded into the exponent: exp(scale (x - m)) = 2^(c x - c m) with
/// c = scale / ln 2, which is one fused multiply-add and one exponential. Under the causal mask the
/// blocks with the most keys start first.
#pragma once

#include "common/attention/attention.cuh"
#include "common/gpu/fragment.cuh"

namespace fa::FA_TARGET {

/// A block of some warps, over tiles of keys, and what a warp does with its accumulators.
/// Accumulator [i][j] is the 16 x 8 fragment at row 16 i, column 8 j of the warp; its element
/// 2 h + e stands at row fragment_row(lane, 2 h), column fragment_column(lane, e).
/// @tparam rows 16 or 32 queries of a warp
template <class Type, int columns, int keys, int warps, int rows>
struct EdgeMasksBlock {
  using T = Type;
  static constexpr int d = columns, block_n = keys, warp_rows = rows;
  static constexpr int threads = 32 * warps, block_m = warps * warp_rows;
  static constexpr int row_tiles = warp_rows / 16;  // of a warp
  static constexpr int stages = 2;  // of K and of V: one in flight
  // Elements of a tile of Q and of one of K or V in shared memory.
  static constexpr int q_size = block_m * d, kv_size = block_n * d;
  static constexpr std::size_t shared_bytes =
      sizeof(T) * (q_size + 2 * stages * kv_size);
  using Scores = float[row_tiles][block_n / 8][4];
  using Output = float[row_tiles][d / 8][4];
  /// The online softmax of this lane's rows [i][h]: running maximum, and this lane's part of the
  /// running sum.
  struct RowState {
    float m[row_tiles][2];
    float l[row_tiles][2];
  };

  /// The XOR swizzle, which avoids bank conflicts: the 16-byte pieces of a row are permuted by the
  /// row's index. col is a multiple of 8.
  static __device__ int swizzled(int row, int col) {
    // Two rows of 64 bytes share the 32 banks: they get the same pattern.
    const int pattern = d == 32 ? row >> 1 & 3 : row & 7;
    return row * d + (col ^ pattern * 8);
  }

  /// Issues copies of rows of a matrix to a swizzled tile, with zeros outside of the matrix.
  /// @tparam ragged whether rows may lie beyond `length`
  template <int tile_rows, bool ragged = true>
  static __device__ void copy_rows_async(T* tile, const T* matrix,
                                         std::int64_t stride, int row0,
                                         int length, int head_dim) {
    constexpr int per_row = d / 8, at_once = threads / per_row;
    static_assert(threads % per_row == 0 && tile_rows % at_once == 0,
                  "all threads copy the same number of pieces");
    const int row = threadIdx.x / per_row, col = threadIdx.x % per_row * 8;
    const T* from = matrix + (row0 + row) * stride + col;
#pragma unroll
    for (int i = 0; i < tile_rows; i += at_once) {
      cp_async16(tile + swizzled(row + i, col), from + i * stride,
                 (!ragged || row0 + row + i < length) && col < head_dim);
    }
  }

  /// S += Q K^T for a warp's rows.
  static __device__ void multiply_q_k(Scores& s, const T* q_smem,
                                      const T* k_smem, int warp_row,
                                      int lane) {
    // The rows that this lane passes to ldmatrix. ^ kk moves on by kk
    // columns: the swizzle is an XOR, too.
    const int of_q = swizzled(warp_row + lane % 16, lane / 16 * 8);
    const int of_k = swizzled(lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8);
#pragma unroll
    for (int kk = 0; kk < d; kk += 16) {
      std::uint32_t q_frag[row_tiles][4];
#pragma unroll
      for (int i = 0; i < row_tiles; ++i) {
        ldmatrix_x4(q_frag[i], q_smem + (of_q ^ kk) + 16 * i * d);
      }
#pragma unroll
      for (int j = 0; j < block_n / 16; ++j) {
        std::uint32_t k_frag[4];  // of 16 keys
        ldmatrix_x4(k_frag, k_smem + (of_k ^ kk) + 16 * j * d);
        const std::uint32_t low[2] = {k_frag[0], k_frag[1]};
        const std::uint32_t high[2] = {k_frag[2], k_frag[3]};
#pragma unroll
        for (int i = 0; i < row_tiles; ++i) {
          mma_m16n8k16<T>(s[i][2 * j], q_frag[i], low);
          mma_m16n8k16<T>(s[i][2 * j + 1], q_frag[i], high);
        }
      }
    }
  }

  /// O += P V for a warp's rows.
  static __device__ void multiply_p_v(Output& o, const Scores& p,
                                      const T* v_smem, int lane) {
    const int of_v = swizzled(lane % 16, lane / 16 * 8);
#pragma unroll
    for (int key = 0; key < block_n; key += 16) {
      std::uint32_t p_frag[row_tiles][4];  // P, rounded, as the left operand
#pragma unroll
      for (int i = 0; i < row_tiles; ++i) {
        const float(&left)[4] = p[i][key / 8],
              (&right)[4] = p[i][key / 8 + 1];
        p_frag[i][0] = pack2<T>(left[0], left[1]);
        p_frag[i][1] = pack2<T>(left[2], left[3]);
        p_frag[i][2] = pack2<T>(right[0], right[1]);
        p_frag[i][3] = pack2<T>(right[2], right[3]);
      }
#pragma unroll
      for (int j = 0; j < d / 16; ++j) {
        std::uint32_t v_frag[4];  // of 16 columns
        ldmatrix_x4_transposed(v_frag, v_smem + (of_v ^ 16 * j) + key * d);
        const std::uint32_t low[2] = {v_frag[0], v_frag[1]};
        const std::uint32_t high[2] = {v_frag[2], v_frag[3]};
#pragma unroll
        for (int i = 0; i < row_tiles; ++i) {
          mma_m16n8k16<T>(o[i][2 * j], p_frag[i], low);
          mma_m16n8k16<T>(o[i][2 * j + 1], p_frag[i], high);
        }
      }
    }
  }

  /// Masks the scores of keys that a query does not see, those beyond length_k, which are zeros,
  /// among them.
  static __device__ void apply_mask(Scores& s, const Attention<T>& a,
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
            if (8 * j + fragment_column(lane, e) >= visible) {
              s[i][j][2 * h + e] = -INFINITY;
            }
          }
        }
      }
    }
  }

  /// One step of the online softmax for scores that are not scaled: S becomes
  /// P = exp2(exponent_scale (S - m)), l and O are rescaled.
  /// @tparam masked         whether scores may be -infinity
  template <bool masked>
  static __device__ void softmax_step_base_2(Scores& s, Output& o,
                                             RowState& state,
                                             float exponent_scale) {
#pragma unroll
    for (int i = 0; i < row_tiles; ++i) {
      float rescale[2];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float m = state.m[i][h];
#pragma unroll
        for (int j = 0; j < block_n / 8; ++j) {
          m = fmaxf(m, fmaxf(s[i][j][2 * h], s[i][j][2 * h + 1]));
        }
        m = warp_max<4>(m);
        // Where all keys are masked m is -infinity, and -infinity - -infinity
        // would be NaN: subtract 0.
        const float offset =
            masked && m == -INFINITY ? 0.0f : __fmul_rn(m, exponent_scale);
        // __fmul_rn() forbids an FMA: both products round alike, so the
        // factor is exactly 1 where m stays.
        rescale[h] =
            exp2_approx(__fmul_rn(state.m[i][h], exponent_scale) - offset);
        state.m[i][h] = m;
        float sum = 0;
#pragma unroll
        for (int j = 0; j < block_n / 8; ++j) {
#pragma unroll
          for (int e = 2 * h; e < 2 * h + 2; ++e) {
            s[i][j][e] = exp2_approx(s[i][j][e] * exponent_scale - offset);
            sum += s[i][j][e];
          }
        }
        state.l[i][h] = state.l[i][h] * rescale[h] + sum;
      }
      // Rare: after a few hundred keys m seldom grows in any of the 16 rows.
      if (__any_sync(kAllLanes, rescale[0] != 1 || rescale[1] != 1)) {
#pragma unroll
        for (int j = 0; j < d / 8; ++j) {
#pragma unroll
          for (int e = 0; e < 4; ++e) o[i][j][e] *= rescale[e / 2];
        }
      }
    }
  }

  /// Drops probabilities; l has the sum of all of them.
  static __device__ void apply_dropout(Scores& p, const Attention<T>& a,
                                       int head, int query0, int key0,
                                       int lane) {
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
        // m is of scores that are not scaled.
        if (lane % 4 == 0) {
          head.lse[query] = log_sum(state.m[i][h] * a.scale, l);
        }
      }
    }
  }

  /// The kernel's code, for a tile of queries. A warp has 16 or 32 of them; the next tiles of K and V
  /// are in flight.
  template <bool has_dropout>
  static __device__ void run(const Attention<T>& a, int block, int head_index,
                             int batch) {
    T* const q_smem = dynamic_shared<T>();
    T* const k_smem = q_smem + q_size;
    T* const v_smem = k_smem + stages * kv_size;
    const int thread = threadIdx.x, lane = thread % kWarp;
    const int warp_row = thread / kWarp * warp_rows;
    const int query0 = block * block_m;
    const auto head = head_of(a, batch, head_index);
    // What the last query sees, and whole tiles that the first one sees.
    const int tiles =
        ceil_div(visible_keys(a, query0 + block_m - 1), block_n);
    const int unmasked_tiles = visible_keys(a, query0) / block_n;
    const float exponent_scale = a.scale * kLog2E;
    const auto load = [&](int tile, auto ragged_rows) {
      constexpr bool ragged = decltype(ragged_rows)::value;
      const int key0 = tile * block_n, at = tile % stages * kv_size;
      copy_rows_async<block_n, ragged>(k_smem + at, head.k, a.k_strides.row,
                                       key0, a.length_k, a.head_dim);
      copy_rows_async<block_n, ragged>(v_smem + at, head.v, a.v_strides.row,
                                       key0, a.length_k, a.head_dim);
    };
    if (tiles > 0) {  // Q and the first tiles are one group
      copy_rows_async<block_m>(q_smem, head.q, a.q_strides.row, query0,
                               a.length_q, a.head_dim);
      load(tiles - 1, std::true_type{});
      cp_async_commit();
    }
    Output o = {};
    RowState state = {};
#pragma unroll
    for (int i = 0; i < row_tiles; ++i) {
      state.m[i][0] = state.m[i][1] = -INFINITY;
    }
    //! [steps]
    const auto step = [&](int tile, auto edge) {
      constexpr bool masked = decltype(edge)::value;
      const int key0 = tile * block_n, at = tile % stages * kv_size;
      cp_async_wait<0>();
      __syncthreads();  // arrived; no warp still reads the stage load() fills
      if (tile > 0) load(tile - 1, std::false_type{});  // not ragged
      cp_async_commit();
      Scores s = {};
      // S = Q K^T, not scaled
      multiply_q_k(s, q_smem, k_smem + at, warp_row, lane);
      if constexpr (masked) {
        apply_mask(s, a, query0 + warp_row, key0, lane);
      }
      // P = exp2(exponent_scale (S - m))
      softmax_step_base_2<masked>(s, o, state, exponent_scale);
      if constexpr (has_dropout) {
        apply_dropout(s, a, head.index, query0 + warp_row, key0, lane);
      }
      // O += P V
      multiply_p_v(o, s, v_smem + at, lane);
    };
    int tile = tiles - 1;  // the edge first
    for (; tile >= unmasked_tiles; --tile) step(tile, std::true_type{});
    for (; tile >= 0; --tile) step(tile, std::false_type{});
    //! [steps]
    store_rows(a, head, o, state, query0 + warp_row, lane);
  }
};

/// The block for a head dimension, as large as the registers allow:
/// - 256 columns: tiles of 32 keys, 8 warps of 16 queries
/// - 128 columns: tiles of 64 keys, 4 warps of 32 queries
/// - fewer: tiles of 96 keys, 4 warps of 32 queries
template <class T, int d>
using EdgeMasksBlockFor =
    EdgeMasksBlock<T, d,
                   d == 256   ? 32
                   : d == 128 ? 64
                              : 96,
                   d == 256 ? 8 : 4, d == 256 ? 16 : 32>;
/// The same on GPUs whose blocks have at most 99 KiB of shared memory.
template <class T, int d>
using SmallEdgeMasksBlock =
    std::conditional_t<d == 256, EdgeMasksBlock<T, d, 32, 4, 16>,
                       EdgeMasksBlockFor<T, d>>;

/// Attention in 16 bits.
template <class Block, bool has_dropout>
__global__ void __launch_bounds__(Block::threads, Block::d == 256 ? 1 : 2)
    flash_edge_masks(Attention<typename Block::T> a) {
  Block::template run<has_dropout>(a, longest_first_m_block(a), blockIdx.y,
                                   blockIdx.z);
}

/// Launches the kernel with a block for each tile of queries.
/// @param device decides on the block's size
template <class T>
void launch_edge_masks(const Attention<T>& a, const Stream& stream,
                       const DeviceProperties& device) {
  const auto launch_block = [&](auto of) {
    using Block = decltype(of);
    const auto kernel = a.dropout.threshold > 0
                            ? flash_edge_masks<Block, true>
                            : flash_edge_masks<Block, false>;
    launch(stream, kernel,
           {grid_of(a, Block::block_m), Block::threads, Block::shared_bytes,
            Block::stages},
           a);
  };
  with_head_dim<32, 64, 128, 256>(a.head_dim, [&](auto d) {
    using Large = EdgeMasksBlockFor<T, d>;
    if (Large::shared_bytes <= device.shared_bytes) {
      launch_block(Large{});
    } else {
      launch_block(SmallEdgeMasksBlock<T, d>{});
    }
  });
}

FA_LAUNCH_16_BIT(forward, Attention, (const Stream&, const DeviceProperties&),
                 launch_edge_masks);

FA_STEP_ROW(forward, 8) {
  return row("08_edge_masks", "masks at the edge only, exp2", half{},
             bfloat16{})
      .needs(kNeedsMma)
      .head_dims(HeadDims<32, 64, 128, 256>{})
      .over_keys(EdgeMasksBlockFor<half, 32>{}, 2)
      .over_keys(EdgeMasksBlockFor<half, 64>{}, 2)
      .over_keys(EdgeMasksBlockFor<half, 128>{}, 2)
      .over_keys(EdgeMasksBlockFor<half, 256>{}, 2)
      .shared_bytes(
          [](auto d) { return SmallEdgeMasksBlock<half, d>::shared_bytes; })
      .launch([](auto& a, auto, auto& stream) {
        launch_edge_masks(a, stream, device_properties());
      });
}

}  // namespace fa::FA_TARGET
