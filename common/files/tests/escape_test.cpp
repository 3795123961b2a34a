// Text inside of XML and JSON, and on a terminal.
#include "common/files/escape.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "common/tensor/random.hpp"

using namespace fa;

namespace {

// A character in UTF-8, also where UTF-8 does not allow it.
std::string utf8(std::uint32_t code) {
  const auto byte = [](std::uint32_t bits) {
    return static_cast<char>(static_cast<unsigned char>(bits));
  };
  if (code < 0x80) return {byte(code)};
  if (code < 0x800) return {byte(0xc0 | code >> 6), byte(0x80 | (code & 0x3f))};
  if (code < 0x10000) {
    return {byte(0xe0 | code >> 12), byte(0x80 | (code >> 6 & 0x3f)), byte(0x80 | (code & 0x3f))};
  }
  return {byte(0xf0 | code >> 18), byte(0x80 | (code >> 12 & 0x3f)),
          byte(0x80 | (code >> 6 & 0x3f)), byte(0x80 | (code & 0x3f))};
}

std::string escaped(const std::string& bytes) {
  std::string result;
  for (const char c : bytes) {
    result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return result;
}

}  // namespace

TEST_CASE("XML gets no character that it would take for its own") {
  CHECK(xml_text("a<b> & \"c\"") == "a&lt;b&gt; &amp; &quot;c&quot;");
  CHECK(xml_text("tab\tbell\a") == "tab bell ");
  CHECK(xml_text("QKᵀ") == "QKᵀ");
}

TEST_CASE("JSON gets its quotes, and escapes for what may not stand there") {
  CHECK(json_text("") == "\"\"");
  CHECK(json_text("a \"b\" \\c") == R"("a \"b\" \\c")");
  CHECK(json_text("two\nlines\t") == R"("two\u000alines\u0009")");
  CHECK(json_text("QKᵀ") == "\"QKᵀ\"");
}

TEST_CASE("a terminal gets no character that it would obey") {
  CHECK(printable("") == "");
  CHECK(printable("Alice's QKᵀ \\ größer 日本 🙂") ==
        "Alice's QKᵀ \\ größer 日本 🙂");
  CHECK(printable("red \x1b[31m\r\n\t\x7f") == "red \\x1b[31m\\x0d\\x0a\\x09\\x7f");
  CHECK(printable(std::string("a\0b", 3)) == "a\\x00b");
  CHECK(printable("\xc2\x9b"
                  "31m \x9b"
                  "31m") == "\\xc2\\x9b31m \\x9b31m");
  CHECK(printable("cut off: \xe1\xb5") == "cut off: \\xe1\\xb5");
  CHECK(printable("backwards \xe2\x80\xae") == "backwards \\xe2\\x80\\xae");
}

TEST_CASE("every character alone, and what is none") {
  for (std::uint32_t code = 0; code < 0x200000; ++code) {
    const bool is_character = code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
    const bool is_obeyed = code < 32 || (code > 126 && code < 160) ||
                           (code > 0x2027 && code < 0x202f) || (code > 0x2065 && code < 0x206a);
    const std::string bytes = utf8(code);
    const std::string shown = printable(bytes);
    if (shown != (is_character && !is_obeyed ? bytes : escaped(bytes))) {
      CAPTURE(code);
      CHECK(shown == bytes);
    }
  }
  // Longer than need be: the same character in one byte more.
  CHECK(printable("\xc0\x9b") == "\\xc0\\x9b");
  CHECK(printable("\xe0\x80\x9b") == "\\xe0\\x80\\x9b");
  CHECK(printable("\xf0\x80\x80\x9b") == "\\xf0\\x80\\x80\\x9b");
  CHECK(printable("\xe1\x82"
                  "a") ==
        "\\xe1\\x82"
        "a");
}

TEST_CASE("random bytes become text without controls that stays as it is") {
  for (std::uint64_t i = 0; i < 20000; ++i) {
    std::string bytes;
    const auto drawn = [&](std::uint64_t k) { return random_bits(i, k) >> 11; };
    const std::uint64_t size = drawn(0) % 24;
    for (std::uint64_t k = 1; k <= size; ++k) {
      // Bytes, or characters, so that they meet in all ways.
      bytes += drawn(100 + k) % 2 == 0 ? std::string(1, static_cast<char>(drawn(k)))
                                       : utf8(static_cast<std::uint32_t>(drawn(k) % 0x3000));
    }
    const std::string shown = printable(bytes);
    CAPTURE(shown);
    REQUIRE(std::all_of(shown.begin(), shown.end(),
                        [](char c) { return static_cast<unsigned char>(c) >= 32 && c != 127; }));
    REQUIRE(printable(shown) == shown);
    REQUIRE(shown.size() >= bytes.size());
    REQUIRE(shown.size() <= 4 * bytes.size());
  }
}
