/// @file
/// Hopper's matmuls and copies. As in step 08, tiles of keys are taken from the last one, masks are
/// at the edge only, and exponentials have base 2. One thread issues TMA copies of the next tiles;
/// then all threads wait for the current ones, compute S = Q K^T by wgmma, the softmax, and
/// O += P V, and meet at a block barrier. K and V never pass through registers, and the TMA unit
/// computes their addresses.
///
/// Source: Shah et al., FlashAttention-3, NeurIPS 2024.
#pragma once

#include "common/attention/attention.cuh"
#include "common/gpu/fragment.cuh"
#include "common/gpu/hopper.cuh"
#include "common/gpu/tensor_map.cuh"

namespace fa::FA_TARGET {

/// A block: two warpgroups with 64 queries each, over tiles of 128 keys. A lane has 64 elements of
/// S and as many of O, in two rows: row_element(s, h, i) is of row lane_row(h) and column
/// lane_column() + element_column(i).
template <class Type>
struct WgmmaBlock {
  using T = Type;
  static constexpr int d = 128, block_n = 128, stages = 2;
  static constexpr int warpgroups = 2, queries = 64;
  static constexpr int block_m = warpgroups * queries;
  using QTile = SwizzledTile<T, queries, d>;
  using KvTile = SwizzledTile<T, block_n, d>;
  using Scores = float[block_n / 2];
  using Output = float[d / 2];
  using Probs = std::uint32_t[block_n / 16][4];  // left operands of 16 keys

  /// What the kernel is given: the tensors, and how TMA finds boxes of them.
  struct Maps {
    TensorMap q;
    TensorMap k;
    TensorMap v;
    TensorMap o;
    Attention<T> a;
  };
  /// Shared memory of a block.
  struct Shared {
    QTile q[warpgroups];  // at the end O
    KvTile k[stages];
    KvTile v[stages];
    // A phase ends when Q, or K and V of the stage together, have arrived.
    // There is no barrier `empty`: __syncthreads() serves.
    Mbarrier q_full;
    Mbarrier full[stages];
  };
  /// The online softmax of this lane's two rows.
  struct RowState {
    float m[2];  ///< running maximum of Q K^T
    float l[2];  ///< this lane's part of the running sum
  };

  /// The maps of a problem. A box: box_rows rows of one panel, 64 columns.
  static Maps make_maps(const Attention<T>& a) {
    const auto map = [&](const T* data, const RowStrides& strides, int heads,
                         int rows, int box_rows) {
      return tensor_map(data, {a.batch, heads, rows, a.head_dim},
                        {strides.batch, strides.head, strides.row}, box_rows);
    };
    return {map(a.q, a.q_strides, a.heads, a.length_q, queries),
            map(a.k, a.k_strides, a.kv_heads, a.length_k, block_n),
            map(a.v, a.v_strides, a.kv_heads, a.length_k, block_n),
            map(a.o, a.o_strides, a.heads, a.length_q, queries), a};
  }

  /// Issues S = Q K^T.
  static __device__ void issue_qk(Scores& s, const QTile& q,
                                  const KvTile& k) {
    wgmma_fence(s);
    FA_STAMP(kIssueScores, 0);  // for a timeline
#pragma unroll
    for (int kk = 0; kk < d; kk += 16) {
      wgmma<T>(s, q.by_rows(0, kk), k.by_rows(0, kk), kk > 0);
    }
    wgmma_commit(s);
  }

  /// Issues O += P V; P is in registers.
  static __device__ void issue_pv(Output& o, Probs& p, const KvTile& v) {
    FA_STAMP(kIssueOutput, 0);
    wgmma_fence(o, p);
#pragma unroll
    for (int i = 0; i < block_n / 16; ++i) {
      wgmma<T>(o, p[i], v.by_columns(16 * i, 0), true);
    }
    wgmma_commit(o, p);
  }

  /// Masks the scores of keys that a query does not see, those beyond length_k, which are zeros,
  /// among them.
  static __device__ void apply_mask(Scores& s, const Attention<T>& a,
                                    int query0, int key0) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int visible =
          visible_keys(a, query0 + lane_row(h)) - key0 - lane_column();
#pragma unroll
      for (int i = 0; i < block_n / 4; ++i) {
        if (element_column(i) >= visible) row_element(s, h, i) = -INFINITY;
      }
    }
  }

  /// The largest of this lane's scores in its row h.
  static __device__ float lane_max(Scores& s, int h) {
    float chain[4];  // four independent chains of fmaxf(), not one
#pragma unroll
    for (int i = 0; i < 4; ++i) chain[i] = row_element(s, h, i);
#pragma unroll
    for (int i = 4; i < block_n / 4; ++i) {
      chain[i % 4] = fmaxf(chain[i % 4], row_element(s, h, i));
    }
    return fmaxf(fmaxf(chain[0], chain[1]), fmaxf(chain[2], chain[3]));
  }

  /// What is subtracted in the exponent: exponent_scale m. It is 0 where m is -infinity, as all
  /// keys are masked: -infinity - -infinity would be NaN.
  static __device__ float exponent_offset(float m, float exponent_scale) {
    return m == -INFINITY ? 0.0f : __fmul_rn(m, exponent_scale);
  }

  /// One step of the online softmax: S becomes P = exp2(exponent_scale (S - m)). The lanes of a row
  /// exchange their maxima only when a lane of the warp has found a larger score, which is rare
  /// after a few hundred keys.
  /// @param rescale on return the factors of rescale_o(), if the result is true
  /// @return whether O must be rescaled
  //! [softmax]
  static __device__ bool online_softmax(Scores& s, RowState& rows,
                                        float (&rescale)[2],
                                        float exponent_scale) {
    float largest[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) largest[h] = lane_max(s, h);
    const auto grows = [&](int h) {  // false for NaN: both are -infinity
      return (largest[h] - rows.m[h]) * exponent_scale > 0;
    };
    const bool rescaled = __any_sync(kAllLanes, grows(0) || grows(1));
    if (rescaled) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float m = warp_max<4>(fmaxf(rows.m[h], largest[h]));
        // __fmul_rn() forbids an FMA: both products round alike, so the
        // factor is exactly 1 where m stays.
        rescale[h] = exp2_approx(__fmul_rn(rows.m[h], exponent_scale) -
                                 exponent_offset(m, exponent_scale));
        rows.m[h] = m;
        rows.l[h] *= rescale[h];
      }
    }
    // P = exp2(exponent_scale (S - m)), l += the sums of P
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float offset = exponent_offset(rows.m[h], exponent_scale);
      float sums[2] = {rows.l[h], 0};
#pragma unroll
      for (int i = 0; i < block_n / 4; ++i) {
        float& x = row_element(s, h, i);
        x = exp2_approx(x * exponent_scale - offset);
        sums[i % 2] += x;
      }
      rows.l[h] = sums[0] + sums[1];
    }
    return rescaled;
  }
  //! [softmax]

  /// O *= rescale, by rows.
  static __device__ void rescale_o(Output& o, const float (&rescale)[2]) {
#pragma unroll
    for (int i = 0; i < d / 2; ++i) o[i] *= rescale[element_row(i)];
  }

  /// Rounds P to 16 bits: the accumulators of one matmul are the left operand of the next one as
  /// they stand.
  static __device__ void round_to_operand(Probs& p, const Scores& s) {
#pragma unroll
    for (int i = 0; i < block_n / 16; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        p[i][j] = pack2<T>(s[8 * i + 2 * j], s[8 * i + 2 * j + 1]);
      }
    }
  }

  /// The epilogue, O /= l: rounds and writes O and LSE of a warpgroup, whose threads call it
  /// together. O leaves through the warpgroup's tile of Q.
  /// @return true in one thread, which calls bulk_wait_read<0>() before the block ends
  static __device__ bool write_output(const Maps& maps, const Output& o,
                                      const RowState& rows, QTile& o_smem,
                                      int query0, int head, int batch) {
    const Attention<T>& a = maps.a;
    float* const lse =
        a.lse + (std::int64_t{batch} * a.heads + head) * a.length_q;
    float factor[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float l = warp_sum<4>(rows.l[h]);
      factor[h] = l == 0 ? 0 : inverse_approx(l);
      const int query = query0 + lane_row(h);
      if (lane_column() == 0 && query < a.length_q) {
        lse[query] = l == 0 ? -INFINITY : rows.m[h] * a.scale + log_approx(l);
      }
    }
    const int lane = threadIdx.x % kWarp;
    // The row that this lane passes to stmatrix.
    const int row = threadIdx.x / kWarp % 4 * 16 + lane % 16;
    // Not needed here: the loop ended with __syncthreads(). Kept so that the
    // epilogue is that of step 10.
    named_barrier_wait(1 + threadIdx.x / kWarpgroup, kWarpgroup);
#pragma unroll
    for (int col = 0; col < d; col += 16) {
      std::uint32_t o_frag[4];  // 16 columns of this warp's 16 rows
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        // Rows from 8 h on, columns from col + i / 2 * 8 on.
        const int h = i % 2, first = col / 4 + i / 2 * 2;
        o_frag[i] = pack2<T>(factor[h] * row_element(o, h, first),
                             factor[h] * row_element(o, h, first + 1));
      }
      stmatrix_x4(o_smem.at(row, col + lane / 16 * 8), o_frag);
    }
    fence_async_proxy();  // TMA sees what this thread wrote
    named_barrier_wait(1 + threadIdx.x / kWarpgroup, kWarpgroup);
    if (threadIdx.x % kWarpgroup != 0) return false;
    store_tile(maps.o, o_smem, query0, head, batch);
    bulk_commit();
    return true;
  }

  /// The kernel's code. Step 0 takes the last tile of keys, where the mask's edge is.
  static __device__ void run(const Maps& maps) {
    auto& shared = *dynamic_shared<Shared>();
    const Attention<T>& a = maps.a;
    const int block = longest_first_m_block(a);
    const int head = blockIdx.y, batch = blockIdx.z;
    const int kv_head = kv_head_of(a, head);
    const int warpgroup = warpgroup_index();
    // The warpgroup's first query, and the block's last one.
    const int query0 = block * block_m + warpgroup * queries;
    const int last_query = block * block_m + block_m - 1;
    const int tiles = ceil_div(visible_keys(a, last_query), block_n);
    const auto load = [&](int step) {
      const int stage = step % stages, key0 = (tiles - 1 - step) * block_n;
      shared.full[stage].arrive_and_expect(2 * KvTile::bytes);
      load_tile(shared.k[stage], maps.k, shared.full[stage], key0, kv_head,
                batch);
      load_tile(shared.v[stage], maps.v, shared.full[stage], key0, kv_head,
                batch);
    };
    if (threadIdx.x == 0) {
      shared.q_full.init(1);
      for (Mbarrier& full : shared.full) full.init(1);
      fence_barrier_init();
    }
    __syncthreads();  // the barriers are initialised
    if (threadIdx.x == 0) {
      shared.q_full.arrive_and_expect(warpgroups * QTile::bytes);
      for (int i = 0; i < warpgroups; ++i) {
        load_tile(shared.q[i], maps.q, shared.q_full,
                  block * block_m + i * queries, head, batch);
      }
      if (tiles > 0) load(0);
    }
    Output o = {};
    RowState rows = {{-INFINITY, -INFINITY}, {0, 0}};
    shared.q_full.wait(0);
    //! [mainloop]
    for (int step = 0; step < tiles; ++step) {
      const int stage = step % stages, key0 = (tiles - 1 - step) * block_n;
      // The other stage is free: the step before ended with __syncthreads().
      if (threadIdx.x == 0 && step + 1 < tiles) load(step + 1);
      // The parity: how often the stage was filled before, modulo 2.
      shared.full[stage].wait(step / stages % 2);
      // S = Q K^T, not scaled
      Scores s;
      issue_qk(s, shared.q[warpgroup], shared.k[stage]);
      wgmma_wait<0>(s);
      // The first query sees the fewest keys.
      if (key0 + block_n > visible_keys(a, query0)) {
        apply_mask(s, a, query0, key0);
      }
      // P = exp2(exponent_scale (S - m))
      float rescale[2];
      if (online_softmax(s, rows, rescale, a.scale * kLog2E)) {
        rescale_o(o, rescale);
      }
      Probs p;
      round_to_operand(p, s);
      // O += P V
      issue_pv(o, p, shared.v[stage]);
      wgmma_wait<0>(o, p);
      __syncthreads();  // all warps are done with this stage
    }
    //! [mainloop]
    if (write_output(maps, o, rows, shared.q[warpgroup], query0, head,
                     batch)) {
      bulk_wait_read<0>();  // before the block ends
    }
  }
};

/// Attention in 16 bits. A warpgroup processes 64 queries.
template <class T>
__global__ void __launch_bounds__(kWarpgroup* WgmmaBlock<T>::warpgroups)
    flash_wgmma(const __grid_constant__ typename WgmmaBlock<T>::Maps maps) {
  WgmmaBlock<T>::run(maps);
}

/// Launches the kernel with a block for each tile of queries.
/// @param a with a head_dim of at most 128, for which can_use_tma() holds
template <class T>
void launch_wgmma(const Attention<T>& a, const Stream& stream) {
  using Block = WgmmaBlock<T>;
  launch(stream, flash_wgmma<T>,
         {grid_of(a, Block::block_m), kWarpgroup * Block::warpgroups,
          sizeof(typename Block::Shared), Block::stages},
         Block::make_maps(a));
}

FA_LAUNCH_16_BIT(forward_steps, Attention, (const Stream&), launch_wgmma);

FA_STEP_ROW(forward, 9) {
  return row("09_wgmma", "wgmma and TMA", half{}, bfloat16{})
      .hopper()
      .head_dims(HeadDims<128>{})
      .over_keys(WgmmaBlock<half>{}, 2)
      .timeline(HeadDims<128>{}, 256, 512)
      .launch([](auto& a, auto, auto& stream) { launch_wgmma(a, stream); });
}

}  // namespace fa::FA_TARGET
