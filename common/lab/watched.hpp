/// @file
/// What all checks of the watched lab share: the order of accesses, the shadow memory, the
/// findings, and the words of messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/lab/order.hpp"
#include "common/lab/shadow.hpp"
#include "common/lab/sites.hpp"

namespace fa::lab {

struct Finding;

/// Everything that was found in the launches of a watch.
class Findings {
 public:
  /// None.
  explicit Findings(const Order& order) : order_(order) {}
  /// Notes a finding. Of several at the same lines the one over the largest distance is reported:
  /// what fixes it fixes the others as well.
  /// In the message "@1" and "@2", or "the other line", stand for the two lines; "@?A@|B@|C@." for
  /// A where both were first executed with no __syncthreads() between, for B or C where the other
  /// line or this one was executed before it.
  /// `other` is the other line, 0: none; `distance` that of two threads: 0 in a warp, 1 in a block,
  /// 2 beyond. `stack` is the call stack where it was found; that of now where none is given.
  void add(const std::string& kind, std::uint32_t site, std::uint32_t other,
           const std::string& message, int distance = 0,
           const std::optional<std::vector<std::uintptr_t>>& stack = std::nullopt);
  /// What was found of a kind at a line is none.
  void drop(const std::string& kind, std::uint32_t site);
  /// Whether there is one of a kind at these lines.
  bool has(const std::string& kind, std::uint32_t site, std::uint32_t other) const;
  /// Whether there is a finding of a kind with this other line.
  bool has(const std::string& kind, std::uint32_t other) const;
  /// The code addresses that report() needs the lines of.
  std::vector<std::uintptr_t> codes() const;
  /// One finding for each mistake: several instructions may stand in one line, and two lines meet
  /// in either order.
  std::vector<Finding> report(const Sites& sites, const SourceLines& lines) const;

 private:
  struct Found {
    std::string kind;
    std::uint32_t site, other;
    std::string message;
    int distance;
    std::int64_t count;
    std::vector<std::uintptr_t> stack;      // where it was found
    std::vector<std::uint32_t> first_uses;  // see Order
  };
  static std::string message_of(const Found& found, const Sites& sites);
  // Counts one that is known already.
  bool count(const std::string& kind, std::uint32_t site, std::uint32_t other,
             const std::string& message, int distance);
  const Order& order_;
  std::vector<Found> found_;
};

/// What is known of the launch that is watched.
struct Watched {
  Sites sites;
  Order order;  ///< of memory
  /// Which operations have been executed before which: as of memory, and lanes that meet in any
  /// warp operation have executed what comes before it.
  Order executed;
  Findings findings{order};
  ShadowMemory memory;
  std::size_t threads = 0;  ///< of a cluster
  std::size_t cluster = 1;  ///< blocks of it
  Launch launch;

  /// A launch begins.
  void launch_begins(const Launch& next, std::uint64_t stream);
  /// Warps of a block. A cluster's blocks have whole warps.
  std::size_t warps_of_block() const { return (threads / cluster + kWarpSize - 1) / kWarpSize; }

  /// @name Words of messages
  /// @{

  /// "thread 37 (warp 1, lane 5)", and the block where it is not this one.
  std::string name_of(std::uint32_t id) const;
  std::string name_of(const Thread& thread) const {
    return name_of(order.id(static_cast<std::size_t>(thread.place)));
  }
  /// The thread of an earlier access.
  std::string name_of(const Access& before) const;
  /// "the wgmma()"
  static const char* name_of(AsyncUse use);
  /// @}
};

/// The rank of the running thread's block.
inline std::uint32_t this_rank() {
  return static_cast<std::uint32_t>(current->rank);
}
/// The place of the running thread in the cluster.
inline std::uint32_t this_place() {
  return static_cast<std::uint32_t>(current->place);
}

}  // namespace fa::lab
