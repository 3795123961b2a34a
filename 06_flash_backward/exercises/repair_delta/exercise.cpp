#if defined(FA_STUDENT)
#include "04_tiled_matmul/exercises/museum.cuh"

// museum: early_read
#elif defined(FA_ENTRIES)
FA_ENTRY(run, [](const std::vector<double>& x) {
  return repaired([&] {
    const auto o = on_device(std::vector<float>(x.begin(), x.end()));
    DeviceBuffer<float> d_o(256), delta(256);
    fa::Launch early{{4}, {64}};
    launch(project, early, d_o.data());
    early.with_pdl = true;
    launch(preprocess, early, o.data(), d_o.data(), delta.data());
    return from_device(delta);
  });
});
#elif defined(FA_GRADER)
#include "04_tiled_matmul/exercises/grading/repair.hpp"

FA_REPAIR(made(256, [](auto i) { return i; }), made(256, [](auto i) { return 2 * i; }),
          {{"race", "preprocess reads dO while project may still write it"}},
          {{kTriggers, "threads that let the next kernel begin early", 256, 256,
            "without it preprocess begins when project has ended, and nothing overlaps"}})
#endif
/* Other answers, as changes of the solution
# one_thread_waits: one thread waits for all, and no other one for it
@ races: reads dO while project may still write
- cudaGridDependencySynchronize();
+   if (threadIdx.x == 0) cudaGridDependencySynchronize();

# waits_too_late: the wait stands behind the loads
@ races: reads dO while project may still write
- cudaGridDependencySynchronize();
- const int row = blockIdx.x * 64 + threadIdx.x;
- delta[row] = o[row] * d_o[row];
+   const int row = blockIdx.x * 64 + threadIdx.x;
+   delta[row] = o[row] * d_o[row];
+   cudaGridDependencySynchronize();

# no_trigger: the second kernel begins when the first one has ended
@ traffic: nothing overlaps
- cudaTriggerProgrammaticLaunchCompletion();
+

# late_trigger: the next kernel may begin when the stores are done
@ right
- cudaTriggerProgrammaticLaunchCompletion();
- d_o[blockIdx.x * 64 + threadIdx.x] = 2;
+   d_o[blockIdx.x * 64 + threadIdx.x] = 2;
+   cudaTriggerProgrammaticLaunchCompletion();
*/
