// Barriers of the grid as they are often written, with volatile flags, and a loop until a time.
#include <cstdio>

__device__ void meet(volatile int* arrived) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd((int*)arrived, 1);
    while (*arrived < gridDim.x) {
    }
    __threadfence();
  }
  __syncthreads();
}

__global__ void rotate(float* x, volatile int* arrived) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
  const float v = x[(i + blockDim.x) % n];
  meet(arrived);
  x[i] = v;
}

__global__ void wait_a_while(long long* waited) {
  const clock_t begin = clock();
  while (clock() - begin < 5000000) {
  }
  *waited = clock() - begin;
}

int main() {
  float *x, host[128];
  int* arrived;
  long long *cycles, waited;
  cudaMalloc(&x, sizeof host);
  cudaMalloc(&arrived, sizeof(int));
  cudaMalloc(&cycles, sizeof waited);
  for (int i = 0; i < 128; ++i) host[i] = i;
  cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
  cudaMemset(arrived, 0, sizeof(int));
  rotate<<<4, 32>>>(x, arrived);
  wait_a_while<<<1, 1>>>(cycles);
  cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
  cudaMemcpy(&waited, cycles, sizeof waited, cudaMemcpyDeviceToHost);
  printf("%g %g %d\n", host[0], host[127], waited >= 5000000);
}
