// Block 1 waits for block 0 by an atomic operation, without a fence behind it.
__global__ void pass_on(int* value, int* ready, int* out) {
  if (threadIdx.x > 0) return;
  if (blockIdx.x == 0) {
    *value = 7;
    __threadfence();
    atomicExch(ready, 1);
  } else {
    while (atomicAdd(ready, 0) == 0) {
    }
    *out = *value;  // finding: race
  }
}

int main() {
  int* p;
  cudaMalloc(&p, 3 * sizeof(int));
  cudaMemset(p, 0, 3 * sizeof(int));
  pass_on<<<2, 32>>>(p, p + 1, p + 2);
  return cudaDeviceSynchronize();
}
