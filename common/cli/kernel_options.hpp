/// @file
/// What programs with kernels have in common: their options, and which machine their sections use.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/cli/program.hpp"
#include "common/cli/results.hpp"
#include "common/gpu/backend.hpp"

namespace fa::cli {

/// What the command line says about kernels.
struct KernelOptions {
  std::string kernel;     ///< only kernels whose name holds this text
  std::string group;      ///< only groups of times whose name holds this text
  std::int64_t size = 0;  ///< of the problem; 0: the section's own
  std::string json;       ///< file for reports of the watched lab, or empty
  std::string svg;        ///< file for the picture of banks, or empty
  std::string results;    ///< file for the record of times, or empty
  std::string commit;     ///< to record; empty: git is asked

  /// Whether a kernel of this name is meant.
  bool wants(const std::string& name) const {
    return name.find(kernel) != std::string::npos;
  }
  /// The size, or the section's own.
  std::int64_t size_or(std::int64_t own) const {
    return size == 0 ? own : size;
  }
};

/// What differs in the help of the lessons.
struct KernelHelp {
  std::string narrowed;  ///< what --kernel narrows: "sections trace and once"
  std::string recorded;  ///< what --results records: "section time"
  std::string sizes;     ///< what --size sets: "queries and keys"
  std::string
      timeline{};  ///< what else --json and --svg are for: "; section timeline: the time lines"
};

/// Adds the options.
/// @param program whose they are
/// @param options set by Program::run(); must outlive it
/// @param help    what it says
void add_kernel_options(Program& program, KernelOptions& options,
                        const KernelHelp& help);

/// Refuses a text after --kernel that no kernel has in its name.
/// @param options with --kernel
/// @param names   of the lesson's kernels
/// @param lesson  its directory
/// @throws std::invalid_argument unless --kernel means one of them
void check_kernel(const KernelOptions& options,
                  const std::vector<std::string>& names,
                  const std::string& lesson);

/// Whether times can be taken, on a GPU. Says so where not.
/// @throws std::invalid_argument when --results asks to record them nevertheless
bool can_time(const Program& program, const KernelOptions& options);

/// Writes a record if --results asks for one, and says where it is.
/// @param options with --results and --commit
/// @param device  that was measured
/// @param command as it can be typed again
/// @param rows    what was measured
/// @throws std::runtime_error when the file cannot be written
void record(const KernelOptions& options, const DeviceProperties& device,
            const std::string& command, const std::vector<Measurement>& rows);

/// The machines of a lesson, and which of them a section uses.
template <class Backend>
class KernelMachines {
 public:
  /// Tells the program whether there is a GPU.
  /// @param program  must outlive this
  /// @param machines the lab among them
  KernelMachines(Program& program, std::vector<Backend> backends)
      : program_(&program), all_(std::move(backends)) {
    const Backend* const gpu = find_backend(all_, "gpu");
    program.has_kernels(gpu == nullptr ? std::nullopt
                                       : std::optional(gpu->available));
  }
  KernelMachines(const KernelMachines&) = delete;  // sections point to it
  KernelMachines& operator=(const KernelMachines&) = delete;
  /// The GPU or the lab, as --device says.
  const Backend& used() const {
    return *find_backend(all_, program_->on_gpu() ? "gpu" : "lab");
  }
  /// The lab, which every build has.
  const Backend& lab() const { return *find_backend(all_, "lab"); }
  /// For programs that watch: the GPU, else the watched lab, else the lab.
  const Backend& observed() const {
    const Backend* const watched = find_backend(all_, "watched");
    return program_->on_gpu() || watched == nullptr ? used() : *watched;
  }
  /// The body of a section that needs the watched lab.
  /// @param show called with it; where this build has none, the section says so
  template <class Show>
  std::function<void()> watching(Show show) const {
    return [this, show] {
      const Backend* const watched = find_backend(all_, "watched");
      if (watched == nullptr) {
        fmt::print("This build has no watched lab: nothing is counted.\n");
      } else {
        show(*watched);
      }
    };
  }
  /// Adds the section that says where the kernels run.
  void add_section() const {
    program_->section("machine", "Where the kernels run", [this] {
      fmt::print("The kernels run on {}.\n", used().properties.name);
      for (const std::string& why : used().left_out) fmt::print("{}\n", why);
    });
  }

 private:
  Program* program_;
  std::vector<Backend> all_;
};

}  // namespace fa::cli
