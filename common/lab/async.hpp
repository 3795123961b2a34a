/// @file
/// What kernels for Hopper and Blackwell call: mbarriers, named barriers, copies by TMA, wgmma,
/// tcgen05. Each function stands for the one of common/gpu/hopper.cuh or blackwell.cuh that it
/// names, and ends the launch with a std::runtime_error for what PTX does not allow.
///
/// Asynchronous operations happen at the latest moment that a GPU allows: what a kernel forgets to
/// wait for never arrives in time.
#pragma once

#include <cstdint>

#include "common/lab/bulk_copy.hpp"
#include "common/lab/tensor_memory.hpp"
#include "common/lab/wgmma.hpp"

namespace fa::lab {

/// Mbarrier::init()
void init_barrier(void* barrier, int arrivals, const SourceLocation& location);
/// Mbarrier::arrive_and_expect(); for more see Mbarriers::arrive()
std::uint32_t arrive_at_barrier(void* barrier, std::int64_t bytes, const SourceLocation& location,
                                int count = 1, bool drops = false);
/// Mbarrier::wait()
void wait_at_barrier(void* barrier, int parity, const SourceLocation& location);
/// @{ See Mbarriers: what PTX has beside.
void expect_at_barrier(void* barrier, std::int64_t bytes, const SourceLocation& location);
bool test_barrier(void* barrier, int parity, const SourceLocation& location);
void invalidate_barrier(void* barrier);
/// @}
/// fence_barrier_init()
void fence_barriers();
/// fence_async_proxy()
void fence_async();
/// fence_async_proxy_global()
void fence_async_global();
/// named_barrier_wait() and, without `waits`, named_barrier_arrive()
void named_barrier(int id, int threads, bool waits, const SourceLocation& location);
/// setmaxnreg_dec() and setmaxnreg_inc()
void set_registers(int registers, const SourceLocation& location);

/// tma_load(), bulk_load(): a copy (kLoadBox, kLoadBytes) that reports its bytes to an mbarrier.
void begin_load(const BulkCopy& copy, void* barrier);
/// The same for kLoadBox or kPeerBytes, to the same place in several blocks of the cluster, in each
/// of which the mbarrier has the same place, too. Bit r of `blocks` is block r.
void begin_multicast(const BulkCopy& copy, void* barrier, unsigned blocks);
/// tma_store(), bulk_store(), bulk_add()
void begin_store(const BulkCopy& copy);
/// bulk_commit()
void commit_stores();
/// bulk_wait_read() and, with `arrived`, bulk_wait()
void wait_stores(int pending, bool arrived);

/// wgmma_fence() for some registers; null: for all
void fence_registers(void* registers);
/// wgmma(): called by all lanes, as are the next two.
void begin_wgmma(const WgmmaShape& shape, const WgmmaLane& lane, const SourceLocation& location);
/// wgmma_commit()
void commit_wgmma();
/// wgmma_wait()
void wait_wgmma(int pending);

/// tcgen05_alloc(): called by all lanes of a warp, as are the next two, and those below that move
/// or wait.
void allocate_tensor_memory(std::uint32_t* address, int columns, const SourceLocation& location);
/// tcgen05_dealloc()
void free_tensor_memory(std::uint32_t address, int columns, const SourceLocation& location);
/// tcgen05_relinquish_alloc_permit()
void relinquish_tensor_memory(const SourceLocation& location);
/// tcgen05_mma(): called by one thread, as is the next one.
void begin_tensor_matmul(const TensorMatmul& matmul, const SourceLocation& location);
/// tcgen05_commit()
void commit_tensor_matmuls(void* barrier, const SourceLocation& location);
/// tcgen05_ld(), or tcgen05_st() with `stores`, of so many columns.
void move_tensor_memory(const TensorLane& lane, int columns, bool stores,
                        const SourceLocation& location);
/// tcgen05_wait_ld(), or tcgen05_wait_st()
void wait_tensor_memory(bool stores, const SourceLocation& location);
/// tcgen05_fence_before() or tcgen05_fence_after()
void fence_tensor_memory(bool before);

/// The offset of something in dynamic shared memory.
/// @throws std::runtime_error for what is not there
std::uint32_t shared_offset(const void* pointer);
/// The same for an operand of wgmma, which must be at a multiple of 16 bytes: see misaligned().
std::uint32_t operand_offset(const void* pointer, const SourceLocation& location);

}  // namespace fa::lab
