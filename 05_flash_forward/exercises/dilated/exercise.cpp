#if defined(FA_STUDENT)
#include "05_flash_forward/kernels/functors/01_score_functor.cuh"

namespace fa::FA_TARGET {

/// A dilated window: query i stands at key i + shift. Of the keys that are at
/// most `reach` away from there, on either side, it sees every second one,
/// beginning with its own.
struct Dilated : PlainScores {
  int reach;
  int shift;  ///< length_k - length_q, also below 0

  __host__ __device__ Dilated(int the_reach, int the_shift) : reach(the_reach), shift(the_shift) {}
#ifdef FA_SOLUTION
  __host__ __device__ bool visible(int, int, int query, int key) const {
    const int distance = query + shift - key;
    return distance % 2 == 0 && -reach <= distance && distance <= reach;
  }
  __host__ __device__ TileKind tile_kind(const ScoreTile& t) const {
    const int least = t.first_query + shift - t.last_key;
    const int most = t.last_query + shift - t.first_key;
    const int last = reach - reach % 2;  // distances that are seen are even
    if (most < -last || least > last) return TileKind::kSkipped;
    return TileKind::kPartial;
  }
#else
  // TODO: visible() and tile_kind()
#endif
};

}  // namespace fa::FA_TARGET
#elif defined(FA_ENTRIES)
#include "05_flash_forward/exercises/attention.hpp"
#include "05_flash_forward/exercises/tile_kinds.hpp"

FA_ENTRY(pairs,
         [](const Mask& m) { return visible_pairs(m, Dilated(m.reach, m.length_k - m.length_q)); });
FA_ENTRY(kinds, [](const Mask& m) {
  if (Dilated::needs_map) fail("this mask needs no map: a rule says which tiles it skips");
  return tile_kinds(m, Dilated(m.reach, m.length_k - m.length_q));
});

// 32 queries in two warps and 16 keys.
FA_ENTRY(run, [](const Inputs& in, int reach) {
  using Tile = ForwardTile<32, 16, 2, 16>;
  return run<half>(in, [=](const Attention<half>& a) {
    const Dilated functor(reach, a.length_k - a.length_q);
    with_tile_kinds<Tile::block_m, Tile::block_n>(
        a, functor, nullptr, Stream{}, [&](const auto& with_kinds) {
          launch(flash_score_functor<Tile, half, std::decay_t<decltype(with_kinds)>>,
                 {grid_of(a, Tile::block_m), {Tile::threads}, pipeline_bytes<Tile, half>()}, a,
                 with_kinds);
        });
  });
});
#elif defined(FA_GRADER)
#include "05_flash_forward/exercises/grading/attention.hpp"
#include "05_flash_forward/exercises/grading/tiles.hpp"

using namespace fa::classroom;

namespace {

Sees dilated(const Mask& m) {
  return [m](int query, int key) {
    const int distance = query + m.length_k - m.length_q - key;
    return distance % 2 == 0 && std::abs(distance) <= m.reach;
  };
}

// Whether each query sees each key, by a rule of their distance.
template <class SeesAt>
std::vector<double> picture(const Mask& m, SeesAt sees_at) {
  std::vector<double> result;
  for (int query = 0; query < m.length_q; ++query) {
    for (int key = 0; key < m.length_k; ++key) {
      result.push_back(sees_at(query + m.length_k - m.length_q - key) ? 1 : 0);
    }
  }
  return result;
}

void grade_pairs(const Mask& m) {
  const auto pairs = call<std::vector<int>>("pairs", m);
  const int shift = m.length_k - m.length_q;
  const auto inside = [&](int d) { return std::abs(d) <= m.reach; };
  const auto right = [&](int d) { return d % 2 == 0 && inside(d); };
  check({"visible", {pairs.begin(), pairs.end()}, m.length_k}, picture(m, right), 0,
        {{"every key is visible: visible() is not there yet, so that of PlainScores answers",
          picture(m, [](int) { return true; })},
         {"every key of the window is visible; it must be every second one", picture(m, inside)},
         {"every second key is visible, but those are left out that it begins with: it begins with "
          "the query's own key",
          picture(m, [&](int d) { return d % 2 != 0 && inside(d); })},
         {"the remainder of a number below 0 is below 0: -3 % 2 is -1, not 1",
          picture(m, [&](int d) { return d % 2 != 1 && inside(d); })},
         {"the reach is part of the window: a query sees keys at this distance",
          picture(m, [&](int d) { return right(d) && d < m.reach; })},
         {"the window has two sides: a query sees keys behind it, too",
          picture(m, [&](int d) { return right(d) && d >= 0; })},
         {"query i stands at key i + shift, not at key i",
          picture(m, [&](int d) { return right(d - shift); })}},
        words(m));
}

void grade_rule(const Mask& m, bool tight) {
  check_kinds(m, call<std::vector<int>>("kinds", m), dilated(m), tight);
}

Ran run(const Inputs& in, int reach) {
  return call<Ran>("run", in, reach);
}

void grade_attention(const Sizes& s, int reach) {
  const Inputs in = random_inputs<fa::half>(s, 2);
  const Sees sees = dilated({reach, s.length_q, s.length_k, 1, 1});
  const Rows right = attention(in, [&](int, int query, int key, double product) {
    return sees(query, key) ? static_cast<double>(in.scale) * product : kMinusInfinity;
  });
  check_rows(run(in, reach), {}, in, right, 4e-3, {});
}

}  // namespace

FA_STAGE(easy) {
  grade_pairs({4, 9, 9, 1, 1});
  grade_pairs({7, 12, 25, 1, 1});
  grade_pairs({64, 140, 90, 1, 1});
}

FA_STAGE(odd) {
  grade_rule({64, 256, 256, 64, 64}, false);
  grade_rule({64, 200, 233, 64, 48}, false);
  grade_rule({7, 90, 41, 16, 8}, false);
  grade_rule({0, 17, 17, 4, 1}, false);
  grade_rule({100, 33, 65, 16, 16}, false);
  for (int reach = 0; reach < 12; ++reach) grade_rule({reach, 24, 27, 8, 4}, false);
}

FA_STAGE(forward) {
  grade_attention({1, 1, 70, 70, 32, false}, 8);
  grade_attention({4, 2, 45, 101, 24, false}, 21);
  grade_attention({1, 1, 90, 30, 32, false}, 10);  // the first queries see no key
  const Ran ran = run(random_inputs<fa::half>({1, 1, 64, 96, 32, false}), 16);
  if (ran.seen.watched) require_no_findings(ran.seen);
}

FA_STAGE(traffic) {
  grade_rule({64, 256, 256, 64, 64}, true);
  grade_rule({64, 256, 512, 32, 16}, true);
  grade_rule({6, 96, 32, 16, 8}, true);
  grade_rule({9, 96, 64, 16, 8}, true);  // at an odd reach no key is seen
  grade_rule({65, 256, 256, 64, 64}, true);
}
#endif
/* Other answers, as changes of the solution
# a_map: the general way
@ odd: needs no map
- int reach;
+   static constexpr bool needs_map = true;
+   int reach;

# the_others: every second one, beginning beside it
@ easy: begins with the query's own key
- return distance % 2 == 0 && -reach <= distance && distance <= reach;
+     return distance % 2 != 0 && -reach <= distance && distance <= reach;

# remainder: of numbers below 0
@ easy: -3 % 2 is -1
- return distance % 2 == 0 && -reach <= distance && distance <= reach;
+     return distance % 2 != 1 && -reach <= distance && distance <= reach;

# one_side: the right side of the window is forgotten
@ traffic: is multiplied although no query sees a key of it
- if (most < -last || least > last) return TileKind::kSkipped;
+     if (least > last) return TileKind::kSkipped;

# odd_reach: a key at the distance of an odd reach is taken to be seen
@ traffic: is multiplied although no query sees a key of it
- const int last = reach - reach % 2;  // distances that are seen are even
+     const int last = reach;

# pair_by_pair: the rule asks for every pair
@ right
- const int least = t.first_query + shift - t.last_key;
- ...
- return TileKind::kPartial;
+     for (int q = t.first_query; q <= t.last_query; ++q)
+       for (int k = t.first_key; k <= t.last_key; ++k)
+         if (visible(t.batch, t.head, q, k)) return TileKind::kPartial;
+     return TileKind::kSkipped;
*/
