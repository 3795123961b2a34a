#if defined(FA_STUDENT)
#include "04_tiled_matmul/exercises/museum.cuh"

// museum: registers_in_use
#elif defined(FA_ENTRIES)
FA_ENTRY(run, [](const std::vector<double>& x) {
  return repaired([&] { return run_piece(sum_of_rows, 128, x, 512); });
});
#elif defined(FA_GRADER)
#include "04_tiled_matmul/exercises/grading/repair.hpp"

FA_REPAIR(
    // two halfs of 1 in each register, and of 2 in those of the lower eight rows
    made(2048, [](auto i) { return i / 128 % 2 == 0 ? 0x3c003c00 : 0x40004000; }),
    made(512, [](auto i) { return i < 256 ? 64 : 128; }),
    {{"wgmma", "registers of a wgmma are used while it is in flight"},
     {"proxy", "the tensor core may read what was in shared memory before"}},
    {{StepKind::kWgmma, "wgmma, one for each warp", 16, 16, "the tensor core multiplies"},
     {StepKind::kMeet, "barriers, one for each warp", 0, 4, "a barrier does not wait for wgmma"},
     {StepKind::kWaitWgmma, "waits for wgmma, one for each warp", 4, 20, "one for each step"}})
#endif
/* Other answers, as changes of the solution
# a_fence: another fence in place of the wait
@ races: while it is in flight
- WGMMA_COMMIT();
- WGMMA_WAIT();
- }
+     WGMMA_COMMIT();
+     WGMMA_FENCE();
+   }

# barriers_too: a wait and a barrier
@ traffic: a barrier does not wait for wgmma
- WGMMA_COMMIT();
- WGMMA_WAIT();
+     WGMMA_COMMIT();
+     WGMMA_WAIT();
+     __syncthreads();

# four_sets: registers of their own for each step; all wgmma are in flight together
@ right
- unsigned left[4];
+   unsigned left[4][4];
- left[i] = a[(step * 4 + i) * 128 + threadIdx.x];
+       left[step][i] = a[(step * 4 + i) * 128 + threadIdx.x];
- WGMMA(sums, left, descriptor(ones));
- WGMMA_COMMIT();
- WGMMA_WAIT();
+     WGMMA(sums, left[step], descriptor(ones));
+     WGMMA_COMMIT();

# before_the_load: the wait stands where the registers are filled again
@ right
- for (int i = 0; i < 4; ++i)
- left[i] = a[(step * 4 + i) * 128 + threadIdx.x];
+     if (step > 0) WGMMA_WAIT();
+     for (int i = 0; i < 4; ++i)
+       left[i] = a[(step * 4 + i) * 128 + threadIdx.x];
- WGMMA_COMMIT();
- WGMMA_WAIT();
+     WGMMA_COMMIT();
*/
