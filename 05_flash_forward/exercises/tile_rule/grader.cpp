#ifdef FA_ENTRIES  // the student's process
#include "05_flash_forward/exercises/tile_kinds.hpp"

using namespace fa::classroom;

FA_ENTRY(kinds, [](const Mask& m) {
  return tile_kinds(m, fa::FA_TARGET::Band(m.reach, m.length_k - m.length_q));
});
FA_ENTRY(pairs, [](const Mask& m) {
  return visible_pairs(m, fa::FA_TARGET::Band(m.reach, m.length_k - m.length_q));
});
#else  // the grader
#include "05_flash_forward/exercises/grading/tiles.hpp"

using namespace fa::classroom;

namespace {

constexpr int kReach = 20, kSide = 64;

Sees band(const Mask& m) {
  return [m](int query, int key) {
    const int distance = query + m.length_k - m.length_q - key;
    return std::abs(distance) <= m.reach;
  };
}

// The rule as it was.
bool skipped_by_corners(const Sees& sees, int query0, int key0) {
  const int query1 = query0 + kSide - 1, key1 = key0 + kSide - 1;
  return !sees(query0, key0) && !sees(query0, key1) && !sees(query1, key0) && !sees(query1, key1);
}

void grade(const Mask& m, bool tight = false) {
  const Sees sees = band(m);
  const auto pairs = call<std::vector<int>>("pairs", m);
  bool same = pairs.size() == static_cast<std::size_t>(m.length_q) * m.length_k;
  for (int i = 0; same && i < static_cast<int>(pairs.size()); ++i) {
    same = (pairs[i] != 0) == sees(i / m.length_k, i % m.length_k);
  }
  require(same, "visible() is right as it was: change only the rule");
  check_kinds(m, call<std::vector<int>>("kinds", m), sees, tight);
}

}  // namespace

FA_STAGE(found) {
  const std::vector<double> numbers =
      evidence("shift, a query and a key that it sees, as in 12, 3, 15").numbers;
  require(numbers.size() == 3, "three numbers are asked for: shift, query, key");
  int n[3];
  for (int i = 0; i < 3; ++i) {
    require(numbers[i] == std::floor(numbers[i]) && std::abs(numbers[i]) <= 1 << 20,
            "shift, query and key are whole numbers");
    n[i] = static_cast<int>(numbers[i]);
  }
  const auto [shift, query, key] = n;
  require(query >= 0 && key >= 0, "queries and keys count from 0");
  const Sees sees = [s = shift](int i, int j) { return std::abs(i + s - j) <= kReach; };
  require(sees(query, key),
          fmt::format("not found: with shift {} and reach 20 query {} does not see key {}", shift,
                      query, key));
  const int query0 = query / kSide * kSide, key0 = key / kSide * kSide;
  require(skipped_by_corners(sees, query0, key0),
          fmt::format("not found: with shift {} one of the corners of the tile of queries {} to {} "
                      "and keys {} to {} is visible, so it is not skipped",
                      shift, query0, query0 + kSide - 1, key0, key0 + kSide - 1));
}

FA_STAGE(easy) {
  grade({20, 128, 168, 64, 64});
  grade({20, 256, 256, 64, 64});
}

FA_STAGE(odd) {
  grade({20, 200, 233, 64, 48});
  grade({7, 90, 41, 16, 8});
  grade({0, 70, 75, 5, 48});
  grade({64, 130, 257, 16, 64});
  grade({3, 1, 17, 64, 16});
  grade({1000, 33, 65, 16, 16});
  for (int reach = 1; reach < 12; ++reach) grade({reach, 24, 27, 8, 4});
}

FA_STAGE(traffic) {
  grade({20, 256, 256, 64, 64}, true);
  grade({100, 256, 320, 16, 32}, true);
  grade({40, 320, 256, 32, 16}, true);
  for (int reach = 5; reach < 12; ++reach) grade({reach, 24, 27, 8, 4}, true);
}
#endif
