#include "02_safe_softmax/pictures.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "02_safe_softmax/limits.hpp"
#include "common/files/write_file.hpp"

namespace fa::safe {
namespace {

constexpr int kWidth = 720, kLeft = 100, kRight = 20, kRow = 46, kTop = 56;
constexpr double kLowest = -120, kHighest = 120;  // scores on the axis

double position(double score) {
  const double share =
      (std::clamp(score, kLowest, kHighest) - kLowest) / (kHighest - kLowest);
  return kLeft + share * (kWidth - kLeft - kRight);
}

template <class T>
std::string row(int index) {
  const ExpRange range = exp_range<T>();
  const int y = kTop + index * kRow;
  const double zero = position(range.nonzero_until),
               normal = position(range.normal_until),
               end = position(range.overflows_after);
  const bool beyond = range.overflows_after > kHighest;
  return fmt::format(
      "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n"
      "<rect class=\"faint\" x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" "
      "height=\"18\"/>\n"
      "<rect class=\"good\" x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" "
      "height=\"18\"/>\n"
      "<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"end\">{}</text>\n",
      kLeft - 10, y + 14, FloatTraits<T>::name, zero, y, normal - zero,
      normal, y, end - normal, end, y + 32,
      beyond ? fmt::format("on to {:.2f}", range.overflows_after)
             : fmt::format("{:.2f}", range.overflows_after));
}

}  // namespace

void write_exp_ranges_svg(const std::filesystem::path& path) {
  const int height = kTop + 4 * kRow + 50;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" "
      "width=\"{0}\" height=\"{1}\" font-family=\"sans-serif\" "
      "font-size=\"13\">\n"
      "<style>\n"
      ".paper {{ fill: #ffffff }} text {{ fill: #1a1a1a }} "
      ".good {{ fill: #0b5cad }} .faint {{ fill: #9cc3ea }} "
      ".axis {{ stroke: #888888 }}\n"
      "@media (prefers-color-scheme: dark) {{ .paper {{ fill: #16191d }} "
      "text {{ fill: #e6e6e6 }} .good {{ fill: #6cb6ff }} "
      ".faint {{ fill: #31506e }} }}\n"
      "</style>\n"
      "<rect class=\"paper\" width=\"{0}\" height=\"{1}\"/>\n"
      "<text x=\"20\" y=\"28\" font-size=\"15\">Scores x whose exp(x) the "
      "type can hold (pale: subnormal)</text>\n",
      kWidth, height);
  svg += row<half>(0) + row<bfloat16>(1) + row<float>(2) + row<double>(3);
  const int axis = kTop + 4 * kRow + 8;
  for (int score = -120; score <= 120; score += 40) {
    const double x = position(score);
    svg += fmt::format(
        "<line class=\"axis\" x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" "
        "y2=\"{2}\"/>\n<text x=\"{0:.1f}\" y=\"{3}\" "
        "text-anchor=\"middle\">{4}</text>\n",
        x, kTop - 8, axis, axis + 18, score);
  }
  write_file(path, svg + "</svg>\n");
}

}  // namespace fa::safe
