// The host adds up managed memory while the kernel may still write it.
#include <cstdio>

__global__ void squares(int* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = i * i;
}

int main() {
  const int n = 1000;
  int* x;
  cudaMallocManaged(&x, n * sizeof(int));
  squares<<<4, 256>>>(x, n);
  int sum = 0;
  for (int i = 0; i < n; ++i) {
    sum += x[i];
  }
  cudaDeviceSynchronize();
  printf("%d\n", sum);
  cudaFree(x);
  return 0;
}
