// Broken: an assertion of the kernel fails.
#include <cassert>
#include <cstdio>

__global__ void check(int n) {
  assert(threadIdx.x < n);  // finding: assert
}

int main() {
  check<<<2, 32>>>(20);
  printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
