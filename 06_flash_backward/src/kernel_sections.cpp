// The sections that run the kernels: each rung checked, counted in the lab and timed on a GPU.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "05_flash_forward/src/ladder.hpp"
#include "06_flash_backward/src/backend.hpp"
#include "06_flash_backward/src/sections.hpp"
#include "06_flash_backward/src/timeline.hpp"
#include "06_flash_backward/src/timing.hpp"
#include "06_flash_backward/src/traffic.hpp"
#include "common/cli/kernel_options.hpp"
#include "common/cli/table.hpp"
#include "common/tensor/npy.hpp"
#include "kernel_lines.hpp"

namespace fa::backward {
namespace {

namespace ladder = flash::ladder;

const std::string kLesson = "06_flash_backward";

Inputs random_inputs(const Problem& problem) {
  return backward::make_inputs(problem, Values::kNormal, 1);
}

// Each rung on the real input, with a random gradient from above.
void check_real(cli::Program& program, const Backend& backend) {
  const cli::Input& input = program.input();
  const Gradients last = ladder::check_real<Checker>(
      program, backend, [&](const Problem& problem) {
        return with_forward(
            problem,
            flash::rounded_inputs(problem, input.q, input.k, input.v), 1);
      });
  if (program.save_directory()) {
    write_npy(*program.save_directory() / "d_q.npy", last.d_q);
    write_npy(*program.save_directory() / "d_k.npy", last.d_k);
    write_npy(*program.save_directory() / "d_v.npy", last.d_v);
  }
}

// What a rung takes beside inputs and gradients: bytes for each head of n queries, n keys and d
// columns. Lengths are multiples of the padding of the workspace.
struct Memory {
  std::string formula;              // for people
  std::int64_t quadratic;           // times n^2
  std::int64_t sums;                // times n d
  std::int64_t rows;                // times n
  std::int64_t d_q_semaphores = 0;  // times n / 64
  std::int64_t tile_counter = 0;

  std::int64_t bytes(std::int64_t n, std::int64_t d) const {
    return quadratic * n * n + sums * n * d + rows * n +
           d_q_semaphores * n / 64 + tile_counter;
  }
};
Memory memory_of(const Rung& rung) {
  if (rung.name == "01_unfused") return {"8 N^2", 8, 0, 0};
  if (rung.name == "02_preprocess") return {"8 N^2 + 8 N", 8, 0, 8};
  const std::set<std::string> with_semaphores{
      "11_ordered_dq", "12_store_then_reduce", "14_persistent",
      "15_dependent_launch"};
  if (with_semaphores.count(rung.name) > 0) {
    return {"4 N D + 8 N + N / 8 + 4", 0, 4, 8, 8, 4};
  }
  if (rung.name == "16_transposed_gradients" ||
      rung.name == "18_block_pairs") {  // for 192 columns
    return {"776 N", 0, 0, 4 * 192 + 8};
  }
  // Sums of dQ in float32, where d_q itself has 16 bits and others add to it.
  const bool sums = !rung.same_bits && rung.types.front() != Type::kFloat32;
  return {sums ? "4 N D + 8 N" : "8 N", 0, sums ? 4 : 0, 8};
}

// Memory beside inputs and gradients, as the allocator counts it.
void show_memory(cli::Program& program, const Backend& backend) {
  constexpr std::int64_t kDim = 64;
  const std::vector<std::int64_t> lengths{256, 512, 1024, 2048};
  std::vector<std::string> headings{"kernel"};
  for (const std::int64_t n : lengths) {
    headings.push_back(fmt::format("N = {}", n));
  }
  headings.emplace_back("formula");
  cli::Table table(headings);
  for (const auto& [name, size] : {std::pair{"float32", 4}, {"16 bits", 2}}) {
    std::vector<std::string> own{
        fmt::format("inputs and gradients, {}", name)};
    for (const std::int64_t n : lengths) {
      own.push_back(std::to_string(8 * size * n * kDim + 4 * n));
    }
    own.push_back(fmt::format("{} N D + 4 N", 8 * size));
    table.add(own);
  }
  std::int64_t off = 0;
  for (const Rung& rung : backend.rungs) {
    std::vector<std::string> cells{rung.name};
    const Memory memory = memory_of(rung);
    for (const std::int64_t n : lengths) {
      Problem problem = ladder::problem_of(
          {1, 1, 1, n, n, rung.head_dim_near(kDim)}, false);
      problem.type = rung.types.front();
      const Tensor<float, 4> zeros(problem.shape_of_q());
      const Inputs inputs{
          {zeros, zeros, zeros}, zeros, Tensor<float, 3>({1, 1, n}), zeros};
      const std::int64_t extra = rung.prepare(problem, inputs).extra_bytes;
      off += std::abs(extra - memory.bytes(n, kDim));
      cells.push_back(std::to_string(extra));
    }
    cells.push_back(memory.formula);
    table.add(cells);
  }
  fmt::print(
      "Bytes of one head: q, k, v, o, LSE, dO, dQ, dK and dV, head_dim {}, "
      "and "
      "the\nmemory that a kernel allocates in addition\n{}",
      kDim, table.text());
  program.check_none("additional memory, formula", off, "unexpected byte");
}

// How far apart the results of runs are.
struct Spread {
  int others = 0;         // runs with other bits than the first
  double difference = 0;  // the largest, as a share of the largest element

  void note(const Gradients& first, const Gradients& again) {
    bool same = true;
    for (Tensor<float, 4> Gradients::*part :
         {&Gradients::d_q, &Gradients::d_k, &Gradients::d_v}) {
      const Tensor<float, 4>&a = first.*part, &b = again.*part;
      const auto count = static_cast<std::size_t>(a.count());
      if (std::memcmp(a.data(), b.data(), count * sizeof(float)) == 0) {
        continue;
      }
      same = false;
      double largest = 0, apart = 0;
      for (std::size_t i = 0; i < count; ++i) {
        largest = std::max<double>(largest, std::abs(a.data()[i]));
        apart = std::max<double>(apart, std::abs(a.data()[i] - b.data()[i]));
      }
      difference = std::max(difference, apart / largest);
    }
    others += same ? 0 : 1;
  }
};

// Deterministic rungs give the same bits; by how much do the others differ?
void check_repeats(cli::Program& program, const Backend& backend) {
  const bool gpu = backend.kind == "gpu";
  const int runs = gpu ? 250 : 6;
  Problem problem = ladder::repeated_problem(gpu, 50, 300);
  const std::int64_t head_dim = problem.shape.head_dim;
  std::map<std::pair<Type, std::int64_t>, Inputs> inputs;
  cli::Table table({"kernel", "type", "runs", "runs with other bits",
                    "largest difference", "deterministic"});
  int broken = 0;
  for (const Rung& rung : backend.rungs) {
    problem.type = rung.types.back();
    problem.shape.head_dim = rung.head_dim_near(head_dim);
    const std::pair key{problem.type, problem.shape.head_dim};
    if (inputs.find(key) == inputs.end()) {
      inputs.emplace(key, random_inputs(problem));
    }
    const Prepared prepared = rung.prepare(problem, inputs.at(key));
    prepared.launch();
    const Gradients first = prepared.result();
    Spread spread;
    for (int run = 1; run < runs; ++run) {
      prepared.launch();
      spread.note(first, prepared.result());
    }
    if (rung.same_bits) broken += spread.others;
    table.add({rung.name, flash::name_of(problem.type), std::to_string(runs),
               std::to_string(spread.others),
               fmt::format("{:.1e}", spread.difference),
               rung.same_bits ? "yes" : "no"});
  }
  fmt::print(
      "Differences relative to the largest element. Rungs that add to dQ "
      "from "
      "many blocks\nadd in the order in which blocks run, which {}.\n{}",
      gpu ? "differs from run to run on a GPU"
          : "depends on the lab's threads (a\nsingle thread always gives the "
            "same order)",
      table.text());
  program.check_none("deterministic kernels", broken, "difference");
}

// What the sections need while they run.
struct Kernels {
  Kernels(cli::Program& program, const std::vector<Backend>& all)
      : backends(program, all) {}
  cli::KernelBackends<Backend> backends;
  cli::KernelOptions options;
};

}  // namespace

void add_kernels(cli::Program& program,
                 const std::vector<Backend>& backends) {
  // Kept by the sections.
  const auto kernels = std::make_shared<Kernels>(program, backends);
  cli::add_kernel_options(program, kernels->options,
                          {"sections trace, time, kernels, timeline and once",
                           "sections time and kernels", "queries and keys",
                           "; section timeline: the timelines instead"});
  flash::ladder::add_group_option(program, kernels->options);
  kernels->backends.add_section();
  program.section("real", "Every kernel on the input", [&program, kernels] {
    check_real(program, kernels->backends.used());
  });
  program.section(
      "ragged", "Every kernel on hard small problems", [&program, kernels] {
        ladder::check_ragged<Checker>(program, kernels->backends.used(),
                                      "dQ, dK and dV", random_inputs);
      });
  program.section(
      "traffic", "Memory traffic of the kernels",
      kernels->backends.watching([&program](const Backend& watched) {
        show_traffic(program, watched);
      }));
  program.section("memory", "Memory that the kernels allocate",
                  [&program, kernels] {
                    show_memory(program, kernels->backends.used());
                  });
  program.section("repeat", "Determinism", [&program, kernels] {
    check_repeats(program, kernels->backends.used());
  });
  program.section(
      "trace", "Every kernel in the watched lab",
      kernels->backends.watching([&program, kernels](const Backend& watched) {
        ladder::trace_rungs(program, watched, kernels->options, kLesson,
                            random_inputs);
      }));
  program.section("time", "Times", [&program, kernels] {
    const Backend& backend = kernels->backends.used();
    const cli::KernelOptions& options = kernels->options;
    ladder::time_all(program, backend, options, kLesson, {64, 128, 192, 256},
                     [&](Type type, std::int64_t head_dim, bool causal) {
                       // In float32 192 columns are padded to 256.
                       if (type == Type::kFloat32 && head_dim == 192) {
                         return std::vector<cli::Measurement>{};
                       }
                       return time_rungs(backend, type, head_dim, causal,
                                         options.kernel, options.size);
                     });
  });
  program.section_apart("kernels", "Resources of the kernels", [kernels] {
    ladder::show_kernels(kernels->backends.used(), kernels->backends.lab(),
                         kernels->options, kLesson, kKernelLines,
                         random_inputs);
  });
  program.section_apart("timeline", "Timelines", [kernels] {
    const Backend& lab = kernels->backends.lab();
    show_timelines(
        lab, cli::timeline_options(kernels->options, lab.rungs, kLesson));
  });
  program.section_apart("once", "One launch of every kernel", [kernels] {
    ladder::launch_once(kernels->backends.observed(), kernels->options,
                        kLesson, random_inputs);
  });
}

}  // namespace fa::backward
