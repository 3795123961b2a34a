#if defined(FA_STUDENT)
#include "04_tiled_matmul/exercises/museum.cuh"

// museum: fence_after_barrier
#elif defined(FA_ENTRIES)
FA_ENTRY(run, [](const std::vector<double>& x) {
  return repaired([&] { return run_piece(quantize, 128, x, 128); });
});
#elif defined(FA_GRADER)
#include "04_tiled_matmul/exercises/grading/repair.hpp"

FA_REPAIR(
    made(128, [](auto i) { return i; }), made(128, [](auto i) { return 2 * i; }),
    {{"proxy",
      "the bulk copy may read what was in the tile before: each thread fences its own "
      "stores, and the copy must come after all fences"},
     {"race", "the bulk copy begins before all threads have stored"}},
    {{StepKind::kStore, "bulk copies", 1, 4, "the tile leaves by TMA, and no thread stores to y"},
     {StepKind::kMeet, "barriers, one for each warp", 0, 4, "one is enough, in the right place"}})
#endif
/* Other answers, as changes of the solution
# only_the_leader: thread 0 fences for all
@ races: each thread fences its own stores
- FENCE_PROXY_ASYNC();
+   if (threadIdx.x == 0) FENCE_PROXY_ASYNC();

# two_barriers: one more behind the fence
@ traffic: one is enough
- FENCE_PROXY_ASYNC();
- __syncthreads();
+   __syncthreads();
+   FENCE_PROXY_ASYNC();
+   __syncthreads();

# no_copy: threads store to global memory
@ traffic: the tile leaves by TMA
- if (threadIdx.x == 0) {
- ...
- BULK_WAIT();
- }
+   y[threadIdx.x] = tile[threadIdx.x];

# each_warp: each warp stores its quarter
@ right
- __syncthreads();
- if (threadIdx.x == 0) {
- BULK_STORE(y, tile, sizeof tile);
+   __syncwarp();
+   if (threadIdx.x % 32 == 0) {
+     BULK_STORE(y + threadIdx.x, tile + threadIdx.x, 128);

# last_thread: another thread copies
@ right
- if (threadIdx.x == 0) {
+   if (threadIdx.x == 127) {
*/
