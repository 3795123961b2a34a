// Copies by some threads
//
// The first warp copies a row to shared memory asynchronously; after a
// barrier all four warps use it.
// ---
// A barrier waits for threads, and the copy is done by none of them: only
// cp.async.wait_all by the threads that began it makes sure that it has
// landed. A compiler had generated the barrier alone.
// Report: https://github.com/NVIDIA/Fuser/pull/3438 (November 2024)
#include <cuda_pipeline.h>

#include "museum.cuh"

__global__ void scale(const float* row, const float* x, float* y) {
  __shared__ float row_smem[32];
  const int lane = threadIdx.x;
  if (threadIdx.y == 0) {
    __pipeline_memcpy_async(&row_smem[lane], &row[lane], sizeof(float));
    __pipeline_commit();
#ifdef FIXED
    __pipeline_wait_prior(0);
#endif
  }
  __syncthreads();
  y[threadIdx.y * 32 + lane] = row_smem[lane] * x[threadIdx.y * 32 + lane];
}

int main() {
  float *row = numbers<float>(32, 3), *x = numbers<float>(128, 0, 1),
        *y = numbers<float>(128);
  scale<<<1, dim3(32, 4)>>>(row, x, y);
  return result(y, 128, [](int i) { return 3.f * i; });
}
