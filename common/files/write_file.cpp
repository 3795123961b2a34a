#include "common/files/write_file.hpp"

#include <fstream>
#include <stdexcept>
#include <system_error>

#include <fmt/format.h>

namespace fa {

void write_file(const std::filesystem::path& path,
                const std::function<void(std::ostream&)>& write) {
  std::filesystem::path partial = path;
  partial += ".partial";
  std::error_code error;
  std::ofstream file(partial, std::ios::binary | std::ios::trunc);
  try {
    if (file) write(file);
  } catch (...) {
    std::filesystem::remove(partial, error);
    throw;
  }
  file.close();
  if (file) std::filesystem::rename(partial, path, error);
  if (!file || error) {
    std::filesystem::remove(partial, error);
    throw std::runtime_error(
        fmt::format("{}: cannot be written", path.string()));
  }
}

void write_file(const std::filesystem::path& path, std::string_view text) {
  write_file(path, [&](std::ostream& file) { file << text; });
}

}  // namespace fa
