/// @file
/// Into how many parts steps 03, 06 and 07 split the keys of a decoding problem: a model of what a
/// launch costs.
#pragma once

#include <cstdint>
#include <limits>

namespace fa {

/// @{ Costs in units of a tile: the time in which a block loads one while all others load theirs.
/// Of a block, before its first tile arrives; of a part in the merge of a row; and of a row's state of
/// 32 bits, which is written and read again, for each key of 16 bits that a tile has.
constexpr double kBlockCost = 0.5;
constexpr double kPartCost = 0.1;
constexpr double kStateCost = 2;
/// @}
/// Parts at most: each of the lanes of a warp reads four maxima.
constexpr int kMostParts = 128;

/// What the launch costs with so many parts of each item's tiles: waves of blocks, each as long as
/// a part, and the states and their merge.
/// @param items  what has a block for each part
/// @param tiles  of an item
/// @param blocks that a GPU runs at once
/// @param rows_per_key rows of an item, divided by the keys of a tile
//! [split_cost]
constexpr double split_cost(std::int64_t items, std::int64_t tiles,
                            std::int64_t blocks, std::int64_t parts,
                            double rows_per_key) {
  const std::int64_t waves = (items * parts + blocks - 1) / blocks;
  const std::int64_t longest = (tiles + parts - 1) / parts;
  const double of_states =
      static_cast<double>(items * parts) * kStateCost * rows_per_key;
  const double of_merge = parts == 1
                              ? 0
                              : kPartCost * static_cast<double>(parts) +
                                    of_states / static_cast<double>(blocks);
  return static_cast<double>(waves) *
             (kBlockCost + static_cast<double>(longest)) +
         of_merge;
}
//! [split_cost]

/// The number of parts that costs least; the smallest of several. At least 1.
constexpr int split_count(std::int64_t items, std::int64_t tiles,
                          std::int64_t blocks, double rows_per_key) {
  int best = 1;
  double least = std::numeric_limits<double>::infinity();
  const std::int64_t most = tiles < kMostParts ? tiles : kMostParts;
  for (int parts = 1; parts <= most; ++parts) {
    const double cost = split_cost(items, tiles, blocks, parts, rows_per_key);
    if (cost < least) {
      least = cost;
      best = parts;
    }
  }
  return best;
}

}  // namespace fa
