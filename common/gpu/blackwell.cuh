/// @file
/// What kernels for datacenter Blackwell (sm_100) are written with, beside hopper.cuh: tensor
/// memory, and matmuls that one thread issues and that keep their accumulators there (tcgen05).
/// Under nvcc they are instructions of sm_100a; elsewhere the lab emulates them on the CPU and
/// reports what a kernel does not wait for. Never run on a B200 by us: what they do is our reading
/// of the PTX ISA.
///
/// Tensor memory has 128 lanes of 512 columns, words of 32 bits, for all blocks of an SM. An
/// address has the lane in bits 16 to 31 and the column in bits 0 to 15. Warp w reaches lanes 32 (w
/// % 4) to 32 (w % 4) + 31 only; the tensor cores reach all.
///
/// Source: NVIDIA, PTX ISA, "Tensor Memory" and the sections on tcgen05 that each function names.
#pragma once

#include <type_traits>

#include "common/gpu/hopper.cuh"

namespace fa::FA_TARGET {

/// Lanes of tensor memory.
constexpr int kTensorLanes = 128;
/// Columns of tensor memory.
constexpr int kTensorColumns = 512;

/// Whether tcgen05_ld() and tcgen05_st() are written for n registers of a type.
template <class R>
constexpr bool tcgen05_moves(int n) {
  return (n == 16 || n == 32) && (std::is_same_v<R, float> || std::is_same_v<R, std::uint32_t>);
}

/// The instruction descriptor of tcgen05_mma() for A of 128 x 16 and B of 16 x n elements of type
/// T, half or bfloat16, and sums in float32; n is a multiple of 16 up to 256. Bits 4 and 5 are the
/// type of D, 7 to 9 and 10 to 12 those of A and B, 15 and 16 say which operands are MN-major, 17
/// to 22 are n / 8, 24 to 28 are 128 / 16. Source: PTX ISA, "Instruction descriptor" of tcgen05,
/// kind::f16.
template <class T>
__host__ __device__ constexpr std::uint32_t tcgen05_descriptor(int n, Major a, Major b) {
  constexpr std::uint32_t type = std::is_same_v<T, half> ? 0 : 1, float32 = 1;
  return float32 << 4 | type << 7 | type << 10 | (a == Major::kMN ? 1u << 15 : 0u) |
         (b == Major::kMN ? 1u << 16 : 0u) | static_cast<std::uint32_t>(n / 8) << 17 |
         static_cast<std::uint32_t>(kTensorLanes / 16) << 24;
}

/// An operand in shared memory as tcgen05.mma takes it. It differs from Hopper's in bits 46 to 48,
/// which are 1; the swizzle, 2 for panels of 128 bytes and 4 for those of 64, is in bits 61 to 63,
/// and so at the same bits.
/// Source: PTX ISA, "Shared memory descriptor" of tcgen05.
template <Major layout, int panel_bytes>
__device__ std::uint64_t tcgen05_bits(const MatrixDescriptor<layout, panel_bytes>& operand) {
  return operand.bits() | std::uint64_t{1} << 46;
}

/// The address of some columns behind another one, in this warp's quarter of the lanes: where
/// tcgen05_ld() and tcgen05_st() of this warp begin.
__device__ inline std::uint32_t tensor_quarter(std::uint32_t address, int column) {
  return address + (threadIdx.x / kWarp % 4 * kWarp << 16) + static_cast<std::uint32_t>(column);
}

}  // namespace fa::FA_TARGET

#if defined(__CUDACC__)
#include "common/gpu/blackwell_cuda.cuh"
#else
#include "common/gpu/blackwell_lab.hpp"
#endif
