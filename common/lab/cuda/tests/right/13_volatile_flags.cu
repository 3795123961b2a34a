// Barriers of the grid as they are often written, with volatile flags, and a sum by the last block.
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

__device__ unsigned done = 0;

__global__ void sum(const float* x, float* sums) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    float s = 0;
    for (int i = 0; i < blockDim.x; ++i) s += x[blockIdx.x * blockDim.x + i];
    sums[blockIdx.x] = s;
    __threadfence();
    last = atomicInc(&done, gridDim.x) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    float s = 0;
    for (int b = 0; b < gridDim.x; ++b) s += sums[b];
    sums[0] = s;
    done = 0;
  }
}

__global__ void wait_a_while(long long* waited) {
  const clock_t begin = clock();
  while (clock() - begin < 5000000) {
  }
  *waited = clock() - begin;
}

int main() {
  float *x, *sums, host[128], s;
  int* arrived;
  long long *cycles, waited;
  cudaMalloc(&x, sizeof host);
  cudaMalloc(&sums, 4 * sizeof(float));
  cudaMalloc(&arrived, sizeof(int));
  cudaMalloc(&cycles, sizeof waited);
  for (int i = 0; i < 128; ++i) host[i] = i;
  cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
  cudaMemset(arrived, 0, sizeof(int));
  rotate<<<4, 32>>>(x, arrived);
  sum<<<4, 32>>>(x, sums);
  wait_a_while<<<1, 1>>>(cycles);
  cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
  cudaMemcpy(&s, sums, sizeof s, cudaMemcpyDeviceToHost);
  cudaMemcpy(&waited, cycles, sizeof waited, cudaMemcpyDeviceToHost);
  printf("%g %g %g %d\n", host[0], host[127], s, waited >= 5000000);
}
