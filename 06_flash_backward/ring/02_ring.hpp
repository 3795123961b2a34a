/// @file
/// Ring attention, step 2: blocks of keys and values go round a ring, and a rank waits for each.
///
/// Source: Liu, Zaharia and Abbeel, Ring Attention with Blockwise Transformers for Near-Infinite
/// Context, 2023.
#pragma once

#include "06_flash_backward/ring/rank.hpp"

namespace fa::ring::blocking {

// clang-format off
/// The forward pass of a rank's queries.
template <class Rank>
//! [forward]
void forward(Rank& rank) {
  const auto* block = rank.kv.data();
  for (int step = 0; step < rank.ranks(); ++step) {
    const bool last = step + 1 == rank.ranks();
    auto* const next = rank.buffer(step % 2, rank.largest_block());
    if (!last) {
      rank.start(rank.shift(block, next, step));
      rank.wait();
    }
    rank.attend(step, rank.owner(step), block);
    block = next;
  }
}
//! [forward]

/// The backward pass: dK and dV move with their K and V; one last shift, which K and V do not need,
/// returns them to their owner.
template <class Rank>
//! [backward]
void backward(Rank& rank) {
  const auto* block = rank.kv.data();
  for (int step = 0; step < rank.ranks(); ++step) {
    const bool last = step + 1 == rank.ranks();
    auto* const next = rank.buffer(step % 2, rank.largest_block());
    float* const sums = rank.sums(step % 2, rank.largest_block());
    float* const next_sums = rank.sums(1 - step % 2, rank.largest_block());
    rank.add_gradients(step, rank.owner(step), block,
                       {sums, step == 0, last ? next : nullptr});
    Messages messages;
    if (last) {  // the sums are complete: home, rounded
      messages = rank.shift(next, rank.d_kv.data(), step);
    } else {
      messages = rank.shift(block, next, step);
      messages.add(rank.shift(sums, next_sums, step));
    }
    rank.start(messages);
    rank.wait();
    block = next;
  }
}
//! [backward]
// clang-format on

}  // namespace fa::ring::blocking
