/// @file
/// What the C interfaces of lessons 05 and 06 share: they check what they are given, and turn
/// exceptions into a status and a message. Compiled once for each backend: see
/// common/gpu/target.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/attention/attention.cuh"
#include "common/attention/host/aliasing.hpp"
#include "common/gpu/launch.cuh"
#include "common/tensor/tensor.hpp"

namespace fa::FA_TARGET {
namespace {  // one source file for each library includes this

// The numbers of fa_status.
constexpr int kStatusOk = 0, kStatusRefused = 1, kStatusFailed = 2;

// Of this thread's latest call: an error does not disturb the calls of others.
inline std::string& last_error() {
  thread_local std::string text;
  return text;
}

inline std::string& last_name() {
  thread_local std::string text;
  return text;
}

template <class... Values>
[[noreturn]] void refuse(fmt::format_string<Values...> text, Values&&... values) {
  throw std::invalid_argument(fmt::format(text, std::forward<Values>(values)...));
}

inline void check_size(const char* name, std::int64_t value, std::int64_t most) {
  if (value < 1 || value > most) refuse("{} is {}; allowed are 1 to {}", name, value, most);
}

inline void check_pointer(const char* name, const void* pointer, std::uintptr_t alignment) {
  if (pointer == nullptr) refuse("{} is a null pointer", name);
  if (reinterpret_cast<std::uintptr_t>(pointer) % alignment != 0) {
    refuse("{} is at address {}; allowed are multiples of {} bytes", name, pointer, alignment);
  }
}

// Only strides that are used matter: that of the only row may be anything.
struct UsedStride {
  const char* name;
  std::int64_t elements;
  std::int64_t count;
};

// How many bytes from a pointer on have an address, and an offset of 64 bits.
inline std::int64_t bytes_behind(const void* pointer) {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(std::min<std::uintptr_t>(
      most,
      std::numeric_limits<std::uintptr_t>::max() - reinterpret_cast<std::uintptr_t>(pointer)));
}

inline void check_bytes(const char* name, const void* pointer, std::uint64_t bytes) {
  if (bytes > static_cast<std::uint64_t>(bytes_behind(pointer))) {
    refuse("{} is at address {}, and its {} bytes end beyond the last address", name, pointer,
           bytes);
  }
}

// Checks memory without gaps. Returns what it occupies.
inline attention::MemoryRegion checked_bytes(const char* name, const void* pointer,
                                             std::uintptr_t alignment, std::uint64_t bytes) {
  check_pointer(name, pointer, alignment);
  check_bytes(name, pointer, bytes);
  return {name, reinterpret_cast<std::uintptr_t>(pointer), bytes};
}

// Checks a tensor [batch, heads, length, columns]: every element must have an address, and rows of
// one that is written must not overlap. Columns are called head_dim or head_dim_v. Returns what the
// tensor occupies.
inline attention::MemoryRegion checked_tensor(const char* name, const void* pointer,
                                              const RowStrides& strides, const Shape<4>& shape,
                                              std::int64_t element_bytes, bool written,
                                              const char* columns_name) {
  const std::int64_t columns = shape[3];
  attention::MemoryRegion region =
      checked_bytes(name, pointer, 16, static_cast<std::uint64_t>(columns * element_bytes));
  const std::int64_t multiple = 16 / element_bytes;
  std::vector<UsedStride> used;
  for (const UsedStride& stride :
       {UsedStride{"row", strides.row, shape[2]}, UsedStride{"head", strides.head, shape[1]},
        UsedStride{"batch", strides.batch, shape[0]}}) {
    if (stride.count > 1) used.push_back(stride);
  }
  // Divisions instead of products: no stride can make this overflow.
  std::int64_t left = bytes_behind(pointer) / element_bytes - columns;
  for (const auto& [stride, elements, count] : used) {
    if (elements < 0 || elements % multiple != 0) {
      refuse(
          "the {} stride of {} is {} elements; allowed are multiples of {}, "
          "which are 16 bytes, from 0",
          stride, name, elements, multiple);
    }
    const std::int64_t most = left / (count - 1);
    if (elements > most) {
      refuse(
          "the {} stride of {} is {} elements, so that {} ends beyond the "
          "last address; allowed are 0 to {}",
          stride, name, elements, name, most / multiple * multiple);
    }
    left -= elements * (count - 1);
  }
  const auto dimension = [&](std::int64_t elements, std::int64_t count) {
    return attention::MemoryRegion::Dimension{
        static_cast<std::uint64_t>(elements) * static_cast<std::uint64_t>(element_bytes),
        static_cast<std::uint64_t>(count)};
  };
  region.dimensions = {dimension(strides.batch, shape[0]), dimension(strides.head, shape[1]),
                       dimension(strides.row, shape[2])};
  if (!written) return region;
  // If each stride is at least as large as what the smaller ones span, no rows overlap, in whatever
  // order the dimensions lie.
  std::stable_sort(used.begin(), used.end(), [](const UsedStride& x, const UsedStride& y) {
    return x.elements < y.elements;
  });
  std::int64_t span = columns;
  for (const auto& [stride, elements, count] : used) {
    if (elements < span) {
      refuse(
          "the {} stride of {} is {} elements, so that its rows overlap; "
          "allowed are {}, which is {}, and more",
          stride, name, elements, span > columns ? "what its smaller strides span" : columns_name,
          span);
    }
    span += elements * (count - 1);
  }
  return region;
}

// What a call reads and writes: all that its pointers are to.
struct CallMemory {
  std::vector<attention::MemoryRegion> read, written;
};

// What a call writes must overlap nothing else that it uses.
inline void check_overlaps(const CallMemory& memory) {
  const auto check = [](const attention::MemoryRegion& own, const attention::MemoryRegion& other) {
    if (attention::overlap(own, other)) {
      refuse("{} at address {:#x} overlaps {} at address {:#x}; allowed is memory of its own",
             own.name, own.address, other.name, other.address);
    }
  };
  const auto& written = memory.written;
  for (std::size_t i = 0; i < written.size(); ++i) {
    for (const auto& other : memory.read) check(written[i], other);
    for (std::size_t j = 0; j < i; ++j) check(written[i], written[j]);
  }
}

// The GPU that has all of a call's memory, none of which overlaps what the call writes.
inline int checked_gpu(const CallMemory& memory) {
  check_overlaps(memory);
  if (!device_available()) throw std::runtime_error("there is no NVIDIA GPU that can be used");
  std::optional<int> gpu;
  for (const auto* regions : {&memory.read, &memory.written}) {
    for (const attention::MemoryRegion& region : *regions) {
      const auto* const pointer = reinterpret_cast<const void*>(region.address);
      const auto own = gpu_of_memory(pointer);
      if (!own) refuse("{} is at address {}, which is not memory of a GPU", region.name, pointer);
      if (!gpu) gpu = own;
      if (own != gpu) {
        refuse("{} is on GPU {}; {} is on GPU {}", region.name, *own, memory.read.front().name,
               *gpu);
      }
    }
  }
  return *gpu;
}

// Throws where the current GPU lacks what the kernels of a function need.
inline void require_gpu(const char* function, const Needs& needs) {
  const std::string lacks = missing(device_properties(), needs);
  if (!lacks.empty()) throw std::runtime_error(fmt::format("{} {}", function, lacks));
}

inline void note(const char* error) {
  try {
    last_error() = error;
  } catch (...) {
    last_error().clear();  // no memory even for this
  }
}

// Runs work; what it throws becomes a status and last_error().
template <class Work>
int guarded(Work work) noexcept {
  last_error().clear();
  try {
    work();
    return kStatusOk;
  } catch (const std::invalid_argument& error) {
    note(error.what());
    return kStatusRefused;
  } catch (const std::exception& error) {
    note(error.what());
    return kStatusFailed;
  } catch (...) {
    note("an exception that says nothing");
    return kStatusFailed;
  }
}
// The bytes that work(bytes) sets; 0 where it throws.
template <class Work>
std::size_t guarded_bytes(Work work) {
  std::size_t bytes = 0;
  guarded([&] { work(bytes); });
  return bytes;
}
// The name that work() writes to last_name(); null where it throws.
template <class Work>
const char* guarded_name(Work work) {
  return guarded(work) == kStatusOk ? last_name().c_str() : nullptr;
}

}  // namespace
}  // namespace fa::FA_TARGET
