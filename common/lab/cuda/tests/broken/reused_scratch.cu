// Broken: the second call overwrites the scratch that slow warps still read in the first.
#include <cstdio>

//! [block_sum]
__device__ float block_sum(float v) {
  __shared__ float scratch[32];
  for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(~0u, v, o);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
  __syncthreads();
  float sum = 0;
  for (int w = 0; w < blockDim.x / 32; ++w) sum += scratch[w];
  return sum;
}

__global__ void variance(const float* x, float* out) {
  const float v = x[threadIdx.x], mean = block_sum(v) / blockDim.x;
  const float d = v - mean, sum = block_sum(d * d);
  if (threadIdx.x == 0) *out = sum / blockDim.x;
}
//! [block_sum]

int main() {
  float *x, *out;
  cudaMallocManaged(&x, 128 * sizeof(float));
  cudaMallocManaged(&out, sizeof(float));
  for (int i = 0; i < 128; ++i) x[i] = i;
  variance<<<1, 128>>>(x, out);
  cudaDeviceSynchronize();
  printf("%g\n", *out);
}
