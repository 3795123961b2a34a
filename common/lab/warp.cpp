#include "common/lab/warp.hpp"

#include <cstring>

#include "common/lab/errors.hpp"

namespace fa::lab {
namespace {

bool same(const SourceLocation& a, const SourceLocation& b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

}  // namespace

Warp::OfMask& Warp::add(unsigned mask) {
  exchanges_.push_back(std::make_unique<OfMask>());
  exchanges_.back()->mask = mask;
  return *exchanges_.back();
}

Warp::Exchange& Warp::arrive(const LabThread& thread, unsigned mask, const void* bytes,
                             std::size_t size, const SourceLocation& location, bool orders) {
  const auto lane = static_cast<std::size_t>(thread.lane);
  if ((mask >> lane & 1u) == 0) fail(location, "lane {} is not in its own mask {:#x}", lane, mask);
  OfMask& of = of_mask(mask);
  Exchange& now = of.exchanges[of.which[lane]];
  of.which[lane] ^= 1;
  if (now.complete) now.clear();  // the round before last
  if (now.deposits.lanes == 0) {
    now.first = location;
    now.orders = orders;
  } else if (!(orders && now.orders) && !same(location, now.first)) {
    // __syncwarp() alone allows different lines.
    finding_or_fail(
        "warp", location, now.first,
        fmt::format("lane {} is at this warp operation while other lanes of its mask are "
                    "at the other line: all lanes of a mask must execute the same "
                    "operation; move it out of the branch",
                    lane));
  }
  std::memcpy(&now.deposits.bytes[lane * kDepositSize], bytes, size);
  now.deposits.lanes |= 1u << lane;
  return now;
}

void Warp::lane_ended(Threads& threads, const LabThread& thread) {
  alive_ &= ~(1u << thread.lane);
  for (const auto& of : exchanges_) {
    for (const Exchange& exchange : of->exchanges) {
      if (exchange.deposits.lanes == 0 || exchange.complete || !all_there(exchange, of->mask)) {
        continue;
      }
      continue_others(threads, thread, of->mask);
    }
  }
}

void Warp::continue_others(Threads& threads, const LabThread& thread, unsigned mask) {
  for_warp(threads, thread, [&](LabThread& other) {
    if (other.state == State::kInExchange && other.waits_for == mask) other.state = State::kReady;
  });
}

}  // namespace fa::lab
