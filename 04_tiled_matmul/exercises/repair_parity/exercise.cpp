#if defined(FA_STUDENT)
#include "04_tiled_matmul/exercises/museum.cuh"

// museum: parity_of_the_ring
#elif defined(FA_ENTRIES)
FA_ENTRY(run, [](const std::vector<double>& x) {
  return repaired([&] { return run_piece(add_up, 64, x, 32, 9); });
});
#elif defined(FA_GRADER)
#include "04_tiled_matmul/exercises/grading/repair.hpp"

FA_REPAIR(made(288, [](auto i) { return 1. * i; }),
          made(32, [](auto lane) { return 9. * (4 * 32 + 31 - lane); }),
          {{"race", "the tile is overwritten while it is read, or read before it is there"},
           {"barrier",
            "a warp waits for a phase that has ended long ago, or misses one: which phase of "
            "this mbarrier belongs to the tile?"}},
          {{StepKind::kMeet, "barriers, one for each warp", 0, 2,
            "__syncthreads() stops both warps; the mbarriers let one go ahead"},
           {StepKind::kWait, "waits at mbarriers", 17, 18, "one for each tile and warp"}},
          1)
#endif
/* Other answers, as changes of the solution
# other_parity: the phase before
@ races: a warp waits for a phase that has ended long ago
- const int parity = tile % 2;
+     const int parity = tile % 2 ^ 1;

# barriers: __syncthreads() in place of the second mbarrier
@ traffic: the mbarriers let one go ahead
- MBARRIER_WAIT(&done, parity);
+       (void)parity;
- MBARRIER_ARRIVE(&done);
- }
- }
+     }
+     __syncthreads();
+   }

# as_late_as_can_be: the producer waits before it fills the tile again
@ right
- const int parity = tile % 2;
+     const int parity = tile % 2 ^ 1;
- tile_smem[threadIdx.x] = x[tile * 32 + threadIdx.x];
+       if (tile > 0) MBARRIER_WAIT(&done, parity);
+       tile_smem[threadIdx.x] = x[tile * 32 + threadIdx.x];
- MBARRIER_WAIT(&done, parity);
+
*/
