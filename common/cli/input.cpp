#include "common/cli/input.hpp"

#include <cmath>
#include <fstream>
#include <stdexcept>
#include <system_error>

#include <fmt/format.h>

#include "common/data/files.hpp"
#include "common/tensor/npy.hpp"

namespace fa::cli {
namespace {

Tensor<float, 4> read_tensor(const std::filesystem::path& path) {
  auto tensor = read_npy_as<float, 4>(path);
  if (tensor.count() == 0) {
    throw std::invalid_argument(fmt::format("{}: has shape {}; every size must be at least 1",
                                            path.string(), to_string(tensor.shape())));
  }
  for_each_index(tensor.shape(), [&](const Shape<4>& index) {
    const float value = tensor.view()[index];
    if (std::isfinite(value)) return;
    throw std::invalid_argument(
        fmt::format("{}: element {} is {}; every element must be a finite float32", path.string(),
                    to_string(index), value));
  });
  return tensor;
}

}  // namespace

std::filesystem::path shipped_input() {
  return FA_DATA_DIR;
}

Input read_input(const std::filesystem::path& directory) {
  std::error_code error;
  if (!std::filesystem::is_directory(directory, error)) {
    throw std::invalid_argument(fmt::format("{}: is not a directory", directory.string()));
  }
  Input input;
  input.directory = directory;
  input.q = read_tensor(directory / "q.npy");
  input.k = read_tensor(directory / "k.npy");
  input.v = read_tensor(directory / "v.npy");
  if (std::filesystem::exists(directory / "tokens.txt", error)) {
    std::ifstream file(directory / "tokens.txt");
    for (std::string line; std::getline(file, line);) {
      if (!line.empty() && line.back() == '\r') line.pop_back();
      input.tokens.push_back(printable(line));
    }
    if (static_cast<std::int64_t>(input.tokens.size()) != input.k.size(2)) {
      throw std::invalid_argument(fmt::format("{}: has {} tokens, but k.npy has {} keys",
                                              (directory / "tokens.txt").string(),
                                              input.tokens.size(), input.k.size(2)));
    }
  }
  return input;
}

}  // namespace fa::cli
