/// @file
/// What all checks of the watched lab share: the order of accesses, the shadow memory, the
/// findings, and the words of messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/lab/findings.hpp"
#include "common/lab/order.hpp"
#include "common/lab/shadow.hpp"
#include "common/lab/sites.hpp"

namespace fa::lab {

/// What is known of the launch that is watched.
struct Watched {
  Sites sites;
  Order order;  ///< of memory
  /// Which operations have been executed before which: as of memory, and lanes that meet in any
  /// warp operation have executed what comes before it.
  Order executed;
  Findings findings;
  ShadowMemory memory;
  std::size_t threads = 0;  ///< of a cluster
  std::size_t cluster = 1;  ///< blocks of it

  /// A launch begins.
  void launch_begins(const Launch& launch, std::uint64_t stream);
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
