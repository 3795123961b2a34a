// How tests find lines of kernels: by the comment at their end.
#pragma once

#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace fa::testing {

// A text whose lines may be broken anywhere, with one space between words.
inline std::string in_one_line(const std::string& text) {
  std::istringstream words(text);
  std::string result;
  for (std::string word; words >> word;) {
    result += (result.empty() ? "" : " ") + word;
  }
  return result;
}

// The number of the line of a file of the repository that ends with a mark.
inline int line_of(const std::string& path, const std::string& mark) {
  std::ifstream file(FA_ROOT_DIRECTORY "/" + path);
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const std::string comment = "// " + mark;
    if (line.size() > comment.size() &&
        line.compare(line.size() - comment.size(), comment.size(), comment) == 0) {
      return number;
    }
  }
  throw std::logic_error("no line of " + path + " is named " + mark);
}

// That line as the lab names it; nothing for no mark.
inline std::string place_of(const std::string& path, const std::string& mark) {
  return mark.empty() ? "" : path + ":" + std::to_string(line_of(path, mark));
}

}  // namespace fa::testing
