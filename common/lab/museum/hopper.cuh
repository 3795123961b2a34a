// The instructions of Hopper that pieces of the museum use. They are macros, so that a checker names the
// line of the piece.
#pragma once

#include <cstdint>

// An address in shared memory, as these instructions take it.
#define SMEM(p) static_cast<unsigned>(__cvta_generic_to_shared(p))

// mbarriers: init, and what makes it visible to the async proxy and the cluster; arrive, also with bytes
// that a copy will add; wait for the end of a phase by its parity.
#define MBARRIER_INIT(barrier, arrivals)                              \
  asm volatile(                                                       \
      "mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SMEM(barrier)), \
      "r"(arrivals)                                                   \
      : "memory")
#define FENCE_MBARRIER_INIT() \
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory")
#define MBARRIER_ARRIVE(barrier)                                      \
  asm volatile(                                                       \
      "mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(SMEM(barrier)) \
      : "memory")
#define MBARRIER_EXPECT(barrier, bytes)                               \
  asm volatile(                                                       \
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"( \
          SMEM(barrier)),                                             \
      "r"(static_cast<unsigned>(bytes))                               \
      : "memory")
#define MBARRIER_WAIT(barrier, parity)                                     \
  for (unsigned museum_done = 0; museum_done == 0;)                        \
  asm volatile(                                                            \
      "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], " \
      "%2; selp.b32 %0, 1, "                                               \
      "0, p; }"                                                            \
      : "=r"(museum_done)                                                  \
      : "r"(SMEM(barrier)), "r"(static_cast<unsigned>(parity))             \
      : "memory")

// Bulk copies: TMA without a tensor map.
#define BULK_LOAD(to, from, bytes, barrier)                                \
  asm volatile(                                                            \
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes " \
      "[%0], [%1], %2, [%3];" ::"r"(SMEM(to)),                             \
      "l"(from), "r"(static_cast<unsigned>(bytes)), "r"(SMEM(barrier))     \
      : "memory")
#define BULK_STORE(to, from, bytes)                                        \
  asm volatile(                                                            \
      "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"( \
          to),                                                             \
      "r"(SMEM(from)), "r"(static_cast<unsigned>(bytes))                   \
      : "memory")
#define BULK_COMMIT() asm volatile("cp.async.bulk.commit_group;" ::: "memory")
#define BULK_WAIT_READ() \
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory")
#define BULK_WAIT() asm volatile("cp.async.bulk.wait_group 0;" ::: "memory")
#define FENCE_PROXY_ASYNC() \
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory")

// Named barriers: of `threads` in all.
#define NAMED_SYNC(id, threads) \
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory")
#define NAMED_ARRIVE(id, threads) \
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory")

// Blocks of a cluster: all threads of all of them meet; where a variable of another one is.
#define CLUSTER_SYNC()                                                     \
  asm volatile(                                                            \
      "barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;" :: \
          : "memory")
template <class T>
__device__ T* of_block(T* variable, int rank) {
  T* result;
  asm volatile("mapa.u64 %0, %1, %2;"
               : "=l"(result)
               : "l"(variable), "r"(rank));
  return result;
}

// 64 x 8 sums in four registers a thread += 64 x 16 halfs in four registers x the tile of a descriptor:
// that of 8 rows of 64 halfs with a swizzle of 128 bytes.
#define WGMMA_FENCE() asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define WGMMA_COMMIT() \
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define WGMMA_WAIT() \
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory")
#define WGMMA(sums, a, b)                                                    \
  asm volatile(                                                              \
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, " \
      "{%4, %5, %6, %7}, "                                                   \
      "%8, 1, 1, 1, 0;"                                                      \
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])           \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
__device__ inline std::uint64_t descriptor(const void* tile) {
  return (SMEM(tile) & 0x3ffffu) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}
