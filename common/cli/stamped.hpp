/// @file
/// The programs *_stamped: they run a lesson's Hopper kernels with stamps on a GPU and print the
/// stamps, for section timeline of the lesson's program.
#pragma once

#include <exception>
#include <functional>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>

#include "common/gpu/backend.hpp"
#include "common/gpu/stamps.hpp"
#include "common/lab/measured.hpp"

namespace fa::cli {

/// A backend whose kernels can have stamps; those of a build without them have none.
template <class Backend>
struct StampedBackend : Backend {
  std::function<void()> clear_stamps;               ///< forgets all
  std::function<std::vector<Stamp>()> take_stamps;  ///< those since then
};

/// The main program: runs each step without stamps and with them, and prints the stamps.
/// @param name       of the program
/// @param backends   (): the same steps without stamps and with them
/// @param problem_of (step): what is drawn of it, one head
/// @param inputs_of  (problem): its inputs
/// @return exit status
template <class Backends, class ProblemOf, class InputsOf>
int print_stamps(const char* name, Backends backends, ProblemOf problem_of, InputsOf inputs_of) {
  constexpr int repeats = 50;
  try {
    const auto both = backends();
    const auto &plain = both.front(), &stamped = both.back();
    if (!plain.available) {
      throw std::runtime_error("there is no GPU with the kernels' instructions");
    }
    lab::StampedRuns runs{plain.properties.name, {}};
    for (std::size_t i = 0; i < stamped.steps.size(); ++i) {
      const auto& step = stamped.steps[i];
      auto problem = problem_of(step);
      const auto inputs = inputs_of(problem);
      // One head for each SM.
      problem.shape.heads = problem.shape.kv_heads = plain.properties.sm_count;
      lab::StampedRun run;
      run.kernel = step.name;
      run.milliseconds =
          plain.milliseconds(plain.steps.at(i).prepare(problem, inputs).launch, repeats)
              .value_or(0);
      const auto prepared = step.prepare(problem, inputs);
      run.stamped_milliseconds = stamped.milliseconds(prepared.launch, repeats).value_or(0);
      stamped.clear_stamps();
      prepared.launch();
      run.stamps = stamped.take_stamps();
      runs.runs.push_back(std::move(run));
    }
    fmt::print("{}", lab::stamps_text(runs));
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", name, error.what());
    return 2;
  }
}

}  // namespace fa::cli
