/// @file
/// What all sections of a lesson with a ladder are given.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/attention/host/step.hpp"
#include "common/cli/kernels.hpp"

namespace fa::attention {

/// The kernels of a lesson on one backend.
template <class StepOfLesson>
struct LadderBackend : BackendBase {
  std::vector<StepOfLesson> steps;
};

/// A lesson's program as its sections see it.
/// @tparam Backend of the lesson, a LadderBackend
template <class Backend>
struct Lesson {
  using LadderStep = typename decltype(Backend::steps)::value_type;
  using Given = typename LadderStep::GivenType;
  using Result = typename LadderStep::ResultType;

  /// Adds the options of the sections, and the section that names the backend.
  Lesson(cli::Program& the_program, const std::vector<Backend>& all, std::string the_name,
         std::string the_results, std::function<Given(const Problem&)> the_inputs)
      : program(the_program),
        backends(the_program, all),
        name(std::move(the_name)),
        results(std::move(the_results)),
        inputs_of(std::move(the_inputs)) {
    cli::add_kernel_options(program, options, "queries and keys", true);
    program.option("--group", options.group,
                   "section time: only groups whose name contains this text, such as \"bfloat16, "
                   "D 128\"");
    backends.add_section();
  }
  Lesson(const Lesson&) = delete;  // sections point to it
  Lesson& operator=(const Lesson&) = delete;

  /// @throws std::invalid_argument when --kernel selects no step
  void check_kernel(const Backend& backend) const {
    cli::check_kernel(options, step_names(backend), name);
  }

  cli::Program& program;
  cli::KernelBackends<Backend> backends;
  cli::KernelOptions options{};
  std::string name;                                ///< its folder
  std::string results;                             ///< what its kernels return: "O and LSE"
  std::function<Given(const Problem&)> inputs_of;  ///< random inputs of a problem
};

}  // namespace fa::attention
