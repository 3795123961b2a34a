/// @file
/// Records of measurements on a GPU: docs/results/*.json, the source of the tables in the pages.
#pragma once

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/gpu/device.hpp"

namespace fa::cli {

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
  /// @{ The file to write, or empty; an empty `commit` asks git; `again`: measure again what the file
  /// has; `limit`: begin nothing that would end so many seconds after the program began, 0 for none.
  std::string results, commit;
  bool again = false;
  std::int64_t limit = 0;
  /// @}
};

/// Thrown when a limit has ended a measurement; Program::run() prints it and returns kPointsMissing.
struct PointsMissing : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A record that is written after each point, so that a run that is cut leaves what it has measured.
/// It goes on with a file of the same GPU, toolkit, commit and command.
class Record {
 public:
  /// @throws std::runtime_error when the file is something else, or cannot be read
  Record(RecordOptions options, const DeviceProperties& device, const std::string& command);
  /// Whether the point `name`, whose rows begin with these fields, is to be measured now.
  bool lacks(const std::string& name, const Measurement& begin);
  /// Writes the file with more rows, of the point that was asked for last.
  /// @throws std::runtime_error when the file cannot be written
  void add(const std::vector<Measurement>& rows);
  /// Prints the name of the file.
  /// @throws PointsMissing with the points that came after the limit
  void finish() const;

 private:
  RecordOptions options_;
  std::string head_, missing_;
  std::vector<std::string> rows_;
  double begin_ = 0, longest_ = 0;  // seconds, of a point
};

/// Writes a record: the GPU, its driver, the toolkit, the commit, the date, the command, and the
/// measurements.
/// @param file    written completely or not at all
/// @param command the command line that repeats the measurement
/// @param commit  of the code, for a copy without git; empty: ask git
/// @throws std::runtime_error when the file cannot be written
void write_results(const std::filesystem::path& file, const DeviceProperties& device,
                   const std::string& command, const std::vector<Measurement>& rows,
                   const std::string& commit = "");

}  // namespace fa::cli
