#include "common/cli/results.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <memory>

#include <fmt/format.h>

#include "common/cli/table.hpp"
#include "common/data/files.hpp"

namespace fa::cli {
namespace {

// The first line that a command prints, or "unknown".
std::string first_line_of(const std::string& command) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(
      popen((command + " 2>/dev/null").c_str(), "r"), pclose);
  std::array<char, 200> line{};
  if (!pipe || std::fgets(line.data(), line.size(), pipe.get()) == nullptr) {
    return "unknown";
  }
  std::string text = line.data();
  text.erase(text.find_last_not_of("\r\n") + 1);
  return text.empty() ? "unknown" : text;
}

// A field that a table may show.
struct Column {
  const char* heading;
  const char* field;
  int digits;  // after the point
};
constexpr Column kMeasuredColumns[] = {{"N", "length", 0},
                                       {"ms", "milliseconds", 3},
                                       {"TFLOP/s", "tflops", 2},
                                       {"GB/s", "gigabytes_per_second", 0},
                                       {"% of peak", "percent_of_peak", 1},
                                       {"% of cuBLAS", "percent_of_cublas", 1},
                                       {"price", "deterministic_price", 2},
                                       {"registers", "registers", 0},
                                       {"shared, B", "shared_bytes", 0},
                                       {"spilled, B", "spilled_bytes", 0},
                                       {"blocks/SM", "blocks", 0},
                                       {"% of warps", "percent_of_warps", 0},
                                       {"waves", "waves", 2},
                                       {"% masked", "percent_hidden", 0}};

// The value of a field as a cell; empty when the row has no such field.
std::string cell(const Measurement& row, const std::string& field, int digits) {
  for (const auto& [name, value] : row) {
    if (name != field) continue;
    if (const auto* words = std::get_if<std::string>(&value)) return *words;
    if (const auto* number = std::get_if<double>(&value)) {
      return fmt::format("{:.{}f}", *number, digits);
    }
    return std::to_string(std::get<std::int64_t>(value));
  }
  return "";
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  return fmt::format("{:04}-{:02}-{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday);
}

}  // namespace

void add_resources(Measurement& row, const KernelResources& takes) {
  row.emplace_back("registers", std::int64_t{takes.registers});
  row.emplace_back("shared_bytes", static_cast<std::int64_t>(takes.shared_bytes));
  row.emplace_back("spilled_bytes", static_cast<std::int64_t>(takes.spilled_bytes));
  row.emplace_back("blocks", std::int64_t{takes.blocks});
  row.emplace_back("percent_of_warps", 100 * takes.occupancy);
  row.emplace_back("threads", std::int64_t{takes.threads});
  if (takes.stages > 0) {
    row.emplace_back("stages", std::int64_t{takes.stages});
  }
}

std::string table_of(const std::vector<Measurement>& rows, const std::vector<std::string>& names) {
  std::vector<Column> columns;
  for (const std::string& name : names) {
    columns.push_back({name.c_str(), name.c_str(), 0});
  }
  for (const Column& column : kMeasuredColumns) {
    const bool any = std::any_of(rows.begin(), rows.end(),
                                 [&](auto& row) { return !cell(row, column.field, 0).empty(); });
    if (any) columns.push_back(column);
  }
  std::vector<std::string> headings;
  for (const Column& column : columns) headings.emplace_back(column.heading);
  Table table(headings);
  for (const Measurement& row : rows) {
    std::vector<std::string> cells;
    for (const Column& column : columns) {
      const std::string text = cell(row, column.field, column.digits);
      cells.push_back(text.empty() ? "-" : text);
    }
    table.add(cells);
  }
  return table.text();
}

void write_results(const std::filesystem::path& file, const DeviceProperties& device,
                   const std::string& command, const std::vector<Measurement>& rows,
                   const std::string& commit) {
  std::string text = "{\n";
  const auto field = [&](const char* name, const std::string& value) {
    text += fmt::format("  \"{}\": {},\n", name, json_text(value));
  };
  field("gpu", device.name);
  field("driver", first_line_of("nvidia-smi --query-gpu=driver_version --format=csv,noheader"));
  field("toolkit", device.toolkit);
  // Uncommitted changes show as -dirty.
  field("commit", !commit.empty() ? commit
                                  : first_line_of("git -C '" FA_ROOT_DIRECTORY
                                                  "' describe --always --dirty --abbrev=12"));
  field("date", today());
  field("command", command);
  text += "  \"measurements\": [";
  for (const Measurement& row : rows) {
    text += &row == rows.data() ? "\n    {" : ",\n    {";
    for (const auto& [name, value] : row) {
      text += fmt::format("{}\"{}\": ", &name == &row[0].first ? "" : ", ", name);
      if (const auto* words = std::get_if<std::string>(&value)) {
        text += json_text(*words);
      } else if (const auto* number = std::get_if<double>(&value)) {
        text += fmt::format("{:.6g}", *number);
      } else {
        text += std::to_string(std::get<std::int64_t>(value));
      }
    }
    text += "}";
  }
  write_file(file, text + "\n  ]\n}\n");
}

}  // namespace fa::cli
