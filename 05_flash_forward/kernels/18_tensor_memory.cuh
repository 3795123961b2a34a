/// @file
/// FlashAttention-4 on Blackwell (B200): S, P and O are in tensor memory. One thread loads, one
/// issues all matmuls, two warpgroups compute the softmax of 128 queries each, a row in a thread,
/// and another one rescales O and writes it. FMAs compute a part of the exponentials.
///
/// Compiles for sm_100a with nvcc 13; right and without a finding in the lab, under our reading of
/// the PTX ISA. Never run on a B200 by us.
///
/// Source: Zadouri et al., FlashAttention-4, 2026.
#pragma once

#include "05_flash_forward/kernels/14_lazy_rescaling.cuh"
#include "common/gpu/blackwell.cuh"

namespace fa::FA_TARGET {

/// Sizes of flash_tensor_memory(): two tiles of 128 queries, which are the lanes of tensor memory.
/// @tparam fma_part of 16 exponentials so many are computed by FMAs
template <class T, int head_dim, int fma_part = 4>
struct TensorMemoryTile : HopperTile<T, head_dim, 128, 2, 2> {
  static constexpr int queries = kTensorLanes, block_m = 2 * queries;
  static constexpr int by_fma = fma_part;
  using QTile = SwizzledTile<T, queries, head_dim>;

  /// The first query of a tile.
  __device__ static int first_query(const Attention<T>&, int block, int q) {
    return block * block_m + q * queries;
  }
  /// Columns of tensor memory: S, of which P takes the first half.
  static constexpr int s_column(int q) { return q * 128; }
  /// And those of O.
  static constexpr int o_column(int q) { return 256 + q * head_dim; }
};
/// A block computes one work tile.
template <class T, int d, int by_fma>
constexpr int kQueryStages<TensorMemoryTile<T, d, by_fma>> = 1;

/// Shared memory of a block; arrays of two are by tile of queries.
template <class Tile>
struct TmemShared : PersistentShared<Tile> {
  Mbarrier s_full[2];        ///< Q K^T has ended
  Mbarrier p_full[2];        ///< P is written, O is rescaled
  Mbarrier o_full[2];        ///< P V has ended
  Mbarrier factor_full[2];   ///< the factors of O are written
  Mbarrier factor_empty[2];  ///< the factors are read
  float factor[2][Tile::queries];
  std::uint32_t tmem;  ///< address of all columns
};

/// 2^x by FMAs (Cody-Waite): relative error at most 1.02e-4, exactly 1 for 0, 0 up to -127 and for NaN.
//! [exp2_fma]
__device__ inline float exp2_fma(float x) {
  x = fmaxf(x, -127.0f);
  // The lowest bits of 1.5 2^23 + x are n, the integer next to x.
  const float shifted = x + 12582912.0f;
  const float f = x - (shifted - 12582912.0f);  // -1/2 to 1/2
  // The cubic with p(0) = 1 that has the smallest relative error to 2^f.
  const float p =
      f * (f * (f * 0.0550089329f + 0.242210954f) + 0.693282902f) + 1.0f;
  const std::uint32_t n = __float_as_uint(shifted) << 23;
  return __uint_as_float(__float_as_uint(p) + n);  // 2^n p
}
//! [exp2_fma]

/// The thread that issues all matmuls.
template <class Tile>
__device__ void issue_matmuls(TmemShared<Tile>& shared, int tiles) {
  using T = typename Tile::T;
  constexpr auto qk = tcgen05_descriptor<T>(128, Major::kK, Major::kK);
  constexpr auto pv = tcgen05_descriptor<T>(Tile::d, Major::kK, Major::kMN);
  const std::uint32_t tmem = shared.tmem;
  PipelineState<Tile::stages> k, v;
  const auto issue_s = [&](int q) {  // S = Q K^T
#pragma unroll
    for (int kk = 0; kk < Tile::d; kk += 16) {
      tcgen05_mma(tmem + Tile::s_column(q), shared.q[0][q].by_rows(0, kk),
                  shared.k[k.stage].by_rows(0, kk), qk, kk > 0);
    }
    tcgen05_commit(shared.s_full[q]);
  };
  const auto issue_o = [&](int q, bool adds) {  // O += P V
    const std::uint32_t p = tmem + Tile::s_column(q);
#pragma unroll
    for (int key = 0; key < Tile::block_n; key += 16) {
      tcgen05_mma(tmem + Tile::o_column(q), p + key / 2,
                  shared.v[v.stage].by_columns(key, 0), pv, adds || key > 0);
    }
    tcgen05_commit(shared.o_full[q]);
  };
  shared.k_pipe.consumer_wait(k);
  for (int q = 0; q < 2; ++q) {
    shared.q_pipe[q].consumer_wait({});
    tcgen05_fence_after();
    issue_s(q);
  }
#pragma unroll 1
  //! [issue]
  for (int i = 0; i < tiles; ++i) {
    const bool last = i + 1 == tiles;
    if (!last) {
      if (i + Tile::stages < tiles) {  // the load thread waits for it
        tcgen05_commit(shared.k_pipe.empty[k.stage]);
      }
      k.advance();
      shared.k_pipe.consumer_wait(k);
    }
    shared.v_pipe.consumer_wait(v);
    for (int q = 0; q < 2; ++q) {
      shared.p_full[q].wait(i % 2);
      tcgen05_fence_after();
      issue_o(q, i > 0);
      if (last) continue;
      // S overwrites P; PTX orders matmuls with the same accumulators only.
      shared.o_full[q].wait(i % 2);
      tcgen05_fence_after();
      issue_s(q);
    }
    if (i + Tile::stages < tiles) {
      tcgen05_commit(shared.v_pipe.empty[v.stage]);
    }
    v.advance();
  }
  //! [issue]
}

/// The softmax of a tile of queries, by a warpgroup; writes LSE.
template <class Tile, class T>
__device__ void softmax(TmemShared<Tile>& shared, const Attention<T>& a,
                        const WorkTile& work, int tiles, int q) {
  const int row = threadIdx.x % kWarpgroup;
  const int query0 = Tile::first_query(a, work.block, q);
  const int unmasked =
      visible_keys(a, query0) / Tile::block_n * Tile::block_n;
  const float exponent_scale = a.scale * kLog2E;
  const std::uint32_t s_tmem = tensor_quarter(shared.tmem, Tile::s_column(q));
  float m = -INFINITY, l = 0;
  const auto pass_factor = [&](int i, float factor) {
    shared.factor_empty[q].wait(i % 2 ^ 1);
    shared.factor[q][row] = factor;
    shared.factor_full[q].arrive();
  };
#pragma unroll 1
  for (int i = 0; i < tiles; ++i) {
    const int key0 = (tiles - 1 - i) * Tile::block_n;  // the edge first
    shared.s_full[q].wait(i % 2);
    tcgen05_fence_after();
    float s[4][32];
#pragma unroll
    for (int c = 0; c < 4; ++c) tcgen05_ld(s[c], s_tmem + 32 * c);
    tcgen05_wait_ld(s[0], s[1], s[2], s[3]);
    if (key0 >= unmasked) {
      const int visible = visible_keys(a, query0 + row) - key0;
#pragma unroll
      for (int j = 0; j < Tile::block_n; ++j) {
        if (j >= visible) s[j / 32][j % 32] = -INFINITY;
      }
    }
    float largest[2] = {m, m};  // independent chains of fmaxf()
#pragma unroll
    for (int j = 0; j < Tile::block_n; ++j) {
      largest[j % 2] = fmaxf(largest[j % 2], s[j / 32][j % 32]);
    }
    const float new_m = fmaxf(largest[0], largest[1]);
    float factor = 1;
    if ((new_m - m) * exponent_scale > kRescaleThreshold) {  // not for NaN
      factor = exp2_approx((m - new_m) * exponent_scale);
      m = new_m;
    }
    if (i > 0) pass_factor(i - 1, factor);
    // P = exp2(exponent_scale (S - m)), l += the sums of P
    const float offset = exponent_offset<true>(m, exponent_scale);
    float sums[2] = {l * factor, 0};
    std::uint32_t p[2][32];
#pragma unroll
    for (int j = 0; j < Tile::block_n; ++j) {
      float& x = s[j / 32][j % 32];
      x = x * exponent_scale - offset;
      x = j % 16 < Tile::by_fma ? exp2_fma(x) : exp2_approx(x);
      sums[j % 2] += x;
      if (j % 2 == 1)
        p[j / 64][j / 2 % 32] = pack2<T>(s[j / 32][j % 32 - 1], x);
    }
    l = sums[0] + sums[1];
    tcgen05_st(s_tmem, p[0]);
    tcgen05_st(s_tmem + 32, p[1]);
    tcgen05_wait_st();
    tcgen05_fence_before();
    shared.p_full[q].arrive();
  }
  pass_factor(tiles - 1, l == 0 ? 0 : inverse_approx(l));
  if (query0 + row < a.length_q) {
    head_of(a, work.batch, work.head).lse[query0 + row] =
        l == 0 ? -INFINITY : m * a.scale + log_approx(l);
  }
}

/// Calls work(col, o) for each 32 columns of a row of O, times a factor. A whole warp calls it.
template <class Tile, class Work>
__device__ void scale_row(std::uint32_t o_tmem, float factor, Work work) {
  tcgen05_fence_after();
#pragma unroll 1
  for (int col = 0; col < Tile::d; col += 32) {
    float o[32];
    tcgen05_ld(o, o_tmem + col);
    tcgen05_wait_ld(o);
#pragma unroll
    for (float& x : o) x *= factor;
    work(col, o);
  }
}

/// The warpgroup that rescales O of both tiles of queries, and writes it.
template <class Tile, class T>
__device__ void correct(TmemShared<Tile>& shared, const TmaAttention<T>& maps,
                        const WorkTile& work, int tiles) {
  const int row = threadIdx.x % kWarpgroup;
  const std::uint32_t o_tmem = tensor_quarter(shared.tmem, Tile::o_column(0));
  const auto read_factor = [&](int i, int q) {
    shared.factor_full[q].wait(i % 2);
    const float factor = shared.factor[q][row];
    shared.factor_empty[q].arrive();
    shared.o_full[q].wait(i % 2);
    return factor;
  };
  //! [correction]
  for (Mbarrier& full : shared.p_full) full.arrive();  // there is no O yet
  for (int i = 1; i < tiles; ++i) {
    for (int q = 0; q < 2; ++q) {
      const float factor = read_factor(i - 1, q);
      if (__any_sync(kAllLanes, factor != 1)) {
        scale_row<Tile>(o_tmem + q * Tile::d, factor, [&](int col, auto& o) {
          tcgen05_st(o_tmem + q * Tile::d + col, o);
        });
        tcgen05_wait_st();
        tcgen05_fence_before();
      }
      shared.p_full[q].arrive();
    }
  }
  //! [correction]
  for (int q = 0; q < 2; ++q) {
    auto& o_smem = shared.q[0][q];
    const float factor = read_factor(tiles - 1, q);  // 1 / l
    scale_row<Tile>(o_tmem + q * Tile::d, factor, [&](int col, auto& o) {
#pragma unroll
      for (int j = 0; j < 32; j += 8) {
        const std::uint32_t words[] = {
            pack2<T>(o[j], o[j + 1]), pack2<T>(o[j + 2], o[j + 3]),
            pack2<T>(o[j + 4], o[j + 5]), pack2<T>(o[j + 6], o[j + 7])};
        store4(o_smem.at(row, col + j), as_float4(words));
      }
    });
    fence_async_proxy();  // TMA sees what this thread wrote
    named_barrier_wait(1, kWarpgroup);
    if (row == 0) {
      store_tile(maps.o, o_smem, Tile::first_query(maps.a, work.block, q),
                 work.head, work.batch);
      bulk_commit();
    }
    __syncwarp();  // the next tcgen05_ld() is the warp's
  }
  if (row == 0) bulk_wait_read<0>();  // before the block ends
}

/// Attention in 16 bits by tcgen05. Registers of all warpgroups: 64 Ki.
template <class Tile, class T>
__global__ void __launch_bounds__(4 * kWarpgroup, 1)
    flash_tensor_memory(const __grid_constant__ TmaAttention<T> maps) {
  auto& shared = *dynamic_shared<TmemShared<Tile>>();
  const WorkTile work{longest_first_m_block(maps.a), int(blockIdx.y),
                      int(blockIdx.z)};
  const int tiles = std::max(key_tiles<Tile>(maps.a, work.block), 1);
  const int warp = warp_uniform(threadIdx.x / kWarp);
  if (warp == 0) {
    tcgen05_alloc(&shared.tmem, kTensorColumns);
    tcgen05_relinquish_alloc_permit();
  }
  if (threadIdx.x == 0) {
    shared.k_pipe.init(1);  // the thread that issues matmuls
    shared.v_pipe.init(1);
    for (int q = 0; q < 2; ++q) {
      shared.q_pipe[q].init(1);
      shared.s_full[q].init(1);
      shared.p_full[q].init(2 * kWarpgroup);  // softmax, correction
      shared.o_full[q].init(1);
      shared.factor_full[q].init(kWarpgroup);
      shared.factor_empty[q].init(kWarpgroup);
    }
    fence_barrier_init();
  }
  __syncthreads();  // the barriers and the address are there
  //! [roles]
  if (warp < 8) {
    setmaxnreg_inc<192>();
    softmax(shared, maps.a, work, tiles, warp / 4);
  } else if (warp < 12) {
    setmaxnreg_dec<80>();
    correct(shared, maps, work, tiles);
  } else {
    setmaxnreg_dec<48>();
    ProducerState<Tile> write;
    const int thread = threadIdx.x % kWarpgroup;
    if (thread == 0) load_work_tile(shared, maps, work, tiles, write);
    if (thread == kWarp) issue_matmuls(shared, tiles);
  }
  //! [roles]
  __syncwarp();
  tcgen05_fence_before();
  __syncthreads();  // all warps have read their lanes
  if (warp == 0) tcgen05_dealloc(shared.tmem, kTensorColumns);
}

/// Launches the kernel with a block for 256 queries.
/// @param a with a head_dim of at most d, for which can_use_tma() holds
template <int d, class T>
void launch_tensor_memory(const Attention<T>& a, const Stream& stream) {
  using Tile = TensorMemoryTile<T, d>;
  launch(stream, flash_tensor_memory<Tile, T>,
         {grid_of(a, Tile::block_m), Size(4 * kWarpgroup),
          sizeof(TmemShared<Tile>), Tile::stages},
         tma_attention<Tile>(a, Tile::queries));
}

FA_STEP_ROW(forward, 18) {
  return row("18_tensor_memory", "B200, never run on one", half{}, bfloat16{})
      .needs(kNeedsBlackwell)
      .no_dropout()
      .head_dims(HeadDims<64, 128>{})
      .over_keys(TensorMemoryTile<half, 64>{}, 2)
      .over_keys(TensorMemoryTile<half, 128>{}, 2)
      .launch([](auto& a, auto d, auto& stream) {
        launch_tensor_memory<d>(a, stream);
      });
}

}  // namespace fa::FA_TARGET
