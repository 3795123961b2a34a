/// @file
/// The functions of hopper.cuh on a GPU. Include hopper.cuh, not this file. sm_100a has all of them
/// but wgmma. Code for other architectures compiles, too, and traps where it calls one of them.
#pragma once

#include <cuda.h>

/// @cond the text of instructions
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || defined(__CUDA_ARCH_FEAT_SM100_ALL)
#define FA_HOPPER_ASM asm volatile
#else  // another architecture, or the host's pass of the compiler
#define FA_HOPPER_ASM(...) __trap()
#endif
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define FA_WGMMA_ASM asm volatile
#else
#define FA_WGMMA_ASM(...) __trap()
#endif

/// @endcond

namespace fa::FA_TARGET {

/// A tensor map, see tensor_map(). Kernels take it as a `const __grid_constant__` parameter, or in
/// one.
using TensorMap = CUtensorMap;
/// A tensor map of packed sequences, see ragged_map().
struct RaggedMap {
  TensorMap map;
};
/// Rows of such a map; a sequence of n has the last n.
constexpr int kRaggedRows = 1 << 30;

/// The address of something in shared memory of this block in another block of its cluster, as PTX
/// takes it.
__device__ inline std::uint32_t peer_address(const void* pointer, int rank) {
  std::uint32_t result = 0;
  FA_HOPPER_ASM("mapa.shared::cluster.u32 %0, %1, %2;\n"
                : "=r"(result)
                : "r"(shared_address(pointer)), "r"(rank));
  return result;
}
/// The same for loads and stores: __cluster_map_shared_rank().
template <class T>
__device__ T* peer_shared(T* pointer, int rank) {
  T* result = nullptr;
  FA_HOPPER_ASM("mapa.u64 %0, %1, %2;\n" : "=l"(result) : "l"(pointer), "r"(rank));
  return result;
}

/// The rank of this block in its cluster.
__device__ inline int cluster_rank() {
  int result = 0;
  FA_HOPPER_ASM("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(result));
  return result;
}
/// Arrives at the barrier of all threads of the cluster that have not ended; cluster_wait()
/// follows. It releases: threads that have waited see what this thread did before.
__device__ inline void cluster_arrive(SourceLocation = {}) {
  FA_HOPPER_ASM("barrier.cluster.arrive.release;\n" ::: "memory");
}
/// Waits until all of them have arrived.
__device__ inline void cluster_wait(SourceLocation = {}) {
  FA_HOPPER_ASM("barrier.cluster.wait.acquire;\n" ::: "memory");
}

/// A barrier in shared memory that counts arrivals and bytes. A phase ends when as many threads
/// have arrived as init() says and all bytes that they expect.
class Mbarrier {
 public:
  /// One thread calls it with the arrivals of a phase, before any thread uses the barrier:
  /// fence_barrier_init() and __syncthreads() follow.
  __device__ void init(int arrivals, SourceLocation = {}) {
    FA_HOPPER_ASM("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(address()), "r"(arrivals)
                  : "memory");
  }
  /// One arrival.
  __device__ void arrive(SourceLocation = {}) {
    FA_HOPPER_ASM("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(address()) : "memory");
  }
  /// One arrival; the phase expects so many bytes more.
  __device__ void arrive_and_expect(int bytes, SourceLocation = {}) {
    FA_HOPPER_ASM("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(address()),
                  "r"(bytes)
                  : "memory");
  }
  /// One arrival at the same barrier of another block of its cluster, or of this one: threads and
  /// copies of that block may overwrite what this thread's wgmma have read. Without a scope, PTX
  /// releases at CTA scope, which orders no ordinary access for another block. It suffices here
  /// because the reads are those of wgmma, and wgmma_wait() has ended them. What the thread has
  /// written to shared memory of other blocks is visible only after cluster_wait(): an arrival
  /// that released it, too, would wait for all stores of the thread, which costs a matmul a third
  /// of its speed.
  __device__ void arrive_at_peer(int rank, SourceLocation = {}) {
    FA_HOPPER_ASM("mbarrier.arrive.shared::cluster.b64 _, [%0];\n" ::"r"(peer_address(this, rank))
                  : "memory");
  }
  /// Waits until the phase of a parity has ended: 0 for the first, 1 for the second and so on. The
  /// phase before the first one counts as one of parity 1 that has ended.
  __device__ void wait(int parity, SourceLocation = {}) {
    FA_STAMP(kWaitBarrier, address() >> 3);
    FA_HOPPER_ASM(
        "{\n"
        ".reg .pred done;\n"
        "FA_WAIT_%=:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra FA_WAIT_%=;\n"
        "}\n" ::"r"(address()),
        "r"(parity)
        : "memory");
    FA_STAMP(kEnd, 0);
  }
  /// As PTX takes it.
  __device__ std::uint32_t address() const { return shared_address(this); }

 private:
  std::uint64_t state_;
};

/// Releases earlier init() calls of this thread to the cluster. It is no proxy fence and orders
/// nothing else. __syncthreads() must follow.
__device__ inline void fence_barrier_init() {
  FA_STAMP(kBlock, 0);
  FA_HOPPER_ASM("fence.mbarrier_init.release.cluster;\n" ::: "memory");
}
/// Makes what this thread wrote to shared memory visible to wgmma and TMA; a barrier must follow.
__device__ inline void fence_async_proxy() {
  FA_HOPPER_ASM("fence.proxy.async.shared::cta;\n" ::: "memory");
}
/// Orders what this thread has acquired of global memory, by a counter for instance, before the
/// copies that it begins.
__device__ inline void fence_async_proxy_global() {
  FA_HOPPER_ASM("fence.proxy.async.global;\n" ::: "memory");
}

/// Waits at barrier `id` of 16 until so many threads have arrived, by this function or by
/// named_barrier_arrive(), this warp included; 0 is that of __syncthreads().
__device__ inline void named_barrier_wait(int id, int threads) {
  FA_STAMP(kWaitNamed, id);
  asm volatile("bar.sync %0, %1;\n" ::"r"(id), "r"(threads) : "memory");
  FA_STAMP(kEnd, 0);
}
/// Arrives at a barrier without waiting.
__device__ inline void named_barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;\n" ::"r"(id), "r"(threads) : "memory");
}

/// Releases registers of this warpgroup until each thread has so many, a multiple of 8.
template <int registers>
__device__ void setmaxnreg_dec() {
  FA_HOPPER_ASM("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(registers));
}
/// Requests registers until each thread of this warpgroup has so many, a multiple of 8. It waits
/// until others have released enough.
template <int registers>
__device__ void setmaxnreg_inc() {
  FA_HOPPER_ASM("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(registers));
}

/// A hint for the L2 cache as instructions take it.
__device__ inline std::uint64_t cache_policy(CacheHint hint) {
  std::uint64_t policy = 0;
  if (hint == CacheHint::kEvictLast) {
    FA_HOPPER_ASM("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;\n" : "=l"(policy));
  } else {
    FA_HOPPER_ASM("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;\n" : "=l"(policy));
  }
  return policy;
}

/// Tells the tensors of a kernel's parameter apart, for stamps.
__device__ inline std::uint32_t stamped_tensor(const TensorMap& map) {
  return reinterpret_cast<std::uintptr_t>(&map) / sizeof map % 32;
}

/// Begins to copy a box from a tensor to shared memory at a multiple of 1024 bytes; what lies
/// outside of the tensor is 0. The box begins at (col, row) of a head of a sequence; `col` is a
/// multiple of 8 (an H200 reports others as an illegal instruction). `barrier` counts the box's
/// bytes when they have arrived.
__device__ inline void tma_load(void* shared, const TensorMap& map, Mbarrier& barrier, int col,
                                int row, int head, int batch, CacheHint hint, SourceLocation = {}) {
  FA_STAMP(kLoad, barrier.address() >> 3 | stamped_tensor(map) << 15);
  if (hint == CacheHint::kEvictNormal) {
    FA_HOPPER_ASM(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile"
        ".mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
        "[%2];\n" ::"r"(shared_address(shared)),
        "l"(&map), "r"(barrier.address()), "r"(col), "r"(row), "r"(head), "r"(batch)
        : "memory");
  } else {
    FA_HOPPER_ASM(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile"
        ".mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1, {%3, %4, %5, %6}], [%2], %7;\n" ::"r"(shared_address(shared)),
        "l"(&map), "r"(barrier.address()), "r"(col), "r"(row), "r"(head), "r"(batch),
        "l"(cache_policy(hint))
        : "memory");
  }
}
/// The same from rows of one sequence, see ragged_map(): the box begins at row `row` of the map, and
/// what lies behind the sequence's last row is 0.
__device__ inline void tma_load(void* shared, const RaggedMap& map, Mbarrier& barrier, int col,
                                int row, int head, int end, CacheHint hint, SourceLocation = {}) {
  FA_STAMP(kLoad, barrier.address() >> 3 | stamped_tensor(map.map) << 15);
  if (hint == CacheHint::kEvictNormal) {
    FA_HOPPER_ASM(
        "cp.async.bulk.tensor.5d.shared::cluster.global.tile"
        ".mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], "
        "[%2];\n" ::"r"(shared_address(shared)),
        "l"(&map), "r"(barrier.address()), "r"(col), "r"(row), "r"(head), "r"(end), "r"(kRaggedRows)
        : "memory");
  } else {
    FA_HOPPER_ASM(
        "cp.async.bulk.tensor.5d.shared::cluster.global.tile"
        ".mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1, {%3, %4, %5, %6, %7}], [%2], %8;\n" ::"r"(shared_address(shared)),
        "l"(&map), "r"(barrier.address()), "r"(col), "r"(row), "r"(head), "r"(end),
        "r"(kRaggedRows), "l"(cache_policy(hint))
        : "memory");
  }
}
/// tma_load() to several blocks of the cluster, to the same address in the shared memory of each,
/// whose own barrier counts the bytes. Bit r of `blocks` is block r.
__device__ inline void tma_load_multicast(void* shared, const TensorMap& map, Mbarrier& barrier,
                                          int col, int row, int head, int batch, unsigned blocks,
                                          SourceLocation = {}) {
  FA_HOPPER_ASM(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile"
      ".mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%3, %4, %5, %6}], [%2], %7;\n" ::"r"(shared_address(shared)),
      "l"(&map), "r"(barrier.address()), "r"(col), "r"(row), "r"(head), "r"(batch),
      "h"(static_cast<std::uint16_t>(blocks))
      : "memory");
}
/// Begins to copy consecutive bytes of shared memory to block `rank` of the cluster. `to` and
/// `barrier` are given as addresses in this block; the other block's barrier counts the bytes.
/// Addresses and bytes are multiples of 16, here and in the functions below.
__device__ inline void bulk_copy_to_peer(void* to, const void* from, int bytes, Mbarrier& barrier,
                                         int rank, SourceLocation = {}) {
  FA_HOPPER_ASM(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
      "[%0], [%1], %2, [%3];\n" ::"r"(peer_address(to, rank)),
      "r"(shared_address(from)), "r"(bytes), "r"(peer_address(&barrier, rank))
      : "memory");
}
/// Begins to copy consecutive bytes from global to shared memory.
__device__ inline void bulk_load(void* shared, const void* global, int bytes, Mbarrier& barrier) {
  FA_STAMP(kLoadBytes, barrier.address() >> 3);
  FA_HOPPER_ASM(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1], %2, [%3];\n" ::"r"(shared_address(shared)),
      "l"(__cvta_generic_to_global(global)), "r"(bytes), "r"(barrier.address())
      : "memory");
}
/// Begins to copy a box from shared memory to a tensor, see tma_load(); what lies outside of the
/// tensor is not written. `col` and `row` are not negative.
__device__ inline void tma_store(const TensorMap& map, const void* shared, int col, int row,
                                 int head, int batch, SourceLocation = {}) {
  FA_STAMP(kStore, stamped_tensor(map) << 15);
  FA_HOPPER_ASM(
      "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group "
      "[%0, {%2, %3, %4, %5}], [%1];\n" ::"l"(&map),
      "r"(shared_address(shared)), "r"(col), "r"(row), "r"(head), "r"(batch)
      : "memory");
}
/// The same to rows of one sequence: what lies behind its last row is not written.
__device__ inline void tma_store(const RaggedMap& map, const void* shared, int col, int row,
                                 int head, int end, SourceLocation = {}) {
  FA_STAMP(kStore, stamped_tensor(map.map) << 15);
  FA_HOPPER_ASM(
      "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group "
      "[%0, {%2, %3, %4, %5, %6}], [%1];\n" ::"l"(&map),
      "r"(shared_address(shared)), "r"(col), "r"(row), "r"(head), "r"(end), "r"(kRaggedRows)
      : "memory");
}
/// Begins to copy consecutive floats from shared to global memory.
__device__ inline void bulk_store(float* global, const float* shared, int bytes) {
  FA_STAMP(kStoreFloats, 0);
  FA_HOPPER_ASM("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n" ::"l"(
                    __cvta_generic_to_global(global)),
                "r"(shared_address(shared)), "r"(bytes)
                : "memory");
}
/// Begins to add consecutive floats in shared memory to as many in global memory, each atomically.
__device__ inline void bulk_add(float* global, const float* shared, int bytes) {
  FA_STAMP(kStoreFloats, 0);
  FA_HOPPER_ASM(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 "
      "[%0], [%1], %2;\n" ::"l"(__cvta_generic_to_global(global)),
      "r"(shared_address(shared)), "r"(bytes)
      : "memory");
}
/// Closes the group of the stores and additions that this thread has begun since the last one.
__device__ inline void bulk_commit() {
  FA_HOPPER_ASM("cp.async.bulk.commit_group;\n" ::: "memory");
}
/// Waits until at most so many groups of this thread still read shared memory.
template <int pending>
__device__ void bulk_wait_read() {
  FA_STAMP(kWaitStores, pending);
  FA_HOPPER_ASM("cp.async.bulk.wait_group.read %0;\n" ::"n"(pending) : "memory");
  FA_STAMP(kEnd, 0);
}
/// Waits until at most so many groups of this thread are in flight.
template <int pending>
__device__ void bulk_wait() {
  FA_STAMP(kWaitStores, pending);
  FA_HOPPER_ASM("cp.async.bulk.wait_group %0;\n" ::"n"(pending) : "memory");
  FA_STAMP(kEnd, 0);
}
/// Fetches a map before it is needed.
__device__ inline void prefetch_map(const TensorMap& map) {
  FA_HOPPER_ASM("prefetch.tensormap [%0];\n" ::"l"(&map) : "memory");
}

/// Stores four 8x8 matrices of 16-bit elements to shared memory, the inverse of ldmatrix_x4()
/// (stmatrix, sm_90). Lane i gives the address of row i % 8 of matrix i / 8.
__device__ inline void stmatrix_x4(void* row, const std::uint32_t (&r)[4]) {
  FA_HOPPER_ASM(
      "stmatrix.sync.aligned.m8n8.x4.shared::cta.b16 [%0], "
      "{%1, %2, %3, %4};\n" ::"r"(shared_address(row)),
      "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
      : "memory");
}
/// The same with each matrix transposed, the inverse of ldmatrix_x4_transposed().
__device__ inline void stmatrix_x4_transposed(void* row, const std::uint32_t (&r)[4]) {
  FA_HOPPER_ASM(
      "stmatrix.sync.aligned.m8n8.x4.trans.shared::cta.b16 [%0], "
      "{%1, %2, %3, %4};\n" ::"r"(shared_address(row)),
      "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
      : "memory");
}

/// Keeps the compiler from moving what touches these registers over this point: it cannot see that
/// wgmma reads and writes them later. They are an array of float or std::uint32_t, or of such
/// arrays.
template <class R, int n>
__device__ void fence_operand(R (&registers)[n]) {
#pragma unroll
  for (int i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<R, float>) {
      asm volatile("" : "+f"(registers[i])::"memory");
    } else if constexpr (std::is_same_v<R, std::uint32_t>) {
      asm volatile("" : "+r"(registers[i])::"memory");
    } else {
      fence_operand(registers[i]);
    }
  }
}

/// Keeps the compiler from computing addresses and descriptors from a pointer before this point:
/// in a loop it would keep dozens of them in registers.
template <class T>
__device__ void fence_address(T*& pointer) {
  asm volatile("" : "+l"(pointer));
}

/// Before the first wgmma that uses these registers after other instructions did: accumulators, and
/// left operands in registers. CUTLASS: warpgroup_arrive() and warpgroup_fence_operand().
template <class... Registers>
__device__ void wgmma_fence(Registers&... registers) {
  (fence_operand(registers), ...);
  FA_WGMMA_ASM("wgmma.fence.sync.aligned;\n" ::: "memory");
}
/// Closes the group of the wgmma issued since the last one. No thread may touch their registers
/// until wgmma_wait().
template <class... Registers>
__device__ void wgmma_commit(Registers&... registers) {
  FA_WGMMA_ASM("wgmma.commit_group.sync.aligned;\n" ::: "memory");
  FA_STAMP(kCommit, 0);
  (fence_operand(registers), ...);
}
/// Waits until at most `pending` groups are in flight; `registers` are those of the groups that
/// have ended then.
template <int pending, class... Registers>
__device__ void wgmma_wait(Registers&... registers) {
  FA_STAMP(kWaitMatmuls, pending);
  FA_WGMMA_ASM("wgmma.wait_group.sync.aligned %0;\n" ::"n"(pending) : "memory");
  FA_STAMP(kEnd, 0);
  (fence_operand(registers), ...);
}

/// @cond the text of instructions
// The text of wgmma with n / 2 accumulators a thread. The registers of an instruction are named one
// by one, so it takes macros: FA_R8_i are the numbers of eight operands in the text, FA_D8(i) the
// operands themselves.
#define FA_R8_0 "%0, %1, %2, %3, %4, %5, %6, %7"
#define FA_R8_1 "%8, %9, %10, %11, %12, %13, %14, %15"
#define FA_R8_2 "%16, %17, %18, %19, %20, %21, %22, %23"
#define FA_R8_3 "%24, %25, %26, %27, %28, %29, %30, %31"
#define FA_R8_4 "%32, %33, %34, %35, %36, %37, %38, %39"
#define FA_R8_5 "%40, %41, %42, %43, %44, %45, %46, %47"
#define FA_R8_6 "%48, %49, %50, %51, %52, %53, %54, %55"
#define FA_R8_7 "%56, %57, %58, %59, %60, %61, %62, %63"
#define FA_R8_8 "%64, %65, %66, %67, %68, %69, %70, %71"
#define FA_R8_9 "%72, %73, %74, %75, %76, %77, %78, %79"
#define FA_R8_10 "%80, %81, %82, %83, %84, %85, %86, %87"
#define FA_R8_11 "%88, %89, %90, %91, %92, %93, %94, %95"
#define FA_R8_12 "%96, %97, %98, %99, %100, %101, %102, %103"
#define FA_R8_13 "%104, %105, %106, %107, %108, %109, %110, %111"
#define FA_R8_14 "%112, %113, %114, %115, %116, %117, %118, %119"
#define FA_R8_15 "%120, %121, %122, %123, %124, %125, %126, %127"
#define FA_R16 FA_R8_0 ", " FA_R8_1
#define FA_R24 FA_R16 ", " FA_R8_2
#define FA_R32 FA_R24 ", " FA_R8_3
#define FA_R40 FA_R32 ", " FA_R8_4
#define FA_R48 FA_R40 ", " FA_R8_5
#define FA_R56 FA_R48 ", " FA_R8_6
#define FA_R64 FA_R56 ", " FA_R8_7
#define FA_R72 FA_R64 ", " FA_R8_8
#define FA_R80 FA_R72 ", " FA_R8_9
#define FA_R88 FA_R80 ", " FA_R8_10
#define FA_R96 FA_R88 ", " FA_R8_11
#define FA_R128 FA_R96 ", " FA_R8_12 ", " FA_R8_13 ", " FA_R8_14 ", " FA_R8_15
#define FA_D8(i)                                                                              \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define FA_D16 FA_D8(0), FA_D8(8)
#define FA_D24 FA_D16, FA_D8(16)
#define FA_D32 FA_D24, FA_D8(24)
#define FA_D40 FA_D32, FA_D8(32)
#define FA_D48 FA_D40, FA_D8(40)
#define FA_D56 FA_D48, FA_D8(48)
#define FA_D64 FA_D56, FA_D8(56)
#define FA_D72 FA_D64, FA_D8(64)
#define FA_D80 FA_D72, FA_D8(72)
#define FA_D88 FA_D80, FA_D8(80)
#define FA_D96 FA_D88, FA_D8(88)
#define FA_D128 FA_D96, FA_D8(96), FA_D8(104), FA_D8(112), FA_D8(120)

// wgmma with both operands in shared memory, and with A in registers, for n columns, r = n / 2
// accumulators and a type. A0 to A6 are the numbers of the operands after the accumulators.
#define FA_WGMMA_SHARED(n, r, type, A0, A1, A2, A3, A4)                                        \
  FA_WGMMA_ASM("{\n.reg .pred adds;\nsetp.ne.b32 adds, %" #A2                                  \
               ", 0;\n"                                                                        \
               "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" FA_R##r    \
               "}, %" #A0 ", %" #A1 ", adds, 1, 1, %" #A3 ", %" #A4 ";\n}\n"                   \
               : FA_D##r                                                                       \
               : "l"(a.bits()), "l"(b.bits()), "r"(static_cast<int>(adds)), "n"(transposed_a), \
                 "n"(transposed_b))
#define FA_WGMMA_REGISTERS(n, r, type, A0, A1, A2, A3, A4, A5, A6)                                 \
  FA_WGMMA_ASM("{\n.reg .pred adds;\nsetp.ne.b32 adds, %" #A5                                      \
               ", 0;\n"                                                                            \
               "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" FA_R##r        \
               "}, {%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #A4 ", adds, 1, 1, %" #A6 ";\n}\n" \
               : FA_D##r                                                                           \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.bits()),                        \
                 "r"(static_cast<int>(adds)), "n"(transposed_b))
// The same with operands of 8 bits, which are never transposed.
#define FA_WGMMA_SHARED_8(n, r, type, A0, A1, A2, A3, A4, A5, A6)                           \
  FA_WGMMA_ASM("{\n.reg .pred adds;\nsetp.ne.b32 adds, %" #A2                               \
               ", 0;\n"                                                                     \
               "wgmma.mma_async.sync.aligned.m64n" #n "k32.f32." type "." type " {" FA_R##r \
               "}, %" #A0 ", %" #A1 ", adds, 1, 1;\n}\n"                                    \
               : FA_D##r                                                                    \
               : "l"(a.bits()), "l"(b.bits()), "r"(static_cast<int>(adds)))
#define FA_WGMMA_REGISTERS_8(n, r, type, A0, A1, A2, A3, A4, A5, A6)                        \
  FA_WGMMA_ASM("{\n.reg .pred adds;\nsetp.ne.b32 adds, %" #A5                               \
               ", 0;\n"                                                                     \
               "wgmma.mma_async.sync.aligned.m64n" #n "k32.f32." type "." type " {" FA_R##r \
               "}, {%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #A4 ", adds, 1, 1;\n}\n"    \
               : FA_D##r                                                                    \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.bits()),                 \
                 "r"(static_cast<int>(adds)))
// Calls what(n, r, type, operand numbers) for the sizes that kernels use.
#define FA_WGMMA_SIZES(WHAT, type)                                           \
  if constexpr (r == 16) WHAT(32, 16, type, 16, 17, 18, 19, 20, 21, 22);     \
  if constexpr (r == 24) WHAT(48, 24, type, 24, 25, 26, 27, 28, 29, 30);     \
  if constexpr (r == 32) WHAT(64, 32, type, 32, 33, 34, 35, 36, 37, 38);     \
  if constexpr (r == 40) WHAT(80, 40, type, 40, 41, 42, 43, 44, 45, 46);     \
  if constexpr (r == 48) WHAT(96, 48, type, 48, 49, 50, 51, 52, 53, 54);     \
  if constexpr (r == 56) WHAT(112, 56, type, 56, 57, 58, 59, 60, 61, 62);    \
  if constexpr (r == 64) WHAT(128, 64, type, 64, 65, 66, 67, 68, 69, 70);    \
  if constexpr (r == 72) WHAT(144, 72, type, 72, 73, 74, 75, 76, 77, 78);    \
  if constexpr (r == 80) WHAT(160, 80, type, 80, 81, 82, 83, 84, 85, 86);    \
  if constexpr (r == 88) WHAT(176, 88, type, 88, 89, 90, 91, 92, 93, 94);    \
  if constexpr (r == 96) WHAT(192, 96, type, 96, 97, 98, 99, 100, 101, 102); \
  if constexpr (r == 128) WHAT(256, 128, type, 128, 129, 130, 131, 132, 133, 134)
#define FA_WGMMA_SHARED_OF(n, r, type, A0, A1, A2, A3, A4, A5, A6) \
  FA_WGMMA_SHARED(n, r, type, A0, A1, A2, A3, A4)
/// @endcond

template <Major, int>
struct MatrixDescriptor;

/// Begins d += A B, or d = A B, for a warpgroup (wgmma, sm_90a): A 64 x 16, B 16 x 2r, d 64 x 2r in
/// float32. With warp the one of four and g = lane / 4, t = lane % 4, a lane holds in d[4 j + 2 h +
/// e] element (16 warp + 8 h + g, 8 j + 2 t + e).
/// T is half, bfloat16 or e4m3; with e4m3 A is 64 x 32, B 32 x 2r, both are of Major::kK, and d has
/// fewer correct bits than float32. No thread may touch d before wgmma_wait().
template <class T, int r, Major major_a, int panel_a, Major major_b, int panel_b>
__device__ void wgmma(float (&d)[r], const MatrixDescriptor<major_a, panel_a>& a,
                      const MatrixDescriptor<major_b, panel_b>& b, bool adds) {
  static_assert(wgmma_takes(r), "32 to 192 columns by 16, or 256");
  [[maybe_unused]] constexpr int transposed_a = major_a == Major::kMN;
  [[maybe_unused]] constexpr int transposed_b = major_b == Major::kMN;
  if constexpr (std::is_same_v<T, e4m3>) {
    static_assert(major_a == Major::kK && major_b == Major::kK);
    FA_WGMMA_SIZES(FA_WGMMA_SHARED_8, "e4m3");
  } else if constexpr (std::is_same_v<T, half>) {
    FA_WGMMA_SIZES(FA_WGMMA_SHARED_OF, "f16");
  } else {
    FA_WGMMA_SIZES(FA_WGMMA_SHARED_OF, "bf16");
  }
}
/// The same with A in registers, 16 columns of a warpgroup's 64 rows: as a[4] of mma_m16n8k16() in
/// each warp. Of 32 columns of e4m3 a lane has four neighbours in each register: a[0] columns 4 t to
/// 4 t + 3 of row g, a[1] of row g + 8, a[2] and a[3] the same 16 columns further on.
template <class T, int r, Major major_b, int panel_b>
__device__ void wgmma(float (&d)[r], const std::uint32_t (&a)[4],
                      const MatrixDescriptor<major_b, panel_b>& b, bool adds) {
  static_assert(wgmma_takes(r), "32 to 192 columns by 16, or 256");
  [[maybe_unused]] constexpr int transposed_b = major_b == Major::kMN;
  if constexpr (std::is_same_v<T, e4m3>) {
    static_assert(major_b == Major::kK);
    FA_WGMMA_SIZES(FA_WGMMA_REGISTERS_8, "e4m3");
  } else if constexpr (std::is_same_v<T, half>) {
    FA_WGMMA_SIZES(FA_WGMMA_REGISTERS, "f16");
  } else {
    FA_WGMMA_SIZES(FA_WGMMA_REGISTERS, "bf16");
  }
}

}  // namespace fa::FA_TARGET
