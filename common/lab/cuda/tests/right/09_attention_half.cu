// Attention in one file: Q K^T by tensor cores (wmma), an online softmax, and O in float.
#include <cuda_fp16.h>
#include <mma.h>

#include "../arrays.cuh"
using namespace nvcuda;

constexpr int D = 32, BM = 16, BN = 16;

__global__ void attention(const half *q, const half *k, const half *v, float *o, int length,
                          float scale) {
  __shared__ __align__(32) half sQ[BM * D];
  __shared__ __align__(32) half sK[BN * D];
  __shared__ half2 sV[BN * D / 2];
  __shared__ __align__(32) float sS[BM * BN];
  const int lane = threadIdx.x, row0 = blockIdx.x * BM;
  const int row = lane / 2, part = lane % 2;  // two lanes for each row of O
  for (int i = lane; i < BM * D; i += 32) {
    int r = row0 + i / D;
    sQ[i] = r < length ? q[r * D + i % D] : __float2half(0.0f);
  }
  float acc[D / 2] = {}, m = -INFINITY, l = 0.0f;
  for (int col0 = 0; col0 < length; col0 += BN) {
    for (int i = lane; i < BN * D; i += 32) {
      int r = col0 + i / D;
      sK[i] = r < length ? k[r * D + i % D] : __float2half(0.0f);
    }
    for (int i = lane; i < BN * D / 2; i += 32) {
      int r = col0 + i / (D / 2);
      sV[i] = r < length ? reinterpret_cast<const half2 *>(v)[r * D / 2 + i % (D / 2)]
                         : __float2half2_rn(0.0f);
    }
    __syncwarp();
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> s;
    wmma::fill_fragment(s, 0.0f);
    for (int d = 0; d < D; d += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
      wmma::load_matrix_sync(a, sQ + d, D);
      wmma::load_matrix_sync(b, sK + d, D);
      wmma::mma_sync(s, a, b, s);
    }
    for (int i = 0; i < s.num_elements; ++i) s.x[i] *= scale;
    wmma::store_matrix_sync(sS, s, BN, wmma::mem_row_major);
    __syncwarp();
    float top = m;
    for (int c = 0; c < BN && col0 + c < length; ++c) top = fmaxf(top, sS[row * BN + c]);
    float rescale = expf(m - top);
    l *= rescale;
    for (int i = 0; i < D / 2; ++i) acc[i] *= rescale;
    for (int c = 0; c < BN && col0 + c < length; ++c) {
      float p = expf(sS[row * BN + c] - top);
      l += p;
      for (int i = 0; i < D / 4; ++i) {
        float2 pair = __half22float2(sV[c * D / 2 + part * D / 4 + i]);
        acc[2 * i] += p * pair.x;
        acc[2 * i + 1] += p * pair.y;
      }
    }
    m = top;
    __syncwarp();
  }
  if (row0 + row < length) {
    for (int i = 0; i < D / 2; ++i) o[(row0 + row) * D + part * D / 2 + i] = acc[i] / l;
  }
}

int main() {
  const int length = 40;
  std::vector<half> x[3];  // q, k, v
  half *d[3];
  float *o = on_device(std::vector<float>(length * D));
  for (int n = 0; n < 3; ++n) {
    x[n] = numbers<half>(length * D, [&](int i) { return __float2half(((i * 31 + 4 * n + 1) % 17 - 8) / 8.0f); });
    d[n] = on_device(x[n]);
  }
  attention<<<(length + BM - 1) / BM, 32>>>(d[0], d[1], d[2], o, length, 1.0f / sqrtf(D));
  return check(o, length * D, [&](int i) {
    float sum = 0, want = 0;
    for (int j = 0; j < length; ++j) {
      float s = 0;
      for (int l = 0; l < D; ++l) s += __half2float(x[0][i / D * D + l]) * __half2float(x[1][j * D + l]);
      const float p = expf(s / sqrtf(D));
      sum += p;
      want += p * __half2float(x[2][j * D + i % D]);
    }
    return want / sum;
  }, 2e-3);
}
