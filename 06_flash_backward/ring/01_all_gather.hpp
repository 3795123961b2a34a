/// @file
/// Ring attention, step 1: every rank collects all keys and values, then works alone.
#pragma once

#include "06_flash_backward/ring/rank.hpp"

namespace fa::ring::all_gather {

// clang-format off
/// The forward pass of a rank's queries.
template <class T>
//! [forward]
naive::Forward<T> forward(Rank<T>& rank) {
  const auto counts = block_counts<T>(rank.problem);
  const std::vector<T> all =
      rank.comm.all_gather(rank.kv.data(), counts, "K and V of all ranks");
  rank.stores(static_cast<std::int64_t>(all.size()));
  States<T> states(rank.q.shape());
  const T* next = all.data();
  for (int owner = 0; owner < rank.problem.ranks; ++owner) {
    const auto shape = empty_block<T>(rank.problem, owner).shape();
    attend<T>(rank.problem, rank.queries(), rank.q,
              keys_of(rank.problem, owner), {next, shape}, states);
    next += element_count(shape);
  }
  return states.result();
}
//! [forward]

/// The backward pass: K and V again, then the sum of all ranks' dK and dV, cut by owner.
template <class T>
RankGradients<T> backward(Rank<T>& rank, const naive::Forward<T>& kept) {
  const auto counts = block_counts<T>(rank.problem);
  const std::vector<T> all =
      rank.comm.all_gather(rank.kv.data(), counts, "K and V of all ranks");
  std::vector<T> d_all(all.size(), T(0));
  RankGradients<T> sum{Tensor<T, 4>(rank.q.shape()), Block<T>(rank.kv.shape())};
  std::int64_t next = 0;
  for (int owner = 0; owner < rank.problem.ranks; ++owner) {
    const auto shape = empty_block<T>(rank.problem, owner).shape();
    add_gradients<T>(rank.problem, rank.queries(), saved(rank, kept),
                     keys_of(rank.problem, owner), {all.data() + next, shape},
                     sum.d_q, {d_all.data() + next, shape});
    next += element_count(shape);
  }
  rank.comm.reduce_scatter(d_all.data(), counts, sum.d_kv.data(), "sums of dK and dV");
  return sum;
}
// clang-format on

}  // namespace fa::ring::all_gather
