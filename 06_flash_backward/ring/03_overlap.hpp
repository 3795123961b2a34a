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
    }
    attend<T>(rank.problem, rank.queries(), rank.q,
              keys_of(rank.problem, rank.owner(step)), kv, states);
    if (!last) rank.comm.wait(transfer);
    kv = std::move(next);
  }
  return states.result();
}
//! [forward]

/// The backward pass. dK and dV lag behind their K and V: a rank sends K and V before it computes
/// with them and the sums after that, so the sums arrive while the next rank computes its own part.
template <class T>
//! [backward]
RankGradients<T> backward(Rank<T>& rank, const naive::Forward<T>& kept) {
  RankGradients<T> sum{Tensor<T, 4>(rank.q.shape()), {}};
  Block<T> kv = rank.kv, d_sent, d_arriving(kv.shape());
  Comm::Transfer of_kv, of_d;
  const int ranks = rank.problem.ranks;
  for (int step = 0; step < ranks; ++step) {
    Block<T> next = empty_block<T>(rank.problem, rank.owner(step + 1));
    if (step + 1 < ranks) {
      of_kv = rank.comm.shift(kv.data(), kv.count(), next.data(), next.count(),
                              step, "K and V");
    }
    Block<T> d_kv(kv.shape());  // this rank's part
    add_gradients<T>(rank.problem, rank.queries(), saved(rank, kept),
                     keys_of(rank.problem, rank.owner(step)), kv, sum.d_q,
                     d_kv);
    rank.comm.wait(of_d);  // the parts of the ranks before
    for (std::int64_t i = 0; i < d_kv.count(); ++i) {
      d_kv.data()[i] += d_arriving.data()[i];
    }
    d_sent = std::move(d_kv);
    d_arriving = Block<T>(next.shape());
    of_d = rank.comm.shift(d_sent.data(), d_sent.count(), d_arriving.data(),
                           d_arriving.count(), ranks + step, "dK, dV");
    rank.comm.wait(of_kv);
    kv = std::move(next);
  }
  rank.comm.wait(of_d);
  sum.d_kv = std::move(d_arriving);  // of this rank's own keys
  return sum;
}
//! [backward]
// clang-format on

}  // namespace fa::ring::overlap
