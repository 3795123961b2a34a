// Broken: an index far beyond the buffer.
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                                      \
  do {                                                                                   \
    cudaError_t error = (call);                                                          \
    if (error != cudaSuccess) {                                                          \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));     \
      exit(EXIT_FAILURE);                                                                \
    }                                                                                    \
  } while (0)

__global__ void vectorAdd(const float *A, const float *B, float *C, int numElements) {
  int i = blockDim.x * blockIdx.x + threadIdx.x;
  if (i < numElements) C[(size_t)i << 20] = A[i] + B[i];  // finding: out of bounds
}

int main(int argc, char **argv) {
  int numElements = argc > 1 ? atoi(argv[1]) : 5000;
  size_t size = numElements * sizeof(float);
  float *h_A = (float *)malloc(size), *h_B = (float *)malloc(size), *h_C = (float *)malloc(size);
  for (int i = 0; i < numElements; ++i) {
    h_A[i] = i % 17 * 0.5f;
    h_B[i] = i % 5 * 0.25f;
  }
  float *d_A = NULL, *d_B = NULL, *d_C = NULL;
  CHECK(cudaMalloc((void **)&d_A, size));
  CHECK(cudaMalloc((void **)&d_B, size));
  CHECK(cudaMalloc((void **)&d_C, size));
  CHECK(cudaMemcpy(d_A, h_A, size, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_B, h_B, size, cudaMemcpyHostToDevice));

  int threadsPerBlock = 256;
  int blocksPerGrid = (numElements + threadsPerBlock - 1) / threadsPerBlock;
  printf("CUDA kernel launch with %d blocks of %d threads\n", blocksPerGrid, threadsPerBlock);
  vectorAdd<<<blocksPerGrid, threadsPerBlock>>>(d_A, d_B, d_C, numElements);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(h_C, d_C, size, cudaMemcpyDeviceToHost));
  for (int i = 0; i < numElements; ++i) {
    if (fabs(h_A[i] + h_B[i] - h_C[i]) > 1e-5) {
      fprintf(stderr, "Result verification failed at element %d!\n", i);
      exit(EXIT_FAILURE);
    }
  }
  printf("Test PASSED\n");
  CHECK(cudaFree(d_A));
  CHECK(cudaFree(d_B));
  CHECK(cudaFree(d_C));
  free(h_A);
  free(h_B);
  free(h_C);
  printf("Done\n");
  return 0;
}
