// Lesson 05: attention by one kernel, from three kernels to the hardware's limit; each rung
// checked, counted in the lab and timed on a GPU.
#include <array>
#include <cstring>
#include <map>

#include <fmt/format.h>

#include "05_flash_forward/src/backend.hpp"
#include "05_flash_forward/src/ladder.hpp"
#include "05_flash_forward/src/sections.hpp"
#include "05_flash_forward/src/timing.hpp"
#include "common/cli/kernel_options.hpp"
#include "common/cli/program.hpp"
#include "common/cli/table.hpp"
#include "common/tensor/npy.hpp"
#include "kernel_lines.hpp"

namespace {

using namespace fa;
using flash::Backend;
using flash::Inputs;
using flash::Outputs;
using flash::Prepared;
using flash::Problem;
using flash::Rung;
using flash::Type;
namespace ladder = flash::ladder;

const std::string kLesson = "05_flash_forward";

Inputs random_inputs(const Problem& problem) {
  return flash::make_inputs(problem, flash::Values::kNormal, 1);
}

// Each rung on the real input, in all its types.
void check_real(cli::Program& program, const Backend& backend) {
  const cli::Input& input = program.input();
  const Outputs last = ladder::check_real<flash::Checker>(
      program, backend, [&](const Problem& problem) {
        return flash::rounded_inputs(problem, input.q, input.k, input.v);
      });
  if (program.save_directory()) {
    write_npy(*program.save_directory() / "o.npy", last.o);
    write_npy(*program.save_directory() / "lse.npy", last.lse);
  }
}

// Memory beside inputs and outputs, as the allocator counts it.
void show_memory(cli::Program& program, const Backend& backend) {
  constexpr std::int64_t kDim = 64;
  constexpr std::array<std::int64_t, 4> kLengths{256, 512, 1024, 2048};
  std::vector<std::string> headings{"kernel"};
  std::vector<std::string> own{"inputs and outputs"};
  for (const std::int64_t n : kLengths) {
    headings.push_back(fmt::format("N = {}", n));
    own.push_back(std::to_string((4 * n * kDim + n) *
                                 static_cast<std::int64_t>(sizeof(float))));
  }
  headings.emplace_back("formula");
  own.emplace_back("16 N D + 4 N");
  cli::Table table(headings);
  table.add(own);
  std::int64_t off = 0;
  for (const Rung& rung : backend.rungs) {
    std::vector<std::string> cells{rung.name};
    const bool quadratic = rung.name == "01_unfused",
               linear = rung.name == "02_flash_1",
               persists = rung.tiles.back().persists;  // the tile counter
    for (const std::int64_t n : kLengths) {
      Problem problem = ladder::problem_of({1, 1, 1, n, n, kDim}, false);
      problem.type = rung.types.front();
      const Tensor<float, 4> zeros(problem.shape_of_q());
      const std::int64_t extra =
          rung.prepare(problem, {zeros, zeros, zeros}).extra_bytes;
      off += std::abs(extra - (quadratic  ? 4 * n * n
                               : linear   ? 8 * n
                               : persists ? 4
                                          : 0));
      cells.push_back(std::to_string(extra));
    }
    cells.emplace_back(quadratic  ? "4 N^2"
                       : linear   ? "8 N"
                       : persists ? "4"
                                  : "0");
    table.add(cells);
  }
  fmt::print(
      "Bytes of one head: q, k, v, o and LSE in float32, head_dim {}, and "
      "the "
      "memory\nthat a kernel allocates in addition\n\n{}",
      kDim, table.text());
  program.check_none("additional memory, formula", off, "unexpected byte");
}

template <int Rank>
bool same_bits(const Tensor<float, Rank>& a, const Tensor<float, Rank>& b) {
  return std::memcmp(a.data(), b.data(),
                     static_cast<std::size_t>(a.count()) * sizeof(float)) ==
         0;
}

// No order of additions depends on which block or warp comes first.
void check_repeats(cli::Program& program, const Backend& backend) {
  const bool gpu = backend.kind == "gpu";
  const int runs = gpu ? 250 : 10;
  Problem problem = ladder::repeated_problem(gpu, 50, 70);
  std::map<Type, Inputs> inputs;
  for (const Type type : ladder::kEveryType) {
    problem.type = type;
    inputs[type] = flash::make_inputs(problem, flash::Values::kNormal, 1);
  }
  for (const Rung& rung : backend.rungs) {
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
    program.check_none(fmt::format("{}, bits of {} runs", rung.name, runs),
                       others, "difference");
  }
}

}  // namespace

int main(int argc, char** argv) {
  cli::Program program(kLesson,
                       "Lesson 05: the forward pass in one kernel, up to the "
                       "hardware's limit.");
  const cli::KernelBackends<Backend> backends(program, flash::backends());
  cli::KernelOptions options;
  cli::add_kernel_options(
      program, options,
      {"sections trace, time, kernels, timeline and once",
       "sections time, kernels and experiments", "queries and keys",
       "; section timeline: the timelines instead"});
  ladder::add_group_option(program, options);
  backends.add_section();
  program.section("real", "Every kernel on the input",
                  [&] { check_real(program, backends.used()); });
  program.section("ragged", "Every kernel on hard small problems", [&] {
    ladder::check_ragged<flash::Checker>(program, backends.used(),
                                         "O and LSE", random_inputs);
  });
  program.section("traffic", "Memory traffic of the kernels",
                  backends.watching([&](const Backend& watched) {
                    flash::show_traffic(program, watched);
                  }));
  // In the lab, which runs every rung: a GPU may lack some.
  program.section("memory", "Memory that the kernels allocate",
                  [&] { show_memory(program, backends.lab()); });
  program.section("repeat", "Determinism",
                  [&] { check_repeats(program, backends.used()); });
  program.section("trace", "Every kernel in the watched lab",
                  backends.watching([&](const Backend& watched) {
                    ladder::trace_rungs(program, watched, options, kLesson,
                                        random_inputs);
                  }));
  program.section("time", "Times", [&] {
    const Backend& backend = backends.used();
    ladder::time_all(program, backend, options, kLesson, {64, 128, 256},
                     [&](Type type, std::int64_t head_dim, bool causal) {
                       return flash::time_rungs(backend, type, head_dim,
                                                causal, options.kernel,
                                                options.size);
                     });
  });
  program.section_apart("kernels", "Resources of the kernels", [&] {
    ladder::show_kernels(backends.used(), backends.lab(), options, kLesson,
                         kKernelLines, random_inputs);
  });
  program.section_apart("timeline", "Timelines", [&] {
    const Backend& lab = backends.lab();
    flash::show_timelines(lab,
                          cli::timeline_options(options, lab.rungs, kLesson));
  });
  program.section_apart("costs", "Cost model of the timelines",
                        [] { cli::show_costs({}); });
  program.section_apart(
      "experiments", "Experiments: tiles, types and lengths", [&] {
        flash::show_experiments(program, backends.used(),
                                {options.results, options.commit});
      });
  program.section_apart("once", "One launch of every kernel", [&] {
    ladder::launch_once(backends.observed(), options, kLesson, random_inputs);
  });
  return program.run(argc, argv);
}
