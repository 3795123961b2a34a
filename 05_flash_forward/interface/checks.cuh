/// @file
/// What the C interfaces of this lesson and of a later one share: they look at an attention before
/// they compute it, and turn exceptions into a status and a message. Compiled once for each
/// backend: see common/gpu/target.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "05_flash_forward/interface/flash_attention.h"
#include "05_flash_forward/src/dispatch.cuh"

namespace fa::FA_TARGET {
namespace {  // one source file for each library includes this

// Sums of two lengths and a tile must be ints.
constexpr std::int64_t kMaxLength = 1000000000;
constexpr std::int64_t kMaxGrid = 65535;  // in y and z
constexpr std::int64_t kMaxHeads = 2147483647;
static_assert(kMaxHeads <= std::numeric_limits<std::int64_t>::max() /
                               kMaxLength / std::int64_t{sizeof(float)},
              "the bytes of lse are a number of 64 bits");

// Of this thread: an error does not disturb the calls of others.
inline std::string& last_error() {
  thread_local std::string text;
  return text;
}

inline std::string& last_name() {
  thread_local std::string text;
  return text;
}

template <class... Values>
[[noreturn]] void refuse(fmt::format_string<Values...> text,
                         Values&&... values) {
  throw std::invalid_argument(
      fmt::format(text, std::forward<Values>(values)...));
}

inline void check_size(const char* name, std::int64_t value,
                       std::int64_t most) {
  if (value < 1 || value > most) {
    refuse("{} is {}; allowed are 1 to {}", name, value, most);
  }
}

inline std::int64_t element_bytes(const fa_attention& a) {
  return a.type == FA_TYPE_FLOAT32 ? 4 : 2;
}

// Sizes, type and options.
inline void check_problem(const fa_attention* given) {
  if (given == nullptr) refuse("the attention is a null pointer");
  if (given->size != sizeof(fa_attention)) {
    refuse("size is {}; fa_attention has {} bytes in this library",
           given->size, sizeof(fa_attention));
  }
  const fa_attention& a = *given;
  check_size("batch", a.batch, kMaxGrid);
  check_size("heads", a.heads, kMaxGrid);
  check_size("kv_heads", a.kv_heads, kMaxGrid);
  check_size("length_q", a.length_q, kMaxLength);
  check_size("length_k", a.length_k, kMaxLength);
  if (a.heads % a.kv_heads != 0) {
    refuse("heads is {}; allowed are multiples of kv_heads, which is {}",
           a.heads, a.kv_heads);
  }
  if (a.batch * a.heads > kMaxHeads) {
    refuse("batch * heads is {}; allowed are 1 to {}", a.batch * a.heads,
           kMaxHeads);
  }
  if (a.head_dim < 8 || a.head_dim > 256 || a.head_dim % 8 != 0) {
    refuse("head_dim is {}; allowed are multiples of 8 from 8 to 256",
           a.head_dim);
  }
  if (a.head_dim_v != a.head_dim &&
      !(a.head_dim == 192 && a.head_dim_v == 128)) {
    refuse(
        "head_dim_v is {}; allowed are head_dim, which is {}, and 128 with a "
        "head_dim of 192",
        a.head_dim_v, a.head_dim);
  }
  if (a.type != FA_TYPE_FLOAT32 && a.type != FA_TYPE_FLOAT16 &&
      a.type != FA_TYPE_BFLOAT16) {
    refuse(
        "type is {}; allowed are 0 (float32), 1 (float16) and 2 (bfloat16)",
        a.type);
  }
  if (a.causal != 0 && a.causal != 1) {
    refuse("causal is {}; allowed are 0 and 1", a.causal);
  }
  // What is no positive and finite float32 would not be one for the kernel.
  const auto scale = static_cast<float>(a.scale);
  if (!(scale > 0 && std::isfinite(scale))) {
    refuse("scale is {}; allowed are positive and finite numbers of float32",
           a.scale);
  }
  if (!(a.dropout >= 0 && a.dropout < 1)) {
    refuse("dropout is {}; allowed are 0 to below 1", a.dropout);
  }
}

inline void check_pointer(const char* name, const void* pointer,
                          std::uintptr_t alignment) {
  if (pointer == nullptr) refuse("{} is a null pointer", name);
  if (reinterpret_cast<std::uintptr_t>(pointer) % alignment != 0) {
    refuse("{} is at address {}; allowed are multiples of {} bytes", name,
           pointer, alignment);
  }
}

// Only distances that are used matter: that of the only row may be anything.
struct Distance {
  const char* name;
  std::int64_t elements;
  std::int64_t count;
};

// How many bytes from a pointer on have an address, and an offset of 64 bits.
inline std::int64_t bytes_behind(const void* pointer) {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(std::min<std::uintptr_t>(
      most, std::numeric_limits<std::uintptr_t>::max() -
                reinterpret_cast<std::uintptr_t>(pointer)));
}

// Memory without gaps.
inline void check_bytes(const char* name, const void* pointer,
                        std::int64_t bytes) {
  if (bytes > bytes_behind(pointer)) {
    refuse(
        "{} is at address {}, and its {} bytes end beyond the last address",
        name, pointer, bytes);
  }
}

// A tensor [batch, heads, length, columns]. Every element of it must have an address; rows of one
// that is written must not overlap.
inline void check_tensor(const char* name, const void* pointer,
                         const fa_strides& strides, const fa_attention& a,
                         std::int64_t heads, std::int64_t length,
                         std::int64_t columns, bool written = false) {
  check_pointer(name, pointer, 16);
  check_bytes(name, pointer, columns * element_bytes(a));
  const std::int64_t multiple = 16 / element_bytes(a);
  std::vector<Distance> used;
  for (const Distance& distance :
       {Distance{"row", strides.row, length},
        Distance{"head", strides.head, heads},
        Distance{"batch", strides.batch, a.batch}}) {
    if (distance.count > 1) used.push_back(distance);
  }
  // Divisions instead of products: no stride can make this overflow.
  std::int64_t left = bytes_behind(pointer) / element_bytes(a) - columns;
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
  if (!written) return;
  // If each stride is at least as large as what the smaller ones span, no rows overlap, in whatever
  // order the dimensions lie.
  std::stable_sort(used.begin(), used.end(),
                   [](const Distance& x, const Distance& y) {
                     return x.elements < y.elements;
                   });
  std::int64_t span = columns;
  for (const auto& [stride, elements, count] : used) {
    if (elements < span) {
      refuse(
          "the {} stride of {} is {} elements, so that its rows overlap; "
          "allowed are {}, which is {}, and more",
          stride, name, elements,
          span > columns          ? "what its smaller strides span"
          : columns == a.head_dim ? "head_dim"
                                  : "head_dim_v",
          span);
    }
    span += elements * (count - 1);
  }
}

// Where the tensors are.
inline void check_memory(const fa_attention& a) {
  const std::int64_t d = a.head_dim, d_v = a.head_dim_v;
  check_tensor("q", a.q, a.q_strides, a, a.heads, a.length_q, d);
  check_tensor("k", a.k, a.k_strides, a, a.kv_heads, a.length_k, d);
  check_tensor("v", a.v, a.v_strides, a, a.kv_heads, a.length_k, d_v);
  check_tensor("o", a.o, a.o_strides, a, a.heads, a.length_q, d_v, true);
  check_pointer("lse", a.lse, alignof(float));
  check_bytes("lse", a.lse,
              std::int64_t{sizeof(float)} * a.batch * a.heads * a.length_q);
}

// A pointer, and what it is called.
using Named = std::pair<const char*, const void*>;

// The GPU whose memory all pointers are to. Null pointers are skipped, but the first must not be
// null.
inline int common_gpu(std::initializer_list<Named> pointers) {
  if (!device_available()) {
    throw std::runtime_error("there is no NVIDIA GPU that can be used");
  }
  std::optional<int> gpu;
  for (const auto& [name, pointer] : pointers) {
    if (pointer == nullptr) continue;
    const auto own = gpu_of_memory(pointer);
    if (!own) {
      refuse("{} is at address {}, which is not memory of a GPU", name,
             pointer);
    }
    if (!gpu) gpu = own;
    if (own != gpu) {
      refuse("{} is on GPU {}; {} is on GPU {}", name, *own,
             pointers.begin()->first, *gpu);
    }
  }
  return *gpu;
}

inline Stream stream_of(const fa_attention& a) {
  return Stream::of(a.stream);
}

inline RowStrides row_strides(const fa_strides& strides) {
  return {strides.batch, strides.head, strides.row};
}

template <class T>
Attention<T> attention_of(const fa_attention& a) {
  return {static_cast<const T*>(a.q),
          static_cast<const T*>(a.k),
          static_cast<const T*>(a.v),
          static_cast<T*>(a.o),
          a.lse,
          row_strides(a.q_strides),
          row_strides(a.k_strides),
          row_strides(a.v_strides),
          row_strides(a.o_strides),
          static_cast<int>(a.batch),
          static_cast<int>(a.heads),
          static_cast<int>(a.kv_heads),
          static_cast<int>(a.length_q),
          static_cast<int>(a.length_k),
          static_cast<int>(a.head_dim),
          static_cast<int>(a.head_dim_v),
          static_cast<float>(a.scale),
          a.causal != 0,
          make_dropout(a.dropout, a.seed)};
}

// Calls work(attention, name) with the attention for the kernels, and the name of its type.
template <class Work>
void with_attention(const fa_attention& a, Work work) {
  switch (a.type) {
    case FA_TYPE_FLOAT16:
      return work(attention_of<half>(a), "float16");
    case FA_TYPE_BFLOAT16:
      return work(attention_of<bfloat16>(a), "bfloat16");
    default:
      return work(attention_of<float>(a), "float32");
  }
}

// Makes last_name() name the kernel of a problem, and its columns: those of v may be others.
inline void note_kernel(const char* kernel, const char* type, int columns,
                        int columns_v, const fa_attention& a) {
  const std::string of_v =
      columns_v == columns ? "" : fmt::format(" and {}", columns_v);
  last_name() = fmt::format("{}, {}, {}{} columns{}", kernel, type, columns,
                            of_v, a.dropout > 0 ? ", dropout" : "");
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
  try {
    work();
    return FA_STATUS_OK;
  } catch (const std::invalid_argument& error) {
    note(error.what());
    return FA_STATUS_REFUSED;
  } catch (const std::exception& error) {
    note(error.what());
    return FA_STATUS_FAILED;
  } catch (...) {
    note("an exception that says nothing");
    return FA_STATUS_FAILED;
  }
}

}  // namespace
}  // namespace fa::FA_TARGET
