// Starts mpirun when the program was started without it.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <regex>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "06_flash_backward/ring/ranks.hpp"

namespace fa::ring {
namespace {

std::string quoted(const std::string& word) {
  std::string result = "'";
  for (const char c : word) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

std::string own_path() {
  std::array<char, 4096> path{};
  const auto length = readlink("/proc/self/exe", path.data(), path.size() - 1);
  if (length < 0) throw std::runtime_error("the path of this program is not known; use mpirun");
  return std::string(path.data(), static_cast<std::size_t>(length));
}

std::string command_of(const Choice& choice) {
  const AttentionShape& s = choice.shape;
  return fmt::format(
      "mpirun {}--oversubscribe --bind-to none -n {} {} --batch {} --heads {} --kv-heads {} "
      "--length-q {} --length-k {} --head-dim {} --method {} --type {} --mask {} --timeout {}",
      geteuid() == 0 ? "--allow-run-as-root " : "", choice.ranks, quoted(own_path()), s.batch,
      s.heads, s.kv_heads, s.length_q, s.length_k, s.head_dim, choice.method, choice.type,
      choice.mask, choice.timeout);
}

// The cause in what Open MPI says about a rank that ended; empty when there is none.
std::string cause_in(const std::string& text) {
  std::smatch found;
  static const std::regex by_signal("process rank (\\d+)[^]*?exited on signal (\\d+ \\([^)]*\\))");
  static const std::regex by_status(
      "Process name: \\[\\[\\d+,\\d+\\],(\\d+)\\]\\s*Exit code:\\s*(\\d+)");
  if (std::regex_search(text, found, by_signal)) {
    return fmt::format("rank {} was ended by signal {}", found[1].str(), found[2].str());
  }
  if (std::regex_search(text, found, by_status)) {
    return fmt::format("rank {} ended before the others, with status {}", found[1].str(),
                       found[2].str());
  }
  return "";
}

}  // namespace

int start_ranks(const Choice& choice) {
  // The ranks' standard output stays this program's, as descriptor 9; their messages are read.
  constexpr int kOutput = 9;
  std::fflush(stdout);
  if (dup2(STDOUT_FILENO, kOutput) < 0) throw std::runtime_error("no file descriptor is free");
  FILE* const pipe = popen((command_of(choice) + " 2>&1 1>&9 9>&- </dev/null").c_str(), "r");
  close(kOutput);
  if (pipe == nullptr) throw std::runtime_error("mpirun could not be started");
  std::string others;
  bool explained = false;
  std::array<char, 4096> line{};
  while (std::fgets(line.data(), static_cast<int>(line.size()), pipe) != nullptr) {
    const std::string text = line.data();
    if (text.rfind("ring_attention: ", 0) != 0) {
      others += text;
    } else if (!explained) {
      explained = true;
      fmt::print(stderr, "{}", text);
    }
  }
  const int ended = pclose(pipe);
  const int status = WIFEXITED(ended) ? WEXITSTATUS(ended) : cli::kCannotDo;
  if (status == cli::kSuccess || status == cli::kCheckFailed || explained) return status;
  const std::string cause = cause_in(others);
  if (cause.empty()) {
    fmt::print(stderr, "{}", others);
  } else {
    fmt::print(stderr, "ring_attention: {}; all ranks are ended\n", cause);
  }
  return cli::kCannotDo;
}

}  // namespace fa::ring
