/// @file
/// The resources of a lesson's kernels: lines of source, threads, shared memory, stages, registers.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/cli/kernel_options.hpp"
#include "common/cli/results.hpp"
#include "common/gpu/backend.hpp"

namespace fa::cli {

/// Lines of each kernel file, by its name without folder and suffix; counted by the build.
using KernelLines = std::map<std::string, int>;

/// A step that has been launched once.
struct LaunchedStep {
  /// @{ The name of the file, possibly with a suffix, and the resources of the kernels: on the
  /// backend of interest and in the lab, which records setmaxnreg. If the numbers of kernels
  /// differ, those of the lab are ignored.
  std::string name;
  std::vector<KernelResources> takes{}, in_lab{};
  /// @}
};

/// The steps of one table.
struct LaunchedGroup {
  /// @{ The title of the table, and its rows in the order of the lesson.
  std::string name;
  std::vector<LaunchedStep> steps;
  /// @}
};

/// Launches a step on a backend and, if that is not the lab, in the lab as well.
/// @param launch runs the step there
/// @param launch_in_lab runs the step there
/// @throws what the launches throw
LaunchedStep launched_step(const std::string& name, const BackendBase& used,
                           const std::function<void()>& launch, const BackendBase& lab,
                           const std::function<void()>& launch_in_lab);

/// The registers that warpgroups asked for: "2 x 240, 24"; "-" for one that did not ask, empty when
/// none did.
std::string asked_text(const std::vector<int>& registers);

/// A row for each kernel of the steps: kernel, lines, threads, shared_bytes, stages,
/// asked_registers and, where known, registers, spilled_bytes and blocks. The first kernel of a
/// step has its lines; the names of further kernels end in their number.
/// @param lines of the files; a step belongs to the longest file name that begins its own
std::vector<Measurement> kernel_rows(const std::vector<LaunchedStep>& steps,
                                     const KernelLines& lines);

/// These rows as a table, with "-" for a missing field.
std::string kernel_table(const std::vector<Measurement>& rows);

/// Prints a table for each group and the meaning of the columns, and records the rows if --results
/// asks for it.
/// @param options with --kernel, --results and --commit
/// @param lines   of its kernel files
/// @param groups  as launched; empty ones are omitted
/// @throws std::invalid_argument when --results is given and no GPU is used
/// @throws std::runtime_error when the record cannot be written
void show_kernel_tables(const KernelOptions& options, const BackendBase& used,
                        const std::string& lesson, const KernelLines& lines,
                        const std::vector<LaunchedGroup>& groups);

}  // namespace fa::cli
