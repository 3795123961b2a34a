/// @file
/// Gradients of packed sequences with TMA and wgmma: step 15 without its persistent blocks, with
/// maps that end where a sequence ends, as lesson 05's packed/02_ragged_maps.cuh.
#pragma once

#include "06_flash_backward/kernels/packed/sequence_gradient.cuh"
#include "06_flash_backward/library/hopper_block.cuh"
#include "common/attention/packed_maps.cuh"

namespace fa::FA_TARGET {

/// TmaGradient of one sequence.
template <class T>
struct SequenceGradient {
  SequenceMap q;
  SequenceMap d_o;
  SequenceMap k;
  SequenceMap v;
  SequenceMap d_k;
  SequenceMap d_v;
  SequenceMap d_q;
  const AttentionGradient<T>& a;
};
/// Makes it.
/// @param own the gradients of this sequence
template <class T>
__device__ SequenceGradient<T> sequence_of(
    const TmaGradient<T, RaggedMap>& maps, const PackedSequences& sequences,
    int sequence, const AttentionGradient<T>& own) {
  const PackedRange q = sequences.q.range(sequence);
  const PackedRange k = sequences.k.range(sequence);
  return {sequence_map(maps.q, q),   sequence_map(maps.d_o, q),
          sequence_map(maps.k, k),   sequence_map(maps.v, k),
          sequence_map(maps.d_k, k), sequence_map(maps.d_v, k),
          sequence_map(maps.d_q, q), own};
}

/// What a block keeps in shared memory: step 10's, and the gradients of its sequence, for which
/// registers are too few.
template <class Tile>
struct PackedBackwardShared : DelayedBackwardShared<Tile> {
  AttentionGradient<typename Tile::T> a;
};

/// delta, LSE in base 2, semaphores that are zero, and zeros for queries that see no key.
template <int d, class T>
__global__ void preprocess_packed_semaphores(AttentionGradient<T> a,
                                             PackedSequences sequences) {
  grid_dependency_wait();  // for lists of slots, which all kernels read
  launch_dependents();
  preprocess_sequence<d>(a, sequences, [](const auto& own, const auto& rows) {
    preprocess_rows_and_semaphores<d>(own, rows);
  });
}

/// dK, dV, and d_q_accum: a block owns keys of a sequence and loops over its queries.
/// @tparam Tile   HopperBackwardTile
/// @param  enough see packed_tile()
//! [packed]
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(kKeyWarpgroups + 1), 1)
    flash_backward_packed_tma(
        const __grid_constant__ TmaGradient<T, RaggedMap> maps,
        const PackedSequences sequences, int enough) {
  static_assert(Tile::block_n == kSlotRows, "a block of keys is a slot");
  auto& shared = *dynamic_shared<PackedBackwardShared<Tile>>();
  launch_dependents();
  const WorkTile work = packed_keys(sequences.k, blockIdx.x, maps.a.kv_heads,
                                    maps.a.causal, enough);
  constexpr int words = sizeof(shared.a) / sizeof(int);
  static_assert(words <= kWarpgroup, "each thread copies one");
  const int thread = threadIdx.x;
  if (thread < words) {
    reinterpret_cast<int*>(&shared.a)[thread] =
        reinterpret_cast<const int*>(&maps.a)[thread];
  }
  __syncthreads();
  if (thread == 0) {
    select_sequence<Tile::d>(shared.a, sequences, work.batch, 0);
  }
  shared.init();               // and all threads see shared.a
  grid_dependency_wait();      // for delta, LSE and semaphores
  if (work.block < 0) return;  // an empty slot
  const auto own = sequence_of(maps, sequences, work.batch, shared.a);
  NBlock block = n_block<Tile>(own.a, work.block, work.head, 0);
  if (!own.a.causal) {  // each block begins with another tile of queries
    block.m_blocks.start = static_cast<int>(
        std::int64_t{block.key0} * block.m_blocks.max / own.a.length_k);
  }
  const int warpgroup = warpgroup_index();
  if (warpgroup == kKeyWarpgroups) {
    setmaxnreg_dec<kBackwardProducerRegisters<Tile>>();
    const int warp = threadIdx.x / kWarp % 4;
    if (threadIdx.x % kWarp != 0) return;
    if (warp == 0) load_queries(shared, own, block);
    if (warp > 0 && warp <= kKeyWarpgroups) {
      store_or_reduce_d_q<Tile>(shared, own.a, block, warp - 1, own.a.causal);
    }
    return;
  }
  setmaxnreg_inc<kBackwardConsumerRegisters<Tile>>();
  AttentionGradient<T> mine = maps.a;  // in the loop, lengths in registers
  mine.length_q = warp_uniform(shared.a.length_q);
  mine.length_k = warp_uniform(shared.a.length_k);
  compute_n_block<Tile>(shared,
                        sequence_of(maps, sequences, work.batch, mine), block,
                        warpgroup);
}
//! [packed]

/// dQ = scale d_q_accum.
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup* kKeyWarpgroups)
    postprocess_packed_tma(
        const __grid_constant__ TmaGradient<T, RaggedMap> maps,
        const PackedSequences sequences) {
  const int head = blockIdx.y;
  const PackedQueries rows =
      packed_queries(sequences.q, blockIdx.x, Tile::block_m);
  grid_dependency_wait();  // for the sums of dQ
  const auto own =
      sequence_of<Tile::d>(maps.a, sequences, rows.sequence, head);
  if (rows.first < 0 || rows.first >= own.length_q) return;
  postprocess_tile<Tile>(sequence_of(maps, sequences, rows.sequence, own),
                         rows.first, head, 0);
}

/// The maps of all sequences.
template <class Tile, class T>
TmaGradient<T, RaggedMap> packed_tma_gradient(const AttentionGradient<T>& a) {
  const auto of_queries = [&](const T* data, const RowStrides& strides,
                              int rows) {
    return ragged_map(data, {a.length_q, a.heads, a.head_dim},
                      {strides.row, strides.head}, rows);
  };
  const auto of_keys = [&](const T* data, const RowStrides& strides) {
    return ragged_map(data, {a.length_k, a.kv_heads, a.head_dim},
                      {strides.row, strides.head}, Tile::box_keys);
  };
  return {of_queries(a.q, a.q_strides, Tile::block_m),
          of_queries(a.d_o, a.d_o_strides, Tile::block_m),
          of_keys(a.k, a.k_strides),
          of_keys(a.v, a.v_strides),
          of_keys(a.d_k, a.d_k_strides),
          of_keys(a.d_v, a.d_v_strides),
          of_queries(a.d_q, a.d_q_strides, kQueries),
          a};
}

/// Launches the three kernels, each of which may start before the one before it has ended.
/// @param a      with a batch of 1, all tokens as lengths, and a Workspace{d, true} for
///               with_slots(); can_use_packed_tma() holds
template <int d, class T>
void launch_backward_packed_tma(const AttentionGradient<T>& a,
                                const PackedSequences& sequences,
                                const Stream& stream) {
  using Tile = HopperBackwardTileFor<T, d>;
  const PackedRows &q = sequences.q, &k = sequences.k;
  Launch sizes = preprocess_slots(q, a.heads);
  sizes.with_pdl = true;
  launch(stream, preprocess_packed_semaphores<d, T>, sizes, a, sequences);
  const TmaGradient<T, RaggedMap> maps = packed_tma_gradient<Tile>(a);
  sizes = {grid_of_slots(k, 1, Tile::block_n).x *
               static_cast<unsigned>(a.kv_heads),
           kWarpgroup * (kKeyWarpgroups + 1),
           sizeof(PackedBackwardShared<Tile>), Tile::stages};
  sizes.with_pdl = true;
  launch(stream, flash_backward_packed_tma<Tile, T>, sizes, maps, sequences,
         2 * device_properties().sm_count);
  sizes = tma_postprocess_launch<Tile>(a);
  sizes.grid = grid_of_slots(q, a.heads, Tile::block_m);
  sizes.with_pdl = true;
  launch(stream, postprocess_packed_tma<Tile, T>, sizes, maps, sequences);
}

}  // namespace fa::FA_TARGET
