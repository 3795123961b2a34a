// Doubles a matrix: one warp loads tiles by TMA into a ring of two stages, four others compute, and
// one thread of these stores the results by TMA.
#include <cstdint>
#include <cuda.h>

#include "../arrays.cuh"

constexpr int kRows = 16, kCols = 32, kStages = 2, kConsumers = 128;
constexpr int kBytes = kRows * kCols * sizeof(float);

__device__ uint32_t smem(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

__device__ void init_barrier(uint64_t *bar, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(smem(bar)), "r"(count));
}
__device__ void expect_bytes(uint64_t *bar, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem(bar)), "r"(bytes)
               : "memory");
}
__device__ void arrive(uint64_t *bar) {
  asm volatile("{\n.reg .b64 token;\nmbarrier.arrive.shared::cta.b64 token, [%0];\n}" ::"r"(smem(bar))
               : "memory");
}
__device__ void wait(uint64_t *bar, int parity) {
  asm volatile(
      "{\n"
      ".reg .pred P1;\n"
      "LAB_WAIT:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n"
      "@P1 bra DONE;\n"
      "bra LAB_WAIT;\n"
      "DONE:\n"
      "}\n" ::"r"(smem(bar)),
      "r"(parity)
      : "memory");
}
__device__ void load_tile(void *to, const CUtensorMap *map, int col, int row, uint64_t *bar) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4}], [%2];" ::"r"(smem(to)),
      "l"(map), "r"(smem(bar)), "r"(col), "r"(row)
      : "memory");
}
__device__ void store_tile(const CUtensorMap *map, const void *from, int col, int row) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map),
               "r"(smem(from)), "r"(col), "r"(row)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
__device__ void consumers_meet() { asm volatile("bar.sync 1, 128;" ::: "memory"); }

__global__ void twice(const __grid_constant__ CUtensorMap in, const __grid_constant__ CUtensorMap out,
                      int tiles) {
  __shared__ alignas(128) float stage[kStages][kRows * kCols];
  __shared__ alignas(128) float result[kRows * kCols];
  __shared__ uint64_t full[kStages], empty[kStages];
  const int me = threadIdx.x;
  if (me == 0) {
    for (int s = 0; s < kStages; ++s) {
      init_barrier(&full[s], 1);
      init_barrier(&empty[s], kConsumers);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (me >= kConsumers) {
    if (me == kConsumers) {
      for (int t = 0; t < tiles; ++t) {
        const int s = t % kStages;
        wait(&empty[s], t / kStages % 2 ^ 1);
        expect_bytes(&full[s], kBytes);
        load_tile(stage[s], &in, t * kCols, blockIdx.x * kRows, &full[s]);
      }
    }
    return;
  }
  for (int t = 0; t < tiles; ++t) {
    const int s = t % kStages;
    wait(&full[s], t / kStages % 2);
    if (me == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    consumers_meet();
    for (int i = me; i < kRows * kCols; i += kConsumers) result[i] = 2 * stage[s][i];
    arrive(&empty[s]);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    consumers_meet();
    if (me == 0) store_tile(&out, result, t * kCols, blockIdx.x * kRows);
  }
  if (me == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// As libraries do that are not linked with the driver.
CUtensorMap map_of(float *data, int rows, int cols) {
  void *entry = nullptr;
  cudaDriverEntryPointQueryResult found;
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found);
  if (found != cudaDriverEntryPointSuccess) exit(2);
  const cuuint64_t sizes[2] = {(cuuint64_t)cols, (cuuint64_t)rows}, strides[1] = {cols * sizeof(float)};
  const cuuint32_t box[2] = {kCols, kRows}, steps[2] = {1, 1};
  CUtensorMap map;
  if (reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry)(
          &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, data, sizes, strides, box, steps,
          CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
          CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS) {
    exit(2);
  }
  return map;
}

int main() {
  const int rows = 2 * kRows, cols = 5 * kCols + 8, tiles = 6;  // the last one is in part outside
  float *x = on_device(numbers(rows * cols, [](int i) { return i % 1000; }));
  float *y = on_device(std::vector<float>(rows * cols));
  twice<<<2, kConsumers + 32>>>(map_of(x, rows, cols), map_of(y, rows, cols), tiles);
  return check(y, rows * cols, [](int i) { return 2 * (i % 1000); });
}
