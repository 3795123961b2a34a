#if defined(FA_STUDENT)
#include "common/gpu/kernel.cuh"

namespace fa::FA_TARGET {

/// y[i] = x[i] times the factor of the block, for i < n.
__global__ void scale_blocks(const float* x, const float* w, float* y, int n) {
#ifdef FA_SOLUTION
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * w[blockIdx.x];
#else
  // TODO: two lines.
  (void)x, (void)w, (void)y, (void)n;
#endif
}

}  // namespace fa::FA_TARGET
#elif defined(FA_GRADER)
#include "common/classroom/lab.hpp"

using namespace fa::classroom;

namespace {

PuzzleCase make(int n, int threads) {
  PuzzleCase c;
  const int blocks = (n + threads - 1) / threads;
  c.puzzle.in = {random_floats(n, 1), random_floats(blocks, 2)};
  c.puzzle.out = n;
  c.puzzle.sizes = {n};
  c.puzzle.grid[0] = static_cast<unsigned>(blocks);
  c.puzzle.block[0] = static_cast<unsigned>(threads);
  c.arrays = {{"x", n}, {"w", blocks}, {"y", n}};
  const std::vector<float>&x = c.puzzle.in[0], &w = c.puzzle.in[1];
  c.right = made(n, [&](std::int64_t i) { return double{x[i]} * w[i / threads]; });
  c.mistakes = {{"all blocks took the factor w[0]",
                 made(n, [&](std::int64_t i) { return double{x[i]} * w[0]; })}};
  c.reasons = {{"out of bounds",
                "an index is too large: w has one element for each block, and surplus threads must "
                "do nothing"}};
  c.twice = "blocks overlap. Before block b come b * blockDim.x elements";
  c.where = fmt::format("{} elements, {} blocks of {} threads", n, blocks, threads);
  return c;
}

}  // namespace

FA_PLAY(easy, make(16, 4));
FA_PLAY(odd, make(10, 4), make(1, 4), make(29, 5), make(100, 32));
FA_PLAY(races, make(29, 5));
#endif
/* Other answers, as changes of the solution
# block_forgotten: threadIdx.x alone
@ easy: blocks overlap
- const int i = blockIdx.x * blockDim.x + threadIdx.x;
+ const int i = threadIdx.x;

# grid_size: multiplied by the number of blocks
@ odd: blocks overlap
- const int i = blockIdx.x * blockDim.x + threadIdx.x;
+ const int i = blockIdx.x * gridDim.x + threadIdx.x;

# no_guard: the last block
@ odd: surplus threads must do nothing
- if (i < n) y[i] = x[i] * w[blockIdx.x];
+ y[i] = x[i] * w[blockIdx.x];
+ (void)n;

# shared: one thread loads the factor
@ right
- const int i = blockIdx.x * blockDim.x + threadIdx.x;
- if (i < n) y[i] = x[i] * w[blockIdx.x];
+  __shared__ float factor;
+  if (threadIdx.x == 0) factor = w[blockIdx.x];
+  __syncthreads();
+  const int i = blockIdx.x * blockDim.x + threadIdx.x;
+  if (i >= n) return;
+  y[i] = factor * x[i];
*/
