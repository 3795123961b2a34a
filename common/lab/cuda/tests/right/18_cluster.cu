// Clusters of two blocks: a tile goes to both by one copy, sums are exchanged through the other
// block's shared memory, and a stage is free when both blocks have read it.
#include <cooperative_groups.h>
#include <cstdint>
#include <cstdio>
#include <cuda.h>
#include <cuda_runtime.h>
#include <vector>

constexpr int kSize = 256, kStages = 2;

__device__ uint32_t smem(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ uint32_t rank_in_cluster() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ void wait(uint64_t *bar, int parity) {
  asm volatile("{\n.reg .pred P1;\nWAIT:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 P1, [%0], %1;\n"
               "@!P1 bra.uni WAIT;\n}\n" ::"r"(smem(bar)), "r"(parity) : "memory");
}
__device__ void arrive_at(uint64_t *bar, uint32_t rank) {
  asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
               "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n}\n" ::"r"(smem(bar)), "r"(rank)
               : "memory");
}

// Of the rows of x, each as long as a tile, block r of a cluster adds up those with r as the rest.
__global__ void __cluster_dims__(2, 1, 1) sums(const float *x, float *out, int rows) {
  __shared__ alignas(128) float stage[kStages][kSize];
  __shared__ float mine[kSize];
  __shared__ uint64_t full[kStages], empty[kStages];
  const int me = threadIdx.x, rank = rank_in_cluster(), cluster = blockIdx.x / 2;
  if (me == 0) {
    for (int s = 0; s < kStages; ++s) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(smem(&full[s])));
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(smem(&empty[s])), "r"(2 * kSize));
    }
    asm volatile("fence.mbarrier_init.release.cluster;");
  }
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  float sum = 0;
  for (int row = 0; row < rows; ++row) {
    const int s = row % kStages;
    if (me == 0) {
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem(&full[s])), "n"(kSize * 4));
      if (rank == row % 2) {
        wait(&empty[s], row / kStages % 2 ^ 1);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
                     " [%0], [%1], %2, [%3], %4;" ::"r"(smem(stage[s])),
                     "l"(x + (cluster * rows + row) * kSize), "n"(kSize * 4), "r"(smem(&full[s])), "h"((uint16_t)3)
                     : "memory");
      }
    }
    wait(&full[s], row / kStages % 2);
    if (row % 2 == rank) sum += stage[s][me];
    arrive_at(&empty[s], row % 2);
  }
  mine[me] = sum;
  namespace cg = cooperative_groups;
  cg::cluster_group both = cg::this_cluster();
  both.sync();
  if (rank == 0) out[cluster * kSize + me] = sum + both.map_shared_rank(mine, 1)[me];
  both.sync();
}

int main() {
  const int rows = 7, clusters = 2;
  std::vector<float> x(clusters * rows * kSize), y(clusters * kSize);
  for (size_t i = 0; i < x.size(); ++i) x[i] = i % 97;
  float *dx, *dy;
  cudaMalloc(&dx, x.size() * sizeof(float));
  cudaMalloc(&dy, y.size() * sizeof(float));
  cudaMemcpy(dx, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice);
  sums<<<2 * clusters, kSize>>>(dx, dy, rows);
  if (cudaDeviceSynchronize() != cudaSuccess) return 1;
  cudaMemcpy(y.data(), dy, y.size() * sizeof(float), cudaMemcpyDeviceToHost);
  int wrong = 0;
  for (int i = 0; i < clusters * kSize; ++i) {
    float sum = 0;
    for (int row = 0; row < rows; ++row) sum += x[(i / kSize * rows + row) * kSize + i % kSize];
    wrong += y[i] != sum;
  }
  printf("%d wrong\n", wrong);
  cudaFree(dx);
  cudaFree(dy);
  return wrong != 0;
}
