#if defined(FA_STUDENT)
#include <algorithm>
#include <cstdint>
#include <limits>

namespace student {

/// What is paid beside tiles, in units of a tile.
struct Model {
  double block;  ///< before a block's first tile
  double part;   ///< for each part that is merged
};

/// Parts of an item, at most.
constexpr int kMostParts = 128;

/// The number of parts that costs least.
/// @param items  each is split into so many parts
/// @param tiles  of an item
/// @param blocks that run at once
inline int split_count(const Model& model, std::int64_t items, std::int64_t tiles,
                       std::int64_t blocks) {
#ifdef FA_SOLUTION
  const std::int64_t most = std::min<std::int64_t>(tiles, kMostParts);
  double least = std::numeric_limits<double>::infinity();
  int best = 1;
  for (int parts = 1; parts <= most; ++parts) {
    const std::int64_t waves = (items * parts + blocks - 1) / blocks;
    const std::int64_t longest = (tiles + parts - 1) / parts;
    const double merge = parts == 1 ? 0 : model.part * parts;
    const double cost = waves * (model.block + longest) + merge;
    if (cost < least) {
      least = cost;
      best = parts;
    }
  }
  return best;
#else
  // TODO
  (void)model, (void)items, (void)tiles, (void)blocks;
  return 1;
#endif
}

}  // namespace student
#elif defined(FA_ENTRIES)
FA_ENTRY(split_count, [](double block, double part, std::int64_t items, std::int64_t tiles,
                         std::int64_t blocks) {
  return int{student::split_count({block, part}, items, tiles, blocks)};
});
#elif defined(FA_GRADER)
#include "common/classroom/grader.hpp"

using namespace fa::classroom;

namespace {

constexpr std::int64_t kMostParts = 128;

struct Case {
  double block, part;  // costs
  std::int64_t items, tiles, blocks;

  std::int64_t waves(std::int64_t parts) const { return (items * parts + blocks - 1) / blocks; }
  double full(std::int64_t parts) const {
    return static_cast<double>(items * parts) / static_cast<double>(blocks);
  }
  std::int64_t longest(std::int64_t parts) const { return (tiles + parts - 1) / parts; }
  double merge(std::int64_t parts) const {
    return parts == 1 ? 0 : part * static_cast<double>(parts);
  }
  double cost(std::int64_t parts) const {
    return static_cast<double>(waves(parts)) * (block + static_cast<double>(longest(parts))) +
           merge(parts);
  }
  std::string where() const {
    return fmt::format(
        "{} items of {} tiles, {} blocks at once, costs of a block {:g} and of a "
        "part {:g}",
        items, tiles, blocks, block, part);
  }
};

// The number up to `most` that costs least, and the smallest of several.
template <class Cost>
std::int64_t cheapest(std::int64_t most, Cost cost) {
  std::int64_t best = 1;
  for (std::int64_t parts = 2; parts <= most; ++parts) {
    if (cost(parts) < cost(best)) best = parts;
  }
  return best;
}

void grade(const Case& c) {
  const int parts = call<int>("split_count", c.block, c.part, c.items, c.tiles, c.blocks);
  const std::string where = " (" + c.where() + fmt::format("; yours is {})", parts);
  require(parts >= 1, "there is at least one part" + where);
  require(parts <= kMostParts, "there are at most 128 parts" + where);
  require(parts == 1 || parts <= c.tiles, "there are more parts than tiles" + where);
  const std::int64_t most = std::min(c.tiles, kMostParts);
  const std::int64_t right = cheapest(most, [&](std::int64_t n) { return c.cost(n); });
  if (parts == right) return;
  const std::string costs = fmt::format("{} parts cost {:g}, and {} cost {:g}: ", parts,
                                        c.cost(parts), right, c.cost(right));
  require(parts != 1,
          costs + "is each number tried, and is a wave that is not full as long as a full one?" +
              where);
  require(
      c.cost(parts) != c.cost(right),
      costs + "of equal costs the smaller number is wanted, and one part needs no merge" + where);
  require(parts != cheapest(most,
                            [&](std::int64_t n) {
                              const double waves = std::max(1.0, c.full(n));
                              return waves * (c.block + static_cast<double>(c.longest(n))) +
                                     c.merge(n);
                            }),
          costs + "a wave that is not full takes as long as one that is: round up" + where);
  refuse(
      costs +
      "the cost differs from that of the task. Does the number of waves round up, in 64 bits, and "
      "the tiles of the longest part? Does each wave cost what a block costs before its "
      "first tile, does one part need no merge, and is each number tried?" +
      where);
}

// Cases of which each tells one wrong cost from the right one, among many.
void grade_all(const std::vector<double>& of_blocks, const std::vector<double>& of_parts,
               const std::vector<std::int64_t>& of_items,
               const std::vector<std::int64_t>& of_tiles) {
  for (const double block : of_blocks) {
    for (const double part : of_parts) {
      for (const std::int64_t items : of_items) {
        for (const std::int64_t tiles : of_tiles) grade({block, part, items, tiles, 264});
      }
    }
  }
}

}  // namespace

FA_STAGE(easy) {
  grade_all({0.5}, {0.03125}, {8, 1}, {100, 512});
  grade({0.5, 0.03125, 3, 8, 4});
  grade_all({0.5, 4}, {0.03125}, {20, 100, 150, 200, 300, 512}, {64, 100});
}

FA_STAGE(odd) {
  grade({0.5, 0.03125, 1, 0, 264});
  grade({0.5, 0.03125, 1, 3, 264});
  grade({0, 0, 1, 5, 264});
  grade({0, 0, 1, 1000, 1000});
  grade({0.5, 0.03125, 100000, 64, 264});
  grade({0.5, 0.03125, std::int64_t{1} << 30, 8, 264});
  grade({0, 0, 132, 4, 132});
  grade_all({0, 0.25, 3}, {0, 0.5, 2}, {1, 7, 100, 131, 132, 265}, {1, 2, 31, 64, 4000});
  grade({0.5, 0, 1, std::int64_t{1} << 33, 1 << 20});
}
#endif
/* Other answers, as changes of the solution
# waves_down: the last wave is not counted
@ easy: Does the number of waves round up
- const std::int64_t waves = (items * parts + blocks - 1) / blocks;
+     const std::int64_t waves = std::max<std::int64_t>(1, items * parts / blocks);

# parts_of_waves: a wave that is not full costs less
@ easy: is a wave that is not full as long
- const std::int64_t waves = (items * parts + blocks - 1) / blocks;
+     const double waves = static_cast<double>(items * parts) / static_cast<double>(blocks);

# merge_of_one: one part is merged, too
@ odd: one part needs no merge
- const double merge = parts == 1 ? 0 : model.part * parts;
+     const double merge = model.part * parts;

# ints: the number of blocks overflows
@ odd: in 64 bits
- const std::int64_t waves = (items * parts + blocks - 1) / blocks;
+     const int all = static_cast<int>(items) * parts;
+     const std::int64_t waves = (all + blocks - 1) / blocks;

# powers_of_two: half of the numbers are not tried
@ easy: is each number tried
- for (int parts = 1; parts <= most; ++parts) {
+   for (int parts = 1; parts <= most; parts *= 2) {

# double_ceil: rounding up in floating point
@ right
- const std::int64_t waves = (items * parts + blocks - 1) / blocks;
- const std::int64_t longest = (tiles + parts - 1) / parts;
+    const auto up = [](std::int64_t a, std::int64_t b) { return a / b + (a % b == 0 ? 0 : 1); };
+    const std::int64_t waves = up(items * parts, blocks), longest = up(tiles, parts);
*/
