#ifdef FA_ENTRIES  // the student's process
FA_ENTRY(split_count, [](double block, double part, std::int64_t items, std::int64_t tiles,
                         std::int64_t blocks) {
  return int{student::split_count({block, part}, items, tiles, blocks)};
});
#else  // the grader
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

using Cost = std::function<double(std::int64_t parts)>;

// The number up to `most` that costs least: the smallest of several, or the largest.
int cheapest(const Cost& cost, std::int64_t most, bool largest = false) {
  std::int64_t best = 1;
  for (std::int64_t parts = 2; parts <= most; ++parts) {
    if (cost(parts) < cost(best) || (largest && cost(parts) == cost(best))) best = parts;
  }
  return static_cast<int>(best);
}

// Costs that leave something out, with what to say.
std::vector<std::pair<std::string, Cost>> wrong_costs(const Case& c) {
  const auto tiles_of = [=](std::int64_t parts) { return static_cast<double>(c.longest(parts)); };
  const auto waves_of = [=](std::int64_t parts) { return static_cast<double>(c.waves(parts)); };
  return {{"a wave that is not full takes as long as one that is: the number of waves rounds up",
           [=](std::int64_t parts) {
             const auto whole = std::max<std::int64_t>(1, c.items * parts / c.blocks);
             return static_cast<double>(whole) * (c.block + tiles_of(parts)) + c.merge(parts);
           }},
          {"the longest part decides: its tiles round up",
           [=](std::int64_t parts) {
             return waves_of(parts) * (c.block + static_cast<double>(c.tiles / parts)) +
                    c.merge(parts);
           }},
          {"a wave that is not full takes as long as one that is: the number of waves rounds up",
           [=](std::int64_t parts) {
             return std::max(1.0, c.full(parts)) * (c.block + tiles_of(parts)) + c.merge(parts);
           }},
          {"a block costs something before its first tile in every wave, not only in the first",
           [=](std::int64_t parts) {
             return waves_of(parts) * tiles_of(parts) + c.block + c.merge(parts);
           }},
          {"a block costs something before its first tile",
           [=](std::int64_t parts) { return waves_of(parts) * tiles_of(parts) + c.merge(parts); }},
          {"one part has no merge, which costs nothing",
           [=](std::int64_t parts) { return c.cost(parts) + (parts == 1 ? c.part : 0); }},
          {"the merge costs something for each part",
           [=](std::int64_t parts) { return waves_of(parts) * (c.block + tiles_of(parts)); }}};
}

void grade(const Case& c) {
  const int parts = call<int>("split_count", c.block, c.part, c.items, c.tiles, c.blocks);
  const std::string where = " (" + c.where() + fmt::format("; yours is {})", parts);
  require(parts >= 1, "there is at least one part" + where);
  require(parts <= kMostParts, "there are at most 128 parts" + where);
  require(parts == 1 || parts <= c.tiles, "there are more parts than tiles" + where);
  const std::int64_t most = std::min(c.tiles, kMostParts);
  const auto cost = [&](std::int64_t n) { return c.cost(n); };
  const int right = cheapest(cost, most);
  if (parts == right) return;
  const std::string costs = fmt::format("{} parts cost {:g}, and {} cost {:g}: ", parts,
                                        c.cost(parts), right, c.cost(right));
  const std::int64_t filling = std::clamp<std::int64_t>(c.blocks / c.items, 1, most);
  require(parts != 1 || filling == 1,
          costs +
              "it seems to be always one part. Or does a wave that is not full cost a fraction? It "
              "takes as long as one that is: the number of waves rounds up" +
              where);
  for (const auto& [says, wrong] : wrong_costs(c)) {
    require(parts != cheapest(wrong, most), costs + says + where);
  }
  require(c.cost(parts) != c.cost(right), costs + "the smaller one of several is wanted" + where);
  std::int64_t power = 1;
  for (std::int64_t n = 2; n <= most; n *= 2) {
    if (c.cost(n) < c.cost(power)) power = n;
  }
  require(parts != power, costs + "there are numbers between powers of two" + where);
  require(parts != filling,
          costs + "as many parts as fill the GPU once are not always best" + where);
  refuse(costs + "the cost differs from that of the task" + where);
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
  grade({0, 0, 132, 4, 132});
  grade_all({0, 0.25, 3}, {0, 0.5, 2}, {1, 7, 100, 131, 132, 265}, {1, 2, 31, 64, 4000});
  grade({0.5, 0, 1, std::int64_t{1} << 33, 1 << 20});
}
#endif
