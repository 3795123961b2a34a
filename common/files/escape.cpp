#include "common/files/escape.hpp"

#include <fmt/format.h>

namespace fa {
namespace {

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20;
}

}  // namespace

std::string xml_text(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += is_control(c) ? ' ' : c;
    }
  }
  return result;
}

std::string json_text(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (is_control(c)) {
      result += fmt::format("\\u{:04x}", static_cast<int>(c));
      continue;
    }
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

}  // namespace fa
