/// @file
/// Ring attention, step 1: every rank collects all keys and values, then works alone.
#pragma once

#include "06_flash_backward/ring/rank.hpp"

namespace fa::ring::all_gather {

/// Collects K and V of all ranks, one block after the other.
template <class Rank>
typename Rank::T* collect(Rank& rank) {
  std::int64_t all = 0;
  for (int r = 0; r < rank.ranks(); ++r) all += rank.block_elements(r);
  auto* const blocks = rank.buffer(0, all);
  Messages messages;
  auto* to = blocks;
  for (int r = 0; r < rank.ranks(); ++r) {
    messages.send(r, rank.kv.data(), rank.kv.count());
    messages.receive(r, to, rank.block_elements(r));
    to += rank.block_elements(r);
  }
  rank.start(messages);
  rank.wait();
  return blocks;
}

/// The forward pass of a rank's queries.
template <class Rank>
void forward(Rank& rank) {
  const auto* block = collect(rank);
  for (int owner = 0; owner < rank.ranks(); ++owner) {
    rank.attend(owner, owner, block);
    block += rank.block_elements(owner);
  }
}

/// The backward pass: K and V again, then the sum of all ranks' dK and dV, cut by owner.
template <class Rank>
void backward(Rank& rank) {
  const int ranks = rank.ranks();
  const auto* block = collect(rank);
  float* const d_all = rank.sums(0, ranks * rank.largest_block());
  float* const own = rank.sums(1, ranks * rank.kv.count());  // dK and dV of each rank
  Messages messages;
  for (int owner = 0; owner < ranks; ++owner) {
    float* const d_block = d_all + owner * rank.largest_block();
    rank.add_gradients(owner, owner, block, {d_block, true});
    messages.send(owner, d_block, rank.block_elements(owner));
    messages.receive(owner, own + owner * rank.kv.count(), rank.kv.count());
    block += rank.block_elements(owner);
  }
  rank.start(messages);
  rank.wait();
  rank.engine.add_blocks(own, ranks, rank.kv.count(), rank.d_kv.data());
}

}  // namespace fa::ring::all_gather
