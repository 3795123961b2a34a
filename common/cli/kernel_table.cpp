#include "common/cli/kernel_table.hpp"

#include <cstddef>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "common/cli/table.hpp"

namespace fa::cli {
namespace {

constexpr std::size_t kWarpsOfGroup = 4;

const std::vector<Column> kColumns = {{"kernel", "kernel"},       {"lines", "lines"},
                                      {"threads", "threads"},     {"shared, B", "shared_bytes"},
                                      {"stages", "stages"},       {"setmaxnreg", "asked_registers"},
                                      {"registers", "registers"}, {"spilled, B", "spilled_bytes"},
                                      {"blocks/SM", "blocks"}};

// The longest file name that begins the step's name.
const std::pair<const std::string, int>* lines_of(const std::string& step,
                                                  const KernelLines& lines) {
  const std::pair<const std::string, int>* found = nullptr;
  for (const auto& entry : lines) {
    if (step.rfind(entry.first, 0) == 0 &&
        (found == nullptr || entry.first.size() > found->first.size())) {
      found = &entry;
    }
  }
  return found;
}

}  // namespace

LaunchedStep launched_step(const std::string& name, const BackendBase& used,
                           const std::function<void()>& launch, const BackendBase& lab,
                           const std::function<void()>& launch_in_lab) {
  LaunchedStep result{name, used.resources(launch)};
  result.in_lab = used.kind == lab.kind ? result.takes : lab.resources(launch_in_lab);
  return result;
}

std::string asked_text(const std::vector<int>& registers) {
  std::string text;
  for (std::size_t warp = 0; warp < registers.size();) {
    std::size_t end = warp;
    while (end < registers.size() && registers[end] == registers[warp]) ++end;
    const std::size_t groups = (end - warp) / kWarpsOfGroup;
    text += text.empty() ? "" : ", ";
    if (groups > 1) text += fmt::format("{} x ", groups);
    text += registers[warp] == 0 ? "-" : std::to_string(registers[warp]);
    warp = end;
  }
  return text;
}

std::vector<Measurement> kernel_rows(const std::vector<LaunchedStep>& steps,
                                     const KernelLines& lines) {
  std::vector<Measurement> rows;
  for (const LaunchedStep& step : steps) {
    for (std::size_t i = 0; i < step.takes.size(); ++i) {
      const KernelResources& takes = step.takes[i];
      Measurement row;
      const auto number = [&](const char* field, auto value) {
        row.emplace_back(field, static_cast<std::int64_t>(value));
      };
      row.emplace_back("kernel", i == 0 ? step.name : fmt::format("{}, {}", step.name, i + 1));
      const auto* const file = lines_of(step.name, lines);
      if (i == 0 && file != nullptr) number("lines", file->second);
      number("threads", takes.threads);
      const bool compiled = takes.registers > 0;
      // The lab does not know static shared memory.
      if (compiled || takes.shared_bytes > 0) {
        number("shared_bytes", takes.shared_bytes);
      }
      if (takes.stages > 0) number("stages", takes.stages);
      if (step.in_lab.size() == step.takes.size() && !step.in_lab[i].asked_registers.empty()) {
        row.emplace_back("asked_registers", asked_text(step.in_lab[i].asked_registers));
      }
      if (compiled) {
        number("registers", takes.registers);
        number("spilled_bytes", takes.spilled_bytes);
        number("blocks", takes.blocks);
      }
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::string kernel_table(const std::vector<Measurement>& rows) {
  return table_of(rows, kColumns);
}

void show_kernel_tables(const KernelOptions& options, const BackendBase& used,
                        const std::string& lesson, const KernelLines& lines,
                        const std::vector<LaunchedGroup>& groups) {
  const bool on_gpu = used.kind == "gpu";
  if (!options.results.empty() && !on_gpu) {
    throw std::invalid_argument(
        "--results records the resources of kernels on a GPU, and none is used");
  }
  std::vector<Measurement> all;
  for (const LaunchedGroup& group : groups) {
    if (group.steps.empty()) continue;
    std::vector<Measurement> rows = kernel_rows(group.steps, lines);
    fmt::print("{}, on {}\n{}\n", group.name, used.properties.name, kernel_table(rows));
    for (Measurement& row : rows) {
      row.insert(row.begin(), {{"group", group.name}, {"title", group.name}});
      all.push_back(std::move(row));
    }
  }
  Table legend({"column", "meaning"});
  legend.add({"lines", "of the kernel's own file, with comments"});
  legend.add({"threads", "per block"});
  legend.add({"shared, B", on_gpu ? "shared memory per block" : "dynamic shared memory per block"});
  legend.add({"stages", "of the copy pipeline"});
  legend.add({"setmaxnreg", "registers per thread, by warpgroup"});
  legend.add({"registers", "per thread, at launch"});
  legend.add({"spilled, B", "local memory per thread"});
  legend.add({"blocks/SM", "resident at the same time"});
  fmt::print("{}", legend.text());
  if (!on_gpu) {
    fmt::print("The last three are known only on a GPU, and none is used.\n");
  }
  std::string command = lesson + " --device gpu --section kernels";
  if (!options.kernel.empty()) command += " --kernel " + options.kernel;
  if (options.size != 0) command += fmt::format(" --size {}", options.size);
  record(options, used.properties, command, all);
}

}  // namespace fa::cli
