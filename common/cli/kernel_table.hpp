/// @file
/// What the kernels of a lesson are made of: lines of source, threads, shared memory, stages, registers.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/cli/kernel_options.hpp"
#include "common/cli/results.hpp"
#include "common/gpu/backend.hpp"

namespace fa::cli {

/// Lines of kernel files, by their names without directory and ending. A program's build counts them.
using KernelLines = std::map<std::string, int>;

/// A rung that has been launched once.
struct LaunchedRung {
  std::string name;                      ///< its file's, and perhaps more
  std::vector<KernelResources> takes{};  ///< its kernels, as launched
  /// The same rung in the lab, which knows what warps asked for. Not used unless it has as many kernels.
  std::vector<KernelResources> in_lab{};
};

/// Rungs that belong together.
struct LaunchedGroup {
  std::string name;                 ///< for people and for the record
  std::vector<LaunchedRung> rungs;  ///< in the order of the lesson
};

/// Launches a rung on a machine and, where that is no lab, in the lab, too.
/// @param name   of the rung
/// @param used   what it is about
/// @param launch on that machine
/// @param lab    another machine, or the same
/// @param launch_in_lab there
/// @throws as the launches
LaunchedRung launched_rung(const std::string& name, const BackendBase& used,
                           const std::function<void()>& launch,
                           const BackendBase& lab,
                           const std::function<void()>& launch_in_lab);

/// What warps asked for, by warpgroups of four: "2 x 240, 24"; empty when nobody asked. 0 is "-".
/// @param registers of each warp
std::string asked_text(const std::vector<int>& registers);

/// A row for each kernel of the rungs: kernel, lines, threads, shared_bytes, stages, asked_registers and, as far as they
/// are known, registers, spilled_bytes and blocks. A rung's lines are with its first kernel; of further ones the name
/// ends in their number.
/// @param rungs as launched
/// @param lines of the files; that of a rung is the longest name that its name begins with
std::vector<Measurement> kernel_rows(const std::vector<LaunchedRung>& rungs,
                                     const KernelLines& lines);

/// These rows as a table: a column for each of those fields, "-" where a row has none.
std::string kernel_table(const std::vector<Measurement>& rows);

/// Prints a table for each group, then what the columns mean, and records the rows if --results asks for it.
/// @param options with --kernel, --results and --commit
/// @param used    the machine of the launches
/// @param lesson  its directory
/// @param lines   of its kernel files
/// @param groups  as launched; empty ones are left out
/// @throws std::invalid_argument when --results asks for a record and no GPU is used
/// @throws std::runtime_error when the record cannot be written
void show_kernel_tables(const KernelOptions& options, const BackendBase& used,
                        const std::string& lesson, const KernelLines& lines,
                        const std::vector<LaunchedGroup>& groups);

}  // namespace fa::cli
