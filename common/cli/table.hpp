/// @file
/// Tables for the terminal and for the pages.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace fa::cli {

/// Rows of text under headings, in columns as wide as their widest cell. A column is right-aligned
/// when each of its cells is a number (digits, a point, an exponent, a fraction, a percentage),
/// inf, nan or -; otherwise left-aligned. A heading names the quantity and its unit: "shared
/// memory, B".
class Table {
 public:
  /// @param headings one per column
  explicit Table(std::vector<std::string> headings);
  /// Adds a row.
  /// @throws std::invalid_argument unless there is one cell per column
  void add(std::vector<std::string> cells);
  /// The table, each line ended by a line feed.
  std::string text() const;

 private:
  std::vector<std::string> headings_;
  std::vector<std::vector<std::string>> rows_;
};

/// The width of a UTF-8 text on a terminal: one column per code point.
std::size_t display_width(const std::string& text);

}  // namespace fa::cli
