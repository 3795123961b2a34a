/// @file
/// What instrumentation.cpp passes on of a kernel's execution.
#pragma once

#include <cstddef>
#include <string>

#include "common/lab/observer.hpp"

namespace fa::lab {

/// What the compiler says of a load or store.
struct CodeAccess {
  bool write = false;
  bool atomic = false, is_volatile = false;
  AtomicUse use{};          ///< of one that is either
  bool needs_value = true;  ///< an atomic one that reads: not an exchange
  bool of_block = false;    ///< atomic to threads of its block only
  bool natural = false;     ///< the type is as aligned as its size
};
/// A load or store of watched code; nothing without a watch, or outside of kernels. `code` is the
/// return address of the compiler's call.
void on_access(const void* address, std::size_t size, const CodeAccess& access, void* code);
/// A load or store of any number of bytes: counted as several of 4 bytes, or fewer.
void on_range(const void* address, std::size_t size, bool write, void* code);
/// Set: the next atomic access is `of_block`.
extern bool next_atomic_of_block;
/// Says whether an address is memory that only kernels may use; null: that is not known. Its use by
/// watched code of the host is a finding.
extern bool (*is_for_kernels_only)(const void* address);
/// What of the host's an address in none of the lab's memory belongs to, for a message; empty: nothing
/// that kernels may not use. `variable` is the variable there, or empty. Null: all may be used.
extern std::string (*memory_of_host)(const void* address, const std::string& variable);
/// What a launch that uses memory of the host ends with.
inline constexpr const char* kUsedHostMemory = "a thread has used memory of the host";
/// A basic block of watched code begins.
void on_block(void* code);

}  // namespace fa::lab
