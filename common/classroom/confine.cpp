// confine SECONDS MEBIBYTES FILE_MEBIBYTES USER DIRECTORY READABLE COMMAND...: runs a command that
// is not trusted, in DIRECTORY, the only place it may write to. READABLE lists the paths that it
// may read, with colons between them; "-" stands for all. teaching.md says what this protects from,
// and from what not.
//
// Every layer stands for itself, and what this system has not is left out; `confine --layers`
// prints what there is.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <grp.h>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__linux__)
#include <cstddef>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#include "common/classroom/seccomp.hpp"

namespace {

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "confine: %s: %s\n", what.c_str(), std::strerror(errno));
  std::_Exit(125);
}

void limit(decltype(RLIMIT_CPU) what, std::uint64_t amount, const char* name,
           std::uint64_t grace = 0) {
  rlimit value{};
  if (getrlimit(what, &value) != 0) die(name);
  const auto wanted = static_cast<rlim_t>(amount);
  if (value.rlim_max == RLIM_INFINITY || wanted + grace < value.rlim_max) {
    value.rlim_max = wanted + grace;
  }
  value.rlim_cur = std::min(wanted, value.rlim_max);
  if (setrlimit(what, &value) != 0) die(name);
}

#if defined(__linux__)

// Landlock, spelled out: headers of older systems know only a part of it.
struct RulesetAttributes {
  std::uint64_t file_system, network, scope;
};
struct __attribute__((packed)) PathRule {
  std::uint64_t allowed;
  std::int32_t directory;
};
constexpr long kCreateRuleset = 444, kAddRule = 445, kRestrictSelf = 446;
constexpr std::uint64_t kWriteFile = 1u << 1, kReadFile = 1u << 2, kReadDirectory = 1u << 3,
                        kTruncate = 1u << 14;

long landlock_version() {
  return syscall(kCreateRuleset, nullptr, 0, 1u);
}

// Only `directory` and /dev/null may be written; only `readable` and they may be read.
bool restrict_files(const char* directory, const std::string& readable) {
  const long version = landlock_version();
  if (version < 1) return false;
  std::uint64_t writes = 0;
  for (int bit = 4; bit <= 12; ++bit) writes |= 1u << bit;  // make and remove
  writes |= kWriteFile;
  if (version >= 2) writes |= 1u << 13;  // links across directories
  if (version >= 3) writes |= kTruncate;
  const std::uint64_t reads = readable == "-" ? 0 : kReadFile | kReadDirectory;
  RulesetAttributes attributes{writes | reads, version >= 4 ? 3u : 0u, version >= 6 ? 3u : 0u};
  const std::size_t size = version >= 6 ? 24 : version >= 4 ? 16 : 8;
  const long rules = syscall(kCreateRuleset, &attributes, size, 0);
  if (rules < 0) return false;
  const auto allow = [&](const char* path, std::uint64_t what, bool optional = false) {
    const int opened = open(path, O_PATH | O_CLOEXEC);
    if (opened < 0 && optional) return;
    if (opened < 0) die(path);
    struct stat about {};
    if (fstat(opened, &about) != 0) die(path);
    if (!S_ISDIR(about.st_mode)) what &= kWriteFile | kTruncate | kReadFile;
    PathRule rule{what, opened};
    if (syscall(kAddRule, rules, 1, &rule, 0) != 0) die(path);
    close(opened);
  };
  allow(directory, writes | reads);
  allow("/dev/null", (writes | reads) & (kWriteFile | kTruncate | kReadFile));
  for (std::size_t begin = 0; reads != 0 && begin < readable.size();) {
    const std::size_t end = std::min(readable.find(':', begin), readable.size());
    if (end > begin) allow(readable.substr(begin, end - begin).c_str(), reads, true);
    begin = end + 1;
  }
  const bool done = syscall(kRestrictSelf, rules, 0) == 0;
  close(static_cast<int>(rules));
  return done;
}

#endif

}  // namespace

int main(int argc, char** argv) {
  const bool ask = argc == 2 && std::strcmp(argv[1], "--layers") == 0;
  if (ask) {
    std::puts("limits of time, memory and file sizes");
    if (geteuid() == 0) std::puts("another user than root");
#if defined(__linux__)
    if (landlock_version() >= 1)
      std::puts("no writing outside, no reading of the course (Landlock)");
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (fa::classroom::deny_system_calls(true)) {
      std::puts("no network, no signals to others (seccomp)");
    }
#endif
    return 0;
  }
  if (argc < 8) {
    std::fputs(
        "usage: confine SECONDS MEBIBYTES FILE_MEBIBYTES USER DIRECTORY READABLE COMMAND...\n",
        stderr);
    return 2;
  }
  const auto seconds = std::strtoull(argv[1], nullptr, 10);
  [[maybe_unused]] const auto memory = std::strtoull(argv[2], nullptr, 10) << 20;
  const auto file = std::strtoull(argv[3], nullptr, 10) << 20;
  const auto user = static_cast<uid_t>(std::strtoul(argv[4], nullptr, 10));
#if defined(__linux__)
  // Files are opened before the user changes: another user cannot reach them in a course below
  // /root.
  const int program =
      std::strchr(argv[7], '/') != nullptr ? open(argv[7], O_RDONLY | O_CLOEXEC) : -1;
#endif
  if (chdir(argv[5]) != 0) die(argv[5]);
#if defined(__linux__)
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) die("no new privileges");
  restrict_files(argv[5], argv[6]);
#endif
  limit(RLIMIT_CPU, seconds, "limit of time", 2);  // first a signal that says where it was
  limit(RLIMIT_CORE, 0, "limit of core files");
  limit(RLIMIT_FSIZE, file, "limit of file sizes");
  if (geteuid() == 0 && user != 0) {
    if (setgroups(0, nullptr) != 0 || setgid(static_cast<gid_t>(user)) != 0 || setuid(user) != 0) {
      die("another user");
    }
    limit(RLIMIT_NPROC, 512, "limit of processes");
  }
#if defined(__linux__)
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  // A grader starts another process, which may send signals to itself only; see grader.cpp.
  fa::classroom::deny_system_calls(std::strcmp(argv[8 < argc ? 8 : 7], "--stage") != 0);
  limit(RLIMIT_AS, memory, "limit of memory");  // macOS knows no such limit
  if (program >= 0) fexecve(program, argv + 7, environ);
#endif
  execvp(argv[7], argv + 7);
  die(argv[7]);
}
