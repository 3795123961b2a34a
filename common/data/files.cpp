#include "common/data/files.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>
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

// A new file that takes the place of another one, or disappears.
class Partial {
 public:
  // Errors name `asked`.
  Partial(const fs::path& asked, const fs::path& folder) : asked_(asked) {
    std::random_device random;
    path_ = folder / fmt::format(".{:08x}{:08x}.partial", random(), random());
    errno = 0;
    file.open(path_, std::ios::binary);
    if (file) return;
    const std::string why = system_error(),
                      shown = printable(folder.empty() ? "." : folder.string());
    std::error_code ignored;
    if (!fs::exists(shown, ignored)) refuse_path(asked, "there is no folder " + shown);
    refuse_path(asked, fmt::format("no file can be made in {}: {}", shown, why));
  }
  ~Partial() {
    file.close();
    std::error_code ignored;
    if (!path_.empty()) fs::remove(path_, ignored);
  }
  Partial(const Partial&) = delete;
  Partial& operator=(const Partial&) = delete;

  // Writes a byte, to see whether there is room.
  void probe() {
    file << '\n';
    close();
  }
  void become(const fs::path& target) {
    close();
    std::error_code error;
    const fs::file_status old = fs::status(target, error);
    if (fs::exists(old)) fs::permissions(path_, old.permissions(), error);
    fs::rename(path_, target, error);
    if (error) refuse_path(asked_, error.message());
    path_.clear();
  }
  std::ofstream file;

 private:
  void close() {
    file.close();
    if (!file) refuse_path(asked_, system_error());
  }
  fs::path asked_, path_;
};

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

void append(const fs::path& path, const std::function<void(std::ostream&)>& write) {
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::app);
  if (file) write(file);
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

// A text with another one for some of its characters.
template <class Escaped>
std::string replaced(const std::string& text, Escaped escaped) {
  std::string result;
  for (const char c : text) result += escaped(c);
  return result;
}

}  // namespace

void write_file(const fs::path& path, const std::function<void(std::ostream&)>& write) {
  if (in_place(path)) return append(path, write);
  const fs::path target = target_of(path);
  Partial partial(path, target.parent_path());
  write(partial.file);
  partial.become(target);
}

void write_file(const fs::path& path, std::string_view text) {
  write_file(path, [&](std::ostream& file) { file << text; });
}

void append_to_file(const fs::path& path, std::string_view line) {
  append(path, [&](std::ostream& file) { file << line; });
}

void check_writable(const fs::path& path) {
  const fs::path target = target_of(path);
  if (!in_place(path)) Partial(path, target.parent_path()).probe();
}

void check_folder_writable(const fs::path& folder) {
  Partial(folder, folder).probe();
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

std::string xml_text(const std::string& text) {
  return replaced(text, [](char c) -> std::string {
    return c == '&'                               ? "&amp;"
           : c == '<'                             ? "&lt;"
           : c == '>'                             ? "&gt;"
           : c == '"'                             ? "&quot;"
           : static_cast<unsigned char>(c) < 0x20 ? " "
                                                  : std::string(1, c);
  });
}

std::string json_text(const std::string& text) {
  const std::string inner = replaced(text, [](char c) -> std::string {
    if (static_cast<unsigned char>(c) < 0x20) return fmt::format("\\u{:04x}", static_cast<int>(c));
    return (c == '"' || c == '\\' ? "\\" : "") + std::string(1, c);
  });
  return '"' + inner + '"';
}

}  // namespace fa
