#include "common/files/write_file.hpp"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <random>
#include <stdexcept>
#include <streambuf>
#include <string>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include <fmt/format.h>

#include "common/files/escape.hpp"

namespace fa {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& path, const std::string& why) {
  throw std::runtime_error(fmt::format("{}: cannot be written: {}", printable(path.string()), why));
}

// The system's message for an error.
[[noreturn]] void refuse(const fs::path& path, int error) {
  refuse(path, std::generic_category().message(error));
}

// An open file.
class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags) { open(path, flags); }
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor() = default;

  // New files get the default mode. Returns false and sets errno on failure.
  bool open(const fs::path& path, int flags) {
    do {
      number_ = ::open(path.c_str(), flags | O_WRONLY | O_CLOEXEC | O_NOCTTY, 0666);
    } while (number_ < 0 && errno == EINTR);
    return is_open();
  }
  bool is_open() const { return number_ >= 0; }
  int number() const { return number_; }
  // 0 or an error, here and below: some file systems report one only at the end.
  int close() {
    if (!is_open()) return 0;
    const int result = ::close(number_);
    number_ = -1;
    return result == 0 || errno == EINTR ? 0 : errno;
  }
  int write(const char* bytes, std::size_t count) {
    while (count > 0) {
      const ssize_t written = ::write(number_, bytes, count);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return errno;
      bytes += written;
      count -= static_cast<std::size_t>(written);
      written_ += written;
    }
    return 0;
  }
  std::int64_t written() const { return written_; }

 private:
  int number_ = -1;
  std::int64_t written_ = 0;
};

// The buffer of a stream: writes its bytes into a file and keeps the first error.
class FileBuffer : public std::streambuf {
 public:
  explicit FileBuffer(Descriptor& file) : file_(file) {
    setp(bytes_.data(), bytes_.data() + bytes_.size());
  }
  int error() const { return error_; }

 protected:
  int sync() override {
    put(pbase(), static_cast<std::size_t>(pptr() - pbase()));
    setp(bytes_.data(), bytes_.data() + bytes_.size());
    return error_ == 0 ? 0 : -1;
  }
  int_type overflow(int_type c) override {
    if (sync() != 0) return traits_type::eof();
    if (c != traits_type::eof()) sputc(static_cast<char>(c));
    return traits_type::not_eof(c);
  }
  std::streamsize xsputn(const char* bytes, std::streamsize count) override {
    if (count == 0) return 0;  // `bytes` may be null
    if (count < epptr() - pptr()) {
      std::memcpy(pptr(), bytes, static_cast<std::size_t>(count));
      pbump(static_cast<int>(count));
      return count;
    }
    if (sync() == 0) put(bytes, static_cast<std::size_t>(count));
    return error_ == 0 ? count : 0;
  }

 private:
  void put(const char* bytes, std::size_t count) {
    if (error_ == 0) error_ = file_.write(bytes, count);
  }
  Descriptor& file_;
  std::array<char, 1 << 16> bytes_;
  int error_ = 0;
};

// The target of a path.
struct Target {
  fs::path file;          // after all symbolic links
  bool exists = false;    // and then:
  bool in_place = false;  // not a regular file, so it cannot be replaced
  struct stat status {};
};

// Throws for a folder, a file without permission, and a cycle of links.
Target target_of(const fs::path& path) {
  Target target{path};
  target.exists = stat(path.c_str(), &target.status) == 0;
  if (!target.exists && errno != ENOENT) refuse(path, errno);
  std::error_code error;
  for (;;) {
    // Links there stand for open files: /dev/stdout leads to one.
    target.in_place = target.file.string().compare(0, 6, "/proc/") == 0;
    if (target.in_place || !fs::is_symlink(fs::symlink_status(target.file, error))) {
      break;
    }
    target.file = target.file.parent_path() / fs::read_symlink(target.file);
  }
  if (!target.exists) return target;
  if (S_ISDIR(target.status.st_mode)) refuse(path, "it is a folder");
  if (access(path.c_str(), W_OK) != 0) refuse(path, errno);
  if (!S_ISREG(target.status.st_mode)) target.in_place = true;
  if (target.in_place) target.file = path;
  return target;
}

// A new file in a folder, removed again unless it is renamed.
class Partial {
 public:
  // Errors name `asked`.
  Partial(const fs::path& asked, const fs::path& folder) : asked_(asked) {
    std::random_device random;
    do {
      path_ = folder / fmt::format(".{:08x}{:08x}.partial", random(), random());
    } while (!file.open(path_, O_CREAT | O_EXCL) && errno == EEXIST);
    if (file.is_open()) return;
    const int error = errno;
    const fs::path shown = folder.empty() ? fs::path(".") : folder;
    std::error_code ignored;
    if (!fs::is_directory(shown, ignored)) {
      refuse(asked, fmt::format("there is no folder {}", printable(shown.string())));
    }
    refuse(asked, fmt::format("no file can be made in {}: {}", printable(shown.string()),
                              std::generic_category().message(error)));
  }
  ~Partial() {
    if (!path_.empty()) unlink(path_.c_str());
  }
  Partial(const Partial&) = delete;
  Partial& operator=(const Partial&) = delete;

  void become(const Target& target) {
    if (target.exists) {
      // The owner is kept too where that is allowed.
      static_cast<void>(!fchown(file.number(), target.status.st_uid, target.status.st_gid));
      if (fchmod(file.number(), target.status.st_mode & 07777) != 0) {
        refuse(asked_, errno);
      }
    }
    if (const int error = file.close()) refuse(asked_, error);
    if (rename(path_.c_str(), target.file.c_str()) != 0) {
      refuse(asked_, errno);
    }
    path_.clear();
  }
  Descriptor file;

 private:
  fs::path asked_, path_;
};

// Writes the output of `write` into an open file.
void fill(const fs::path& path, Descriptor& file, const std::function<void(std::ostream&)>& write) {
  FileBuffer buffer(file);
  std::ostream stream(&buffer);
  write(stream);
  stream.flush();
  if (buffer.error() != 0) refuse(path, buffer.error());
  if (!stream) refuse(path, "the stream failed");
}

}  // namespace

void write_file(const std::filesystem::path& path,
                const std::function<void(std::ostream&)>& write) {
  const Target target = target_of(path);
  if (target.in_place) {
    Descriptor file(target.file, O_APPEND);
    if (!file.is_open()) refuse(path, errno);
    fill(path, file, write);
    if (const int error = file.close()) refuse(path, error);
    return;
  }
  Partial partial(path, target.file.parent_path());
  fill(path, partial.file, write);
  partial.become(target);
}

void write_file(const std::filesystem::path& path, std::string_view text) {
  write_file(path, [&](std::ostream& file) { file << text; });
}

void append_to_file(const std::filesystem::path& path, std::string_view text) {
  const Target target = target_of(path);
  Descriptor file;
  bool made = false;
  // Another program may create the file in between.
  while (!file.open(target.file, O_APPEND) && errno == ENOENT &&
         !(made = file.open(target.file, O_APPEND | O_CREAT | O_EXCL)) && errno == EEXIST) {
  }
  if (!file.is_open()) refuse(path, errno);
  struct stat before {};
  if (fstat(file.number(), &before) != 0) refuse(path, errno);
  int error = file.write(text.data(), text.size());
  struct stat after {};
  // Removes the part that was written, unless another program has appended since.
  if (error != 0 && S_ISREG(before.st_mode) && fstat(file.number(), &after) == 0 &&
      after.st_size == before.st_size + file.written()) {
    if (made) {
      unlink(target.file.c_str());
    } else if (ftruncate(file.number(), before.st_size) != 0) {
      error = errno;
    }
  }
  const int at_end = file.close();
  if (error == 0) error = at_end;
  if (error != 0) refuse(path, error);
}

void check_writable(const std::filesystem::path& path) {
  const Target target = target_of(path);
  if (!target.in_place) {
    Partial probe(path, target.file.parent_path());
    if (const int error = probe.file.write("\n", 1)) refuse(path, error);
    return;
  }
  if (!S_ISCHR(target.status.st_mode)) return;
  // An empty write suffices: /dev/full refuses it too.
  const Descriptor file(target.file, O_NONBLOCK);
  if (!file.is_open() || ::write(file.number(), "", 0) < 0) {
    refuse(path, errno);
  }
}

void check_folder_writable(const std::filesystem::path& folder) {
  Partial probe(folder, folder);
  if (const int error = probe.file.write("\n", 1)) refuse(folder, error);
}

}  // namespace fa
