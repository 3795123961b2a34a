/// @file
/// What watched kernels ask of memory: puts the accesses of the lanes of a warp together into
/// requests, and counts bytes, sectors of global memory and wavefronts of the banks of shared
/// memory.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "common/lab/banks.hpp"
#include "common/lab/sites.hpp"

namespace fa::lab {

struct LineTraffic;

/// Kinds of memory.
enum class Memory { kGlobal, kStaticShared, kDynamicShared };

/// What is known of the requests of the block that runs.
struct TrafficOfBlock {
  /// Of one line, since the lanes of the warp were together.
  struct OfSite {
    std::uint32_t site = 0;
    bool shared = false, write = false, atomic = false;
    std::array<std::uint32_t, kWarpSize> executions{};
    std::vector<Request> requests;
  };
  /// Of one warp.
  struct OfWarp {
    // By site and direction: which of `sites` it is, counted from 1; 0: none yet.
    std::vector<std::uint32_t> places;
    std::vector<OfSite> sites;
    std::vector<std::size_t> pending;  // those that have requests
  };
  std::vector<OfWarp> warps_;
  std::vector<std::uint32_t> alive_;  // lanes of each warp
  std::uint64_t dynamic_ = 0;         // where its memory begins
};

/// All requests of a watch.
class Traffic : private TrafficOfBlock {
 public:
  /// Another block runs: exchanges what is known of the running one for what is known of that.
  void exchange(TrafficOfBlock& other) { std::swap(static_cast<TrafficOfBlock&>(*this), other); }
  /// A block or cluster begins.
  /// `dynamic` is the dynamic shared memory of its first block.
  void block_begins(int threads, const std::byte* statics, std::size_t static_bytes,
                    const std::byte* dynamic);
  /// All lanes of a mask have come to a point of the program: if they are all that live, their
  /// requests are complete.
  void warp_meets(std::size_t warp, unsigned mask) {
    if ((mask & alive_[warp]) == alive_[warp]) count(warp);
  }
  /// A thread has ended.
  void thread_ends(const Thread& thread);
  /// All requests of some warps are complete: those of a block.
  void block_meets(std::size_t first, std::size_t warps);

  /// The running thread reads or writes memory.
  void access(Memory memory, const std::byte* address, std::size_t size, bool write, bool atomic,
              std::uint32_t site);
  /// A copy of rows of global memory.
  /// `rows` are those that lie in their buffers. Unless it is `counted` as a request there is only
  /// a line for it.
  void copy(const std::vector<const std::byte*>& rows, std::size_t size, bool write, bool atomic,
            bool counted, std::uint32_t site);

  /// By line, kind of memory and direction.
  std::vector<LineTraffic> report(const Sites& sites) const;

 private:
  struct Counted {
    std::int64_t requests = 0, diverged = 0, atomics = 0, bytes = 0, sectors = 0, wavefronts = 0,
                 ideal = 0;
    Request worst;  // of shared memory
    std::int64_t worst_wavefronts = 0;
  };

  void count(std::size_t warp);
  std::uint64_t position(Memory memory, const std::byte* address);
  Request from_first_byte(Request request) const;

  int threads_ = 0;  // of a block
  // By site, whether it is shared memory, and direction.
  std::map<std::tuple<std::uint32_t, bool, bool>, Counted> counted_;
  std::uint64_t statics_ = 0;  // where they begin
  std::uint64_t dynamic_position_ = 0;
  std::uint64_t lowest_static_ = ~std::uint64_t{0};  // that was touched
};

}  // namespace fa::lab
