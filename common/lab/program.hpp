/// @file
/// Where the loader of Linux put the running program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

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

/// A function or variable of the executable.
struct Symbol {
  std::uintptr_t begin = 0;  ///< its address
  std::size_t size = 0;      ///< bytes
  int kind = 0;              ///< STT_FUNC, STT_OBJECT: <elf.h>
  std::string name;          ///< as linkers know it

  /// All of them; none where the file has no table of them. (Not all are in the table that the
  /// loader has in memory.)
  static const std::vector<Symbol>& of_this_program();
};

}  // namespace fa::lab
