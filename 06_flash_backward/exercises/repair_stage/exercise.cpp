#if defined(FA_STUDENT)
#include "04_tiled_matmul/exercises/museum.cuh"

// museum: stage_still_stored
#elif defined(FA_ENTRIES)
FA_ENTRY(run, [](const std::vector<double>& x) {
  return repaired([&] { return run_piece(sums, 32, x, 96, 3, 3); });
});
#elif defined(FA_GRADER)
#include "04_tiled_matmul/exercises/grading/repair.hpp"

// Three items of three tiles.
FA_REPAIR(made(288, [](auto i) { return i; }),
          made(96, [](auto i) { return 3 * (i / 32 * 96 + 32 + i % 32); }),
          {{"race", "a stage is filled or written while a store to global memory still reads it"},
           {"proxy", "the bulk copy may read what was in the stage before: a fence is missing"}},
          {{StepKind::kLoad, "loads by TMA", 9, 9, "one for each tile"},
           {StepKind::kStore, "stores by TMA", 3, 3, "one for each item"},
           {StepKind::kWaitArrivals, "waits until all stores are in global memory", 0, 1,
            "before a stage is used again the store must have read it, no more"},
           {StepKind::kWaitStores, "waits until stores have been read", 0, 3, "one for each item"}},
          2)
#endif
/* Other answers, as changes of the solution
# other_lane: a lane waits that has stored nothing
@ races: while a store to global memory still reads
- if (tile == 0 && lane == 0) BULK_WAIT_READ();
+       if (tile == 0 && lane == 1) BULK_WAIT_READ();
+       __syncwarp();

# each_tile: a wait for each tile
@ traffic: one for each item
- if (tile == 0 && lane == 0) BULK_WAIT_READ();
+       if (lane == 0) BULK_WAIT_READ();

# until_written: each item waits until its result is in global memory
@ traffic: the store must have read it, no more
- if (tile == 0 && lane == 0) BULK_WAIT_READ();
+
- BULK_COMMIT();
+       BULK_COMMIT();
+       BULK_WAIT();

# behind_the_store: the lane that stores waits before the next item
@ right
- if (tile == 0 && lane == 0) BULK_WAIT_READ();
+
- BULK_COMMIT();
+       BULK_COMMIT();
+       BULK_WAIT_READ();

*/
