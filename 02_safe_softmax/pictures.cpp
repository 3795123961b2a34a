#include "02_safe_softmax/pictures.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "02_safe_softmax/limits.hpp"
#include "common/data/files.hpp"
#include "common/drawing/svg.hpp"

namespace fa::safe {
namespace {

constexpr int kWidth = 720, kLeft = 100, kRight = 20, kRow = 46, kTop = 56;
constexpr double kLowest = -120, kHighest = 120;  // scores on the axis

double position(double score) {
  const double share = (std::clamp(score, kLowest, kHighest) - kLowest) / (kHighest - kLowest);
  return kLeft + share * (kWidth - kLeft - kRight);
}

template <class T>
void draw_row(Svg& svg, int index) {
  const ExpRange range = exp_range<T>();
  const int y = kTop + index * kRow;
  const double zero = position(range.nonzero_until), normal = position(range.normal_until),
               end = position(range.overflows_after);
  const bool beyond = range.overflows_after > kHighest;
  svg.text(kLeft - 10, y + 14, FloatTraits<T>::name, {{"text-anchor", "end"}});
  svg.rect(zero, y, normal - zero, 18, {{"class", "pale"}});
  svg.rect(normal, y, end - normal, 18, {{"class", "main"}});
  svg.text(end, y + 32,
           beyond ? fmt::format("on to {:.2f}", range.overflows_after)
                  : fmt::format("{:.2f}", range.overflows_after),
           {{"text-anchor", "end"}});
}

}  // namespace

void write_exp_ranges_svg(const std::filesystem::path& path) {
  const std::string title = "Scores x whose exp(x) the type can hold (pale: subnormal)";
  Svg svg(title, Svg::Paper::kAdaptive);
  svg.open("g", {{"font-size", 13}});
  svg.text(20, 28, title, {{"font-size", 15}});
  draw_row<half>(svg, 0);
  draw_row<bfloat16>(svg, 1);
  draw_row<float>(svg, 2);
  draw_row<double>(svg, 3);
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
