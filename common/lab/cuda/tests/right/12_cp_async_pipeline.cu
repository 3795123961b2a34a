// A matmul with two stages of cp.async, by inline PTX and by the functions of cuda_pipeline.h.
#include <cuda_pipeline.h>

#include <cstdint>
#include <cstdio>
#include <vector>

#define CP_ASYNC_CG(dst, src, bytes) \
  asm volatile("cp.async.cg.shared.global [%0], [%1], %2;\n" ::"r"(dst), "l"(src), "n"(bytes))
#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT_GROUP(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))

constexpr int BM = 32, BN = 32, BK = 16, N = 64;

template <bool ptx>
__device__ void copy16(float *to, const float *from) {
  if constexpr (ptx) {
    uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
    CP_ASYNC_CG(address, from, 16);
  } else {
    __pipeline_memcpy_async(to, from, sizeof(float4));
  }
}

template <bool ptx>
__global__ void matmul(const float *a, const float *b, float *c) {
  __shared__ __align__(16) float sA[2][BM][BK];
  __shared__ __align__(16) float sB[2][BK][BN];
  const int t = threadIdx.x;  // 128
  auto fetch = [&](int stage, int k0) {
    copy16<ptx>(&sA[stage][t / 4][t % 4 * 4], a + (blockIdx.y * BM + t / 4) * N + k0 + t % 4 * 4);
    copy16<ptx>(&sB[stage][t / 8][t % 8 * 4], b + (k0 + t / 8) * N + blockIdx.x * BN + t % 8 * 4);
    if (ptx)
      CP_ASYNC_COMMIT_GROUP();
    else
      __pipeline_commit();
  };
  float acc[8] = {};
  fetch(0, 0);
  for (int k0 = 0; k0 < N; k0 += BK) {
    const int stage = k0 / BK % 2;
    if (k0 + BK < N) {
      fetch(stage ^ 1, k0 + BK);
      if (ptx)
        CP_ASYNC_WAIT_GROUP(1);
      else
        __pipeline_wait_prior(1);
    } else {
      if (ptx)
        CP_ASYNC_WAIT_GROUP(0);
      else
        __pipeline_wait_prior(0);
    }
    __syncthreads();
    for (int k = 0; k < BK; ++k)
      for (int i = 0; i < 8; ++i) acc[i] += sA[stage][t / 32 * 8 + i][k] * sB[stage][k][t % 32];
    __syncthreads();
  }
  for (int i = 0; i < 8; ++i)
    c[(blockIdx.y * BM + t / 32 * 8 + i) * N + blockIdx.x * BN + t % 32] = acc[i];
}

int main() {
  std::vector<float> a(N * N), b(N * N), c(N * N);
  for (int i = 0; i < N * N; ++i) {
    a[i] = i % 9 - 4;
    b[i] = i % 7 - 3;
  }
  float *da, *db, *dc;
  for (float **p : {&da, &db, &dc}) cudaMalloc(p, N * N * sizeof(float));
  cudaMemcpy(da, a.data(), N * N * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(db, b.data(), N * N * sizeof(float), cudaMemcpyHostToDevice);
  int failures = 0;
  for (int which = 0; which < 2; ++which) {
    dim3 grid(N / BN, N / BM);
    if (which == 0)
      matmul<true><<<grid, 128>>>(da, db, dc);
    else
      matmul<false><<<grid, 128>>>(da, db, dc);
    cudaMemcpy(c.data(), dc, N * N * sizeof(float), cudaMemcpyDeviceToHost);
    int wrong = 0;
    for (int i = 0; i < N; ++i) {
      for (int j = 0; j < N; ++j) {
        float sum = 0;
        for (int k = 0; k < N; ++k) sum += a[i * N + k] * b[k * N + j];
        wrong += c[i * N + j] != sum;
      }
    }
    printf("%s: %s\n", which == 0 ? "inline PTX" : "pipeline", wrong ? "wrong" : "right");
    failures += wrong != 0;
  }
  return failures;
}
