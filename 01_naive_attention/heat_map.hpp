/// @file
/// Attention probabilities as pictures: shades in the terminal, an SVG file for the browser.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "common/cli/table.hpp"
#include "common/data/files.hpp"
#include "common/drawing/svg.hpp"
#include "common/tensor/tensor.hpp"

namespace fa::naive {

/// The largest probability, or 1 where all are 0.
inline double largest_of(View<const double, 2> weights) {
  double largest = 0;
  for_each_index(weights.shape(),
                 [&](const Shape<2>& index) { largest = std::max(largest, weights[index]); });
  return largest > 0 ? largest : 1;
}

/// A heat map in five shades of characters, one line per query and one character pair per key.
/// @param weights [rows, cols], in [0, 1]; a full block stands for the largest element
/// @param rows    one label per row
inline std::string terminal_heat_map(View<const double, 2> weights,
                                     const std::vector<std::string>& rows) {
  static const char* const kShades[] = {"  ", "░░", "▒▒", "▓▓", "██"};
  constexpr int kSteps = 4;
  const double largest = largest_of(weights);
  std::size_t label_width = 0;
  for (const auto& label : rows) {
    label_width = std::max(label_width, cli::display_width(label));
  }
  std::string text;
  for (std::int64_t i = 0; i < weights.size(0); ++i) {
    const std::string& label = rows[static_cast<std::size_t>(i)];
    text += std::string(label_width - cli::display_width(label), ' ') + label + " |";
    for (std::int64_t j = 0; j < weights.size(1); ++j) {
      const auto shade = static_cast<int>(std::lround(weights(i, j) / largest * kSteps));
      text += kShades[std::clamp(shade, 0, kSteps)];
    }
    text += "|\n";
  }
  return text;
}

/// Writes a heat map as an SVG file for light and dark pages. Pointing at a cell shows its query,
/// key and probability.
/// @param path    the file, written completely or not at all
/// @param weights [rows, cols], in [0, 1]; full colour stands for the largest element
/// @param rows    one label per query
/// @param cols    one label per key
/// @throws std::runtime_error when the file cannot be written
inline void write_heat_map_svg(const std::filesystem::path& path, const std::string& title,
                               View<const double, 2> weights, const std::vector<std::string>& rows,
                               const std::vector<std::string>& cols) {
  constexpr int kCell = 14, kLeft = 130, kTop = 150, kMargin = 20;
  const auto n_rows = static_cast<int>(weights.size(0));
  const auto n_cols = static_cast<int>(weights.size(1));
  Svg svg(title, Svg::Paper::kAdaptive);
  svg.text(kMargin, 20, title, {{"font-size", 14}});
  for (int j = 0; j < n_cols; ++j) {
    svg.element("text",
                {{"transform", fmt::format("translate({},{}) rotate(-90)",
                                           kLeft + j * kCell + kCell - 3, kTop - 5)}},
                cols[static_cast<std::size_t>(j)]);
  }
  for (int i = 0; i < n_rows; ++i) {
    svg.text(kLeft - 5, kTop + i * kCell + kCell - 3, rows[static_cast<std::size_t>(i)],
             {{"text-anchor", "end"}});
  }
  svg.open("g", {{"class", "main"}});
  const double largest = largest_of(weights);
  for (int i = 0; i < n_rows; ++i) {
    for (int j = 0; j < n_cols; ++j) {
      const double opacity = weights(i, j) / largest;
      if (opacity < 0.005) continue;  // invisible, and there are many
      svg.open("rect", {{"x", kLeft + j * kCell},
                        {"y", kTop + i * kCell},
                        {"width", kCell},
                        {"height", kCell},
                        {"fill-opacity", opacity}});
      svg.element("title", {},
                  fmt::format("{} attends to {}: {:.3f}", rows[static_cast<std::size_t>(i)],
                              cols[static_cast<std::size_t>(j)], weights(i, j)));
      svg.close();
    }
  }
  svg.close();
  svg.rect(kLeft, kTop, n_cols * kCell, n_rows * kCell, {{"class", "axis"}, {"fill", "none"}});
  write_file(path, svg.str(kLeft + n_cols * kCell + kMargin, kTop + n_rows * kCell + kMargin));
}

}  // namespace fa::naive
