/// @file
/// The gradients of one of several packed sequences, as a batch of its own, and where its rows of
/// the workspace are: each slot has kSlotRows of them in each head, and those of a sequence follow
/// one another, head by head.
#pragma once

#include "06_flash_backward/kernels/gradient.cuh"
#include "06_flash_backward/kernels/preprocess.cuh"
#include "common/attention/packed.cuh"

namespace fa::FA_TARGET {

static_assert(kSlotRows % kPaddedRows == 0,
              "a sequence's padded rows fit in its slots");

/// For the functions of workspace.cuh: one sequence with as many rows as the slots have.
template <class Gradient>
Gradient with_slots(Gradient a, const PackedSequences& sequences) {
  a.length_q = sequences.q.slots() * kSlotRows;
  return a;
}

/// Makes packed gradients those of one sequence; see select_sequence() of an Attention.
template <int d, class T>
__device__ void select_sequence(AttentionGradient<T>& a,
                                const PackedSequences& sequences,
                                int sequence, int head) {
  const PackedRange q = sequences.q.range(sequence);
  const PackedRange k = sequences.k.range(sequence);
  select_sequence<T>(a, q, k, head);
  a.d_o += q.begin * a.d_o_strides.row;
  a.d_q += q.begin * a.d_q_strides.row;
  a.d_k += k.begin * a.d_k_strides.row;
  a.d_v += k.begin * a.d_v_strides.row;
  const std::int64_t row =
      std::int64_t{sequences.q.first_slot(sequence)} * kSlotRows * a.heads;
  a.delta += row;
  a.lse_base_2 += row;
  a.d_q_accum += row * d;
  if (a.d_q_semaphores != nullptr) {
    a.d_q_semaphores += row / kSemaphoreRows * 2;
  }
}
/// The gradients of one sequence.
template <int d, class T>
__device__ AttentionGradient<T> sequence_of(AttentionGradient<T> a,
                                            const PackedSequences& sequences,
                                            int sequence, int head) {
  select_sequence<d>(a, sequences, sequence, head);
  return a;
}

/// The rows of a tile of queries in its sequence.
struct PackedQueries {
  int sequence;
  int first;  ///< negative, or beyond the last one, in an empty slot
};
/// Those of a place among all tiles of so many rows, which divide a slot.
__device__ inline PackedQueries packed_queries(const PackedRows& rows,
                                               int place, int tile_rows) {
  const int per_slot = kSlotRows / tile_rows, slot = place / per_slot;
  const int sequence = rows.sequence_of(slot);
  return {sequence, (slot - rows.first_slot(sequence)) * kSlotRows +
                        place % per_slot * tile_rows};
}

/// A block for each tile of so many rows in each slot and head.
inline Size grid_of_slots(const PackedRows& rows, int heads, int tile_rows) {
  return {static_cast<unsigned>(rows.slots()) *
              static_cast<unsigned>(kSlotRows / tile_rows),
          static_cast<unsigned>(heads)};
}

/// Calls work(gradients of the sequence, rows) for the rows of a block of preprocess_slots(), a slot.
template <int d, class T, class Work>
__device__ void preprocess_sequence(const AttentionGradient<T>& a,
                                    const PackedSequences& sequences,
                                    Work work) {
  constexpr int rows = kPreprocessThreads / kRowLanes<d>;
  const int head = blockIdx.y;
  const PackedQueries slot =
      packed_queries(sequences.q, blockIdx.x, kSlotRows);
  if (slot.first < 0) return;
  const auto own = sequence_of<d>(a, sequences, slot.sequence, head);
#pragma unroll 1
  for (int i = 0; i < kSlotRows; i += rows) {
    work(own, RowBlock{slot.first + i, head, 0});
  }
}
/// The launch of a kernel that calls it.
inline Launch preprocess_slots(const PackedRows& rows, int heads) {
  return {grid_of_slots(rows, heads, kSlotRows), {kPreprocessThreads}};
}

/// The order of blocks of keys: under the causal mask those with the most queries come first.
/// @return its block is negative where a slot is empty
__device__ inline WorkTile packed_keys(const PackedRows& rows, int place,
                                       int heads, bool causal, int enough) {
  WorkTile tile = packed_tile(rows, place, heads, causal, enough);
  if (causal && tile.block >= 0) {
    tile.block =
        ceil_div(rows.range(tile.batch).length, kSlotRows) - 1 - tile.block;
  }
  return tile;
}

}  // namespace fa::FA_TARGET
