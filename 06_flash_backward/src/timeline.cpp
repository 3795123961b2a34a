#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "06_flash_backward/src/sections.hpp"

namespace fa::backward {
namespace {

// Of the problems that are drawn; the second one for rungs of wide heads.
constexpr std::int64_t kDrawnHeadDim = 128, kDrawnWideHeadDim = 256;

bool is_wide(const Rung& rung) {
  return rung.min_head_dim > 128;
}

Problem one_head(std::int64_t length_q, std::int64_t length_k, std::int64_t head_dim, bool causal) {
  return problem_of(Type::kFloat16, {1, 1, 1, length_q, length_k, head_dim}, causal);
}

}  // namespace

Inputs random_inputs(const Problem& problem) {
  return backward::make_inputs(problem, Values::kNormal, 1);
}

Problem drawn_problem(const Rung& rung) {
  const std::int64_t head_dim = is_wide(rung) ? kDrawnWideHeadDim : kDrawnHeadDim;
  return one_head(256, 256, rung.head_dim_near(head_dim), false);
}

namespace {

// Whether a rung has blocks of queries beside blocks of keys: where dQ, dK and dV together need too
// many registers.
bool has_blocks_of_queries(const Rung& rung) {
  return drawn_problem(rung).shape.head_dim > 192;
}

// Tensors by their first appearance. Most rungs ask for K, Q, V and dO in this order, and write dV
// before dK. Rung 08 asks for V before Q; blocks of queries ask for Q, K, dO and V, and write dQ.
std::vector<std::string> tensors_of(const Rung& rung) {
  if (rung.name == "08_wgmma") return {"K", "V", "Q", "dO", "dV", "dK"};
  if (has_blocks_of_queries(rung)) return {"Q", "K", "dO", "V", "dQ", "dV", "dK"};
  return {"K", "Q", "V", "dO", "dV", "dK"};
}

}  // namespace

cli::RecordedRung recorded(const Rung& rung, const Problem& problem) {
  const auto inputs = random_inputs(problem);
  return {rung.name, problem.words(), tensors_of(rung),
          lab::record_matmuls([&] { rung.prepare(problem, inputs).launch(); })};
}

void show_timelines(const Backend& backend, const cli::TimelineOptions& options) {
  const std::string first = "08";
  std::vector<cli::RecordedRung> rungs;
  for (const Rung* rung :
       cli::rungs_with_timeline(backend.rungs, options.kernel, first, [](const Rung& one) {
         // They are of one SM.
         return one.supports(drawn_problem(one)) && one.tiles.front().cluster == 1;
       })) {
    rungs.push_back(recorded(*rung, drawn_problem(*rung)));
  }
  cli::show_timelines(options, rungs, first, "P, dS");
}

Inputs timed_inputs(const Backend& backend, const Problem& problem) {
  const std::int64_t n = problem.shape.length_q, d = problem.shape.head_dim;
  Problem one = problem;
  one.shape = {1, 1, 1, n, n, d};
  attention::Inputs forward = attention::timed_inputs(n, d);
  attention::Outputs outputs = backend.forward(one, forward);
  Tensor<float, 4> d_o = attention::timed_inputs(n, d).v;
  // Not the values: P and dP would be of the same matrix.
  std::reverse(d_o.data(), d_o.data() + d_o.count());
  return {std::move(forward), std::move(outputs.o), std::move(outputs.lse), std::move(d_o)};
}

std::vector<cli::Measurement> time_rungs(const Backend& backend, const TimedGroup& group) {
  const TimingRules<Inputs> rules{
      5, "06", [&](const Problem& problem) { return timed_inputs(backend, problem); }};
  return attention::time_rungs(backend, group, rules);
}

}  // namespace fa::backward
