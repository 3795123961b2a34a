// Lesson 04: kernels from the first one to tensor cores, each checked, counted in the lab and timed on a GPU.
#include <algorithm>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>

#include "04_tiled_matmul/machine.hpp"
#include "04_tiled_matmul/timing.hpp"
#include "04_tiled_matmul/trace.hpp"
#include "common/cli/program.hpp"
#include "common/cli/results.hpp"
#include "common/cli/table.hpp"

namespace {

using namespace fa;
using tiled::Group;
using tiled::Inputs;
using tiled::Kernel;
using tiled::Machine;

struct Choice {  // options of this lesson
  std::string kernel;
  std::int64_t size = 0;           // 0: small in the lab, 4096 on a GPU
  std::string json, svg, results;  // files; empty: none
  std::string commit;              // empty: ask git
};

const Group& group_of(const Machine& machine, const std::string& name) {
  const auto found =
      std::find_if(machine.groups.begin(), machine.groups.end(),
                   [&](const Group& group) { return group.name == name; });
  if (found == machine.groups.end()) {
    throw std::logic_error("there is no group " + name);
  }
  return *found;
}

const Machine* machine_of(const std::vector<Machine>& machines,
                          const std::string& kind) {
  for (const Machine& machine : machines) {
    if (machine.kind == kind) return &machine;
  }
  return nullptr;
}

// Checks each kernel of a group on ragged sizes.
void check_group(cli::Program& program, const Machine& machine,
                 const std::string& name) {
  const Group& group = group_of(machine, name);
  const Inputs inputs = group.inputs(133, 150, 75);
  const auto ref = group.reference(inputs);
  const auto plain = group.plain(inputs);
  const double magnitude = tiled::magnitude_of(group, inputs);
  fmt::print("{}\n", group.title);
  for (const Kernel& kernel : group.kernels) {
    const tiled::Prepared prepared = kernel.prepare(inputs);
    prepared.launch();
    const Verdict verdict = accept(kernel.name, prepared.result(), ref, plain,
                                   kForwardFactor, magnitude);
    if (verdict.accepted) {
      fmt::print("  {}: {}\n", kernel.name, kernel.idea);
    }
    program.check(verdict);
  }
}

// What the kernels of a group ask of memory, and what could be asked at least.
void count_group(const Machine* watched, const std::string& name,
                 std::int64_t size) {
  if (watched == nullptr) {
    fmt::print("This build has no watched lab: nothing is counted.\n");
    return;
  }
  const Group& group = group_of(*watched, name);
  const Inputs inputs = group.inputs(size, size, size);
  const double side = static_cast<double>(size);
  cli::Table table(
      {"kernel", "bytes", "sectors", "ideal", "wavefronts", "ideal"});
  for (const Kernel& kernel : group.kernels) {
    const auto seen = tiled::trace(group, kernel, inputs);
    if (!seen) continue;
    const double share = static_cast<double>(seen->global_bytes) /
                         group.bytes(side, side, side);
    table.add({kernel.name, fmt::format("{:.1f} x least", share),
               std::to_string(seen->sectors),
               std::to_string(seen->sectors_ideal),
               std::to_string(seen->wavefronts),
               std::to_string(seen->wavefronts_ideal)});
  }
  fmt::print("{}, all sizes {}\n{}", group.title, size, table.text());
}

// On a GPU only: how fast each kernel is.
void time_groups(cli::Program& program, const Machine& machine,
                 const Choice& choice) {
  if (!program.on_gpu()) {
    if (!choice.results.empty()) {
      throw std::invalid_argument(
          "--results records times of a GPU, and none is used");
    }
    fmt::print("No GPU is used, so no kernel is timed.\n");
    return;
  }
  const std::int64_t size = choice.size == 0 ? 4096 : choice.size;
  std::vector<cli::Measurement> rows;
  for (const Group& group : machine.groups) {
    const auto of_group = tiled::time_kernels(machine, group, size);
    fmt::print("{}, all sizes {}, on {}\n{}\n", group.title, size,
               machine.properties.name, cli::table_of(of_group, {"kernel"}));
    rows.insert(rows.end(), of_group.begin(), of_group.end());
  }
  if (choice.results.empty()) return;
  cli::write_results(
      choice.results, machine.properties,
      fmt::format("04_tiled_matmul --device gpu --section time --size {}",
                  size),
      rows, choice.commit);
  fmt::print("Recorded in {}\n", choice.results);
}

// Launches kernels whose name holds a text once each, for a program that watches, and prints a line
// of JSON for each; in the watched lab with its report. Nothing is checked.
void launch_once(const Machine& machine, const Choice& choice) {
  const std::int64_t size = choice.size == 0 ? 70 : choice.size;
  for (const Group& group : machine.groups) {
    const Inputs inputs = group.inputs(size, size, size);
    for (const Kernel& kernel : group.kernels) {
      if (kernel.name.find(choice.kernel) == std::string::npos) continue;
      std::optional<lab::Trace> report;
      if (machine.kind == "watched") {
        report = tiled::trace(group, kernel, inputs);
      } else {
        const tiled::Prepared prepared = kernel.prepare(inputs);
        prepared.launch();
        prepared.result();  // waits for it
      }
      fmt::print("{}", lab::launch_line(kernel.name, group.name, size,
                                        machine.kind, report));
    }
  }
}

// The watched lab's whole report on the kernels whose name holds a text.
void trace_kernels(cli::Program& program, const Machine* watched,
                   const Choice& choice) {
  if (watched == nullptr) {
    fmt::print("This build has no watched lab: nothing is traced.\n");
    return;
  }
  const std::int64_t size = choice.size == 0 ? 70 : choice.size;
  lab::TraceFiles files;
  for (const Group& group : watched->groups) {
    const Inputs inputs = group.inputs(size, size, size);
    for (const Kernel& kernel : group.kernels) {
      if (kernel.name.find(choice.kernel) == std::string::npos) continue;
      const auto seen = tiled::trace(group, kernel, inputs);
      if (!choice.kernel.empty()) {
        fmt::print("{}, {}, all sizes {}\n{}\n", kernel.name, group.title,
                   size, seen->text);
      }
      program.check(
          fmt::format("findings in {}, {}", kernel.name, group.title),
          static_cast<double>(seen->findings), 0);
      files.add(*seen);
    }
  }
  if (files.empty()) {
    throw std::invalid_argument(fmt::format(
        "--kernel {}: there is no such kernel; the names are those of the "
        "files in 04_tiled_matmul/kernels",
        choice.kernel));
  }
  files.write(choice.json, choice.svg);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<Machine> machines = tiled::machines();
  const Machine* const lab = machine_of(machines, "lab");
  const Machine* const gpu = machine_of(machines, "gpu");
  const Machine* const watched = machine_of(machines, "watched");

  cli::Program program("04_tiled_matmul",
                       "Lesson 04: from the first kernel to tensor cores.");
  program.has_kernels(gpu == nullptr ? std::nullopt
                                     : std::optional(gpu->available));
  Choice choice;
  program.option("--kernel", choice.kernel,
                 "sections trace and once: only kernels whose name holds "
                 "this text");
  program.option("--json", choice.json,
                 "section trace: writes the reports to this file as JSON");
  program.option("--svg", choice.svg,
                 "section trace: draws the banks of the worst line of shared "
                 "memory into this file");
  program.option("--results", choice.results,
                 "section time: records what was measured in this file, for "
                 "docs/results");
  program.option("--commit", choice.commit,
                 "section time: commit to record, for a copy without git");
  program.option("--size", choice.size, 0, 16384,
                 "rows, columns and depth in sections time, trace and once "
                 "(0: the section's own)");

  const auto machine = [&]() -> const Machine& {
    return program.on_gpu() ? *gpu : *lab;
  };
  const auto check = [&](const char* group) {
    return [&, group] { check_group(program, machine(), group); };
  };
  const auto count = [&](const char* group, std::int64_t size) {
    return [&, group, size] { count_group(watched, group, size); };
  };
  program.section("machine", "Where the kernels run", [&] {
    fmt::print("The kernels run on {}.\n", machine().properties.name);
  });
  program.section("add", "The first kernel", check("add"));
  program.section("transpose", "Layout: the transpose", check("transpose"));
  program.section("transpose_traffic", "What the transposes ask of memory",
                  count("transpose", 64));
  program.section("softmax", "Warps: the softmax of rows", check("softmax"));
  program.section("matmul", "The ladder: products A B", check("matmul"));
  program.section("matmul_bt", "The ladder: products A B^T",
                  check("matmul_bt"));
  program.section("matmul_traffic", "What the ladder asks of memory",
                  count("matmul", 128));
  program.section("mma", "Tensor cores: A B", check("mma"));
  program.section("mma_bt", "Tensor cores: A B^T", check("mma_bt"));
  program.section("block", "Both products at once", check("block"));
  program.section("trace", "Every kernel watched",
                  [&] { trace_kernels(program, watched, choice); });
  program.section("time", "How fast they are",
                  [&] { time_groups(program, machine(), choice); });
  program.section_apart("once", "Every kernel launched once", [&] {
    launch_once(
        !program.on_gpu() && watched != nullptr ? *watched : machine(),
        choice);
  });
  return program.run(argc, argv);
}
