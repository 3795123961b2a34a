#include "common/classroom/wire.hpp"

#include <cerrno>
#include <unistd.h>

namespace fa::lab {

/// What is sent of a finding.
auto parts(Finding& x) {
  return std::tie(x.kind, x.where, x.caller, x.other, x.message, x.count, x.seen);
}
/// What is sent of a line's traffic.
auto parts(LineTraffic& x) {
  return std::tie(x.where, x.shared, x.write, x.requests, x.diverged, x.atomics, x.bytes, x.sectors,
                  x.wavefronts, x.ideal, x.worst);
}

}  // namespace fa::lab

namespace fa::classroom {
namespace {

constexpr std::uint64_t kLargest = std::uint64_t{1} << 28;

// Calls write() or read() until all bytes have passed; false when the other process has ended.
template <class Call, class Byte>
bool transfer(Call call, int fd, Byte* data, std::size_t count) {
  while (count > 0) {
    const ssize_t done = call(fd, data, count);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    data += done;
    count -= static_cast<std::size_t>(done);
  }
  return true;
}

}  // namespace

void Wire::check(bool holds) {
  if (!holds) throw std::runtime_error("a value of another type or size was expected");
}

std::size_t Wire::size(std::size_t own, std::size_t each) {
  std::uint64_t count = own;
  raw(&count, sizeof count);
  if (reads_) check(count * each <= left());
  return static_cast<std::size_t>(count);
}

void Wire::raw(void* data, std::size_t count) {
  if (count == 0) return;
  if (reads_) {
    check(count <= left());
    std::memcpy(data, bytes_.data() + place_, count);
    place_ += count;
  } else {
    bytes_.append(static_cast<const char*>(data), count);
  }
}

void Wire::pass(std::string& text) {
  text.resize(size(text.size(), 1));
  raw(text.data(), text.size());
}

void Wire::end() const {
  check(left() == 0);
}

void Wire::pass(Seen& seen) {
  lab::Report& report = seen.report;
  auto members = std::tie(seen.watched, report.findings, report.traffic, seen.bytes, seen.sectors,
                          seen.wavefronts, seen.ideal, seen.atomics, seen.of_warp, seen.of_thread);
  pass(members);
}

bool send(int fd, const Message& message) {
  const std::uint64_t size = message.bytes.size();
  std::string all(1, message.kind);
  all.append(reinterpret_cast<const char*>(&size), sizeof size);
  all += message.bytes;
  return transfer(write, fd, all.data(), all.size());
}

Message receive(int fd) {
  Message message;
  std::uint64_t size = 0;
  char kind = 0;
  if (!transfer(read, fd, &kind, 1)) return {};
  if (!transfer(read, fd, reinterpret_cast<char*>(&size), sizeof size)) return {};
  if (size > kLargest) return {};
  message.bytes.resize(static_cast<std::size_t>(size));
  if (!transfer(read, fd, message.bytes.data(), message.bytes.size())) return {};
  message.kind = kind;
  return message;
}

}  // namespace fa::classroom
