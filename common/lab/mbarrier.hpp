/// @file
/// mbarriers: barriers in shared memory that count arrivals and the bytes of copies.
///
/// A copy lands at the latest moment that a GPU allows: when a thread sees its phase end. Source:
/// NVIDIA, PTX ISA, section on mbarrier.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/lab/bulk_copy.hpp"
#include "common/lab/lab_thread.hpp"
#include "common/lab/tensor_memory.hpp"

namespace fa::lab {

/// The mbarriers of a block or cluster, by address. Each function is called by the running thread
/// and throws std::runtime_error for what PTX does not allow.
class Mbarriers {
 public:
  /// None, for some threads.
  explicit Mbarriers(Threads& threads) : threads_(threads) {}

  /// mbarrier.init with so many arrivals for a phase.
  void init(const LabThread& thread, const void* barrier, int arrivals,
            const SourceLocation& location);
  /// Arrives, and adds bytes that the phase expects.
  /// @param count arrivals at once
  /// @param drops they do not come in later phases
  /// @return the phase that it arrives in, counted from 0
  std::uint32_t arrive(const LabThread& thread, const void* barrier, std::int64_t bytes,
                       const SourceLocation& location, int count = 1, bool drops = false);
  /// Adds bytes that the phase expects, without an arrival.
  void expect(const void* barrier, std::int64_t bytes, const SourceLocation& location);
  /// Waits for the end of the phase of a parity, which is 0 or 1.
  void wait(LabThread& thread, const void* barrier, int parity, const SourceLocation& location);
  /// Whether the phase of a parity has ended. A thread that asks again, with no question about
  /// another barrier in between, waits for it.
  bool test(LabThread& thread, const void* barrier, int parity, const SourceLocation& location);
  /// mbarrier.inval
  void invalidate(const void* barrier) { states_.erase(barrier); }
  /// Issues a copy that reports its bytes to an mbarrier.
  void begin_load(const LabThread& thread, const BulkCopy& copy, const void* barrier);
  /// Arrives when matmuls have ended, and computes them when a thread sees the phase end.
  void commit(const LabThread& thread, const void* barrier, const TensorGroup& matmuls,
              const SourceLocation& location);
  /// What is left when a block ends is a finding.
  void check_end() const;
  /// Where a thread waits, and what is missing.
  std::string missing_text(const LabThread& thread) const;
  /// How that asks for a wrong parity.
  static constexpr const char* kParity = "is the parity right?";
  /// Whether there is one.
  bool any() const { return !states_.empty(); }
  /// Forgets all.
  void clear() { states_.clear(); }

 private:
  struct State {
    SourceLocation made;       // where it was initialised
    int arrivals = 0;          // of a phase
    int missing = 0;           // of these, in this phase
    std::int64_t bytes = 0;    // expected, less those that copies have brought
    std::uint32_t phases = 0;  // that have ended
    std::uint32_t seen = 0;    // of these, up to the last one that a thread has waited for
    // When each thread last arrived: that phase, counted from 1. Only with an observer.
    std::vector<std::uint32_t> arrived;
    std::vector<std::uint32_t> waited;  // the same of its waits
    // Copies that report to it and have not landed, each with its phase.
    std::vector<std::pair<std::uint32_t, BulkCopy>> copies;
    // The same of matmuls, and the last ones that have been computed of each queue.
    std::vector<std::pair<std::uint32_t, TensorGroup>> matmuls;
    std::unordered_map<const void*, std::uint32_t> computed;

    bool ended(int parity) const { return (phases & 1u) != static_cast<std::uint32_t>(parity & 1); }
    void land();  // the copies of all phases that have ended
  };
  State& state_of(const void* barrier, const SourceLocation& location);
  static void check_missing(const State& state, int count, const SourceLocation& location);
  void check_arrival(const LabThread& thread, State& state, const SourceLocation& location) const;
  void advance(const void* barrier, State& state, const SourceLocation& location);

  Threads& threads_;
  std::unordered_map<const void*, State> states_;
};

}  // namespace fa::lab
