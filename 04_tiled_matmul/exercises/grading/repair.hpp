/// @file
/// The grader of repairs of kernels from the museum.
#pragma once

#include "common/classroom/lab.hpp"
#include "common/lab/record.hpp"

namespace fa::classroom {

using StepKind = lab::Step::Kind;
constexpr auto kTriggers = static_cast<StepKind>(static_cast<int>(StepKind::kWaitWgmma) + 1);

/// How often the warps of a launch may do a step: what keeps a kernel as asynchronous as it was.
struct StepBudget {
  StepKind kind;
  std::string what;
  int fewest, most;
  std::string why;
};

/// A kernel to be repaired.
struct Repair {
  std::vector<double> x, right;     ///< what it reads, and its result
  std::vector<Reason> reasons;      ///< for findings of the lab
  std::vector<StepBudget> budgets;  ///< in the order in which they are tried
  double of_warp = 0.55;            ///< see require_divided(); above 1 for blocks of one warp
};

/// Runs the student's kernel: it must be right, and with no finding.
inline std::vector<std::int64_t> repaired(const Repair& repair) {
  using Result = std::tuple<Launched, std::string, std::vector<std::int64_t>>;
  const auto [launched, error, steps] = call<Result>("run", repair.x);
  require_no_findings(launched.seen, repair.reasons);
  require(error.empty(),
          "the launch failed: threads wait for what never comes, or an instruction "
          "gets what it does not allow\n\n" +
              error);
  check_result(launched.seen, repair.reasons, {"y", launched.out}, repair.right, 1e-6, {},
               "the museum's sizes");
  needs_watching(launched.seen);
  if (repair.of_warp <= 1) require_divided(launched.seen, repair.of_warp);
  return steps;
}

/// As repaired(), and refuses the cheap way.
inline void require_budgets(const Repair& repair) {
  const std::vector<std::int64_t> steps = repaired(repair);
  for (const StepBudget& b : repair.budgets) {
    const std::int64_t count = steps.at(static_cast<std::size_t>(b.kind));
    note(b.what, count);
    require(b.fewest <= count && count <= b.most,
            fmt::format("{} {}, and the kernel needs {}: {}", count, b.what,
                        count < b.fewest ? b.fewest : b.most, b.why));
  }
}

}  // namespace fa::classroom

/// The stages of a repair, which the rest are the parts of.
#define FA_REPAIR(...)                       \
  static fa::classroom::Repair fa_repair() { \
    using namespace fa::classroom;           \
    return {__VA_ARGS__};                    \
  }                                          \
  FA_STAGE(races) {                          \
    repaired(fa_repair());                   \
  }                                          \
  FA_STAGE(traffic) {                        \
    require_budgets(fa_repair());            \
  }
