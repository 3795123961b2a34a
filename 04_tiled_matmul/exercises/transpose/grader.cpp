#ifdef FA_ENTRIES  // the student's process
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
#else  // the grader
#include "common/classroom/lab.hpp"

using namespace fa::classroom;

namespace {

constexpr int kTile = 32;

struct Case : Launched {
  std::vector<float> in;
};

Case run(int rows, int cols) {
  Case result;
  result.in = random_floats(std::int64_t{rows} * cols, 7);
  static_cast<Launched&>(result) = call<Launched>("transpose", result.in, rows, cols);
  return result;
}

// in[y][x] for each place of out, by a rule.
template <class Rule>
std::vector<double> made(const Case& c, int rows, int cols, Rule rule) {
  std::vector<double> result(c.in.size(), std::numeric_limits<double>::quiet_NaN());
  for (int y = 0; y < rows; ++y) {
    for (int x = 0; x < cols; ++x) {
      const std::int64_t place = rule(y, x);
      if (place >= 0 && place < std::int64_t{rows} * cols) {
        result[static_cast<std::size_t>(place)] = c.in[static_cast<std::size_t>(y) * cols + x];
      }
    }
  }
  return result;
}

void grade(int rows, int cols, const std::vector<Reason>& reasons) {
  const Case c = run(rows, cols);
  const auto transposed = [&](int y, int x) { return std::int64_t{x} * rows + y; };
  check_result(
      c.seen, reasons, {"out", c.out, rows}, made(c, rows, cols, transposed), 0,
      {{"nothing was written", std::vector<double>(c.in.size(), NAN)},
       {"only 8 rows of each tile were moved: a block has 32 x 8 threads, and each of them moves "
        "four elements",
        made(c, rows, cols,
             [&](int y, int x) { return x % kTile < 8 ? std::int64_t{x} * rows + y : -1; })},
       {"the matrix is copied and not transposed",
        made(c, rows, cols, [&](int y, int x) { return std::int64_t{y} * cols + x; })},
       {"a row of out has rows elements, not cols",
        made(c, rows, cols, [&](int y, int x) { return std::int64_t{x} * cols + y; })}},
      fmt::format("{} rows, {} columns", rows, cols));
}

const std::vector<Reason> kWhole = {
    {"unwritten", "a barrier is missing between writing the tile and reading it"}};
const std::vector<Reason> kRagged = {
    {"barrier",
     "a barrier is missing for some threads of the block: all must come to it, also those outside "
     "of the matrix"},
    {"out of bounds", "it reads or writes beside the matrix: where is the guard of the tail?"},
    {"unwritten",
     "the guard of the second half lets threads through for which the tile has nothing: the sizes "
     "of out are those of in, swapped"}};

}  // namespace

FA_STAGE(easy) {
  grade(64, 64, kWhole);
  grade(96, 96, kWhole);
}

FA_STAGE(odd) {
  grade(31, 31, kRagged);  // what leaves it stays where the lab can see it
  grade(31, 33, kRagged);
  grade(33, 65, kRagged);
  grade(1, 100, kRagged);
}

FA_STAGE(races) {
  for (const auto& [rows, cols] : {std::pair(64, 64), std::pair(33, 65)}) {
    const Case c = run(rows, cols);
    require_no_races(c.seen);
  }
}

FA_STAGE(traffic) {
  const Case c = run(64, 64);
  needs_watching(c.seen);
  const std::int64_t least = 2 * 64 * 64 / 8;  // read and written, 8 a sector
  note("sectors of global memory", c.seen.sectors);
  note("wavefronts of shared memory", c.seen.wavefronts);
  budget("sectors of global memory", c.seen.sectors, least,
         "do neighbouring lanes write neighbours?", least);
  require(c.seen.wavefronts <= c.seen.ideal,
          fmt::format("bank conflicts: {} wavefronts of shared memory, and {} without conflicts. A "
                      "column of an unpadded tile lies in one bank",
                      c.seen.wavefronts, c.seen.ideal));
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
