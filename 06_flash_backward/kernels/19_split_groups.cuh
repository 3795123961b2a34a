/// @file
/// Few heads of K and V. In the rungs before, a block of keys goes through all query heads of its
/// group, so there are no more blocks than tiles of K: with one head of K and V, batch 1 and 4096
/// keys 32 blocks for 132 SMs. Here the query heads of a group are divided among several blocks,
/// and the queries of a head where heads are few. Each block adds its part of dK and dV to an
/// accumulator in float32, as its registers have it. If every run must give the same bits it writes
/// the part instead, and the last kernel adds the parts, always in the same order. dQ needs nothing
/// new: each tile of queries is in one part.
///
/// Source: split-K matmuls, and NVIDIA and FlashAttention's authors, split-KV (Flash-Decoding), for
/// the same idea with keys.
#pragma once

#include "06_flash_backward/kernels/15_dependent_launch.cuh"

namespace fa::FA_TARGET {

/// A block of keys and some query heads of its group, or some queries of one.
struct NBlockPart : NBlock {
  QueryHeads heads;
  int part;  ///< of the group
};
/// Query heads of a part.
template <class T>
__device__ QueryHeads query_heads(const Attention<T>& /*a*/,
                                  const NBlockPart& block) {
  return block.heads;
}

/// One of several slices of the tiles of queries that see a block of keys.
//! [slice_of]
__device__ inline MBlocks slice_of(const MBlocks& m, int slice, int slices) {
  const int tiles = m.max - m.min;
  const int min = m.min + tiles * slice / slices;
  const int max = m.min + tiles * (slice + 1) / slices;
  // The tile to begin with keeps its place in proportion.
  const std::int64_t ahead = std::int64_t{m.start - m.min} * (max - min);
  return {min, max, min + (tiles > 0 ? static_cast<int>(ahead / tiles) : 0)};
}
//! [slice_of]

/// The part for a place in the order: the scheduler has `parts` heads for each head of K and V.
/// @param parts at most as many as query heads of a group, or a multiple of these
//! [n_block_part]
template <class T>
__device__ NBlockPart n_block_part(const Attention<T>& a, const NBlock& block,
                                   int parts) {
  const int kv_head = block.kv_head / parts, part = block.kv_head % parts;
  const int group = group_size(a);
  const int first = part * group / parts, end = (part + 1) * group / parts;
  const int count = end > first ? end - first : 1;  // 1 for slices of a head
  NBlockPart result{block, {kv_head * group + first, count}, part};
  result.kv_head = kv_head;
  if (const int slices = parts / group; slices > 1) {
    result.m_blocks = slice_of(block.m_blocks, part % slices, slices);
  }
  return result;
}
//! [n_block_part]

/// Floats of a part of dK and dV for the keys of a warpgroup: dV, then dK.
constexpr int part_floats(int columns) {
  return 2 * kKeys * columns;
}

/// Where the part of a warpgroup's keys lies in d_kv_parts. The parts of the same block of keys
/// follow one another.
/// @param key0 the keys' first, a multiple of kKeys
template <class Tile, class T>
__device__ float* d_kv_part(const AttentionGradient<T>& a, int key0,
                            int kv_head, int batch, int part, int parts) {
  const std::int64_t head = std::int64_t{batch} * a.kv_heads + kv_head;
  const std::int64_t block =
      head * ceil_div(a.length_k, Tile::block_n) + key0 / Tile::block_n;
  const int warpgroup = key0 / kKeys % kKeyWarpgroups;
  return a.d_kv_parts +
         ((block * parts + part) * kKeyWarpgroups + warpgroup) *
             part_floats(Tile::d);
}

/// What a block keeps in shared memory: rung 15's, and what registers have no room for during the
/// main loop.
template <class Tile, bool ordered>
struct SplitGroupsShared
    : std::conditional_t<ordered, OrderedTilesShared<Tile>,
                         DelayedBackwardShared<Tile>> {
  float* d_kv;  ///< where the part of warpgroup 0 lies
};

/// What an MMA warpgroup does: all tiles of queries of the part, then its dK and dV.
/// @tparam ordered whether it stores them, for an ordered sum
template <class Tile, bool ordered, class T>
__device__ void compute_n_block_part(SplitGroupsShared<Tile, ordered>& shared,
                                     const AttentionGradient<T>& a,
                                     const NBlockPart& block, int warpgroup) {
  with_warpgroup<Tile>(warpgroup, [&](auto of) {
    const int key0 = block.key0 + of * kKeys;
    DelayedMmaWarpgroup<Tile, SplitGroupsShared<Tile, ordered>> mma{
        shared, shared.k, shared.v, a, of, key0};
    mma.mainloop(block);
    //! [store_part]
    float* const d_v = shared.d_kv + of * part_floats(Tile::d);
    float* const d_k = d_v + kKeys * Tile::d;
    if constexpr (ordered) {
      store_accumulator(d_v, mma.d_v);
      store_accumulator(d_k, mma.d_k);
    } else {
      add_accumulator(d_v, mma.d_v);
      add_accumulator(d_k, mma.d_k);
    }
    //! [store_part]
  });
}

/// Parts of dK and dV, or their sums, and d_q_accum.
/// @tparam Tile    HopperBackwardTile
/// @tparam ordered whether all sums have an order; if not, blocks add to dQ as in rung 12
template <class Tile, bool ordered, class T>
__global__ void __launch_bounds__(kWarpgroup*(kKeyWarpgroups + 1), 1)
    flash_backward_split_groups(const __grid_constant__ TmaGradient<T> maps,
                                const TileScheduler scheduler) {
  auto& shared = *dynamic_shared<SplitGroupsShared<Tile, ordered>>();
  launch_dependents();
  const AttentionGradient<T>& a = maps.a;
  const int parts = scheduler.heads / a.kv_heads;
  const NBlockPart block = n_block_part(
      a, scheduled_n_block<Tile, ordered>(a, blockIdx.x, scheduler), parts);
  if (threadIdx.x == 0) {
    shared.d_kv =
        d_kv_part<Tile>(a, block.key0, block.kv_head, block.batch,
                        ordered ? block.part : 0, ordered ? parts : 1);
  }
  shared.init();
  grid_dependency_wait();
  const int warpgroup = warpgroup_index();
  if (warpgroup == kKeyWarpgroups) {
    setmaxnreg_dec<kBackwardProducerRegisters<Tile>>();
    const int warp = threadIdx.x / kWarp % 4;
    if (threadIdx.x % kWarp != 0) return;
    if (warp == 0) load_queries(shared, maps, block);
    if (warp > 0 && warp <= kKeyWarpgroups) {
      if constexpr (ordered) {
        accumulate_tiles_in_order<Tile>(shared, a, block, warp - 1);
      } else {
        store_or_reduce_d_q<Tile>(shared, a, block, warp - 1);
      }
    }
    return;
  }
  setmaxnreg_inc<kBackwardConsumerRegisters<Tile>>();
  compute_n_block_part<Tile, ordered>(shared, a, block, warpgroup);
}

/// dV, or dK, of 64 keys: the sum of the parts, rounded. Warpgroup 0 has dV, warpgroup 1 dK.
template <class Tile, class T>
__device__ void add_parts(const TmaGradient<T>& maps, int key0, int kv_head,
                          int parts) {
  auto& tiles = *dynamic_shared<typename Tile::KvTile[kKeyWarpgroups]>();
  const AttentionGradient<T>& a = maps.a;
  const int warpgroup = warpgroup_index(), batch = blockIdx.z;
  //! [add_parts]
  const float* from = d_kv_part<Tile>(a, key0, kv_head, batch, 0, parts) +
                      warpgroup * kKeys * Tile::d;
  KeyGradient<Tile> sum;
  load_accumulator(sum, from);
#pragma unroll 1
  for (int part = 1; part < parts; ++part) {
    from += kKeyWarpgroups * part_floats(Tile::d);
    KeyGradient<Tile> x;
    load_accumulator(x, from);
#pragma unroll
    for (int i = 0; i < Tile::d / 2; ++i) sum[i] += x[i];
  }
  //! [add_parts]
  const bool has_d_v = warpgroup == 0;
  store_gradient(has_d_v ? maps.d_v : maps.d_k, sum, has_d_v ? 1 : a.scale,
                 tiles[warpgroup], key0, kv_head, batch);
  if (threadIdx.x % kWarpgroup == 0) {
    bulk_wait_read<0>();  // before the block's shared memory is freed
  }
}

/// dQ as in the rungs before, then dK and dV: blockIdx.y is a query head, or behind these a head of
/// K and V; blockIdx.x counts tiles of queries, or 64 keys each.
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup* kKeyWarpgroups)
    postprocess_split_groups(const __grid_constant__ TmaGradient<T> maps,
                             int parts) {
  grid_dependency_wait();  // for the sums of dQ and the parts of dK and dV
  const AttentionGradient<T>& a = maps.a;
  const int index = blockIdx.x, head = blockIdx.y;
  if (head < a.heads) {
    if (index * Tile::block_m < a.length_q) postprocess_m_block<Tile>(maps);
  } else if (index * kKeys < a.length_k) {
    add_parts<Tile>(maps, index * kKeys, head - a.heads, parts);
  }
}

/// The SMs that share the blocks of a pass; the lab has as many as an H100.
inline int sms_of(const DeviceProperties& device) {
  return device.compute_capability == 0 ? 132 : device.sm_count;
}

/// How long blocks of keys take on some SMs when each group has so many parts: in rows of queries
/// that an SM processes, with 128 more for the ends of a block, and 512 for a part of dK and dV
/// that is written and read once.
//! [cost]
template <class T>
double cost_of_parts(const Attention<T>& a, int block_n, int parts, int sms) {
  constexpr double ends = 128, traffic = 512;
  const double queries = a.length_q, keys = a.length_k;
  const double blocks =
      1.0 * ceil_div(a.length_k, block_n) * a.batch * a.kv_heads * parts;
  const int group = group_size(a);
  const double heads =  // of a block
      parts > group ? 1.0 * group / parts : ceil_div(group, parts);
  const double more = parts > 1 ? traffic * blocks / sms : 0;
  if (!a.causal) {
    return std::ceil(blocks / sms) * (heads * queries + ends) + more;
  }
  // The longest blocks come first and short ones fill the SMs, but not to the
  // end: a third of a longest block is lost.
  const double seen = std::min(queries, keys);
  const double scores = seen * (keys - seen / 2) * a.batch * a.heads;
  const double average = (scores / block_n + blocks * ends) / sms;
  const double longest = heads * seen + ends;
  return std::max(longest, average + longest / 3) + more;
}
//! [cost]

/// The number of parts with the least cost: 1 unless more save 5 % at least. More than eight blocks
/// for each SM would not.
/// @param slices of a head at most
/// @param cost   cost(parts)
template <class T, class Cost>
int cheapest_parts(const Attention<T>& a, int block_n, int sms, int slices,
                   Cost cost) {
  const std::int64_t blocks =
      std::int64_t{ceil_div(a.length_k, block_n)} * a.batch * a.kv_heads;
  const int group = group_size(a);
  const auto most =
      std::min<std::int64_t>(std::int64_t{group} * slices, 8 * sms / blocks);
  int best = 1;
  double least = 0.95 * cost(1);
  for (int parts = 2; parts <= most; parts += parts < group ? 1 : group) {
    const double of_parts = cost(parts);
    if (of_parts >= least) continue;
    best = parts;
    least = of_parts;
  }
  return best;
}

/// Into how many parts the query heads of a group are divided, or their slices, which have 512
/// queries at least.
template <class T>
int parts_of_groups(const Attention<T>& a,
                    const DeviceProperties& device = device_properties()) {
  constexpr int block_n = kKeyWarpgroups * kKeys;
  const int sms = sms_of(device);
  const int slices = group_size(a) > 1 ? std::max(a.length_q / 512, 1) : 1;
  return cheapest_parts(a, block_n, sms, slices, [&](int parts) {
    return cost_of_parts(a, block_n, parts, sms);
  });
}

/// Floats of d_kv_parts; none for one part.
/// @param block_n keys of a block
/// @param columns of dK and dV together
/// @param stored  whether each part is, or their sum only
template <class T>
std::int64_t d_kv_floats(const Attention<T>& a, int block_n, int columns,
                         int parts, bool stored = true) {
  const std::int64_t keys =
      std::int64_t{ceil_div(a.length_k, block_n)} * block_n;
  return parts == 1
             ? 0
             : keys * a.batch * a.kv_heads * columns * (stored ? parts : 1);
}

/// The problem with a head of K and V for each part, for a scheduler.
//! [with_parts]
template <class T>
AttentionGradient<T> with_parts(AttentionGradient<T> a, int parts) {
  a.kv_heads *= parts;
  a.heads = std::max(a.heads, a.kv_heads);  // slices of heads
  return a;
}
//! [with_parts]

/// The first kernel of a pass: as in rung 15, and zeros for the sums of dK and dV.
/// @param floats of these, a multiple of 4; 0 where parts are stored
template <int d, class T>
__global__ void preprocess_split_groups(AttentionGradient<T> a,
                                        std::int64_t floats) {
  launch_dependents();
  preprocess_rows_and_counter<d>(a);
  const std::int64_t row = blockIdx.y + std::int64_t{gridDim.y} * blockIdx.z;
  const std::int64_t blocks = std::int64_t{gridDim.x} * gridDim.y * gridDim.z;
  std::int64_t i =
      ((row * gridDim.x + blockIdx.x) * kPreprocessThreads + threadIdx.x) * 4;
  for (; i < floats; i += blocks * kPreprocessThreads * 4) {
    store4(a.d_kv_parts + i, make_float4(0, 0, 0, 0));
  }
}

/// Launches the rung: rung 15 for one part.
/// @tparam d             64, 96 or 128, at least head_dim
/// @param  a             with a Workspace{d, true, d_kv_floats(a, 128, 2 * d, parts, deterministic)}
/// @param  parts         of each group: see n_block_part()
/// @param  deterministic whether every run gives the same bits
/// @param  stream        where
template <int d, class T>
void launch_backward_split_groups(const AttentionGradient<T>& a, int parts,
                                  bool deterministic, const Stream& stream) {
  if (parts == 1) {
    launch_backward_dependent<d>(a, deterministic, stream);
    return;
  }
  using Tile = HopperBackwardTileFor<T, d>;
  launch(stream, preprocess_split_groups<d, T>, preprocess_launch<d>(a), a,
         deterministic
             ? std::int64_t{0}
             : d_kv_floats(a, Tile::block_n, 2 * d, parts, deterministic));
  const TileScheduler scheduler =
      n_block_scheduler<Tile>(with_parts(a, parts), deterministic);
  const TmaGradient<T> maps = tma_gradient<Tile>(a);
  Launch sizes{grid_of_work(scheduler),
               {kWarpgroup * (kKeyWarpgroups + 1)},
               deterministic ? sizeof(SplitGroupsShared<Tile, true>)
                             : sizeof(SplitGroupsShared<Tile, false>),
               Tile::stages};
  sizes.with_pdl = true;
  launch(stream,
         deterministic ? flash_backward_split_groups<Tile, true, T>
                       : flash_backward_split_groups<Tile, false, T>,
         sizes, maps, scheduler);
  sizes = tma_postprocess_launch<Tile>(a);
  sizes.grid.x = std::max(sizes.grid.x,
                          static_cast<unsigned>(ceil_div(a.length_k, kKeys)));
  sizes.grid.y += static_cast<unsigned>(a.kv_heads);
  sizes.shared_bytes = std::max(
      sizes.shared_bytes, kKeyWarpgroups * sizeof(typename Tile::KvTile));
  sizes.with_pdl = true;
  launch(stream, postprocess_split_groups<Tile, T>, sizes, maps,
         deterministic ? parts : 1);
}

}  // namespace fa::FA_TARGET
