// Tensor cores and TMA by inline PTX, without any header of the course:
//   nvcc -gencode arch=compute_90a,code=sm_90a -o inline_ptx inline_ptx.cu
// It needs CUDA 12.5 or newer, and a Hopper GPU.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cuda.h>  // types of the driver; nothing of it is linked
#include <cudaTypedefs.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <vector>

static_assert(CUDART_VERSION >= 12050, "inline_ptx.cu needs CUDA 12.5 or newer");

// clang-format off
//! [mma]
// d += a b for one warp: a 16 x 16 and b 16 x 8 in half, d 16 x 8 in float.
__device__ void mma_16x8x16(float (&d)[4], const std::uint32_t (&a)[4],
                            const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
//! [mma]

//! [barrier]
__device__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}
__device__ void barrier_init(std::uint64_t* barrier, int arrivals) {
  asm volatile(
      "mbarrier.init.shared::cta.b64 [%0], %1;\n"
      "fence.mbarrier_init.release.cluster;\n"
      :: "r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
__device__ void barrier_arrive_and_expect(std::uint64_t* barrier, int bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n"
      :: "r"(shared_address(barrier)), "r"(bytes) : "memory");
}
__device__ void barrier_wait(std::uint64_t* barrier, int parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again_%=:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again_%=;\n"
      "}\n"
      :: "r"(shared_address(barrier)), "r"(parity) : "memory");
}
//! [barrier]

//! [tma_load]
// Copies the box whose first element is (row, col) to shared memory.
__device__ void tma_load(void* to, const CUtensorMap* map, int row, int col,
                         std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global"
      ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];\n"
      :: "r"(shared_address(to)), "l"(map), "r"(col), "r"(row),
         "r"(shared_address(barrier)) : "memory");
}
//! [tma_load]

//! [tensor_map]
// A row-major matrix of half, in boxes of box_rows x 64 with swizzle.
CUtensorMap tensor_map(const __half* data, std::uint64_t rows,
                       std::uint64_t cols, std::uint32_t box_rows) {
  void* found = nullptr;  // a function of the driver, found at run time
  cudaDriverEntryPointQueryResult result;
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000,
                                   cudaEnableDefault, &result);
  const auto encode =
      reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(found);
  const std::uint64_t sizes[] = {cols, rows};  // the contiguous one first
  const std::uint64_t strides[] = {cols * sizeof(__half)};  // bytes; of rows
  const std::uint32_t box[] = {64, box_rows};  // 64 x 2 bytes: one panel
  const std::uint32_t steps[] = {1, 1};        // every element
  CUtensorMap map;
  const CUresult status =
      encode == nullptr
          ? CUDA_ERROR_NOT_FOUND
          : encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2,
                   const_cast<__half*>(data), sizes, strides, box, steps,
                   CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                   CU_TENSOR_MAP_L2_PROMOTION_NONE,
                   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    std::printf("cuTensorMapEncodeTiled: error %d\n", status);
    std::exit(1);
  }
  return map;
}
//! [tensor_map]

//! [wgmma]
// Begins d += a b, or d = a b, for one warpgroup: a 64 x 16 and b 16 x 32
// of half in shared memory, both K-major, so b lies there as 32 rows of 16;
// d 64 x 32 in float.
__device__ void wgmma_64x32x16(float (&d)[16], std::uint64_t a,
                               std::uint64_t b, bool adds) {
  asm volatile(
      "{\n"
      ".reg .pred adds;\n"
      "setp.ne.b32 adds, %18, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15}, "
      "%16, %17, adds, 1, 1, 0, 0;\n"
      "}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]),
        "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]),
        "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),
        "+f"(d[15])
      : "l"(a), "l"(b), "r"(static_cast<int>(adds)));
}
__device__ void wgmma_fence(float (&d)[16]) {
  for (float& element : d) asm volatile("" : "+f"(element));
  asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
}
__device__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
}
__device__ void wgmma_wait(float (&d)[16]) {
  asm volatile("wgmma.wait_group.sync.aligned 0;\n" ::: "memory");
  for (float& element : d) asm volatile("" : "+f"(element));
}
// Describes a K-major operand in panels of 128 bytes.
__device__ std::uint64_t descriptor(const void* operand) {
  constexpr std::uint64_t kStrideByteOffset = 1024, kSwizzle128 = 1;
  return (shared_address(operand) >> 4 & 0x3fff) |
         kStrideByteOffset >> 4 << 32 | kSwizzle128 << 62;
}
//! [wgmma]

//! [kernels]
// C = A B for one warp. B is given by columns.
__global__ void mma_kernel(const __half* a, const __half* b, float* c) {
  const int g = threadIdx.x / 4, t = threadIdx.x % 4;
  const auto pair = [](const __half* from) {
    return *reinterpret_cast<const std::uint32_t*>(from);
  };
  const std::uint32_t a_frag[] = {
      pair(a + 16 * g + 2 * t), pair(a + 16 * (g + 8) + 2 * t),
      pair(a + 16 * g + 2 * t + 8), pair(a + 16 * (g + 8) + 2 * t + 8)};
  const std::uint32_t b_frag[] = {pair(b + 16 * g + 2 * t),
                                  pair(b + 16 * g + 2 * t + 8)};
  float d[4] = {};
  mma_16x8x16(d, a_frag, b_frag);
  for (int i = 0; i < 4; ++i) {
    c[8 * (g + i / 2 * 8) + 2 * t + i % 2] = d[i];
  }
}

// C = A B^T for one warpgroup: A 64 x 64, B 32 x 64.
__global__ void wgmma_kernel(const __grid_constant__ CUtensorMap a_map,
                             const __grid_constant__ CUtensorMap b_map,
                             float* c) {
  __shared__ alignas(1024) __half a[64 * 64], b[32 * 64];
  __shared__ alignas(8) std::uint64_t full;
  if (threadIdx.x == 0) barrier_init(&full, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    barrier_arrive_and_expect(&full, sizeof a + sizeof b);
    tma_load(a, &a_map, 0, 0, &full);
    tma_load(b, &b_map, 0, 0, &full);
  }
  barrier_wait(&full, 0);
  float d[16] = {};
  wgmma_fence(d);
  for (int k = 0; k < 64; k += 16) {  // 16 elements: 32 bytes, 2 units
    wgmma_64x32x16(d, descriptor(a) + k / 8, descriptor(b) + k / 8, k > 0);
  }
  wgmma_commit();
  wgmma_wait(d);
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4,
            t = threadIdx.x % 4;
  for (int i = 0; i < 16; ++i) {
    const int row = 16 * warp + i / 2 % 2 * 8 + g;
    c[32 * row + i / 4 * 8 + 2 * t + i % 2] = d[i];
  }
}
//! [kernels]
// clang-format on

namespace {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::printf("%s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

struct Matrix {  // row-major, of multiples of 1/32 below 4, so that every sum is exact
  Matrix(int rows, int cols, unsigned seed) : rows(rows), cols(cols) {
    std::vector<__half> values;
    for (int i = 0; i < rows * cols; ++i) {
      seed = seed * 1664525u + 1013904223u;
      values.push_back(__float2half(static_cast<float>(seed >> 24) / 32 - 4));
    }
    for (const __half v : values) floats.push_back(__half2float(v));
    check(cudaMalloc(&data, values.size() * sizeof(__half)), "cudaMalloc");
    check(cudaMemcpy(data, values.data(), values.size() * sizeof(__half), cudaMemcpyHostToDevice),
          "cudaMemcpy");
  }
  int rows, cols;
  __half* data = nullptr;
  std::vector<float> floats;
};

// Compares C with A B^T; returns whether it is right.
bool right(const char* name, const Matrix& a, const Matrix& b, const float* c) {
  check(cudaDeviceSynchronize(), name);
  std::vector<float> result(static_cast<std::size_t>(a.rows * b.rows));
  check(cudaMemcpy(result.data(), c, result.size() * sizeof(float), cudaMemcpyDeviceToHost),
        "cudaMemcpy");
  int wrong = 0;
  for (int i = 0; i < a.rows; ++i) {
    for (int j = 0; j < b.rows; ++j) {
      float sum = 0;
      for (int k = 0; k < a.cols; ++k) {
        sum += a.floats[static_cast<std::size_t>(i * a.cols + k)] *
               b.floats[static_cast<std::size_t>(j * b.cols + k)];
      }
      const float error = std::abs(sum - result[static_cast<std::size_t>(i * b.rows + j)]);
      if (!(error <= 1e-4f)) ++wrong;  // NaN, too
    }
  }
  std::printf("%s  %s: %d of %d elements are wrong\n", wrong == 0 ? "PASS" : "FAIL", name, wrong,
              a.rows * b.rows);
  return wrong == 0;
}

}  // namespace

int main() {
  cudaDeviceProp gpu;
  check(cudaGetDeviceProperties(&gpu, 0), "cudaGetDeviceProperties");
  if (gpu.major != 9) {
    std::printf("%s is not a Hopper GPU\n", gpu.name);
    return 77;
  }
  float* c = nullptr;
  check(cudaMalloc(&c, 64 * 32 * sizeof(float)), "cudaMalloc");
  const Matrix a(16, 16, 1), b(8, 16, 2);
  mma_kernel<<<1, 32>>>(a.data, b.data, c);
  const bool mma_right = right("mma", a, b, c);
  const Matrix large_a(64, 64, 3), large_b(32, 64, 4);
  wgmma_kernel<<<1, 128>>>(tensor_map(large_a.data, 64, 64, 64),
                           tensor_map(large_b.data, 32, 64, 32), c);
  return right("wgmma", large_a, large_b, c) && mma_right ? 0 : 1;
}
