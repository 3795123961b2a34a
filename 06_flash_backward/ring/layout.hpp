/// @file
/// Lesson 06: which rank owns which positions of a long sequence, and which pairs of queries and
/// keys remain below a causal mask. Plain integers, but for copies of a rank's rows: no MPI.
///
/// Source of the zig-zag order: the causal load balancing of ring attention, after Brandon et al.,
/// Striped Attention, 2023, which interleaves single tokens for the same purpose.
#pragma once

#include <cstdint>
#include <string>
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
std::int64_t rows(const Ranges& ranges);

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
Range piece_of(std::int64_t length, std::int64_t parts, std::int64_t index);

/// @{ The query positions and the key positions of a rank.
Ranges queries_of(const Problem& problem, int rank);
Ranges keys_of(const Problem& problem, int rank);
/// @}

/// The key and value heads of a rank after an all-to-all; empty when there are more ranks than
/// heads. Its query heads are those that share them.
Range kv_heads_of(const Problem& problem, int rank);

/// A rectangle of scores of which something is visible, in rows as a rank stores them.
struct Part {
  Range queries, keys;  ///< rows of Q, rows of K; never empty
  bool causal;          ///< masked as a problem of its own, aligned to its bottom right corner
};

/// What queries see of keys, as problems for lesson 03: each is either unmasked or has the causal
/// mask of a problem of that size. At most two for each pair of ranges; neighbours that together
/// are one problem are joined.
std::vector<Part> visible_parts(const Problem& problem, const Ranges& queries, const Ranges& keys);

/// The number of visible pairs of a query and a key, for one head.
std::int64_t visible_pairs(const Problem& problem, const Ranges& queries, const Ranges& keys);

/// Whose keys a rank holds at a step of the ring, 0 to P - 1; blocks move to the next rank.
int owner_at(int rank, int step, int ranks);

/// Calls visit(row as stored, position) for all positions.
template <class Visit>
void for_rows(const Ranges& ranges, Visit visit) {
  std::int64_t row = 0;
  for (const Range& range : ranges) {
    for (std::int64_t i = range.begin; i < range.end; ++i) visit(row++, i);
  }
}

/// Copies the rows of a rank from a whole tensor [batch, heads, length, columns].
template <class T>
void take_rows(View<const T, 4> whole, const Ranges& ranges, View<T, 4> own) {
  for_rows(ranges, [&](std::int64_t row, std::int64_t i) {
    copy(whole.narrow(2, i, i + 1), own.narrow(2, row, row + 1));
  });
}

/// Copies the rows of a rank into a whole tensor.
template <class T>
void put_rows(View<const T, 4> own, const Ranges& ranges, View<T, 4> whole) {
  for_rows(ranges, [&](std::int64_t row, std::int64_t i) {
    copy(own.narrow(2, row, row + 1), whole.narrow(2, i, i + 1));
  });
}

}  // namespace fa::ring
