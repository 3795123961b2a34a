/// @file
/// The host's functions in the lab. Include launch.cuh, not this file.
#pragma once

#include <cstring>

#include "common/lab/record.hpp"
#include "common/parallel/parallel_for.hpp"

namespace fa::FA_TARGET {

/// The lab, with as much shared memory as the largest GPU of the course.
inline DeviceProperties device_properties() {
  return lab::properties();
}

/// Where kernels run.
constexpr const char* kRunsOn = "cpu";

/// The lab is one device, with all memory.
inline std::optional<int> gpu_of_memory(const void*) {
  return 0;
}
/// It is the current one.
struct CurrentGpu {
  explicit CurrentGpu(int) {}
};

/// Always: the lab is everywhere.
inline bool device_available() {
  return true;
}

/// Direction of a copy.
enum class CopyKind { kToDevice, kToHost };

inline void* device_allocate(std::size_t bytes) {
  return lab::allocate(bytes);
}
inline void device_free(void* memory) {
  lab::release(memory);
}
inline void device_copy(void* to, const void* from, std::size_t bytes, CopyKind kind) {
  if (kind == CopyKind::kToDevice) {
    lab::upload(to, from, bytes);
  } else {
    lab::download(to, from, bytes);
  }
}
inline void device_zero(void* memory, std::size_t bytes) {
  lab::fill(memory, 0, bytes, false);
}
inline void device_poison(void* memory, std::size_t bytes) {
  lab::fill(memory, 0xff, bytes, true);
}
/// Waits for all launches; here they have ended.
inline void device_synchronize() {
  lab::synchronize();
}

/// A stream, as on a GPU. A launch in the lab has run to its end when it returns, so there is
/// nothing to wait for.
class Stream {
 public:
  Stream() : number_(lab::new_stream()) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  /// A stream of another owner; null is the default stream.
  static Stream of(void* native) { return Stream(reinterpret_cast<std::uintptr_t>(native)); }
  /// Waits for all launches on this stream; here they have ended.
  void synchronize() const { lab::synchronize(number_); }
  /// For CUDA's own functions; here there are none.
  void* native() const { return nullptr; }
  /// See lab::new_stream().
  std::uint64_t number() const { return number_; }

 private:
  explicit Stream(std::uint64_t number) : number_(number) {}
  std::uint64_t number_;
};

template <class... Parameters>
void launch_unchecked(void (*kernel)(Parameters...), const Launch& sizes, const Stream* stream,
                      Parameters... arguments) {
  lab::run_noted(
      sizes, reinterpret_cast<const void*>(kernel), [&] { kernel(arguments...); },
      stream != nullptr ? stream->number() : 0);
}

/// Times are taken on GPUs only: those of the lab would say nothing about a kernel.
inline std::optional<double> median_milliseconds(const std::function<void()>&, int = 0) {
  return std::nullopt;
}

}  // namespace fa::FA_TARGET
