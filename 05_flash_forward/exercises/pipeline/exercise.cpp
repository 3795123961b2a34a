#if defined(FA_STUDENT)
#include "05_flash_forward/kernels/07_pipeline.cuh"

namespace fa::FA_TARGET {

namespace student {

/// Launched with blocks of 128; grid of ceil(length_q / 128) x heads x batch; dynamic shared memory
/// for a tile of Q, two of K and two of V. Tiles have 64 keys; tile i lies in stage i % 2.
// listing: 05_flash_forward/kernels/07_pipeline.cuh#pipeline

}  // namespace student

}  // namespace fa::FA_TARGET
#elif defined(FA_ENTRIES)
#include "05_flash_forward/exercises/attention.hpp"
#include "05_flash_forward/kernels/07_pipeline.cuh"

// What the lesson has is to be written, not called.
namespace fa::FA_TARGET {

template <>
void __launch_bounds__(128) flash_pipeline<32, half>(Attention<half>) = delete;

}  // namespace fa::FA_TARGET

#include "student/pipeline.cuh"

constexpr int kHeadDim = 32;
using Tile = PlainForwardTile<kHeadDim>;

FA_ENTRY(run, [](const Inputs& in) {
  return run<half>(in, [](const Attention<half>& a) {
    launch(fa::FA_TARGET::student::flash_pipeline<kHeadDim, half>,
           {{static_cast<unsigned>(ceil_div(a.length_q, Tile::block_m)),
             static_cast<unsigned>(a.heads)},
            {Tile::threads},
            pipeline_bytes<Tile, half>()},
           a);
  });
});
#elif defined(FA_GRADER)
#include "05_flash_forward/exercises/grading/attention.hpp"

using namespace fa::classroom;

namespace {

constexpr int kHeadDim = 32;

const std::vector<Reason> kReasons = {
    {"barrier", "some threads never come to the barrier"},
    {"unwritten", "a tile is used that was not copied yet: is it fetched at all?"},
    {"race",
     "a tile is copied while other warps still read the stage, or is read before the copies of "
     "other threads can be seen: a thread waits for its own copies only"},
    {"copy",
     "a tile is used before its copies have been waited for: cp_async_wait<n> leaves the newest n "
     "groups open"}};

void grade(const Sizes& sizes) {
  const Inputs in = random_inputs<fa::half>(sizes);
  check_rows(launched(in), kReasons, in, attention(in), 3e-3, {});
}

}  // namespace

FA_STAGE(found) {
  require(names_both(evidence("the numbers of two lines that race"),
                     {"load(tile + 1)", "k_smem + at, head.k", "v_smem + at, head.v"},
                     {"multiply_q_k", "multiply_p_v"}),
          "not found: these are not two lines of the file as it was, of which one copies to where "
          "the other still reads");
}

FA_STAGE(easy) {
  grade({1, 1, 70, 64, kHeadDim, false});
  grade({1, 1, 40, 128, kHeadDim, false});
}

FA_STAGE(odd) {
  grade({1, 1, 70, 192, kHeadDim, false});
  grade({1, 1, 130, 203, kHeadDim, true});
}

FA_STAGE(races) {
  const Ran ran = launched(random_inputs<fa::half>({1, 1, 70, 203, 24, true}));
  require_no_races(ran.seen, kReasons);
}

FA_STAGE(traffic) {
  const int n = 256, row = 2 * kHeadDim;
  const Ran ran = launched(random_inputs<fa::half>({1, 1, n, n, kHeadDim, true}));
  needs_watching(ran.seen);
  // 2 blocks with 128 and 256 keys; Q and O; LSE.
  const std::int64_t least = (128 + 256) * 2 * row + n * 2 * row + 4 * n;
  budget("bytes of global memory", ran.seen.bytes, least,
         "something is copied twice, or copied and never used", least);
}
#endif
/* Other answers, as changes of the solution
# start: what the student begins with
@ start
- cp_async_wait<0>();
- __syncthreads();  // arrived; no warp still reads the stage load() fills
- if (tile + 1 < tiles) load(tile + 1);
- cp_async_commit();
+     if (tile + 1 < tiles) load(tile + 1);  // as early as can be
+     cp_async_commit();
+     cp_async_wait<1>();  // all but the newest group
+     __syncthreads();     // this tile has arrived

# second_barrier_of_warps: at the end of the loop a warp waits for itself only
@ odd: while other warps still read the stage
- cp_async_wait<0>();
- __syncthreads();  // arrived; no warp still reads the stage load() fills
- if (tile + 1 < tiles) load(tile + 1);
- cp_async_commit();
+     if (tile + 1 < tiles) load(tile + 1);
+     cp_async_commit();
+     cp_async_wait<1>();
+     __syncthreads();
- multiply_p_v<d>(o, s, v_smem + at, lane);
+     multiply_p_v<d>(o, s, v_smem + at, lane);
+     __syncwarp();

# no_wait: the barrier alone
@ easy: before its copies have been waited for
- cp_async_wait<0>();
+

# some_wait: threads whose queries do not exist do not come to the barrier
@ odd: never come to the barrier
- __syncthreads();  // arrived; no warp still reads the stage load() fills
+     if (query0 + warp_row < a.length_q) __syncthreads();

# always_one_more: a tile after the last one is copied
@ traffic: copied and never used
- if (tile + 1 < tiles) load(tile + 1);
+     load(tile + 1);

# two_barriers_page: two barriers, and a group in flight
@ right
- cp_async_wait<0>();
- __syncthreads();  // arrived; no warp still reads the stage load() fills
- if (tile + 1 < tiles) load(tile + 1);
- cp_async_commit();
+    if (tile + 1 < tiles) load(tile + 1);
+    cp_async_commit();
+    cp_async_wait<1>();
+    __syncthreads();
- multiply_p_v<d>(o, s, v_smem + at, lane);
+    multiply_p_v<d>(o, s, v_smem + at, lane);
+    __syncthreads();
*/
