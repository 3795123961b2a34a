/// @file
/// Lesson 06: which rank owns which positions of a long sequence, and which pairs of queries and
/// keys remain below a causal mask. Plain integers, but for copies of a rank's rows: no MPI.
///
/// Source of the zig-zag order: the causal load balancing of ring attention, after Brandon et al.,
/// Striped Attention, 2023, which interleaves single tokens for the same purpose.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/attention/shape.hpp"
#include "common/tensor/tensor.hpp"

namespace fa::ring {

/// Positions `begin` to `end` (exclusive); may be empty.
struct Range {
  std::int64_t begin = 0, end = 0;
  /// How many.
  std::int64_t size() const { return end - begin; }
};

/// The positions of one rank: ranges that are stored one after the other.
using Ranges = std::vector<Range>;

/// The number of positions.
inline std::int64_t rows(const Ranges& ranges) {
  std::int64_t sum = 0;
  for (const Range& range : ranges) sum += range.size();
  return sum;
}

/// How a sequence is dealt to ranks.
enum class RowOrder {
  kContiguous,  ///< one piece for each rank
  kZigZag,      ///< 2 P pieces; rank r owns pieces r and 2 P - 1 - r
};

/// What all ranks agree on.
struct Problem {
  AttentionShape shape;                    ///< of the whole sequence; head_dim is that of V as well
  bool causal = false;                     ///< query i sees key j when j <= i + length_k - length_q
  RowOrder order = RowOrder::kContiguous;  ///< of queries and of keys
  int ranks = 1;                           ///< P, at least 1
};

/// Piece `index` of `length` positions cut into `parts` pieces whose sizes differ by at most 1.
inline Range piece_of(std::int64_t length, std::int64_t parts, std::int64_t index) {
  const std::int64_t size = length / parts, longer = length % parts;
  const auto begin = [&](std::int64_t i) { return i * size + std::min(i, longer); };
  return {begin(index), begin(index + 1)};
}

/// The positions of a rank in a sequence of this length.
inline Ranges ranges_of(RowOrder order, std::int64_t length, int ranks, int rank) {
  // clang-format off
  //! [zigzag]
  if (order == RowOrder::kContiguous) return {piece_of(length, ranks, rank)};
  return {piece_of(length, 2 * ranks, rank),
          piece_of(length, 2 * ranks, 2 * ranks - 1 - rank)};
  //! [zigzag]
  // clang-format on
}

/// @{ The query positions and the key positions of a rank.
inline Ranges queries_of(const Problem& problem, int rank) {
  return ranges_of(problem.order, problem.shape.length_q, problem.ranks, rank);
}
inline Ranges keys_of(const Problem& problem, int rank) {
  return ranges_of(problem.order, problem.shape.length_k, problem.ranks, rank);
}
/// @}

/// Elements of a rank's block: its K and V, or their gradients.
inline std::int64_t block_elements(const Problem& problem, int rank) {
  const AttentionShape& s = problem.shape;
  return 2 * s.batch * s.kv_heads * rows(keys_of(problem, rank)) * s.head_dim;
}
/// Elements of the largest block.
inline std::int64_t largest_block(const Problem& problem) {
  std::int64_t most = 0;
  for (int r = 0; r < problem.ranks; ++r) most = std::max(most, block_elements(problem, r));
  return most;
}

/// The key and value heads of a rank after an all-to-all; empty when there are more ranks than
/// heads. Its query heads are those that share them.
inline Range kv_heads_of(const Problem& problem, int rank) {
  return piece_of(problem.shape.kv_heads, problem.ranks, rank);
}

/// Whose keys a rank holds at a step of the ring, 0 to P - 1; blocks move to the next rank.
inline int owner_at(int rank, int step, int ranks) {
  return (rank - step + ranks) % ranks;
}

/// A rectangle of scores of which something is visible, in rows as a rank stores them.
struct Part {
  Range queries, keys;  ///< rows of Q, rows of K; never empty
  bool causal;          ///< masked as a problem of its own, aligned to its bottom right corner

  /// @{ A single query sees all keys of its part: it is a causal problem and a full one.
  bool is_causal() const { return causal || queries.size() == 1; }
  bool is_full() const { return !causal || queries.size() == 1; }
  /// @}
};

/// Two parts as one problem, where they are one: `b` is behind `a` in the keys, or in the queries.
inline std::optional<Part> joined(const Part& a, const Part& b) {
  const bool same_queries = a.queries.begin == b.queries.begin && a.queries.end == b.queries.end;
  if (same_queries && a.is_full() && a.keys.end == b.keys.begin) {
    return Part{a.queries, {a.keys.begin, b.keys.end}, b.causal};
  }
  if (a.queries.end != b.queries.begin || a.keys.begin != b.keys.begin) return std::nullopt;
  const Range queries{a.queries.begin, b.queries.end};
  const std::int64_t more = b.keys.end - a.keys.end;
  if (a.is_full() && b.is_full() && more == 0) return Part{queries, a.keys, false};
  if (a.is_causal() && b.is_causal() && more == b.queries.size()) {
    return Part{queries, b.keys, true};
  }
  return std::nullopt;
}

/// Adds a part, joined to those that it continues or that continue it.
inline void add_joined(Part part, std::vector<Part>& parts) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    auto both = joined(parts[i], part);
    if (!both) both = joined(part, parts[i]);
    if (!both) continue;
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i));
    return add_joined(*both, parts);
  }
  parts.push_back(part);
}

/// Adds what a range of queries sees of a range of keys; they begin in rows `q_row` and `k_row`.
inline void add_parts(const Problem& problem, const Range& q, std::int64_t q_row, const Range& k,
                      std::int64_t k_row, std::vector<Part>& parts) {
  if (q.size() == 0 || k.size() == 0) return;
  const auto add = [&](Range queries, std::int64_t keys, bool causal) {
    if (queries.size() == 0 || keys <= 0) return;
    add_joined({{q_row + queries.begin, q_row + queries.end}, {k_row, k_row + keys}, causal},
               parts);
  };
  if (!problem.causal) return add({0, q.size()}, k.size(), false);
  // clang-format off
  //! [parts]
  // Query i of the range sees its keys 0 to i + diagonal.
  const std::int64_t diagonal =
      q.begin - k.begin + problem.shape.length_k - problem.shape.length_q;
  const std::int64_t first_seeing =
      std::clamp<std::int64_t>(-diagonal, 0, q.size());
  const std::int64_t first_full =  // it sees all keys, as do those behind it
      std::clamp<std::int64_t>(k.size() - 1 - diagonal, first_seeing, q.size());
  add({first_seeing, first_full}, first_full + diagonal, true);
  add({first_full, q.size()}, k.size(), false);
  //! [parts]
  // clang-format on
}

/// What queries see of keys, as problems for lesson 03: each is either unmasked or has the causal
/// mask of a problem of that size. At most two for each pair of ranges; neighbours that together
/// are one problem are joined.
inline std::vector<Part> visible_parts(const Problem& problem, const Ranges& queries,
                                       const Ranges& keys) {
  std::vector<Part> parts;
  std::int64_t q_row = 0;
  for (const Range& q : queries) {
    std::int64_t k_row = 0;
    for (const Range& k : keys) {
      add_parts(problem, q, q_row, k, k_row, parts);
      k_row += k.size();
    }
    q_row += q.size();
  }
  return parts;
}

/// The number of visible pairs of a query and a key, for one head.
inline std::int64_t visible_pairs(const Problem& problem, const Ranges& queries,
                                  const Ranges& keys) {
  std::int64_t pairs = 0;
  for (const Part& part : visible_parts(problem, queries, keys)) {
    const std::int64_t q = part.queries.size(), k = part.keys.size();
    pairs += part.causal ? q * (k - q) + q * (q + 1) / 2 : q * k;
  }
  return pairs;
}

/// @{ Copies the rows of a rank from a whole tensor [batch, heads, length, columns], or into one.
template <class T>
void take_rows(View<const T, 4> whole, const Ranges& ranges, View<T, 4> own) {
  std::int64_t row = 0;
  for (const Range& range : ranges) {
    copy(whole.narrow(2, range.begin, range.end), own.narrow(2, row, row + range.size()));
    row += range.size();
  }
}
template <class T>
void put_rows(View<const T, 4> own, const Ranges& ranges, View<T, 4> whole) {
  std::int64_t row = 0;
  for (const Range& range : ranges) {
    copy(own.narrow(2, row, row + range.size()), whole.narrow(2, range.begin, range.end));
    row += range.size();
  }
}
/// @}

}  // namespace fa::ring
