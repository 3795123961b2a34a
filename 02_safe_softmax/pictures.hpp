/// @file
/// The chart of this lesson: the range of exp in each type.
#pragma once

#include <filesystem>

namespace fa::safe {

/// Writes an SVG chart, for light and dark pages, of the scores whose exponential each type can
/// hold.
/// @param path the file, written completely or not at all
/// @throws std::runtime_error when the file cannot be written
void write_exp_ranges_svg(const std::filesystem::path& path);

}  // namespace fa::safe
