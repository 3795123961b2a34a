/// @file
/// Kernels with one mistake each, beside their right twins: what the watched lab, and the tools
/// that NVIDIA has for GPUs, are measured by. A line that takes part in a mistake has its name in
/// a comment at its end.
///
/// Nearly all of them end on a GPU from Volta on, where threads that have ended count as arrived at
/// a barrier. CUDA does not promise it, and barrier_in_half_a_warp did not end on an H200 under
/// compute-sanitizer: set a time limit there. Their results are undefined.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/gpu/kernel.cuh"
#include "common/gpu/launch.cuh"

namespace fa::FA_TARGET {

/// An entry of the table.
struct BrokenKernel {
  std::string name;                      ///< for the command line
  std::string wrong;                     ///< the mistake, in one sentence
  std::string kind;                      ///< lab::Finding::kind that must be found
  std::string line;                      ///< comment at the end of the line where it is found
  std::string other;                     ///< the same of the other line; empty where there is none
  std::function<void(bool broken)> run;  ///< launches it, or its right twin
};

// ---------------------------------------------------------------- barriers

/// Reverses 64 elements.
//! [reverse]
template <bool broken>
__global__ void reverse(const float* in, float* out) {
  __shared__ float tile[64];
  const unsigned i = threadIdx.x;
  tile[i] = in[i];  // reverse writes
  if (!broken) __syncthreads();
  out[i] = tile[63 - i];  // reverse reads
}
//! [reverse]

/// Each thread sums three tiles of 64 numbers. A tile must be whole before it is read.
template <bool broken>
__global__ void sum_of_tiles_too_early(const float* in, float* out) {
  __shared__ float tile[64];
  const unsigned i = threadIdx.x;
  float sum = 0;
  for (int t = 0; t < 3; ++t) {
    tile[i] = in[64 * t + i];  // early tile is filled
    if (!broken) __syncthreads();
    for (int j = 0; j < 64; ++j) sum += tile[j];  // early tile is read
    __syncthreads();
  }
  out[i] = sum;
}

/// The same. All threads must have read a tile before it is filled again.
template <bool broken>
__global__ void sum_of_tiles_too_late(const float* in, float* out) {
  __shared__ float tile[64];
  const unsigned i = threadIdx.x;
  float sum = 0;
  for (int t = 0; t < 3; ++t) {
    tile[i] = in[64 * t + i];  // late tile is filled
    __syncthreads();
    for (int j = 0; j < 64; ++j) sum += tile[j];  // late tile is read
    if (!broken) __syncthreads();
  }
  out[i] = sum;
}

/// The sum of 128 numbers, in a tree.
template <bool broken>
__global__ void tree_sum(const float* in, float* out) {
  __shared__ float part[128];
  const unsigned i = threadIdx.x;
  part[i] = in[i];
  __syncthreads();
  for (unsigned reach = 64; reach > 0; reach /= 2) {
    if (i < reach) part[i] += part[i + reach];  // tree adds
    if (!broken) __syncthreads();
  }
  if (i == 0) out[0] = part[0];
}

/// The transpose of 32 x 32 numbers.
template <bool broken>
__global__ void transpose_tile(const float* in, float* out) {
  __shared__ float tile[32][33];
  const unsigned x = threadIdx.x, y = threadIdx.y;
  tile[y][x] = in[32 * y + x];  // a row of the tile
  if (!broken) __syncthreads();
  out[32 * y + x] = tile[x][y];  // a column of the tile
}

/// One warp loads what another one stores. Both warps reach a barrier, but not the same one.
template <bool broken>
__global__ void barrier_in_two_branches(const float* in, float* out) {
  __shared__ float tile[32];
  const unsigned i = threadIdx.x;
  if (broken) {
    if (i < 32) {
      tile[i] = in[i];
      __syncthreads();  // barrier of the first branch
    } else {
      __syncthreads();  // barrier of the second branch
      out[i - 32] = tile[63 - i];
    }
  } else {
    if (i < 32) tile[i] = in[i];
    __syncthreads();
    if (i >= 32) out[i - 32] = tile[63 - i];
  }
}

/// The same with even and odd lanes of each warp, which a warp's barrier does not allow.
template <bool broken>
__global__ void barrier_in_half_a_warp(const float* in, float* out) {
  __shared__ float tile[32];
  const unsigned i = threadIdx.x, pair = i / 2;
  if (broken) {
    if (i % 2 == 0) {
      tile[pair] = in[pair];
      __syncthreads();  // barrier of even lanes
    } else {
      __syncthreads();  // barrier of odd lanes
      out[pair] = tile[31 - pair];
    }
  } else {
    if (i % 2 == 0) tile[pair] = in[pair];
    __syncthreads();
    if (i % 2 != 0) out[pair] = tile[31 - pair];
  }
}

/// Reverses n <= 64 elements. Threads without an element must arrive at the barrier, too.
template <bool broken>
__global__ void returns_before_the_barrier(const float* in, float* out, unsigned n) {
  __shared__ float tile[64];
  const unsigned i = threadIdx.x;
  if (broken && i >= n) return;
  if (i < n) tile[i] = in[i];
  __syncthreads();  // barrier not for all
  if (i < n) out[i] = tile[n - 1 - i];
}

/// Counts of the numbers 0 to 31. The bins must be empty before any thread counts.
template <bool broken>
__global__ void histogram(const int* in, int* out) {
  __shared__ int bins[32];
  const unsigned i = threadIdx.x;
  if (i < 32) bins[i] = 0;  // bins are emptied
  if (!broken) __syncthreads();
  atomicAdd(&bins[in[i]], 1);  // bins are counted in
  __syncthreads();
  if (i < 32) out[i] = bins[i];
}

/// The softmax's maximum and sum over a block: each warp has its own, and all merge them.
template <bool broken>
__global__ void merge_of_warps(const float* in, float* out) {
  __shared__ float m_smem[4], l_smem[4];
  const unsigned i = threadIdx.x, warp = i / kWarp;
  const float m_of_warp = warp_max(in[i]);
  const float l_of_warp = warp_sum(expf(in[i] - m_of_warp));
  if (i % kWarp == 0) {
    m_smem[warp] = m_of_warp;  // maximum of a warp
    l_smem[warp] = l_of_warp;  // sum of a warp
  }
  if (!broken) __syncthreads();
  float m = -INFINITY, l = 0;
  for (int w = 0; w < 4; ++w) m = fmaxf(m, m_smem[w]);  // maxima are merged
  for (int w = 0; w < 4; ++w) {
    l += l_smem[w] * expf(m_smem[w] - m);  // sums are merged
  }
  out[i] = expf(in[i] - m) / l;
}

/// A fragment for tensor cores, from rows that another warp wrote.
template <bool broken>
__global__ void fragment(const half* in, std::uint32_t* out) {
  __shared__ __align__(16) half tile[16][24];
  const unsigned i = threadIdx.x, lane = i % kWarp;
  for (unsigned j = 0; j < 4; ++j) {
    const unsigned e = 64 * j + i;
    tile[e / 16][e % 16] = in[e];  // rows of the fragment
  }
  if (!broken) __syncthreads();
  std::uint32_t r[4];
  ldmatrix_x4(r, &tile[lane % 16][lane / 16 * 8]);  // fragment is loaded
  for (unsigned m = 0; m < 4; ++m) out[4 * i + m] = r[m];
}

// ---------------------------------------------------------------- warps

/// Lanes give each other a number through shared memory. A shuffle between does not order it.
template <bool broken>
__global__ void shuffle_for_a_barrier(const float* in, float* out) {
  __shared__ float box[32];
  const unsigned lane = threadIdx.x;
  box[lane] = in[lane];  // box is filled
  const float shuffled = __shfl_xor_sync(kAllLanes, in[lane], 1);
  if (!broken) __syncwarp();
  out[lane] = shuffled + box[lane ^ 3];  // box is emptied
}

/// The sum of 64 numbers by one warp, as it was written when lanes still ran in step.
template <bool broken>
__global__ void tree_sum_in_a_warp(const float* in, float* out) {
  __shared__ float part[64];
  const unsigned lane = threadIdx.x;
  part[lane] = in[lane];
  part[lane + 32] = in[lane + 32];
  __syncwarp();
  for (unsigned reach = 32; reach > 0; reach /= 2) {
    if (lane < reach) part[lane] += part[lane + reach];  // warp's tree adds
    if (!broken) __syncwarp();
  }
  if (lane == 0) out[0] = part[0];
}

// ---------------------------------------------------------------- bounds and contents

/// A copy of n numbers.
template <bool broken>
__global__ void guard_off_by_one(const float* in, float* out, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (broken ? i <= n : i < n) {
    out[i] = in[i];  // at the edge
  }
}

/// A copy of a matrix. Blocks stand out over it to the right and below.
template <bool broken>
__global__ void no_guard_in_y(const float* in, float* out, unsigned rows, unsigned cols) {
  const unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < cols && (broken || y < rows)) {
    out[y * cols + x] = in[y * cols + x];  // below the last row
  }
}

/// The transpose of 32 x 32 numbers through dynamic shared memory, which has room for rows of 33.
template <bool broken>
__global__ void pad_leaves_memory(const float* in, float* out) {
  constexpr unsigned ld = broken ? 34 : 33;
  float* tile = dynamic_shared<float>();
  const unsigned x = threadIdx.x, y = threadIdx.y;
  tile[ld * y + x] = in[32 * y + x];  // wide rows leave
  __syncthreads();
  out[32 * y + x] = tile[ld * x + y];  // wide columns leave
}

/// The same for two matrices. The first one's tile reaches into the second one's.
//! [pad_overlaps]
template <bool broken>
__global__ void pad_overlaps(const float* a, const float* b, float* out) {
  constexpr unsigned ld = broken ? 34 : 33;
  float* a_tile = dynamic_shared<float>();
  float* b_tile = a_tile + 32 * 33;
  const unsigned x = threadIdx.x, y = threadIdx.y;
  a_tile[ld * y + x] = a[32 * y + x];  // tile that is too wide
  b_tile[33 * y + x] = b[32 * y + x];  // tile that is reached into
  __syncthreads();
  out[32 * y + x] = a_tile[ld * x + y] + b_tile[33 * x + y];
}
//! [pad_overlaps]

/// y = alpha x + beta y; where beta is 0 the old y, which may be anything, is not to be read.
template <bool broken>
__global__ void reads_its_output(const float* x, float* y, float alpha, float beta) {
  const unsigned i = threadIdx.x;
  if (broken || beta != 0) {
    y[i] = alpha * x[i] + beta * y[i];  // old output
  } else {
    y[i] = alpha * x[i];
  }
}

/// Each thread sums a tile of 64 numbers, of which n exist; the others must be 0.
template <bool broken>
__global__ void tail_of_a_tile(const float* in, float* out, unsigned n) {
  __shared__ float tile[64];
  const unsigned i = threadIdx.x;
  if (i < n) {
    tile[i] = in[i];
  } else if (!broken) {
    tile[i] = 0;
  }
  __syncthreads();
  float sum = 0;
  for (int j = 0; j < 64; ++j) sum += tile[j];  // tail is read
  out[blockIdx.x * 64 + i] = sum;
}

// ---------------------------------------------------------------- blocks

/// Counts blocks.
template <bool broken>
__global__ void blocks_add(float* sum) {
  if (threadIdx.x != 0) return;
  if (broken) {
    *sum += 1;  // plain sum
  } else {
    atomicAdd(sum, 1.0f);
  }
}

/// Counts threads. The store of 0 may follow additions of other threads.
template <bool broken>
__global__ void store_beside_atomics(float* sum) {
  if (broken && blockIdx.x == 0 && threadIdx.x == 0) {
    *sum = 0;  // plain store
  }
  atomicAdd(sum, 1.0f);  // atomic sum
}

// ---------------------------------------------------------------- asynchronous copies

/// Two groups of copies are begun; elements of the second one are needed.
/// @tparam pending groups that are not waited for; 2: no wait at all
template <int pending>
__global__ void waits_for(const float* in, float* out) {
  __shared__ __align__(16) float stage[2][128];
  const unsigned i = 4 * threadIdx.x;
  cp_async16(&stage[0][i], in + i);
  cp_async_commit();
  cp_async16(&stage[1][i], in + 128 + i);  // second copy
  cp_async_commit();
  if (pending < 2) cp_async_wait<pending>();
  __syncthreads();
  store4(out + i, load4(&stage[1][124 - i]));  // second copy is used
}

/// Reverses 64 pieces of 16 bytes. A wait is for the thread's own copies; for others' there must
/// be a barrier.
template <bool broken>
__global__ void wait_without_barrier(const float* in, float* out) {
  __shared__ __align__(16) float tile[256];
  const unsigned i = 4 * threadIdx.x;
  cp_async16(&tile[i], in + i);  // copy without a barrier
  cp_async_commit();
  cp_async_wait<0>();
  if (!broken) __syncthreads();
  store4(out + i, load4(&tile[252 - i]));  // copy of another thread
}

/// Sums tiles of 256 numbers that come through two buffers. All threads must have read a
/// buffer before the next copy to it begins.
template <bool broken>
__global__ void copy_over_a_tile_in_use(const float* in, float* out, int tiles) {
  __shared__ __align__(16) float tile[2][256];
  const unsigned i = threadIdx.x;
  const auto fetch = [&](int t) {
    if (t < tiles) {
      cp_async16(&tile[t % 2][4 * i], in + 256 * t + 4 * i);  // next tile
    }
    cp_async_commit();
  };
  float sum = 0;
  fetch(0);
  for (int t = 0; t < tiles; ++t) {
    fetch(t + 1);
    cp_async_wait<1>();
    __syncthreads();
    for (unsigned j = 0; j < 256; ++j) sum += tile[t % 2][j];  // this tile
    if (!broken) __syncthreads();
  }
  out[i] = sum;
}

// ---------------------------------------------------------------- the table

/// A broken kernel and its right twin.
#define FA_TWINS(kernel) kernel<true>, kernel<false>

/// A buffer of ones.
template <class T = float>
DeviceBuffer<T> ones(std::int64_t count) {
  const std::vector<T> values(static_cast<std::size_t>(count), static_cast<T>(1.0f));
  DeviceBuffer<T> buffer(count);
  buffer.upload(values.data());
  return buffer;
}

/// Global memory that is untouched; that of a DeviceBuffer is poisoned, which counts
/// as written for the tools of a GPU.
inline std::shared_ptr<float> untouched(std::size_t count) {
  return {static_cast<float*>(device_allocate(count * sizeof(float))), device_free};
}

/// Launches a kernel from `inputs` ones to `outputs` numbers, and waits for it.
template <class In, class Out, class... Further>
void launch_plain(void (*kernel)(const In*, Out*, Further...), const Launch& sizes,
                  std::int64_t inputs, std::int64_t outputs, Further... further) {
  const auto in = ones<In>(inputs);
  DeviceBuffer<Out> out(outputs);
  launch(kernel, sizes, in.data(), out.data(), further...);
  device_synchronize();
}

/// BrokenKernel::run of such kernels.
template <class In, class Out, class... Further>
auto launches(void (*broken)(const In*, Out*, Further...),
              void (*right)(const In*, Out*, Further...), const Launch& sizes, std::int64_t inputs,
              std::int64_t outputs, Further... further) {
  return [=](bool is_broken) {
    launch_plain(is_broken ? broken : right, sizes, inputs, outputs, further...);
  };
}

/// The same of kernels that add to one number.
inline auto launches_sum(void (*broken)(float*), void (*right)(float*)) {
  return [=](bool is_broken) {
    DeviceBuffer<float> total(1);
    total.zero();
    launch(is_broken ? broken : right, {{4}, {32}}, total.data());
    device_synchronize();
  };
}

/// All of them.
inline std::vector<BrokenKernel> broken_kernels() {
  constexpr std::size_t tile_bytes = 32 * 33 * sizeof(float);
  return {
      {"reverse", "No barrier between filling a tile and reading it.", "race", "reverse reads",
       "reverse writes", launches(FA_TWINS(reverse), {{1}, {64}}, 64, 64)},
      {"sum_of_tiles_too_early", "The first barrier of a loop over tiles is missing.", "race",
       "early tile is read", "early tile is filled",
       launches(FA_TWINS(sum_of_tiles_too_early), {{1}, {64}}, 192, 64)},
      {"sum_of_tiles_too_late", "The second barrier of a loop over tiles is missing.", "race",
       "late tile is filled", "late tile is read",
       launches(FA_TWINS(sum_of_tiles_too_late), {{1}, {64}}, 192, 64)},
      {"tree_sum", "No barrier between the levels of a tree of sums.", "race", "tree adds",
       "tree adds", launches(FA_TWINS(tree_sum), {{1}, {128}}, 128, 1)},
      {"transpose_tile", "No barrier between rows in and columns out.", "race",
       "a column of the tile", "a row of the tile",
       launches(FA_TWINS(transpose_tile), {{1}, {32, 32}}, 1024, 1024)},
      {"barrier_in_two_branches", "Two warps meet at two different barriers.", "barrier",
       "barrier of the first branch", "barrier of the second branch",
       launches(FA_TWINS(barrier_in_two_branches), {{1}, {64}}, 32, 32)},
      {"barrier_in_half_a_warp", "Lanes of one warp meet at two different barriers.", "barrier",
       "barrier of even lanes", "barrier of odd lanes",
       launches(FA_TWINS(barrier_in_half_a_warp), {{1}, {64}}, 32, 32)},
      {"returns_before_the_barrier", "Threads without work end before a barrier.", "barrier",
       "barrier not for all", "",
       launches(FA_TWINS(returns_before_the_barrier), {{1}, {64}}, 50, 50, 50u)},
      {"histogram", "No barrier between emptying bins and counting.", "race", "bins are counted in",
       "bins are emptied",
       [](bool broken) {
         std::vector<int> numbers(128);
         for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int>(7 * i % 32);
         DeviceBuffer<int> in(128), out(32);
         in.upload(numbers.data());
         launch(broken ? histogram<true> : histogram<false>, {{1}, {128}}, in.data(), out.data());
         device_synchronize();
       }},
      {"merge_of_warps", "No barrier before the maxima and sums of warps are merged.", "race",
       "maxima are merged", "maximum of a warp",
       launches(FA_TWINS(merge_of_warps), {{1}, {128}}, 128, 128)},
      {"fragment", "No barrier between filling a tile and ldmatrix.", "race", "fragment is loaded",
       "rows of the fragment", launches(FA_TWINS(fragment), {{1}, {64}}, 256, 256)},
      {"shuffle_for_a_barrier", "A shuffle where __syncwarp() is needed: it orders no memory.",
       "race", "box is emptied", "box is filled",
       launches(FA_TWINS(shuffle_for_a_barrier), {{1}, {32}}, 32, 32)},
      {"tree_sum_in_a_warp", "No __syncwarp() between the levels of a warp's tree of sums.", "race",
       "warp's tree adds", "warp's tree adds",
       launches(FA_TWINS(tree_sum_in_a_warp), {{1}, {32}}, 64, 1)},
      {"guard_off_by_one", "The guard of a copy lets one thread too many in.", "out of bounds",
       "at the edge", "", launches(FA_TWINS(guard_off_by_one), {{4}, {32}}, 100, 100, 100u)},
      {"no_guard_in_y", "A grid of two dimensions, guarded in x only.", "out of bounds",
       "below the last row", "",
       launches(FA_TWINS(no_guard_in_y), {{2, 3}, {8, 4}}, 10 * 13, 10 * 13, 10u, 13u)},
      {"pad_leaves_memory", "Rows 34 apart in dynamic shared memory for rows of 33.",
       "out of bounds", "wide rows leave", "",
       launches(FA_TWINS(pad_leaves_memory), {{1}, {32, 32}, tile_bytes}, 1024, 1024)},
      {"pad_overlaps", "Rows 34 apart reach into the next tile.", "race", "tile that is too wide",
       "tile that is reached into",
       [](bool broken) {
         const auto a = ones(1024), b = ones(1024);
         DeviceBuffer<float> out(1024);
         launch(broken ? pad_overlaps<true> : pad_overlaps<false>, {{1}, {32, 32}, 2 * tile_bytes},
                a.data(), b.data(), out.data());
         device_synchronize();
       }},
      {"reads_its_output", "An output that was never written is read, times 0.", "unwritten",
       "old output", "",
       [](bool broken) {
         const auto x = ones(32);
         const auto y = untouched(32);
         launch(broken ? reads_its_output<true> : reads_its_output<false>, {{1}, {32}}, x.data(),
                y.get(), 2, 0);
         device_synchronize();
       }},
      {"tail_of_a_tile", "The tail of a tile is summed, but never written.", "unwritten",
       "tail is read", "",
       // The second block must not see what the first one wrote.
       launches(FA_TWINS(tail_of_a_tile), {{2}, {64}}, 50, 128, 50u)},
      {"blocks_add", "Blocks add to one number without atomicAdd.", "race", "plain sum",
       "plain sum", launches_sum(FA_TWINS(blocks_add))},
      {"store_beside_atomics", "A plain store beside others' atomicAdd.", "race", "atomic sum",
       "plain store", launches_sum(FA_TWINS(store_beside_atomics))},
      {"copy_without_wait", "An asynchronous copy is not waited for.", "copy",
       "second copy is used", "second copy",
       launches(waits_for<2>, waits_for<0>, {{1}, {32}}, 256, 128)},
      {"one_wait_too_few", "The wait leaves the group that is needed pending.", "copy",
       "second copy is used", "second copy",
       launches(waits_for<1>, waits_for<0>, {{1}, {32}}, 256, 128)},
      {"wait_without_barrier", "A wait without a barrier, and then another thread's copy is read.",
       "race", "copy of another thread", "copy without a barrier",
       launches(FA_TWINS(wait_without_barrier), {{1}, {64}}, 256, 256)},
      {"copy_over_a_tile_in_use", "A copy begins while others still read what it overwrites.",
       "race", "next tile", "this tile",
       launches(FA_TWINS(copy_over_a_tile_in_use), {{1}, {64}}, 1024, 64, 4)},
  };
}

}  // namespace fa::FA_TARGET
