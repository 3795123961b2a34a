/// @file
/// The functions of blackwell.cuh on a GPU. Include blackwell.cuh, not this file. Code for other
/// architectures than sm_100a compiles, too, and traps where it calls one of them.
///
/// No B200 has run this file: ptxas 13 compiles it for sm_100a.
#pragma once

/// @cond the text of instructions
#if defined(__CUDA_ARCH_FEAT_SM100_ALL)
#define FA_BLACKWELL_ASM asm volatile
#else  // another architecture, or the host's pass of the compiler
#define FA_BLACKWELL_ASM(...) __trap()
#endif
/// @endcond

namespace fa::FA_TARGET {

/// Allocates columns of tensor memory, all 128 lanes of each, and writes their address to shared
/// memory. One whole warp calls it. The number is 32, 64, 128, 256 or 512. It waits until there are
/// so many: other blocks of the SM may have them. Each allocation must be freed before the kernel
/// ends. Source: PTX ISA, "tcgen05.alloc, tcgen05.dealloc, tcgen05.relinquish_alloc_permit".
__device__ inline void tcgen05_alloc(std::uint32_t* address, int columns, SourceLocation = {}) {
  FA_BLACKWELL_ASM("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;\n" ::"r"(
                       shared_address(address)),
                   "r"(columns)
                   : "memory");
}
/// Frees what one tcgen05_alloc() has allocated. One whole warp calls it.
__device__ inline void tcgen05_dealloc(std::uint32_t address, int columns, SourceLocation = {}) {
  FA_BLACKWELL_ASM("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;\n" ::"r"(address),
                   "r"(columns)
                   : "memory");
}
/// This block allocates nothing any more, so that other blocks of the SM may. One whole warp calls
/// it.
__device__ inline void tcgen05_relinquish_alloc_permit(SourceLocation = {}) {
  FA_BLACKWELL_ASM("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n" ::: "memory");
}

/// Begins D = A B or D += A B; one thread calls it. A is 128 x 16, B 16 x N; D, 128 x N in float32,
/// is in tensor memory: row i in lane i, column j in column d + j. The descriptor says the types
/// and N. Source: PTX ISA, "tcgen05.mma", kind::f16, cta_group::1, and "Layout D" of "Data Path
/// Layout Organization".
template <Major major_a, int panel_a, Major major_b, int panel_b>
__device__ void tcgen05_mma(std::uint32_t d, const MatrixDescriptor<major_a, panel_a>& a,
                            const MatrixDescriptor<major_b, panel_b>& b, std::uint32_t descriptor,
                            bool adds, SourceLocation = {}) {
  FA_BLACKWELL_ASM(
      "{\n.reg .pred adds;\nsetp.ne.b32 adds, %4, 0;\n"
      "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, adds;\n}\n" ::"r"(d),
      "l"(tcgen05_bits(a)), "l"(tcgen05_bits(b)), "r"(descriptor), "r"(static_cast<int>(adds))
      : "memory");
}
/// The same with A in tensor memory: row i in lane i, two elements of 16 bits in a column, 8
/// columns in all.
template <Major major_b, int panel_b>
__device__ void tcgen05_mma(std::uint32_t d, std::uint32_t a,
                            const MatrixDescriptor<major_b, panel_b>& b, std::uint32_t descriptor,
                            bool adds, SourceLocation = {}) {
  FA_BLACKWELL_ASM(
      "{\n.reg .pred adds;\nsetp.ne.b32 adds, %4, 0;\n"
      "tcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, adds;\n}\n" ::"r"(d),
      "r"(a), "l"(tcgen05_bits(b)), "r"(descriptor), "r"(static_cast<int>(adds))
      : "memory");
}
/// An arrival at the barrier once all tcgen05_mma() that this thread has begun have ended. It
/// implies tcgen05_fence_before(). Source: PTX ISA, "tcgen05.commit".
__device__ inline void tcgen05_commit(Mbarrier& barrier, SourceLocation = {}) {
  FA_BLACKWELL_ASM(
      "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];\n" ::"r"(
          barrier.address())
      : "memory");
}

/// Orders the tcgen05 operations of this thread that have ended before what it signals to other
/// threads from now on. Source: PTX ISA, "tcgen05.fence".
__device__ inline void tcgen05_fence_before() {
  FA_BLACKWELL_ASM("tcgen05.fence::before_thread_sync;\n" ::: "memory");
}
/// Orders those that this thread begins from now on behind what it has waited for.
__device__ inline void tcgen05_fence_after() {
  FA_BLACKWELL_ASM("tcgen05.fence::after_thread_sync;\n" ::: "memory");
}

/// @cond the text of instructions
#define FA_EACH8(how, i)                                                                \
  how(r[i]), how(r[i + 1]), how(r[i + 2]), how(r[i + 3]), how(r[i + 4]), how(r[i + 5]), \
      how(r[i + 6]), how(r[i + 7])
#define FA_EACH16(how) FA_EACH8(how, 0), FA_EACH8(how, 8)
#define FA_EACH32(how) FA_EACH16(how), FA_EACH8(how, 16), FA_EACH8(how, 24)
#define FA_TMEM_LD(x, how)                                                                  \
  FA_BLACKWELL_ASM("tcgen05.ld.sync.aligned.32x32b.x" #x ".b32 {" FA_R##x "}, [%" #x "];\n" \
                   : FA_EACH##x(how)                                                        \
                   : "r"(address))
#define FA_TMEM_ST(x, how)                                                           \
  FA_BLACKWELL_ASM("tcgen05.st.sync.aligned.32x32b.x" #x ".b32 [%" #x "], {" FA_R##x \
                   "};\n" ::FA_EACH##x(how),                                         \
                   "r"(address)                                                      \
                   : "memory")
/// @endcond

/// Begins to load n neighbouring columns of tensor memory, of which a lane of the warp gets those
/// of its lane there. One whole warp calls it, all lanes with the same address; the address has the
/// first lane of the warp's quarter, 32 (warp % 4). The registers, float or std::uint32_t, are
/// filled when tcgen05_wait_ld() returns. Source: PTX ISA, "tcgen05.ld", shape 32x32b, x16 and x32,
/// and "Access restrictions" of tensor memory.
template <class R, int n>
__device__ void tcgen05_ld(R (&r)[n], std::uint32_t address, SourceLocation = {}) {
  static_assert(tcgen05_moves<R>(n), "16 or 32 registers of 32 bits");
  if constexpr (n == 16 && std::is_same_v<R, float>) {
    FA_TMEM_LD(16, "=f");
  } else if constexpr (n == 16) {
    FA_TMEM_LD(16, "=r");
  } else if constexpr (std::is_same_v<R, float>) {
    FA_TMEM_LD(32, "=f");
  } else {
    FA_TMEM_LD(32, "=r");
  }
}
/// The reverse, from registers to tensor memory; tcgen05_wait_st() waits for it. Source: PTX ISA,
/// "tcgen05.st".
template <class R, int n>
__device__ void tcgen05_st(std::uint32_t address, const R (&r)[n], SourceLocation = {}) {
  static_assert(tcgen05_moves<R>(n), "16 or 32 registers of 32 bits");
  if constexpr (n == 16 && std::is_same_v<R, float>) {
    FA_TMEM_ST(16, "f");
  } else if constexpr (n == 16) {
    FA_TMEM_ST(16, "r");
  } else if constexpr (std::is_same_v<R, float>) {
    FA_TMEM_ST(32, "f");
  } else {
    FA_TMEM_ST(32, "r");
  }
}
/// Waits until all tcgen05_ld() of this warp have ended; `registers` are what they have filled.
/// Source: PTX ISA, "tcgen05.wait".
template <class... Registers>
__device__ void tcgen05_wait_ld(Registers&... registers) {
  FA_BLACKWELL_ASM("tcgen05.wait::ld.sync.aligned;\n" ::: "memory");
  (fence_operand(registers), ...);
}
/// Waits until all tcgen05_st() of this warp have ended.
__device__ inline void tcgen05_wait_st(SourceLocation = {}) {
  FA_BLACKWELL_ASM("tcgen05.wait::st.sync.aligned;\n" ::: "memory");
}

}  // namespace fa::FA_TARGET
