#if defined(FA_STUDENT)
#include "common/gpu/kernel.cuh"

namespace fa::FA_TARGET {

/// Threads of a block, and elements of a piece.
constexpr int kThreads = 8;

/// y is x with each piece of 8 elements reversed.
__global__ void reverse_pieces(const float* x, float* y, int n) {
#ifdef FA_SOLUTION
  __shared__ float tile[kThreads];
  const int t = threadIdx.x, begin = blockIdx.x * kThreads;
  const int length = n - begin < kThreads ? n - begin : kThreads;
  if (t < length) tile[t] = x[begin + t];
  __syncthreads();
  if (t < length) y[begin + t] = tile[length - 1 - t];
#else
  __shared__ float tile[kThreads];
  const int t = threadIdx.x, begin = blockIdx.x * kThreads;
  const int length = n - begin < kThreads ? n - begin : kThreads;
  // TODO: three lines, the second one a barrier.
  (void)x, (void)y, (void)tile, (void)t, (void)length;
#endif
}

}  // namespace fa::FA_TARGET
#elif defined(FA_GRADER)
#include "common/classroom/lab.hpp"

using namespace fa::classroom;

namespace {

constexpr int kPiece = 8;

PuzzleCase make(int n) {
  PuzzleCase c;
  c.puzzle.in = {random_floats(n, 1)};
  c.puzzle.out = n;
  c.puzzle.sizes = {n};
  c.puzzle.grid[0] = static_cast<unsigned>((n + kPiece - 1) / kPiece);
  c.puzzle.block[0] = kPiece;
  c.arrays = {{"x", n}, {"y", n}};
  const std::vector<float>& x = c.puzzle.in[0];
  c.right = made(n, [&](std::int64_t i) {
    const std::int64_t begin = i / kPiece * kPiece;
    const std::int64_t end = std::min<std::int64_t>(begin + kPiece, n);
    return double{x[begin + end - 1 - i]};
  });
  c.mistakes = {{"the pieces are copied and not reversed",
                 made(n, [&](std::int64_t i) { return double{x[i]}; })}};
  c.reasons = {{"barrier",
                "only some threads come to the barrier: it must not stand in a branch, and no "
                "thread may return before it"},
               {"unwritten",
                "a thread takes out what no thread has stored yet: is there a barrier between "
                "storing and taking out? In a shorter piece the last element is tile[length - 1]"},
               {"race",
                "a thread may take out an element before another one has stored it: a barrier "
                "belongs between them"}};
  c.where = fmt::format("{} elements", n);
  return c;
}

}  // namespace

FA_PLAY(easy, make(16));
FA_PLAY(odd, make(13), make(1), make(7), make(33));
FA_PLAY(races, make(16), make(13));

FA_STAGE(traffic) {
  const Played played = play_puzzle(make(32), "races");
  require(played.seen.wavefronts > 0,
          "shared memory was not used: store each element to the tile, and take another one out");
  require(
      reads(played, 0) <= 32,
      fmt::format("x was read {} times; each of its 32 elements once would do", reads(played, 0)));
}
#endif
/* Other answers, as changes of the solution
# no_barrier: taken out at once
@ easy: what no thread has stored yet
- __syncthreads();

# in_a_branch: surplus threads do not come
@ races: must not stand in a branch
- __syncthreads();
+ if (t < length) __syncthreads();

# whole_piece: the last piece is taken to be whole
@ odd: In a shorter piece
- if (t < length) y[begin + t] = tile[length - 1 - t];
+ if (t < length) y[begin + t] = tile[kThreads - 1 - t];

# no_tile: straight from global memory
@ traffic: shared memory was not used
- __shared__ float tile[kThreads];
+
- if (t < length) tile[t] = x[begin + t];
- __syncthreads();
- if (t < length) y[begin + t] = tile[length - 1 - t];
+ if (t < length) y[begin + t] = x[begin + length - 1 - t];

# padded: the whole tile is loaded, and indices from its end
@ right
- const int t = threadIdx.x, begin = blockIdx.x * kThreads;
- ...
- if (t < length) y[begin + t] = tile[length - 1 - t];
+  const int begin = blockIdx.x * kThreads, end = std::min(begin + kThreads, n), i = begin + threadIdx.x;
+  tile[threadIdx.x ^ 7] = i < n ? x[i] : 0.0f;
+  __syncthreads();
+  if (const int j = begin + end - 1 - i; i < end) y[i] = tile[7 - (j - begin)];
*/
