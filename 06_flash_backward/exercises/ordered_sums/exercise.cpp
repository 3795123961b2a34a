#if defined(FA_STUDENT)
#include "common/gpu/kernel.cuh"

namespace fa::FA_TARGET {

namespace student {

/// Adds parts of tiles in the order of the blocks.
/// Launched with a grid of as many blocks as there are of keys, of one warp.
/// @param parts      [blocks, tiles, 32]
/// @param sums       [tiles, 32]
/// @param semaphores one for each tile; 0 before and after
/// @param tiles      of queries
/// @param causal     whether tile t sees the blocks 0 to t only
__global__ void add_in_order(const float* parts, float* sums, unsigned* semaphores, int tiles,
                             bool causal) {
  const int block = blockIdx.x, blocks = gridDim.x, lane = threadIdx.x;
#ifdef FA_SOLUTION
  for (int tile = causal ? block : 0; tile < tiles; ++tile) {
    const int all = causal && tile + 1 < blocks ? tile + 1 : blocks;
    const float part = parts[(block * tiles + tile) * kWarp + lane];
    const auto rank = static_cast<unsigned>(block);
    while (load_acquire(semaphores + tile) != rank) {
    }
    float* const sum = sums + tile * kWarp + lane;
    *sum = block == 0 ? part : *sum + part;
    __syncwarp();  // all lanes have written
    if (lane == 0) {
      __threadfence();
      const bool last = block + 1 == all;
      atomicAdd(semaphores + tile, last ? 0u - rank : 1u);
    }
  }
#else
  // TODO: for each tile wait for the rank of this block, add, release.
  (void)parts, (void)sums, (void)semaphores, (void)tiles, (void)causal;
  (void)block, (void)blocks, (void)lane;
#endif
}

}  // namespace student

}  // namespace fa::FA_TARGET
#elif defined(FA_ENTRIES)
// Launches with the same workspace; what is in sums after the last one, and in the semaphores.
FA_ENTRY(run, [](const std::vector<float>& parts, int blocks, int tiles, bool causal,
                 int launches) {
  return watched([&] {
    const auto in = on_device(parts);
    auto semaphores = on_device(std::vector<unsigned>(static_cast<std::size_t>(tiles), 0));
    std::vector<double> all;
    for (int i = 0; i < launches; ++i) {
      DeviceBuffer<float> sums(std::int64_t{tiles} * kWarp);
      launch(fa::FA_TARGET::student::add_in_order, {{static_cast<unsigned>(blocks)}, {kWarp}},
             in.data(), sums.data(), semaphores.data(), tiles, causal);
      all = from_device(sums);
      for (const double count : from_device(semaphores)) all.push_back(count);
    }
    return all;
  });
});
#elif defined(FA_GRADER)
#include "common/classroom/lab.hpp"

using namespace fa::classroom;

namespace {

constexpr int kWarp = 32;

const std::vector<Reason> kReasons = {
    {"barrier", "some lanes never come to a barrier"},
    {"out of bounds", "it reads or writes beside the arrays"},
    {"unwritten", "a sum is read before any block has stored it"},
    {"race",
     "two blocks use the same sum or semaphore and nothing orders them: the order takes a wait "
     "with load_acquire(), and a release by atomicAdd() behind __threadfence() when all lanes have "
     "written. A plain load or store of a semaphore is a race"}};

// The sums, added in the order of the blocks, or from the last one on.
std::vector<double> sums(const std::vector<float>& parts, int blocks, int tiles, bool causal,
                         bool descending = false) {
  std::vector<double> result;
  for (int tile = 0; tile < tiles; ++tile) {
    for (int lane = 0; lane < kWarp; ++lane) {
      float sum = NAN;
      bool first = true;
      for (int i = 0; i < blocks; ++i) {
        const int block = descending ? blocks - 1 - i : i;
        if (causal && block > tile) continue;
        const float part = parts[static_cast<std::size_t>((block * tiles + tile) * kWarp + lane)];
        sum = first ? part : sum + part;
        first = false;
      }
      result.push_back(static_cast<double>(sum));
    }
  }
  return result;
}

void grade(int blocks, int tiles, bool causal) {
  auto parts = random_floats(std::int64_t{blocks} * tiles * kWarp, 11);
  // Sizes that differ, so that the order shows in the bits.
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i] *= static_cast<float>(1 + i % 7 * 100);
  }
  const std::string where = fmt::format("{} blocks of keys, {} tiles of queries{}", blocks, tiles,
                                        causal ? ", causal" : "");
  const auto right = sums(parts, blocks, tiles, causal);
  const auto size = static_cast<std::ptrdiff_t>(right.size());
  for (const int launches : {1, 2}) {
    const auto launched = call<Launched>("run", parts, blocks, tiles, causal, launches);
    const auto begin = launched.out.begin();
    check_result(launched.seen, kReasons, {"sums", {begin, begin + size}, kWarp}, right, 0,
                 {{"the blocks add from the last one to the first, as in step 11",
                   sums(parts, blocks, tiles, causal, true)}},
                 fmt::format("{}, launch {}", where, launches));
    for (std::ptrdiff_t i = 0; i < tiles; ++i) {
      require(begin[size + i] == 0, fmt::format("after the launch the semaphore of tile {} is {}, "
                                                "and the next launch needs 0 (case: {})",
                                                i, begin[size + i], where));
    }
    // Equal bits by chance are not enough.
    if (found(launched.seen, "race")) {
      require_no_findings(launched.seen, kReasons);
    }
  }
}

}  // namespace

FA_STAGE(easy) {
  grade(3, 2, false);
}

FA_STAGE(odd) {
  grade(3, 5, true);
  grade(5, 3, true);
  grade(1, 1, true);
  grade(7, 4, false);
}

FA_STAGE(races) {
  const auto parts = random_floats(4 * 6 * kWarp, 2);
  const auto launched = call<Launched>("run", parts, 4, 6, true, 1);
  require_no_races(launched.seen, kReasons);
}
#endif
/* Other answers, as changes of the solution
# not_reset: the counters of the last launch stay
@ easy: the next launch needs 0
- atomicAdd(semaphores + tile, last ? 0u - rank : 1u);
+       atomicAdd(semaphores + tile, 1u); (void)last;

# no_wait: blocks add in any order
@ easy: nothing orders them
- while (load_acquire(semaphores + tile) != rank) {
- }
+

# descending: the page's order
@ easy: from the last one to the first
- const auto rank = static_cast<unsigned>(block);
+     const auto rank = static_cast<unsigned>(all - 1 - block);
- *sum = block == 0 ? part : *sum + part;
+     *sum = rank == 0 ? part : *sum + part;
- const bool last = block + 1 == all;
+       const bool last = block == 0;

# one_lane_polls: lane 0 polls for its warp
@ right
- while (load_acquire(semaphores + tile) != rank) {
- }
- float* const sum = sums + tile * kWarp + lane;
- *sum = block == 0 ? part : *sum + part;
+    if (lane == 0) do {} while (load_acquire(semaphores + tile) - rank);
+    __syncwarp();
+    float& sum = (sums + tile * kWarp)[lane];
+    sum = rank ? part + sum : part;
- const bool last = block + 1 == all;
- atomicAdd(semaphores + tile, last ? 0u - rank : 1u);
+      atomicAdd(semaphores + tile, block + 1 < all ? 1u : ~rank + 1u);
*/
