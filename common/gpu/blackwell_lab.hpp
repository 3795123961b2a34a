/// @file
/// The functions of blackwell.cuh in the lab. Include blackwell.cuh, not this file.
#pragma once

#include "common/lab/async.hpp"

namespace fa::FA_TARGET {

inline void tcgen05_alloc(std::uint32_t* address, int columns,
                          SourceLocation location = caller_location()) {
  lab::allocate_tensor_memory(address, columns, location);
}
inline void tcgen05_dealloc(std::uint32_t address, int columns,
                            SourceLocation location = caller_location()) {
  lab::free_tensor_memory(address, columns, location);
}
inline void tcgen05_relinquish_alloc_permit(SourceLocation location = caller_location()) {
  lab::relinquish_tensor_memory(location);
}

template <Major major_a, int panel_a, Major major_b, int panel_b>
void tcgen05_mma(std::uint32_t d, const MatrixDescriptor<major_a, panel_a>& a,
                 const MatrixDescriptor<major_b, panel_b>& b, std::uint32_t descriptor, bool adds,
                 SourceLocation location = caller_location()) {
  lab::begin_tensor_matmul({d, tcgen05_bits(a), tcgen05_bits(b), descriptor, false,
                            major_a == Major::kMN, major_b == Major::kMN, adds},
                           location);
}
template <Major major_b, int panel_b>
void tcgen05_mma(std::uint32_t d, std::uint32_t a, const MatrixDescriptor<major_b, panel_b>& b,
                 std::uint32_t descriptor, bool adds, SourceLocation location = caller_location()) {
  lab::begin_tensor_matmul(
      {d, a, tcgen05_bits(b), descriptor, true, false, major_b == Major::kMN, adds}, location);
}
inline void tcgen05_commit(Mbarrier& barrier, SourceLocation location = caller_location()) {
  lab::commit_tensor_matmuls(&barrier, location);
}
inline void tcgen05_fence_before() {
  lab::fence_tensor_memory(true);
}
inline void tcgen05_fence_after() {
  lab::fence_tensor_memory(false);
}

template <class R, int n>
void tcgen05_ld(R (&r)[n], std::uint32_t address, SourceLocation location = caller_location()) {
  static_assert(tcgen05_moves<R>(n), "16 or 32 registers of 32 bits");
  lab::move_tensor_memory({reinterpret_cast<std::uint32_t*>(r), address}, n, false, location);
}
template <class R, int n>
void tcgen05_st(std::uint32_t address, const R (&r)[n],
                SourceLocation location = caller_location()) {
  static_assert(tcgen05_moves<R>(n), "16 or 32 registers of 32 bits");
  auto* const from = reinterpret_cast<std::uint32_t*>(const_cast<R*>(r));
  lab::move_tensor_memory({from, address}, n, true, location);
}
template <class... Registers>
void tcgen05_wait_ld(Registers&...) {
  lab::wait_tensor_memory(false, {"tcgen05_wait_ld()", 0});
}
inline void tcgen05_wait_st(SourceLocation location = caller_location()) {
  lab::wait_tensor_memory(true, location);
}

}  // namespace fa::FA_TARGET
