/// @file
/// Few heads of K and V. In the steps before, a block of keys goes through all query heads of its
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

#include "06_flash_backward/kernels/11_ordered_dq.cuh"
#include "06_flash_backward/kernels/12_store_then_reduce.cuh"
#include "06_flash_backward/kernels/15_dependent_launch.cuh"
#include "06_flash_backward/kernels/group_parts.cuh"

namespace fa::FA_TARGET {

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

/// What a block keeps in shared memory: what step 10 or step 15 keeps, and what registers have no
/// room for during the main loop.
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
/// @tparam ordered whether all sums have an order; if not, blocks add to dQ as in step 12
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
  const auto add = [&](int part) {
    if constexpr (ordered) {
      accumulate_tiles_in_order<Tile>(shared, a, block, part);
    } else {
      store_or_reduce_d_q<Tile>(shared, a, block, part, a.causal);
    }
  };
  specialize_warps<Tile>(shared, maps, block, add, [&](int warpgroup) {
    compute_n_block_part<Tile, ordered>(shared, a, block, warpgroup);
  });
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

/// dQ as in the steps before, then dK and dV: blockIdx.y is a query head, or behind these a head of
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

/// The first kernel of a pass: what step 11 computes of each row, and zeros for the sums of dK and
/// dV. The next kernel may start at once, as in step 15.
/// @param floats of these, a multiple of 4; 0 where parts are stored
template <int d, class T>
__global__ void preprocess_split_groups(AttentionGradient<T> a,
                                        std::int64_t floats) {
  launch_dependents();
  preprocess_rows_and_semaphores<d>(a);
  const std::int64_t row = blockIdx.y + std::int64_t{gridDim.y} * blockIdx.z;
  const std::int64_t blocks = std::int64_t{gridDim.x} * gridDim.y * gridDim.z;
  std::int64_t i =
      ((row * gridDim.x + blockIdx.x) * kPreprocessThreads + threadIdx.x) * 4;
  for (; i < floats; i += blocks * kPreprocessThreads * 4) {
    store4(a.d_kv_parts + i, make_float4(0, 0, 0, 0));
  }
}

/// Launches the step.
/// @param a             with a Workspace{d, true, d_kv_floats(a, 128, 2 * d, parts, deterministic)}
/// @param parts         of each group: two or more, see n_block_part()
/// @param deterministic whether every run gives the same bits
template <int d, class T>
void launch_backward_split_groups(const AttentionGradient<T>& a, int parts,
                                  bool deterministic, const Stream& stream) {
  using Tile = HopperBackwardTileFor<T, d>;
  launch(stream, preprocess_split_groups<d, T>, preprocess_launch<d>(a), a,
         deterministic
             ? std::int64_t{0}
             : d_kv_floats(a, Tile::block_n, 2 * d, parts, deterministic));
  const TileScheduler scheduler =
      n_block_scheduler<Tile>(with_parts(a, parts), deterministic);
  const TmaGradient<T> maps = tma_gradient<Tile>(a);
  Launch sizes{grid_of_work(scheduler), kWarpgroup * (kKeyWarpgroups + 1),
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

FA_LAUNCH_16_BIT(backward_hopper, AttentionGradient,
                 (int, bool, const Stream&), launch_backward_split_groups,
                 (64), (96), (128));

FA_STEP_ROW(backward, 19) {
  return row("19_split_groups", "query heads of a group divided", half{},
             bfloat16{})
      .hopper()
      .any_order()
      .head_dims(HeadDims<64, 96, 128>{})
      .over_queries(HopperBackwardTileFor<half, 64>{}, 2)
      .over_queries(HopperBackwardTileFor<half, 96>{}, 2)
      .over_queries(HopperBackwardTileFor<half, 128>{}, 2)
      .memory_is("4 N D + 8 N + N / 8 + 4",
                 [](auto n, auto d) { return 4 * n * d + 8 * n + n / 8 + 4; })
      .workspace([](const auto& a, auto d) {
        return Workspace{d, true,
                         d_kv_floats(a, kKeyWarpgroups * kKeys, 2 * d,
                                     parts_of_groups(a), false)};
      })
      .launch([](auto& a, auto d, auto& stream) {
        const int parts = parts_of_groups(a);
        if (parts == 1) {
          launch_backward_dependent<d>(a, false, stream);
        } else {
          launch_backward_split_groups<d>(a, parts, false, stream);
        }
      });
}

}  // namespace fa::FA_TARGET
