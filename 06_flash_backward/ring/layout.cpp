#include "06_flash_backward/ring/layout.hpp"

#include <algorithm>
#include <optional>

namespace fa::ring {
namespace {

Ranges ranges_of(RowOrder order, std::int64_t length, int ranks, int rank) {
  // clang-format off
  //! [zigzag]
  if (order == RowOrder::kContiguous) return {piece_of(length, ranks, rank)};
  return {piece_of(length, 2 * ranks, rank),
          piece_of(length, 2 * ranks, 2 * ranks - 1 - rank)};
  //! [zigzag]
  // clang-format on
}

// @{ A single query sees all keys of its part: it is a causal problem and a full one.
bool is_causal(const Part& part) {
  return part.causal || part.queries.size() == 1;
}
bool is_full(const Part& part) {
  return !part.causal || part.queries.size() == 1;
}
// @}

// Two parts as one problem, where they are one: `b` is behind `a` in the keys, or in the queries.
std::optional<Part> joined(const Part& a, const Part& b) {
  const bool same_queries = a.queries.begin == b.queries.begin && a.queries.end == b.queries.end;
  if (same_queries && is_full(a) && a.keys.end == b.keys.begin) {
    return Part{a.queries, {a.keys.begin, b.keys.end}, b.causal};
  }
  if (a.queries.end != b.queries.begin || a.keys.begin != b.keys.begin) return std::nullopt;
  const Range queries{a.queries.begin, b.queries.end};
  const std::int64_t more = b.keys.end - a.keys.end;
  if (is_full(a) && is_full(b) && more == 0) return Part{queries, a.keys, false};
  if (is_causal(a) && is_causal(b) && more == b.queries.size()) return Part{queries, b.keys, true};
  return std::nullopt;
}

// Adds a part, joined to those that it continues or that continue it.
void add_joined(Part part, std::vector<Part>& parts) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    auto both = joined(parts[i], part);
    if (!both) both = joined(part, parts[i]);
    if (!both) continue;
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i));
    return add_joined(*both, parts);
  }
  parts.push_back(part);
}

// Adds what a range of queries sees of a range of keys; they begin in rows `q_row` and `k_row`.
void add_parts(const Problem& problem, const Range& q, std::int64_t q_row, const Range& k,
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

}  // namespace

std::int64_t rows(const Ranges& ranges) {
  std::int64_t sum = 0;
  for (const Range& range : ranges) sum += range.size();
  return sum;
}

Range piece_of(std::int64_t length, std::int64_t parts, std::int64_t index) {
  const std::int64_t size = length / parts, longer = length % parts;
  const auto begin = [&](std::int64_t i) { return i * size + std::min(i, longer); };
  return {begin(index), begin(index + 1)};
}

Ranges queries_of(const Problem& problem, int rank) {
  return ranges_of(problem.order, problem.shape.length_q, problem.ranks, rank);
}

Ranges keys_of(const Problem& problem, int rank) {
  return ranges_of(problem.order, problem.shape.length_k, problem.ranks, rank);
}

Range kv_heads_of(const Problem& problem, int rank) {
  return piece_of(problem.shape.kv_heads, problem.ranks, rank);
}

std::vector<Part> visible_parts(const Problem& problem, const Ranges& queries, const Ranges& keys) {
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

std::int64_t visible_pairs(const Problem& problem, const Ranges& queries, const Ranges& keys) {
  std::int64_t pairs = 0;
  for (const Part& part : visible_parts(problem, queries, keys)) {
    const std::int64_t q = part.queries.size(), k = part.keys.size();
    pairs += part.causal ? q * (k - q) + q * (q + 1) / 2 : q * k;
  }
  return pairs;
}

int owner_at(int rank, int step, int ranks) {
  return (rank - step + ranks) % ranks;
}

}  // namespace fa::ring
