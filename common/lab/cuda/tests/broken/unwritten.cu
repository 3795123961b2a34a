// Broken: the left halo is never loaded.
#include <chrono>
#include <cstdio>
#include <numeric>
#include <vector>
using namespace std;

#define RADIUS 3
#define BLOCK_SIZE 96

__constant__ float weights[2 * RADIUS + 1] = {0.05f, 0.1f, 0.2f, 0.3f, 0.2f, 0.1f, 0.05f};

struct Line {
  float *data;
  int size;
  __host__ __device__ Line(float *d, int s) : data(d), size(s) {}
  __device__ float get(int i) const { return i < 0 || i >= size ? 0.0f : data[i]; }
  __device__ void set(int i, float v) { data[i] = v; }
};

__global__ void stencil1d(Line in, Line out) {
  __shared__ float temp[BLOCK_SIZE + 2 * RADIUS];
  int g = threadIdx.x + blockIdx.x * blockDim.x, l = threadIdx.x + RADIUS;
  temp[l] = in.get(g);
  if (threadIdx.x < RADIUS) {
    temp[l + BLOCK_SIZE] = in.get(g + BLOCK_SIZE);
  }
  __syncthreads();
  if (g >= in.size) return;
  float result = 0;
#pragma unroll
  for (int o = -RADIUS; o <= RADIUS; o++) result += weights[o + RADIUS] * temp[l + o];  // finding: unwritten
  out.set(g, result);
}

int main() {
  const int n = 1000, steps = 3;
  vector<float> host(n), want(n), other(n);
  iota(host.begin(), host.end(), 0.0f);
  want = host;
  const float w[] = {0.05f, 0.1f, 0.2f, 0.3f, 0.2f, 0.1f, 0.05f};
  for (int s = 0; s < steps; ++s) {
    for (int i = 0; i < n; ++i) {
      float sum = 0;
      for (int o = -RADIUS; o <= RADIUS; ++o) sum += w[o + RADIUS] * (i + o < 0 || i + o >= n ? 0 : want[i + o]);
      other[i] = sum;
    }
    swap(want, other);
  }
  float *a, *b;
  cudaMalloc(&a, n * sizeof(float));
  cudaMalloc(&b, n * sizeof(float));
  cudaMemcpy(a, host.data(), n * sizeof(float), cudaMemcpyHostToDevice);
  auto begin = chrono::high_resolution_clock::now();
  for (int s = 0; s < steps; ++s) {
    stencil1d<<<(n + BLOCK_SIZE - 1) / BLOCK_SIZE, BLOCK_SIZE>>>(Line(a, n), Line(b, n));
    swap(a, b);
  }
  cudaDeviceSynchronize();
  auto time = chrono::duration<double, milli>(chrono::high_resolution_clock::now() - begin).count();
  cudaMemcpy(host.data(), a, n * sizeof(float), cudaMemcpyDeviceToHost);
  float worst = 0;
  for (int i = 0; i < n; ++i) worst = max(worst, abs(host[i] - want[i]));
  printf("stencil: %s\n", worst < 1e-3f && time >= 0 ? "ok" : "wrong");
  cudaFree(a);
  cudaFree(b);
  return worst < 1e-3f ? 0 : 1;
}
