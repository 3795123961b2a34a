#include "common/testing/process.hpp"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <stdlib.h>
#include <sys/wait.h>

namespace fa::testing {
namespace {

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TemporaryDirectory::TemporaryDirectory() {
  std::string name =
      (std::filesystem::temp_directory_path() / "fa_test_XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr)
    throw std::runtime_error("cannot make a temporary directory");
  path_ = name;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Outcome run(const std::string& command) {
  const TemporaryDirectory directory;
  const auto out = directory.path() / "out", err = directory.path() / "err";
  const std::string line =
      "( " + command + " ) >'" + out.string() + "' 2>'" + err.string() + "'";
  const int raw = std::system(line.c_str());
  if (raw == -1) throw std::runtime_error("cannot start: " + command);
  return {WIFEXITED(raw) ? WEXITSTATUS(raw) : -1, contents(out),
          contents(err)};
}

}  // namespace fa::testing
