// It does wait
//
// A merge sort: one kernel computes where each block's part begins, and the
// next one, which may begin early, waits for it before it loads and merges.
// ---
// It reads the bounds of its part and waits afterwards. Wrong bounds led to
// accesses out of shared memory: an application of Spark crashed on H100s, at
// random times, and no small program showed it. It hid for eight months,
// though https://github.com/NVIDIA/cccl/issues/3131 had suspected a race at
// once.
// Report: https://github.com/NVIDIA/cccl/pull/5456 (August 2025)
#include "museum.cuh"

__global__ void partition(int* begins) {
  cudaTriggerProgrammaticLaunchCompletion();
  begins[threadIdx.x] = 32 * threadIdx.x;
}

__global__ void merge(const int* begins, const int* keys, int* sorted) {
#ifdef FIXED
  cudaGridDependencySynchronize();
#endif
  const int begin = begins[blockIdx.x], end = begins[blockIdx.x + 1];
#ifndef FIXED
  cudaGridDependencySynchronize();
#endif
  const int i = begin + threadIdx.x;
  if (i < end) sorted[i] = keys[end - 1 - threadIdx.x];
}

int main() {
  int *begins = numbers<int>(5), *keys = numbers<int>(128, 0, 1),
      *sorted = numbers<int>(128);
  partition<<<1, 5>>>(begins);
  launch_early(merge, 4, 32, begins, keys, sorted);
  return result(sorted, 128, [](int i) { return i / 32 * 32 + 31 - i % 32; });
}
