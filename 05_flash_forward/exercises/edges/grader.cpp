#ifdef FA_ENTRIES  // the student's process
#include "05_flash_forward/exercises/attention.hpp"
#include "common/attention/mma_tile.cuh"

// What the lesson has is to be written, not called.
namespace fa::FA_TARGET {

template <>
int visible_keys<half>(const Attention<half>&, int) = delete;
template <>
void apply_mask(float (&)[1][2][4], const Attention<half>&, int, int, int) = delete;
template <>
void apply_mask(float (&)[2][4][4], const Attention<half>&, int, int, int) = delete;

}  // namespace fa::FA_TARGET

#include "student/edges.cuh"
// After the student's kernel.
#include "05_flash_forward/exercises/edge_masks_entry.hpp"
#else  // the grader
#include "05_flash_forward/exercises/grading/attention.hpp"

using namespace fa::classroom;

namespace {

// What an answer thinks of a problem.
struct Answer {
  std::function<int(int query)> seen;
  std::function<int(int query0)> tiles, whole;
  std::function<bool(int key, int seen)> masks;
  double masked_score = kMinusInfinity;
};

int clamped(int seen, const Sizes& s) {
  return std::min(std::max(seen, 0), s.length_k);
}

// An answer that does all the rest as the lesson does.
Answer with_seen(std::function<int(int)> seen) {
  return {seen, [=](int query0) { return ceil_div(seen(query0 + tile_rows - 1), tile_keys); },
          [=](int query0) { return seen(query0) / tile_keys; },
          [](int key, int of_query) { return key >= of_query; }};
}

Rows simulated(const Inputs& in, const Answer& answer) {
  const auto scale = static_cast<double>(in.scale);
  return attention(in, [&](int, int query, int key, double product) {
    const int query0 = query / tile_rows * tile_rows, tile = key / tile_keys;
    if (tile >= answer.tiles(query0)) return kMinusInfinity;
    if (tile >= answer.whole(query0) && answer.masks(key, answer.seen(query))) {
      return scale * answer.masked_score;
    }
    return scale * product;
  });
}

std::vector<Wrong> wrongs(const Inputs& in) {
  const Sizes s = in.sizes;
  const auto aligned = [=](int more) {
    return [=](int query) { return s.causal ? clamped(query + more, s) : s.length_k; };
  };
  const int shift = s.length_k - s.length_q;
  const auto seen = aligned(1 + shift);
  const Answer right = with_seen(seen);
  std::vector<Wrong> result;
  const auto add = [&](const std::string& says, const Answer& answer) {
    result.push_back({says, simulated(in, answer)});
  };
  const auto change = [&](const std::string& says, auto how) {
    Answer answer = right;
    how(answer);
    add(says, answer);
  };
  // Before all that speak of the mask: without it they may give the same.
  add("no key is masked",
      {[=](int) { return s.length_k; }, [=](int) { return ceil_div(s.length_k, tile_keys); },
       [](int) { return 0; }, [](int, int) { return false; }});
  change(
      "no key of the visited tiles is masked. Does apply_mask mask any? Is unmasked_tiles what the "
      "block's first query sees?",
      [](Answer& a) { a.masks = [](int, int) { return false; }; });
  add("the mask is aligned top left: query 0 sees one key only. The last query sees the last key",
      with_seen(aligned(1)));
  add("the mask is off by one: a query does not see the key at its own place",
      with_seen(aligned(shift)));
  add("the mask is off by one: a query sees the key after its own place",
      with_seen(aligned(2 + shift)));
  add("keys are masked, although this problem has no mask",
      with_seen([=](int query) { return clamped(query + 1 + shift, s); }));
  change("tiles is rounded down: the last tile is seen in part, and left out", [=](Answer& a) {
    a.tiles = [=](int query0) { return seen(query0 + tile_rows - 1) / tile_keys; };
  });
  change("tiles is what the block's first query needs; its last one sees more", [=](Answer& a) {
    a.tiles = [=](int query0) { return ceil_div(seen(query0), tile_keys); };
  });
  change(
      "tiles is counted for a block of 32 queries or for tiles of 16 keys; a block has "
      "Tile::block_m queries, a tile Tile::block_n keys",
      [=](Answer& a) {
        a.tiles = [=](int query0) { return ceil_div(seen(query0 + 31), tile_keys); };
      });
  change("tiles ends before the last key of the block's last query", [=](Answer& a) {
    a.tiles = [=](int query0) { return ceil_div(seen(query0 + tile_rows - 2), tile_keys); };
  });
  change(
      "unmasked_tiles is too large: a tile of which the block's first query sees a part was not "
      "masked. Round down what that query sees",
      [=](Answer& a) { a.whole = [=](int query0) { return ceil_div(seen(query0), tile_keys); }; });
  change("unmasked_tiles is what the block's last query sees; its first one sees less",
         [=](Answer& a) {
           a.whole = [=](int query0) { return seen(query0 + tile_rows - 1) / tile_keys; };
         });
  change(
      "only the block's last tile was masked; its first query may see none of the tile before "
      "either",
      [=](Answer& a) { a.whole = [=](int query0) { return right.tiles(query0) - 1; }; });
  change("one key too many is seen: key number `visible` is masked already",
         [](Answer& a) { a.masks = [](int key, int of_query) { return key > of_query; }; });
  change("`visible` in apply_mask counts from the tile's first key already", [](Answer& a) {
    a.masks = [](int key, int of_query) { return key >= of_query - key / tile_keys * tile_keys; };
  });
  change("a lane holds two neighbouring keys of each 8, 2 (lane % 4) and the next", [](Answer& a) {
    a.masks = [](int key, int of_query) { return key / 8 * 8 + key % 8 / 2 + key % 2 >= of_query; };
  });
  Answer first_row_tile = right;
  first_row_tile.seen = [=](int query) { return seen(query / 32 * 32 + query % 16); };
  add("a warp has 16 * Tile::row_tiles queries, and a lane those of rows 16 i + fragment_row(lane, "
      "2 h): here 16 i is left out",
      first_row_tile);
  change("a masked score is 0, and e^0 is 1: it must be -infinity",
         [](Answer& a) { a.masked_score = 0; });
  change(
      "a masked score is a large negative number: rows that see no key become an average, and must "
      "be 0",
      [](Answer& a) { a.masked_score = -1e9; });
  return result;
}

const std::vector<Reason> kReasons = {
    {"out of bounds",
     "a tile beyond the last key is read: a query sees at most length_k keys, also one beyond the "
     "last query, and `tiles` counts tiles of Tile::block_n keys"},
    {"unwritten", "a tile before the first key is used: a query sees at least 0 keys"}};

void grade(const Sizes& sizes, bool large = false) {
  const Inputs in = random_inputs<fa::half>(sizes);
  // Weights and O are rounded to float16.
  const Ran ran = run_tiled(in, large);
  check_rows(ran, kReasons, in, attention(in), 3e-3, wrongs(in));
}

}  // namespace

FA_STAGE(easy) {
  grade({1, 1, 64, 64, 32, true});
}

FA_STAGE(odd) {
  grade({1, 1, 37, 71, 32, true});
  // The last query of a block is the only one that sees a key of the last tile.
  grade({1, 1, 32, 33, 32, true});
  grade({2, 1, 45, 77, 32, false});
  grade({1, 1, 70, 45, 32, true});
  grade({1, 1, 100, 33, 32, true});
  // 64 queries and 32 keys; each warp has 32 queries, so i is 0 and 1.
  grade({1, 1, 100, 117, 32, true}, true);
  grade({1, 1, 70, 45, 32, true}, true);
}

FA_STAGE(races) {
  for (const auto& [queries, keys] : {std::pair(37, 71), std::pair(100, 33)}) {
    const Ran ran = run_tiled(random_inputs<fa::half>({1, 1, queries, keys, 32, true}));
    require_no_races(ran.seen, kReasons);
  }
}

FA_STAGE(traffic) {
  const Ran ran = run_tiled(random_inputs<fa::half>({1, 1, 128, 128, 32, true}));
  needs_watching(ran.seen);
  // 4 blocks with 2, 4, 6 and 8 tiles of K and of V; Q and O; LSE.
  const std::int64_t row = 2 * 32,
                     least = (2 + 4 + 6 + 8) * 2 * tile_keys * row + 2 * 128 * row + 4 * 128;
  budget("bytes of global memory", ran.seen.bytes, least,
         "tiles are visited that no query of the block sees", least);
}
#endif
