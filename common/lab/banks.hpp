/// @file
/// Shared memory, whose 32 banks hand out one word of 4 bytes each in a round: how many rounds a
/// request of a warp takes, bank conflicts included, and a picture of them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "common/lab/engine.hpp"

namespace fa::lab {

/// Banks of shared memory; neighbouring words lie in neighbouring banks.
inline constexpr int kBanks = 32;

/// The same load or store, executed by the lanes of a warp.
struct Request {
  std::array<std::uint64_t, kWarpSize> address{};  ///< of each lane, in bytes
  std::uint32_t lanes = 0;                         ///< bit l is set when lane l takes part
  std::uint32_t size = 0;                          ///< bytes of each lane

  /// Whether a lane takes part.
  bool has(int lane) const { return (lanes >> lane & 1u) != 0; }
  /// Bytes of all lanes.
  std::int64_t bytes() const;
  /// Calls visit(address / unit_bytes), ascending, for each unit that the lanes [first, last) touch.
  template <class Visit>
  void for_units(int first, int last, std::uint64_t unit_bytes, Visit visit) const {
    std::array<std::uint64_t, kWarpSize> begins;  // all as long
    auto end = begins.begin();
    for (int lane = first; lane < last; ++lane) {
      if (has(lane)) *end++ = address[static_cast<std::size_t>(lane)];
    }
    if (!std::is_sorted(begins.begin(), end)) std::sort(begins.begin(), end);
    std::uint64_t next = 0;
    for (auto begin = begins.begin(); begin != end; ++begin) {
      next = std::max(next, *begin / unit_bytes);
      for (; next <= (*begin + size - 1) / unit_bytes; ++next) visit(next);
    }
  }
};

/// One word of shared memory that one bank hands to some lanes, or takes from them.
struct Served {
  int round = 0;            ///< counted from 0
  std::uint64_t word = 0;   ///< address / 4
  std::uint32_t lanes = 0;  ///< bit l is set when the word is lane l's

  /// The bank.
  int bank() const { return static_cast<int>(word % kBanks); }
};

/// The rounds (wavefronts) in which a request to shared memory is served, in the order of the
/// rounds. The order of the words within a bank is ours: a GPU does not tell it.
std::vector<Served> serve(const Request& request);

/// Rounds that a request to shared memory takes.
std::int64_t wavefronts(const Request& request);

/// Rounds that would do if the lanes stood side by side.
std::int64_t best_wavefronts(const Request& request);

/// Whether one of two places has more conflicts: more rounds for each that would do, or as many for
/// each and more in sum. A place without rounds has the least.
inline bool conflicts_more(std::int64_t rounds, std::int64_t best, std::int64_t other_rounds,
                           std::int64_t other_best) {
  if (best == 0 || other_best == 0) return best > other_best;
  const std::int64_t left = rounds * other_best, right = other_rounds * best;
  return left > right || (left == right && rounds > other_rounds);
}

/// Draws how a request to shared memory is served: a column for each bank, a row for each round.
/// The request is a store or a load of one warp, of at least one lane.
/// @return an SVG that needs nothing else, for light and dark pages, 1000 pixels wide
std::string draw_banks(const std::string& kernel, const std::string& where, bool write,
                       const Request& request);

}  // namespace fa::lab
