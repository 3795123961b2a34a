// Bulk copies by the functions of libcu++: as in CUDA's guide, and by cuda::ptx with two stages.
#include <cstdint>
#include <cuda/barrier>
#include <cuda/ptx>
#include <utility>

#include "../arrays.cuh"

using barrier = cuda::barrier<cuda::thread_scope_block>;
namespace cde = cuda::device::experimental;
namespace ptx = cuda::ptx;

constexpr int kSize = 256, kPieces = 5;

__global__ void add_one(const float *in, float *out) {
  __shared__ alignas(16) float piece[kSize];
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ barrier bar;
  if (threadIdx.x == 0) {
    init(&bar, blockDim.x);
    cde::fence_proxy_async_shared_cta();
  }
  __syncthreads();
  barrier::arrival_token token;
  if (threadIdx.x == 0) {
    cde::cp_async_bulk_global_to_shared(piece, in + blockIdx.x * kSize, sizeof(piece), bar);
    token = cuda::device::barrier_arrive_tx(bar, 1, sizeof(piece));
  } else {
    token = bar.arrive();
  }
  bar.wait(std::move(token));
  piece[threadIdx.x] += 1;
  cde::fence_proxy_async_shared_cta();
  __syncthreads();
  if (threadIdx.x == 0) {
    cde::cp_async_bulk_shared_to_global(out + blockIdx.x * kSize, piece, sizeof(piece));
    cde::cp_async_bulk_commit_group();
    cde::cp_async_bulk_wait_group_read<0>();
  }
}

__global__ void sum_pieces(const float *in, float *out) {
  __shared__ alignas(16) float piece[2][kSize];
  __shared__ uint64_t bar[2];
  const auto load = [&](int i) {
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, piece[i % 2], in + i * kSize, sizeof(piece[0]), &bar[i % 2]);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar[i % 2], sizeof(piece[0]));
  };
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&bar[0], 1);
    ptx::mbarrier_init(&bar[1], 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  __syncthreads();
  if (threadIdx.x == 0) load(0);
  float sum = 0;
  for (int i = 0; i < kPieces; ++i) {
    if (threadIdx.x == 0 && i + 1 < kPieces) load(i + 1);
    while (!ptx::mbarrier_try_wait_parity(&bar[i % 2], i / 2 % 2)) {
    }
    sum += piece[i % 2][threadIdx.x];
    __syncthreads();
  }
  out[threadIdx.x] = sum;
}

int main() {
  float *x = on_device(numbers(kPieces * kSize, [](int i) { return i % 51; }));
  float *y = on_device(std::vector<float>(kPieces * kSize)), *z = on_device(std::vector<float>(kSize));
  add_one<<<kPieces, kSize>>>(x, y);
  sum_pieces<<<1, kSize>>>(y, z);
  return check(z, kSize, [](int i) {
    float sum = kPieces;
    for (int p = 0; p < kPieces; ++p) sum += (p * kSize + i) % 51;
    return sum;
  });
}
