/// @file
/// Packed sequences in the persistent kernel of step 14. A tile of queries or keys at the end of a
/// sequence would reach into the next one; the maps of TMA end where a sequence ends instead, so
/// that nothing else changes: see common/attention/packed_maps.cuh.
#pragma once

#include "05_flash_forward/library/hopper_loop.cuh"
#include "common/attention/packed_maps.cuh"

namespace fa::FA_TARGET {

/// The maps of one sequence.
template <class T>
__device__ TmaAttention<T, SequenceMap> sequence_of(
    const TmaAttention<T, RaggedMap>& maps, const PackedRange& q,
    const PackedRange& k, int head) {
  return {sequence_map(maps.q, q), sequence_map(maps.k, k),
          sequence_map(maps.v, k), sequence_map(maps.o, q),
          sequence_of(maps.a, q, k, head)};
}

/// Shared memory of a block: step 14's, and where the sequence of each tile lies.
template <class Tile>
struct PackedShared : PersistentShared<Tile> {
  PackedRange q_range;
  PackedRange k_range;
};

/// schedule_tiles() of packed sequences. Empty slots are skipped.
//! [schedule]
template <class Tile, class T>
__device__ void schedule_packed(PackedShared<Tile>& shared,
                                const Attention<T>& a,
                                const PackedSequences& sequences,
                                unsigned* tile_counter) {
  const TileCounter counter{tile_counter, sequences.q.slots() * a.heads};
  PipelineState<1> state;
  int tile_index = blockIdx.x;
  for (; tile_index < counter.tiles; tile_index = counter.next(tile_index)) {
    const WorkTile work = packed_tile(sequences.q, tile_index, a.heads,
                                      a.causal, 4 * gridDim.x);
    if (work.block < 0) continue;
    shared.q_range = sequences.q.range(work.batch);
    shared.k_range = sequences.k.range(work.batch);
    pass_tile(shared, state, {work.block, work.head, 0});
  }
  pass_tile(shared, state, {-1, 0, 0});
  counter.finish(tile_index);
}
//! [schedule]

/// The thread that loads Q, K and V.
template <class Tile, class T>
__device__ void load_packed(PackedShared<Tile>& shared,
                            const TmaAttention<T, RaggedMap>& maps) {
  PipelineState<1> read;
  ProducerState<Tile> write;
  for (;; read.advance(), write.q.advance()) {
    shared.work_pipe.consumer_wait(read);
    const WorkTile work = shared.work;
    const PackedRange q = shared.q_range, k = shared.k_range;
    shared.work_pipe.consumer_release(read);
    if (work.block < 0) return;
    const auto own = sequence_of(maps, q, k, work.head);
    load_work_tile(shared, own, work, loaded_tiles<Tile>(own.a, work.block),
                   write);
  }
}

/// Attention in 16 bits within each of several packed sequences. A consumer warpgroup processes 64
/// queries of each tile.
/// @tparam Tile a HopperTile
/// @tparam T    half or bfloat16
//! [packed]
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(Tile::consumers + 1), 1)
    flash_packed_persistent(
        const __grid_constant__ TmaAttention<T, RaggedMap> maps,
        const PackedSequences sequences, unsigned* tile_counter) {
  static_assert(Tile::block_m == kSlotRows, "a tile is a slot");
  auto& shared = *dynamic_shared<PackedShared<Tile>>();
  init_barriers(shared);
  const int warpgroup = warpgroup_index();
  if (warpgroup == Tile::consumers) {  // the producers
    setmaxnreg_dec<kProducerRegisters<Tile>>();
    const int thread = threadIdx.x % kWarpgroup;
    if (thread == 0) load_packed(shared, maps);
    if (thread == kWarp) {
      schedule_packed(shared, maps.a, sequences, tile_counter);
    }
    return;
  }
  setmaxnreg_inc<kConsumerRegisters<Tile>>();
  ConsumerState<Tile> read;
  if (warpgroup == Tile::consumers - 1) {
    scheduler_barrier_arrive<Tile>(warpgroup);  // warpgroup 0 is first
  }
  PendingStore<Tile> last_store{shared, warpgroup};
  const auto uniform = [](const PackedRange& range) {
    return PackedRange{warp_uniform(range.begin), warp_uniform(range.length)};
  };
  WorkTile work;
  for (;; read.next_tile()) {
    shared.work_pipe.consumer_wait(read.work);
    const PackedRange q = uniform(shared.q_range);
    const PackedRange k = uniform(shared.k_range);
    if (!next_work_tile(shared, read.work, work)) break;
    const auto own = sequence_of(maps, q, k, work.head);
    const int query0 = work.block * Tile::block_m + warpgroup * kQueries;
    WarpgroupOutput<Tile> o = {};
    RowState rows = empty_row_state();
    shared.q_pipe[warpgroup].consumer_wait(read.q);
    hopper_mainloop<Tile>(o, rows, shared, read, own.a, query0,
                          loaded_tiles<Tile>(own.a, work.block), last_store,
                          warpgroup);
    last_store.issued(
        write_output<Tile>(own, o, rows, shared.q[read.q.stage][warpgroup],
                           query0, work.head, 0),
        read.q);
  }
  last_store.release_q();
  if (warpgroup == 0) {
    scheduler_barrier_sync<Tile>(warpgroup);  // the last arrival
  }
}
//! [packed]

/// Launches the kernel with a block for each SM, or for each slot if these are fewer.
/// @param a            with a batch of 1, and all tokens as lengths, for which can_use_packed_tma()
///                     holds
/// @param tile_counter as in launch_persistent()
template <class T>
void launch_packed_persistent(const Attention<T>& a,
                              const PackedSequences& sequences,
                              const Stream& stream, unsigned* tile_counter) {
  using Tile = HopperTile128<T>;
  const auto of_queries = [&](const T* data, const RowStrides& strides) {
    return ragged_map(data, {a.length_q, a.heads, a.head_dim},
                      {strides.row, strides.head}, kQueries);
  };
  const auto of_keys = [&](const T* data, const RowStrides& strides) {
    return ragged_map(data, {a.length_k, a.kv_heads, a.head_dim},
                      {strides.row, strides.head}, Tile::block_n);
  };
  const int slots = sequences.q.slots();
  launch(stream, flash_packed_persistent<Tile, T>,
         {{persistent_blocks({slots, a.heads, a.heads, 0})},
          {kWarpgroup * (Tile::consumers + 1)},
          sizeof(PackedShared<Tile>),
          Tile::stages},
         TmaAttention<T, RaggedMap>{
             of_queries(a.q, a.q_strides), of_keys(a.k, a.k_strides),
             of_keys(a.v, a.v_strides), of_queries(a.o, a.o_strides), a},
         sequences, tile_counter);
}

}  // namespace fa::FA_TARGET
