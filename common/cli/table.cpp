#include "common/cli/table.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <ctime>
#include <iterator>
#include <memory>
#include <stdexcept>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "common/data/files.hpp"

namespace fa::cli {
namespace {

// The first line that a command prints, or "unknown".
std::string first_line_of(const std::string& command) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(
      popen((command + " 2>/dev/null").c_str(), "r"), pclose);
  std::array<char, 200> line{};
  if (!pipe || std::fgets(line.data(), line.size(), pipe.get()) == nullptr) return "unknown";
  std::string text = line.data();
  text.erase(text.find_last_not_of("\r\n") + 1);
  return text.empty() ? "unknown" : text;
}

constexpr Column kMeasuredColumns[] = {{"N", "length", 0},
                                       {"ms", "milliseconds", 3},
                                       {"TFLOP/s", "tflops", 2},
                                       {"GB/s", "gigabytes_per_second", 0},
                                       {"% of peak", "percent_of_peak", 1},
                                       {"% of cuBLAS", "percent_of_cublas", 1},
                                       {"price", "deterministic_price", 2},
                                       {"error, %", "percent_error", 2},
                                       {"registers", "registers", 0},
                                       {"shared, B", "shared_bytes", 0},
                                       {"spilled, B", "spilled_bytes", 0},
                                       {"blocks/SM", "blocks", 0},
                                       {"% of warps", "percent_of_warps", 0}};

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
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
}

// A measurement as JSON, in one line.
std::string row_text(const Measurement& row) {
  std::string text = "{";
  for (const auto& [name, value] : row) {
    text += fmt::format("{}\"{}\": ", text.size() == 1 ? "" : ", ", name);
    if (const auto* words = std::get_if<std::string>(&value)) {
      text += json_text(*words);
    } else if (const auto* number = std::get_if<double>(&value)) {
      text += fmt::format("{:.6g}", *number);
    } else {
      text += std::to_string(std::get<std::int64_t>(value));
    }
  }
  return text + "}";
}

// What a record says of the machine and the code: a line for each field.
std::string head_text(const DeviceProperties& device, const std::string& command,
                      const std::string& commit) {
  std::string text;
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
  return text;
}

}  // namespace

std::size_t display_width(const std::string& text) {
  // Bytes 10xxxxxx continue a code point.
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

Table::Table(std::vector<std::string> headings) : headings_(std::move(headings)) {}

void Table::add(std::vector<std::string> cells) {
  if (cells.size() != headings_.size()) {
    throw std::invalid_argument(fmt::format("a row of {} cells does not fit a table of {} columns",
                                            cells.size(), headings_.size()));
  }
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  const auto numeric = [](const std::string& cell) {
    if (cell == "-") return true;
    const std::string rest = cell.substr(!cell.empty() && (cell[0] == '-' || cell[0] == '+'));
    return rest == "inf" || rest == "nan" ||
           (!rest.empty() && std::isdigit(static_cast<unsigned char>(rest[0])) != 0 &&
            rest.find_first_not_of("0123456789.+-e^/% ") == std::string::npos);
  };
  std::vector<std::size_t> widths;
  std::vector<bool> right;
  for (std::size_t column = 0; column < headings_.size(); ++column) {
    std::size_t width = display_width(headings_[column]);
    bool all_numeric = !rows_.empty();
    for (const auto& row : rows_) {
      width = std::max(width, display_width(row[column]));
      all_numeric = all_numeric && numeric(row[column]);
    }
    widths.push_back(width);
    right.push_back(all_numeric);
  }
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string result;
    for (std::size_t column = 0; column < cells.size(); ++column) {
      const std::string padding(widths[column] - display_width(cells[column]), ' ');
      if (column > 0) result += "  ";
      result += right[column] ? padding + cells[column] : cells[column] + padding;
    }
    result.erase(result.find_last_not_of(' ') + 1);
    return result + "\n";
  };
  std::vector<std::string> rules;
  for (std::size_t width : widths) rules.emplace_back(width, '-');
  std::string result = line(headings_) + line(rules);
  for (const auto& row : rows_) result += line(row);
  return result;
}

void add_resources(Measurement& row, const KernelResources& takes) {
  row.emplace_back("registers", std::int64_t{takes.registers});
  row.emplace_back("shared_bytes", static_cast<std::int64_t>(takes.shared_bytes));
  row.emplace_back("spilled_bytes", static_cast<std::int64_t>(takes.spilled_bytes));
  row.emplace_back("blocks", std::int64_t{takes.blocks});
  row.emplace_back("percent_of_warps", 100 * takes.occupancy);
  row.emplace_back("threads", std::int64_t{takes.threads});
  if (takes.stages > 0) row.emplace_back("stages", std::int64_t{takes.stages});
}

std::string table_of(const std::vector<Measurement>& rows, const std::vector<Column>& columns) {
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

std::string table_of(const std::vector<Measurement>& rows, const std::vector<std::string>& names) {
  std::vector<Column> columns;
  for (const std::string& name : names) columns.push_back({name.c_str(), name.c_str()});
  std::copy_if(std::begin(kMeasuredColumns), std::end(kMeasuredColumns),
               std::back_inserter(columns), [&](const Column& column) {
                 return std::any_of(rows.begin(), rows.end(), [&](const Measurement& row) {
                   return !cell(row, column.field, 0).empty();
                 });
               });
  return table_of(rows, columns);
}

Record::Record(const RecordOptions& options, const DeviceProperties& device,
               const std::string& command)
    : file_(options.results) {
  if (!file_.empty()) head_ = head_text(device, command, options.commit);
}

void Record::add(const std::vector<Measurement>& rows) {
  for (const Measurement& row : rows) {
    rows_ += (rows_.empty() ? "\n    " : ",\n    ") + row_text(row);
  }
  if (file_.empty()) return;
  write_file(file_, "{\n" + head_ + "  \"measurements\": [" + rows_ + "\n  ]\n}\n");
}

void Record::finish() const {
  if (!file_.empty()) fmt::print("Recorded in {}\n", printable(file_));
}

}  // namespace fa::cli
