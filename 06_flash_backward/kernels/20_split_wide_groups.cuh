/// @file
/// Few heads of K and V with more than 128 columns: the query heads of a group are divided as in
/// step 19, in the blocks of keys of step 13 and in the pairs of blocks of step 18. Their sums have
/// other shapes, so a kernel of its own adds the parts, 64 columns in a block.
#pragma once

#include "06_flash_backward/kernels/13_wide_heads.cuh"
#include "06_flash_backward/kernels/18_block_pairs.cuh"
#include "06_flash_backward/kernels/group_parts.cuh"
#include "common/attention/shape.hpp"

namespace fa::FA_TARGET {

/// Keys of a block of step 18.
constexpr int kPairKeys = 96;

/// Floats of a block's part of dK and dV: dV, then dK.
template <class Tile>
constexpr int kWidePartFloats = Tile::block_n*(Tile::d + Tile::columns_v);

/// Where the part of a block lies in d_kv_parts. The parts of the same keys follow one another.
template <class Tile, class T>
__device__ float* wide_part(const AttentionGradient<T>& a,
                            const NBlock& block, int part, int parts) {
  const std::int64_t head =
      std::int64_t{block.batch} * a.kv_heads + block.kv_head;
  const std::int64_t keys =
      head * ceil_div(a.length_k, Tile::block_n) + block.key0 / Tile::block_n;
  return a.d_kv_parts + (keys * parts + part) * kWidePartFloats<Tile>;
}

/// Shared memory of a block, and what registers have no room for during the main loop.
template <class Shared>
struct WidePartShared : Shared {
  float* d_kv;  ///< where the part of the block lies
};

/// A block of step 13 that owns keys: a part of dK and dV.
template <class Tile, class T>
__device__ void wide_keys_part(const TmaGradient<T>& maps,
                               const NBlockPart& block, int parts) {
  auto& shared = *dynamic_shared<WidePartShared<WideKeysShared<Tile>>>();
  if (threadIdx.x == 0) {
    shared.d_kv = wide_part<Tile>(maps.a, block, block.part, parts);
  }
  shared.init();
  const int warpgroup = warpgroup_index();
  if (warpgroup == kKeyWarpgroups) {
    setmaxnreg_dec<kBackwardProducerRegisters<Tile>>();
    if (threadIdx.x % kWarpgroup == 0) {
      load_wide_queries<Tile>(shared, maps, block);
    }
    return;
  }
  setmaxnreg_inc<kBackwardConsumerRegisters<Tile>>();
  if (warpgroup == 0) {
    PdVWarpgroup<Tile> mma{shared, maps.a, block.key0};
    wide_mainloop<Tile>(mma, block);
    store_accumulator(shared.d_kv, mma.d_v);
  } else {
    DSdKWarpgroup<Tile> mma{shared, maps.a};
    wide_mainloop<Tile>(mma, block);
    store_accumulator(shared.d_kv + Tile::block_n * Tile::columns_v, mma.d_k);
  }
}

/// dQ, and parts of dK and dV: the kernel of step 13, with blocks of keys as above.
/// @tparam Tile WideTile
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(kKeyWarpgroups + 1), 1)
    flash_backward_wide_parts(const __grid_constant__ TmaGradient<T> maps,
                              const WideOrder order) {
  const TileScheduler& front = order.keys_first ? order.keys : order.queries;
  const int index = blockIdx.x, of_front = front.total_heads * front.blocks;
  const bool behind = index >= of_front;
  const int tile_index = behind ? index - of_front : index;  // of its kind
  if (behind == order.keys_first) {
    const WorkTile work = work_tile(tile_index, order.queries);
    wide_queries_block<Tile>(maps, wide_m_block<Tile>(maps.a, work));
  } else {
    const int parts = order.keys.heads / maps.a.kv_heads;
    const NBlock block =
        longest_first_n_block<Tile>(maps.a, tile_index, order.keys);
    wide_keys_part<Tile>(maps, n_block_part(maps.a, block, parts), parts);
  }
}

/// Parts of dK and dV, and additions to d_q_accum: the kernel of step 18.
/// @tparam Tile PairTile
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(kKeyWarpgroups + 1), 1)
    flash_backward_pair_parts(const __grid_constant__ PairGradient<T> maps,
                              const TileScheduler scheduler) {
  const AttentionGradient<T>& a = maps.a;
  const int parts = scheduler.heads / a.kv_heads;
  NBlockPart block = n_block_part(
      a, spread_n_block<PairKeys<Tile>>(a, blockIdx.x / 2, scheduler), parts);
  const int rank = cluster_rank();
  block.key0 += rank * Tile::block_n;
  auto& shared = *dynamic_shared<WidePartShared<PairShared<Tile>>>();
  if (threadIdx.x == 0) {
    const bool has_keys = block.key0 < a.length_k;
    shared.d_kv =
        has_keys ? wide_part<Tile>(a, block, block.part, parts) : nullptr;
  }
  shared.init();
  pair_block<Tile>(shared, maps, block, rank, [&](const auto& mma) {
    if (shared.d_kv == nullptr) return;
    float* to =
        shared.d_kv + (mma.has_d_v ? 0 : Tile::block_n * Tile::columns_v);
#pragma unroll
    for (const auto& chunk : mma.sums.of) {
      store_accumulator(to, chunk);
      to += 64 * Tile::block_n;
    }
  });
}

/// The sum of the parts of 64 columns of dV or dK, rounded: of 64 keys as the registers of step 13
/// had it, or of 96 keys, transposed, as those of step 18.
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup)
    add_wide_parts(const __grid_constant__ TmaGradient<T> maps, int parts) {
  using ChunkTile = SwizzledTile<T, Tile::block_n, 64>;
  auto& tile = *dynamic_shared<ChunkTile>();
  const AttentionGradient<T>& a = maps.a;
  constexpr int chunks = (Tile::columns_v + Tile::d) / 64;
  const int chunk = blockIdx.x % chunks;
  const int key0 = blockIdx.x / chunks * Tile::block_n;
  const int head = blockIdx.y, batch = blockIdx.z;
  const NBlock block{key0, head, batch, {}};
  const float* from =
      wide_part<Tile>(a, block, 0, parts) + chunk * 64 * Tile::block_n;
  float sum[Tile::block_n / 2];
  load_accumulator(sum, from);
#pragma unroll 1
  for (int part = 1; part < parts; ++part) {
    from += kWidePartFloats<Tile>;
    float x[Tile::block_n / 2];
    load_accumulator(x, from);
#pragma unroll
    for (int i = 0; i < Tile::block_n / 2; ++i) sum[i] += x[i];
  }
  const bool has_d_v = chunk < Tile::columns_v / 64;
  const TensorMap& map = has_d_v ? maps.d_v : maps.d_k;
  const float factor = has_d_v ? 1 : a.scale;
  const int col = 64 * chunk - (has_d_v ? 0 : Tile::columns_v);
  if constexpr (Tile::block_n == kKeys) {
    store_gradient(map, sum, factor, tile, key0, head, batch, col);
  } else {
    store_transposed_chunk<Tile>(tile, sum, factor, 0);
    fence_async_proxy();  // TMA sees what this thread wrote
    __syncthreads();
    if (threadIdx.x == 0) {
      store_tile(map, tile, key0, head, batch, col);
      bulk_commit();
    }
  }
  if (threadIdx.x == 0) bulk_wait_read<0>();
}
/// Launches it.
template <class Tile, class T>
void launch_add_wide_parts(const TmaGradient<T>& maps, int parts,
                           const Stream& stream) {
  constexpr int chunks = (Tile::columns_v + Tile::d) / 64;
  Size grid = grid_of_keys(maps.a, Tile::block_n);
  grid.x *= chunks;
  launch(stream, add_wide_parts<Tile, T>,
         {grid, kWarpgroup, sizeof(SwizzledTile<T, Tile::block_n, 64>)}, maps,
         parts);
}

/// cost_of_parts() for step 13. In matmuls of 64 queries and 64 keys a block of keys has 4, one of
/// 128 queries 6 of half as many keys each: see wide_order(). The blocks of queries fill the SMs
/// beside the longest blocks of keys, with or without a mask.
template <class T>
double cost_of_wide_parts(const Attention<T>& a, int parts, int sms) {
  constexpr double ends = 128, traffic = 256;
  const double queries = a.length_q, keys = a.length_k;
  const double seen = a.causal ? std::min(queries, keys) : queries;
  const double scores =
      seen * (keys - (a.causal ? seen / 2 : 0)) * a.batch * a.heads;
  const double blocks =
      1.0 * ceil_div(a.length_k, kKeys) * a.batch * a.kv_heads * parts;
  const double all = scores * (1.0 / 64 + 1.5 / 128) + blocks * ends;
  const double heads = ceil_div(group_size(a), parts);  // of a block
  return std::max(heads * seen + ends, all / sms) +
         (parts > 1 ? traffic * blocks / sms : 0);
}

/// parts_of_groups() for step 13.
template <class T>
int parts_of_wide_groups(
    const Attention<T>& a,
    const DeviceProperties& device = device_properties()) {
  const int sms = sms_of(device);
  return cheapest_parts(a, kKeys, sms, 1, [&](int parts) {
    return cost_of_wide_parts(a, parts, sms);
  });
}
/// The same for step 18, where two SMs share a block of keys.
template <class T>
int parts_of_pair_groups(
    const Attention<T>& a,
    const DeviceProperties& device = device_properties()) {
  const int pairs = std::max(sms_of(device) / 2, 1);
  return cheapest_parts(a, 2 * kPairKeys, pairs, 1, [&](int parts) {
    return cost_of_parts(a, 2 * kPairKeys, parts, pairs);
  });
}

/// Launches step 13 with divided groups.
/// @tparam columns_v d, or 128, at least head_dim_v
/// @param  a         with a Workspace{0, false, d_kv_floats(a, 64, d + columns_v, parts)}
/// @param  parts     of each group: two or more, at most as many as it has query heads
template <int d, int columns_v, class T>
void launch_backward_split_wide(const AttentionGradient<T>& a, int parts,
                                const Stream& stream) {
  using Tile = WideTile<T, d, columns_v>;
  launch(stream, preprocess_16_bit<d, T>, preprocess_launch<d>(a), a);
  const TmaGradient<T> maps = tma_gradient<Tile>(a);
  const WideOrder order = wide_order<Tile>(with_parts(a, parts));
  launch(stream, flash_backward_wide_parts<Tile, T>,
         {grid_of_work(order.queries).x + grid_of_work(order.keys).x,
          kWarpgroup * (kKeyWarpgroups + 1),
          std::max(sizeof(WideQueriesShared<Tile>),
                   sizeof(WidePartShared<WideKeysShared<Tile>>)),
          Tile::stages},
         maps, order);
  launch_add_wide_parts<Tile>(maps, parts, stream);
}

/// Launches step 18 with divided groups.
/// @tparam columns_v columns of V, dO and dV in shared memory: 128 or 192
/// @param  a         with a Workspace{192, false, d_kv_floats(a, 96, 192 + columns_v, parts)}
/// @param  parts     of each group: two or more, at most as many as it has query heads
template <int columns_v, class T>
void launch_backward_split_pairs(const AttentionGradient<T>& a, int parts,
                                 const Stream& stream) {
  using Tile = PairTile<T, columns_v>;
  launch(stream, preprocess_16_bit<Tile::d, T>, preprocess_launch<Tile::d>(a),
         a);
  const PairGradient<T> maps = pair_gradient<Tile>(a);
  const TileScheduler scheduler =
      n_block_scheduler<PairKeys<Tile>>(with_parts(a, parts), false, 2);
  launch(stream, flash_backward_pair_parts<Tile, T>,
         {2 * grid_of_work(scheduler).x, kWarpgroup * (kKeyWarpgroups + 1),
          sizeof(WidePartShared<PairShared<Tile>>), Tile::stages, false, 2},
         maps, scheduler);
  launch_postprocess_columns<Tile, T>(maps, stream);
  launch_add_wide_parts<Tile>(maps, parts, stream);
}

FA_LAUNCH_16_BIT(backward_wide, AttentionGradient, (int, const Stream&),
                 launch_backward_split_wide, (192, 192), (256, 256),
                 (kMlaHeadDim, kMlaHeadDimV));
FA_LAUNCH_16_BIT(backward_wide, AttentionGradient, (int, const Stream&),
                 launch_backward_split_pairs, (kMlaHeadDimV), (192));

FA_STEP_ROW(backward, 20) {
  return row("20_split_wide_groups", "the same with wide heads", half{},
             bfloat16{})
      .hopper()
      .any_order()
      .head_dims(HeadDims<kTransposedColumns, 256>{})
      .from(kWideHeads)
      .mla()
      .over_queries(PairTile<half, 192>{}, 2)
      .over_queries(PairTile<half, kMlaHeadDimV>{}, 2)
      .cluster(2)
      .tile(kWideQueries, kKeys, 2, 2, 256)
      .memory_is("776 N", [](auto n, auto d) { return (4 * d + 8) * n; })
      .workspace([](const auto& a, auto d) {
        if constexpr (d == kTransposedColumns) {
          return Workspace{
              d, false,
              d_kv_floats(a, kPairKeys, d + d.v, parts_of_pair_groups(a))};
        } else {
          return Workspace{
              0, false,
              d_kv_floats(a, kKeys, d + d.v, parts_of_wide_groups(a))};
        }
      })
      .launch([](auto& a, auto d, auto& stream) {
        if constexpr (d == kTransposedColumns) {
          const int parts = parts_of_pair_groups(a);
          if (parts == 1) {
            launch_backward_pairs<d.v>(a, stream);
          } else {
            launch_backward_split_pairs<d.v>(a, parts, stream);
          }
        } else {
          const int parts = parts_of_wide_groups(a);
          if (parts == 1) {
            launch_backward_wide_heads<d, d.v>(a, stream);
          } else {
            launch_backward_split_wide<d, d.v>(a, parts, stream);
          }
        }
      });
}

}  // namespace fa::FA_TARGET
