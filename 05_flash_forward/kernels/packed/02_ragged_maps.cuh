/// @file
/// Packed sequences in the persistent kernel of step 14. A tile of queries or keys at the end of a
/// sequence would reach into the next one; the maps of TMA end where a sequence ends instead, so
/// that nothing else changes: see common/attention/packed_maps.cuh.
#pragma once

#include "05_flash_forward/library/hopper_kernel.cuh"
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

/// What fa_forward_packed() computes in flash_hopper(): attention within each sequence.
//! [packed]
template <class T>
struct PackedWork : PlainWork {
  template <class Tile>
  using Shared = PackedShared<Tile>;
  /// A tile of a sequence: `batch` is 0, as its maps have one.
  template <class Tile>
  struct Own : WorkTile {
    PackedRange q, k;
  };
  TmaAttention<T, RaggedMap> all;
  PackedSequences sequences;
  unsigned* tile_counter;

  /// @{ As ForwardWork has it.
  template <class Tile>
  __device__ void produce(PackedShared<Tile>& shared) const {
    static_assert(Tile::block_m == kSlotRows, "a tile is a slot");
    const int thread = threadIdx.x % kWarpgroup;
    if (thread == 0) load_packed(shared, all);
    if (thread == kWarp) {
      schedule_packed(shared, all.a, sequences, tile_counter);
    }
  }
  template <class Tile>
  __device__ bool next(PackedShared<Tile>& shared,
                       const PipelineState<1>& read, int,
                       Own<Tile>& own) const {
    const auto uniform = [](const PackedRange& range) {
      return PackedRange{warp_uniform(range.begin),
                         warp_uniform(range.length)};
    };
    shared.work_pipe.consumer_wait(read);
    own.q = uniform(shared.q_range);
    own.k = uniform(shared.k_range);
    return next_work_tile(shared, read, own);
  }
  template <class O>
  __device__ TmaAttention<T, SequenceMap> maps(const O& own) const {
    return sequence_of(all, own.q, own.k, own.head);
  }
  template <class Tile, class Maps>
  __device__ auto scores(PackedShared<Tile>&, const Maps& maps, int warpgroup,
                         const Own<Tile>& own) const {
    return causal_scores<Tile>(maps.a, own.block, warpgroup);
  }
  /// @}
};
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
  launch_hopper<Tile>(
      stream, persistent_blocks({slots, a.heads, a.heads, 0}),
      PackedWork<T>{
          {},
          {of_queries(a.q, a.q_strides), of_keys(a.k, a.k_strides),
           of_keys(a.v, a.v_strides), of_queries(a.o, a.o_strides), a},
          sequences,
          tile_counter});
}

}  // namespace fa::FA_TARGET
