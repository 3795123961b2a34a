#if defined(FA_STUDENT)
#include "common/gpu/kernel.cuh"

namespace fa::FA_TARGET {

/// Rows and columns that a block transposes.
constexpr int kTransposeTile = 32;
/// Threads of a block in y: each thread moves kTransposeTile / kTransposeRows elements.
constexpr int kTransposeRows = 8;

/// out[x][y] = in[y][x], both row-major.
/// Launched with blocks of 32 x 8 threads and a grid of the tiles of `in`, columns in x.
/// @param in  [rows, cols]
/// @param out [cols, rows]
__global__ void transpose_tiles(const float* in, float* out, int rows, int cols) {
#ifdef FA_SOLUTION
  __shared__ float tile[kTransposeTile][kTransposeTile + 1];
  const int x = blockIdx.x * kTransposeTile + threadIdx.x;
  const int y = blockIdx.y * kTransposeTile;
  for (int r = threadIdx.y; r < kTransposeTile; r += kTransposeRows) {
    if (x < cols && y + r < rows) {
      tile[r][threadIdx.x] = in[std::int64_t{y + r} * cols + x];
    }
  }
  __syncthreads();  // the tile is complete
  const int out_x = blockIdx.y * kTransposeTile + threadIdx.x;
  const int out_y = blockIdx.x * kTransposeTile;
  for (int r = threadIdx.y; r < kTransposeTile; r += kTransposeRows) {
    if (out_x < rows && out_y + r < cols) {
      out[std::int64_t{out_y + r} * rows + out_x] = tile[threadIdx.x][r];
    }
  }
#else
  // TODO: a tile in shared memory, four elements for each thread, barrier, four elements again.
  (void)in, (void)out, (void)rows, (void)cols;
#endif
}

}  // namespace fa::FA_TARGET
#elif defined(FA_ENTRIES)
FA_ENTRY(transpose, [](const std::vector<float>& matrix, int rows, int cols) {
  constexpr int tile = 32;
  return watched([&] {
    const auto in = on_device(matrix);
    DeviceBuffer<float> out(std::int64_t{rows} * cols);
    launch(
        transpose_tiles,
        {{static_cast<unsigned>(ceil_div(cols, tile)), static_cast<unsigned>(ceil_div(rows, tile))},
         {tile, 8}},
        in.data(), out.data(), rows, cols);
    return from_device(out);
  });
});
// The tile of a large matrix whose first element is (y0, x0), transposed; rows below it there are
// none. Of `in` only these rows exist, of `out` as many.
FA_ENTRY(far_tile, [](const std::vector<float>& tile, int rows, int cols, int x0, int y0) {
  constexpr int side = 32;
  const int height = rows - y0;
  std::vector<float> matrix(static_cast<std::size_t>(height) * cols);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < side; ++x) {
      matrix[static_cast<std::size_t>(y) * cols + x0 + x] =
          tile[static_cast<std::size_t>(y * side + x)];
    }
  }
  const auto in = on_device(matrix);
  DeviceBuffer<float> out(std::int64_t{side} * rows);
  launch(far_blocks<transpose_tiles, const float*, float*, int, int>, {{1}, {side, 8}},
         fa::Size(static_cast<unsigned>(x0 / side), static_cast<unsigned>(y0 / side)),
         fa::Size(static_cast<unsigned>(ceil_div(cols, side)),
                  static_cast<unsigned>(ceil_div(rows, side))),
         in.data() - std::int64_t{y0} * cols, out.data() - std::int64_t{x0} * rows, rows, cols);
  const std::vector<double> all = from_device(out);
  std::vector<double> result;
  for (int x = 0; x < side; ++x) {
    for (int y = 0; y < height; ++y) {
      result.push_back(all[static_cast<std::size_t>(x) * rows + y0 + y]);
    }
  }
  return result;
});
#elif defined(FA_GRADER)
#include "common/classroom/lab.hpp"

using namespace fa::classroom;

namespace {

constexpr int kTile = 32;

std::vector<float> random_matrix(int rows, int cols) {
  return random_floats(std::int64_t{rows} * cols, 7);
}
Seen run(int rows, int cols) {
  return call<Launched>("transpose", random_matrix(rows, cols), rows, cols).seen;
}

const std::vector<Reason> kReasons = {
    {"barrier",
     "a barrier is missing for some threads of the block: all must come to it, also those outside "
     "of the matrix"},
    {"out of bounds", "it reads or writes beside the matrix: where is the guard of the tail?"},
    {"unwritten",
     "a barrier is missing between writing the tile and reading it, or the guard of the second "
     "half lets threads through for which the tile has nothing: the sizes of out are those of in, "
     "swapped"}};

void grade(int rows, int cols) {
  const std::vector<float> in = random_matrix(rows, cols);
  const auto c = call<Launched>("transpose", in, rows, cols);
  // in[y][x] at these distances from column to column and from row to row.
  const auto placed = [&](std::int64_t of_x, std::int64_t of_y) {
    std::vector<double> result(in.size(), NAN);
    for (std::int64_t i = 0; i < std::int64_t{rows} * cols; ++i) {
      const std::int64_t place = i % cols * of_x + i / cols * of_y;
      if (place < std::int64_t{rows} * cols) result[place] = in[i];
    }
    return result;
  };
  check_result(c.seen, kReasons, {"out", c.out, rows}, placed(rows, 1), 0,
               {{"the matrix is copied and not transposed", placed(1, cols)},
                {"a row of out has rows elements, not cols", placed(cols, 1)}},
               fmt::format("{} rows, {} columns", rows, cols));
}

}  // namespace

FA_STAGE(easy) {
  grade(64, 64);
  grade(96, 96);
}

FA_STAGE(odd) {
  grade(31, 31);  // what leaves it stays where the lab can see it
  grade(31, 33);
  grade(33, 65);
  grade(1, 100);
}

FA_STAGE(races) {
  require_no_races(run(64, 64));
  require_no_races(run(33, 65));
}

FA_STAGE(traffic) {
  const Seen seen = run(64, 64);
  needs_watching(seen);
  const std::int64_t least = 2 * 64 * 64 / 8;  // read and written, 8 a sector
  note("wavefronts of shared memory", seen.wavefronts);
  budget("sectors of global memory", seen.sectors, least, "do neighbouring lanes write neighbours?",
         least);
  require(seen.wavefronts <= seen.ideal,
          fmt::format("bank conflicts: {} wavefronts of shared memory, and {} without conflicts. A "
                      "column of an unpadded tile lies in one bank",
                      seen.wavefronts, seen.ideal));
}

FA_STAGE(large) {
  // One tile of a matrix with more than 2^32 elements. Only its rows exist.
  constexpr int rows = 70000, cols = 70016, x0 = 69984, y0 = 69984, height = 16;
  const std::vector<float> tile = random_floats(height * kTile, 7);
  const std::string message = fmt::format(
      "wrong in a matrix of {} x {} elements: the offset of an element does not fit into 32 bits, "
      "and int * int is a product of 32 bits",
      rows, cols);
  const auto out = call_or<std::vector<double>>(message, "far_tile", tile, rows, cols, x0, y0);
  for (int x = 0; x < kTile; ++x) {
    for (int y = 0; y < height; ++y) {
      require(out.at(x * height + y) == static_cast<double>(tile[y * kTile + x]), message);
    }
  }
}
#endif
/* Other answers, as changes of the solution
# no_barrier: the tile is read before it is there
@ easy: a barrier is missing between writing the tile and reading it
- __syncthreads();  // the tile is complete

# wrong_stride: rows of out are taken to be as long as those of in
@ odd: a row of out has rows elements
- out[std::int64_t{out_y + r} * rows + out_x] = tile[threadIdx.x][r];
+ out[std::int64_t{out_y + r} * cols + out_x] = tile[threadIdx.x][r];

# unpadded: a column of the tile lies in one bank
@ traffic: bank conflicts
- __shared__ float tile[kTransposeTile][kTransposeTile + 1];
+ __shared__ float tile[kTransposeTile][kTransposeTile];

# int_offset_in: the offset in `in` is a product of 32 bits
@ large: product of 32 bits
- tile[r][threadIdx.x] = in[std::int64_t{y + r} * cols + x];
+ tile[r][threadIdx.x] = in[(y + r) * cols + x];

# swizzle: an XOR swizzle in place of the pad
@ right
- __shared__ float tile[kTransposeTile][kTransposeTile + 1];
+  __shared__ float tile[kTransposeTile][kTransposeTile];
- tile[r][threadIdx.x] = in[std::int64_t{y + r} * cols + x];
+      tile[r][threadIdx.x ^ r] = in[std::int64_t{y + r} * cols + x];
- out[std::int64_t{out_y + r} * rows + out_x] = tile[threadIdx.x][r];
+      out[std::int64_t{out_y + r} * rows + out_x] = tile[threadIdx.x][r ^ threadIdx.x];
*/
