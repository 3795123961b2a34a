/// @file
/// Lesson 06: what a rank has and what it returns, for every way to distribute attention.
#pragma once

#include <algorithm>
#include <vector>

#include "06_flash_backward/ring/blocks.hpp"
#include "06_flash_backward/ring/comm.hpp"

namespace fa::ring {

/// A rank's rows of a problem, and a count of the keys and values that it stores.
template <class T>
struct Rank {
  Comm& comm;
  const Problem& problem;
  Tensor<T, 4> q;                ///< [batch, heads, rows, head_dim], rows of queries_of()
  Block<T> kv;                   ///< rows of keys_of()
  Tensor<T, 4> d_o;              ///< shape of q
  std::int64_t most_stored = 0;  ///< most bytes that stores() has noted, forward

  /// The positions of its queries.
  Ranges queries() const { return queries_of(problem, comm.rank()); }
  /// The rank whose keys are here at a step of the ring.
  int owner(int step) const { return owner_at(comm.rank(), step, problem.ranks); }
  /// Notes how many elements the buffers of a method hold now: what it gathers or passes on, not
  /// `kv`, which every method keeps for the backward pass.
  void stores(std::int64_t elements) {
    most_stored = std::max(most_stored, elements * std::int64_t{sizeof(T)});
  }
};

/// The gradients of a rank's rows.
template <class T>
struct RankGradients {
  Tensor<T, 4> d_q;  ///< shape of q
  Block<T> d_kv;     ///< shape of kv
};

/// What the backward pass takes from the forward pass.
template <class T>
Saved<T> saved(const Rank<T>& rank, const naive::Forward<T>& forward) {
  return {rank.q.view(), forward.o.view(), rank.d_o.view(), forward.lse.view()};
}

/// The number of elements of each rank's block.
template <class T>
std::vector<std::int64_t> block_counts(const Problem& problem) {
  std::vector<std::int64_t> counts;
  for (int r = 0; r < problem.ranks; ++r) counts.push_back(empty_block<T>(problem, r).count());
  return counts;
}

}  // namespace fa::ring
