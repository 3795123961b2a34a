// Operands in registers
//
// A warpgroup multiplies 64 x 64 elements by a tile in shared memory, 16
// columns at a time. The left operand is loaded to registers while the tensor
// core works.
// ---
// wgmma reads its operands some time after it was issued, until
// wgmma.wait_group. The same four registers are filled for the next step
// before that. Triton had the same hazard in February
// (https://github.com/triton-lang/triton/issues/9433).
// Report: https://github.com/deepseek-ai/DeepGEMM/pull/448 (September 2026)
#include <cuda_fp16.h>

#include "hopper.cuh"
#include "museum.cuh"

__global__ void sum_of_rows(const unsigned* a, float* y) {
  __shared__ __align__(1024) half ones[8 * 64];
  for (int i = threadIdx.x; i < 8 * 64; i += 128) ones[i] = __float2half(1.f);
  FENCE_PROXY_ASYNC();
  __syncthreads();
  float sums[4] = {};
  unsigned left[4];
  for (int step = 0; step < 4; ++step) {
    for (int i = 0; i < 4; ++i)
      left[i] = a[(step * 4 + i) * 128 + threadIdx.x];
    WGMMA_FENCE();
    WGMMA(sums, left, descriptor(ones));
    WGMMA_COMMIT();
#ifdef FIXED
    WGMMA_WAIT();
#endif
  }
  WGMMA_WAIT();
  for (int i = 0; i < 4; ++i) y[i * 128 + threadIdx.x] = sums[i];
}

int main() {
  unsigned* a = numbers<unsigned>(2048, 0x3c003c00u);  // two halfs of 1
  float* y = numbers<float>(512);
  sum_of_rows<<<1, 128>>>(a, y);
  return result(y, 512, [](int) { return 64.f; });
}
