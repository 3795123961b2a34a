/// @file
/// Gradients of packed sequences: blocks take tiles of one sequence from the list of slots that
/// lesson 05's packed/01_list_of_slots.cuh has, and process them as step 06 does.
#pragma once

#include "06_flash_backward/kernels/packed/sequence_gradient.cuh"
#include "06_flash_backward/library/mma_block.cuh"

namespace fa::FA_TARGET {

/// delta, LSE in base 2, and zeros for d_q_accum.
template <int d, class T>
__global__ void preprocess_packed(AttentionGradient<T> a,
                                  PackedSequences sequences) {
  preprocess_sequence<d>(a, sequences, [](const auto& own, const auto& rows) {
    preprocess_rows<d>(own, rows);
  });
}

/// dK and dV, and additions to d_q_accum.
/// @tparam Tile   a BackwardTile
/// @param  enough see packed_tile()
template <class Tile, class T>
__global__ void __launch_bounds__(Tile::threads, Tile::warps == 4 ? 2 : 1)
    flash_backward_packed(AttentionGradient<T> a, PackedSequences sequences,
                          int enough) {
  constexpr int per_slot = kSlotRows / Tile::block_n;
  static_assert(per_slot * Tile::block_n == kSlotRows, "tiles divide a slot");
  const WorkTile work = packed_keys(sequences.k, blockIdx.x / per_slot,
                                    a.kv_heads, a.causal, enough);
  if (work.block < 0) return;  // an empty slot
  const auto own = sequence_of<Tile::d>(a, sequences, work.batch, 0);
  const int key0 = work.block * kSlotRows +
                   static_cast<int>(blockIdx.x) % per_slot * Tile::block_n;
  if (key0 >= own.length_k) return;
  swizzled_pipeline_block<Tile, false>(own, key0, work.head, 0);
}

/// dQ = scale d_q_accum.
template <class Tile, class T>
__global__ void postprocess_packed(AttentionGradient<T> a,
                                   PackedSequences sequences) {
  const PackedQueries rows =
      packed_queries(sequences.q, blockIdx.x, Tile::block_m);
  const int head = blockIdx.y;
  const auto own = sequence_of<Tile::d>(a, sequences, rows.sequence, head);
  if (rows.first < 0 || rows.first >= own.length_q) return;
  postprocess_d_q_block<Tile>(own, rows.first, head, 0);
}

/// Launches these kernels.
/// @param a      with a batch of 1, all tokens as lengths, and a Workspace{d} for with_slots()
/// @param device where; it decides on the tile
template <int d, class T>
void launch_backward_packed(const AttentionGradient<T>& a,
                            const PackedSequences& sequences,
                            const Stream& stream,
                            const DeviceProperties& device) {
  with_swizzled_tile<d, T>(device, [&](auto tile) {
    using Tile = decltype(tile);
    const PackedRows &q = sequences.q, &k = sequences.k;
    launch(stream, preprocess_packed<d, T>, preprocess_slots(q, a.heads), a,
           sequences);
    launch(
        stream, flash_backward_packed<Tile, T>,
        {grid_of_slots(k, 1, Tile::block_n).x *
             static_cast<unsigned>(a.kv_heads),
         Tile::threads, swizzled_backward_bytes<Tile, T>(), kPipelineStages},
        a, sequences, 2 * device.sm_count);
    launch(stream, postprocess_packed<Tile, T>,
           {grid_of_slots(q, a.heads, Tile::block_m),
            {Tile::block_m * Tile::d / 16}},
           a, sequences);
  });
}

}  // namespace fa::FA_TARGET
