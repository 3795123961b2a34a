#include "common/cli/table.hpp"

#include <algorithm>
#include <cctype>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

namespace fa::cli {

std::size_t display_width(const std::string& text) {
  // Bytes 10xxxxxx continue a code point.
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

Table::Table(std::vector<std::string> headings) : headings_(std::move(headings)) {}

void Table::add(std::vector<std::string> cells) {
  if (cells.size() != headings_.size()) {
    throw std::invalid_argument(fmt::format("a row of {} cells does not fit a table of {} columns",
                                            cells.size(), headings_.size()));
  }
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  const auto numeric = [](const std::string& cell) {
    if (cell == "-") return true;
    const std::string rest = cell.substr(!cell.empty() && (cell[0] == '-' || cell[0] == '+'));
    return rest == "inf" || rest == "nan" ||
           (!rest.empty() && std::isdigit(static_cast<unsigned char>(rest[0])) != 0 &&
            rest.find_first_not_of("0123456789.+-e^/% ") == std::string::npos);
  };
  std::vector<std::size_t> widths;
  std::vector<bool> right;
  for (std::size_t column = 0; column < headings_.size(); ++column) {
    std::size_t width = display_width(headings_[column]);
    bool all_numeric = !rows_.empty();
    for (const auto& row : rows_) {
      width = std::max(width, display_width(row[column]));
      all_numeric = all_numeric && numeric(row[column]);
    }
    widths.push_back(width);
    right.push_back(all_numeric);
  }
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string result;
    for (std::size_t column = 0; column < cells.size(); ++column) {
      const std::string padding(widths[column] - display_width(cells[column]), ' ');
      if (column > 0) result += "  ";
      result += right[column] ? padding + cells[column] : cells[column] + padding;
    }
    result.erase(result.find_last_not_of(' ') + 1);
    return result + "\n";
  };
  std::vector<std::string> rules;
  for (std::size_t width : widths) rules.emplace_back(width, '-');
  std::string result = line(headings_) + line(rules);
  for (const auto& row : rows_) result += line(row);
  return result;
}

}  // namespace fa::cli
