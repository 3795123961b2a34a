/// @file
/// The picture of this lesson: exp in the number types of the course.
#pragma once

#include <filesystem>

namespace fa::safe {

/// Writes an SVG picture, readable on light and on dark pages, of the scores whose exponential each
/// type can hold.
/// @param path the file; it appears whole or not at all
/// @throws std::runtime_error when the file cannot be written
void write_exp_ranges_svg(const std::filesystem::path& path);

}  // namespace fa::safe
