#include "06_flash_backward/src/training/curve.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "common/files/escape.hpp"
#include "common/files/write_file.hpp"

namespace fa::backward {
namespace {

// The largest value that is drawn. The axis begins at 0.
double highest(const std::vector<double>& values,
               const std::vector<Level>& levels) {
  double top = *std::max_element(values.begin(), values.end());
  for (const Level& level : levels) top = std::max(top, level.value);
  return top > 0 ? top : 1;
}

// As many means of neighbours as there are columns, or the values themselves.
std::vector<double> means(const std::vector<double>& values,
                          std::size_t columns) {
  if (values.size() <= columns) return values;
  std::vector<double> result;
  for (std::size_t i = 0; i < columns; ++i) {
    const std::size_t begin = i * values.size() / columns,
                      end = (i + 1) * values.size() / columns;
    double sum = 0;
    for (std::size_t j = begin; j < end; ++j) sum += values[j];
    result.push_back(sum / static_cast<double>(end - begin));
  }
  return result;
}

}  // namespace

std::string terminal_curve(const std::vector<double>& values,
                           const std::vector<Level>& levels) {
  constexpr std::size_t kColumns = 48;
  constexpr int kRows = 10;
  const std::vector<double> columns = means(values, kColumns);
  const double top = highest(values, levels);
  const auto row_of = [&](double value) {
    return static_cast<int>(std::lround(value / top * kRows));
  };
  std::string text;
  for (int row = kRows; row >= 0; --row) {
    std::string line(columns.size(), ' '), names;
    for (const Level& level : levels) {
      if (row_of(level.value) != row) continue;
      line.assign(columns.size(), '-');
      names += (names.empty() ? " " : ", ") + level.name;
    }
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (row_of(columns[i]) == row) line[i] = '*';
    }
    std::string whole =
        fmt::format("{:5.2f} |{}{}", top * row / kRows, line, names);
    whole.erase(whole.find_last_not_of(' ') + 1);
    text += whole + "\n";
  }
  return text;
}

void write_curve_svg(const std::filesystem::path& path,
                     const std::string& title,
                     const std::vector<double>& values,
                     const std::vector<Level>& levels) {
  constexpr double kWidth = 640, kHeight = 360, kLeft = 50, kTop = 40,
                   kRight = 20, kBottom = 40;
  const double top = highest(values, levels) * 1.05;
  const auto x_of = [&](double step) {  // from 1
    const double last = static_cast<double>(values.size());
    return kLeft + (kWidth - kLeft - kRight) *
                       (last > 1 ? (step - 1) / (last - 1) : 0.5);
  };
  const auto y_of = [&](double value) {
    return kHeight - kBottom - (kHeight - kTop - kBottom) * value / top;
  };
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" "
      "width=\"{0}\" height=\"{1}\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n"
      "<style>\n"
      ".paper {{ fill: #ffffff }} text {{ fill: #1a1a1a }} "
      ".grid {{ stroke: #dddddd }} .level {{ stroke: #888888 }} "
      ".curve {{ fill: none; stroke: #0b5cad; stroke-width: 2 }}\n"
      "@media (prefers-color-scheme: dark) {{ .paper {{ fill: #16191d }} "
      "text {{ fill: #e6e6e6 }} .grid {{ stroke: #3a3f45 }} "
      ".curve {{ stroke: #6cb6ff }} }}\n"
      "</style>\n"
      "<rect class=\"paper\" width=\"{0}\" height=\"{1}\"/>\n"
      "<text x=\"{2}\" y=\"24\" font-size=\"14\">{3}</text>\n",
      kWidth, kHeight, kLeft, xml_text(title));
  const auto line = [&](const char* kind, double value, const char* dashes) {
    svg += fmt::format(
        "<line class=\"{}\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" "
        "y2=\"{:.1f}\"{}/>\n",
        kind, kLeft, kWidth - kRight, y_of(value), y_of(value), dashes);
  };
  for (int value = 0; value <= top; ++value) {
    line("grid", value, "");
    svg += fmt::format(
        "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
        kLeft - 8, y_of(value) + 4, value);
  }
  for (const Level& level : levels) {
    line("level", level.value, " stroke-dasharray=\"6 4\"");
    svg += fmt::format(
        "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
        kWidth - kRight, y_of(level.value) - 5, xml_text(level.name));
  }
  svg += "<polyline class=\"curve\" points=\"";
  for (std::size_t i = 0; i < values.size(); ++i) {
    svg += fmt::format("{}{:.1f},{:.1f}", i == 0 ? "" : " ",
                       x_of(static_cast<double>(i + 1)), y_of(values[i]));
  }
  svg += fmt::format(
      "\"/>\n"
      "<text x=\"{0}\" y=\"{1}\">step 1</text>\n"
      "<text x=\"{2}\" y=\"{1}\" text-anchor=\"end\">step {3}</text>\n"
      "</svg>\n",
      kLeft, kHeight - 14, kWidth - kRight, values.size());
  write_file(path, svg);
}

}  // namespace fa::backward
