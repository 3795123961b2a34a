#include "common/lab/watched.hpp"

#include <fmt/format.h>

namespace fa::lab {

void Watched::launch_begins(const Launch& launch, std::uint64_t stream) {
  cluster = static_cast<std::size_t>(launch.cluster);
  threads = static_cast<std::size_t>(launch.block.count()) * cluster;
  for (Order* each : {&order, &executed}) {
    each->launch_begins(launch.block.count(), launch.cluster, launch.with_pdl, stream);
  }
}

std::string Watched::name_of(std::uint32_t id) const {
  const std::uint32_t number = order.in_block(id);
  const bool other = order.of_other_block(id) ||
                     (cluster > 1 && (current == nullptr || order.rank_of(id) != this_rank()));
  return fmt::format("thread {} (warp {}, lane {}){}", number, number / kWarpSize,
                     number % kWarpSize,
                     other ? fmt::format(" of block {}", order.block_of(id)) : "");
}

std::string Watched::name_of(const Access& before) const {
  if (!order.of_other_launch(before)) return name_of(before.thread);
  return fmt::format("thread {} of block {} of an earlier launch", Order::in_cluster(before.thread),
                     Order::cluster_of(before.thread));
}

const char* Watched::name_of(AsyncUse use) {
  switch (use) {
    case AsyncUse::kCopy:
      return "the copy";
    case AsyncUse::kStore:
      return "the store";
    case AsyncUse::kPeerCopy:
      return "the copy to another block";
    default:
      return "the wgmma()";
  }
}

}  // namespace fa::lab
