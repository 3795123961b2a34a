/// @file
/// What the host needs to run kernels: memory of the device, launches, times, properties. The same
/// on a GPU and in the lab. Every error is one message.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/gpu/device.hpp"
#include "common/gpu/launch_sizes.hpp"
#include "common/gpu/parts.hpp"
#include "common/gpu/target.hpp"
#include "common/tensor/tensor.hpp"

#if defined(__CUDACC__)
#include "common/gpu/launch_cuda.cuh"
#else
#include "common/gpu/launch_lab.hpp"
#endif

namespace fa::FA_TARGET {

/// As fa::check_launch(), for this device.
inline void check_launch(const Launch& launch) {
  fa::check_launch(launch, device_properties());
}

/// Launches a kernel and, in the lab, runs it to its end; on a GPU later calls wait for it.
/// @param sizes of grid, block and dynamic shared memory
/// @throws std::invalid_argument as fa::check_launch()
/// @throws std::runtime_error when the device reports an error, or, in the lab, for a deadlock
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), const Launch& sizes, Arguments&&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments),
                "as many arguments as the kernel has parameters");
  check_launch(sizes);
  launch_unchecked(kernel, sizes, nullptr, static_cast<Parameters>(arguments)...);
}

/// The same on a stream, which must outlive the launch.
template <class... Parameters, class... Arguments>
void launch(const Stream& stream, void (*kernel)(Parameters...), const Launch& sizes,
            Arguments&&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments),
                "as many arguments as the kernel has parameters");
  check_launch(sizes);
  launch_unchecked(kernel, sizes, &stream, static_cast<Parameters>(arguments)...);
}

/// Memory of the device for elements of type T. New elements are poisoned: all bytes 0xff, NaN.
template <class T>
class DeviceBuffer {
 public:
  /// @throws std::invalid_argument for fewer than none
  /// @throws std::runtime_error when memory does not suffice
  explicit DeviceBuffer(std::int64_t count) : data_(allocate(count)), count_(count) { poison(); }
  /// A buffer with the elements of a row-major tensor of any shape; H is the host's type of the
  /// same size.
  /// @throws std::runtime_error when memory does not suffice
  template <class H, int Rank>
  explicit DeviceBuffer(const Tensor<H, Rank>& tensor) : DeviceBuffer(tensor.count()) {
    upload(tensor.data());
  }
  /// Takes the memory of another.
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : data_(std::move(other.data_)), count_(std::exchange(other.count_, 0)) {}

  /// Copies count() elements to the device.
  /// @throws std::runtime_error when the device reports an error
  template <class H>
  void upload(const H* from) {
    static_assert(sizeof(H) == sizeof(T), "host and device types must match");
    device_copy(data(), from, bytes(), CopyKind::kToDevice);
  }
  /// Copies count() elements to the host, after all launches so far have ended.
  /// @throws std::runtime_error for an error of one of these launches
  template <class H>
  void download(H* to) const {
    static_assert(sizeof(H) == sizeof(T), "host and device types must match");
    device_copy(to, data(), bytes(), CopyKind::kToHost);
  }
  /// A row-major tensor with the elements, after all launches so far have ended.
  /// @throws std::invalid_argument when the shape has another number of elements
  template <class H, int Rank>
  Tensor<H, Rank> tensor(const Shape<Rank>& shape) const {
    Tensor<H, Rank> result(shape);
    if (result.count() != count_) {
      throw std::invalid_argument(
          fmt::format("a buffer of {} elements does not fill shape {}", count_, to_string(shape)));
    }
    download(result.data());
    return result;
  }
  /// Sets all bytes to 0xff, so that an element that is never written is NaN.
  void poison() { device_poison(data(), bytes()); }
  /// Sets all bytes to 0.
  void zero() { device_zero(data(), bytes()); }

  /// @{ The memory, for kernels, and its number of elements.
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  std::int64_t count() const { return count_; }
  /// @}

 private:
  struct Free {
    void operator()(T* memory) const { device_free(memory); }
  };
  static T* allocate(std::int64_t count) {
    const std::size_t bytes = buffer_bytes(count, sizeof(T));
    void* memory = device_allocate(bytes);
    taken_bytes() += static_cast<std::int64_t>(bytes);
    return static_cast<T*>(memory);
  }
  std::size_t bytes() const { return static_cast<std::size_t>(count_) * sizeof(T); }
  std::unique_ptr<T, Free> data_;
  std::int64_t count_;
};

}  // namespace fa::FA_TARGET
