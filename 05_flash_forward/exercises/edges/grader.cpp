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

using SeesKey = std::function<bool(int query, int key)>;

std::vector<Wrong> wrongs(const Inputs& in) {
  const Sizes s = in.sizes;
  const int shift = s.length_k - s.length_q;
  const auto with = [&](const SeesKey& seen) {
    return attention(in, [&](int, int query, int key, double product) {
      return seen(query, key) ? static_cast<double>(in.scale) * product : kMinusInfinity;
    });
  };
  const auto up_to = [&](int more) {
    return with([=](int query, int key) { return !s.causal || key <= query + more; });
  };
  // What the block's first query sees, rounded up to whole tiles.
  const auto unmasked = [=](int query) {
    const int seen = std::clamp(query / tile_rows * tile_rows + 1 + shift, 0, s.length_k);
    return ceil_div(seen, tile_keys) * tile_keys;
  };
  const std::string off =
      "the mask is off by one: a query sees the key at its own place, and none "
      "after it";
  return {{"no key is masked", with([](int, int) { return true; })},
          {"the mask is aligned top left: query 0 sees one key only. The last query sees the last "
           "key",
           up_to(0)},
          {off, up_to(shift - 1)},
          {off, up_to(shift + 1)},
          {"unmasked_tiles is too large: a tile of which the block's first query sees a part was "
           "not masked. Round down what that query sees",
           with([&](int query, int key) {
             return sees(s, query, key) || (s.causal && key < unmasked(query));
           })}};
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
