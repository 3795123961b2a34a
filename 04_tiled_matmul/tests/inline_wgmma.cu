// wgmma for another shape than that of the appendix on inline PTX, 64 x 96, written as the appendix
// says: with A from shared memory, and with A from registers. All else is inline_ptx.cu's.
#define main inline_ptx_main
#include "../src/inline_ptx.cu"
#undef main

// clang-format off
__device__ void wgmma_64x96x16(float (&d)[48], std::uint64_t a, std::uint64_t b, bool adds) {
  asm volatile(
      "{\n"
      ".reg .pred adds;\n"
      "setp.ne.b32 adds, %50, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n96k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47}, "
      "%48, %49, adds, 1, 1, 0, 0;\n"
      "}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),
        "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
        "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
        "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
        "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
        "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
        "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]),
        "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
      : "l"(a), "l"(b), "r"(static_cast<int>(adds)));
}

__device__ void wgmma_64x96x16(float (&d)[48], const std::uint32_t (&a)[4], std::uint64_t b,
                               bool adds) {
  asm volatile(
      "{\n"
      ".reg .pred adds;\n"
      "setp.ne.b32 adds, %53, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n96k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47}, "
      "{%48, %49, %50, %51}, %52, adds, 1, 1, 0;\n"
      "}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),
        "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
        "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
        "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
        "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
        "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
        "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]),
        "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(adds)));
}
// clang-format on

// Passes registers through, as the appendix's wgmma_fence() and wgmma_wait() do.
template <int count>
__device__ void keep(float (&d)[count]) {
  for (float& element : d) asm volatile("" : "+f"(element));
}
template <int count>
__device__ void keep(std::uint32_t (&a)[count]) {
  for (std::uint32_t& element : a) asm volatile("" : "+r"(element));
}

// C = A B^T for one warpgroup: A 64 x 64, B 96 x 64.
template <bool a_in_registers>
__global__ void __launch_bounds__(128)
    multiply(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map,
             const __half* a_global, float* c) {
  __shared__ alignas(1024) __half a[64 * 64], b[96 * 64];
  __shared__ alignas(8) std::uint64_t full;
  if (threadIdx.x == 0) barrier_init(&full, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    barrier_arrive_and_expect(&full, sizeof a + sizeof b);
    tma_load(a, &a_map, 0, 0, &full);
    tma_load(b, &b_map, 0, 0, &full);
  }
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  std::uint32_t a_frag[4][4];
  for (int k = 0; k < 4; ++k) {
    for (int i = 0; i < 4; ++i) {
      const int row = 16 * warp + g + i % 2 * 8, col = 16 * k + i / 2 * 8 + 2 * t;
      a_frag[k][i] = *reinterpret_cast<const std::uint32_t*>(a_global + 64 * row + col);
    }
  }
  barrier_wait(&full, 0);
  float d[48] = {};
  keep(d);
  for (auto& fragment : a_frag) keep(fragment);
  asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
#pragma unroll
  for (int k = 0; k < 4; ++k) {  // 16 elements: 32 bytes, 2 units
    if constexpr (a_in_registers) {
      wgmma_64x96x16(d, a_frag[k], descriptor(b) + 2 * k, k > 0);
    } else {
      wgmma_64x96x16(d, descriptor(a) + 2 * k, descriptor(b) + 2 * k, k > 0);
    }
  }
  wgmma_commit();
  asm volatile("wgmma.wait_group.sync.aligned 0;\n" ::: "memory");
  keep(d);
  for (auto& fragment : a_frag) keep(fragment);
  for (int i = 0; i < 48; ++i) {
    const int row = 16 * warp + i / 2 % 2 * 8 + g;
    c[96 * row + i / 4 * 8 + 2 * t + i % 2] = d[i];
  }
}

int main() {
  cudaDeviceProp gpu;
  check(cudaGetDeviceProperties(&gpu, 0), "cudaGetDeviceProperties");
  if (gpu.major != 9) {
    std::printf("%s is not a Hopper GPU\n", gpu.name);
    return 77;
  }
  const Matrix a(64, 64, 1), b(96, 64, 2);
  const CUtensorMap a_map = tensor_map(a.data, 64, 64, 64), b_map = tensor_map(b.data, 96, 64, 96);
  float* c = nullptr;
  check(cudaMalloc(&c, 64 * 96 * sizeof(float)), "cudaMalloc");
  multiply<false><<<1, 128>>>(a_map, b_map, a.data, c);
  const bool shared_right = right("A in shared memory", a, b, c);
  check(cudaMemset(c, 0xff, 64 * 96 * sizeof(float)), "cudaMemset");  // NaN
  multiply<true><<<1, 128>>>(a_map, b_map, a.data, c);
  return right("A in registers", a, b, c) && shared_right ? 0 : 1;
}
