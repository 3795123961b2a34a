/// @file
/// Tables for the terminal and for the pages.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace fa::cli {

/// Rows of text under headings, in columns as wide as their widest cell. A column is set flush right
/// when each of its cells begins with a digit, after a sign or none, or is inf, nan or -.
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

/// The number of columns that a UTF-8 text takes on a terminal, one per code point.
std::size_t display_width(const std::string& text);

}  // namespace fa::cli
