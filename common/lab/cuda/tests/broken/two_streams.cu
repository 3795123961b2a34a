// The second kernel is on another stream, and nothing makes it wait for the first.
#include <cuda_runtime.h>

__global__ void produce(float* x) {
  x[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}
__global__ void consume(const float* x, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = 2 * x[i];
}

int main() {
  cudaStream_t a, b;
  cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
  float *x, *y;
  cudaMalloc(&x, 1024 * sizeof(float));
  cudaMalloc(&y, 1024 * sizeof(float));
  produce<<<4, 256, 0, a>>>(x);
  consume<<<4, 256, 0, b>>>(x, y);
  return cudaDeviceSynchronize();
}
