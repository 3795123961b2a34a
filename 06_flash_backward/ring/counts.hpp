/// @file
/// Lesson 06: what each way to distribute attention moves, stores and computes on a rank, from the
/// layout alone, and how long that takes, predicted from FLOPs, bytes and the bandwidth of the links.
/// The programs count the same as messages arrive, and compare. What the prediction leaves out makes
/// real runs slower: latencies, launches, partial tiles.
#pragma once

#include "06_flash_backward/ring/layout.hpp"

namespace fa::ring {

/// A way to distribute attention over ranks.
enum class Method { kAllGather, kRing, kOverlap, kZigZag, kHeads };

/// All of them, in the order of the chapter.
inline constexpr Method kMethods[] = {Method::kAllGather, Method::kRing, Method::kOverlap,
                                      Method::kZigZag, Method::kHeads};

/// Its name in tables and on the command line.
inline const char* name_of(Method method) {
  constexpr const char* kNames[] = {"all-gather", "ring", "overlap", "zig-zag", "heads"};
  return kNames[static_cast<int>(method)];
}

/// The order of the sequence that a method uses.
inline RowOrder order_of(Method method) {
  return method == Method::kZigZag ? RowOrder::kZigZag : RowOrder::kContiguous;
}

/// What a rank receives from others, stores and computes.
struct RankCounts {
  std::int64_t forward_elements = 0, forward_messages = 0;    ///< received in the forward pass
  std::int64_t backward_elements = 0, backward_messages = 0;  ///< received in the backward pass
  std::int64_t stored = 0;  ///< most elements in the buffers for K and V, forward
  std::int64_t pairs = 0;   ///< visible pairs of query and key, over the heads of a batch element
};

/// @{ What a rank receives and stores, by the form that it runs; pairs of the heads form only.
inline RankCounts counts_of_all_gather(const Problem& problem, int rank) {
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
inline RankCounts counts_of_ring(const Problem& problem, int rank) {
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
inline RankCounts counts_of_heads(const Problem& problem, int rank) {
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
/// @}

/// The counts of a rank.
/// @param problem with order_of(method)
inline RankCounts counts_of(const Problem& problem, Method method, int rank) {
  if (method == Method::kHeads) return counts_of_heads(problem, rank);
  RankCounts counts = method == Method::kAllGather ? counts_of_all_gather(problem, rank)
                                                   : counts_of_ring(problem, rank);
  for (int owner = 0; owner < problem.ranks; ++owner) {
    counts.pairs += problem.shape.heads *
                    visible_pairs(problem, queries_of(problem, rank), keys_of(problem, owner));
  }
  return counts;
}

/// The pairs of one head that the busiest rank computes at a step of the ring.
inline std::int64_t most_pairs(const Problem& problem, int step) {
  std::int64_t most = 0;
  for (int rank = 0; rank < problem.ranks; ++rank) {
    const Ranges keys = keys_of(problem, owner_at(rank, step, problem.ranks));
    most = std::max(most, visible_pairs(problem, queries_of(problem, rank), keys));
  }
  return most;
}

/// GPUs and their links; the defaults are those of the data sheets of H100 and H200 SXM.
struct Machine {
  double tflops = 989;          ///< TFLOP/s of a GPU: dense bfloat16
  double link = 450;            ///< GB/s from a GPU to another: half of NVLink's 900 both ways
  double element = 2;           ///< bytes of an element of Q, K, V and O
  double gradient_element = 4;  ///< bytes of an element of dK and dV that travel: float32 sums
};

/// The FLOPs of pairs: 4 head_dim each in the forward pass, 10 head_dim in the backward pass.
inline double flops_of(std::int64_t pairs, const AttentionShape& shape, bool backward) {
  return static_cast<double>(shape.batch * pairs * shape.head_dim) * (backward ? 10 : 4);
}

/// The ring, step by step: in each, the slowest rank counts. All links work at the same time.
inline double ring_seconds(const Problem& problem, Method method, bool backward,
                           const Machine& machine) {
  const double block = static_cast<double>(largest_block(problem)) / (machine.link * 1e9);
  const double kv = block * machine.element, d_kv = block * machine.gradient_element;
  double seconds = 0;
  for (int step = 0; step < problem.ranks; ++step) {
    const std::int64_t pairs = problem.shape.heads * most_pairs(problem, step);
    const double compute = flops_of(pairs, problem.shape, backward) / (machine.tflops * 1e12);
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

/// Predicted seconds of a pass.
/// @param problem with order_of(method)
inline double predicted_seconds(const Problem& problem, Method method, bool backward,
                                const Machine& machine) {
  if (problem.ranks > 1 && method != Method::kAllGather && method != Method::kHeads) {
    return ring_seconds(problem, method, backward, machine);
  }
  double slowest = 0;
  for (int rank = 0; rank < problem.ranks; ++rank) {
    const RankCounts counts = counts_of(problem, method, rank);
    const auto forward_elements = static_cast<double>(counts.forward_elements),
               backward_elements = static_cast<double>(counts.backward_elements);
    double bytes = machine.element * (backward ? backward_elements : forward_elements);
    if (backward && method == Method::kAllGather) {  // K and V again, and the sums of dK and dV
      bytes = machine.element * forward_elements +
              machine.gradient_element * (backward_elements - forward_elements);
    }
    const double compute = flops_of(counts.pairs, problem.shape, backward);
    slowest = std::max(slowest, compute / (machine.tflops * 1e12) + bytes / (machine.link * 1e9));
  }
  return slowest;
}

/// The speed of all GPUs as a fraction of their number times the speed of one.
inline double predicted_efficiency(AttentionShape shape, bool causal, int gpus, Method method,
                                   bool backward, const Machine& machine) {
  const Problem one{shape, causal, RowOrder::kContiguous, 1};
  const Problem all{shape, causal, order_of(method), gpus};
  return predicted_seconds(one, Method::kRing, backward, machine) /
         (gpus * predicted_seconds(all, method, backward, machine));
}

}  // namespace fa::ring
