/// @file
/// Packed sequences: a block takes a tile of queries of one sequence, and processes it as step 08
/// does. Which sequence and which tile follows from its place in a list whose length the host knows.
#pragma once

#include "05_flash_forward/kernels/08_edge_masks.cuh"
#include "common/attention/packed.cuh"

namespace fa::FA_TARGET {

/// Attention in 16 bits within each of several packed sequences.
/// @tparam Block  an EdgeMasksBlock
/// @param  enough see packed_tile()
template <class Block, class T>
__global__ void __launch_bounds__(Block::threads, 2)
    flash_packed(Attention<T> a, PackedSequences sequences, int enough) {
  static_assert(Block::block_m == kSlotRows, "a tile is a slot");
  const WorkTile work =
      packed_tile(sequences.q, blockIdx.x, a.heads, a.causal, enough);
  if (work.block < 0) return;  // an empty slot
  const auto own = sequence_of(a, sequences.q.range(work.batch),
                               sequences.k.range(work.batch), work.head);
  Block::template run<false>(own, work.block, work.head, 0);
}

/// Launches the kernel with a block for each slot of each head.
/// @param a with a batch of 1, and all tokens as lengths
template <int d, class T>
void launch_packed(const Attention<T>& a, const PackedSequences& sequences,
                   const Stream& stream) {
  using Block = EdgeMasksBlockFor<T, d>;
  launch(stream, flash_packed<Block, T>,
         {static_cast<unsigned>(sequences.q.slots()) *
              static_cast<unsigned>(a.heads),
          Block::threads, Block::shared_bytes, Block::stages},
         a, sequences, 4 * device_properties().sm_count);
}

}  // namespace fa::FA_TARGET
