#if defined(FA_STUDENT)
#include "common/attention/score_functors.cuh"

namespace fa::FA_TARGET {

/// The kind of a tile by its four corners.
template <class Mask>
__host__ __device__ TileKind by_corners(const Mask& mask, const ScoreTile& t) {
  const int seen = mask.visible(t.batch, t.head, t.first_query, t.first_key) +
                   mask.visible(t.batch, t.head, t.first_query, t.last_key) +
                   mask.visible(t.batch, t.head, t.last_query, t.first_key) +
                   mask.visible(t.batch, t.head, t.last_query, t.last_key);
  return seen == 4 ? TileKind::kWhole : seen == 0 ? TileKind::kSkipped : TileKind::kPartial;
}

/// A band: query i stands at key i + shift, and sees the keys that are at
/// most `reach` away from there, on either side.
struct Band : PlainScores {
  int reach;
  int shift;  ///< length_k - length_q

  __host__ __device__ Band(int the_reach, int the_shift) : reach(the_reach), shift(the_shift) {}
  __host__ __device__ bool visible(int, int, int query, int key) const {
    const int distance = query + shift - key;
    return -reach <= distance && distance <= reach;
  }
  /// kSkipped where no query of the tile sees any of its keys, kWhole where
  /// every query sees all of them, else kPartial.
  __host__ __device__ TileKind tile_kind(const ScoreTile& t) const {
#ifdef FA_SOLUTION
    // query + shift - key, of the pairs in the tile
    const int least = t.first_query + shift - t.last_key;
    const int most = t.last_query + shift - t.first_key;
    if (most < -reach || least > reach) return TileKind::kSkipped;
    if (-reach <= least && most <= reach) return TileKind::kWhole;
    return TileKind::kPartial;
#else
    return by_corners(*this, t);
#endif
  }
};

}  // namespace fa::FA_TARGET
#elif defined(FA_ENTRIES)
#include "05_flash_forward/exercises/tile_kinds.hpp"

using namespace fa::classroom;

FA_ENTRY(kinds, [](const Mask& m) {
  return tile_kinds(m, fa::FA_TARGET::Band(m.reach, m.length_k - m.length_q));
});
FA_ENTRY(pairs, [](const Mask& m) {
  return visible_pairs(m, fa::FA_TARGET::Band(m.reach, m.length_k - m.length_q));
});
#elif defined(FA_GRADER)
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
/* Other answers, as changes of the solution
# not_an_answer: an input for which the rule is right
@ found: not found
- // answer: 40, 64, 104
+ // answer: 0, 0, 0

# corners: as it was
@ easy: a key is lost
- // query + shift - key, of the pairs in the tile
- ...
- return TileKind::kPartial;
+    return by_corners(*this, t);

# whole_one_off: a tile with one masked pair is called whole
@ odd: is called whole
- if (-reach <= least && most <= reach) return TileKind::kWhole;
+    if (-reach <= least + 1 && most <= reach + 1) return TileKind::kWhole;

# right_side: the left side of the band is forgotten
@ traffic: is multiplied although no query sees a key of it
- if (most < -reach || least > reach) return TileKind::kSkipped;
+    if (most < -reach) return TileKind::kSkipped;

# by_rows: the range of keys that the first and the last query see
@ right
- // query + shift - key, of the pairs in the tile
- ...
- return TileKind::kPartial;
+    const int first = t.first_query + shift, last = t.last_query + shift;
+    if (t.last_key < first - reach || last + reach < t.first_key) return TileKind::kSkipped;
+    return last - reach <= t.first_key && t.last_key <= first + reach ? TileKind::kWhole : TileKind::kPartial;
*/
