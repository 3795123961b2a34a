/// @file
/// The lab: runs CUDA kernels on the CPU, one fiber for each CUDA thread. A block stays on one
/// thread of the operating system, so its shared memory is thread-local there; blocks are spread
/// over threads.
///
/// Kernels do not include this file: common/gpu/kernel.cuh makes ordinary CUDA source mean it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/gpu/launch_sizes.hpp"

namespace fa::lab {

/// Threads in a warp.
inline constexpr int kWarpSize = 32;
/// A line of the source, for messages.
struct SourceLocation {
  const char* file = "";  ///< name of the file, as the compiler was given it
  int line = 0;           ///< counted from 1
};
/// @cond Doxygen takes the attribute for a variable
/// The line that calls a function which has this as a default argument.
__attribute__((always_inline)) constexpr SourceLocation caller_location(
    const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return {file, line};
}
/// @endcond

/// What a kernel can ask about its own thread.
struct Thread {
  Size index{0, 0, 0};        ///< threadIdx
  Size block_index{0, 0, 0};  ///< blockIdx
  Size block_size;            ///< blockDim
  Size grid_size;             ///< gridDim
  int number = 0;             ///< in the block, x fastest
  int lane = 0;               ///< in the warp
  int rank = 0;               ///< of the block in its cluster
  int place = 0;              ///< in the cluster, block after block
};

/// The thread that runs now; null outside kernels. (__thread: read without a call.)
extern __thread const Thread* current;

/// Runs a kernel: calls `kernel` once for each thread of the grid.
/// @param launch sizes, which must fit the limits of a GPU
/// @param kernel its arguments bound
/// @return registers of a thread that each warp of block 0 asked for by set_registers(), 0 for one
/// that did not; empty when none did
/// @throws std::runtime_error for a deadlock: threads wait for others that never come
std::vector<int> run(const Launch& launch, const std::function<void()>& kernel);

/// The dynamic shared memory of this thread's block, aligned to 1024 bytes, all bytes 0xff (NaN) at
/// first.
void* dynamic_shared();

/// __syncthreads: waits for all threads of the block that have not ended.
void sync_block(const SourceLocation& location);

/// cluster_arrive(): comes to the barrier of all threads of the cluster that have not ended.
void arrive_at_cluster(const SourceLocation& location);
/// cluster_wait(): waits until all of them have come.
void wait_at_cluster(const SourceLocation& location);
/// Where something in this block's dynamic shared memory lies in another block of its cluster.
/// @throws std::runtime_error for other memory, and where there is no such block
void* peer_shared(const void* pointer, int rank, const SourceLocation& location);

/// __syncwarp: waits for all lanes of the mask, and orders their memory.
void sync_warp(unsigned mask, const SourceLocation& location);

/// Waits until all lanes of a mask have come with as many bytes, and gives all of them to each.
/// @param mask  lanes that take part; this lane is one of them
/// @param bytes what this lane brings
/// @param size  at most kDepositSize
/// @param location for messages
/// @return 32 deposits of kDepositSize bytes, by lane; valid until this lane's next exchange but
/// one
const std::byte* exchange(unsigned mask, const void* bytes, std::size_t size,
                          const SourceLocation& location);
/// The most that a lane can bring to exchange().
inline constexpr std::size_t kDepositSize = 32;

/// The lanes that this warp was launched with: fewer than 32 in the last warp of an odd block.
unsigned existing_lanes();

/// Queues an asynchronous copy; its destination holds 0xff until it is waited for.
/// @param destination in shared memory
/// @param source null fills with zeros
/// @param size   bytes
/// @param location  for messages
void copy_async(void* destination, const void* source, std::size_t size,
                const SourceLocation& location);
/// Closes the group of the copies queued since the last one.
void commit_copies();
/// Performs the groups of this thread but the `pending` youngest, 0 or more.
void wait_copies(int pending);

/// __threadfence()
void fence_memory();
/// grid_dependency_wait()
void wait_for_grids();
/// What a thread does to a counter in global memory.
enum class CounterUse {
  kAdd,         ///< atomicAdd() on an integer
  kAddAcquire,  ///< atomic_add_acquire()
  kLoadAcquire  ///< load_acquire()
};
/// Tells an observer of a counter that is changed or read.
void note_counter(const void* counter, CounterUse use);

/// Reads a flag that another thread may change: a load, or an atomic that adds 0. A thread that
/// reads the same flag again lets the other threads run, as a GPU does.
/// @throws std::runtime_error when only such reads are left, so that no thread can change a flag
void poll(const void* flag, const SourceLocation& location);
/// The same for a loop of loads that an observer has noticed.
void yield_from_loop();

/// An access of so many bytes that is one instruction of a GPU, at an address that is not a
/// multiple of them: a finding for an observer.
/// @throws std::runtime_error without an observer
void misaligned(const void* address, std::size_t size, const SourceLocation& location);
/// The message about such an access of the running thread.
std::string misaligned_text(const void* address, std::size_t size);
/// A shuffle that takes the value of a lane outside of its mask: a finding for an observer.
void absent_source(unsigned mask, int source, const SourceLocation& location);
/// What tensor cores read of an operand that should be a TF32 number: its upper 19 bits. Where the
/// others are not 0 it is a finding for an observer.
std::uint32_t tf32_operand(std::uint32_t bits, const SourceLocation& location);
/// c + the sum of a[k] b[k] to the last bit as an H200 computes it. The products are exact; they and
/// c are shifted to the largest exponent among them, cut off 25 bits behind it, and added; the sum
/// is cut off to float32. A product's exponent is the sum of its operands' ones.
/// @param a, b TF32 numbers
float tf32_sum(float c, const float (&a)[8], const float (&b)[8]);

/// SMs that the lab reports: as many as the threads of the operating system that run its blocks.
/// While a launch is recorded it is 1 and while it is observed 2, so that what is seen does not
/// depend on the number of cores.
int sm_count();

/// Memory of the device: aligned to 4096 bytes, with as much unused room on either side.
/// @throws std::runtime_error when there is not enough
void* allocate(std::size_t bytes);
/// Gives memory of the device back; null is nothing.
void release(void* memory);
/// Copies bytes from the host to memory of the device.
void upload(void* to, const void* from, std::size_t bytes);
/// Sets bytes of memory of the device.
/// @param memory of the device
/// @param byte   for each byte
/// @param bytes  how many
/// @param means_nothing the memory counts as never written
void fill(void* memory, int byte, std::size_t bytes, bool means_nothing);
/// Tells the observer of an access that stands for one instruction of a GPU. Plain loads and stores
/// need no such word.
void note_access(const void* address, std::size_t size, bool write, const SourceLocation& location);

/// Who uses shared memory beside the threads.
enum class AsyncUse {
  kCopy,      ///< a copy to it: tma_load(), bulk_load()
  kStore,     ///< a copy from it: tma_store(), bulk_store(), bulk_add()
  kPeerCopy,  ///< a copy from it to another block of the cluster
  kProduct,   ///< wgmma()
};

/// What watches a launch (watch.hpp). Launches then use one thread of the operating system.
class Observer {
 public:
  virtual ~Observer() = default;
  /// Memory of the device came.
  virtual void allocated(const void* memory, std::size_t bytes) = 0;
  /// The host wrote memory of the device; or it declared it unwritten.
  virtual void host_wrote(const void* memory, std::size_t bytes, bool means_nothing) = 0;
  /// Memory of the device went.
  virtual void released(const void* memory) = 0;
  /// A launch begins.
  virtual void launch_begins(const Launch& launch) = 0;
  /// A block begins; its dynamic shared memory is unwritten, as is all other shared memory. The
  /// blocks of a cluster begin together, in their order.
  virtual void block_begins(const Thread& first, const void* dynamic,
                            std::size_t dynamic_bytes) = 0;
  /// All lanes of a warp have come to a point that all must pass.
  virtual void warp_meets(const Thread& last, unsigned mask, bool orders_memory) = 0;
  /// All threads of a block have come to a barrier.
  /// @param first      where one of them stands
  /// @param second     where another one stands, in another line if there is one
  /// @param same_line  false when they stand in different lines
  /// @param ended      threads that have ended and will not come
  virtual void block_meets(const SourceLocation& first, const SourceLocation& second,
                           bool same_line, int ended) = 0;
  /// A thread has ended.
  virtual void thread_ends(const Thread& thread) = 0;
  /// All threads of a block have ended.
  virtual void block_exits(const Thread& last) = 0;
  /// A block, or all blocks of a cluster, have ended.
  virtual void block_ends() = 0;
  /// A thread reads or writes memory.
  virtual void accesses(const void* address, std::size_t size, bool write,
                        const SourceLocation& location) = 0;
  /// An asynchronous copy is queued; until it is done its destination must not be read.
  virtual void copy_begins(const void* destination, std::size_t size,
                           const SourceLocation& location) = 0;
  /// An asynchronous copy is done.
  virtual void copy_ends(const void* destination, std::size_t size,
                         const SourceLocation& location) = 0;
  /// An mbarrier is initialised.
  virtual void barrier_made(const void* barrier, const SourceLocation& location) = 0;
  /// This thread makes the mbarriers that it has initialised visible to copies.
  virtual void barriers_fenced() = 0;
  /// This thread comes to a barrier or waits at it, or begins a copy that reports to it.
  virtual void barrier_used(const void* barrier, bool by_copy, const SourceLocation& location) = 0;
  /// This thread comes to a barrier, mbarrier or named: a thread that waits for the phase will know
  /// what it did so far.
  virtual void releases(const void* barrier) = 0;
  /// All have come that a barrier's phase needs.
  virtual void phase_ends(const void* barrier) = 0;
  /// This thread has waited at a barrier and knows what came before the end of its last phase.
  virtual void acquires(const void* barrier) = 0;
  /// This thread makes what it wrote to shared memory visible to wgmma and TMA.
  virtual void async_fenced() = 0;
  /// This thread makes what it knows of global memory known to its copies by TMA.
  virtual void async_fenced_globally() = 0;
  /// This thread calls grid_dependency_wait().
  virtual void grid_waited() = 0;
  /// This thread calls __threadfence(): it knows what blocks did that had counted before it last
  /// looked; and who learns of this fence by a counter knows what this thread did so far.
  /// @param arrived whether none of its bulk stores is in flight; while one is, the fence tells
  ///                others nothing
  virtual void memory_fenced(bool arrived) = 0;
  /// This thread changes or reads a counter in global memory. Who acquires needs no fence to know
  /// what those did that had counted before.
  virtual void counts(const void* counter, CounterUse use) = 0;
  /// Something that runs by itself uses shared memory from now on.
  /// @param agent   who: a barrier for copies to shared memory, a thread for stores, a warp for
  ///                products
  /// @param use     what
  /// @param when    phase or group of it that must end first, counted from 1
  /// @param address where
  /// @param size    bytes
  /// @param location   where this thread began it
  virtual void async_uses(const void* agent, AsyncUse use, std::uint32_t when, const void* address,
                          std::size_t size, const SourceLocation& location) = 0;
  /// This thread, or all of its warp, knows that what an agent began is over.
  /// @param agent      see async_uses()
  /// @param when       the last phase or group that is over
  /// @param whole_warp else this thread only
  virtual void async_ends(const void* agent, std::uint32_t when, bool whole_warp) = 0;
  /// A thread's registers are a product's until its group is waited for.
  /// @param thread  place in the cluster
  /// @param address of the registers
  /// @param size    bytes
  /// @param sums    that are written; else they are read
  /// @param agent   the warp, as in async_uses()
  /// @param when    group
  /// @param location   of the product
  virtual void registers_lent(int thread, const void* address, std::size_t size, bool sums,
                              const void* agent, std::uint32_t when,
                              const SourceLocation& location) = 0;
  /// A thread has changed registers of a product that was in flight; when, is not known.
  /// @param location   of the product
  /// @param message one sentence
  virtual void registers_changed(const SourceLocation& location, const std::string& message) = 0;
  /// A copy of rows moves bytes in global memory.
  /// @param address of each row
  /// @param size    bytes of each row
  /// @param write   to global memory
  /// @param atomic  adds there
  /// @param location   where this thread began it
  virtual void moves(const std::vector<const void*>& address, std::size_t size, bool write,
                     bool atomic, const SourceLocation& location) = 0;
  /// A thread crashed at its last access to memory.
  /// @return "file:line" of that access; empty where it is not known
  virtual std::string crashes(const Thread& thread) = 0;
  /// A thread repeats its last load for ever.
  /// @return as crashes()
  virtual std::string spins(const Thread& thread) = 0;
  /// The lab itself has found something.
  /// @param kind    see Finding::kind
  /// @param location   where
  /// @param other   another place; line 0 where there is none
  /// @param message one sentence
  virtual void finds(const std::string& kind, const SourceLocation& location,
                     const SourceLocation& other, const std::string& message) = 0;
};
/// The observer of all launches; null without one.
extern Observer* observer;

}  // namespace fa::lab
