#include "common/lab/spin_check.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace fa::lab {

void SpinCheck::access(const std::byte* address, bool write, std::uint32_t site) {
  Loop& loop = loops_[this_place()];
  loop.site = site;
  if (write) {
    loop.known = 0;
    loop.loads = 0;
    return;
  }
  const auto end = loop.addresses.begin() + loop.known;
  if (std::find(loop.addresses.begin(), end, address) != end) {
    ++loop.loads;
    return;
  }
  if (loop.known == loop.addresses.size()) loop.known = 0;
  loop.addresses[loop.known++] = address;
  loop.loads = 0;
}

bool SpinCheck::spins_now() {
  constexpr int enough = 100;
  int& loads = loops_[this_place()].loads;
  if (loads < enough) return false;
  loads = 0;
  return true;
}

std::string SpinCheck::report(const Thread& thread) {
  const std::uint32_t site = loops_[static_cast<std::size_t>(thread.place)].site;
  if (site == 0) return "";
  w_.findings.add("spin", site, 0,
                  fmt::format("warp {} spins: {} reads a flag again and again that no other thread "
                              "can change any more; they have ended, or wait for this one, or are "
                              "in a block that comes later",
                              thread.number / kWarpSize, w_.name_of(thread)));
  return w_.sites.line(site);
}

}  // namespace fa::lab
