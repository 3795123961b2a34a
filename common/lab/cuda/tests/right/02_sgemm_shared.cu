// SGEMM with tiles in dynamic shared memory, at a size that is not a multiple of the tile.
#include "../arrays.cuh"

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
    As[threadIdx.y * T + threadIdx.x] = row < M && ka < K ? A[row * K + ka] : 0.0f;
    Bs[threadIdx.y * T + threadIdx.x] = kb < K && col < N ? B[kb * N + col] : 0.0f;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < T; ++k) acc += As[threadIdx.y * T + k] * Bs[k * T + threadIdx.x];
    __syncthreads();
  }
  if (row < M && col < N) C[row * N + col] = alpha * acc + beta * C[row * N + col];
}

int main() {
  const int M = 50, N = 37, K = 70;
  const auto a = numbers(M * K, [](int i) { return (i * 7 % 11 - 5) * 0.25f; });
  const auto b = numbers(K * N, [](int i) { return (i * 5 % 13 - 6) * 0.5f; });
  float *dA = on_device(a), *dB = on_device(b), *dC = on_device(std::vector<float>(M * N, 1.0f));
  dim3 block{TILE, TILE};
  dim3 grid{(N + TILE - 1) / TILE, (M + TILE - 1) / TILE};
  sgemm<TILE><<<grid, block, 2 * TILE * TILE * sizeof(float)>>>(M, N, K, 2.0f, dA, dB, 0.5f, dC);
  return check(dC, M * N, [&](int i) {
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += a[i / N * K + k] * b[k * N + i % N];
    return 2.0f * sum + 0.5f;
  });
}
