/// @file
/// What programs with kernels share: their options, and the backend that their sections use.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/cli/program.hpp"
#include "common/cli/table.hpp"
#include "common/gpu/backend.hpp"

namespace fa::cli {

/// The values of the options.
struct KernelOptions : RecordOptions {
  /// @{ `kernel` and `group` select by a part of the name; a `size` of 0 is the section's default;
  /// `json` and `svg` are files to write, or empty.
  std::string kernel, group;
  std::int64_t size = 0;
  std::string json, svg, stamps;
  /// @}

  /// Whether a kernel of this name is selected.
  bool wants(const std::string& name) const { return name.find(kernel) != std::string::npos; }
  /// The size, or the section's default.
  std::int64_t size_or(std::int64_t own) const { return size == 0 ? own : size; }
};

/// Adds only the options of records.
/// @param options set by Program::run(); must outlive it
inline void add_record_options(Program& program, RecordOptions& options,
                               const std::string& sections) {
  program.output("--results", options.results,
                 sections + ": record the measurements in this file, as in docs/results");
  program.option("--commit", options.commit,
                 sections + ": the commit to record, for a copy without git");
}

/// Adds the options.
/// @param options set by Program::run(); must outlive it
/// @param sizes   what --size sets: "queries and keys"
/// @param stamped whether the lesson has a program *_stamped
inline void add_kernel_options(Program& program, KernelOptions& options, const std::string& sizes,
                               bool stamped) {
  program.option("--kernel", options.kernel,
                 "sections time, trace and timeline: only kernels whose name contains this "
                 "text");
  program.output("--json", options.json, "section trace: write the reports to this file as JSON");
  program.output("--svg", options.svg,
                 "section trace: draw the bank conflicts of the worst access to shared memory into "
                 "this file");
  if (stamped) {
    program.option("--stamps", options.stamps,
                   "section timeline: show what a GPU did, and write it to the file of --json; the "
                   "file is what the program *_stamped prints");
  }
  add_record_options(program, options, "section time");
  program.option("--size", options.size, 0, 16384,
                 sizes + " in sections time and trace (0: the section's default)");
}

/// Refuses a --kernel that selects no kernel.
/// @throws std::invalid_argument if no name contains the text
inline void check_kernel(const KernelOptions& options, const std::vector<std::string>& names,
                         const std::string& lesson) {
  for (const std::string& name : names) {
    if (options.wants(name)) return;
  }
  throw std::invalid_argument(
      fmt::format("--kernel {}: there is no such kernel; allowed is any part of the name of a file "
                  "in {}/kernels",
                  options.kernel, lesson));
}

/// Whether kernels run on a GPU and can be timed; prints a line if not.
/// @throws std::invalid_argument when there is no GPU to time and --results asks for a record
inline bool can_time(const Program& program, const KernelOptions& options) {
  if (program.on_gpu()) return true;
  if (!options.results.empty()) {
    throw std::invalid_argument("--results records times on a GPU, and none is used");
  }
  fmt::print("No GPU is used, so no kernel is timed.\n");
  return false;
}

/// The backends of a lesson, and the one that a section uses.
template <class Backend>
class KernelBackends {
 public:
  /// Tells the program whether there is a GPU.
  /// @param program  must outlive this
  /// @param backends all of the build, the lab among them
  KernelBackends(Program& program, std::vector<Backend> backends)
      : program_(&program), all_(std::move(backends)) {
    const Backend* const gpu = find_backend(all_, "gpu");
    program.has_kernels(gpu == nullptr ? std::nullopt : std::optional(gpu->available));
  }
  KernelBackends(const KernelBackends&) = delete;  // sections point to it
  KernelBackends& operator=(const KernelBackends&) = delete;
  /// The GPU or the lab, by --device.
  const Backend& used() const { return *find_backend(all_, program_->on_gpu() ? "gpu" : "lab"); }
  /// The lab, which every build has.
  const Backend& lab() const { return *find_backend(all_, "lab"); }
  /// The body of a section that needs the watched lab.
  /// @param show called with it; a build without a watched lab prints a line instead
  template <class Show>
  std::function<void()> watching(Show show) const {
    return [this, show] {
      const Backend* const watched = find_backend(all_, "watched");
      if (watched == nullptr) {
        fmt::print("This build has no watched lab, so nothing is counted.\n");
      } else {
        show(*watched);
      }
    };
  }
  /// Adds the section that names the backend, and the kernels that it cannot run.
  void add_section() const {
    program_->section("backend", "Backend", [this] {
      fmt::print("Kernels run on {}.\n", used().properties.name);
      for (const std::string& why : used().left_out) fmt::print("{}\n", why);
    });
  }

 private:
  Program* program_;
  std::vector<Backend> all_;
};

}  // namespace fa::cli
