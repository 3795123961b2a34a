// Lesson 04: kernels from the first one to tensor cores, each checked, counted in the lab and timed
// on a GPU.
#include <algorithm>
#include <cstdio>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "04_tiled_matmul/src/backend.hpp"
#include "04_tiled_matmul/src/sections.hpp"
#include "common/cli/kernels.hpp"
#include "common/cli/program.hpp"
#include "common/cli/table.hpp"

namespace {

using namespace fa;
using tiled::Backend;
using tiled::Group;
using tiled::group_of;
using tiled::Inputs;
using tiled::Kernel;

const std::string kLesson = "04_tiled_matmul";

// The kernels of all groups.
std::vector<Kernel> kernels_of(const Backend& backend) {
  std::vector<Kernel> kernels;
  for (const Group& group : backend.groups) {
    kernels.insert(kernels.end(), group.kernels.begin(), group.kernels.end());
  }
  return kernels;
}

// The kernels that --group and --kernel select, in their groups.
std::vector<Group> wanted_groups(const Backend& backend, const cli::KernelOptions& options) {
  std::vector<std::string> names, groups;
  for (const Kernel& kernel : kernels_of(backend)) names.push_back(kernel.name);
  cli::check_kernel(options, names, kLesson);
  std::vector<Group> wanted;
  for (Group group : backend.groups) {
    groups.push_back(group.name);
    if (group.name.find(options.group) == std::string::npos) continue;
    const auto end = std::remove_if(group.kernels.begin(), group.kernels.end(),
                                    [&](const Kernel& k) { return !options.wants(k.name); });
    group.kernels.erase(end, group.kernels.end());
    if (!group.kernels.empty()) wanted.push_back(std::move(group));
  }
  if (!wanted.empty()) return wanted;
  throw std::invalid_argument(fmt::format(
      "--group {}: there is no such group with a kernel that --kernel selects; allowed are {}",
      options.group, fmt::join(groups, ", ")));
}

// Checks each kernel of a group on ragged sizes.
void check_group(cli::Program& program, const Backend& backend, const std::string& name) {
  const Group& group = group_of(backend, name);
  const Inputs inputs = group.inputs(133, 150, 75);
  const auto ref = group.reference(inputs);
  const auto plain = group.plain(inputs);
  const double magnitude = tiled::magnitude_of(group, inputs);
  fmt::print("{}\n", group.title);
  cli::Table ideas({"kernel", "idea"});
  for (const Kernel& kernel : group.kernels) {
    const tiled::Prepared prepared = kernel.prepare(inputs);
    prepared.launch();
    const Verdict verdict =
        accept(kernel.name, prepared.result(), ref, plain, kForwardFactor, magnitude);
    ideas.add({kernel.name, kernel.idea});
    program.check(verdict);
  }
  fmt::print("{}", ideas.text());
  for (const std::string& why : group.left_out) fmt::print("{}\n", why);
}

// The traffic of the kernels of a group, and the least possible.
void count_group(const Backend& watched, const std::string& name, std::int64_t size) {
  const Group& group = group_of(watched, name);
  const double side = static_cast<double>(size);
  cli::Table table({"kernel", "bytes / least", "sectors", "ideal", "wavefronts", "ideal"});
  for (const Kernel& kernel : group.kernels) {
    const auto seen = tiled::trace(group, kernel, {{size, size, size}});
    if (!seen) continue;
    const double share = static_cast<double>(seen->global_bytes) / group.bytes(side, side, side);
    table.add({kernel.name, fmt::format("{:.1f}", share), std::to_string(seen->sectors),
               std::to_string(seen->sectors_ideal), std::to_string(seen->wavefronts),
               std::to_string(seen->wavefronts_ideal)});
  }
  fmt::print("{}, all sizes {}\n{}", group.title, size, table.text());
}

// On a GPU only: how fast each kernel is.
void time_groups(cli::Program& program, const Backend& backend, const cli::KernelOptions& options) {
  if (!cli::can_time(program, options)) return;
  const std::int64_t size = options.size_or(4096);
  std::string command = fmt::format("04_tiled_matmul --device gpu --section time --size {}", size);
  if (!options.group.empty()) command += " --group " + options.group;
  if (!options.kernel.empty()) command += " --kernel " + options.kernel;
  cli::Record record(options, backend.properties, command);
  for (const Group& group : wanted_groups(backend, options)) {
    const auto of_group = tiled::time_kernels(backend, group, size);
    fmt::print("{}, all sizes {}, on {}\n{}\n", group.title, size, backend.properties.name,
               cli::table_of(of_group, {"kernel"}));
    for (const std::string& why : group.left_out) fmt::print("{}\n", why);
    if (!group.left_out.empty()) fmt::print("\n");
    std::fflush(stdout);
    record.add(of_group);
  }
  record.finish();
}

// The watched lab's whole report on the wanted kernels: traffic at one size, findings and reached
// lines for all sizes of watched_sizes(). With --size, and in a walk through all sections, that one
// size only.
void trace_kernels(cli::Program& program, const Backend& watched,
                   const cli::KernelOptions& options) {
  const std::int64_t size = options.size_or(70);
  lab::TraceFiles files;
  lab::Coverage coverage;
  for (const Group& group : wanted_groups(watched, options)) {
    for (const Kernel& kernel : group.kernels) {
      std::vector<Shape<3>> sizes{{size, size, size}};
      if (options.size == 0 && program.runs_one_section()) {
        const auto chosen = tiled::watched_sizes(kernel.tiles);
        sizes.insert(sizes.end(), chosen.begin(), chosen.end());
      }
      const auto seen = tiled::trace(group, kernel, sizes);
      if (!options.kernel.empty()) {
        fmt::print("{}, {}, all sizes {}\n{}\n", kernel.name, group.title, size, seen->text);
      }
      program.check_none(fmt::format("{}, {}", kernel.name, group.title), seen->findings,
                         "finding");
      files.add(*seen);
      coverage.add(seen->coverage);
    }
  }
  if (program.runs_one_section()) fmt::print("{}", lab::unreached_text(coverage));
  files.write(options.json, options.svg);
}

}  // namespace

int main(int argc, char** argv) {
  cli::Program program(kLesson, "Lesson 04: from the first kernel to tensor cores.");
  const cli::KernelBackends<Backend> backends(program, tiled::backends());
  cli::KernelOptions options;
  cli::add_kernel_options(program, options, "rows, columns and depth", false);
  program.option("--group", options.group,
                 "only groups whose name contains this text, such as \"mma\"");

  const auto check = [&](const char* group) {
    return [&, group] { check_group(program, backends.used(), group); };
  };
  const auto count = [&](const char* group, std::int64_t size) {
    return backends.watching(
        [group, size](const Backend& watched) { count_group(watched, group, size); });
  };
  backends.add_section();
  program.section("add", "Vector addition", check("add"));
  program.section("transpose", "Transpose", check("transpose"));
  program.section("transpose_traffic", "Memory traffic of the transposes", count("transpose", 64));
  program.section("softmax", "Softmax of rows", check("softmax"));
  program.section("matmul", "Matmul A B, float32", check("matmul"));
  program.section("matmul_bt", "Matmul A B^T, float32", check("matmul_bt"));
  program.section("matmul_traffic", "Memory traffic of the matmuls", count("matmul", 128));
  program.section("mma", "Matmul A B on tensor cores", check("mma"));
  program.section("mma_bt", "Matmul A B^T on tensor cores", check("mma_bt"));
  program.section("block", "Two matmuls in one kernel", check("block"));
  program.section(
      "trace", "Every kernel in the watched lab",
      backends.watching([&](const Backend& watched) { trace_kernels(program, watched, options); }));
  program.section_on_request("time", "Times",
                             [&] { time_groups(program, backends.used(), options); });
  program.section_apart("timeline", "Order of operations", [&] {
    const Backend& lab = backends.lab();
    tiled::show_operations(lab, cli::timeline_options(options, kernels_of(lab), kLesson));
  });
  return program.run(argc, argv);
}
