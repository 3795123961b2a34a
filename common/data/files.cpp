#include "common/data/files.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <map>
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

// A new file beside the one that it replaces: removed unless it has become that one.
class Partial {
 public:
  // Errors name `asked`.
  Partial(const fs::path& asked, const fs::path& folder) : asked_(asked) {
    std::random_device random;
    path_ = folder / fmt::format(".{:08x}{:08x}.partial", random(), random());
    errno = 0;
    file.open(path_, std::ios::binary);
    if (file) return;
    refuse_path(asked,
                fmt::format("no file can be made in {}: {}",
                            printable(folder.empty() ? "." : folder.string()), system_error()));
  }
  ~Partial() {
    file.close();
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  Partial(const Partial&) = delete;
  Partial& operator=(const Partial&) = delete;

  void close() {
    file.close();
    if (!file) refuse_path(asked_, system_error());
  }
  void become(const fs::path& target) {
    close();
    std::error_code error;
    const fs::file_status old = fs::status(target, error);
    if (fs::exists(old)) fs::permissions(path_, old.permissions(), error);
    fs::rename(path_, target, error);
    if (error) refuse_path(asked_, error.message());
  }
  std::ofstream file;

 private:
  fs::path asked_, path_;
};

// Writes a byte into a new file of a folder, to see whether there is room.
void probe(const fs::path& asked, const fs::path& folder) {
  Partial partial(asked, folder);
  partial.file << '\n';
  partial.close();
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
  if (!in_place(path)) probe(path, target.parent_path());
}

void check_folder_writable(const fs::path& folder) {
  probe(folder, folder);
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
  static const std::map<char, const char*> names{
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}};
  std::string result;
  for (const char c : text) {
    const auto name = names.find(c);
    const bool control = static_cast<unsigned char>(c) < 0x20;
    result += name != names.end() ? name->second : std::string(1, control ? ' ' : c);
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
