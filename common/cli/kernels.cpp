#include "common/cli/kernels.hpp"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <utility>

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
  program.option(
      "--size", options.size, 0, 16384,
      help.sizes + " in sections time, trace, kernels and once (0: the section's default)");
}

void add_record_options(Program& program, RecordOptions& options, const std::string& sections) {
  program.output("--results", options.results,
                 sections +
                     ": record the measurements in this file, as in docs/results; times that "
                     "it has are not measured again");
  program.flag("--again", options.again, "measure again what the file of --results has");
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
    const std::size_t groups = (end - warp) / 4;  // warps of a warpgroup
    text += text.empty() ? "" : ", ";
    if (groups > 1) text += fmt::format("{} x ", groups);
    text += registers[warp] == 0 ? "-" : std::to_string(registers[warp]);
    warp = end;
  }
  return text;
}

std::vector<Measurement> kernel_rows(const std::vector<LaunchedStep>& steps) {
  std::vector<Measurement> rows;
  for (const LaunchedStep& step : steps) {
    for (std::size_t i = 0; i < step.takes.size(); ++i) {
      const KernelResources& takes = step.takes[i];
      Measurement row;
      const auto number = [&](const char* field, auto value) {
        row.emplace_back(field, static_cast<std::int64_t>(value));
      };
      row.emplace_back("kernel", i == 0 ? step.name : fmt::format("{}, {}", step.name, i + 1));
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
  static const std::vector<Column> columns = {{"kernel", "kernel"},
                                              {"threads", "threads"},
                                              {"shared, B", "shared_bytes"},
                                              {"stages", "stages"},
                                              {"setmaxnreg", "asked_registers"},
                                              {"registers", "registers"},
                                              {"spilled, B", "spilled_bytes"},
                                              {"blocks/SM", "blocks"}};
  return table_of(rows, columns);
}

void show_kernel_tables(const KernelOptions& options, const BackendBase& used,
                        const std::string& lesson, const std::vector<LaunchedGroup>& groups) {
  const bool on_gpu = used.kind == "gpu";
  if (!options.results.empty() && !on_gpu) {
    throw std::invalid_argument(
        "--results records the resources of kernels on a GPU, and none is used");
  }
  std::vector<Measurement> all;
  for (const LaunchedGroup& group : groups) {
    if (group.steps.empty()) continue;
    std::vector<Measurement> rows = kernel_rows(group.steps);
    fmt::print("{}, on {}\n{}\n", group.name, used.properties.name, kernel_table(rows));
    for (Measurement& row : rows) {
      row.insert(row.begin(), {{"group", group.name}, {"title", group.name}});
      all.push_back(std::move(row));
    }
  }
  Table legend({"column", "meaning"});
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
  if (options.results.empty()) return;
  Record record({options.results, options.commit, true}, used.properties, command);
  record.add(all);
  record.finish();
}

}  // namespace fa::cli
