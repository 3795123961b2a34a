// A maximum, then a sum
//
// A softmax over a row: the warps' maxima meet in shared memory, then their
// sums, in the same elements.
// ---
// All threads read the maximum from element 0, and warp 0 stores its sum
// there. Between the two lie an exponential and a store to global memory, so
// in practice the read comes first; nothing says so. We know of no report:
// the lab found it in a file from April 2024 that many learn CUDA from.
// Report: https://github.com/karpathy/llm.c/blob/master/dev/cuda/softmax_forward.cu (kernel 4, April 2024)
#include "museum.cuh"

__global__ void softmax(const float* x, float* y) {
  __shared__ float parts[4];
  const int i = threadIdx.x, warp = i / 32;
  float m = x[i];
  for (int lane = 16; lane > 0; lane /= 2)
    m = fmaxf(m, __shfl_xor_sync(~0u, m, lane));
  if (i % 32 == 0) parts[warp] = m;
  __syncthreads();
  if (i == 0)
    parts[0] = fmaxf(fmaxf(parts[0], parts[1]), fmaxf(parts[2], parts[3]));
  __syncthreads();
  const float e = expf(x[i] - parts[0]);
#ifdef FIXED
  __syncthreads();
#endif
  float s = e;
  for (int lane = 16; lane > 0; lane /= 2) s += __shfl_xor_sync(~0u, s, lane);
  if (i % 32 == 0) parts[warp] = s;
  __syncthreads();
  y[i] = e / (parts[0] + parts[1] + parts[2] + parts[3]);
}

int main() {
  float *x = numbers<float>(128, 5), *y = numbers<float>(128);
  softmax<<<1, 128>>>(x, y);
  return result(y, 128, [](int) { return 1.f / 128; });
}
