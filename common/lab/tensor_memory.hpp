/// @file
/// Tensor memory of a block: 128 lanes of 512 columns, and the tcgen05 operations on it.
///
/// They happen at the latest moment that a GPU allows: a matmul when a thread sees the phase of the
/// mbarrier at which its tcgen05_commit() arrives, a load or store when its warp waits for it.
/// Until then accumulators, registers and columns that they will write are NaN. Source: NVIDIA, PTX
/// ISA, "Tensor Memory" and "Memory Consistency Model for 5th generation of TensorCore operations".
/// Never compared with a GPU.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "common/lab/observer.hpp"
#include "common/lab/thread.hpp"

namespace fa::lab {

/// What a tcgen05_mma() is called with.
struct TensorMatmul {
  std::uint32_t d = 0;              ///< address of the accumulators
  std::uint64_t a = 0;              ///< descriptor of A, or its address in tensor memory
  std::uint64_t b = 0;              ///< descriptor of B
  std::uint32_t descriptor = 0;     ///< of the instruction
  bool a_in_tensor_memory = false;  ///< else in shared memory
  bool mn_major_a = false;          ///< as the operand's type says
  bool mn_major_b = false;          ///< as the operand's type says
  bool adds = false;                ///< to the accumulators; else to 0
};

/// What is wrong with an instruction descriptor, for the matmuls that the lab knows; else empty.
/// Source: NVIDIA, PTX ISA, "Instruction descriptor" of tcgen05, and "Matrix Shape" for kind::f16.
std::string wrong_descriptor(const TensorMatmul& matmul);

class TensorMemory;
/// Matmuls that end together: those between two tcgen05_commit() of a thread.
struct TensorGroup {
  TensorMemory* memory = nullptr;
  const void* queue = nullptr;  ///< the agent of Observer::async_uses()
  int thread = 0;               ///< its place
  std::uint32_t number = 0;     ///< counted from 1
};

/// What a lane brings to a tcgen05_ld() or tcgen05_st().
struct TensorLane {
  std::uint32_t* registers = nullptr;
  std::uint32_t address = 0;
};

/// Tensor memory of a block. Its functions are called by the running thread; those of a warp by the
/// last of its lanes.
class TensorMemory {
 public:
  static constexpr int kLanes = 128, kColumns = 512;

  /// A block begins, with this dynamic shared memory: nothing is allocated.
  void begin(const std::byte* shared, std::size_t shared_bytes);
  /// tcgen05_alloc(), by a warp.
  /// @return the address
  /// @throws std::runtime_error for a number that PTX does not allow, and where it would wait for
  /// ever
  std::uint32_t allocate(int columns, const SourceLocation& location);
  /// tcgen05_dealloc(), by a warp.
  void free(std::uint32_t address, int columns, const SourceLocation& location);
  /// tcgen05_relinquish_alloc_permit()
  void relinquish(const SourceLocation& location) { relinquished_ = location; }

  /// tcgen05_mma(), by a thread.
  void begin(const TensorMatmul& matmul, const SourceLocation& location);
  /// tcgen05_commit(): closes the group of what the running thread has issued.
  TensorGroup commit(const SourceLocation& location);
  /// Computes a thread's groups up to one.
  void finish(const TensorGroup& group);

  /// tcgen05_ld(), by a warp, of so many columns.
  void load(const std::array<TensorLane, kWarpSize>& lanes, int columns,
            const SourceLocation& location);
  /// tcgen05_st()
  void store(const std::array<TensorLane, kWarpSize>& lanes, int columns,
             const SourceLocation& location);
  /// tcgen05_wait_ld(), by a warp.
  void wait_loads();
  /// tcgen05_wait_st(), by a warp.
  void wait_stores();
  /// What is left when the block ends is a finding.
  void check_end() const;

 private:
  struct Allocation {
    int first, columns;
    SourceLocation location;
  };
  // Accumulators in flight.
  struct Sums {
    int first, columns;
    std::vector<float> tile;  // 128 rows
    int in_flight;            // matmuls that add to them
  };
  struct Matmul {
    TensorMatmul what;
    int columns;
    Sums* sums;
    SourceLocation location;
  };
  struct Group {
    std::uint32_t number;
    std::vector<Matmul> matmuls;
  };
  // Of a thread.
  struct Queue {
    std::vector<Matmul> open;
    std::deque<Group> groups;
    std::uint32_t committed = 0;
    bool any = false;  // has issued one
  };
  struct Move {
    std::array<std::uint32_t*, kWarpSize> registers;
    std::vector<std::uint32_t> values;  // of a store: those of lane 0, then of lane 1 and so on
    int lane, column, columns;
    SourceLocation location;
  };
  // Of a warp.
  struct Moves {
    std::vector<Move> loads, stores;
    std::uint32_t waited = 0;  // for loads
  };
  std::uint32_t& word(int lane, int column) {
    return words_[static_cast<std::size_t>(lane * kColumns + column)];
  }
  bool reaches(const char* what, int first, int columns, const SourceLocation& location) const;
  bool reaches_quarter(const char* what, const std::array<TensorLane, kWarpSize>& lanes,
                       int columns, const SourceLocation& location) const;
  Sums& sums_of(const TensorMatmul& matmul, int columns);
  void note_uses(const Queue& queue, const TensorMatmul& matmul, int columns,
                 const SourceLocation& location) const;
  void compute(const Matmul& matmul);

  const std::byte* shared_ = nullptr;
  std::size_t shared_bytes_ = 0;
  std::vector<std::uint32_t> words_;  // none before the first allocation
  std::vector<Allocation> allocations_;
  std::map<int, SourceLocation> freed_;  // columns, and by which line
  SourceLocation relinquished_;
  int fewest_columns_ = kColumns;  // of an allocation
  SourceLocation fewest_at_;       // the last one of these
  std::list<Sums> sums_;
  std::map<int, Queue> queues_;  // by the thread's place
  std::map<int, Moves> moves_;   // by the warp
};

}  // namespace fa::lab
