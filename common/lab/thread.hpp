/// @file
/// What a kernel can ask about its own thread, and lines of the source for messages.
///
/// Kernels do not include this file: common/gpu/kernel.cuh makes ordinary CUDA source mean it.
#pragma once

#include <cstddef>

#include "common/gpu/launch_sizes.hpp"

namespace fa::lab {

/// Threads in a warp.
inline constexpr int kWarpSize = 32;

/// What alignas() says: of a number, or of a type.
template <std::size_t bytes>
constexpr std::size_t alignment() {
  return bytes;
}
template <class T>
constexpr std::size_t alignment() {
  return alignof(T);
}

/// A line of the source, for messages.
struct SourceLocation {
  const char* file = "";  ///< name of the file, as the compiler was given it
  int line = 0;           ///< counted from 1
};
/// @cond Doxygen takes the attribute for a variable
/// The line that calls a function which has this as a default argument.
__attribute__((always_inline)) constexpr SourceLocation caller_location(
    const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return {file, line};
}
/// @endcond

/// What a kernel can ask about its own thread.
struct Thread {
  Size index{0, 0, 0};        ///< threadIdx
  Size block_index{0, 0, 0};  ///< blockIdx
  Size block_size;            ///< blockDim
  Size grid_size;             ///< gridDim
  int number = 0;             ///< in the block, x fastest
  int lane = 0;               ///< in the warp
  int rank = 0;               ///< of the block in its cluster
  int place = 0;              ///< in the cluster, block after block
};

/// The thread that runs now; null outside kernels. (__thread: read without a call.)
extern __thread const Thread* current;

}  // namespace fa::lab
