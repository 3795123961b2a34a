// A barrier that half of the warps reach
//
// Two of four warps have a partial maximum and combine theirs with the
// other's; then all warps read what the block has found.
// ---
// The barrier inside of the branch is executed by two warps of four. It meets
// the other warps at *their* next barrier, so from then on the two halves
// wait at different lines, and each runs ahead of the data that it thinks are
// ready. The barrier was two days old: it had been added to fix a race.
// Report: https://github.com/ggml-org/llama.cpp/pull/13469 (May 2025)
#include "museum.cuh"

__global__ void maximum(const float* x, float* y) {
  __shared__ float part[2], all;
  const int warp = threadIdx.x / 32;
  if (warp < 2) {
    float m = x[threadIdx.x];
    for (int lane = 16; lane > 0; lane /= 2)
      m = fmaxf(m, __shfl_xor_sync(~0u, m, lane));
    if (threadIdx.x % 32 == 0) part[warp] = m;
#ifndef FIXED
    __syncthreads();
    if (threadIdx.x == 0) all = fmaxf(part[0], part[1]);
#endif
  }
#ifdef FIXED
  __syncthreads();
  if (threadIdx.x == 0) all = fmaxf(part[0], part[1]);
#endif
  __syncthreads();
  y[threadIdx.x] = all;
}

int main() {
  float *x = numbers<float>(64, 0, 1), *y = numbers<float>(128);
  maximum<<<1, 128>>>(x, y);
  return result(y, 128, [](int) { return 63.f; });
}
