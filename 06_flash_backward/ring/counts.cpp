#include "06_flash_backward/ring/counts.hpp"

#include <algorithm>

namespace fa::ring {
namespace {

std::int64_t block_elements(const Problem& problem, int rank) {
  const AttentionShape& s = problem.shape;
  return 2 * s.batch * s.kv_heads * rows(keys_of(problem, rank)) * s.head_dim;
}

RankCounts of_all_gather(const Problem& problem, int rank) {
  RankCounts counts;
  const std::int64_t own = block_elements(problem, rank);
  for (int r = 0; r < problem.ranks; ++r) counts.stored += block_elements(problem, r);
  counts.forward_elements = counts.stored - own;
  counts.forward_messages = problem.ranks - 1;
  // K and V again; then the other ranks' sums for this rank's keys.
  counts.backward_elements = counts.stored - own + (problem.ranks - 1) * own;
  counts.backward_messages = 2 * (problem.ranks - 1);
  return counts;
}

RankCounts of_ring(const Problem& problem, int rank) {
  RankCounts counts;
  const auto block_at = [&](int step) {
    return block_elements(problem, owner_at(rank, step % problem.ranks, problem.ranks));
  };
  counts.stored = block_at(0);
  for (int step = 1; step < problem.ranks; ++step) {
    counts.forward_elements += block_at(step);
    counts.stored = std::max(counts.stored, block_at(step - 1) + block_at(step));
  }
  counts.forward_messages = problem.ranks - 1;
  counts.backward_elements = counts.forward_elements;
  if (problem.ranks > 1) counts.backward_elements += counts.forward_elements + block_at(0);
  counts.backward_messages = problem.ranks > 1 ? 2 * problem.ranks - 1 : 0;
  return counts;
}

RankCounts of_heads(const Problem& problem, int rank) {
  const AttentionShape& s = problem.shape;
  RankCounts counts;
  const std::int64_t group = s.heads / s.kv_heads, kv_heads = kv_heads_of(problem, rank).size();
  const std::int64_t q_rows = rows(queries_of(problem, rank)),
                     k_rows = rows(keys_of(problem, rank));
  const std::int64_t others_q = s.length_q - q_rows, others_k = s.length_k - k_rows,
                     other_kv_heads = s.kv_heads - kv_heads;
  const std::int64_t q_in = s.batch * kv_heads * group * others_q * s.head_dim,
                     kv_in = 2 * s.batch * kv_heads * others_k * s.head_dim,
                     rows_back = s.batch * other_kv_heads * group * q_rows;
  counts.forward_elements = q_in + kv_in + rows_back * (s.head_dim + 1);
  // One for each head of each other rank: Q, K, V; O and LSE back.
  const std::int64_t others = s.batch * (problem.ranks - 1);
  counts.forward_messages = others * kv_heads * (group + 2) + 2 * s.batch * other_kv_heads * group;
  counts.backward_elements =
      q_in + rows_back * s.head_dim + 2 * s.batch * other_kv_heads * k_rows * s.head_dim;
  counts.backward_messages =
      others * kv_heads * group + s.batch * other_kv_heads * (group + 2);  // dO; dQ, dK, dV
  counts.stored = 2 * s.batch * kv_heads * s.length_k * s.head_dim;
  const Problem whole{s, problem.causal, RowOrder::kContiguous, 1};
  counts.pairs = kv_heads * group * visible_pairs(whole, queries_of(whole, 0), keys_of(whole, 0));
  return counts;
}

}  // namespace

std::string name_of(Method method) {
  switch (method) {
    case Method::kAllGather:
      return "all-gather";
    case Method::kRing:
      return "ring";
    case Method::kOverlap:
      return "overlap";
    case Method::kZigZag:
      return "zig-zag";
    case Method::kHeads:
      return "heads";
  }
  return "";
}

RowOrder order_of(Method method) {
  return method == Method::kZigZag ? RowOrder::kZigZag : RowOrder::kContiguous;
}

RankCounts counts_of(const Problem& problem, Method method, int rank) {
  if (method == Method::kHeads) return of_heads(problem, rank);
  RankCounts counts =
      method == Method::kAllGather ? of_all_gather(problem, rank) : of_ring(problem, rank);
  for (int owner = 0; owner < problem.ranks; ++owner) {
    counts.pairs += problem.shape.heads *
                    visible_pairs(problem, queries_of(problem, rank), keys_of(problem, owner));
  }
  return counts;
}

std::int64_t most_pairs(const Problem& problem, int step) {
  std::int64_t most = 0;
  for (int rank = 0; rank < problem.ranks; ++rank) {
    const int owner = owner_at(rank, step, problem.ranks);
    most =
        std::max(most, visible_pairs(problem, queries_of(problem, rank), keys_of(problem, owner)));
  }
  return most;
}

double flops(double pairs, std::int64_t head_dim, bool backward) {
  return pairs * static_cast<double>(head_dim) * (backward ? 10 : 4);
}

namespace {

double compute_seconds(std::int64_t pairs, const Problem& problem, bool backward,
                       const Machine& machine) {
  const auto batch = static_cast<double>(problem.shape.batch);
  return flops(batch * static_cast<double>(pairs), problem.shape.head_dim, backward) /
         (machine.tflops * 1e12);
}

// Of the largest block of K and V: all links work at the same time.
double largest_block(const Problem& problem) {
  const AttentionShape& s = problem.shape;
  const std::int64_t rows_of_block = rows(keys_of(problem, 0));
  return static_cast<double>(2 * s.batch * s.kv_heads * rows_of_block * s.head_dim);
}

// The ring, step by step: in each, the slowest rank counts.
double ring_seconds(const Problem& problem, Method method, bool backward, const Machine& machine) {
  const double bytes_per_second = machine.link * 1e9;
  const double kv = largest_block(problem) * machine.element / bytes_per_second;
  const double d_kv = largest_block(problem) * machine.gradient_element / bytes_per_second;
  double seconds = 0;
  for (int step = 0; step < problem.ranks; ++step) {
    const double compute = compute_seconds(problem.shape.heads * most_pairs(problem, step), problem,
                                           backward, machine);
    const bool last = step + 1 == problem.ranks;
    if (method == Method::kRing) {
      seconds += compute + (last ? 0 : kv) + (backward ? (last ? kv : d_kv) : 0);
    } else {
      // dK and dV of the step before travel with the next K and V. In the last shift they are
      // complete, and rounded.
      const double transfers = (last ? 0 : kv) + (backward && step > 0 ? d_kv : 0);
      seconds += std::max(compute, transfers) + (backward && last ? kv : 0);
    }
  }
  return seconds;
}

}  // namespace

double predicted_seconds(const Problem& problem, Method method, bool backward,
                         const Machine& machine) {
  if (problem.ranks > 1 && method != Method::kAllGather && method != Method::kHeads) {
    return ring_seconds(problem, method, backward, machine);
  }
  double slowest = 0;
  for (int rank = 0; rank < problem.ranks; ++rank) {
    const RankCounts counts = counts_of(problem, method, rank);
    double bytes = machine.element * static_cast<double>(backward ? counts.backward_elements
                                                                  : counts.forward_elements);
    if (backward && method == Method::kAllGather) {
      // K and V again, and the sums of dK and dV.
      bytes = machine.element * static_cast<double>(counts.forward_elements) +
              machine.gradient_element *
                  static_cast<double>(counts.backward_elements - counts.forward_elements);
    }
    slowest = std::max(slowest, compute_seconds(counts.pairs, problem, backward, machine) +
                                    bytes / (machine.link * 1e9));
  }
  return slowest;
}

double predicted_efficiency(AttentionShape shape, bool causal, int gpus, Method method,
                            bool backward, const Machine& machine) {
  const Problem one{shape, causal, RowOrder::kContiguous, 1};
  const Problem all{shape, causal, order_of(method), gpus};
  return predicted_seconds(one, Method::kRing, backward, machine) /
         (gpus * predicted_seconds(all, method, backward, machine));
}

}  // namespace fa::ring
