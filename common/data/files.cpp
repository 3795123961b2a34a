#include "common/data/files.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <functional>
#include <random>
#include <stdexcept>
#include <system_error>
#include <unistd.h>

#include <fmt/format.h>

namespace fa {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_path(const fs::path& path, const std::string& why) {
  throw std::runtime_error(fmt::format("{}: cannot be written: {}", printable(path.string()), why));
}

std::string system_error() {
  return errno == 0 ? "the stream failed" : std::generic_category().message(errno);
}

// Devices, FIFOs and open files cannot be replaced.
bool in_place(const fs::path& path) {
  std::error_code error;
  return fs::is_other(fs::status(path, error)) ||
         path.lexically_normal().string().compare(0, 5, "/dev/") == 0;
}

// Writes a new file into a folder and has it used; it is removed unless that renames it. Errors
// name `asked`.
void with_new_file(const fs::path& asked, const fs::path& folder, std::string_view text,
                   const std::function<std::error_code(const fs::path&)>& use) {
  std::random_device random;
  const fs::path path = folder / fmt::format(".{:08x}{:08x}.partial", random(), random());
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  const std::string why = file ? "" : system_error();
  const std::error_code error = file ? use(path) : std::error_code();
  std::error_code ignored;
  fs::remove(path, ignored);
  if (!file) refuse_path(asked, why);
  if (error) refuse_path(asked, error.message());
}

// The file that links lead to; refuses what cannot be replaced.
fs::path target_of(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) refuse_path(path, "it is a folder");
  if (fs::exists(status) && access(path.c_str(), W_OK) != 0) refuse_path(path, system_error());
  if (status.type() == fs::file_type::none) refuse_path(path, error.message());
  fs::path target = path;
  while (fs::is_symlink(fs::symlink_status(target, error))) {
    target = target.parent_path() / fs::read_symlink(target);
  }
  return target;
}

void write_in_place(const fs::path& path, std::string_view text) {
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::app);
  file << text;
  file.close();
  if (!file) refuse_path(path, system_error());
}

// The bytes of the first character; 0 for invalid UTF-8 and for what a terminal obeys.
std::size_t harmless_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t bytes = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if ((first >= 0x80 && first < 0xc0) || first > 0xf7 || bytes > text.size()) return 0;
  std::uint32_t code = bytes == 1 ? first : first & (0x7fu >> bytes);
  for (const char c : text.substr(1, bytes - 1)) {
    if ((static_cast<unsigned char>(c) & 0xc0) != 0x80) return 0;
    code = code << 6 | (static_cast<unsigned char>(c) & 0x3f);
  }
  constexpr std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};  // less is an overlong form
  const auto within = [&](std::uint32_t low, std::uint32_t high) {
    return code >= low && code <= high;
  };
  return code < least[bytes] || code > 0x10ffff || within(0xd800, 0xdfff) ||  // no characters
                 code < 0x20 || within(0x7f, 0x9f) ||                         // controls
                 within(0x2028, 0x202e) || within(0x2066, 0x2069)  // line separators, directions
             ? 0
             : bytes;
}

}  // namespace

void write_file(const fs::path& path, std::string_view text) {
  if (in_place(path)) return write_in_place(path, text);
  const fs::path target = target_of(path);
  with_new_file(path, target.parent_path(), text, [&](const fs::path& written) {
    std::error_code error;
    const fs::file_status old = fs::status(target, error);
    if (fs::exists(old)) fs::permissions(written, old.permissions(), error);
    fs::rename(written, target, error);
    return error;
  });
}

void append_to_file(const fs::path& path, std::string_view line) {
  write_in_place(path, line);
}

void check_writable(const fs::path& path) {
  const fs::path target = target_of(path);
  if (in_place(path)) return;
  with_new_file(path, target.parent_path(), "\n",
                [](const fs::path&) { return std::error_code(); });
}

std::string printable(std::string_view bytes) {
  std::string result;
  while (!bytes.empty()) {
    const std::size_t count = harmless_bytes(bytes);
    if (count > 0) {
      result += bytes.substr(0, count);
    } else {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(bytes[0]));
    }
    bytes.remove_prefix(std::max<std::size_t>(1, count));
  }
  return result;
}

std::string json_text(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      result += fmt::format("\\u{:04x}", static_cast<int>(c));
      continue;
    }
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

}  // namespace fa
