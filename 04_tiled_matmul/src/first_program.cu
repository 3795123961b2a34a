// A complete CUDA program: y = 2 x + y for a million elements.
//   nvcc -o first_program first_program.cu && ./first_program
//! [first_program]
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call) check((call), #call, __LINE__)
/// Ends the program when a CUDA call has failed.
void check(cudaError_t error, const char* call, int line) {
  if (error == cudaSuccess) return;
  const char* const text = cudaGetErrorString(error);
  std::fprintf(stderr, "line %d: %s: %s\n", line, call, text);
  std::exit(1);
}

/// One thread computes one element.
__global__ void saxpy(float a, const float* x, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = a * x[i] + y[i];
}

int main() {
  constexpr int n = 1 << 20, threads = 256;
  static_assert(n % threads == 0, "whole blocks only");
  std::vector<float> x(n), y(n, 1.0f);
  for (int i = 0; i < n; ++i) x[i] = static_cast<float>(i);

  // 1. Allocate global memory on the GPU and copy the inputs to it.
  const std::size_t bytes = n * sizeof(float);
  float *x_gpu = nullptr, *y_gpu = nullptr;
  CHECK(cudaMalloc(&x_gpu, bytes));
  CHECK(cudaMalloc(&y_gpu, bytes));
  CHECK(cudaMemcpy(x_gpu, x.data(), bytes, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(y_gpu, y.data(), bytes, cudaMemcpyHostToDevice));

  // 2. Launch: n / threads blocks of `threads` threads each.
  saxpy<<<n / threads, threads>>>(2.0f, x_gpu, y_gpu);
  CHECK(cudaGetLastError());       // was the launch accepted?
  CHECK(cudaDeviceSynchronize());  // did the kernel run to its end?

  // 3. Copy the result back and free the memory.
  CHECK(cudaMemcpy(y.data(), y_gpu, bytes, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(x_gpu));
  CHECK(cudaFree(y_gpu));

  // 4. Check every element.
  int wrong = 0;
  for (int i = 0; i < n; ++i) wrong += y[i] != 2.0f * x[i] + 1.0f;
  std::printf("%d of %d elements are right\n", n - wrong, n);
  return wrong == 0 ? 0 : 1;
}
//! [first_program]
