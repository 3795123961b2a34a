/// @file
/// What instrumentation.cpp passes on of a kernel's execution.
#pragma once

#include <cstddef>

namespace fa::lab {

/// A load or store of watched code; nothing without a watch, or outside of kernels. `code` is the
/// return address of the compiler's call; `natural` says that the type is as aligned as its size.
void on_access(const void* address, std::size_t size, bool write, bool atomic, void* code,
               bool natural);
/// Says whether an address is memory that only kernels may use; null: that is not known. Its use by
/// watched code of the host is a finding.
extern bool (*is_for_kernels_only)(const void* address);
/// A basic block of watched code begins.
void on_block(void* code);

}  // namespace fa::lab
