/// @file
/// Lesson 06: the forms of ring attention by their names, and a problem computed by one of them:
/// from whole tensors to the rows of each rank, and back.
#pragma once

#include "05_flash_forward/src/checker.hpp"
#include "06_flash_backward/ring/01_all_gather.hpp"
#include "06_flash_backward/ring/02_ring.hpp"
#include "06_flash_backward/ring/03_overlap.hpp"
#include "06_flash_backward/ring/04_heads.hpp"
#include "06_flash_backward/ring/counts.hpp"
#include "06_flash_backward/src/problem.hpp"
#include "common/cli/program.hpp"
#include "common/tensor/random.hpp"

namespace fa::ring {

/// @{ One pass of a rank.
template <class Rank>
void forward(Rank& rank, Method method) {
  if (method == Method::kAllGather) return all_gather::forward(rank);
  if (method == Method::kRing) return blocking::forward(rank);
  if (method == Method::kHeads) return by_heads::forward(rank);
  overlap::forward(rank);
}
template <class Rank>
void backward(Rank& rank, Method method) {
  if (method == Method::kAllGather) return all_gather::backward(rank);
  if (method == Method::kRing) return blocking::backward(rank);
  if (method == Method::kHeads) return by_heads::backward(rank);
  overlap::backward(rank);
}
/// @}

/// What all ranks have computed, and what has arrived at this one meanwhile.
struct Results {
  attention::Outputs outputs;
  fa::backward::Gradients gradients;
  Arrived in_forward, in_backward;
  std::int64_t stored = 0;  ///< most elements in buffers for K and V, forward
};

/// A whole tensor from the rows of all ranks.
inline Tensor<float, 4> collected(Comm& comm, const Problem& problem, bool of_keys,
                                  std::int64_t heads, std::int64_t columns,
                                  const std::vector<float>& own) {
  const AttentionShape& s = problem.shape;
  const auto ranges_of = [&](int r) {
    return of_keys ? keys_of(problem, r) : queries_of(problem, r);
  };
  const auto shape_of = [&](int r) {
    return Shape<4>{s.batch, heads, rows(ranges_of(r)), columns};
  };
  std::vector<std::int64_t> counts;
  for (int r = 0; r < problem.ranks; ++r) counts.push_back(element_count(shape_of(r)));
  const std::vector<float> all = gather(comm, own, counts);
  Tensor<float, 4> whole({s.batch, heads, of_keys ? s.length_k : s.length_q, columns});
  poison(whole.view());  // a position that no rank owns fails every check
  const float* next = all.data();
  for (int r = 0; r < problem.ranks; ++r) {
    put_rows<float>(View<const float, 4>(next, shape_of(r)), ranges_of(r), whole.view());
    next += counts[static_cast<std::size_t>(r)];
  }
  return whole;
}

/// Computes a problem on all ranks; each gets the whole result.
/// @param comm of all ranks, through the memory of the host
template <class Engine>
Results results_of(Comm& comm, Engine& engine, const Problem& problem, Method method,
                   const fa::backward::Inputs& in) {
  Rank<Engine> rank(engine, problem, comm.rank());
  const auto put = [&](auto* to, const Tensor<float, 4>& whole, const Ranges& ranges) {
    Tensor<float, 4> own({whole.size(0), whole.size(1), rows(ranges), whole.size(3)});
    take_rows<float>(whole, ranges, own.view());
    engine.put(to, own);
  };
  const Ranges queries = queries_of(problem, comm.rank()), keys = keys_of(problem, comm.rank());
  const std::int64_t half = rank.kv.count() / 2;
  put(rank.q.data(), in.forward.q, queries);
  put(rank.d_o.data(), in.d_o, queries);
  put(rank.kv.data(), in.forward.k, keys);
  put(rank.kv.data() + half, in.forward.v, keys);

  Results results;
  comm.take_arrived();
  forward(rank, method);
  results.in_forward = comm.take_arrived();
  results.stored = rank.stored();
  backward(rank, method);
  results.in_backward = comm.take_arrived();

  const AttentionShape& s = problem.shape;
  const auto of_queries = [&](const auto& own, std::int64_t columns) {
    return collected(comm, problem, false, s.heads, columns, engine.get(own.data(), own.count()));
  };
  const auto of_keys = [&](const auto* own) {
    return collected(comm, problem, true, s.kv_heads, s.head_dim, engine.get(own, half));
  };
  results.outputs.o = of_queries(rank.o, s.head_dim);
  results.outputs.lse = Tensor<float, 3>({s.batch, s.heads, s.length_q});
  const auto lse = of_queries(rank.lse, 1);
  std::copy_n(lse.data(), lse.count(), results.outputs.lse.data());
  results.gradients = {of_queries(rank.d_q, s.head_dim), of_keys(rank.d_kv.data()),
                       of_keys(rank.d_kv.data() + half)};
  return results;
}

/// A problem's inputs, and lesson 01 on them, which results are checked against.
struct Reference {
  attention::Problem whole;
  fa::backward::Inputs inputs;
  flash::Checker of_forward;
  fa::backward::Checker of_backward;

  /// Inputs of normally distributed values.
  Reference(const AttentionShape& shape, bool causal, attention::Type type)
      : whole(attention::problem_of(type, shape, causal)),
        inputs(fa::backward::make_inputs(whole, attention::Values::kNormal, 1)),
        of_forward(whole, inputs.forward),
        of_backward(whole, inputs) {}
  /// The verdicts on O, LSE, dQ, dK and dV.
  std::vector<Verdict> check(const Results& results) const {
    auto verdicts = of_forward.check("forward", results.outputs);
    const auto more = of_backward.check("backward", results.gradients);
    verdicts.insert(verdicts.end(), more.begin(), more.end());
    return verdicts;
  }
  /// Reports the largest error of results, relative to its limit.
  void report(cli::Program& program, const std::string& name, const Results& results) const {
    double worst = 0;
    for (const Verdict& verdict : check(results)) {
      if (!verdict.accepted) program.detail(verdict.report() + "\n");
      worst = std::max(worst, attention::error_over_tolerance(verdict));
    }
    program.check(name + ": error / limit", worst, 1);
  }
};

/// Adds the options that choose methods and masks, and gives those that are chosen.
struct Choice {
  std::string method = "all", mask = "all";

  /// The options --method and --mask.
  void add_options(cli::Program& program) {
    std::vector<std::string> methods{"all"};
    for (const Method each : kMethods) methods.push_back(name_of(each));
    program.option("--method", method, methods, "way to distribute attention");
    program.option("--mask", mask, {"all", "full", "causal"}, "mask of the scores");
  }
  /// Calls visit(method, causal) for each chosen method and mask.
  template <class Visit>
  void for_each(Visit visit) const {
    for (const bool causal : {false, true}) {
      if (mask == (causal ? "full" : "causal")) continue;
      for (const Method each : kMethods) {
        if (method == "all" || method == name_of(each)) visit(each, causal);
      }
    }
  }
};

}  // namespace fa::ring
