/// @file
/// Records of measurements on a GPU: docs/results/*.json, the source of the tables in the pages.
#pragma once

#include <cstdint>
#include <filesystem>
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

/// Measurements as a table: the columns of `names`, then those of length, time, rate, percentages
/// and resources that any row has.
/// @param rows  with fields as in docs/results
/// @param names fields that identify a row
std::string table_of(const std::vector<Measurement>& rows, const std::vector<std::string>& names);

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
