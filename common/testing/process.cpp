#include "common/testing/process.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fcntl.h>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

#include <doctest/doctest.h>

namespace fa::testing {

std::string python_says(const std::string& expression, const std::filesystem::path& file) {
  if (run("command -v python3").status != 0) return "True\n";
  const auto result =
      run("python3 -c 'import json, sys, xml.dom.minidom; file = sys.argv[1]; print(" + expression +
          ")' " + quoted(file));
  return result.output + result.error;
}

std::string file_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TemporaryDirectory::TemporaryDirectory() {
  std::string name = (std::filesystem::temp_directory_path() / "fa_test_XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr)
    throw std::runtime_error("cannot make a temporary directory");
  path_ = name;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Outcome run(const std::string& command) {
  return run_in_child([&] {
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    return 127;
  });
}

std::string refusal(const std::string& command) {
  const Outcome outcome = run(command);
  const auto lines = std::count(outcome.error.begin(), outcome.error.end(), '\n');
  if (outcome.status == 2 && lines == 1) return outcome.error;
  return "(exit status " + std::to_string(outcome.status) + ", " + std::to_string(lines) +
         " lines on standard error)";
}

void check_refused(const std::string& program,
                   const std::vector<std::pair<std::string, std::string>>& cases) {
  for (const auto& refused : cases) {  // clang 14 captures no structured binding
    const auto& arguments = refused.first;
    const auto& text = refused.second;
    const std::string words = refusal(program + " " + arguments);
    CAPTURE(arguments);
    CAPTURE(words);
    CHECK(contains(words, text));
  }
}

Outcome run_in_child(const std::function<int()>& body) {
  const TemporaryDirectory directory;
  const auto out = directory.path() / "out", err = directory.path() / "err";
  std::fflush(nullptr);  // otherwise the child would print it again
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("cannot start a child process");
  if (child == 0) {
    int status = 99;
    const int flags = O_WRONLY | O_CREAT;
    if (dup2(open(out.c_str(), flags, 0600), STDOUT_FILENO) >= 0 &&
        dup2(open(err.c_str(), flags, 0600), STDERR_FILENO) >= 0) {
      try {
        status = body();
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
      }
    }
    std::fflush(nullptr);
    _exit(status);  // no destructors of the parent's objects
  }
  int raw = 0;
  rusage usage{};
  while (wait4(child, &raw, 0, &usage) < 0 && errno == EINTR) continue;
  return {WIFEXITED(raw) ? WEXITSTATUS(raw) : -1, file_bytes(out), file_bytes(err),
          usage.ru_maxrss};
}

Threads::Threads(const std::string& wanted) {
  if (const char* before = std::getenv("FA_THREADS")) before_ = before;
  setenv("FA_THREADS", wanted.c_str(), 1);
}

Threads::~Threads() {
  before_ ? setenv("FA_THREADS", before_->c_str(), 1) : unsetenv("FA_THREADS");
}

double peak_mebibytes(const std::function<void()>& work) {
  const Outcome outcome = run_in_child([&] {
    work();
    return 0;
  });
  if (outcome.status != 0) throw std::runtime_error("the child process did not end well");
  return static_cast<double>(outcome.peak) / 1024;
}

}  // namespace fa::testing
