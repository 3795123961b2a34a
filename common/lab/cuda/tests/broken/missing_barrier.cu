// Broken: no barrier before the tiles are overwritten.
#include <cstdio>
#include <vector>

constexpr int TILE = 16;
extern __shared__ float tiles[];

template <int T>
__global__ __launch_bounds__(T *T) void sgemm(int M, int N, int K, float alpha,
                                              const float *__restrict__ A,
                                              const float *__restrict__ B, float beta,
                                              float *__restrict__ C) {
  float *As = tiles, *Bs = tiles + T * T;
  const int row = blockIdx.y * T + threadIdx.y, col = blockIdx.x * T + threadIdx.x;
  float acc = 0.0f;
  for (int k0 = 0; k0 < K; k0 += T) {
    const int ka = k0 + threadIdx.x, kb = k0 + threadIdx.y;
    As[threadIdx.y * T + threadIdx.x] = row /* finding: race */ < M && ka < K ? A[row * K + ka] : 0.0f;
    Bs[threadIdx.y * T + threadIdx.x] = kb < K && col < N ? B[kb * N + col] : 0.0f;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < T; ++k) acc += As[threadIdx.y * T + k] * Bs[k * T + threadIdx.x];
  }
  if (row < M && col < N) C[row * N + col] = alpha * acc + beta * C[row * N + col];
}

int main() {
  const int M = 50, N = 37, K = 70;
  std::vector<float> a(M * K), b(K * N), c(M * N, 1.0f), want(M * N);
  for (int i = 0; i < M * K; ++i) a[i] = (i * 7 % 11 - 5) * 0.25f;
  for (int i = 0; i < K * N; ++i) b[i] = (i * 5 % 13 - 6) * 0.5f;
  for (int i = 0; i < M; ++i) {
    for (int j = 0; j < N; ++j) {
      float sum = 0;
      for (int k = 0; k < K; ++k) sum += a[i * K + k] * b[k * N + j];
      want[i * N + j] = 2.0f * sum + 0.5f;
    }
  }
  float *dA, *dB, *dC;
  cudaMalloc(&dA, a.size() * sizeof(float));
  cudaMalloc(&dB, b.size() * sizeof(float));
  cudaMalloc(&dC, c.size() * sizeof(float));
  cudaMemcpy(dA, a.data(), a.size() * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(dB, b.data(), b.size() * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(dC, c.data(), c.size() * sizeof(float), cudaMemcpyHostToDevice);
  dim3 block{TILE, TILE};
  dim3 grid{(N + TILE - 1) / TILE, (M + TILE - 1) / TILE};
  sgemm<TILE><<<grid, block, 2 * TILE * TILE * sizeof(float)>>>(M, N, K, 2.0f, dA, dB, 0.5f, dC);
  cudaMemcpy(c.data(), dC, c.size() * sizeof(float), cudaMemcpyDeviceToHost);
  int wrong = 0;
  for (int i = 0; i < M * N; ++i) wrong += c[i] != want[i];
  printf("%d of %d elements are wrong\n", wrong, M * N);
  cudaFree(dA);
  cudaFree(dB);
  cudaFree(dC);
  return wrong != 0;
}
