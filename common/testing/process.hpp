/// @file
/// For tests: running a program as a user would, a directory that goes away afterwards, threads and memory.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
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

/// What a program says when it refuses: its standard error, which must be one line, with exit status 2.
/// Otherwise a text about what it did instead, without its words, so that no search in it succeeds by chance.
/// @param command as for run()
std::string refusal(const std::string& command);

/// A path for a command line.
inline std::string quoted(const std::filesystem::path& path) {
  return "'" + path.string() + "'";
}

/// Runs a function in a child process: what it prints, and what it does to its process, stays there.
/// An exception that leaves `body` is printed on standard error and gives status 99.
/// @param body returns the exit status
/// @throws std::runtime_error when the process cannot be started
Outcome run_in_child(const std::function<int()>& body);

/// What an exception of type E says that a function throws; empty when it throws nothing.
template <class E, class Body>
std::string message_of(Body body) {
  try {
    body();
  } catch (const E& error) {
    return error.what();
  }
  return "";
}

/// True when a text holds another. For CHECK, which prints both when it is false.
inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// What Python, whose parsers are strict, prints for an expression about a file; "True" where there is no Python.
/// @param expression may use `file`, its path, and the modules json and xml.dom.minidom
/// @param file       that is looked at
std::string python_says(const std::string& expression,
                        const std::filesystem::path& file);

/// All bytes of a file; empty when it cannot be read.
std::string file_bytes(const std::filesystem::path& path);

/// A fresh empty directory, removed with all it holds at the end of its scope.
class TemporaryDirectory {
 public:
  /// @throws std::runtime_error when it cannot be made
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  /// Where it is.
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// A device that tests may write to: where the superuser runs them a copy in a folder, so that no mistake can replace that
/// of the machine.
/// @param name   "null" or "full"
/// @param folder where the copy is made
/// @return none where there is no such device, or it must not be copied or used
std::optional<std::filesystem::path> device(
    const std::string& name, const std::filesystem::path& folder);

/// FA_THREADS for as long as this lives; then it is what it was.
class Threads {
 public:
  /// @param count threads that parallel_for() uses meanwhile
  explicit Threads(int count);
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  std::optional<std::string> before_;
};

#if defined(__linux__)
/// The most memory, in MiB, that a process had which only ran `work`: of a child, so that what other
/// tests have freed and the allocator has kept cannot serve it unseen. The system counts pages, so this
/// sees every allocation (Eigen's go past operator new) and works under AddressSanitizer too.
/// @throws std::runtime_error when the child cannot be started, or does not end well
double peak_mebibytes(const std::function<void()>& work);
#endif

}  // namespace fa::testing
