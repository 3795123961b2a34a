/// @file
/// For tests: running a program as a user would, and a directory that goes away afterwards.
#pragma once

#include <filesystem>
#include <string>

namespace fa::testing {

/// What a program left behind.
struct Outcome {
  int status = -1;     ///< exit status, or -1 when a signal ended it
  std::string output;  ///< standard output
  std::string error;   ///< standard error
};

/// Runs a command line through the shell and waits for its end.
/// @throws std::runtime_error when it cannot be started
Outcome run(const std::string& command);

/// True when a text holds another. For CHECK, which prints both when it is false.
inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A fresh empty directory, removed with all it holds at the end of its scope.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::filesystem::path& path() const {
    return path_;
  }  ///< where it is

 private:
  std::filesystem::path path_;
};

}  // namespace fa::testing
