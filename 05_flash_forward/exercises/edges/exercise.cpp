#if defined(FA_STUDENT)
#include "05_flash_forward/kernels/07_pipeline.cuh"

namespace fa::FA_TARGET {

/// How many keys, from the first, a query sees: 0 to length_k. It takes the place of the lesson's
/// function of this name. The kernel calls it for queries beyond the last one, too.
__device__ inline int visible_keys(const Attention<half>& a, int query) {
#ifdef FA_SOLUTION
  // listing: common/attention/attention.cuh#visible_keys_body
#else
  // TODO: a.causal, a.length_q, a.length_k
  return a.length_k;
#endif
}

/// Masks the scores of keys that a query does not see. It takes the place of the lesson's function,
/// too.
template <int row_tiles, int key_tiles>
__device__ void apply_mask(float (&s)[row_tiles][key_tiles][4], const Attention<half>& a,
                           int query0, int key0, int lane) {
  // listing: common/attention/mma_tile.cuh#apply_mask
}

/// Step 07's kernel with the masks of step 08: you need not change the rest.
template <class Tile, class T, bool has_dropout>
__global__ void __launch_bounds__(Tile::threads) flash_edge_masks(Attention<T> a) {
  constexpr int d = Tile::d;
  T* const q_smem = dynamic_shared<T>();
  T* const k_smem = q_smem + Tile::q_size;
  T* const v_smem = k_smem + 2 * Tile::kv_size;
  const int thread = threadIdx.x, lane = thread % kWarp;
  const int warp_row = thread / kWarp * Tile::warp_rows;
  const int block = longest_first_m_block(a);
  const int query0 = block * Tile::block_m;
  const auto head = head_of(a, blockIdx.z, blockIdx.y);
#ifdef FA_SOLUTION
  const int tiles = ceil_div(visible_keys(a, query0 + Tile::block_m - 1), Tile::block_n);
  const int unmasked_tiles = visible_keys(a, query0) / Tile::block_n;
#else
  // TODO: how many tiles of keys this block needs, and how many of these, from
  // the first, all of its queries see wholly. The first one is query0.
  const int tiles = ceil_div(a.length_k, Tile::block_n);
  const int unmasked_tiles = 0;
#endif
  const auto load = [&](int tile, auto last) {
    constexpr bool ragged = decltype(last)::value;  // else whole tiles
    const int key0 = tile * Tile::block_n, at = tile % 2 * Tile::kv_size;
    copy_rows_async<Tile::block_n, d, Tile::threads, ragged>(k_smem + at, head.k, a.k_strides.row,
                                                             key0, a.length_k, a.head_dim, thread);
    copy_rows_async<Tile::block_n, d, Tile::threads, ragged>(v_smem + at, head.v, a.v_strides.row,
                                                             key0, a.length_k, a.head_dim, thread);
  };
  if (tiles > 0) {
    copy_rows_async<Tile::block_m, d, Tile::threads>(q_smem, head.q, a.q_strides.row, query0,
                                                     a.length_q, a.head_dim, thread);
    load(tiles - 1, std::true_type{});
    cp_async_commit();
  }
  Accumulators<Tile, d> o = {};
  WarpRowState<Tile> state;
  init_row_state(state);
  const auto step = [&](int tile, bool masked) {
    const int key0 = tile * Tile::block_n, at = tile % 2 * Tile::kv_size;
    cp_async_wait<0>();
    __syncthreads();  // arrived; no warp still reads the stage load() fills
    if (tile > 0) load(tile - 1, std::false_type{});
    cp_async_commit();
    Accumulators<Tile, Tile::block_n> s = {};
    // S = Q K^T
    multiply_q_k<d>(s, q_smem, k_smem + at, warp_row, lane);
    if (masked) {
      apply_mask(s, a, query0 + warp_row, key0, lane);
    }
    for (auto& of_rows : s) {
      for (auto& part : of_rows) {
        for (float& x : part) x *= a.scale;
      }
    }
    softmax_step<Tile>(s, o, state);
    // O += P V
    multiply_p_v<d>(o, s, v_smem + at, lane);
  };
  int tile = tiles - 1;  // the edge first
  for (; tile >= unmasked_tiles; --tile) step(tile, true);
  for (; tile >= 0; --tile) step(tile, false);
  store_rows<Tile>(a, head, o, state, query0 + warp_row, lane);
}

}  // namespace fa::FA_TARGET
#elif defined(FA_ENTRIES)
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

// clang-format off
#include "student/edges.cuh"
// After the student's kernel.
#include "05_flash_forward/exercises/edge_masks_entry.hpp"
// clang-format on
#elif defined(FA_GRADER)
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
/* Other answers, as changes of the solution
# start: what the student begins with
@ start
- if (8 * j + fragment_column(lane, e) >= visible) {
- s[i][j][2 * h + e] = -INFINITY;
- }
+           // TODO: s[i][j][2 * h + e] is the score of key
+           // 8 j + fragment_column(lane, e) of this tile; `visible` counts from the
+           // tile's first key.

# top_left: query i sees keys up to i
@ odd: aligned top left
- const int visible = query + 1 + a.length_k - a.length_q;
+   const int visible = query + 1;

# whole_ceiling: the tile at the edge is not masked
@ easy: unmasked_tiles is too large
- const int unmasked_tiles = visible_keys(a, query0) / Tile::block_n;
+   const int unmasked_tiles = ceil_div(visible_keys(a, query0), Tile::block_n);

# beyond_the_end: queries beyond the last one see more keys than there are
@ odd: at most length_k
- return visible < 0 ? 0 : visible < a.length_k ? visible : a.length_k;
+   return visible < 0 ? 0 : visible;

# all_tiles: nothing is skipped
@ traffic: tiles are visited that no query
- const int tiles = ceil_div(visible_keys(a, query0 + Tile::block_m - 1), Tile::block_n);
+   const int tiles = ceil_div(a.length_k, Tile::block_n);

# step_by_step: keys are counted one by one
@ right
- if (!a.causal) return a.length_k;
- const int visible = query + 1 + a.length_k - a.length_q;
- return visible < 0 ? 0 : visible < a.length_k ? visible : a.length_k;
+  int count = 0;
+  for (int key = 0; key < a.length_k; key++) { if (!a.causal || key <= query + a.length_k - a.length_q) count = count + 1; }
+  return count;

# never_unmasked: each tile is masked
@ right
- const int unmasked_tiles = visible_keys(a, query0) / Tile::block_n;
+  const int unmasked_tiles = 0;
*/
