/// @file
/// Ring attention, step 3: the next block of keys and values is in flight while a rank computes.
///
/// Source: Liu, Zaharia and Abbeel, Ring Attention with Blockwise Transformers for Near-Infinite
/// Context, 2023, section 3.
#pragma once

#include "06_flash_backward/ring/rank.hpp"

namespace fa::ring::overlap {

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
    }
    rank.attend(step, rank.owner(step), block);
    if (!last) rank.wait();
    block = next;
  }
}
//! [forward]

/// The backward pass. dK and dV lag behind their K and V: the sums of the block that a rank has
/// just left travel with the next K and V, and arrive while the next rank computes its own part.
template <class Rank>
void backward(Rank& rank) {
  const auto* block = rank.kv.data();
  for (int step = 0; step < rank.ranks(); ++step) {
    const bool last = step + 1 == rank.ranks();
    auto* const next = rank.buffer(step % 2, rank.largest_block());
    float* const sums = rank.sums(step % 2, rank.largest_block());
    float* const left = rank.sums(1 - step % 2, rank.largest_block());
    Messages messages;
    if (!last) messages = rank.shift(block, next, step);
    if (step > 0) messages.add(rank.shift(left, sums, step - 1));
    rank.start(messages);
    rank.add_gradients(step, rank.owner(step), block,
                       {sums, step == 0, last ? next : nullptr},
                       [&] { rank.wait(); });
    if (last) {  // the sums are complete: home, rounded
      rank.start(rank.shift(next, rank.d_kv.data(), step));
      rank.wait();
    }
    block = next;
  }
}
// clang-format on

}  // namespace fa::ring::overlap
