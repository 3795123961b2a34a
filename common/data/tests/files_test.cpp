// Files that appear whole or not at all, and text inside of JSON and on a terminal.
#include "common/data/files.hpp"

#include <csignal>
#include <cstdint>
#include <fcntl.h>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "common/testing/process.hpp"

using namespace fa;
using namespace fa::testing;
namespace fs = std::filesystem;

namespace {

std::ptrdiff_t entries_in(const fs::path& folder) {
  return std::distance(fs::directory_iterator(folder), {});
}

// A character in UTF-8, also where UTF-8 does not allow it.
std::string utf8(std::uint32_t code) {
  const int bytes = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  if (bytes == 1) return {static_cast<char>(code)};
  std::string result(1, static_cast<char>((0xf00 >> bytes & 0xff) | code >> 6 * (bytes - 1)));
  for (int i = bytes - 2; i >= 0; --i) result += static_cast<char>(0x80 | (code >> 6 * i & 0x3f));
  return result;
}

}  // namespace

TEST_CASE("the file that links lead to is written with its mode, and the links stay") {
  const TemporaryDirectory directory;
  const fs::path& top = directory.path();
  fs::create_directory(top / "deep");
  write_file(top / "deep" / "there", "old");
  fs::permissions(top / "deep" / "there", fs::perms(0604));
  fs::create_symlink("deep/there", top / "to_there");
  fs::create_symlink("deep/missing", top / "to_missing");
  fs::create_symlink("../to_there", top / "deep" / "to_link");
  for (const auto& [name, target] : {std::pair{"to_there", "deep/there"},
                                     {"to_missing", "deep/missing"},
                                     {"deep/to_link", "deep/there"}}) {
    const std::string link = name;
    CAPTURE(link);
    check_writable(top / link);
    write_file(top / link, link);
    CHECK(fs::is_symlink(top / link));
    CHECK(!fs::is_symlink(top / target));
    CHECK(file_bytes(top / target) == link);
  }
  CHECK(fs::status(top / "deep" / "there").permissions() == fs::perms(0604));
  CHECK(entries_in(top) + entries_in(top / "deep") == 6);
}

TEST_CASE("a FIFO, a device and the open standard output are written in place") {
  const TemporaryDirectory directory;
  const fs::path fifo = directory.path() / "fifo", null = directory.path() / "null";
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  check_writable(fifo);  // without a reader: it must not wait
  const int reader = open(fifo.c_str(), O_RDONLY | O_NONBLOCK);  // so that no opening waits
  REQUIRE(reader >= 0);
  write_file(fifo, "through it");
  char got[64] = {};
  CHECK(read(reader, got, sizeof got) > 0);
  CHECK(std::string(got) == "through it");
  close(reader);
  CHECK(fs::is_fifo(fifo));
  fs::create_symlink("/dev/null", null);
  check_writable(null);
  write_file(null, "nothing");
  CHECK(fs::is_symlink(null));
  const auto child = run_in_child([] {
    fmt::print("before, ");
    std::fflush(stdout);
    write_file("/dev/stdout", "text");
    return 0;
  });
  CHECK(child.output == "before, text");
}

TEST_CASE("a message names the file and the reason, before the work and after it") {
  const TemporaryDirectory directory;
  const fs::path& top = directory.path();
  write_file(top / "file", "old");
  const auto refused = [](const fs::path& path) {
    const std::string why = message_of<std::runtime_error>([&] { check_writable(path); });
    CHECK(contains(why, printable(path.string())));
    CHECK(message_of<std::runtime_error>([&] { write_file(path, "new"); }) == why);
  };
  refused(top);
  refused(top / "no" / "file");
  refused(top / "file" / "below");
  refused(top / std::string(300, 'x'));
  const auto child = run_in_child([&] {
    fs::permissions(top / "file", fs::perms(0444));
    fs::permissions(top, fs::perms(0555));
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) return 77;
    if (access(top.c_str(), X_OK) != 0) return 77;  // the build is in a folder of the superuser
    refused(top / "file");
    refused(top / "new");
    return 0;
  });
  fs::permissions(top, fs::perms(0755));
  CHECK((child.status == 0 || child.status == 77));
  CHECK(child.error == "");
  CHECK(file_bytes(top / "file") == "old");
  CHECK(entries_in(top) == 1);
}

TEST_CASE("a file that cannot be finished leaves the old one and no trace") {
  const TemporaryDirectory directory;
  const fs::path file = directory.path() / "file";
  const auto child = run_in_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    for (const bool there : {false, true}) {
      if (there) write_file(file, "old");
      rlimit limit{4096, RLIM_INFINITY};  // as on a disk that is nearly full
      setrlimit(RLIMIT_FSIZE, &limit);
      fmt::print("{}\n", message_of<std::runtime_error>(
                             [&] { write_file(file, std::string(200000, 'x')); }));
      limit.rlim_cur = 0;
      setrlimit(RLIMIT_FSIZE, &limit);
      fmt::print("{}\n", message_of<std::runtime_error>([&] { check_writable(file); }));
      limit.rlim_cur = RLIM_INFINITY;
      setrlimit(RLIMIT_FSIZE, &limit);
      fmt::print("{}\n", entries_in(directory.path()));
    }
    return 0;
  });
  const std::string why = file.string() + ": cannot be written: File too large\n";
  CHECK(child.output == why + why + "0\n" + why + why + "1\n");
  CHECK(file_bytes(file) == "old");
}

TEST_CASE("JSON gets no character that it would take for its own") {
  CHECK(json_text("") == "\"\"");
  CHECK(json_text("a \"b\" \\c\n\t QKᵀ") == R"("a \"b\" \\c\u000a\u0009 QKᵀ")");
}

TEST_CASE("a terminal gets no character that it would obey, and no invalid UTF-8") {
  for (std::uint32_t code = 0; code < 0x200000; ++code) {
    const bool is_character = code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
    const bool is_obeyed = code < 32 || (code > 126 && code < 160) ||
                           (code > 0x2027 && code < 0x202f) || (code > 0x2065 && code < 0x206a);
    const std::string bytes = utf8(code), shown = printable(bytes);
    if ((shown == bytes) != (is_character && !is_obeyed)) {
      CAPTURE(code);
      CHECK(shown == bytes);
    }
  }
  CHECK(printable("red \x1b[31m QKᵀ 🙂") == "red \\x1b[31m QKᵀ 🙂");
  CHECK(printable("cut off: \xe1\xb5") == "cut off: \\xe1\\xb5");
  // Longer than need be: the same character in one byte more.
  CHECK(printable("\xc0\x9b") == "\\xc0\\x9b");
}
