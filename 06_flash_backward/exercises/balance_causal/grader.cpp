#ifdef FA_ENTRIES  // the student's process
FA_ENTRY(owners, [](int blocks, int ranks) {
  std::vector<int> result;
  for (int block = 0; block < blocks; ++block) {
    result.push_back(student::owner(block, blocks, ranks));
  }
  return result;
});
#else  // the grader
#include "common/classroom/grader.hpp"

#include <fmt/ranges.h>

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
