/// @file
/// The lab: runs CUDA kernels on the CPU, one fiber for each CUDA thread. A block stays on one
/// thread of the operating system, so its shared memory is thread-local there; blocks are spread
/// over threads.
///
/// Kernels do not include this file: common/gpu/kernel.cuh makes ordinary CUDA source mean it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/gpu/device.hpp"
#include "common/lab/observer.hpp"
#include "common/lab/thread.hpp"

namespace fa::lab {

/// @name The host's side
/// @{

/// Runs a kernel: calls `kernel`, its arguments bound, once for each thread of the grid. The sizes
/// must fit the limits of a GPU.
/// @param stream see new_stream()
/// @return registers of a thread that each warp of block 0 asked for by set_registers(), 0 for one
/// that did not; empty when none did
/// @throws std::runtime_error for a deadlock, a crash, an endless loop, and what PTX does not allow
std::vector<int> run(const Launch& launch, const std::function<void()>& kernel,
                     std::uint64_t stream = 0);

/// The same; what the kernel takes is recorded where fa::noted_resources() says.
/// @param function the kernel's address
/// @throws std::runtime_error when it is observed and has too much static shared memory, too
void run_noted(const Launch& launch, const void* function, const std::function<void()>& kernel,
               std::uint64_t stream);

/// The lab as a device, with as much shared memory as the largest GPU of the course.
DeviceProperties properties();

/// The number of a new stream. 0 is the default stream, which waits for all others, and for which
/// they wait. A launch has ended when run() returns; only an observer keeps streams apart.
std::uint64_t new_stream();
/// The host waits for all launches on a stream; 0: on all of them.
void synchronize(std::uint64_t stream = 0);

/// SMs that the lab reports: as many as the threads of the operating system that run its blocks.
/// While a launch is recorded it is 1 and while it is observed 2, so that what is seen does not
/// depend on the number of cores.
int sm_count();

/// Memory of the device, see map_memory().
/// @throws std::runtime_error when there is not enough
void* allocate(std::size_t bytes);
/// Frees memory of the device; null is nothing.
void release(void* memory);
/// Copies bytes from the host to memory of the device.
void upload(void* to, const void* from, std::size_t bytes);
/// Copies bytes from memory of the device to the host.
void download(void* to, const void* from, std::size_t bytes);
/// Sets each byte of memory of the device. With `unwritten` the memory counts as never written.
void fill(void* memory, int byte, std::size_t bytes, bool unwritten);
/// @}

/// @name What a kernel's threads call
/// @{

/// The dynamic shared memory of this thread's block, aligned to 1024 bytes, all bytes 0xff (NaN) at
/// first.
void* dynamic_shared();

/// __syncthreads()
void sync_block(const SourceLocation& location);
/// cluster_arrive()
void arrive_at_cluster(const SourceLocation& location);
/// cluster_wait()
void wait_at_cluster(const SourceLocation& location);
/// Where something in this block's dynamic shared memory lies in another block of its cluster.
/// @throws std::runtime_error for other memory, and where there is no such block
void* peer_shared(const void* pointer, int rank, const SourceLocation& location);

/// __syncwarp()
void sync_warp(unsigned mask, const SourceLocation& location);
/// The most that a lane can bring to exchange().
inline constexpr std::size_t kDepositSize = 48;
/// What the lanes of a mask have brought.
struct Deposits {
  unsigned lanes = 0;  ///< that have: of the mask those that exist and have not returned
  alignas(16) std::array<std::byte, kWarpSize * kDepositSize> bytes;  ///< by lane
};
/// Waits until all lanes of a mask have brought as many bytes, at most kDepositSize, and gives all
/// of them to each. Lanes that do not exist or have returned are not waited for.
/// @return valid until this lane's next exchange but one
const Deposits& exchange(unsigned mask, const void* bytes, std::size_t size,
                         const SourceLocation& location);
/// A shuffle that takes the value of a lane that is not in its mask, does not exist or has
/// returned: a finding.
void absent_source(unsigned mask, int source, const SourceLocation& location);
/// Not all lanes of the warp take part in an operation that needs them: a finding.
/// @throws std::runtime_error without an observer
void missing_lanes(unsigned lanes, const SourceLocation& location);

/// cp.async: its destination in shared memory holds 0xff until it is waited for. A source of null
/// fills with zeros.
void copy_async(void* destination, const void* source, std::size_t size,
                const SourceLocation& location);
/// cp.async.commit_group
void commit_copies();
/// cp.async.wait_group: performs this thread's groups but the `pending` youngest.
void wait_copies(int pending);

/// __threadfence(), or __threadfence_block().
void fence_memory(bool for_all_blocks = true);
/// grid_dependency_wait()
void wait_for_grids();
/// Reads a flag that another thread may change: a load, or an atomic that adds 0. A thread that
/// reads the same flag again lets the other threads run, as a GPU does.
/// @throws std::runtime_error when only such reads are left, so that no thread can change a flag
void poll(const void* flag, const SourceLocation& location);
/// The same for a loop of loads that an observer has noticed.
void yield_from_loop();

/// Reports an access that stands for one instruction of a GPU. Plain loads and stores are seen by
/// the compiler's instrumentation.
void note_access(const void* address, std::size_t size, bool write, const SourceLocation& location);
/// An access of so many bytes that is one instruction of a GPU, at an address that is not a
/// multiple of them: a finding.
/// @throws std::runtime_error without an observer
void misaligned(const void* address, std::size_t size, const SourceLocation& location);
/// The message about such an access of the running thread.
std::string misaligned_text(const void* address, std::size_t size);
/// What a lane brings to a matmul of its warp, in the order of its registers; of TF32 half as much.
struct Fragments {
  float a[8];  ///< of the left operand
  float b[4];  ///< of the right one
};
/// Those of mma.m16n8k16: two elements, of float16 or bfloat16, in a register.
Fragments fragments_of_pairs(const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                             bool is_half);
/// Those of mma.m16n8k8. Tensor cores read the upper 19 bits of what should be a TF32 number. Where
/// the others are not 0 it is a finding.
Fragments fragments_of_tf32(const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                            const SourceLocation& location);
/// Adds to the running lane's sums what mma.m16n8k16 does: products in the order of k.
void add_products(const Deposits& fragments, float (&sums)[4]);
/// The same of mma.m16n8k8, to the last bit as an H200 computes it. The products of a sum are exact;
/// they and what it was are shifted to the largest exponent among them, cut off 25 bits behind it,
/// and added; the sum is cut off to float32. A product's exponent is the sum of its operands' ones.
void add_tf32_products(const Deposits& fragments, float (&sums)[4]);
/// @}

}  // namespace fa::lab
