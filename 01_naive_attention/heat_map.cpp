#include "01_naive_attention/heat_map.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "common/cli/table.hpp"
#include "common/files/escape.hpp"
#include "common/files/write_file.hpp"

namespace fa::naive {
namespace {

double largest_of(View<const double, 2> weights) {
  double largest = 0;
  for_each_index(weights.shape(), [&](const Shape<2>& index) {
    largest = std::max(largest, weights[index]);
  });
  return largest > 0 ? largest : 1;
}

}  // namespace

std::string terminal_heat_map(View<const double, 2> weights,
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
    text += std::string(label_width - cli::display_width(label), ' ') +
            label + " |";
    for (std::int64_t j = 0; j < weights.size(1); ++j) {
      const auto shade =
          static_cast<int>(weights(i, j) / largest * kSteps + 0.5);
      text += kShades[std::clamp(shade, 0, kSteps)];
    }
    text += "|\n";
  }
  return text;
}

void write_heat_map_svg(const std::filesystem::path& path,
                        const std::string& title,
                        View<const double, 2> weights,
                        const std::vector<std::string>& rows,
                        const std::vector<std::string>& cols) {
  constexpr int kCell = 12, kLeft = 110, kTop = 130, kMargin = 20;
  const auto n_rows = static_cast<int>(weights.size(0));
  const auto n_cols = static_cast<int>(weights.size(1));
  const int width = kLeft + n_cols * kCell + kMargin;
  const int height = kTop + n_rows * kCell + kMargin;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" "
      "width=\"{0}\" height=\"{1}\" font-family=\"sans-serif\" "
      "font-size=\"10\">\n"
      "<style>\n"
      ".paper {{ fill: #ffffff }} text {{ fill: #1a1a1a }} "
      ".cells {{ fill: #0b5cad }} .frame {{ fill: none; stroke: #888888 }}\n"
      "@media (prefers-color-scheme: dark) {{ .paper {{ fill: #16191d }} "
      "text {{ fill: #e6e6e6 }} .cells {{ fill: #6cb6ff }} }}\n"
      "</style>\n"
      "<rect class=\"paper\" width=\"{0}\" height=\"{1}\"/>\n"
      "<text x=\"{2}\" y=\"20\" font-size=\"14\">{3}</text>\n",
      width, height, kMargin, xml_text(title));
  for (int j = 0; j < n_cols; ++j) {
    const int x = kLeft + j * kCell + kCell - 3;
    svg += fmt::format(
        "<text transform=\"translate({},{}) rotate(-90)\">{}</text>\n", x,
        kTop - 5, xml_text(cols[static_cast<std::size_t>(j)]));
  }
  for (int i = 0; i < n_rows; ++i) {
    svg +=
        fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n",
                    kLeft - 5, kTop + i * kCell + kCell - 3,
                    xml_text(rows[static_cast<std::size_t>(i)]));
  }
  svg += "<g class=\"cells\">\n";
  const double largest = largest_of(weights);
  for (int i = 0; i < n_rows; ++i) {
    for (int j = 0; j < n_cols; ++j) {
      const double opacity = weights(i, j) / largest;
      if (opacity < 0.005) continue;  // invisible, and there are many
      svg += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" "
          "fill-opacity=\"{:.2f}\"><title>{} attends to {}: "
          "{:.3f}</title></rect>\n",
          kLeft + j * kCell, kTop + i * kCell, kCell, kCell, opacity,
          xml_text(rows[static_cast<std::size_t>(i)]),
          xml_text(cols[static_cast<std::size_t>(j)]), weights(i, j));
    }
  }
  svg += fmt::format(
      "</g>\n<rect class=\"frame\" x=\"{}\" y=\"{}\" width=\"{}\" "
      "height=\"{}\"/>\n</svg>\n",
      kLeft, kTop, n_cols * kCell, n_rows * kCell);
  write_file(path, svg);
}

}  // namespace fa::naive
