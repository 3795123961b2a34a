// The sections that run the kernels: each step checked, counted in the lab and timed on a GPU.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "06_flash_backward/src/backend.hpp"
#include "06_flash_backward/src/sections.hpp"
#include "common/attention/host/sections.hpp"
#include "common/tensor/npy.hpp"

namespace fa::backward {
namespace {

// Each step on the real input, with a random dO.
void check_real(const Lesson<Backend>& lesson) {
  const cli::Input& input = lesson.program.input();
  const Gradients last = attention::check_real<Checker>(
      lesson, attention_shape(input.q.shape(), input.k.shape(), input.v.shape()),
      [&](const Problem& problem) {
        return with_forward(problem, rounded_inputs(problem, input.q, input.k, input.v), 1);
      });
  if (const auto directory = lesson.program.save_directory()) {
    write_npy(*directory / "d_q.npy", last.d_q);
    write_npy(*directory / "d_k.npy", last.d_k);
    write_npy(*directory / "d_v.npy", last.d_v);
  }
}

void show_memory(const Lesson<Backend>& lesson) {
  constexpr std::int64_t kDim = 64;
  std::vector<MemoryRow> own;
  for (const auto& [name, size] : {std::pair{"float32", 4}, {"16 bits", 2}}) {
    own.push_back({fmt::format("inputs and gradients, {}", name),
                   fmt::format("{} N D + 4 N", 8 * size),
                   [size = size](auto n) { return 8 * size * n * kDim + 4 * n; }});
  }
  const auto zeros = [](const Problem& problem) {
    const Tensor<float, 4> all(problem.shape_of_q());
    return Inputs{{all, all, all}, all, Tensor<float, 3>({1, 1, problem.shape.length_q}), all};
  };
  attention::show_memory(lesson.program, lesson.backends.used(), own, zeros, kDim,
                         "Bytes of one head: q, k, v, o, LSE, dO, dQ, dK and dV, head_dim 64, "
                         "and the\nmemory that a kernel allocates in addition\n{}");
}

// How far apart the results of runs are.
struct Spread {
  int others = 0;         // runs with other bits than the first
  double difference = 0;  // the largest, as a share of the largest element

  void note(const Gradients& first, const Gradients& again) {
    bool same = true;
    for (Tensor<float, 4> Gradients::*part : {&Gradients::d_q, &Gradients::d_k, &Gradients::d_v}) {
      const Tensor<float, 4>&a = first.*part, &b = again.*part;
      if (same_bits(a, b)) continue;
      same = false;
      double largest = 0, apart = 0;
      for (std::int64_t i = 0; i < a.count(); ++i) {
        largest = std::max<double>(largest, std::abs(a.data()[i]));
        apart = std::max<double>(apart, std::abs(a.data()[i] - b.data()[i]));
      }
      difference = std::max(difference, apart / largest);
    }
    others += same ? 0 : 1;
  }
};

// Deterministic steps give the same bits; by how much do the others differ?
void check_repeats(const Lesson<Backend>& lesson) {
  const Backend& backend = lesson.backends.used();
  const bool gpu = backend.kind == "gpu";
  const int runs = gpu ? 25 : 6;
  Problem problem = repeated_problem(gpu, 50, 300);
  const std::int64_t head_dim = problem.shape.head_dim;
  std::map<std::pair<Type, std::int64_t>, Inputs> inputs;
  cli::Table table(
      {"kernel", "type", "runs", "runs with other bits", "largest difference", "deterministic"});
  int broken = 0;
  for (const LadderStep& step : backend.steps) {
    problem.type = step.types.back();
    problem.shape.head_dim = step.head_dim_near(head_dim);
    const std::pair key{problem.type, problem.shape.head_dim};
    if (inputs.find(key) == inputs.end()) {
      inputs.emplace(key, lesson.inputs_of(problem));
    }
    const auto prepared = step.prepare(problem, inputs.at(key));
    prepared.launch();
    const Gradients first = prepared.result();
    Spread spread;
    for (int run = 1; run < runs; ++run) {
      prepared.launch();
      spread.note(first, prepared.result());
    }
    if (step.deterministic) broken += spread.others;
    table.add({step.name, name_of(problem.type), std::to_string(runs),
               std::to_string(spread.others), fmt::format("{:.1e}", spread.difference),
               step.deterministic ? "yes" : "no"});
  }
  fmt::print(
      "Differences relative to the largest element. Steps that add to dQ from "
      "many blocks\nadd in the order in which blocks run, which {}.\n{}",
      gpu ? "differs from run to run on a GPU"
          : "depends on the lab's threads (a\nsingle thread always gives the same order)",
      table.text());
  lesson.program.check_none("deterministic kernels", broken, "difference");
}

void show_times(const Lesson<Backend>& lesson) {
  time_all(lesson, {64, 128, 192, 256}, [&](const TimedGroup& group) {
    // In float32 192 columns are padded to 256.
    return group.type == Type::kFloat32 && group.head_dim == 192
               ? std::vector<cli::Measurement>{}
               : time_steps(lesson.backends.used(), group);
  });
}

}  // namespace

void add_kernels(cli::Program& program, const std::vector<Backend>& backends) {
  // Kept by the sections.
  const auto lesson = std::make_shared<Lesson<Backend>>(program, backends, "06_flash_backward",
                                                        "dQ, dK and dV", random_inputs);
  program.section("real", "Every kernel on the input", [lesson] { check_real(*lesson); });
  program.section("ragged", "Every kernel on hard small problems",
                  [lesson] { check_ragged<Checker>(*lesson); });
  program.section("traffic", "Memory traffic of the kernels",
                  lesson->backends.watching(
                      [lesson](const Backend& watched) { show_traffic(*lesson, watched); }));
  program.section("memory", "Memory that the kernels allocate", [lesson] { show_memory(*lesson); });
  program.section("repeat", "Determinism", [lesson] { check_repeats(*lesson); });
  program.section("trace", "Every kernel in the watched lab",
                  lesson->backends.watching(
                      [lesson](const Backend& watched) { trace_steps(*lesson, watched); }));
  program.section_on_request("time", "Times", [lesson] { show_times(*lesson); });
  program.section_apart("timeline", "Order of operations, and timelines of a GPU", [lesson] {
    const Backend& lab = lesson->backends.lab();
    show_timelines(lab, cli::timeline_options(lesson->options, lab.steps, lesson->name));
  });
  program.section_apart("once", "One launch of every kernel", [lesson] { launch_once(*lesson); });
  program.sections_in_apart({"functors"});
}

}  // namespace fa::backward
