/// @file
/// For tests: running programs, temporary directories, the number of threads, peak memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fa::testing {

/// The result of a program.
struct Outcome {
  /// @{ The exit status, or -1 after a signal; standard output and standard error; of
  /// run_in_child(), the peak memory as the system counts it: on Linux in KiB.
  int status = -1;
  std::string output, error;
  std::int64_t peak = 0;
  /// @}
};

/// Runs a command line through the shell and waits for its end.
/// @throws std::runtime_error when it cannot be started
Outcome run(const std::string& command);

/// The message of a program that refuses: its standard error, which must be one line, with exit
/// status 2. Otherwise a description of what happened, without the program's text, so that no
/// search in it succeeds by chance.
/// @param command as for run()
std::string refusal(const std::string& command);

/// Checks that a program refuses each command line with a text in its message: {arguments, text}.
void check_refused(const std::string& program,
                   const std::vector<std::pair<std::string, std::string>>& cases);

/// A path for a command line.
inline std::string quoted(const std::filesystem::path& path) {
  return "'" + path.string() + "'";
}

/// Runs a function in a child process, so that it cannot change this one, and returns its output.
/// An exception that leaves `body` is printed on standard error and gives status 99.
/// @param body returns the exit status
/// @throws std::runtime_error when the process cannot be started
Outcome run_in_child(const std::function<int()>& body);

/// The message of an exception of type E that a function throws; empty when it throws none.
template <class E, class Body>
std::string message_of(Body body) {
  try {
    body();
  } catch (const E& error) {
    return error.what();
  }
  return "";
}

/// Whether a text contains another. CHECK prints both when it is false.
inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// What Python prints for an expression about a file; its parsers are strict. "True" without
/// Python.
/// @param expression may use `file`, its path, and the modules json and xml.dom.minidom
std::string python_says(const std::string& expression, const std::filesystem::path& file);

/// All bytes of a file; empty when it cannot be read.
std::string file_bytes(const std::filesystem::path& path);

/// A new empty directory, removed with its contents at the end of its scope.
class TemporaryDirectory {
 public:
  /// @throws std::runtime_error when it cannot be created
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  /// Its path.
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Sets FA_THREADS and restores the old value at the end of its scope.
class Threads {
 public:
  /// @param wanted the value
  explicit Threads(const std::string& wanted);
  /// @param count threads that parallel_for() uses within the scope
  explicit Threads(int count) : Threads(std::to_string(count)) {}
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  std::optional<std::string> before_;
};

/// The peak memory, in MiB, of a process that runs only `work`, on Linux. It runs in a child
/// process, so that it cannot reuse memory that other tests have freed. The system counts pages,
/// which covers every allocation (Eigen bypasses operator new) and works under AddressSanitizer too.
/// @throws std::runtime_error when the child cannot be started or fails
double peak_mebibytes(const std::function<void()>& work);

}  // namespace fa::testing
