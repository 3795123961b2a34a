/// @file
/// The sections that the programs of lessons 05 and 06 share: what is done with each step of a
/// ladder.
#pragma once

#include <array>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/attention/host/timing.hpp"
#include "common/attention/host/traces.hpp"
#include "common/cli/kernels.hpp"
#include "common/cli/table.hpp"
#include "common/cli/timelines.hpp"

namespace fa::attention {

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

/// A problem with its inputs and their checker.
template <class Checker, class Given>
struct Task {
  /// Makes the checker.
  Task(Problem the_problem, Given the_inputs)
      : problem(std::move(the_problem)), inputs(std::move(the_inputs)), checker(problem, inputs) {}
  Problem problem;
  Given inputs;
  Checker checker;
};

/// Checks each step on the real input, in all its types.
/// @param inputs_of the input, rounded for a problem
/// @return the result of the last step without a mask
/// @throws std::invalid_argument when no step supports the input
template <class Checker, class Lesson, class InputsOf>
auto check_real(const Lesson& lesson, const AttentionShape& shape, InputsOf inputs_of) {
  using OneTask = Task<Checker, typename Lesson::Given>;
  std::map<std::pair<Type, bool>, OneTask> tasks;
  for (const Type type : kTypes) {
    for (const bool causal : {false, true}) {
      const Problem problem = problem_of(type, shape, causal);
      tasks.try_emplace({type, causal}, problem, inputs_of(problem));
    }
  }
  fmt::print("{} heads, {} KV heads, {} queries, {} keys, head_dim {}\n", shape.heads,
             shape.kv_heads, shape.length_q, shape.length_k, shape.head_dim);
  std::optional<typename Lesson::Result> last;
  for (const auto& step : lesson.backends.used().steps) {
    fmt::print("{}: {}\n", step.name, step.idea);
    for (const Type type : step.types) {
      for (const bool causal : {false, true}) {
        const OneTask& task = tasks.at({type, causal});
        if (!step.supports(task.problem)) {
          fmt::print("      head_dim {} is not supported\n", shape.head_dim);
          continue;
        }
        auto result = step.run(task.problem, task.inputs);
        const std::string name =
            fmt::format("{}, {}{}", step.name, name_of(type), causal ? ", causal" : "");
        lesson.program.check(task.checker.check(name, result));
        if (!causal) last = std::move(result);
      }
    }
  }
  if (!last) {
    throw std::invalid_argument(
        fmt::format("no kernel of this lesson supports a head_dim of {}", shape.head_dim));
  }
  return *last;
}

/// A problem that breaks kernels which are right on round ones.
struct RaggedProblem {
  const char* name;
  Problem problem;
};
/// All of them, in float32.
inline const std::array<RaggedProblem, 5>& ragged_problems() {
  constexpr Type type = Type::kFloat32;
  static const std::array<RaggedProblem, 5> all{
      {{"ragged", problem_of(type, {1, 2, 2, 113, 203, 64}, true)},
       {"GQA", problem_of(type, {2, 6, 2, 40, 50, 64})},
       {"narrow", problem_of(type, {1, 2, 2, 70, 90, 40}, true)},
       {"masked", problem_of(type, {1, 1, 1, 150, 20, 64}, true)},
       {"dropout", problem_of(type, {1, 2, 1, 70, 131, 64}, false, 0.17)}}};
  return all;
}

/// Prints the sizes of these problems.
inline void show_ragged_problems() {
  cli::Table sizes({"problem", "batch", "heads", "KV heads", "queries", "keys", "head_dim",
                    "causal", "dropout"});
  for (const auto& [name, problem] : ragged_problems()) {
    const AttentionShape& s = problem.shape;
    sizes.add({name, std::to_string(s.batch), std::to_string(s.heads), std::to_string(s.kv_heads),
               std::to_string(s.length_q), std::to_string(s.length_k), std::to_string(s.head_dim),
               problem.causal ? "yes" : "no", fmt::format("{}", problem.dropout)});
  }
  fmt::print("{}\n", sizes.text());
}

/// Checks each step on these problems, in all its types.
template <class Checker, class Lesson>
void check_ragged(const Lesson& lesson) {
  using OneTask = Task<Checker, typename Lesson::Given>;
  show_ragged_problems();
  std::vector<std::string> headings{"kernel"};
  std::map<std::pair<std::string, Type>, OneTask> tasks;
  for (const auto& [name, problem] : ragged_problems()) {
    headings.emplace_back(name);
    for (const Type type : kTypes) {
      Problem typed = problem;
      typed.type = type;
      tasks.try_emplace({name, type}, typed, lesson.inputs_of(typed));
    }
  }
  cli::Table table(headings);
  double worst_of_all = 0;
  for (const auto& step : lesson.backends.used().steps) {
    std::vector<std::string> cells{step.name};
    for (const auto& [name, problem] : ragged_problems()) {
      std::optional<double> worst;
      for (const Type type : step.types) {
        const OneTask& task = tasks.at({name, type});
        if (!step.supports(task.problem)) continue;
        for (const Verdict& verdict :
             task.checker.check(step.name + ", " + name, step.run(task.problem, task.inputs))) {
          worst = std::max(worst.value_or(0), error_over_tolerance(verdict));
          if (!verdict.accepted) lesson.program.check(verdict);  // with its place
        }
      }
      cells.push_back(worst ? fmt::format("{:.2f}", *worst) : "-");
      worst_of_all = std::max(worst_of_all, worst.value_or(0));
    }
    table.add(cells);
  }
  fmt::print("Largest error of {} / limit, over all types of a kernel\n{}", lesson.results,
             table.text());
  lesson.program.check("largest error / limit", worst_of_all, 1);
}

/// What is launched repeatedly, to see whether it gives the same bits. Prints its sizes.
/// @param on_gpu a larger one; else with these lengths
inline Problem repeated_problem(bool on_gpu, std::int64_t length_q, std::int64_t length_k) {
  const AttentionShape s = on_gpu ? AttentionShape{1, 4, 2, 1000, 1000, 64}
                                  : AttentionShape{1, 2, 1, length_q, length_k, 64};
  fmt::print("{} heads, {} KV heads, {} queries, {} keys, head_dim {}, causal\n", s.heads,
             s.kv_heads, s.length_q, s.length_k, s.head_dim);
  return problem_of(Type::kFloat32, s, true);
}

/// A row of the section "memory": bytes for N queries and as many keys, and their formula.
struct MemoryRow {
  std::string name, formula;
  std::function<std::int64_t(std::int64_t n)> bytes;
};

/// Compares the memory that each step allocates, as the allocator counts it, with a formula.
/// @param own      rows of what every kernel has
/// @param head_dim of the steps that support it
/// @param text     the table is printed in place of {}
template <class Backend, class Zeros>
void show_memory(cli::Program& program, const Backend& backend, const std::vector<MemoryRow>& own,
                 Zeros zeros, std::int64_t head_dim, const std::string& text) {
  constexpr std::array<std::int64_t, 4> kLengths{256, 512, 1024, 2048};
  std::vector<std::string> headings{"kernel"};
  for (const std::int64_t n : kLengths) headings.push_back(fmt::format("N = {}", n));
  headings.emplace_back("formula");
  cli::Table table(headings);
  const auto add = [&](const MemoryRow& row, auto bytes) {
    std::vector<std::string> cells{row.name};
    for (const std::int64_t n : kLengths) cells.push_back(std::to_string(bytes(n)));
    cells.push_back(row.formula);
    table.add(cells);
  };
  for (const MemoryRow& row : own) add(row, row.bytes);
  std::int64_t off = 0;
  for (const auto& step : backend.steps) {
    const MemoryRow row{step.name, step.memory.text, [&](std::int64_t n) {
                          return step.memory.value(n, step.tiles.front().head_dim);
                        }};
    add(row, [&](std::int64_t n) {
      const Problem problem =
          problem_of(step.types.front(), {1, 1, 1, n, n, step.head_dim_near(head_dim)});
      const std::int64_t extra = step.prepare(problem, zeros(problem)).extra_bytes;
      off += std::abs(extra - row.bytes(n));
      return extra;
    });
  }
  fmt::print(fmt::runtime(text), table.text());
  program.check_none("additional memory, formula", off, "unexpected byte");
}

/// What the lab records of a step on a problem.
/// @param tensors in the order in which the copies of most of the lesson's steps take them
/// @throws std::runtime_error when the step does not compute in the lab
template <class LadderStep, class Given>
cli::RecordedStep recorded(const LadderStep& step, const Problem& problem, const Given& inputs,
                           const std::vector<std::string>& tensors) {
  return {step.name, problem.words(), step.tensors.empty() ? tensors : step.tensors,
          lab::record_matmuls([&] { step.prepare(problem, inputs).launch(); })};
}

/// Prints the order of operations of the lab's steps that have a timeline; or, with stamps, shows
/// what a GPU did.
/// @param tensors as of recorded()
/// @param work    the name of the arithmetic: "softmax"
/// @throws std::runtime_error when a file cannot be written
template <class Lesson>
void show_timelines(const Lesson& lesson, const std::vector<std::string>& tensors,
                    const std::string& work) {
  const auto& steps = lesson.backends.lab().steps;
  const auto options = cli::timeline_options(lesson.options, steps, lesson.name);
  std::vector<cli::RecordedStep> all;
  for (const auto* step : cli::steps_with_timeline(
           steps, options.kernel, [](const auto& one) { return one.drawn.has_value(); })) {
    all.push_back(recorded(*step, *step->drawn, lesson.inputs_of(*step->drawn), tensors));
  }
  cli::show_timelines(options, all, work);
}

/// On a GPU only: how fast each step is, in groups of a type, a head dimension and a mask.
/// @param head_dims of the groups
/// @param time      gives the rows of a group, or none: time(group)
/// @throws std::invalid_argument when no step is wanted, or no group
template <class Lesson, class TimeGroup>
void time_all(const Lesson& lesson, const std::vector<std::int64_t>& head_dims, TimeGroup time) {
  const cli::KernelOptions& options = lesson.options;
  if (!cli::can_time(lesson.program, options)) return;
  const auto& backend = lesson.backends.used();
  lesson.check_kernel(backend);
  fmt::print("On {}\n", backend.properties.name);
  for (const std::string& why : backend.left_out) fmt::print("{}\n", why);
  fmt::print("\n");
  std::string command = lesson.name + " --device gpu --section time";
  if (!options.group.empty()) command += fmt::format(" --group \"{}\"", options.group);
  if (!options.kernel.empty()) command += " --kernel " + options.kernel;
  if (options.size != 0) command += fmt::format(" --size {}", options.size);
  cli::Record record(options, backend.properties, command);
  bool any = false;
  for (const Type type : kTypes) {
    for (const std::int64_t head_dim : head_dims) {
      for (const bool causal : {false, true}) {
        const std::string name = timed_problem(type, head_dim, causal, 1024).group();
        if (name.find(options.group) == std::string::npos) continue;
        any = true;
        const std::vector<cli::Measurement> of_group =
            time(TimedGroup{type, head_dim, causal, options.kernel, options.size});
        if (of_group.empty()) continue;
        fmt::print("{}\n{}\n", std::get<std::string>(of_group[0][1].second),
                   cli::table_of(of_group, {"kernel"}));
        std::fflush(stdout);  // a group takes a while
        record.add(of_group);
      }
    }
  }
  if (!any) {
    throw std::invalid_argument(fmt::format(
        "--group {}: there is no such group; allowed is any part of a name such as \"{}\"",
        options.group, timed_problem(Type::kBFloat16, 128, true, 1024).group()));
  }
  record.finish();
}

/// What is a lesson's own of the sections that both lessons have.
struct OwnSections {
  std::function<void()> real, memory, repeats, times;
  std::string traffic;  ///< what formulas mean, printed before them
  /// Of show_traffic().
  std::vector<std::pair<std::int64_t, std::int64_t>> sizes;
  int traffic_tensors;
  /// @{ Of show_timelines().
  std::vector<std::string> copies;
  std::string work;
  /// @}
};

/// Adds the sections in which the steps run.
/// @param lesson must outlive the program's run
template <class Checker, class Backend>
void add_ladder_sections(const Lesson<Backend>& lesson, const OwnSections& own) {
  cli::Program& program = lesson.program;
  program.section("real", "Every kernel on the input", own.real);
  program.section("ragged", "Every kernel on hard small problems",
                  [&lesson] { check_ragged<Checker>(lesson); });
  program.section("traffic", "Memory traffic of the kernels",
                  lesson.backends.watching([&lesson, own](const Backend& watched) {
                    fmt::print(
                        "Elements read and written by one head: N queries, N keys, head_dim D, "
                        "float32,\nno mask{}\n\n",
                        own.traffic);
                    show_traffic(lesson, watched, own.sizes, own.traffic_tensors);
                  }));
  program.section("memory", "Memory that the kernels allocate", own.memory);
  program.section("repeat", "Determinism", own.repeats);
  program.section("trace", "Every kernel in the watched lab",
                  lesson.backends.watching(
                      [&lesson](const Backend& watched) { trace_steps(lesson, watched); }));
  program.section_on_request("time", "Times", own.times);
  program.section_apart("timeline", "Order of operations, and timelines of a GPU",
                        [&lesson, own] { show_timelines(lesson, own.copies, own.work); });
}

}  // namespace fa::attention
