#include "06_flash_backward/ring/model.hpp"

#include <algorithm>

namespace fa::ring {
namespace {

double compute_seconds(std::int64_t pairs, const Problem& problem, bool backward,
                       const Machine& machine) {
  const auto batch = static_cast<double>(problem.shape.batch);
  return flops(batch * static_cast<double>(pairs), problem.shape.head_dim, backward) /
         (machine.tflops * 1e12);
}

// Of the largest block of K and V: all links work at the same time.
double block_elements(const Problem& problem) {
  const AttentionShape& s = problem.shape;
  const std::int64_t rows_of_block = rows(keys_of(problem, 0));
  return static_cast<double>(2 * s.batch * s.kv_heads * rows_of_block * s.head_dim);
}

// The ring, step by step: in each, the slowest rank counts.
double ring_seconds(const Problem& problem, Method method, bool backward, const Machine& machine) {
  const double bytes_per_second = machine.link * 1e9;
  const double kv = block_elements(problem) * machine.element / bytes_per_second;
  const double d_kv = block_elements(problem) * machine.gradient_element / bytes_per_second;
  double seconds = 0;
  for (int step = 0; step < problem.ranks; ++step) {
    const double compute = compute_seconds(problem.shape.heads * most_pairs(problem, step), problem,
                                           backward, machine);
    const bool last = step + 1 == problem.ranks;
    if (method == Method::kRing) {
      seconds += compute + (last ? 0 : kv) + (backward ? d_kv : 0);
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
