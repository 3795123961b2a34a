#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "06_flash_backward/src/training/train.hpp"
#include "common/data/files.hpp"
#include "common/drawing/svg.hpp"

namespace fa::backward {
namespace {

// The largest value that is drawn. The axis begins at 0.
double highest(const std::vector<double>& values, const std::vector<Level>& levels) {
  double top = *std::max_element(values.begin(), values.end());
  for (const Level& level : levels) top = std::max(top, level.value);
  return top > 0 ? top : 1;
}

// As many means of neighbours as there are columns, or the values themselves.
std::vector<double> means(const std::vector<double>& values, std::size_t columns) {
  if (values.size() <= columns) return values;
  std::vector<double> result;
  for (std::size_t i = 0; i < columns; ++i) {
    const std::size_t begin = i * values.size() / columns, end = (i + 1) * values.size() / columns;
    double sum = 0;
    for (std::size_t j = begin; j < end; ++j) sum += values[j];
    result.push_back(sum / static_cast<double>(end - begin));
  }
  return result;
}

}  // namespace

std::string terminal_curve(const std::vector<double>& values, const std::vector<Level>& levels) {
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
    std::string whole = fmt::format("{:5.2f} |{}{}", top * row / kRows, line, names);
    whole.erase(whole.find_last_not_of(' ') + 1);
    text += whole + "\n";
  }
  return text;
}

void write_curve_svg(const std::filesystem::path& path, const std::string& title,
                     const std::vector<double>& values, const std::vector<Level>& levels) {
  constexpr double kWidth = 640, kHeight = 360, kLeft = 50, kTop = 40, kRight = 20, kBottom = 40;
  const double top = highest(values, levels) * 1.05;
  const auto x_of = [&](double step) {  // from 1
    const double last = static_cast<double>(values.size());
    return kLeft + (kWidth - kLeft - kRight) * (last > 1 ? (step - 1) / (last - 1) : 0.5);
  };
  const auto y_of = [&](double value) {
    return kHeight - kBottom - (kHeight - kTop - kBottom) * value / top;
  };
  Svg svg(title, Svg::Paper::kAdaptive);
  svg.text(kLeft, 24, title, {{"font-size", 14}});
  for (int value = 0; value <= top; ++value) {
    svg.line(kLeft, y_of(value), kWidth - kRight, y_of(value), {{"class", "grid"}});
    svg.text(kLeft - 8, y_of(value) + 4, std::to_string(value), {{"text-anchor", "end"}});
  }
  for (const Level& level : levels) {
    const double y = y_of(level.value);
    svg.line(kLeft, y, kWidth - kRight, y, {{"class", "axis"}, {"stroke-dasharray", "6 4"}});
    svg.text(kWidth - kRight, y - 5, level.name, {{"text-anchor", "end"}});
  }
  std::string points;
  for (std::size_t i = 0; i < values.size(); ++i) {
    points +=
        fmt::format("{}{},{}", i == 0 ? "" : " ", Svg::number(x_of(static_cast<double>(i + 1))),
                    Svg::number(y_of(values[i])));
  }
  svg.element("polyline", {{"class", "curve"}, {"points", points}});
  svg.text(kLeft, kHeight - 14, "step 1");
  svg.text(kWidth - kRight, kHeight - 14, fmt::format("step {}", values.size()),
           {{"text-anchor", "end"}});
  write_file(path, svg.str(kWidth, kHeight));
}

}  // namespace fa::backward
