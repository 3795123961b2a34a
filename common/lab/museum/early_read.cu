// A kernel that begins early
//
// A preprocessing kernel may begin while the kernel before it still runs
// (programmatic dependent launch). It computes the sums of O dO for a
// backward pass.
// ---
// Nothing waits for the kernel before: dO may be half written. On a GB200
// training went wrong within a few steps; on Hopper it was seen once, after
// more than 3000. Only dQ and dK were wrong, and dV not.
// Report: https://github.com/Dao-AILab/flash-attention/pull/2481 (April 2026)
#include "museum.cuh"

__global__ void project(float* d_o) {
  cudaTriggerProgrammaticLaunchCompletion();
  d_o[blockIdx.x * 64 + threadIdx.x] = 2;
}

__global__ void preprocess(const float* o, const float* d_o, float* delta) {
#ifdef FIXED
  cudaGridDependencySynchronize();
#endif
  const int row = blockIdx.x * 64 + threadIdx.x;
  delta[row] = o[row] * d_o[row];
}

int main() {
  float *o = numbers<float>(256, 3), *d_o = numbers<float>(256),
        *delta = numbers<float>(256);
  project<<<4, 64>>>(d_o);
  launch_early(preprocess, 4, 64, o, d_o, delta);
  return result(delta, 256, [](int) { return 6.f; });
}
