// Broken: the host crashes after a launch with a race.
#include <cstdio>

__global__ void last(int *out) { *out = threadIdx.x; }  // finding: race

static volatile int *nowhere(int i) { return i > 0 ? nullptr : new int; }

int main(int argc, char **) {
  int *out;
  cudaMalloc(&out, sizeof(int));
  last<<<1, 64>>>(out);
  *nowhere(argc) = 1;  // finding: host crash
}
