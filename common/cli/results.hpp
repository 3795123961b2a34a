/// @file
/// Records of measurements on a GPU: docs/results/*.json, from which the pages' tables are made.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/gpu/device.hpp"

namespace fa::cli {

/// One row of a record: names and values, in this order. Units are part of the names: "milliseconds".
using Measurement = std::vector<
    std::pair<std::string, std::variant<std::string, double, std::int64_t>>>;

/// Adds what a kernel takes of a multiprocessor to its row: registers of a thread, bytes, blocks, % of warps, threads
/// of a block and, where it has some, stages of its pipeline.
void add_resources(Measurement& row, const KernelResources& takes);

/// Measurements as a table: the columns of `names`, then length, time, rate, shares and resources as far as there
/// are any.
/// @param rows  with the fields that docs/results has
/// @param names fields that say what was measured
std::string table_of(const std::vector<Measurement>& rows,
                     const std::vector<std::string>& names);

/// Writes a record: the GPU, its driver, the toolkit, the commit, the day, the command, and the measurements.
/// @param file    whole or not at all
/// @param device  that was measured
/// @param command as it can be typed again
/// @param rows    what was measured
/// @param commit  of the code, for a copy without git; empty asks git
/// @throws std::runtime_error when the file cannot be written
void write_results(const std::filesystem::path& file,
                   const DeviceProperties& device, const std::string& command,
                   const std::vector<Measurement>& rows,
                   const std::string& commit = "");

}  // namespace fa::cli
