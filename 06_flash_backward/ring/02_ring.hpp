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
template <class T>
//! [forward]
naive::Forward<T> forward(Rank<T>& rank) {
  States<T> states(rank.q.shape());
  Block<T> kv = rank.kv;
  for (int step = 0; step < rank.problem.ranks; ++step) {
    const bool last = step + 1 == rank.problem.ranks;
    Block<T> next;
    if (!last) next = empty_block<T>(rank.problem, rank.owner(step + 1));
    rank.stores(kv.count() + next.count());
    Comm::Transfer transfer;
    if (!last) {
      transfer = rank.comm.shift(kv.data(), kv.count(), next.data(),
                                 next.count(), step, "K and V");
      rank.comm.wait(transfer);
    }
    attend<T>(rank.problem, rank.queries(), rank.q,
              keys_of(rank.problem, rank.owner(step)), kv, states);
    kv = std::move(next);
  }
  return states.result();
}
//! [forward]

/// The backward pass: dK and dV move with their K and V; one last shift, which K and V do not need,
/// returns them to their owner.
template <class T>
//! [backward]
RankGradients<T> backward(Rank<T>& rank, const naive::Forward<T>& kept) {
  RankGradients<T> sum{Tensor<T, 4>(rank.q.shape()), {}};
  Block<T> kv = rank.kv, d_kv(kv.shape());
  const int ranks = rank.problem.ranks;
  for (int step = 0; step < ranks; ++step) {
    add_gradients<T>(rank.problem, rank.queries(), saved(rank, kept),
                     keys_of(rank.problem, rank.owner(step)), kv, sum.d_q,
                     d_kv);
    Block<T> next = empty_block<T>(rank.problem, rank.owner(step + 1));
    Block<T> d_next = next;
    if (step + 1 < ranks) {
      auto transfer = rank.comm.shift(kv.data(), kv.count(), next.data(),
                                      next.count(), step, "K and V");
      rank.comm.wait(transfer);
    }
    auto transfer = rank.comm.shift(d_kv.data(), d_kv.count(), d_next.data(),
                                    d_next.count(), ranks + step, "dK, dV");
    rank.comm.wait(transfer);
    kv = std::move(next);
    d_kv = std::move(d_next);
  }
  sum.d_kv = std::move(d_kv);  // of this rank's own keys: the ring is closed
  return sum;
}
//! [backward]
// clang-format on

}  // namespace fa::ring::blocking
