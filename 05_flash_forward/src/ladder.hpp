/// @file
/// Sections that the program of this lesson and that of the next have in common: what is done with
/// each rung of a ladder.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "05_flash_forward/src/backend.hpp"
#include "05_flash_forward/src/problem.hpp"
#include "05_flash_forward/src/timing.hpp"
#include "common/cli/kernel_options.hpp"
#include "common/cli/kernel_table.hpp"
#include "common/cli/table.hpp"
#include "common/lab/trace.hpp"

namespace fa::flash::ladder {

/// All of them.
inline constexpr Type kEveryType[] = {Type::kFloat32, Type::kFloat16,
                                      Type::kBFloat16};

/// A problem in float32.
/// @param shape   sizes
/// @param causal  the mask
/// @param dropout probability of dropping an element of P
inline Problem problem_of(const AttentionShape& shape, bool causal,
                          double dropout = 0) {
  Problem problem;
  problem.shape = shape;
  problem.causal = causal;
  problem.dropout = dropout;
  problem.seed = 5;
  return problem;
}

/// The sizes of a problem in words.
inline std::string words_of(const Problem& problem) {
  const AttentionShape& s = problem.shape;
  return fmt::format("{} queries, {} keys, head_dim {}{}", s.length_q,
                     s.length_k, s.head_dim,
                     problem.causal ? ", causal" : "");
}

/// A problem with its inputs and their checker.
template <class Checker, class Inputs>
struct Task {
  /// Makes the checker.
  Task(Problem the_problem, Inputs the_inputs)
      : problem(std::move(the_problem)),
        inputs(std::move(the_inputs)),
        checker(problem, inputs) {}
  Problem problem;  ///< in one type
  Inputs inputs;    ///< of it
  Checker checker;  ///< of what kernels return
};

/// Runs a rung once.
/// @return its result, on the host
template <class Rung, class Inputs>
auto result_of(const Rung& rung, const Problem& problem,
               const Inputs& inputs) {
  const auto prepared = rung.prepare(problem, inputs);
  prepared.launch();
  return prepared.result();
}

/// Adds --group, which time_all() knows.
inline void add_group_option(cli::Program& program,
                             cli::KernelOptions& options) {
  program.option("--group", options.group,
                 "section time: only groups whose name contains this text, "
                 "such as \"bfloat16, D 128\"");
}

/// Each rung on the real input, in all its types.
/// @tparam Checker of the lesson
/// @param program  has the input, and reports
/// @param backend  with the rungs
/// @param inputs_of gives what rungs are given: inputs_of(problem)
/// @return the result of the last rung without a mask
/// @throws std::invalid_argument when no rung supports the input
template <class Checker, class Backend, class InputsOf>
auto check_real(cli::Program& program, const Backend& backend,
                InputsOf inputs_of) {
  using OfOne = Task<Checker, decltype(inputs_of(Problem()))>;
  using Result = decltype(result_of(backend.rungs.front(), Problem(),
                                    inputs_of(Problem())));
  const cli::Input& input = program.input();
  const AttentionShape shape =
      attention_shape(input.q.shape(), input.k.shape(), input.v.shape());
  std::map<std::pair<Type, bool>, OfOne> tasks;
  for (const Type type : kEveryType) {
    for (const bool causal : {false, true}) {
      Problem problem = problem_of(shape, causal);
      problem.type = type;
      tasks.try_emplace({type, causal}, problem, inputs_of(problem));
    }
  }
  fmt::print("{} heads, {} KV heads, {} queries, {} keys, head_dim {}\n",
             shape.heads, shape.kv_heads, shape.length_q, shape.length_k,
             shape.head_dim);
  std::optional<Result> last;
  for (const auto& rung : backend.rungs) {
    fmt::print("{}: {}\n", rung.name, rung.idea);
    for (const Type type : rung.types) {
      for (const bool causal : {false, true}) {
        const OfOne& task = tasks.at({type, causal});
        if (!rung.supports(task.problem)) {
          fmt::print("      head_dim {} is not supported\n", shape.head_dim);
          continue;
        }
        Result result = result_of(rung, task.problem, task.inputs);
        for (const Verdict& verdict : task.checker.check(
                 fmt::format("{}, {}{}", rung.name, name_of(type),
                             causal ? ", causal" : ""),
                 result)) {
          program.check(verdict);
        }
        if (!causal) last = std::move(result);
      }
    }
  }
  if (!last) {
    throw std::invalid_argument(
        fmt::format("no kernel of this lesson supports a head_dim of {}",
                    shape.head_dim));
  }
  return *last;
}

/// Small problems that break kernels which are right on round ones.
/// @tparam Checker of the lesson
/// @param program  reports
/// @param backend  with the rungs
/// @param results  names of what is checked
/// @param inputs_of gives what rungs are given: inputs_of(problem)
template <class Checker, class Backend, class InputsOf>
void check_ragged(cli::Program& program, const Backend& backend,
                  const std::string& results, InputsOf inputs_of) {
  using OfOne = Task<Checker, decltype(inputs_of(Problem()))>;
  const std::pair<const char*, Problem> problems[] = {
      {"ragged", problem_of({1, 2, 2, 113, 203, 64}, true)},
      {"GQA", problem_of({2, 6, 2, 40, 50, 64}, false)},
      {"narrow", problem_of({1, 2, 2, 70, 90, 40}, true)},
      {"masked", problem_of({1, 1, 1, 150, 20, 64}, true)},
      {"dropout", problem_of({1, 2, 1, 70, 131, 64}, false, 0.17)}};
  cli::Table sizes({"problem", "batch", "heads", "KV heads", "queries",
                    "keys", "head_dim", "causal", "dropout"});
  std::vector<std::string> headings{"kernel"};
  std::map<std::pair<std::string, Type>, OfOne> tasks;
  for (const auto& [name, problem] : problems) {
    const AttentionShape& s = problem.shape;
    sizes.add({name, std::to_string(s.batch), std::to_string(s.heads),
               std::to_string(s.kv_heads), std::to_string(s.length_q),
               std::to_string(s.length_k), std::to_string(s.head_dim),
               problem.causal ? "yes" : "no",
               fmt::format("{}", problem.dropout)});
    headings.emplace_back(name);
    for (const Type type : kEveryType) {
      Problem typed = problem;
      typed.type = type;
      tasks.try_emplace({name, type}, typed, inputs_of(typed));
    }
  }
  fmt::print("{}\n", sizes.text());

  cli::Table table(headings);
  double worst_of_all = 0;
  for (const auto& rung : backend.rungs) {
    std::vector<std::string> cells{rung.name};
    for (const auto& [name, problem] : problems) {
      double worst = 0;
      bool taken = false;
      for (const Type type : rung.types) {
        const OfOne& task = tasks.at({name, type});
        if (!rung.supports(task.problem)) continue;
        taken = true;
        for (const Verdict& verdict :
             task.checker.check(rung.name + ", " + name,
                                result_of(rung, task.problem, task.inputs))) {
          worst = std::max(worst, error_over_tolerance(verdict));
          if (!verdict.accepted) program.check(verdict);  // with its place
        }
      }
      cells.push_back(taken ? fmt::format("{:.2f}", worst) : "-");
      worst_of_all = std::max(worst_of_all, worst);
    }
    table.add(cells);
  }
  fmt::print("Largest error of {} / limit, over all types of a kernel\n{}",
             results, table.text());
  program.check("largest error / limit", worst_of_all, 1);
}

/// What is launched again and again, to see whether it gives the same bits. Prints it.
/// @param on_gpu   a larger one
/// @param length_q in the lab
/// @param length_k in the lab
inline Problem repeated_problem(bool on_gpu, std::int64_t length_q,
                                std::int64_t length_k) {
  const Problem problem =
      on_gpu ? problem_of({1, 4, 2, 1000, 1000, 64}, true)
             : problem_of({1, 2, 1, length_q, length_k, 64}, true);
  const AttentionShape& s = problem.shape;
  fmt::print(
      "{} heads, {} KV heads, {} queries, {} keys, head_dim {}, causal\n",
      s.heads, s.kv_heads, s.length_q, s.length_k, s.head_dim);
  return problem;
}

/// What sections trace and once launch: each rung that is wanted with and without the mask.
/// @param backend  with the rungs
/// @param options  of the program
/// @param lesson   its directory
/// @param work     called as work(rung, problem)
/// @throws std::invalid_argument when no rung is wanted
template <class Backend, class Work>
void for_each_launch(const Backend& backend,
                     const cli::KernelOptions& options,
                     const std::string& lesson, Work work) {
  std::vector<std::string> names;
  for (const auto& rung : backend.rungs) names.push_back(rung.name);
  cli::check_kernel(options, names, lesson);
  const std::int64_t size = options.size_or(70);
  for (const bool causal : {false, true}) {
    for (const auto& rung : backend.rungs) {
      if (!options.wants(rung.name)) continue;
      Problem problem =
          problem_of({1, 1, 1, size, size, rung.head_dim_near(64)}, causal);
      problem.type = rung.types.front();
      work(rung, problem);
    }
  }
}

/// What the watched lab sees of a rung; none where this build has none.
/// @param rung     of that lab
/// @param problems that it takes; the accesses of the first are counted
/// @param inputs_of gives what rungs are given: inputs_of(problem)
template <class Rung, class InputsOf>
std::optional<lab::Trace> trace(const Rung& rung,
                                const std::vector<Problem>& problems,
                                InputsOf inputs_of) {
  const Problem& problem = problems.front();
  lab::TraceName name{rung.name, group_of(problem), {}};
  for (const Shape<4>& shape :
       {problem.shape_of_q(), problem.shape_of_kv(), problem.shape_of_kv()}) {
    name.inputs.emplace_back(shape.begin(), shape.end());
  }
  std::vector<lab::TracedProblem> traced;
  for (const Problem& one : problems) {
    traced.push_back({watched_words(one), [&rung, &inputs_of, &one] {
                        result_of(rung, one, inputs_of(one));
                      }});
  }
  return lab::trace(name, traced);
}

/// Elements of global memory that all threads together read and write; an atomic addition is a
/// write.
struct Traffic {
  std::int64_t reads = 0;
  std::int64_t writes = 0;
};

/// The traffic of a rung in float32 on one head without a mask, counted by the watched lab.
/// @param rung    of that lab
/// @param n       queries, and as many keys
/// @param d       head_dim
/// @param inputs_of gives what rungs are given: inputs_of(problem)
template <class Rung, class InputsOf>
Traffic count_traffic(const Rung& rung, std::int64_t n, std::int64_t d,
                      InputsOf inputs_of) {
  const auto seen =
      trace(rung, {problem_of({1, 1, 1, n, n, d}, false)}, inputs_of);
  constexpr std::int64_t bytes = sizeof(float);
  return {(seen->global_bytes - seen->written_bytes) / bytes,
          seen->written_bytes / bytes};
}

/// A row of a table that compares traffic: kernel, N, D, reads, writes, sum by formula, the least
/// number of elements, and how many times that is moved.
/// @param kernel   name of the rung
/// @param n, d     as for count_traffic()
/// @param counted  by the watched lab
/// @param expected by the formula
/// @param least    elements of all inputs and outputs
/// @return unexpected elements
inline std::int64_t add_traffic(cli::Table& table, const std::string& kernel,
                                std::int64_t n, std::int64_t d,
                                const Traffic& counted,
                                const Traffic& expected, std::int64_t least) {
  table.add({kernel, std::to_string(n), std::to_string(d),
             std::to_string(counted.reads), std::to_string(counted.writes),
             std::to_string(expected.reads + expected.writes),
             std::to_string(least),
             fmt::format("{:.2f}",
                         static_cast<double>(counted.reads + counted.writes) /
                             static_cast<double>(least))});
  return std::abs(counted.reads - expected.reads) +
         std::abs(counted.writes - expected.writes);
}

/// Launches rungs once each, for a program that watches, and prints a line of JSON for each; in the
/// watched lab with its report. Nothing is checked.
/// @param backend  with the rungs
/// @param options  of the program
/// @param lesson   its directory
/// @param inputs_of gives what rungs are given: inputs_of(problem)
template <class Backend, class InputsOf>
void launch_once(const Backend& backend, const cli::KernelOptions& options,
                 const std::string& lesson, InputsOf inputs_of) {
  for_each_launch(backend, options, lesson,
                  [&](const auto& rung, const Problem& problem) {
                    std::optional<lab::Trace> report;
                    if (backend.kind == "watched") {
                      report = trace(rung, {problem}, inputs_of);
                    } else {
                      result_of(rung, problem, inputs_of(problem));
                    }
                    fmt::print("{}",
                               lab::launch_line(rung.name, group_of(problem),
                                                problem.shape.length_q,
                                                backend.kind, report));
                  });
}

/// The watched lab's whole report on rungs: what they ask of memory at one size, what is wrong and
/// which lines were reached with all problems of watched_problems(). With --size, and in a walk
/// through all sections, that one size only.
/// @param program  reports
/// @param watched  with the rungs
/// @param options  of the program
/// @param lesson   its directory
/// @param inputs_of gives what rungs are given: inputs_of(problem)
template <class Backend, class InputsOf>
void trace_rungs(cli::Program& program, const Backend& watched,
                 const cli::KernelOptions& options, const std::string& lesson,
                 InputsOf inputs_of) {
  lab::TraceFiles files;
  lab::Coverage coverage;
  std::map<std::string, std::string> without_mask;  // by rung
  for_each_launch(
      watched, options, lesson,
      [&](const auto& rung, const Problem& problem) {
        std::vector<Problem> problems{problem};
        if (options.size == 0 && program.runs_one_section()) {
          for (const Problem& chosen :
               watched_problems(rung, rung.types.back(), problem.causal)) {
            problems.push_back(chosen);
          }
        }
        const auto seen = trace(rung, problems, inputs_of);
        if (!options.kernel.empty()) {
          const auto [before, first] =
              without_mask.emplace(rung.name, seen->text);
          const bool same = !first && before->second == seen->text;
          fmt::print("{}, {}, N {}\n{}\n", rung.name, group_of(problem),
                     problem.shape.length_q,
                     same ? "The same report as without the mask.\n"
                          : seen->text.c_str());
        }
        program.check_none(
            fmt::format("{}{}", rung.name, problem.causal ? ", causal" : ""),
            seen->findings, "finding");
        files.add(*seen);
        coverage.add(seen->coverage);
      });
  if (program.runs_one_section()) {
    fmt::print("{}", lab::unreached_text(coverage));
  }
  files.write(options.json, options.svg);
}

/// What the kernels of each rung are made of, for a head dimension of 64 and of 128, or of 256
/// where a rung supports neither: launched once on a small problem.
/// @param used    with the rungs
/// @param lab     which knows what warps ask for
/// @param options of the program
/// @param lesson  its directory
/// @param lines   of its kernel files
/// @param inputs_of gives what rungs are given: inputs_of(problem)
/// @throws std::invalid_argument when no rung is wanted
template <class Backend, class InputsOf>
void show_kernels(const Backend& used, const Backend& lab,
                  const cli::KernelOptions& options,
                  const std::string& lesson, const cli::KernelLines& lines,
                  InputsOf inputs_of) {
  std::vector<std::string> names;
  for (const auto& rung : used.rungs) names.push_back(rung.name);
  cli::check_kernel(options, names, lesson);
  const std::int64_t size = options.size_or(70);
  std::vector<cli::LaunchedGroup> groups;
  for (const std::int64_t head_dim : {64, 128, 256}) {
    cli::LaunchedGroup group{fmt::format("D {}", head_dim), {}};
    for (const auto& rung : used.rungs) {
      Problem problem = problem_of({1, 1, 1, size, size, head_dim}, false);
      problem.type = rung.types.front();
      const bool wide = head_dim > 128, only_wide = rung.min_head_dim > 128;
      if (!options.wants(rung.name) || !rung.supports(problem) ||
          wide != only_wide) {
        continue;
      }
      const auto inputs = inputs_of(problem);
      group.rungs.push_back(cli::launched_rung(
          rung.name, used, rung.prepare(problem, inputs).launch, lab,
          find_rung(lab, rung.name).prepare(problem, inputs).launch));
    }
    if (head_dim > 128 && group.rungs.empty()) continue;
    groups.push_back(std::move(group));
  }
  cli::show_kernel_tables(options, used, lesson, lines, groups);
}

/// On a GPU only: how fast each rung is, in groups of a type, a head dimension and a mask.
/// @param program   reports
/// @param backend   with the rungs
/// @param options   of the program
/// @param lesson    its directory
/// @param head_dims of the groups
/// @param time_group gives the rows of a group, or none: time_group(type, head_dim, causal)
/// @throws std::invalid_argument when no rung is wanted
template <class Backend, class TimeGroup>
void time_all(cli::Program& program, const Backend& backend,
              const cli::KernelOptions& options, const std::string& lesson,
              const std::vector<std::int64_t>& head_dims,
              TimeGroup time_group) {
  if (!cli::can_time(program, options)) return;
  std::vector<std::string> names;
  for (const auto& rung : backend.rungs) names.push_back(rung.name);
  cli::check_kernel(options, names, lesson);
  fmt::print("On {}\n", backend.properties.name);
  for (const std::string& why : backend.left_out) fmt::print("{}\n", why);
  fmt::print("\n");
  std::vector<cli::Measurement> rows;
  for (const Type type : kEveryType) {
    for (const std::int64_t head_dim : head_dims) {
      for (const bool causal : {false, true}) {
        if (group_of(timed_problem(type, head_dim, causal, 1024))
                .find(options.group) == std::string::npos) {
          continue;
        }
        const std::vector<cli::Measurement> of_group =
            time_group(type, head_dim, causal);
        if (of_group.empty()) continue;
        fmt::print("{}\n{}\n", std::get<std::string>(of_group[0][1].second),
                   cli::table_of(of_group, {"kernel"}));
        std::fflush(stdout);  // a group takes a while
        rows.insert(rows.end(), of_group.begin(), of_group.end());
      }
    }
  }
  if (rows.empty()) {
    throw std::invalid_argument(fmt::format(
        "--group {}: there is no such group; allowed is any part of a name "
        "such as \"{}\"",
        options.group,
        group_of(timed_problem(Type::kBFloat16, 128, true, 1024))));
  }
  std::string command = lesson + " --device gpu --section time";
  if (!options.group.empty()) {
    command += fmt::format(" --group \"{}\"", options.group);
  }
  if (!options.kernel.empty()) command += " --kernel " + options.kernel;
  if (options.size != 0) command += fmt::format(" --size {}", options.size);
  cli::record(options, backend.properties, command, rows);
}

}  // namespace fa::flash::ladder
