// C = A B^T by wgmma: tiles come by TMA into a ring of two stages. Then the same product with A in
// registers.
#include <cstdint>
#include <cstdio>
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <vector>

typedef __nv_bfloat16 bf16;
constexpr int BM = 64, BN = 32, BK = 64, kStages = 2;

__device__ uint32_t smem(const void *p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

struct Barrier {
  uint64_t state;
  __device__ void init(int count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;\n" ::"r"(smem(&state)), "r"(count));
  }
  __device__ void expect(int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;\n" ::"r"(smem(&state)),
                 "r"(bytes));
  }
  __device__ bool try_wait(int parity) {
    uint32_t done;
    asm volatile("{\n\t.reg .pred p;\n\t"
                 "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2, %3;\n\t"
                 "selp.u32 %0, 1, 0, p;\n\t}"
                 : "=r"(done)
                 : "r"(smem(&state)), "r"(parity), "r"(1000000)
                 : "memory");
    return done;
  }
  __device__ void wait(int parity) {
    while (!try_wait(parity)) {
    }
  }
};

__device__ void load_tile(void *to, const CUtensorMap *map, int col, int row, Barrier &bar) {
  const uint64_t policy = 0x1000000000000000;
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
               " [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(smem(to)),
               "l"(map), "r"(smem(&bar)), "r"(col), "r"(row), "l"(policy)
               : "memory");
}

// Rows of 128 bytes, swizzled; 1024 bytes from 8 rows to the next 8.
__device__ uint64_t descriptor(const bf16 *p) {
  return (uint64_t)((smem(p) & 0x3FFFF) >> 4) | (uint64_t)1 << 16 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

#define D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define D16 D4(0), D4(4), D4(8), D4(12)
#define TEXT16 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}"

__device__ void wgmma(float (&d)[16], uint64_t a, uint64_t b, int adds) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 " TEXT16
               ", %16, %17, p, 1, 1, 0, 0;\n}\n"
               : D16
               : "l"(a), "l"(b), "r"(adds));
}
__device__ void wgmma(float (&d)[16], const uint32_t (&a)[4], uint64_t b, int adds) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %21, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 " TEXT16
               ", {%16, %17, %18, %19}, %20, p, 1, 1, 0;\n}\n"
               : D16
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds));
}
__device__ void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int n>
__device__ void wait_for_wgmma() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory");
}

template <bool from_registers>
__global__ void __launch_bounds__(128) matmul(const __grid_constant__ CUtensorMap map_a,
                                              const __grid_constant__ CUtensorMap map_b, const bf16 *a,
                                              float *c, int K) {
  extern __shared__ __align__(1024) unsigned char shared[];
  bf16 *const tile_a = reinterpret_cast<bf16 *>(shared);
  bf16 *const tile_b = tile_a + kStages * BM * BK;
  __shared__ Barrier full[kStages];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = 16 * warp + lane / 4;
  const auto load = [&](int k) {
    const int s = k % kStages;
    full[s].expect((BM + BN) * BK * (int)sizeof(bf16));
    load_tile(tile_a + s * BM * BK, &map_a, k * BK, 0, full[s]);
    load_tile(tile_b + s * BN * BK, &map_b, k * BK, 0, full[s]);
  };
  if (threadIdx.x == 0) {
    for (Barrier &bar : full) bar.init(1);
    asm volatile("fence.proxy.async.shared::cta;");
    for (int k = 0; k < kStages; ++k) load(k);
  }
  __syncthreads();
  float d[16];
  for (float &sum : d) sum = 0;
  for (int k = 0; k < K / BK; ++k) {
    const int s = k % kStages;
    full[s].wait(k / kStages % 2);
    uint32_t own[4][4];
    for (int j = 0; from_registers && j < 16; ++j) {
      const int r = row + 8 * (j % 2), col = k * BK + 16 * (j / 4) + 2 * (lane % 4) + 8 * (j / 2 % 2);
      own[j / 4][j % 4] = *reinterpret_cast<const uint32_t *>(a + r * K + col);
    }
    fence();
    for (int i = 0; i < 4; ++i) {
      const uint64_t b = descriptor(tile_b + s * BN * BK + 16 * i);
      if constexpr (from_registers) {
        wgmma(d, own[i], b, k + i > 0);
      } else {
        wgmma(d, descriptor(tile_a + s * BM * BK + 16 * i), b, k + i > 0);
      }
    }
    commit();
    wait_for_wgmma<0>();
    __syncthreads();
    if (threadIdx.x == 0 && k + kStages < K / BK) load(k + kStages);
  }
  for (int i = 0; i < 16; ++i) {
    c[(row + 8 * (i / 2 % 2)) * BN + 8 * (i / 4) + 2 * (lane % 4) + i % 2] = d[i];
  }
}

int main() {
  const int K = 4 * BK;
  std::vector<bf16> a(BM * K), b(BN * K);
  for (int i = 0; i < BM * K; ++i) a[i] = __float2bfloat16(i * 7 % 11 - 5);
  for (int i = 0; i < BN * K; ++i) b[i] = __float2bfloat16(i * 5 % 13 - 6);
  bf16 *da, *db;
  float *dc;
  cudaMalloc(&da, a.size() * sizeof(bf16));
  cudaMalloc(&db, b.size() * sizeof(bf16));
  cudaMalloc(&dc, BM * BN * sizeof(float));
  cudaMemcpy(da, a.data(), a.size() * sizeof(bf16), cudaMemcpyHostToDevice);
  cudaMemcpy(db, b.data(), b.size() * sizeof(bf16), cudaMemcpyHostToDevice);
  void *entry = nullptr;
  cudaDriverEntryPointQueryResult found;
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found);
  if (found != cudaDriverEntryPointSuccess) return 2;
  const auto map_of = [&](bf16 *data, int rows) {
    const cuuint64_t sizes[2] = {(cuuint64_t)K, (cuuint64_t)rows}, strides[1] = {K * sizeof(bf16)};
    const cuuint32_t box[2] = {BK, (cuuint32_t)rows}, steps[2] = {1, 1};
    CUtensorMap map;
    reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry)(
        &map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, data, sizes, strides, box, steps,
        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return map;
  };
  const int bytes = kStages * (BM + BN) * BK * sizeof(bf16);
  int wrong = 0;
  for (const auto kernel : {matmul<false>, matmul<true>}) {
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    kernel<<<1, 128, bytes>>>(map_of(da, BM), map_of(db, BN), da, dc, K);
    std::vector<float> c(BM * BN);
    cudaMemcpy(c.data(), dc, BM * BN * sizeof(float), cudaMemcpyDeviceToHost);
    for (int i = 0; i < BM * BN; ++i) {
      float sum = 0;
      for (int k = 0; k < K; ++k) sum += __bfloat162float(a[i / BN * K + k]) * __bfloat162float(b[i % BN * K + k]);
      wrong += c[i] != sum;
    }
  }
  printf("%d wrong\n", wrong);
  cudaFree(da);
  cudaFree(db);
  cudaFree(dc);
  return wrong != 0;
}
