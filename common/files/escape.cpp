#include "common/files/escape.hpp"

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

namespace fa {
namespace {

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20;
}

// The first character of a text and its number of bytes; 0 bytes for invalid UTF-8.
struct Character {
  std::uint32_t code;
  std::size_t bytes;
};
Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) -> std::uint32_t {
    return static_cast<unsigned char>(text[i]);
  };
  const std::size_t bytes = byte(0) < 0x80             ? 1
                            : (byte(0) & 0xe0) == 0xc0 ? 2
                            : (byte(0) & 0xf0) == 0xe0 ? 3
                            : (byte(0) & 0xf8) == 0xf0 ? 4
                                                       : 0;
  if (bytes == 0 || bytes > text.size()) return {0, 0};
  if (bytes == 1) return {byte(0), 1};
  std::uint32_t code = byte(0) & (0x7fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {0, 0};
    code = code << 6 | (byte(i) & 0x3f);
  }
  // Overlong forms and surrogates are invalid.
  constexpr std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_character =
      code >= least[bytes] && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
  return {code, is_character ? bytes : 0};
}

bool is_obeyed(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code <= 0x9f) ||  // controls
         (code >= 0x2028 && code <= 0x202e) ||             // line separators, directions
         (code >= 0x2066 && code <= 0x2069);               // directions
}

}  // namespace

std::string printable(std::string_view bytes) {
  std::string result;
  while (!bytes.empty()) {
    const Character c = first_character(bytes);
    const std::size_t count = std::max<std::size_t>(1, c.bytes);
    if (c.bytes > 0 && !is_obeyed(c.code)) {
      result += bytes.substr(0, count);
    } else {
      for (const char byte : bytes.substr(0, count)) {
        result += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
      }
    }
    bytes.remove_prefix(count);
  }
  return result;
}

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
