// Indices that leave an array by one and land in the next variable of the block or thread.
#include <cstdio>

__global__ void differences(const float* x, float* out) {
  __shared__ float a[64];
  __shared__ float b[64];
  const int t = threadIdx.x;
  a[t] = x[t];
  b[t] = 2 * x[t];
  __syncthreads();
  out[t] = a[t + 1] - b[t];
}

__global__ void taps(const float* x, float* out) {
  float window[8];
  for (int i = 0; i <= 8; ++i) {
    window[i] = x[threadIdx.x + i];
  }
  float sum = 0;
  for (int i = 0; i < 8; ++i) sum += window[(3 * i + threadIdx.x) % 8];
  out[threadIdx.x] = sum;
}

int main() {
  float *x, *out;
  cudaMalloc(&x, 128 * sizeof(float));
  cudaMalloc(&out, 64 * sizeof(float));
  cudaMemset(x, 0, 128 * sizeof(float));
  differences<<<1, 64>>>(x, out);
  taps<<<1, 64>>>(x, out);
  return cudaDeviceSynchronize();
}
