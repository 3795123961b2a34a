// Nothing sets the two sums to 0 before threads add to them.
#include <cstdio>

__global__ void sum(const int* x, int n, int* out) {
  __shared__ int total;
  int own = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) own += x[i];
  atomicAdd(&total, own);
  __syncthreads();
  if (threadIdx.x == 0) {
    atomicAdd(out, total);
  }
}

int main() {
  int *x, *out, h;
  cudaMalloc(&x, 1000 * sizeof(int));
  cudaMalloc(&out, sizeof(int));
  cudaMemset(x, 0, 1000 * sizeof(int));
  sum<<<1, 128>>>(x, 1000, out);
  cudaMemcpy(&h, out, sizeof(int), cudaMemcpyDeviceToHost);
  printf("%d\n", h);
  return 0;
}
