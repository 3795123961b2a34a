/// @file
/// Sequences of different lengths, packed one behind another (varlen): where each lies, and which
/// tile of which sequence stands at a place in the list of all tiles. The list has room for a tile
/// more than each sequence needs, so that a place follows from one element of cu_seqlens, and the
/// host knows how long the list is.
///
/// Source of the list: Shah et al., FlashAttention-3, NeurIPS 2024, the padded offsets of its code.
#pragma once

#include "common/attention/attention.cuh"
#include "common/attention/tile_scheduler.cuh"

namespace fa::FA_TARGET {

/// Rows of a slot, an entry of the list. Tiles have as many, or divide them.
constexpr int kSlotRows = 128;

/// The rows of a sequence in a packed tensor.
struct PackedRange {
  int begin;
  int length;
};

/// How the rows of a packed tensor are divided among sequences. Elements of cu_seqlens that are not
/// allowed make wrong rows, but none outside the tensor.
struct PackedRows {
  const int* cu_seqlens;  ///< [sequences + 1]
  int sequences;
  int tokens;                 ///< rows of the tensor
  const int* list = nullptr;  ///< the sequence of each slot, where it was computed before

  /// The first row of a sequence.
  // clang-format off
  //! [slots]
  __device__ int begin(int sequence) const {
    const int row = cu_seqlens[sequence];
    return row < 0 ? 0 : row < tokens ? row : tokens;
  }
  /// Where a sequence begins in the list.
  __device__ int first_slot(int sequence) const {
    return begin(sequence) / kSlotRows + sequence;
  }
  /// Of the list.
  __host__ __device__ int slots() const {
    return tokens / kSlotRows + sequences;
  }
  /// The sequence that a slot belongs to.
  __device__ int sequence_of(int slot) const {
    if (list != nullptr) return list[slot];
    int low = 0, high = sequences - 1;
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (first_slot(middle) <= slot) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }
  //! [slots]
  // clang-format on
  /// The rows of a sequence.
  __device__ PackedRange range(int sequence) const {
    const int first = begin(sequence), end = begin(sequence + 1);
    return {first, end > first ? end - first : 0};
  }
};

/// Where queries and keys of each sequence lie.
struct PackedSequences {
  PackedRows q;
  PackedRows k;
};

/// The tile with an index of those of a sequence: as work_tile(), but with so many heads at a time
/// that they have `enough` tiles, in groups of about the same size.
/// @param blocks     tiles of a head
/// @param last_first whether the last tiles of a sequence come first
__device__ inline WorkTile tile_of_sequence(int index, int blocks, int heads, bool last_first,
                                            int enough) {
  const int wanted = ceil_div(enough, blocks);
  const int groups = heads > wanted ? (heads + wanted / 2) / wanted : 1;
  return work_tile(index, {blocks, heads, heads, last_first ? ceil_div(heads, groups) : 0});
}

/// A sequence's tile at a place in the list of slots, of all heads; block < 0 where a slot is
/// empty. Within each sequence see tile_of_sequence().
/// @param heads that have tiles: of q, or of k and v
__device__ inline WorkTile packed_tile(const PackedRows& rows, int place, int heads,
                                       bool last_first, int enough) {
  const int sequence = rows.sequence_of(place / heads);
  const int first = rows.first_slot(sequence);
  const int slots = rows.first_slot(sequence + 1) - first;
  const int in_sequence = place - first * heads;
  if (in_sequence < 0 || in_sequence >= slots * heads) return {-1, 0, 0};
  const WorkTile tile = tile_of_sequence(in_sequence, slots, heads, last_first, enough);
  const bool is_empty = tile.block * kSlotRows >= rows.range(sequence).length;
  return {is_empty ? -1 : tile.block, tile.head, sequence};
}

/// Makes a packed attention that of one of its sequences, as a batch of its own.
/// @param head for which its lse is used: rows of lse are those of all sequences
template <class T>
__device__ void select_sequence(Attention<T>& a, const PackedRange& q, const PackedRange& k,
                                int head) {
  a.q += q.begin * a.q_strides.row;
  a.k += k.begin * a.k_strides.row;
  a.v += k.begin * a.v_strides.row;
  a.o += q.begin * a.o_strides.row;
  a.lse += q.begin + std::int64_t{head} * (a.length_q - q.length);
  a.length_q = q.length;
  a.length_k = k.length;
}
/// The attention of one sequence.
template <class T>
__device__ Attention<T> sequence_of(Attention<T> a, const PackedRange& q, const PackedRange& k,
                                    int head) {
  select_sequence(a, q, k, head);
  return a;
}

}  // namespace fa::FA_TARGET
