/// @file
/// The chart of this lesson: the range of exp in each type.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>

#include <fmt/format.h>

#include "02_safe_softmax/limits.hpp"
#include "common/data/files.hpp"
#include "common/drawing/svg.hpp"

namespace fa::safe {

/// Writes an SVG chart, for light and dark pages, of the scores whose exponential each type can
/// hold.
/// @param path the file, written completely or not at all
/// @throws std::runtime_error when the file cannot be written
inline void write_exp_ranges_svg(const std::filesystem::path& path) {
  constexpr int kWidth = 720, kLeft = 100, kRight = 20, kRow = 46, kTop = 56;
  constexpr double kLowest = -120, kHighest = 120;  // scores on the axis
  const auto position = [&](double score) {
    const double share = (std::clamp(score, kLowest, kHighest) - kLowest) / (kHighest - kLowest);
    return kLeft + share * (kWidth - kLeft - kRight);
  };
  const std::string title = "Scores x whose exp(x) the type can hold (pale: subnormal)";
  Svg svg(title, Svg::Paper::kAdaptive);
  svg.open("g", {{"font-size", 13}});
  svg.text(20, 28, title, {{"font-size", 15}});
  const auto draw_row = [&](int index, const char* type, const ExpRange& range) {
    const int y = kTop + index * kRow;
    const double zero = position(range.nonzero_until), normal = position(range.normal_until),
                 end = position(range.overflows_after);
    svg.text(kLeft - 10, y + 14, type, {{"text-anchor", "end"}});
    svg.rect(zero, y, normal - zero, 18, {{"class", "pale"}});
    svg.rect(normal, y, end - normal, 18, {{"class", "main"}});
    svg.text(end, y + 32,
             fmt::format("{}{:.2f}", range.overflows_after > kHighest ? "on to " : "",
                         range.overflows_after),
             {{"text-anchor", "end"}});
  };
  draw_row(0, FloatTraits<half>::name, exp_range<half>());
  draw_row(1, FloatTraits<bfloat16>::name, exp_range<bfloat16>());
  draw_row(2, FloatTraits<float>::name, exp_range<float>());
  draw_row(3, FloatTraits<double>::name, exp_range<double>());
  const int axis = kTop + 4 * kRow + 8;
  for (int score = -120; score <= 120; score += 40) {
    const double x = position(score);
    svg.line(x, kTop - 8, x, axis, {{"class", "axis"}});
    svg.text(x, axis + 18, std::to_string(score), {{"text-anchor", "middle"}});
  }
  svg.close();
  write_file(path, svg.str(kWidth, kTop + 4 * kRow + 50));
}

}  // namespace fa::safe
