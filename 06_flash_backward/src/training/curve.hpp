/// @file
/// Lesson 06: a loss curve, drawn in the terminal and as SVG.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace fa::backward {

/// A height that a curve is compared with.
struct Level {
  std::string name;  ///< "bigram entropy"
  double value;      ///< in the unit of the curve
};

/// A curve as lines of text: '*' where it runs, '-' where the levels are.
/// @param values at least one; where there are more than columns, means of neighbours
/// @param levels drawn across, named at the right
std::string terminal_curve(const std::vector<double>& values, const std::vector<Level>& levels);

/// A curve as an SVG file, readable on light and dark paper.
/// @param path   appears whole or not at all
/// @param title  above the drawing
/// @param values at least one, one for each step
/// @param levels drawn across, named
/// @throws std::runtime_error when the file cannot be written
void write_curve_svg(const std::filesystem::path& path, const std::string& title,
                     const std::vector<double>& values, const std::vector<Level>& levels);

}  // namespace fa::backward
