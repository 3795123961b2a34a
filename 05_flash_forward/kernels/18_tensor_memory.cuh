/// @file
/// FlashAttention-4 on Blackwell (B200): S, P and O are in tensor memory, and each group of warps
/// has one job. A block processes two tiles of 128 queries. One thread loads, one issues all
/// matmuls; two warpgroups compute the softmax of a tile each, a thread a row; another one rescales
/// O and writes it. A part of the exponentials is computed by FMAs.
///
/// Compiles for sm_100a with nvcc 13; right and without a finding in the lab, under our reading of
/// the PTX ISA. Never run on a B200 by us.
///
/// Source: Zadouri et al., FlashAttention-4, 2026.
#pragma once

#include "05_flash_forward/kernels/14_lazy_rescaling.cuh"
#include "common/gpu/blackwell.cuh"

namespace fa::FA_TARGET {

/// Sizes of flash_tensor_memory().
/// @tparam Type       half or bfloat16
/// @tparam head_dim   columns, at least those of the inputs: 64 or 128
/// @tparam by_fma_    of 16 exponentials so many are computed by FMAs
template <class Type, int head_dim, int by_fma_ = 4>
struct TensorMemoryTile {
  using T = Type;
  static constexpr int d = head_dim, block_n = 128, stages = 2;
  static constexpr int queries = kTensorLanes;  // of a tile: a row is a lane
  static constexpr int block_m = 2 * queries;   // of a block
  static constexpr int by_fma = by_fma_;
  using QTile = SwizzledTile<T, queries, d>;
  using KvTile = SwizzledTile<T, block_n, d>;

  /// Columns of tensor memory of a tile of queries: S, over which P is written, two elements in a
  /// column; and O.
  static constexpr int s_column(int q_tile) { return q_tile * block_n; }
  static constexpr int o_column(int q_tile) {
    return 2 * block_n + q_tile * d;
  }
};

/// Shared memory of a block. Arrays of two are by tile of queries.
template <class Tile>
struct TensorMemoryShared {
  typename Tile::QTile q[2];  // at the end O
  typename Tile::KvTile k[Tile::stages];
  typename Tile::KvTile v[Tile::stages];
  Pipeline<Tile::stages> k_pipe;
  Pipeline<Tile::stages> v_pipe;
  //! [barriers]
  Mbarrier q_full[2];       ///< Q has arrived
  Mbarrier s_full[2];       ///< Q K^T has ended
  Mbarrier p_full[2];       ///< P has been written, and O rescaled
  Mbarrier o_full[2];       ///< P V has ended
  Mbarrier factor_full[2];  ///< the factors of O have been written
  Mbarrier factor_empty[2]; ///< and read
  //! [barriers]
  float factor[2][Tile::queries];
  std::uint32_t tmem;  // address of all columns
};

/// What a block computes, and in how many tiles of keys, at least one.
struct TensorMemoryWork {
  int query0;  ///< its first query
  int head;
  int batch;
  int tiles;
};

/// 2^x by FMAs, with a relative error of at most 1.02e-4, and exactly 1 for 0;
/// below -127 it is 0 (Cody-Waite).
//! [exp2_fma]
__device__ inline float exp2_fma(float x) {
  x = fmaxf(x, -127.0f);
  // x + 1.5 2^23 has no bits behind the point: the lowest ones are n, the
  // integer next to x.
  const float rounded = x + 12582912.0f;
  const float f = x - (rounded - 12582912.0f);  // -1/2 to 1/2
  // 2^f: of the cubics with p(0) = 1 the one with the smallest relative error.
  float p = f * 0.0550089329f + 0.242210954f;
  p = f * p + 0.693282902f;
  p = f * p + 1.0f;
  return __uint_as_float(__float_as_uint(p) +
                         (__float_as_uint(rounded) << 23));  // 2^n p
}
//! [exp2_fma]

/// The thread that loads. K is a tile ahead of V: S comes before P V.
template <class Tile, class T>
__device__ void load_tensor_memory(TensorMemoryShared<Tile>& shared,
                                   const TmaAttention<T>& maps,
                                   const TensorMemoryWork& work) {
  const int kv_head = kv_head_of(maps.a, work.head);
  PipelineState<Tile::stages> k, v;
  const auto load_q = [&](int q_tile) {
    Mbarrier& full = shared.q_full[q_tile];
    full.arrive_and_expect(Tile::QTile::bytes);
    load_tile(shared.q[q_tile], maps.q, full,
              work.query0 + q_tile * Tile::queries, work.head, work.batch,
              CacheHint::kEvictFirst);
  };
  const auto load_kv = [&](auto& tiles, auto& pipe, auto& state,
                           const TensorMap& map, int tile) {
    load_tile(tiles[state.stage], map,
              pipe.producer_acquire(state, Tile::KvTile::bytes),
              tile * Tile::block_n, kv_head, work.batch,
              CacheHint::kEvictLast);
    state.advance();
  };
  load_q(0);
  load_kv(shared.k, shared.k_pipe, k, maps.k, work.tiles - 1);
  load_q(1);
#pragma unroll 1
  for (int tile = work.tiles - 1; tile >= 0; --tile) {
    if (tile > 0) load_kv(shared.k, shared.k_pipe, k, maps.k, tile - 1);
    load_kv(shared.v, shared.v_pipe, v, maps.v, tile);
  }
}

/// The thread that issues all matmuls. Each commit arrives when all matmuls before it have ended.
template <class Tile>
__device__ void issue_tensor_memory(TensorMemoryShared<Tile>& shared,
                                    int tiles) {
  using T = typename Tile::T;
  PipelineState<Tile::stages> k, v;
  const auto issue_s = [&](int q_tile) {  // S = Q K^T
    constexpr auto descriptor =
        tcgen05_descriptor<T>(Tile::block_n, Major::kK, Major::kK);
#pragma unroll
    for (int kk = 0; kk < Tile::d; kk += 16) {
      tcgen05_mma(shared.tmem + Tile::s_column(q_tile),
                  shared.q[q_tile].by_rows(0, kk),
                  shared.k[k.stage].by_rows(0, kk), descriptor, kk > 0);
    }
    tcgen05_commit(shared.s_full[q_tile]);
  };
  const auto issue_o = [&](int q_tile, bool adds) {  // O += P V
    constexpr auto descriptor =
        tcgen05_descriptor<T>(Tile::d, Major::kK, Major::kMN);
#pragma unroll
    for (int key = 0; key < Tile::block_n; key += 16) {
      tcgen05_mma(shared.tmem + Tile::o_column(q_tile),
                  shared.tmem + Tile::s_column(q_tile) + key / 2,
                  shared.v[v.stage].by_columns(key, 0), descriptor,
                  adds || key > 0);
    }
    tcgen05_commit(shared.o_full[q_tile]);
  };
  shared.k_pipe.consumer_wait(k);
  for (int q_tile = 0; q_tile < 2; ++q_tile) {
    shared.q_full[q_tile].wait(0);
    issue_s(q_tile);
  }
  //! [issue]
#pragma unroll 1
  for (int i = 0; i < tiles; ++i) {
    const bool last = i + 1 == tiles;
    if (!last) {
      tcgen05_commit(shared.k_pipe.empty[k.stage]);
      k.advance();
      shared.k_pipe.consumer_wait(k);
    }
    shared.v_pipe.consumer_wait(v);
    for (int q_tile = 0; q_tile < 2; ++q_tile) {
      shared.p_full[q_tile].wait(i % 2);
      tcgen05_fence_after();
      issue_o(q_tile, i > 0);
      if (last) continue;
      // The next S overwrites P. Only matmuls with the same accumulators are
      // known to follow one another.
      shared.o_full[q_tile].wait(i % 2);
      tcgen05_fence_after();
      issue_s(q_tile);
    }
    if (last) return;
    tcgen05_commit(shared.v_pipe.empty[v.stage]);
    v.advance();
  }
  //! [issue]
}

/// The softmax of a tile of queries by a warpgroup: a thread has a row.
template <class Tile, class T>
__device__ void softmax_tensor_memory(TensorMemoryShared<Tile>& shared,
                                      const Attention<T>& a,
                                      const TensorMemoryWork& work,
                                      int q_tile) {
  const int row = threadIdx.x % kWarpgroup;
  const int query0 = work.query0 + q_tile * Tile::queries;
  const int query = query0 + row;
  const int unmasked_tiles = visible_keys(a, query0) / Tile::block_n;
  const float exponent_scale = a.scale * kLog2E;
  const std::uint32_t s_tmem =
      tensor_quarter(shared.tmem, Tile::s_column(q_tile));
  float m = -INFINITY, l = 0;
  const auto pass_factor = [&](int i, float factor) {
    shared.factor_empty[q_tile].wait(i % 2 ^ 1);
    shared.factor[q_tile][row] = factor;
    shared.factor_full[q_tile].arrive();
  };
  //! [softmax]
#pragma unroll 1
  for (int i = 0; i < work.tiles; ++i) {
    const int key0 = (work.tiles - 1 - i) * Tile::block_n;
    shared.s_full[q_tile].wait(i % 2);
    tcgen05_fence_after();
    float s[4][32];
#pragma unroll
    for (int c = 0; c < 4; ++c) tcgen05_ld(s[c], s_tmem + 32 * c);
    tcgen05_wait_ld(s[0], s[1], s[2], s[3]);
    if (key0 >= unmasked_tiles * Tile::block_n) {
      const int visible = visible_keys(a, query) - key0;
#pragma unroll
      for (int j = 0; j < Tile::block_n; ++j) {
        if (j >= visible) s[j / 32][j % 32] = -INFINITY;
      }
    }
    float chain[4];  // four independent chains of fmaxf(), not one
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      chain[c] = s[c][0];
#pragma unroll
      for (int j = 1; j < 32; ++j) chain[c] = fmaxf(chain[c], s[c][j]);
    }
    const float largest =
        fmaxf(fmaxf(chain[0], chain[1]), fmaxf(chain[2], chain[3]));
    float rescale = 1;
    // Not for NaN: both are -infinity.
    if ((largest - m) * exponent_scale > kRescaleThreshold) {
      rescale = exp2_approx((m - largest) * exponent_scale);
      m = largest;
    }
    if (i > 0) pass_factor(i - 1, rescale);
    // P = exp2(exponent_scale (S - m)), l += the sums of P
    const float offset = exponent_offset<true>(m, exponent_scale);
    float sums[4] = {l * rescale, 0, 0, 0};
    std::uint32_t p[2][32];
#pragma unroll
    for (int j = 0; j < Tile::block_n; ++j) {
      float& x = s[j / 32][j % 32];
      x = x * exponent_scale - offset;
      x = j % 16 < Tile::by_fma ? exp2_fma(x) : exp2_approx(x);
      sums[j % 4] += x;
      if (j % 2 == 1) p[j / 64][j / 2 % 32] = pack2<T>(s[j / 32][j % 32 - 1], x);
    }
    l = sums[0] + sums[1] + (sums[2] + sums[3]);
    tcgen05_st(s_tmem, p[0]);
    tcgen05_st(s_tmem + 32, p[1]);
    tcgen05_wait_st();
    tcgen05_fence_before();
    shared.p_full[q_tile].arrive();
  }
  //! [softmax]
  pass_factor(work.tiles - 1, l == 0 ? 0 : inverse_approx(l));
  if (query < a.length_q) {
    const int index = work.batch * a.heads + work.head;
    a.lse[std::int64_t{index} * a.length_q + query] =
        l == 0 ? -INFINITY : m * a.scale + log_approx(l);
  }
}

/// Multiplies the rows of O by their factors, 32 columns at a time. A whole warp calls it.
/// @param o_tmem of this warp's quarter
template <class Tile>
__device__ void rescale_tensor_memory(std::uint32_t o_tmem, float factor) {
  tcgen05_fence_after();
#pragma unroll 1
  for (int col = 0; col < Tile::d; col += 32) {
    float o[32];
    tcgen05_ld(o, o_tmem + col);
    tcgen05_wait_ld(o);
#pragma unroll
    for (int j = 0; j < 32; ++j) o[j] *= factor;
    tcgen05_st(o_tmem + col, o);
  }
  tcgen05_wait_st();
  tcgen05_fence_before();
}

/// The warpgroup that rescales O of both tiles of queries, and writes it.
template <class Tile, class T>
__device__ void correct_tensor_memory(TensorMemoryShared<Tile>& shared,
                                      const TmaAttention<T>& maps,
                                      const TensorMemoryWork& work) {
  const int row = threadIdx.x % kWarpgroup;
  const auto o_tmem = [&](int q_tile) {
    return tensor_quarter(shared.tmem, Tile::o_column(q_tile));
  };
  const auto read_factor = [&](int i, int q_tile) {
    shared.factor_full[q_tile].wait(i % 2);
    const float factor = shared.factor[q_tile][row];
    shared.factor_empty[q_tile].arrive();
    return factor;
  };
  //! [correction]
  for (Mbarrier& full : shared.p_full) full.arrive();  // there is no O yet
#pragma unroll 1
  for (int i = 1; i < work.tiles; ++i) {
    for (int q_tile = 0; q_tile < 2; ++q_tile) {
      // S of this tile is there, so P V of the one before has ended.
      const float factor = read_factor(i - 1, q_tile);
      if (__any_sync(kAllLanes, factor != 1)) {
        rescale_tensor_memory<Tile>(o_tmem(q_tile), factor);
      }
      shared.p_full[q_tile].arrive();
    }
  }
  //! [correction]
  const int last = work.tiles - 1;
  for (int q_tile = 0; q_tile < 2; ++q_tile) {
    const float factor = read_factor(last, q_tile);
    shared.o_full[q_tile].wait(last % 2);
    tcgen05_fence_after();
#pragma unroll 1
    for (int col = 0; col < Tile::d; col += 32) {
      float o[32];
      tcgen05_ld(o, o_tmem(q_tile) + col);
      tcgen05_wait_ld(o);
#pragma unroll
      for (int j = 0; j < 32; j += 8) {
        std::uint32_t words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int c = j + 2 * i;
          words[i] = pack2<T>(factor * o[c], factor * o[c + 1]);
        }
        store4(shared.q[q_tile].at(row, col + j), as_float4(words));
      }
    }
    fence_async_proxy();  // TMA sees what this thread wrote
    named_barrier_wait(1, kWarpgroup);
    if (row > 0) continue;
    store_tile(maps.o, shared.q[q_tile], work.query0 + q_tile * Tile::queries,
               work.head, work.batch);
    bulk_commit();
  }
  if (row == 0) bulk_wait_read<0>();  // before the block ends
}

/// Attention in 16 bits by tcgen05.
/// @tparam Tile a TensorMemoryTile
template <class Tile, class T>
__global__ void __launch_bounds__(4 * kWarpgroup, 1)
    flash_tensor_memory(const __grid_constant__ TmaAttention<T> maps) {
  auto& shared = *dynamic_shared<TensorMemoryShared<Tile>>();
  const Attention<T>& a = maps.a;
  const int query0 = longest_first_m_block(a) * Tile::block_m;
  const int visible = visible_keys(a, query0 + Tile::block_m - 1);
  const TensorMemoryWork work{
      query0, static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.z),
      visible > Tile::block_n ? ceil_div(visible, Tile::block_n) : 1};
  const int warp = warp_uniform(threadIdx.x / kWarp);
  if (warp == 0) {
    tcgen05_alloc(&shared.tmem, kTensorColumns);
    tcgen05_relinquish_alloc_permit();
  }
  if (threadIdx.x == 0) {
    shared.k_pipe.init(1);
    shared.v_pipe.init(1);
    for (int q_tile = 0; q_tile < 2; ++q_tile) {
      shared.q_full[q_tile].init(1);
      shared.s_full[q_tile].init(1);
      shared.p_full[q_tile].init(2 * kWarpgroup);  // softmax and correction
      shared.o_full[q_tile].init(1);
      shared.factor_full[q_tile].init(kWarpgroup);
      shared.factor_empty[q_tile].init(kWarpgroup);
    }
    fence_barrier_init();
  }
  __syncthreads();  // the barriers and the address are there
  //! [roles]
  const int warpgroup = warp / 4;
  if (warpgroup < 2) {
    setmaxnreg_inc<192>();
    softmax_tensor_memory(shared, a, work, warpgroup);
  } else if (warpgroup == 2) {
    setmaxnreg_dec<80>();
    correct_tensor_memory(shared, maps, work);
  } else {
    setmaxnreg_dec<48>();
    const int thread = threadIdx.x % kWarpgroup;
    if (thread == 0) load_tensor_memory(shared, maps, work);
    if (thread == kWarp) issue_tensor_memory(shared, work.tiles);
  }
  //! [roles]
  __syncwarp();
  tcgen05_fence_before();
  __syncthreads();  // all warps have read their lanes
  if (warp == 0) tcgen05_dealloc(shared.tmem, kTensorColumns);
}

/// Launches the kernel with a block for 256 queries.
/// @param a with a head_dim of at most 128, for which can_use_tma() holds
template <class T>
void launch_tensor_memory(const Attention<T>& a, const Stream& stream) {
  using Tile = TensorMemoryTile<T, 128>;
  const auto queries = [&](auto* data, const RowStrides& strides) {
    return map_of_queries<T>(a, data, strides, a.head_dim, Tile::queries);
  };
  const auto keys = [&](auto* data, const RowStrides& strides) {
    return map_of_keys(a, data, strides, a.head_dim, Tile::block_n);
  };
  launch(stream, flash_tensor_memory<Tile, T>,
         {grid_of(a, Tile::block_m),
          {4 * kWarpgroup},
          sizeof(TensorMemoryShared<Tile>),
          Tile::stages},
         TmaAttention<T>{queries(a.q, a.q_strides), keys(a.k, a.k_strides),
                         keys(a.v, a.v_strides), queries(a.o, a.o_strides),
                         a});
}

FA_LAUNCH_16_BIT(forward_steps, Attention, (const Stream&),
                 launch_tensor_memory);

/// The step's row: see common/attention/host/step_row.cuh.
template <class Row>
auto forward_step(std::integral_constant<int, 18>, Row row) {
  return row("18_tensor_memory",
             "B200: S, P, O in tensor memory; never run on one", half{},
             bfloat16{})
      .needs(kNeedsBlackwell)
      .no_dropout()
      .head_dims(HeadDims<128>{})
      .over_keys(TensorMemoryTile<half, 128>{}, 2)
      .launch([](auto& a, auto, auto& stream) {
        launch_tensor_memory(a, stream);
      });
}

}  // namespace fa::FA_TARGET
