#if defined(FA_STUDENT)
#include "04_tiled_matmul/exercises/museum.cuh"

// museum: maximum_then_sum
#elif defined(FA_ENTRIES)
FA_ENTRY(run, [](const std::vector<double>& x) {
  return repaired([&] { return run_piece(softmax, 128, x, 128); });
});
#elif defined(FA_GRADER)
#include "04_tiled_matmul/exercises/grading/repair.hpp"

FA_REPAIR(made(128, [](auto i) { return i % 2; }),
          made(128, [](auto i) { return std::exp(i % 2) / (64 * (1 + std::exp(1))); }),
          {{"race", "a warp stores its part of the sum while another warp still reads the maximum"},
           {"unwritten", "a part is read before its warp has stored it"}},
          {{StepKind::kMeet, "barriers, one for each warp", 0, 16,
            "one more than at the start is enough; each stops the whole block"}})
#endif
/* Other answers, as changes of the solution
# warp_barrier: a warp waits for itself only
@ races: stores its part of the sum while another warp
- const float e = expf(x[i] - parts[0]);
- __syncthreads();
+   const float e = expf(x[i] - parts[0]);
+   __syncwarp();

# everywhere: a barrier in every line
@ traffic: each stops the whole block
- float m = x[i];
+   float m = x[i];
+   __syncthreads();

# one_thread: one thread computes the row
@ races: one thread loads and stores
- y[i] = e / (parts[0] + parts[1] + parts[2] + parts[3]);
+   if (i == 0)
+     for (int j = 0; j < 128; ++j)
+       y[j] = expf(x[j] - m) / (parts[0] + parts[1] + parts[2] + parts[3]);

# every_thread: all threads compute the maximum of the parts, without a barrier behind it
@ right
- if (i == 0)
- parts[0] = fmaxf(fmaxf(parts[0], parts[1]), fmaxf(parts[2], parts[3]));
- __syncthreads();
- const float e = expf(x[i] - parts[0]);
+   m = fmaxf(fmaxf(parts[0], parts[1]), fmaxf(parts[2], parts[3]));
+   const float e = expf(x[i] - m);
*/
