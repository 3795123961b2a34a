/// @file
/// Where the loader of Linux put the running program.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fa::lab {

/// The executable, without its libraries.
struct Program {
  std::uintptr_t load_address = 0;      ///< what its symbols' addresses are relative to
  std::uintptr_t code = 0;              ///< where its machine code begins
  std::size_t code_bytes = 0;           ///< of it
  const void* thread_locals = nullptr;  ///< its thread-local variables on this thread
  std::size_t thread_local_bytes = 0;   ///< of them

  /// The one that runs.
  static Program running();
};

}  // namespace fa::lab
