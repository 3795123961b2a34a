/// @file
/// Attention probabilities as pictures: shades in the terminal, an SVG file for the browser.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/tensor/tensor.hpp"

namespace fa::naive {

/// A heat map in five shades of characters, one line per query and one character pair per key.
/// @param weights [rows, cols], in [0, 1]; a full block stands for the largest element
/// @param rows    one label per row
std::string terminal_heat_map(View<const double, 2> weights, const std::vector<std::string>& rows);

/// Writes a heat map as an SVG file for light and dark pages. Pointing at a cell shows its query,
/// key and probability.
/// @param path    the file, written completely or not at all
/// @param title   above the picture
/// @param weights [rows, cols], in [0, 1]; full colour stands for the largest element
/// @param rows    one label per query
/// @param cols    one label per key
/// @throws std::runtime_error when the file cannot be written
void write_heat_map_svg(const std::filesystem::path& path, const std::string& title,
                        View<const double, 2> weights, const std::vector<std::string>& rows,
                        const std::vector<std::string>& cols);

}  // namespace fa::naive
