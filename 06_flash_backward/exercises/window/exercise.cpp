#if defined(FA_STUDENT)
#include "06_flash_backward/kernels/03_two_kernels.cuh"

namespace fa::FA_TARGET {

/// Causal attention with a window. Query i stands at key i + length_k - length_q
/// and sees that key and those before it, `window` keys in all.
struct WindowGradient : AttentionGradient<float> {
  int window;
};

/// Sizes: tiles of side = 32 queries and 32 keys, rows of score_ld scores.
using WindowTile = FloatBackwardTile<32>;

/// Queries from this one on see none of the keys key0 ... key0 + 31.
__device__ inline int end_query(const WindowGradient& a, int key0) {
#ifdef FA_SOLUTION
  const int last_key = key0 + WindowTile::side - 1;
  const int end = last_key + a.window - (a.length_k - a.length_q);
  return end < a.length_q ? end : a.length_q;
#else
  // TODO: correct, but too late: many of these tiles add nothing.
  (void)key0;
  const int end = a.length_q;
  return end < a.length_q ? end : a.length_q;
#endif
}

/// Sets P and dS to 0 where the window has left the key. Called by each thread for the four
/// elements that probs_and_d_s() has just made it write.
__device__ inline void hide(const FloatBackwardTiles<WindowTile>& tiles, const WindowGradient& a,
                            int query0, int key0) {
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      const int row = y + 16 * i, col = x + 16 * j;
      const int element = row * WindowTile::score_ld + col;
#ifdef FA_SOLUTION
      const int place = query0 + row + a.length_k - a.length_q;
      if (key0 + col <= place - a.window) {
        tiles.p[element] = 0;
        tiles.d_s[element] = 0;
      }
#else
      // TODO: tiles.p[element] and tiles.d_s[element] are of query
      // query0 + row and key key0 + col.
      (void)tiles, (void)a, (void)query0, (void)key0, (void)element;
#endif
    }
  }
}

/// dK and dV. Launched with blocks of 256; ceil(length_k / 32) x heads of them.
__global__ void window_keys(WindowGradient a) {
  using Tile = WindowTile;
  const auto tiles = float_backward_tiles<Tile>();
  const int key0 = blockIdx.x * Tile::side;
  const auto head = gradient_head(a, 0, blockIdx.y);
  const auto kv = head_of(a, 0, blockIdx.y);
  load_float_tile<Tile>(tiles.k, kv.k, a.k_strides.row, key0, a.length_k, a.head_dim);
  load_float_tile<Tile>(tiles.v, kv.v, a.v_strides.row, key0, a.length_k, a.head_dim);
  const int row = threadIdx.x / 8;  // a key, for the sums
  FloatRow<Tile> d_k = {}, d_v = {};
  const int end = end_query(a, key0);
  for (int query0 = first_query(a, key0) / Tile::side * Tile::side; query0 < end;
       query0 += Tile::side) {
    load_float_tile<Tile>(tiles.q, head.q, a.q_strides.row, query0, a.length_q, a.head_dim);
    load_float_tile<Tile>(tiles.d_o, head.d_o, a.d_o_strides.row, query0, a.length_q, a.head_dim);
    __syncthreads();                                    // the tiles are loaded
    probs_and_d_s<Tile>(tiles, a, head, query0, key0);  // with the causal mask
    hide(tiles, a, query0, key0);
    __syncthreads();  // P and dS are ready
    for (int i = 0; i < Tile::side; ++i) {
      add_float_row<Tile>(d_v, tiles.p[i * Tile::score_ld + row], tiles.d_o + i * Tile::ld);
      add_float_row<Tile>(d_k, tiles.d_s[i * Tile::score_ld + row], tiles.q + i * Tile::ld);
    }
    __syncthreads();  // all threads have read the tiles
  }
  const int key = key0 + row;
  if (key >= a.length_k) return;
  const std::int64_t to = key * a.d_k_strides.row;
  store_float_row<Tile>(kv_rows(a.d_k, a.d_k_strides, 0, blockIdx.y) + to, d_k, a.scale,
                        a.head_dim);
  store_float_row<Tile>(kv_rows(a.d_v, a.d_v_strides, 0, blockIdx.y) + to, d_v, 1.0f, a.head_dim);
}

}  // namespace fa::FA_TARGET
#elif defined(FA_ENTRIES)
#include "06_flash_backward/exercises/on_device.cuh"

namespace plain = fa::backward::plain;

FA_ENTRY(run, [](const plain::Problem& x) {
  std::pair<Seen, plain::Gradients> result;
  result.first = watch([&] {
    const plain::OnDevice device(x);
    launch(window_keys, plain::tile_launch(x.length_k, 1), WindowGradient{device.a, x.window});
    result.second = device.gradients();
  });
  return result;
});
#elif defined(FA_GRADER)
#include "06_flash_backward/exercises/grading/mistakes.hpp"

using namespace fa::classroom;
namespace plain = fa::backward::plain;
using plain::MistakeKind;
using plain::Problem;

namespace {

constexpr int kSide = 32;

Problem problem(int length_q, int length_k, int head_dim, int window) {
  Problem x = plain::random_problem(1, length_q, length_k, head_dim, true);
  x.window = window;
  // Small scores: mistakes are then no larger than what float32 tells apart.
  for (double& number : x.q) number /= 4;
  return x;
}

std::string name_of(const Problem& x) {
  return fmt::format("{} queries, {} keys, a window of {}", x.length_q, x.length_k, x.window);
}

const std::vector<Reason> kReasons{
    {"barrier", "some threads never come to a barrier that others wait at"},
    {"out of bounds", "it writes beside the gradients or the tiles"},
    {"unwritten", "a tile is read where no thread has written"},
    {"race",
     "P and dS are masked by a thread that did not write them, or after the barrier that makes "
     "them visible to the others"}};

void grade(const Problem& x) {
  const plain::Ran c = plain::run(x);
  require(c.seen.atomics == 0,
          fmt::format("{} atomic requests, where each sum has one owner, who stores it",
                      c.seen.atomics));
  plain::check_gradients(
      c, kReasons, x, 2e-5,
      name_of(x) + "; query i stands at key i + length_k - length_q, and sees the last of them",
      {{MistakeKind::kNoWindow, "keys that the window has left still have a probability"},
       {MistakeKind::kWindowOneMore,
        "a key too many has a probability: with its own key a query sees `window` keys"},
       {MistakeKind::kWindowOfFirstKey,
        "the loop ends behind the last query that sees the block's first key; queries after it "
        "see other keys of the block"}},
      {{MistakeKind::kNoWindow,
        "keys that the window has left still have a dS; P alone was set to 0"}});
}

// Early keys are so large that their scores, beside the LSE of later windows, are powers that
// float32 does not have.
void grade_huge() {
  Problem x = problem(20, 20, 32, 5);
  for (int e = 0; e < 8 * x.head_dim; ++e) x.k[e] *= 400;
  const plain::Ran c = plain::run(x);
  for (const std::vector<double>& numbers : {c.out.d_v, c.out.d_k}) {
    for (const double number : numbers) {
      require(!std::isnan(number),
              "NaN when scores outside of the window are huge: infinity times 0 is NaN, so what is "
              "masked is set to 0 and not multiplied");
    }
  }
  // Scores of some hundred are off by 1e-4, and so are probabilities.
  plain::check_gradients(c, kReasons, x, 2e-3, name_of(x) + ", huge scores outside of it");
}

void grade_traffic(int window) {
  const Problem x = problem(96, 96, 32, window);
  const plain::Ran c = plain::run(x);
  needs_watching(c.seen);
  std::int64_t least = 0;
  for (int query0 = 0; query0 < x.length_q; query0 += kSide) {
    for (int key0 = 0; key0 < x.length_k; key0 += kSide) {
      bool any = false;
      for (int i = query0; i < query0 + kSide; ++i) {
        for (int j = key0; j < key0 + kSide; ++j) any = any || x.sees(i, j);
      }
      least += any;
    }
  }
  // K, V and the gradients once; Q, dO and, for each 2 x 2 scores, LSE, delta and the row sum with
  // each tile.
  const std::int64_t tile = kSide * 32 * 4;
  const std::int64_t fixed = x.length_k / kSide * 4 * tile;
  const std::int64_t went_by = (c.seen.bytes - fixed) * 2 / (7 * tile);
  budget("tiles of queries visited", went_by, least, name_of(x), least);
}

}  // namespace

FA_STAGE(easy) {
  grade(problem(48, 48, 8, 10));
}

FA_STAGE(odd) {
  grade(problem(20, 40, 8, 9));
  grade(problem(90, 20, 8, 12));
  grade(problem(64, 64, 8, 2));  // the last query of a tile
  grade(problem(70, 66, 8, 34));
  grade(problem(5, 7, 24, 1));
  grade(problem(9, 4, 8, 1000));
  grade_huge();
}

FA_STAGE(races) {
  const plain::Ran c = plain::run(problem(40, 33, 8, 6));
  require_no_races(c.seen, kReasons);
}

FA_STAGE(traffic) {
  grade_traffic(10);
  grade_traffic(33);  // the last query that sees a tile of keys is the last of its own tile
}
#endif
/* Other answers, as changes of the solution
# weights_only: dS is not masked
@ easy: P alone was set to 0
- tiles.d_s[element] = 0;
+

# one_more: the window and the query's own key
@ easy: a key too many
- if (key0 + col <= place - a.window) {
+       if (key0 + col < place - a.window) {

# times_zero: infinity times 0
@ odd: infinity times 0 is NaN
- tiles.p[element] = 0;
- tiles.d_s[element] = 0;
+         tiles.p[element] *= 0;
+         tiles.d_s[element] *= 0;

# beyond_the_end: more queries than there are
@ odd: beside
- return end < a.length_q ? end : a.length_q;
+   return end;

# all_go_by: the loop does not end early
@ traffic: tiles of queries visited
- return end < a.length_q ? end : a.length_q;
+   return end < 0 ? 0 : a.length_q;

# other_threads_order: another division of the elements, behind a barrier
@ right
- for (int i = 0; i < 2; ++i) {
- ...
- tiles.d_s[element] = 0;
- }
- }
- }
+  __syncthreads(); (void)x; (void)y;
+  for (int e = threadIdx.x; e < 1024; e += 256) {
+    const int row = e / 32, col = e % 32;
+    const int gap = query0 + row + a.length_k - a.length_q - (key0 + col);
+    if (gap >= a.window) tiles.p[row * WindowTile::score_ld + col] = tiles.d_s[row * WindowTile::score_ld + col] = 0;
+  }
*/
