#include "common/cli/kernels.hpp"

#include <algorithm>
#include <stdexcept>

namespace fa::cli {

void add_kernel_options(Program& program, KernelOptions& options, const KernelHelp& help) {
  program.option("--kernel", options.kernel,
                 help.narrowed + ": only kernels whose name contains this text");
  program.output("--json", options.json,
                 "section trace: write the reports to this file as JSON" + help.timeline);
  program.output("--svg", options.svg,
                 "section trace: draw the bank conflicts of the worst access to "
                 "shared memory into this file" +
                     help.timeline);
  if (!help.timeline.empty()) {
    program.option("--stamps", options.stamps,
                   "section timeline: show what a GPU did; the file is what the program "
                   "*_stamped prints");
  }
  add_record_options(program, options, help.recorded);
  program.option("--size", options.size, 0, 16384,
                 help.sizes + " in sections time, trace and once (0: the section's default)");
}

void add_record_options(Program& program, RecordOptions& options, const std::string& sections) {
  program.output("--results", options.results,
                 sections + ": record the measurements in this file, as in docs/results");
  program.option("--commit", options.commit,
                 sections + ": the commit to record, for a copy without git");
}

void check_kernel(const KernelOptions& options, const std::vector<std::string>& names,
                  const std::string& lesson) {
  if (std::any_of(names.begin(), names.end(),
                  [&](const std::string& name) { return options.wants(name); })) {
    return;
  }
  throw std::invalid_argument(
      fmt::format("--kernel {}: there is no such kernel; allowed is any part of the name "
                  "of a file in {}/kernels",
                  options.kernel, lesson));
}

bool can_time(const Program& program, const KernelOptions& options) {
  if (program.on_gpu()) return true;
  if (!options.results.empty()) {
    throw std::invalid_argument("--results records times on a GPU, and none is used");
  }
  fmt::print("No GPU is used, so no kernel is timed.\n");
  return false;
}

}  // namespace fa::cli
