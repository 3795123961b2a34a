/// @file
/// Tables for the terminal and for the pages, and records of measurements on a GPU:
/// docs/results/*.json.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/gpu/device.hpp"

namespace fa::cli {

/// Rows of text under headings, in columns as wide as their widest cell. A column is right-aligned
/// when each of its cells is a number (digits, a point, an exponent, a fraction, a percentage),
/// inf, nan or -; otherwise left-aligned. A heading names the quantity and its unit: "shared
/// memory, B".
class Table {
 public:
  /// @param headings one per column
  explicit Table(std::vector<std::string> headings);
  /// Adds a row.
  /// @throws std::invalid_argument unless there is one cell per column
  void add(std::vector<std::string> cells);
  /// The table, each line ended by a line feed.
  std::string text() const;

 private:
  std::vector<std::string> headings_;
  std::vector<std::vector<std::string>> rows_;
};

/// The width of a UTF-8 text on a terminal: one column per code point.
std::size_t display_width(const std::string& text);

/// One row of a record: names and values in order. The name tells the unit: "milliseconds".
using Measurement =
    std::vector<std::pair<std::string, std::variant<std::string, double, std::int64_t>>>;

/// Adds the resources that a kernel uses: registers per thread, bytes of shared memory, spilled
/// bytes, blocks per SM, occupancy, threads per block and, if it has any, pipeline stages.
void add_resources(Measurement& row, const KernelResources& takes);

/// A field of rows as a column of a table, with so many digits after the point.
struct Column {
  const char *heading, *field;
  int digits = 0;
};

/// Measurements as a table, with "-" for a missing field.
std::string table_of(const std::vector<Measurement>& rows, const std::vector<Column>& columns);

/// Measurements as a table: the columns of `names`, then those of length, time, rate, percentages
/// and resources that any row has.
/// @param rows  with fields as in docs/results
/// @param names fields that identify a row
std::string table_of(const std::vector<Measurement>& rows, const std::vector<std::string>& names);

/// What the options of records say.
struct RecordOptions {
  /// @{ The file to write, or empty; an empty `commit` asks git.
  std::string results, commit;
  /// @}
};

/// A record: the GPU, its driver, the toolkit, the commit, the date, the command, and the
/// measurements. It is written after each point, so that a run that is cut leaves what it has
/// measured.
class Record {
 public:
  /// @param command the command line that repeats the measurement
  Record(const RecordOptions& options, const DeviceProperties& device, const std::string& command);
  /// Writes the file with more rows, completely or not at all.
  /// @throws std::runtime_error when the file cannot be written
  void add(const std::vector<Measurement>& rows);
  /// Prints the name of the file.
  void finish() const;

 private:
  std::string file_, head_, rows_;
};

}  // namespace fa::cli
