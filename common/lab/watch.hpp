/// @file
/// The watched lab: sees every load and store of a kernel and says what a GPU would not.
///
/// Kernels to be watched are compiled with -fsanitize=thread, which makes the compiler call a
/// function before each access to memory, and with -fsanitize-coverage=trace-pc, which does it for
/// each basic block; watch.cpp has these functions in place of those of ThreadSanitizer. The
/// kernels themselves need no change. (Link the library fa_watched_lab; CMake's fa_watch() sets the
/// flags.)
///
/// Limits: what is counted are requests, as the host's compiler left them, with no cache, time,
/// registers or occupancy. Static shared arrays have no bounds of their own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/lab/banks.hpp"
#include "common/lab/engine.hpp"
#include "common/lab/program.hpp"

namespace fa::lab {

/// Something wrong that a kernel did.
struct Finding {
  /// "race", "same value", "out of bounds", "unwritten", "misaligned", "barrier", "warp", "spin",
  /// "copy", "wgmma", "tcgen05", "cluster", "proxy", "operand", "host access", "host memory" or
  /// "constant".
  std::string kind;
  std::string where;  ///< file:line
  /// Where a kernel calls the function with that line; empty where both are in one file.
  std::string caller;
  std::string other;       ///< the other line of a race, or of two barriers; else empty
  std::string message;     ///< what happened, and what is probably missing
  std::int64_t count = 0;  ///< how often, at these lines
  std::string seen{};      ///< with which problems; empty where there is one
};

/// What one line of a kernel asked of one kind of memory.
struct LineTraffic {
  std::string where;            ///< file:line
  bool shared = false;          ///< shared memory, else global
  bool write = false;           ///< stores, else loads
  std::int64_t requests = 0;    ///< of warps
  std::int64_t diverged = 0;    ///< of these, with some lanes missing
  std::int64_t atomics = 0;     ///< of these, by atomic operations: stores
  std::int64_t bytes = 0;       ///< asked for by lanes
  std::int64_t sectors = 0;     ///< global: 32-byte pieces touched, by each warp on its own
  std::int64_t wavefronts = 0;  ///< shared: rounds that the 32 banks need
  std::int64_t ideal = 0;       ///< sectors or wavefronts if lanes stood side by side
  /// Shared: the request with the most wavefronts for each ideal one. Bytes are counted from the
  /// first one of all static arrays that was touched, or from the beginning of dynamic memory.
  Request worst;
};

/// A load or store of one thread, or an asynchronous copy to shared memory where it begins; for
/// drawings of small launches.
struct Touch {
  int block = 0;        ///< in the grid, x fastest
  int thread = 0;       ///< in the block, x fastest
  bool shared = false;  ///< shared memory, else global
  bool write = false;   ///< a store, else a load
  const void* address = nullptr;
  int size = 0;         ///< bytes
  bool landed = false;  ///< a copy by cp.async that ends here; it has begun at an earlier one
};

/// What was seen.
struct Report {
  std::vector<Finding> findings;     ///< in the order in which they were first seen
  std::vector<LineTraffic> traffic;  ///< by file and line
  Coverage coverage;                 ///< of the kernels that were launched
  /// The line of shared memory with the most wavefronts for each ideal one, of several the one with
  /// the most wavefronts; null when no line uses shared memory.
  const LineTraffic* worst_shared() const;
  /// The same without the findings of a kind, such as "same value".
  Report without(const std::string& kind) const;
  /// For people, in lines of up to 78 columns where names of files allow it.
  std::string findings_text() const;
  /// The same, and then the traffic as a table.
  std::string text() const;
  /// For programs: an object with the arrays "findings" and "traffic".
  std::string json() const;
};

/// While it lives, the launches of this process are watched; only one at a time.
class Watch {
 public:
  /// @throws std::logic_error when another one lives
  Watch();
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  /// What was seen so far.
  Report report() const;
  /// The first few thousand of them, in their order, also those out of bounds.
  const std::vector<Touch>& touches() const;

  /// From now on about so many blocks of each launch are watched: the last one, and pairs of
  /// neighbours evenly over the grid. All run. Of the others' accesses to data only the bounds are
  /// checked, and counts are of the watched ones. 0: all are watched.
  void set_sample(std::int64_t blocks);
  /// How many blocks were watched, and how many have begun.
  std::pair<std::int64_t, std::int64_t> watched_blocks() const;

  /// The host has copied memory of the device: where it reads what nothing had written is a finding,
  /// if it is compiled as kernels are.
  void copied_to_host(const void* to, const void* from, std::size_t bytes);

  /// A buffer is constant memory: its change by a kernel is a finding.
  void is_constant(const void* buffer, const std::string& name);
  /// The running thread reads global memory that no thread of the launch may write.
  void reads_constant(const void* address, std::size_t size, const SourceLocation& location);

  /// How far the launches are, for waited_until().
  std::uint64_t time() const;
  /// The host has waited for what was launched on a stream before a time; 0: on all of them.
  void waited_until(std::uint64_t stream, std::uint64_t time);

  struct State;  ///< what it remembers

 private:
  std::unique_ptr<State> state_;
};

}  // namespace fa::lab
