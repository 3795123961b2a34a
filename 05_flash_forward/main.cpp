// Lesson 05: attention by one kernel, from three kernels to the hardware's limit; each rung checked, counted in the
// lab and timed on a GPU.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "05_flash_forward/experiments.hpp"
#include "05_flash_forward/machine.hpp"
#include "05_flash_forward/timing.hpp"
#include "05_flash_forward/traffic.hpp"
#include "common/cli/program.hpp"
#include "common/cli/results.hpp"
#include "common/cli/table.hpp"
#include "common/lab/trace.hpp"
#include "common/tensor/npy.hpp"

namespace {

using namespace fa;
using flash::Inputs;
using flash::Machine;
using flash::Outputs;
using flash::Prepared;
using flash::Problem;
using flash::Rung;
using flash::Type;

constexpr Type kTypes[] = {Type::kFloat32, Type::kFloat16, Type::kBFloat16};

struct Choice {  // options of this lesson
  std::string kernel;
  std::int64_t size = 0;           // 0: the section's own
  std::string json, svg, results;  // files; empty: none
  std::string commit;              // empty: ask git

  bool wants(const Rung& rung) const {
    return rung.name.find(kernel) != std::string::npos;
  }
};

// Throws unless --kernel means some rung.
void check_kernel(const Machine& machine, const Choice& choice) {
  if (std::any_of(machine.rungs.begin(), machine.rungs.end(),
                  [&](const Rung& rung) { return choice.wants(rung); })) {
    return;
  }
  throw std::invalid_argument(fmt::format(
      "--kernel {}: there is no such kernel; the names are those of the "
      "files in 05_flash_forward/kernels",
      choice.kernel));
}

const Machine* machine_of(const std::vector<Machine>& machines,
                          const std::string& kind) {
  for (const Machine& machine : machines) {
    if (machine.kind == kind) return &machine;
  }
  return nullptr;
}

Problem problem_of(const AttentionShape& shape, bool causal,
                   double dropout = 0) {
  Problem problem;
  problem.shape = shape;
  problem.causal = causal;
  problem.dropout = dropout;
  problem.seed = 5;
  return problem;
}

// A problem in one type with its inputs and their judge.
struct Task {
  Task(Problem the_problem, Inputs the_inputs)
      : problem(std::move(the_problem)),
        inputs(std::move(the_inputs)),
        judge(problem, inputs) {}
  Problem problem;
  Inputs inputs;
  flash::Judge judge;
};

// Each rung on the real input, in all its types.
void check_real(cli::Program& program, const Machine& machine) {
  const cli::Input& input = program.input();
  const AttentionShape shape =
      attention_shape(input.q.shape(), input.k.shape(), input.v.shape());
  std::map<std::pair<Type, bool>, Task> tasks;
  for (const Type type : kTypes) {
    for (const bool causal : {false, true}) {
      Problem problem = problem_of(shape, causal);
      problem.type = type;
      tasks.try_emplace(
          {type, causal}, problem,
          flash::rounded_inputs(problem, input.q, input.k, input.v));
    }
  }
  fmt::print("{} heads on {}, {} queries, {} keys, head_dim {}\n",
             shape.heads, shape.kv_heads, shape.length_q, shape.length_k,
             shape.head_dim);
  std::optional<Outputs> last;  // of the last rung without a mask
  for (const Rung& rung : machine.rungs) {
    fmt::print("{}: {}\n", rung.name, rung.idea);
    for (const Type type : rung.types) {
      for (const bool causal : {false, true}) {
        const Task& task = tasks.at({type, causal});
        if (!rung.takes(task.problem)) {
          fmt::print("  it takes no head_dim of {}\n", shape.head_dim);
          continue;
        }
        const Prepared prepared = rung.prepare(task.problem, task.inputs);
        prepared.launch();
        Outputs outputs = prepared.result();
        for (const Verdict& verdict : task.judge.judge(
                 fmt::format("{}, {}{}", rung.name, name_of(type),
                             causal ? ", causal" : ""),
                 outputs)) {
          program.check(verdict);
        }
        if (!causal) last = std::move(outputs);
      }
    }
  }
  if (!last) {
    throw std::invalid_argument(fmt::format(
        "no kernel of this lesson takes a head_dim of {}", shape.head_dim));
  }
  if (program.save_directory()) {
    write_npy(*program.save_directory() / "o.npy", last->o);
    write_npy(*program.save_directory() / "lse.npy", last->lse);
  }
}

// Small problems that break kernels which are right on round ones.
void check_ragged(cli::Program& program, const Machine& machine) {
  const std::pair<const char*, Problem> problems[] = {
      {"ragged", problem_of({1, 2, 2, 113, 203, 64}, true)},
      {"grouped", problem_of({2, 6, 2, 40, 50, 64}, false)},
      {"narrow", problem_of({1, 2, 2, 70, 90, 40}, true)},
      {"no key", problem_of({1, 1, 1, 150, 20, 64}, true)},
      {"dropout", problem_of({1, 2, 1, 70, 131, 64}, false, 0.17)}};
  cli::Table sizes({"problem", "batch", "heads", "on", "queries", "keys",
                    "head_dim", "causal", "dropout"});
  std::vector<std::string> headings{"kernel"};
  for (const auto& [name, problem] : problems) {
    const AttentionShape& s = problem.shape;
    sizes.add({name, std::to_string(s.batch), std::to_string(s.heads),
               std::to_string(s.kv_heads), std::to_string(s.length_q),
               std::to_string(s.length_k), std::to_string(s.head_dim),
               problem.causal ? "yes" : "no",
               fmt::format("{}", problem.dropout)});
    headings.emplace_back(name);
  }
  fmt::print("{}\n", sizes.text());

  std::map<std::pair<std::string, Type>, Task> tasks;
  for (const auto& [name, problem] : problems) {
    for (const Type type : kTypes) {
      Problem typed = problem;
      typed.type = type;
      tasks.try_emplace({name, type}, typed,
                        flash::make_inputs(typed, flash::Values::kNormal, 1));
    }
  }
  cli::Table table(headings);
  double worst_of_all = 0;
  for (const Rung& rung : machine.rungs) {
    std::vector<std::string> cells{rung.name};
    for (const auto& [name, problem] : problems) {
      double worst = 0;
      for (const Type type : rung.types) {
        const Task& task = tasks.at({name, type});
        const Prepared prepared = rung.prepare(task.problem, task.inputs);
        prepared.launch();
        for (const Verdict& verdict :
             task.judge.judge(rung.name + ", " + name, prepared.result())) {
          worst = std::max(worst, flash::share_of_allowed(verdict));
          if (!verdict.accepted) program.check(verdict);  // with its place
        }
      }
      cells.push_back(fmt::format("{:.2f}", worst));
      worst_of_all = std::max(worst_of_all, worst);
    }
    table.add(cells);
  }
  fmt::print(
      "Errors of O and LSE in all types of a kernel, as shares of what is "
      "allowed\n{}",
      table.text());
  program.check("largest share", worst_of_all, 1);
}

// Memory beside inputs and outputs, as the allocator counts it.
void show_memory(cli::Program& program, const Machine& machine) {
  constexpr std::int64_t kDim = 64;
  constexpr std::array<std::int64_t, 4> kLengths{256, 512, 1024, 2048};
  std::vector<std::string> headings{"bytes"};
  std::vector<std::string> own{"inputs and outputs"};
  for (const std::int64_t n : kLengths) {
    headings.push_back(fmt::format("N = {}", n));
    own.push_back(std::to_string((4 * n * kDim + n) *
                                 static_cast<std::int64_t>(sizeof(float))));
  }
  headings.emplace_back("is");
  own.emplace_back("16 N D + 4 N");
  cli::Table table(headings);
  table.add(own);
  std::int64_t off = 0;
  for (const Rung& rung : machine.rungs) {
    std::vector<std::string> cells{rung.name};
    const bool quadratic = rung.name == "01_unfused",
               linear = rung.name == "02_flash_1";
    for (const std::int64_t n : kLengths) {
      Problem problem = problem_of({1, 1, 1, n, n, kDim}, false);
      problem.type = rung.types.front();
      const Tensor<float, 4> zeros(problem.shape_of_q());
      const std::int64_t extra =
          rung.prepare(problem, {zeros, zeros, zeros}).extra_bytes;
      off += std::abs(extra - (quadratic ? 4 * n * n : linear ? 8 * n : 0));
      cells.push_back(std::to_string(extra));
    }
    cells.emplace_back(quadratic ? "4 N^2" : linear ? "8 N" : "0");
    table.add(cells);
  }
  fmt::print(
      "One head of {}: q, k, v, o and LSE in float32, and what a kernel "
      "takes beside\nthem\n{}",
      kDim, table.text());
  program.check("bytes off the last column", static_cast<double>(off), 0);
}

template <int Rank>
bool same_bits(const Tensor<float, Rank>& a, const Tensor<float, Rank>& b) {
  return std::memcmp(a.data(), b.data(),
                     static_cast<std::size_t>(a.count()) * sizeof(float)) ==
         0;
}

// No order of additions depends on which block or warp comes first.
void check_repeats(cli::Program& program, const Machine& machine) {
  const bool gpu = machine.kind == "gpu";
  const int runs = gpu ? 250 : 10;
  Problem problem = gpu ? problem_of({1, 4, 2, 1000, 1000, 64}, true)
                        : problem_of({1, 2, 1, 50, 70, 64}, true);
  std::map<Type, Inputs> inputs;
  for (const Type type : kTypes) {
    problem.type = type;
    inputs[type] = flash::make_inputs(problem, flash::Values::kNormal, 1);
  }
  fmt::print("{} heads on {}, {} queries, {} keys, head_dim {}, causal\n",
             problem.shape.heads, problem.shape.kv_heads,
             problem.shape.length_q, problem.shape.length_k,
             problem.shape.head_dim);
  for (const Rung& rung : machine.rungs) {
    problem.type = rung.types.front();
    const Prepared prepared = rung.prepare(problem, inputs.at(problem.type));
    prepared.launch();
    const Outputs first = prepared.result();
    int others = 0;
    for (int run = 1; run < runs; ++run) {
      prepared.launch();
      const Outputs outputs = prepared.result();
      others +=
          same_bits(outputs.o, first.o) && same_bits(outputs.lse, first.lse)
              ? 0
              : 1;
    }
    program.check(fmt::format("{}, other bits in {} runs", rung.name, runs),
                  others, 0);
  }
}

// What sections trace and once launch: each rung with and without the mask.
template <class Work>
void for_each_launch(const Machine& machine, const Choice& choice,
                     Work work) {
  check_kernel(machine, choice);
  const std::int64_t size = choice.size == 0 ? 70 : choice.size;
  for (const bool causal : {false, true}) {
    for (const Rung& rung : machine.rungs) {
      if (!choice.wants(rung)) continue;
      Problem problem = problem_of({1, 1, 1, size, size, 64}, causal);
      problem.type = rung.types.front();
      work(rung, problem,
           flash::make_inputs(problem, flash::Values::kNormal, 1));
    }
  }
}

void run_once(const Rung& rung, const Problem& problem,
              const Inputs& inputs) {
  const Prepared prepared = rung.prepare(problem, inputs);
  prepared.launch();
  prepared.result();  // waits for it
}

// What the watched lab sees of a rung; none where this build has none.
std::optional<lab::Trace> trace(const Rung& rung, const Problem& problem,
                                const Inputs& inputs) {
  lab::TraceName name{rung.name, flash::group_of(problem), {}};
  for (const auto* tensor : {&inputs.q, &inputs.k, &inputs.v}) {
    name.inputs.emplace_back(tensor->shape().begin(), tensor->shape().end());
  }
  return lab::trace(name, [&] { run_once(rung, problem, inputs); });
}

// Launches rungs once each, for a program that watches, and prints a line of JSON for each; in the watched lab with
// its report. Nothing is checked.
void launch_once(const Machine& machine, const Choice& choice) {
  for_each_launch(
      machine, choice,
      [&](const Rung& rung, const Problem& problem, const Inputs& inputs) {
        std::optional<lab::Trace> report;
        if (machine.kind == "watched") {
          report = trace(rung, problem, inputs);
        } else {
          run_once(rung, problem, inputs);
        }
        fmt::print("{}", lab::launch_line(rung.name, flash::group_of(problem),
                                          problem.shape.length_q,
                                          machine.kind, report));
      });
}

// The watched lab's whole report on rungs.
void trace_rungs(cli::Program& program, const Machine& watched,
                 const Choice& choice) {
  lab::TraceFiles files;
  for_each_launch(
      watched, choice,
      [&](const Rung& rung, const Problem& problem, const Inputs& inputs) {
        const auto seen = trace(rung, problem, inputs);
        const std::string group = flash::group_of(problem);
        if (!choice.kernel.empty()) {
          fmt::print("{}, {}, N {}\n{}\n", rung.name, group,
                     problem.shape.length_q, seen->text);
        }
        program.check(fmt::format("findings in {}{}", rung.name,
                                  problem.causal ? ", causal" : ""),
                      static_cast<double>(seen->findings), 0);
        files.add(*seen);
      });
  files.write(choice.json, choice.svg);
}

// On a GPU only: how fast each rung is.
void time_all(cli::Program& program, const Machine& machine,
              const Choice& choice) {
  if (!program.on_gpu()) {
    if (!choice.results.empty()) {
      throw std::invalid_argument(
          "--results records times of a GPU, and none is used");
    }
    fmt::print("No GPU is used, so no kernel is timed.\n");
    return;
  }
  check_kernel(machine, choice);
  fmt::print("On {}\n\n", machine.properties.name);
  std::vector<cli::Measurement> rows;
  for (const Type type : kTypes) {
    for (const std::int64_t head_dim : {64, 128}) {
      for (const bool causal : {false, true}) {
        const auto of_group = flash::time_rungs(
            machine, type, head_dim, causal, choice.kernel, choice.size);
        if (of_group.empty()) continue;
        fmt::print("{}\n{}\n", std::get<std::string>(of_group[0][1].second),
                   cli::table_of(of_group, {"kernel"}));
        std::fflush(stdout);  // a group takes a while
        rows.insert(rows.end(), of_group.begin(), of_group.end());
      }
    }
  }
  if (choice.results.empty()) return;
  std::string command = "05_flash_forward --device gpu --section time";
  if (!choice.kernel.empty()) command += " --kernel " + choice.kernel;
  if (choice.size != 0) command += fmt::format(" --size {}", choice.size);
  cli::write_results(choice.results, machine.properties, command, rows,
                     choice.commit);
  fmt::print("Recorded in {}\n", choice.results);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<Machine> machines = flash::machines();
  const Machine* const lab = machine_of(machines, "lab");
  const Machine* const gpu = machine_of(machines, "gpu");
  const Machine* const watched = machine_of(machines, "watched");

  cli::Program program("05_flash_forward",
                       "Lesson 05: attention by one kernel, up to the "
                       "hardware's limit.");
  program.has_kernels(gpu == nullptr ? std::nullopt
                                     : std::optional(gpu->available));
  Choice choice;
  program.option("--kernel", choice.kernel,
                 "sections trace, time and once: only kernels whose name "
                 "holds this text");
  program.option("--json", choice.json,
                 "section trace: writes the reports to this file as JSON");
  program.option("--svg", choice.svg,
                 "section trace: draws the banks of the worst line of shared "
                 "memory into this file");
  program.option(
      "--results", choice.results,
      "sections time and experiments: records what was measured in "
      "this file, for docs/results");
  program.option(
      "--commit", choice.commit,
      "sections time and experiments: commit to record, for a copy "
      "without git");
  program.option("--size", choice.size, 0, 16384,
                 "queries and keys in sections time, trace and once (0: the "
                 "section's own)");

  const auto machine = [&]() -> const Machine& {
    return program.on_gpu() ? *gpu : *lab;
  };
  // What needs the watched lab.
  const auto watching = [&](auto show) {
    return [&, show] {
      if (watched == nullptr) {
        fmt::print("This build has no watched lab: nothing is counted.\n");
      } else {
        show(*watched);
      }
    };
  };
  program.section("machine", "Where the kernels run", [&] {
    fmt::print("The kernels run on {}.\n", machine().properties.name);
  });
  program.section("real", "Every kernel on the real input",
                  [&] { check_real(program, machine()); });
  program.section("ragged", "Every kernel on hard small problems",
                  [&] { check_ragged(program, machine()); });
  program.section(
      "traffic", "What the kernels ask of memory",
      watching([&](const Machine& on) { flash::show_traffic(program, on); }));
  program.section("memory", "How much memory they need",
                  [&] { show_memory(program, machine()); });
  program.section("repeat", "The same bits every time",
                  [&] { check_repeats(program, machine()); });
  program.section(
      "trace", "Every kernel watched",
      watching([&](const Machine& on) { trace_rungs(program, on, choice); }));
  program.section("time", "How fast they are",
                  [&] { time_all(program, machine(), choice); });
  program.section_apart("experiments", "Other tiles, types and lengths", [&] {
    flash::show_experiments(program, machine(),
                            {choice.results, choice.commit});
  });
  program.section_apart("once", "Every kernel launched once", [&] {
    launch_once(
        !program.on_gpu() && watched != nullptr ? *watched : machine(),
        choice);
  });
  return program.run(argc, argv);
}
