/// @file
/// Broken kernels with misaligned addresses, wrong shuffles and early launches: see
/// broken_hopper.cuh.
#pragma once

#include <vector>

#include "common/gpu/tests/broken_hopper_base.cuh"

namespace fa::FA_TARGET {

/// Loads of 16 bytes begin at the second float.
template <bool broken>
__global__ void misaligned_load(const float* in, float* out) {
  const float4 four = load4(in + 4 * threadIdx.x + broken);  // load4: address
  out[threadIdx.x] = four.x + four.w;
}
/// The same in CUDA's own words.
template <bool broken>
__global__ void misaligned_vector(const float* in, float* out) {
  const auto* fours = reinterpret_cast<const float4*>(in + broken);
  const float4 four = fours[threadIdx.x];  // float4: address
  out[threadIdx.x] = four.x + four.w;
}
/// Stores of 8 bytes begin at the second float.
template <bool broken>
__global__ void misaligned_store(const float* in, float* out) {
  const float x = in[threadIdx.x];
  store2(out + 2 * threadIdx.x + broken, x, x);  // store2: address
}
/// Asynchronous copies of 16 bytes begin at the second float.
template <bool broken>
__global__ void misaligned_copy(const float* in, float* out) {
  __shared__ __align__(16) float row[4 * kWarp];
  const unsigned i = threadIdx.x;
  cp_async16(row + 4 * i, in + 4 * i + broken);  // cp.async: address
  cp_async_commit();
  cp_async_wait<0>();
  out[i] = row[4 * i];
}
/// Rows of 20 numbers are 40 bytes apart: every second one is no place for ldmatrix and stmatrix.
template <bool broken, bool stores>
__global__ void misaligned_rows(const float* in, float* out) {
  constexpr unsigned ld = broken ? 20 : 24;
  __shared__ __align__(16) half tile[16 * ld];
  const unsigned i = threadIdx.x;
  const std::uint32_t pair = pack2<half>(in[i], in[i]);
  std::uint32_t r[4] = {pair, pair, pair, pair};
  if (stores) {
    stmatrix_x4(tile + i % 16 * ld + i / 16 * 8, r);  // stmatrix: row
  } else {
    for (unsigned e = i; e < 16 * ld; e += kWarp) tile[e] = from_float<half>(in[i]);
    __syncwarp();
    ldmatrix_x4(r, tile + i % 16 * ld + i / 16 * 8);  // ldmatrix: row
  }
  __syncwarp();
  out[i] = to_float(tile[i % 16 * ld]) + static_cast<float>(r[0]);
}
/// Two halves of a warp give their sums to each other, in two branches.
template <bool broken>
__global__ void shuffles_in_two_branches(const float* in, float* out) {
  const unsigned i = threadIdx.x;
  const float x = in[i];
  float other = 0;
  if (!broken) {
    other = __shfl_xor_sync(kAllLanes, x, 16);
  } else if (i < 16) {
    other = __shfl_xor_sync(kAllLanes, x, 16);  // branches: first half
  } else {
    other = __shfl_xor_sync(kAllLanes, x, 16);  // branches: second half
  }
  out[i] = x + other;
}
/// The lower half of a warp takes a value of the upper one.
template <bool broken>
__global__ void shuffle_from_outside(const float* in, float* out) {
  const unsigned i = threadIdx.x;
  const float x = in[i];
  if (i >= 16) return;
  out[i] = __shfl_sync(0xffffu, x, broken ? 20 : 4);  // outside: shuffle
}
/// An operand of a TF32 matmul keeps all bits of a float32, of which 13 are not read.
template <bool broken>
__global__ void raw_tf32_operand(const float* in, float* out) {
  const std::uint32_t x = __float_as_uint(in[threadIdx.x] / 3);
  const std::uint32_t part = broken ? x : tf32_nearest(x);
  const std::uint32_t a[4] = {part, part, part, part}, b[2] = {};
  float d[4] = {};
  mma_m16n8k8(d, a, b);  // raw: operand
  out[threadIdx.x] = d[0];
}
/// A warp polls a flag that another warp sets after a barrier, at which the first one does not
/// arrive.
template <bool broken>
__global__ void spins_before_the_barrier(unsigned* flag, float* out) {
  const unsigned i = threadIdx.x;
  if (i == 0) {
    while (load_acquire(flag) == 0) continue;  // spins: flag
  }
  if (broken) __syncthreads();
  if (i == kWarp) {
    __threadfence();
    atomicAdd(flag, 1u);
  }
  out[i] = 1;
}
/// Doubles each element, and lets the next kernel start before it does.
__global__ void previous_kernel(const float* in, float* out) {
  launch_dependents();
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = 2 * in[i];  // early: written
}
/// Reverses the elements that the kernel before it writes. One thread waits for the block.
template <bool broken>
__global__ void early_kernel(const float* in, float* out) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (!broken && threadIdx.x == 0) grid_dependency_wait();
  __syncthreads();
  out[i] = in[gridDim.x * blockDim.x - 1 - i];  // early: read
}

/// Launches `first` and then `second`, which may begin before the end of `first`. Both compute four
/// blocks of 32 numbers from as many.
inline void launch_early(void (*first)(const float*, float*),
                         void (*second)(const float*, float*)) {
  const auto in = ones(128);
  DeviceBuffer<float> middle(128), out(128);
  const Stream stream;
  device_synchronize();
  launch(stream, first, {{4}, {32}}, in.data(), middle.data());
  Launch early{{4}, {32}};
  early.with_pdl = true;
  launch(stream, second, early, middle.data(), out.data());
  device_synchronize();
}

/// BrokenKernel::run of kernels of one warp from floats to floats.
inline auto one_warp(void (*broken)(const float*, float*), void (*right)(const float*, float*)) {
  return launches(broken, right, {{1}, {kWarp}}, 4 * kWarp + 4, 2 * kWarp + 2);
}

/// All of this file.
inline std::vector<BrokenHopperKernel> broken_warps() {
  return in_file(
      "broken_warps.cuh",
      {
          {{"misaligned_load", "16 bytes are loaded from a multiple of 4.", "misaligned",
            "load4: address", "", one_warp(FA_TWINS(misaligned_load))},
           "at an address 4 bytes beyond a multiple of 16"},
          {{"misaligned_vector", "The same in CUDA's own words.", "misaligned", "float4: address",
            "", one_warp(FA_TWINS(misaligned_vector))},
           "at an address 4 bytes beyond a multiple of 16"},
          {{"misaligned_store", "8 bytes are stored to a multiple of 4.", "misaligned",
            "store2: address", "", one_warp(FA_TWINS(misaligned_store))},
           "at an address 4 bytes beyond a multiple of 8"},
          {{"misaligned_copy", "16 bytes are copied from a multiple of 4.", "misaligned",
            "cp.async: address", "", one_warp(FA_TWINS(misaligned_copy))},
           "at an address 4 bytes beyond a multiple of 16"},
          {{"misaligned_rows", "Rows for ldmatrix are 40 bytes apart.", "misaligned",
            "ldmatrix: row", "",
            one_warp(misaligned_rows<true, false>, misaligned_rows<false, false>)},
           "at an address 8 bytes beyond a multiple of 16"},
          {{"misaligned_rows_out", "Rows for stmatrix are 40 bytes apart.", "misaligned",
            "stmatrix: row", "",
            one_warp(misaligned_rows<true, true>, misaligned_rows<false, true>)},
           "at an address 8 bytes beyond a multiple of 16"},
          {{"shuffles_in_two_branches", "Lanes shuffle in two branches.", "warp",
            "branches: second half", "branches: first half",
            one_warp(FA_TWINS(shuffles_in_two_branches))}},
          {{"shuffle_from_outside", "A shuffle takes from outside of its mask.", "warp",
            "outside: shuffle", "", one_warp(FA_TWINS(shuffle_from_outside))},
           "takes the value of lane 20, which is not in the mask 0xffff"},
          {{"raw_tf32_operand", "A TF32 operand has 13 bits too many.", "operand", "raw: operand",
            "", one_warp(FA_TWINS(raw_tf32_operand))},
           "an operand with more bits than TF32 has"},
          {{"spins_before_the_barrier", "A flag is set after a barrier.", "deadlock", "spins: flag",
            "",
            [](bool broken) {
              DeviceBuffer<unsigned> flag(1);
              flag.zero();
              DeviceBuffer<float> out(2 * kWarp);
              launch(broken ? spins_before_the_barrier<true> : spins_before_the_barrier<false>,
                     {{1}, {2 * kWarp}}, flag.data(), out.data());
              device_synchronize();
            }},
           "reading a flag again and again"},
          {{"early_without_wait", "A kernel does not wait for the previous one.", "race",
            "early: read", "early: written",
            [](bool broken) {
              launch_early(previous_kernel, broken ? early_kernel<true> : early_kernel<false>);
            }}},
      });
}

}  // namespace fa::FA_TARGET
