// Softmax of rows: a warp for each row, by cooperative groups.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include <cfloat>

#include "../arrays.cuh"

using namespace cooperative_groups;
namespace cg = cooperative_groups;

struct MaxOp {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

__global__ void softmax(const float *__restrict__ in, float *__restrict__ out, int rows, int cols) {
  thread_block block = this_thread_block();
  thread_block_tile<32> warp = tiled_partition<32>(block);
  int row = blockIdx.x * warp.meta_group_size() + warp.meta_group_rank();
  if (row >= rows) return;
  const float *x = in + row * cols;
  float m = -FLT_MAX;
  for (int c = warp.thread_rank(); c < cols; c += warp.size()) m = max(m, x[c]);
  m = cg::reduce(warp, m, MaxOp{});
  float sum = 0.0f;
  for (int c = warp.thread_rank(); c < cols; c += warp.size()) sum += __expf(x[c] - m);
  sum = cg::reduce(warp, sum, cg::plus<float>{});
  for (int c = warp.thread_rank(); c < cols; c += warp.size())
    __stcs(out + row * cols + c, __fdividef(__expf(__ldcs(x + c) - m), sum));
}

// The same by one block for each row, and tiles of 16.
__global__ void softmaxBlock(const float *in, float *out, int cols) {
  __shared__ float shared[2 * 8];
  auto block = cg::this_thread_block();
  auto tile = cg::tiled_partition<16>(block);
  const float *x = in + blockIdx.x * cols;
  float v = threadIdx.x < cols ? x[threadIdx.x] : -INFINITY;
  float m = v;
  for (int i = tile.size() / 2; i > 0; i /= 2) m = fmaxf(m, tile.shfl_xor(m, i));
  if (tile.thread_rank() == 0) shared[tile.meta_group_rank()] = m;
  block.sync();
  for (int i = 0; i < tile.meta_group_size(); ++i) m = fmaxf(m, shared[i]);
  float e = threadIdx.x < cols ? expf(v - m) : 0.0f, s = e;
  for (int i = tile.size() / 2; i > 0; i /= 2) s += tile.shfl_down(s, i);
  if (tile.thread_rank() == 0) shared[8 + tile.meta_group_rank()] = s;
  cg::sync(block);
  s = 0;
  for (int i = 0; i < tile.meta_group_size(); ++i) s += shared[8 + i];
  if (threadIdx.x < cols) out[blockIdx.x * cols + threadIdx.x] = e / s;
}

int main() {
  const int rows = 13, cols = 100;
  const auto x = numbers(rows * cols, [](int i) { return sinf(i * 0.7f) * 5; });
  float *dx = on_device(x);
  const auto want = [&](int i) {
    double sum = 0;
    for (int c = 0; c < cols; ++c) sum += exp(x[i / cols * cols + c] - x[i]);
    return 1 / sum;
  };
  int failures = 0;
  for (int which = 0; which < 2; ++which) {
    float *dy = on_device(std::vector<float>(rows * cols));
    if (which == 0) softmax<<<(rows + 3) / 4, 128>>>(dx, dy, rows, cols);
    if (which == 1) softmaxBlock<<<rows, 128>>>(dx, dy, cols);
    failures += check(dy, rows * cols, want, 1e-5);
  }
  return failures;
}
