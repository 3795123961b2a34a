/// @file
/// The functions of kernel.cuh on a GPU. Include kernel.cuh, not this file.
///
/// Source: NVIDIA, PTX ISA, for cp.async, ldmatrix, mma.sync, red and ex2.approx: which lane holds
/// what, and from which compute capability on. Code for older architectures compiles, too, and
/// stops where it meets an instruction of sm_80.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <type_traits>

/// @cond the text of instructions
#if __CUDA_ARCH__ >= 800
#define FA_SM_80_ASM asm
#define FA_SM_80_ASM_VOLATILE asm volatile
#else  // an older architecture, or the host's pass of the compiler
#define FA_SM_80_ASM(...) __trap()
#define FA_SM_80_ASM_VOLATILE(...) __trap()
#endif
/// @endcond

namespace fa::FA_TARGET {

/// Nothing. In the lab it is the line that calls a function, for messages. It is no class: passing
/// one would change the order of the compiler's instructions.
enum class SourceLocation {};
/// The line of the call.
__host__ __device__ constexpr SourceLocation caller_location() {
  return {};
}

/// IEEE 754 binary16.
using half = __half;
/// The upper half of a float32.
using bfloat16 = __nv_bfloat16;
/// @{ The formats of 8 bits.
using e4m3 = __nv_fp8_e4m3;
using e5m2 = __nv_fp8_e5m2;
/// @}

/// The exact value of a float, or of a number of 16 or 8 bits.
template <class T>
__device__ float to_float(T x) {
  if constexpr (std::is_same_v<T, half>) {
    return __half2float(x);
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    return __bfloat162float(x);
  } else {
    return static_cast<float>(x);
  }
}

/// Rounds to nearest, ties to even; what is too large for 8 bits becomes the largest finite value.
/// T is float, half, bfloat16, e4m3 or e5m2.
template <class T>
__device__ T from_float(float x) {
  if constexpr (std::is_same_v<T, half>) {
    return __float2half_rn(x);
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    return __float2bfloat16_rn(x);
  } else {
    return static_cast<T>(x);
  }
}

/// Two elements of type T, half or bfloat16, in one register, `low` in the lower half: an element
/// of a fragment.
template <class T>
__device__ std::uint32_t pack2(float low, float high) {
  if constexpr (std::is_same_v<T, half>) {
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  } else {
    static_assert(std::is_same_v<T, bfloat16>);
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  }
}

/// The bits of two elements, `low` in the lower half.
template <class T>
__device__ std::uint32_t pack2(T low, T high) {
  static_assert(sizeof(T) == 2);
  std::uint16_t bits[2];
  memcpy(bits, &low, 2);
  memcpy(bits + 1, &high, 2);
  return bits[0] | static_cast<std::uint32_t>(bits[1]) << 16;
}
/// Four elements of type T, e4m3 or e5m2, in one register, the first in the lowest byte.
template <class T>
__device__ std::uint32_t pack4(float x, float y, float z, float w) {
  using Four = std::conditional_t<std::is_same_v<T, e4m3>, __nv_fp8x4_e4m3, __nv_fp8x4_e5m2>;
  static_assert(sizeof(T) == 1);
  return Four(make_float4(x, y, z, w)).__x;
}
/// The four e4m3 of a register as float16, which is exact, two in each of two registers: two
/// instructions of sm_89 and later.
__device__ inline void unpack_e4m3(std::uint32_t (&to)[2], std::uint32_t codes) {
#if __CUDA_ARCH__ >= 890
  asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %2;\n"
      "cvt.rn.f16x2.e4m3x2 %0, low;\ncvt.rn.f16x2.e4m3x2 %1, high;\n}\n"
      : "=r"(to[0]), "=r"(to[1])
      : "r"(codes));
#else
  for (int i = 0; i < 2; ++i) {
    const auto pair = static_cast<__nv_fp8x2_storage_t>(codes >> 16 * i);
    const __half2_raw values = __nv_cvt_fp8x2_to_halfraw2(pair, __NV_E4M3);
    memcpy(&to[i], &values, sizeof to[i]);
  }
#endif
}
/// Two neighbours, as pack2() has them; the address is a multiple of 4.
template <class T>
__device__ std::uint32_t load_pair(const T* address) {
  static_assert(sizeof(T) == 2);
  return *reinterpret_cast<const std::uint32_t*>(address);
}
/// Writes two neighbours; the address is a multiple of 4.
template <class T>
__device__ void store_pair(T* address, std::uint32_t pair) {
  static_assert(sizeof(T) == 2);
  *reinterpret_cast<std::uint32_t*>(address) = pair;
}

/// Waits until the previous kernel on the stream has ended and all that it wrote is visible. A
/// kernel that was launched with Launch::with_pdl calls it before it uses memory of that kernel;
/// in others it does nothing.
__device__ inline void grid_dependency_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;\n" ::: "memory");
#endif
}
/// Lets the next kernel on the stream start, if it is launched with Launch::with_pdl, once a thread
/// of each block of this one has called it or the block has ended.
__device__ inline void launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory");
#endif
}

/// 2^x to about 2 ulp, in one instruction; 0 for -infinity and for results that would be subnormal.
__device__ inline float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// ln(x) of a normal x > 0: two instructions, an error of about 2^-22, or of its share of the result.
__device__ inline float log_approx(float x) {
  return __logf(x);
}
/// 1 / x to about 1 ulp, in one instruction; 0 for x > 2^126.
__device__ inline float inverse_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// tanh(x) with a relative error of at most 2^-10.987, in one instruction of sm_75 and later.
__host__ __device__ inline float tanh_approx(float x) {
#if __CUDA_ARCH__ >= 750
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return tanhf(x);
#endif
}
/// tanh(x), for code that runs in float64 as well.
__host__ __device__ inline double tanh_approx(double x) {
  return tanh(x);
}

/// Reads 16 bytes at once; the address is a multiple of 16.
template <class T>
__device__ float4 load4(const T* address) {
  return *reinterpret_cast<const float4*>(address);
}
/// Writes 16 bytes at once; the address is a multiple of 16.
template <class T>
__device__ void store4(T* address, float4 value) {
  *reinterpret_cast<float4*>(address) = value;
}

/// Reads two floats at once; the address is a multiple of 8.
__device__ inline void load2(float (&to)[2], const float* address) {
  const float2 value = *reinterpret_cast<const float2*>(address);
  to[0] = value.x;
  to[1] = value.y;
}
/// Writes two floats at once; the address is a multiple of 8.
__device__ inline void store2(float* address, float x, float y) {
  *reinterpret_cast<float2*>(address) = make_float2(x, y);
}

/// atomicAdd() on a counter in global memory, which releases: a thread that acquires the new
/// value sees what this one did before. It costs less than a __threadfence() before an atomicAdd().
__device__ inline void atomic_add_release(unsigned* counter, unsigned value) {
  asm volatile(
      "red.release.gpu.global.add.u32 [%0], %1;\n" ::"l"(__cvta_generic_to_global(counter)),
      "r"(value)
      : "memory");
}
/// atomicAdd() on a counter in global memory, which acquires: this thread sees what others did
/// before they released it. It costs less than a __threadfence() after it.
/// @returns the value before
__device__ inline unsigned atomic_add_acquire(unsigned* counter, unsigned value) {
  unsigned before;
  asm volatile("atom.acquire.gpu.global.add.u32 %0, [%1], %2;\n"
               : "=r"(before)
               : "l"(__cvta_generic_to_global(counter)), "r"(value)
               : "memory");
  return before;
}
/// Reads a counter in global memory and acquires: this thread sees what other blocks did before
/// they released it. A poll costs less than atomic_add_acquire() of 0, which also writes.
__device__ inline unsigned load_acquire(const unsigned* counter) {
  unsigned value;
  FA_STAMP(kWaitCounter, 0);
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];\n"
               : "=r"(value)
               : "l"(__cvta_generic_to_global(counter))
               : "memory");
  FA_STAMP(kEnd, 0);
  return value;
}
/// Adds to four neighbours in global memory, to each of them atomically; the address is a multiple
/// of 16. From sm_90 on it is one request.
__device__ inline void atomic_add4(float* address, float4 value) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};\n" ::"l"(
                   __cvta_generic_to_global(address)),
               "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w)
               : "memory");
#else
  atomicAdd(address, value.x);
  atomicAdd(address + 1, value.y);
  atomicAdd(address + 2, value.z);
  atomicAdd(address + 3, value.w);
#endif
}

/// The block's dynamic shared memory, aligned to 1024 bytes in kernels that have no static shared
/// memory.
template <class T>
__device__ T* dynamic_shared() {
  extern __shared__ __align__(1024) unsigned char fa_dynamic_shared[];
  return reinterpret_cast<T*>(fa_dynamic_shared);
}

/// An address in shared memory as PTX takes it.
__device__ inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

/// Begins to copy 16 bytes from global to shared memory (cp.async, sm_80). Where `valid` is false
/// the destination gets zeros and the source is not read. Both addresses are multiples of 16.
__device__ inline void cp_async16(void* shared, const void* global, bool valid = true) {
  FA_SM_80_ASM_VOLATILE(
      "cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared_address(shared)), "l"(global),
      "r"(valid ? 16 : 0)
      : "memory");
}
/// The same for 4 bytes: consecutive on neither side, a quarter as much for each instruction.
__device__ inline void cp_async4(void* shared, const void* global, bool valid = true) {
  FA_SM_80_ASM_VOLATILE(
      "cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(shared_address(shared)), "l"(global),
      "r"(valid ? 4 : 0)
      : "memory");
}
/// Closes the group of the copies begun since the last one.
__device__ inline void cp_async_commit() {
  FA_SM_80_ASM_VOLATILE("cp.async.commit_group;\n" ::: "memory");
}
/// Waits until at most `pending` groups of this thread are in flight. Other threads' copies need a
/// __syncthreads() after it.
template <int pending>
__device__ void cp_async_wait() {
  FA_SM_80_ASM_VOLATILE("cp.async.wait_group %0;\n" ::"n"(pending) : "memory");
}

/// Loads four 8x8 matrices of 16-bit elements from shared memory (ldmatrix, sm_75). Lane i gives
/// the address of row i % 8 of matrix i / 8 and gets, in r[m], columns 2 (i % 4) and the next of
/// row i / 4 of matrix m.
__device__ inline void ldmatrix_x4(std::uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
/// The same with each matrix transposed: lane i gets rows 2 (i % 4) and the next of column i / 4.
__device__ inline void ldmatrix_x4_transposed(std::uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}

/// d += A B on tensor cores, A 16x16, B 16x8, d 16x8 in float32 (mma.m16n8k16, sm_80). With g =
/// lane / 4 and t = lane % 4 a lane holds
///     a[0]: A[g][2t..]        a[1]: A[g + 8][2t..]
///     a[2]: A[g][2t + 8..]    a[3]: A[g + 8][2t + 8..]
///     b[0]: B[2t..][g]        b[1]: B[2t + 8..][g]
///     d[0], d[1]: D[g][2t..]  d[2], d[3]: D[g + 8][2t..]
template <class T>
__device__ void mma_m16n8k16(float (&d)[4], const std::uint32_t (&a)[4],
                             const std::uint32_t (&b)[2]) {
  if constexpr (std::is_same_v<T, half>) {
    FA_SM_80_ASM(  // not volatile: the compiler may move it
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    static_assert(std::is_same_v<T, bfloat16>);
    FA_SM_80_ASM(  // not volatile: the compiler may move it
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
}

/// The TF32 number nearest to x, with ties away from zero: the upper 19 bits of a float32, which
/// are its sign, its exponent and 10 bits of its fraction; the lower 13 are 0. It equals
/// cvt.rna.tf32.f32 for finite numbers, in two instructions instead of four. Of infinities and NaNs
/// only infinity stays what it is.
__device__ inline std::uint32_t tf32_nearest(std::uint32_t x) {
  return (x + 0x1000u) & 0xffffe000u;
}
/// The upper 19 bits of x as a TF32 number. It costs nothing: the tensor cores do not read the
/// others.
__device__ inline std::uint32_t tf32_truncated(std::uint32_t x) {
  return x;
}
/// d += A B on tensor cores, A 16x8 and B 8x8 of TF32 numbers, d 16x8 in float32 (mma.m16n8k8,
/// sm_80). With g = lane / 4 and t = lane % 4 a lane holds
///     a[0]: A[g][t]    a[1]: A[g + 8][t]    a[2]: A[g][t + 4]    a[3]: A[g + 8][t + 4]
///     b[0]: B[t][g]    b[1]: B[t + 4][g]
///     d[0], d[1]: D[g][2t..]    d[2], d[3]: D[g + 8][2t..]
/// Products are exact. Their sum with d is truncated, not rounded, after some bits more than
/// float32's.
__device__ inline void mma_m16n8k8(float (&d)[4], const std::uint32_t (&a)[4],
                                   const std::uint32_t (&b)[2]) {
  FA_SM_80_ASM(  // not volatile: the compiler may move it
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace fa::FA_TARGET
