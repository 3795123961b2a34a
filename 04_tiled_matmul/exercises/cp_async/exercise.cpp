#if defined(FA_STUDENT)
#include "common/gpu/kernel.cuh"

namespace fa::FA_TARGET {

/// Threads of the block, elements of a tile, and stages in shared memory.
constexpr int kThreads = 64, kTileSize = 4 * kThreads, kStages = 3;

/// out[j] = the sum over all tiles of element 255 - j of the tile; one block.
/// @param x [tiles, 256]
__global__ void sum_tiles(const float* x, float* out, int tiles) {
  __shared__ __align__(16) float stages[kStages][kTileSize];
  const int thread = threadIdx.x;
  // Begins to copy a tile; each thread copies 16 bytes. Behind the last tile it begins nothing, and
  // closes a group all the same: group t is always that of tile t.
  const auto fetch = [&](int t) {
    if (t < tiles) {
      cp_async16(&stages[t % kStages][4 * thread], x + std::int64_t{t} * kTileSize + 4 * thread);
    }
    cp_async_commit();
  };
  float sum[4] = {};
  // Adds the tile in a stage; other threads have copied what this one reads.
  const auto add = [&](int t) {
    for (int i = 0; i < 4; ++i) {
      sum[i] += stages[t % kStages][kTileSize - 1 - (thread + i * kThreads)];
    }
  };
#ifdef FA_SOLUTION
  for (int t = 0; t < kStages - 1; ++t) fetch(t);
  for (int t = 0; t < tiles; ++t) {
    cp_async_wait<kStages - 2>();  // this thread's part of tile t is there
    __syncthreads();               // all parts are, and all threads are done with tile t - 1
    fetch(t + kStages - 1);
    add(t);
  }
#else
  // TODO: fetch two tiles ahead; wait for tile t, and for the other threads; add it.
  (void)fetch, (void)add;
#endif
  for (int i = 0; i < 4; ++i) out[thread + i * kThreads] = sum[i];
}

}  // namespace fa::FA_TARGET
#elif defined(FA_ENTRIES)
namespace {

// Copies of the block's first thread that are in flight when it begins to add a tile; the fewest of
// all tiles that have two more behind them.
double copies_in_flight(const Seen& seen, int tiles) {
  constexpr int reads_of_a_tile = kTileSize / kThreads;
  int in_flight = 0, reads = 0, fewest = tiles > 2 ? 2 : 0;
  for (const fa::lab::Touch& touch : seen.touches) {
    if (touch.thread != 0 || !touch.shared) continue;
    if (touch.write) {
      in_flight += touch.landed ? -1 : 1;
    } else if (reads++ % reads_of_a_tile == 0 && reads / reads_of_a_tile + 2 < tiles) {
      fewest = std::min(fewest, in_flight);
    }
  }
  return fewest;
}

}  // namespace

FA_ENTRY(sum, [](const std::vector<float>& numbers, int tiles) {
  Launched result = watched([&] {
    const auto x = on_device(numbers);
    DeviceBuffer<float> out(256);
    launch(sum_tiles, {{1}, {64}}, x.data(), out.data(), tiles);
    return from_device(out);
  });
  result.out.push_back(copies_in_flight(result.seen, tiles));
  return result;
});
#elif defined(FA_GRADER)
#include "common/classroom/lab.hpp"

using namespace fa::classroom;

namespace {

constexpr int kTileSize = 256;

const std::vector<Reason> kReasons = {
    {"copy",
     "a tile is read, or its stage overwritten, while a copy is in flight: before tile t is added "
     "at most one younger group may be left, cp_async_wait<kStages - 2>. A thread waits for its "
     "own copies only: a barrier follows the wait, and the next fetch follows the barrier"},
    {"race",
     "a stage is overwritten while other threads still add it, or read before the other threads' "
     "copies have landed: a barrier belongs between the wait and the next fetch"},
    {"unwritten",
     "a stage is read to which no tile was copied: how many tiles are fetched before the loop?"}};

struct Case : Launched {
  std::vector<float> x;
  double in_flight = 0;  // copies of a thread while it adds
};

Case run(int tiles) {
  Case result;
  result.x = random_floats(std::int64_t{tiles} * kTileSize, 1);
  static_cast<Launched&>(result) = call<Launched>("sum", result.x, tiles);
  result.in_flight = result.out.back();
  result.out.pop_back();
  return result;
}

void grade(int tiles) {
  const Case c = run(tiles);
  // The sums of the first tiles.
  const auto sums = [&](int count) {
    std::vector<double> result(kTileSize);
    for (int i = 0; i < count * kTileSize; ++i) result[kTileSize - 1 - i % kTileSize] += c.x[i];
    return result;
  };
  check_result(c.seen, kReasons, {"sums", c.out}, sums(tiles), 1e-5 * tiles,
               {{"the sums are 0: no tile was added", std::vector<double>(kTileSize, 0)},
                {"the last tile is not added", sums(tiles - 1)}},
               fmt::format("{} tiles", tiles));
}

}  // namespace

FA_STAGE(easy) {
  grade(9);
}

FA_STAGE(odd) {
  grade(1);
  grade(2);
  grade(3);
  grade(4);
  grade(20);
}

FA_STAGE(races) {
  for (const int tiles : {1, 3, 8}) {
    const Case c = run(tiles);
    require_no_races(c.seen, kReasons);
    require(
        c.in_flight >= 2 || tiles < 3,
        fmt::format(
            "the sums are right, but while tile t is added only {} of the tiles t + 1 and t + 2 is "
            "in flight: fetch two tiles ahead and before adding, and wait for no more than tile t",
            c.in_flight));
  }
}
#endif
/* Other answers, as changes of the solution
# waits_for_too_few: one group more may be in flight
@ easy: cp_async_wait<kStages - 2>
- cp_async_wait<kStages - 2>();  // this thread's part of tile t is there
+ cp_async_wait<kStages - 1>();

# no_barrier: a thread knows of its own copies only
@ easy: a barrier belongs between
- __syncthreads();               // all parts are, and all threads are done with tile t - 1

# fetch_before_barrier: the wait is right, the fetch comes before the barrier
@ easy: the next fetch follows the barrier
- __syncthreads();               // all parts are, and all threads are done with tile t - 1
- fetch(t + kStages - 1);
+ fetch(t + kStages - 1);
+ __syncthreads();

# one_ahead: two stages of three are in use
@ races: fetch two tiles ahead
- for (int t = 0; t < kStages - 1; ++t) fetch(t);
+ fetch(0);
- fetch(t + kStages - 1);
+ fetch(t + 1);
- cp_async_wait<kStages - 2>();  // this thread's part of tile t is there
+ cp_async_wait<0>();

# three_ahead: all three stages are filled first; the next fetch stands behind a second barrier
@ right
- for (int t = 0; t < kStages - 1; ++t) fetch(t);
- ...
- add(t);
- }
+  for (int t = 0; t < kStages; ++t) fetch(t);
+  for (int t = 0; t < tiles; ++t) {
+    cp_async_wait<kStages - 1>();
+    __syncthreads();
+    add(t);
+    __syncthreads();
+    fetch(t + kStages);
+  }
*/
