// Files that appear whole or not at all: links, devices, modes, full disks, several programs at
// once.
#include "common/files/write_file.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#include <sys/mount.h>
#endif

#include <doctest/doctest.h>

#include "common/testing/process.hpp"

using namespace fa;
using fa::testing::contains;
using fa::testing::file_bytes;
using fa::testing::message_of;
using fa::testing::Outcome;
using fa::testing::run_in_child;
using fa::testing::TemporaryDirectory;
namespace fs = std::filesystem;

namespace {

// A child's exit status that says that this machine does not allow the test.
constexpr int kSkipped = 77;

std::string refusal(const fs::path& path) {
  return message_of<std::runtime_error>([&] { write_file(path, "new"); });
}

// What check_writable() says, which must be what write_file() says.
std::string refusal_of_both(const fs::path& path) {
  std::string said = message_of<std::runtime_error>([&] { check_writable(path); });
  CHECK(said == refusal(path));
  return said;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

using Names = std::vector<std::string>;

unsigned mode_of(const fs::path& path) {
  struct stat status {};
  REQUIRE(stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

bool is_kind(const fs::path& path, mode_t kind) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0 && (status.st_mode & S_IFMT) == kind;
}

// Runs a body in a child that may not do all, also when the superuser runs this test. Folders that
// it looks at need mode 0755.
Outcome run_unprivileged(const std::function<int()>& body) {
  return run_in_child([&] {
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) {
      return kSkipped;
    }
    return body();
  });
}

// From here on a file of this process can have so many bytes only, as on a disk that is nearly
// full.
void limit_files(rlim_t bytes) {
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{bytes, bytes};
  setrlimit(RLIMIT_FSIZE, &limit);
}

// Runs as many children at once; whether all of them ended well.
bool all_end_well(int children, const std::function<void(int)>& body) {
  std::vector<pid_t> started;
  for (int i = 0; i < children; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      int status = 0;
      try {
        body(i);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        status = 1;
      }
      _exit(status);
    }
    started.push_back(child);
  }
  bool well = true;
  for (const pid_t child : started) {
    int status = 1;
    well = child > 0 && waitpid(child, &status, 0) == child && status == 0 && well;
  }
  return well;
}

}  // namespace

TEST_CASE("the file that links lead to is written, and the links stay") {
  const TemporaryDirectory directory;
  const fs::path& top = directory.path();
  fs::create_directory(top / "deep");
  // There or not, directly or by another link.
  write_file(top / "deep" / "there", "old");
  fs::create_symlink("deep/there", top / "to_there");
  fs::create_symlink("deep/missing", top / "to_missing");
  fs::create_symlink("../to_there", top / "deep" / "to_link");
  fs::create_symlink(top / "deep", top / "folder");
  const std::pair<std::string, std::string> links[] = {{"to_there", "deep/there"},
                                                       {"to_missing", "deep/missing"},
                                                       {"deep/to_link", "deep/there"},
                                                       {"folder/to_link", "deep/there"}};
  for (const auto& pair : links) {
    const fs::path link = top / pair.first, target = top / pair.second;
    CAPTURE(pair.first);
    check_writable(link);
    write_file(link, "by " + pair.first);
    CHECK(fs::is_symlink(link));
    CHECK(!fs::is_symlink(target));
    CHECK(file_bytes(target) == "by " + pair.first);
  }
  CHECK(names_in(top).size() == 4);
  CHECK(names_in(top / "deep").size() == 3);
  fs::create_symlink("circle", top / "circle");
  CHECK(contains(refusal_of_both(top / "circle"), "/circle: cannot be written"));
}

TEST_CASE("a FIFO is written as it is, and stays") {
  const TemporaryDirectory directory;
  const fs::path fifo = directory.path() / "fifo";
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  check_writable(fifo);  // without a reader: it must not wait
  // Open for reading all the time, so that no opening waits.
  const int reader = open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
  REQUIRE(reader >= 0);
  write_file(fifo, "through it");
  append_to_file(fifo, ", again");
  char got[64] = {};
  CHECK(read(reader, got, sizeof got) > 0);
  CHECK(std::string(got) == "through it, again");
  close(reader);
  CHECK(is_kind(fifo, S_IFIFO));
  CHECK(names_in(directory.path()) == Names{"fifo"});
}

TEST_CASE("devices are written as they are, also through links") {
  const TemporaryDirectory directory;
  const auto null = testing::device("null", directory.path());
  if (!null) return;
  const fs::path link = directory.path() / "link";
  fs::create_symlink(*null, link);
  for (const fs::path& path : {*null, link}) {
    check_writable(path);
    write_file(path, "nothing");
    append_to_file(path, "nothing");
    CHECK(is_kind(*null, S_IFCHR));
    CHECK(is_kind(link, S_IFLNK));
  }
}

#if defined(__linux__)
TEST_CASE("a file that is open already gets the text at its end") {
  const auto child = run_in_child([] {
    std::printf("before, ");
    std::fflush(stdout);
    check_writable("/proc/self/fd/1");  // where /dev/stdout leads to
    write_file("/proc/self/fd/1", "text");
    return 0;
  });
  CHECK(child.status == 0);
  CHECK(child.output == "before, text");
}
#endif

TEST_CASE("a full device is noticed, before work as well") {
  const TemporaryDirectory directory;
  const auto full = testing::device("full", directory.path());
  if (!full) return;
  const std::string why = full->string() + ": cannot be written: No space left on device";
  CHECK(refusal_of_both(*full) == why);
  CHECK(message_of<std::runtime_error>([&] { append_to_file(*full, "line\n"); }) == why);
  CHECK(is_kind(*full, S_IFCHR));
}

TEST_CASE("a new file has the usual mode, an old one keeps its own") {
  const TemporaryDirectory directory;
  const fs::path file = directory.path() / "file";
  const auto child = run_in_child([&] {
    umask(027);
    write_file(file, "new");
    append_to_file(directory.path() / "added", "new");
    return 0;
  });
  CHECK(child.status == 0);
  CHECK(mode_of(file) == 0640);
  CHECK(mode_of(directory.path() / "added") == 0640);
  for (const unsigned mode : {0600u, 0755u, 0604u}) {
    REQUIRE(chmod(file.c_str(), mode) == 0);
    write_file(file, "newer");
    CHECK(mode_of(file) == mode);
  }
  if (geteuid() != 0) return;
  // An owner keeps what the superuser writes.
  REQUIRE(chown(file.c_str(), 65534, 65534) == 0);
  write_file(file, "newest");
  struct stat status {};
  REQUIRE(stat(file.c_str(), &status) == 0);
  CHECK(status.st_uid == 65534);
}

TEST_CASE("programs that write one file at once do not disturb each other") {
  const TemporaryDirectory directory;
  const fs::path file = directory.path() / "file";
  const auto text = [](int i) {
    return std::string(50000 + static_cast<std::size_t>(i), static_cast<char>('a' + i));
  };
  CHECK(all_end_well(4, [&](int i) {
    for (int k = 0; k < 50; ++k) write_file(file, text(i));
  }));
  const std::string last = file_bytes(file);
  REQUIRE(!last.empty());
  CHECK(last == text(last[0] - 'a'));
  CHECK(names_in(directory.path()) == Names{"file"});
}

TEST_CASE("lines that programs add at once do not mix") {
  const TemporaryDirectory directory;
  const fs::path file = directory.path() / "file";
  CHECK(all_end_well(4, [&](int i) {
    for (int k = 0; k < 200; ++k) {
      append_to_file(file, std::string(60, static_cast<char>('a' + i)) + '\n');
    }
  }));
  const std::string all = file_bytes(file);
  REQUIRE(all.size() == std::size_t{4} * 200 * 61);
  for (std::size_t at = 0; at < all.size(); at += 61) {
    REQUIRE(all.substr(at, 61) == std::string(60, all[at]) + '\n');
  }
}

TEST_CASE("what is in the way is said, and nothing is left") {
  const TemporaryDirectory directory;
  const fs::path& top = directory.path();
  const std::string name = top.string();
  CHECK(refusal_of_both(top / "no" / "file") ==
        name + "/no/file: cannot be written: there is no folder " + name + "/no");
  CHECK(refusal_of_both(top) == name + ": cannot be written: it is a folder");
  write_file(top / "file", "old");
  CHECK(refusal_of_both(top / "file" / "below") ==
        name + "/file/below: cannot be written: Not a directory");
  CHECK(contains(refusal_of_both(top / std::string(300, 'x')), "File name too long"));
  CHECK(contains(refusal_of_both(top / "no\x1b[2J" / "file"),
                 "there is no folder " + name + "/no\\x1b[2J"));
  CHECK(message_of<std::runtime_error>([&] { check_folder_writable(top / "no"); }) ==
        name + "/no: cannot be written: there is no folder " + name + "/no");
  CHECK(names_in(top) == Names{"file"});
  CHECK(file_bytes(top / "file") == "old");
  // As long as a name can be.
  write_file(top / std::string(255, 'x'), "new");
  CHECK(file_bytes(top / std::string(255, 'x')) == "new");
}

TEST_CASE("a check leaves everything as it is") {
  const TemporaryDirectory directory;
  const fs::path file = directory.path() / "file";
  check_writable(file);
  check_folder_writable(directory.path());
  CHECK(fs::is_empty(directory.path()));
  write_file(file, "old");
  const auto time = fs::last_write_time(file);
  check_writable(file);
  CHECK(file_bytes(file) == "old");
  CHECK(fs::last_write_time(file) == time);
  CHECK(names_in(directory.path()) == Names{"file"});
}

TEST_CASE("a file or a folder that must not be written is left alone") {
  const TemporaryDirectory directory;
  const fs::path& top = directory.path();
  fs::create_directory(top / "closed");
  write_file(top / "closed" / "open_file", "old");
  write_file(top / "file", "old");
  chmod((top / "closed" / "open_file").c_str(), 0666);
  chmod((top / "file").c_str(), 0444);
  chmod((top / "closed").c_str(), 0555);
  chmod(top.c_str(), 0755);
  const auto child = run_unprivileged([&] {
    // The build may lie in a folder that others must not enter.
    if (access(top.c_str(), X_OK) != 0) return kSkipped;
    for (const fs::path& path :
         {top / "file", top / "closed" / "new", top / "closed" / "open_file"}) {
      std::puts(refusal_of_both(path).c_str());
    }
    std::puts(
        message_of<std::runtime_error>([&] { check_folder_writable(top / "closed"); }).c_str());
    std::puts(message_of<std::runtime_error>([&] { append_to_file(top / "file", "new"); }).c_str());
    return 0;
  });
  chmod((top / "closed").c_str(), 0755);
  if (child.status == kSkipped) return;
  const std::string name = top.string(), why = ": cannot be written: ",
                    made = "no file can be made in " + name + "/closed: Permission denied\n";
  CHECK(child.output == name + "/file" + why + "Permission denied\n" + name + "/closed/new" + why +
                            made + name + "/closed/open_file" + why + made + name + "/closed" +
                            why + made + name + "/file" + why + "Permission denied\n");
  CHECK(file_bytes(top / "file") == "old");
  CHECK(names_in(top / "closed") == Names{"open_file"});
}

TEST_CASE("a file that cannot be finished leaves no trace") {
  const TemporaryDirectory directory;
  const fs::path old_file = directory.path() / "old", new_file = directory.path() / "new";
  write_file(old_file, "old");
  const auto child = run_in_child([&] {
    limit_files(4096);
    for (const fs::path& file : {old_file, new_file}) {
      for (const std::size_t size : {5000u, 200000u}) {
        const std::string text(size, 'x');
        std::puts(message_of<std::runtime_error>([&] { write_file(file, text); }).c_str());
        std::puts(message_of<std::runtime_error>([&] { append_to_file(file, text); }).c_str());
        // In small pieces, as tables are written.
        std::puts(message_of<std::runtime_error>([&] {
                    write_file(file, [&](std::ostream& stream) {
                      for (const char c : text) stream << c;
                    });
                  }).c_str());
      }
    }
    std::fflush(stdout);
    limit_files(0);
    const std::string said = message_of<std::runtime_error>([&] { check_writable(old_file); });
    return contains(said, "File too large") ? 0 : 1;
  });
  CHECK(child.status == 0);
  const auto said = [](const fs::path& file) {
    return file.string() + ": cannot be written: File too large\n";
  };
  std::string all;
  for (int i = 0; i < 6; ++i) all += said(old_file);
  for (int i = 0; i < 6; ++i) all += said(new_file);
  CHECK(child.output == all);
  CHECK(file_bytes(old_file) == "old");
  CHECK(names_in(directory.path()) == Names{"old"});
}

TEST_CASE("an exception while a file is written leaves no trace") {
  const TemporaryDirectory directory;
  const fs::path file = directory.path() / "file";
  for (const bool there : {false, true}) {
    if (there) write_file(file, "old");
    CHECK(message_of<std::logic_error>([&] {
            write_file(file, [](std::ostream& stream) {
              stream << std::string(100000, 'x');
              throw std::logic_error("stop");
            });
          }) == "stop");
    CHECK(names_in(directory.path()) == (there ? Names{"file"} : Names{}));
  }
  CHECK(file_bytes(file) == "old");
}

#if defined(__linux__)
TEST_CASE("a full disk is noticed before work, and leaves no trace") {
  const TemporaryDirectory directory;
  const fs::path& disk = directory.path();
  const auto child = run_in_child([&] {
    if (unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=64k") != 0) {
      return kSkipped;
    }
    write_file(disk / "old", "old");
    const auto show = [](const std::function<void()>& work) {
      std::puts(message_of<std::runtime_error>(work).c_str());
    };
    const std::string large(100000, 'x');
    show([&] { write_file(disk / "new", large); });
    show([&] { append_to_file(disk / "new", large); });
    show([&] { append_to_file(disk / "old", large); });
    check_writable(disk / "new");
    for (int i = 0;; ++i) {  // until it is full
      try {
        write_file(disk / std::to_string(i), std::string(4096, 'x'));
      } catch (const std::runtime_error&) {
        break;
      }
    }
    show([&] { check_writable(disk / "new"); });
    show([&] { check_writable(disk / "old"); });
    show([&] { append_to_file(disk / "new", "line\n"); });
    std::puts(file_bytes(disk / "old").c_str());
    for (const std::string& name : names_in(disk)) {
      if (name[0] == '.' || name == "new") std::puts(name.c_str());
    }
    return 0;
  });
  if (child.status == kSkipped) {
    MESSAGE("no small disk can be made here: skipped");
    return;
  }
  CHECK(child.status == 0);
  const std::string full = ": cannot be written: No space left on device\n",
                    new_file = disk.string() + "/new" + full,
                    old_file = disk.string() + "/old" + full;
  CHECK(child.output == new_file + new_file + old_file + new_file + old_file + new_file + "old\n");
}
#endif
