#if defined(FA_STUDENT)
#include <algorithm>
#include <vector>

namespace student {

/// The rank that computes the queries of a block.
/// @param block  0 to blocks - 1
/// @param blocks of the sequence, at least 1
/// @param ranks  at least 1
inline int owner(int block, int blocks, int ranks) {
#ifdef FA_SOLUTION
  (void)blocks;
  const int r = block % ranks;
  return block / ranks % 2 == 0 ? r : ranks - 1 - r;
#else
  // TODO: the last rank has the most work.
  return static_cast<int>(static_cast<long long>(block) * ranks / blocks);
#endif
}

}  // namespace student
#elif defined(FA_ENTRIES)
FA_ENTRY(owners, [](int blocks, int ranks) {
  std::vector<int> result;
  for (int block = 0; block < blocks; ++block) {
    result.push_back(student::owner(block, blocks, ranks));
  }
  return result;
});
#elif defined(FA_GRADER)
#include <fmt/ranges.h>

#include "common/classroom/grader.hpp"

using namespace fa::classroom;

namespace {

// The largest element less the smallest one.
template <class Count>
Count spread(const std::vector<Count>& x) {
  return *std::max_element(x.begin(), x.end()) - *std::min_element(x.begin(), x.end());
}

bool same_as(const std::vector<int>& owners, const std::function<int(int)>& rule) {
  for (std::size_t b = 0; b < owners.size(); ++b) {
    if (owners[b] != rule(static_cast<int>(b))) return false;
  }
  return true;
}

void grade(int blocks, int ranks) {
  const std::string where = fmt::format("{} blocks, {} ranks: ", blocks, ranks);
  const auto owners = call<std::vector<int>>("owners", blocks, ranks);
  std::vector<std::int64_t> work(static_cast<std::size_t>(ranks)), owned(work.size());
  for (int block = 0; block < blocks; ++block) {
    const int rank = owners.at(static_cast<std::size_t>(block));
    require(0 <= rank && rank < ranks,
            where + fmt::format("block {} belongs to rank {}, and there is no rank of that number",
                                block, rank));
    work[static_cast<std::size_t>(rank)] += 2 * block + 1;
    ++owned[static_cast<std::size_t>(rank)];
  }
  require(spread(owned) <= (blocks % ranks == 0 ? 0 : 1),
          where + fmt::format("the number of blocks of the ranks differs, {}: memory must be "
                              "balanced as well",
                              fmt::join(owned, ", ")));
  const std::string works = fmt::format("work of the ranks {}", fmt::join(work, ", "));
  const std::int64_t allowed = blocks % (2 * ranks) == 0 ? 0 : 2 * (blocks + ranks);
  if (spread(work) <= allowed) return;
  if (same_as(owners, [=](int b) { return static_cast<int>(std::int64_t{b} * ranks / blocks); })) {
    refuse(where + works +
           ": each rank has neighbouring blocks, and those at the end see the most");
  }
  if (same_as(owners, [=](int b) { return b % ranks; })) {
    refuse(where + works +
           ": the blocks are dealt always in the same order, so the last rank gets the largest "
           "block of every round");
  }
  refuse(where + works + fmt::format("; they may differ by {}", allowed));
}

}  // namespace

FA_STAGE(easy) {
  grade(4, 2);
  grade(8, 4);
  grade(6, 3);
}

FA_STAGE(odd) {
  for (const int ranks : {1, 2, 3, 4, 7, 8}) {
    for (const int blocks : {1, 2, 3, 5, 8, 16, 24, 41, 112}) grade(blocks, ranks);
    grade(2 * ranks * 9, ranks);
    grade(2 * ranks * 9 + ranks, ranks);
  }
}
#endif
/* Other answers, as changes of the solution
# striped: dealt like cards, always in the same direction
@ easy: always in the same order
- return block / ranks % 2 == 0 ? r : ranks - 1 - r;
+   return r;

# one_too_far: the mirror of r is ranks - r
@ easy: there is no rank
- return block / ranks % 2 == 0 ? r : ranks - 1 - r;
+   return block / ranks % 2 == 0 ? r : ranks - r;

# first_and_last: only the two ends of the sequence are folded
@ odd: number of blocks
- const int r = block % ranks;
- return block / ranks % 2 == 0 ? r : ranks - 1 - r;
+   const int r = std::min(block, blocks - 1 - block);
+   return std::min(r, ranks - 1);

# min_of_both: the position in a pair of rounds, or its mirror
@ right
- const int r = block % ranks;
- return block / ranks % 2 == 0 ? r : ranks - 1 - r;
+   const int place = block % (2 * ranks);
+   return std::min(place, 2 * ranks - 1 - place);

*/
