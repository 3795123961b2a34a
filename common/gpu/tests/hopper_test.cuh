// What kernels for Hopper are written with. Compiled for the lab, for the watched lab, which must
// find nothing, and for the GPU: where all pass, all agree. Where a GPU, or its code, is of another
// architecture, they are skipped.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "common/gpu/hopper.cuh"
#include "common/gpu/tensor_map.cuh"
#include "common/tensor/random.hpp"
#include "common/tensor/tensor.hpp"
#include "common/testing/process.hpp"
#include "common/testing/skip.hpp"

// What stands at the beginning of each test; leaves it where there is nothing to test.
#ifndef FA_EACH_TEST
#define FA_EACH_TEST FA_SKIP_WHERE_MISSING(device_properties(), kNeedsHopper)
#endif

namespace fa::FA_TARGET {
namespace {

using testing::contains;
using testing::message_of;

template <class H, class T>
std::vector<H> bits_of(const DeviceBuffer<T>& buffer) {
  std::vector<H> result(static_cast<std::size_t>(buffer.count()));
  buffer.download(result.data());
  return result;
}

template <class T>
std::vector<T> values(const DeviceBuffer<T>& buffer) {
  return bits_of<T>(buffer);
}

// Whole numbers from -4 to 4, whose products and sums are exact in all types.
Tensor<float, 2> small_numbers(std::int64_t rows, std::int64_t cols,
                               std::uint64_t seed) {
  Tensor<float, 2> result({rows, cols});
  fill_with(result.view(), [=](std::uint64_t i) {
    return static_cast<double>(random_bits(seed, i) % 9) - 4;
  });
  return result;
}

// ---------------------------------------------------------------- products

// Where A is.
enum class Left { kRows, kColumns, kRegisters };

constexpr int kM = 2 * 64;  // two warpgroups
constexpr int kK = 64;      // four products

template <class Tile>
__device__ void fill(Tile& tile, const float* from, int ld, bool turned) {
  using T = std::remove_reference_t<decltype(tile.data[0])>;
  for (int i = static_cast<int>(threadIdx.x); i < Tile::rows * Tile::cols;
       i += static_cast<int>(blockDim.x)) {
    const int row = i / Tile::cols, col = i % Tile::cols;
    const bool there = (turned ? row : col) < ld;
    tile.at(row, col / 8 * 8)[col % 8] = from_float<T>(
        !there ? NAN : from[turned ? col * ld + row : row * ld + col]);
  }
}

// d = A B or d += A B, A 128 x 64, B 64 x 2 sums.
template <class T, int sums, Left left, Major major_b, int panel_bytes>
__global__ void __launch_bounds__(2 * kWarpgroup)
    multiply(const float* a, const float* b, float* d, bool adds) {
  constexpr int n = 2 * sums;
  using A = std::conditional_t<left == Left::kColumns,
                               SwizzledTile<T, kK, kM, panel_bytes>,
                               SwizzledTile<T, kM, kK, panel_bytes>>;
  using B = std::conditional_t<major_b == Major::kMN,
                               SwizzledTile<T, kK, n, panel_bytes>,
                               SwizzledTile<T, n, kK, panel_bytes>>;
  A& a_smem = *dynamic_shared<A>();
  B& b_smem = *reinterpret_cast<B*>(&a_smem + 1);
  const int thread = static_cast<int>(threadIdx.x);
  const int group = thread / kWarpgroup, lane = thread % kWarp;
  const int g = lane / 4, t = lane % 4;
  const int first_row = thread / kWarp * 16;
  fill(a_smem, a, kK, left == Left::kColumns);
  // B as it is has its rows summed over; K-major it is transposed.
  if constexpr (major_b == Major::kMN) {
    fill(b_smem, b, n, false);
  } else {
    for (int i = thread; i < n * kK; i += 2 * kWarpgroup) {
      const int col = i / kK, k = i % kK;
      b_smem.at(col, k / 8 * 8)[k % 8] = from_float<T>(b[k * n + col]);
    }
  }
  fence_async_proxy();
  __syncthreads();

  const auto row_of = [&](int i) { return first_row + g + 8 * (i / 2 % 2); };
  const auto col_of = [&](int i) { return 8 * (i / 4) + 2 * t + i % 2; };
  float sum[sums];
#pragma unroll
  for (int i = 0; i < sums; ++i) {
    sum[i] = adds ? d[row_of(i) * n + col_of(i)] : NAN;
  }
  std::uint32_t frag[4][4];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* from = a + (first_row + g + 8 * (i % 2)) * kK + 16 * k +
                          8 * (i / 2) + 2 * t;
      frag[k][i] = pack2<T>(from[0], from[1]);
    }
  }
  wgmma_fence(sum, frag[0], frag[1], frag[2], frag[3]);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const auto of_b = [&] {
      if constexpr (major_b == Major::kMN) {
        return b_smem.by_columns(16 * k, 0);
      } else {
        return b_smem.by_rows(0, 16 * k);
      }
    }();
    if constexpr (left == Left::kRegisters) {
      wgmma<T>(sum, frag[k], of_b, adds || k > 0);
    } else if constexpr (left == Left::kColumns) {
      wgmma<T>(sum, a_smem.by_columns(16 * k, 64 * group), of_b,
               adds || k > 0);
    } else {
      wgmma<T>(sum, a_smem.by_rows(64 * group, 16 * k), of_b, adds || k > 0);
    }
  }
  wgmma_commit(sum, frag[0], frag[1], frag[2], frag[3]);
  wgmma_wait<0>(sum);
#pragma unroll
  for (int i = 0; i < sums; ++i) d[row_of(i) * n + col_of(i)] = sum[i];
}

template <class T, int sums, Left left, Major major_b,
          int panel_bytes = kPanelBytes>
void check_product(bool adds) {
  constexpr int n = 2 * sums;
  CAPTURE(n);
  CAPTURE(static_cast<int>(left));
  CAPTURE(static_cast<int>(major_b));
  CAPTURE(adds);
  const auto a = small_numbers(kM, kK, 1), b = small_numbers(kK, n, 2),
             c = small_numbers(kM, n, 3);
  const DeviceBuffer<float> device_a(a), device_b(b);
  DeviceBuffer<float> d(static_cast<std::int64_t>(kM) * n);
  if (adds) d.upload(c.data());
  launch(multiply<T, sums, left, major_b, panel_bytes>,
         {{1}, {2 * kWarpgroup}, 2 * (kM * kK + kK * ceil_div(n, 64) * 64)},
         device_a.data(), device_b.data(), d.data(), adds);
  const auto result = d.template tensor<float, 2>({kM, n});
  int wrong = 0;
  for (int i = 0; i < kM; ++i) {
    for (int j = 0; j < n; ++j) {
      double expected = adds ? c(i, j) : 0;
      for (int k = 0; k < kK; ++k) {
        expected += static_cast<double>(a(i, k)) * b(k, j);
      }
      // Whole numbers: any order of the sum is exact.
      wrong += !(static_cast<double>(result(i, j)) == expected);
    }
  }
  CHECK(wrong == 0);
}

template <int sums>
void check_size() {
  static_assert(wgmma_takes(sums));
  check_product<half, sums, Left::kRows, Major::kK>(false);
  check_product<bfloat16, sums, Left::kColumns, Major::kMN>(true);
  check_product<half, sums, Left::kRegisters, Major::kMN>(true);
  check_product<bfloat16, sums, Left::kRegisters, Major::kK>(false);
}

TEST_CASE("wgmma multiplies, for every number of columns") {
  FA_EACH_TEST;
  check_size<16>();
  check_size<24>();
  check_size<32>();
  check_size<40>();
  check_size<48>();
  check_size<56>();
  check_size<64>();
  check_size<72>();
  check_size<80>();
  check_size<88>();
  check_size<96>();
  check_size<128>();
}

template <class T>
void check_kinds() {
  for (const bool adds : {false, true}) {
    check_product<T, 64, Left::kRows, Major::kK>(adds);
    check_product<T, 64, Left::kRows, Major::kMN>(adds);
    check_product<T, 64, Left::kColumns, Major::kK>(adds);
    check_product<T, 64, Left::kColumns, Major::kMN>(adds);
    check_product<T, 64, Left::kRegisters, Major::kK>(adds);
    check_product<T, 64, Left::kRegisters, Major::kMN>(adds);
  }
}

TEST_CASE("wgmma multiplies both types, whichever way the operands lie") {
  FA_EACH_TEST;
  check_kinds<half>();
  check_kinds<bfloat16>();
}

TEST_CASE("wgmma takes operands in narrow panels") {
  FA_EACH_TEST;
  constexpr int narrow = kNarrowPanelBytes;
  for (const bool adds : {false, true}) {
    check_product<half, 48, Left::kRows, Major::kK, narrow>(adds);
    check_product<bfloat16, 48, Left::kRows, Major::kMN, narrow>(adds);
    check_product<bfloat16, 16, Left::kColumns, Major::kK, narrow>(adds);
    check_product<half, 32, Left::kColumns, Major::kMN, narrow>(adds);
    check_product<half, 48, Left::kRegisters, Major::kMN, narrow>(adds);
  }
}

// s = A B, o = 2 A B: the first group's sums are used while the second one and the third one, which
// goes on with the sums of the second, are in flight.
__global__ void __launch_bounds__(kWarpgroup)
    three_groups(const float* a, const float* b, float* s, float* o) {
  using Tile = SwizzledTile<half, 64, 64>;
  Tile* tiles = dynamic_shared<Tile>();
  fill(tiles[0], a, 64, false);
  fill(tiles[1], b, 64, false);
  fence_async_proxy();
  __syncthreads();
  float of_s[32], of_o[32];
  wgmma_fence(of_s);
#pragma unroll
  for (int k = 0; k < 64; k += 16) {
    wgmma<half>(of_s, tiles[0].by_rows(0, k), tiles[1].by_columns(k, 0),
                k > 0);
  }
  wgmma_commit(of_s);
  wgmma_fence(of_o);
#pragma unroll
  for (int round = 0; round < 2; ++round) {
#pragma unroll
    for (int k = 0; k < 64; k += 16) {
      wgmma<half>(of_o, tiles[0].by_rows(0, k), tiles[1].by_columns(k, 0),
                  round + k > 0);
    }
    wgmma_commit();  // its sums are not the thread's between the rounds
  }
  wgmma_wait<2>(of_s);
  const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int i = 0; i < 32; ++i) s[32 * thread + i] = of_s[i];
  wgmma_wait<0>(of_o);
#pragma unroll
  for (int i = 0; i < 32; ++i) o[32 * thread + i] = of_o[i];
}

TEST_CASE("groups of products end in order, and sums go on in the next one") {
  FA_EACH_TEST;
  const auto a = small_numbers(64, 64, 1), b = small_numbers(64, 64, 2);
  const DeviceBuffer<float> device_a(a), device_b(b);
  DeviceBuffer<float> s(64 * 64), o(64 * 64);
  launch(three_groups, {{1}, {kWarpgroup}, 4 * 64 * 64}, device_a.data(),
         device_b.data(), s.data(), o.data());
  const auto of_s = values(s), of_o = values(o);
  for (int thread = 0; thread < kWarpgroup; ++thread) {
    for (int i = 0; i < 32; ++i) {
      const int row = thread / 32 * 16 + thread % 32 / 4 + 8 * (i / 2 % 2);
      const int col = 8 * (i / 4) + 2 * (thread % 4) + i % 2;
      float expected = 0;
      for (int k = 0; k < 64; ++k) expected += a(row, k) * b(k, col);
      const auto at = static_cast<std::size_t>(32 * thread + i);
      CHECK(of_s[at] == expected);
      CHECK(of_o[at] == 2 * expected);
    }
  }
}

// ---------------------------------------------------------------- copies

// A tensor whose rows are longer than its columns, and which has room between its heads. Each
// number is random bits.
struct Strided {
  static constexpr std::int64_t batch = 2, heads = 3, rows = 37, cols = 72;
  static constexpr std::int64_t of_row = 80, of_head = 38 * of_row,
                                of_batch = 3 * of_head + 16;
  static constexpr std::int64_t count = batch * of_batch;
  std::vector<std::uint16_t> bits;
  DeviceBuffer<half> data;

  Strided() : bits(static_cast<std::size_t>(count)), data(count) {
    for (std::size_t i = 0; i < bits.size(); ++i) {
      bits[i] = static_cast<std::uint16_t>(random_bits(1, i));
    }
    data.upload(bits.data());
  }
  TensorMap map(int box_rows, int panel_bytes = kPanelBytes) const {
    return tensor_map(data.data(), {batch, heads, rows, cols},
                      {of_batch, of_head, of_row}, box_rows, panel_bytes);
  }
  static bool has(std::int64_t b, std::int64_t h, std::int64_t row,
                  std::int64_t col) {
    return b >= 0 && b < batch && h >= 0 && h < heads && row >= 0 &&
           row < rows && col >= 0 && col < cols;
  }
  static std::size_t offset(std::int64_t b, std::int64_t h, std::int64_t row,
                            std::int64_t col) {
    return static_cast<std::size_t>(b * of_batch + h * of_head +
                                    row * of_row + col);
  }
};

constexpr int kBoxRows = 16;

// Where a box begins.
struct Corner {
  int col, row, head, batch;
};

// A tile and its barrier. With static shared memory beside it, dynamic shared memory need not begin
// at a multiple of 1024 on a GPU.
template <class TileType>
struct WithBarrier {
  using Tile = TileType;
  Tile tile;
  Mbarrier full;
};
template <int panel_bytes>
using BoxTile =
    SwizzledTile<std::uint16_t, kBoxRows, panel_bytes / 2, panel_bytes>;
using TwoPanels = WithBarrier<SwizzledTile<std::uint16_t, kBoxRows, 128>>;

template <int panel_bytes>
__global__ void load_box(const __grid_constant__ TensorMap map, Corner at,
                         std::uint16_t* out) {
  using Tile = BoxTile<panel_bytes>;
  auto& [tile, full] = *dynamic_shared<WithBarrier<Tile>>();
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    prefetch_map(map);
    full.init(1);
    fence_barrier_init();
  }
  __syncthreads();
  if (thread == 0) {
    full.arrive_and_expect(Tile::bytes);
    tma_load(tile.data, map, full, at.col, at.row, at.head, at.batch,
             CacheHint::kEvictLast);
  }
  full.wait(0);
  for (int i = thread; i < kBoxRows * Tile::cols; i += 64) {
    out[i] = tile.at(i / Tile::cols, i % Tile::cols / 8 * 8)[i % 8];
  }
}

template <int panel_bytes>
void check_loaded_boxes() {
  CAPTURE(panel_bytes);
  using Tile = BoxTile<panel_bytes>;
  const Strided tensor;
  const TensorMap map = tensor.map(kBoxRows, panel_bytes);
  DeviceBuffer<std::uint16_t> out(kBoxRows * Tile::cols);
  for (const Corner& at :
       {Corner{0, 0, 0, 0}, Corner{0, 16, 2, 1}, Corner{64, 5, 1, 0},
        Corner{0, 32, 1, 1}, Corner{8, 36, 0, 1}, Corner{0, 37, 0, 0},
        Corner{-8, -3, 2, 0}, Corner{0, 0, 3, 0}, Corner{0, 0, 0, 2},
        Corner{72, 0, 0, 0}}) {
    CAPTURE(at.col);
    CAPTURE(at.row);
    out.poison();
    launch(load_box<panel_bytes>, {{1}, {64}, sizeof(WithBarrier<Tile>)}, map,
           at, out.data());
    const auto result = values(out);
    int wrong = 0;
    for (int i = 0; i < kBoxRows * Tile::cols; ++i) {
      const int row = at.row + i / Tile::cols, col = at.col + i % Tile::cols;
      const std::uint16_t expected =
          Strided::has(at.batch, at.head, row, col)
              ? tensor.bits[Strided::offset(at.batch, at.head, row, col)]
              : std::uint16_t{0};
      wrong += result[static_cast<std::size_t>(i)] != expected;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("tma_load takes a box, swizzled, with zeros outside the tensor") {
  FA_EACH_TEST;
  check_loaded_boxes<kPanelBytes>();
  check_loaded_boxes<kNarrowPanelBytes>();
}

template <int panel_bytes>
__global__ void store_box(const __grid_constant__ TensorMap map, Corner at) {
  using Tile = BoxTile<panel_bytes>;
  Tile& tile = *dynamic_shared<Tile>();
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < kBoxRows * Tile::cols; i += 64) {
    tile.at(i / Tile::cols, i % Tile::cols / 8 * 8)[i % 8] =
        static_cast<std::uint16_t>(i);
  }
  fence_async_proxy();
  __syncthreads();
  if (thread == 0) {
    tma_store(map, tile.data, at.col, at.row, at.head, at.batch);
    bulk_commit();
    bulk_wait_read<0>();
  }
}

template <int panel_bytes>
void check_stored_boxes() {
  CAPTURE(panel_bytes);
  using Tile = BoxTile<panel_bytes>;
  Strided tensor;
  const TensorMap map = tensor.map(kBoxRows, panel_bytes);
  for (const Corner& at :
       {Corner{0, 0, 0, 0}, Corner{64, 30, 2, 1}, Corner{0, 21, 1, 0},
        Corner{0, 37, 2, 1}, Corner{72, 0, 0, 0}, Corner{0, 0, 3, 0}}) {
    CAPTURE(at.col);
    CAPTURE(at.row);
    tensor.data.poison();
    launch(store_box<panel_bytes>, {{1}, {64}, Tile::bytes}, map, at);
    auto expected = tensor.bits;
    std::fill(expected.begin(), expected.end(), std::uint16_t{0xffff});
    for (int i = 0; i < kBoxRows * Tile::cols; ++i) {
      const int row = at.row + i / Tile::cols, col = at.col + i % Tile::cols;
      if (!Strided::has(at.batch, at.head, row, col)) continue;
      expected[Strided::offset(at.batch, at.head, row, col)] =
          static_cast<std::uint16_t>(i);
    }
    CHECK((bits_of<std::uint16_t>(tensor.data) == expected));
  }
}

TEST_CASE("tma_store writes what of a box is in the tensor, and no more") {
  FA_EACH_TEST;
  check_stored_boxes<kPanelBytes>();
  check_stored_boxes<kNarrowPanelBytes>();
}

// A tile of two panels from one place to another.
__global__ void move_tile(const __grid_constant__ TensorMap from,
                          const __grid_constant__ TensorMap to, int row,
                          int head, int batch) {
  auto& [tile, full] = *dynamic_shared<TwoPanels>();
  if (threadIdx.x != 0) return;
  full.init(1);
  fence_barrier_init();
  full.arrive_and_expect(TwoPanels::Tile::bytes);
  load_tile(tile, from, full, row, head, batch, CacheHint::kEvictFirst);
  full.wait(0);
  store_tile(to, tile, row, head, batch);
  bulk_commit();
  bulk_wait<0>();
}

TEST_CASE("a tile of several panels is loaded and stored as a whole") {
  FA_EACH_TEST;
  const Strided from;
  Strided to;
  to.data.poison();
  launch(move_tile, {{1}, {32}, sizeof(TwoPanels)}, from.map(kBoxRows),
         to.map(kBoxRows), 30, 2, 1);
  auto expected = to.bits;
  std::fill(expected.begin(), expected.end(), std::uint16_t{0xffff});
  for (int row = 30; row < Strided::rows; ++row) {
    for (int col = 0; col < Strided::cols; ++col) {
      const std::size_t at = Strided::offset(1, 2, row, col);
      expected[at] = from.bits[at];
    }
  }
  CHECK((bits_of<std::uint16_t>(to.data) == expected));
}

// The same of a matrix.
__global__ void move_matrix_tile(const __grid_constant__ TensorMap from,
                                 const __grid_constant__ TensorMap to,
                                 int row, int col) {
  auto& [tile, full] = *dynamic_shared<TwoPanels>();
  if (threadIdx.x != 0) return;
  full.init(1);
  fence_barrier_init();
  full.arrive_and_expect(TwoPanels::Tile::bytes);
  load_tile(tile, from, full, row, col);
  full.wait(0);
  store_tile(to, tile, row, col);
  bulk_commit();
  bulk_wait<0>();
}

TEST_CASE("a tile of a matrix is named by its first row and column") {
  FA_EACH_TEST;
  constexpr int rows = 37, cols = 200, ld = 208, row0 = 24, col0 = 72;
  std::vector<std::uint16_t> bits(rows * ld), expected(bits.size(), 0xffff);
  std::iota(bits.begin(), bits.end(), std::uint16_t{1});
  for (std::size_t row = row0; row < rows; ++row) {
    for (std::size_t col = col0; col < cols; ++col) {
      expected[row * ld + col] = bits[row * ld + col];
    }
  }
  DeviceBuffer<half> from(rows * ld), to(rows * ld);
  from.upload(bits.data());
  to.poison();
  const auto map = [](const DeviceBuffer<half>& buffer) {
    return tensor_map(buffer.data(), rows, cols, ld, kBoxRows);
  };
  launch(move_matrix_tile, {{1}, {32}, sizeof(TwoPanels)}, map(from), map(to),
         row0, col0);
  CHECK((bits_of<std::uint16_t>(to) == expected));
}

__global__ void add_row(const float* in, float* out) {
  constexpr int count = 100, bytes = 4 * count;
  __shared__ __align__(16) float row[count];
  __shared__ __align__(16) float twice[count];
  __shared__ Mbarrier full;
  if (threadIdx.x == 0) {
    full.init(1);
    fence_barrier_init();
    full.arrive_and_expect(bytes);
    bulk_load(row, in + count * blockIdx.x, bytes, full);
  }
  __syncthreads();
  full.wait(0);
  for (unsigned i = threadIdx.x; i < count; i += 32) twice[i] = 2 * row[i];
  fence_async_proxy();
  __syncthreads();
  if (threadIdx.x == 0) {
    bulk_add(out, row, bytes);
    bulk_commit();
    bulk_add(out, twice, bytes);
    bulk_commit();
    bulk_wait_read<1>();
    bulk_wait<0>();
  }
}

TEST_CASE("bulk_add adds the rows of all blocks") {
  FA_EACH_TEST;
  const auto in = small_numbers(20, 100, 1);
  const DeviceBuffer<float> device_in(in);
  DeviceBuffer<float> out(100);
  out.zero();
  launch(add_row, {{20}, {32}}, device_in.data(), out.data());
  const auto result = values(out);
  for (int i = 0; i < 100; ++i) {
    float expected = 0;
    for (int row = 0; row < 20; ++row) expected += 3 * in(row, i);
    CHECK(result[static_cast<std::size_t>(i)] == expected);
  }
}

// ---------------------------------------------------------------- barriers

template <int stages>
struct Ring {
  using Tile = SwizzledTile<std::uint16_t, 8, 64>;
  Tile tiles[stages];
  Pipeline<stages> pipe;
};

// One thread brings tiles of 8 x 64 numbers, four warps take them.
template <int stages>
__global__ void __launch_bounds__(kWarpgroup + kWarp)
    pipelined_copy(const __grid_constant__ TensorMap map, std::uint16_t* out,
                   int tiles) {
  using Tile = typename Ring<stages>::Tile;
  auto& [ring, pipe] = *dynamic_shared<Ring<stages>>();
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    pipe.init(kWarpgroup);
    fence_barrier_init();
  }
  __syncthreads();
  PipelineState<stages> at;
  if (thread >= kWarpgroup) {
    if (thread > kWarpgroup) return;
    for (int i = 0; i < tiles; ++i) {
      load_tile(ring[at.stage], map, pipe.producer_acquire(at, Tile::bytes),
                8 * i, 0);
      at.advance();
    }
    return;
  }
  for (int i = 0; i < tiles; ++i) {
    pipe.consumer_wait(at);
    for (int e = thread; e < 8 * 64; e += kWarpgroup) {
      out[512 * i + e] = ring[at.stage].at(e / 64, e % 64 / 8 * 8)[e % 8];
    }
    pipe.consumer_release(at);
    at.advance();
  }
}

template <int stages>
void check_pipeline() {
  CAPTURE(stages);
  for (const int tiles : {1, 2, 3, 7, 12}) {
    CAPTURE(tiles);
    const std::int64_t rows = 8 * tiles;
    std::vector<std::uint16_t> bits(static_cast<std::size_t>(rows * 64));
    std::iota(bits.begin(), bits.end(), std::uint16_t{1});
    DeviceBuffer<half> in(rows * 64);
    in.upload(bits.data());
    DeviceBuffer<std::uint16_t> out(rows * 64);
    const TensorMap map = tensor_map(in.data(), rows, 64, 64, 8);
    launch(pipelined_copy<stages>,
           {{1}, {kWarpgroup + kWarp}, sizeof(Ring<stages>)}, map, out.data(),
           tiles);
    CHECK((values(out) == bits));
  }
}

TEST_CASE("a pipeline goes round its ring, with every number of stages") {
  FA_EACH_TEST;
  check_pipeline<1>();
  check_pipeline<2>();
  check_pipeline<3>();
}

// Two warpgroups take turns, and write down who had one.
__global__ void __launch_bounds__(2 * kWarpgroup)
    take_turns(int* turns, int rounds) {
  __shared__ int count;
  const int thread = static_cast<int>(threadIdx.x);
  const int own = thread / kWarpgroup, other = 1 - own;
  if (thread == 0) count = 0;
  __syncthreads();
  if (own == 1) named_barrier_arrive(1 + other, 2 * kWarpgroup);
  for (int i = 0; i < rounds; ++i) {
    named_barrier_wait(1 + own, 2 * kWarpgroup);
    if (thread % kWarpgroup == 0) turns[count++] = own;
    if (own == 0 || i + 1 < rounds) {
      named_barrier_arrive(1 + other, 2 * kWarpgroup);
    }
  }
}

TEST_CASE("two warpgroups take turns at named barriers") {
  FA_EACH_TEST;
  DeviceBuffer<int> turns(20);
  launch(take_turns, {{1}, {2 * kWarpgroup}}, turns.data(), 10);
  const auto result = values(turns);
  for (std::size_t i = 0; i < result.size(); ++i) {
    CHECK(result[i] == static_cast<int>(i % 2));
  }
}

// A warpgroup leaves registers to two others.
__global__ void __launch_bounds__(3 * kWarpgroup, 1)
    move_registers(int* out) {
  if (threadIdx.x < kWarpgroup) {
    setmaxnreg_dec<40>();
  } else {
    setmaxnreg_inc<232>();
  }
  out[threadIdx.x] = static_cast<int>(threadIdx.x);
}

TEST_CASE("registers move from one warpgroup to others") {
  FA_EACH_TEST;
  DeviceBuffer<int> out(3 * kWarpgroup);
  launch(move_registers, {{1}, {3 * kWarpgroup}}, out.data());
  const auto result = values(out);
  for (std::size_t i = 0; i < result.size(); ++i) {
    CHECK(result[i] == static_cast<int>(i));
  }
}

TEST_CASE("what a launch takes is noted, with what its warps ask for") {
  FA_EACH_TEST;
  DeviceBuffer<int> out(3 * kWarpgroup);
  const auto takes = resources_of([&] {
    launch(move_registers, {{1}, {3 * kWarpgroup}, 2048, 3}, out.data());
    launch(take_turns, {{1}, {2 * kWarpgroup}}, out.data(), 1);
  });
  launch(take_turns, {{1}, {2 * kWarpgroup}}, out.data(), 1);  // not noted
  REQUIRE(takes.size() == 2);
  CHECK(takes[0].threads == 3 * kWarpgroup);
  CHECK(takes[1].threads == 2 * kWarpgroup);
  CHECK(takes[0].shared_bytes >= 2048);
  CHECK(takes[0].stages == 3);
  CHECK(takes[1].stages == 0);
  CHECK(takes[1].asked_registers.empty());
  if (device_properties().compute_capability == 0) {  // the lab
    std::vector<int> asked(4, 40);
    asked.resize(12, 232);
    CHECK(takes[0].asked_registers == asked);
    CHECK(takes[0].registers == 0);
  } else {
    CHECK(takes[0].asked_registers.empty());
    CHECK(takes[0].registers > 0);
    CHECK(takes[0].blocks == 1);
  }
}

// ---------------------------------------------------------------- clusters

// Each block of a cluster of four writes to the next one's shared memory, by stores and by a copy,
// and reads the one before.
__global__ void pass_round(int* out) {
  struct Shared {
    int stored[32];
    __align__(16) int sent[32], copied[32];
    Mbarrier full;
  };
  auto& shared = *dynamic_shared<Shared>();
  const int lane = static_cast<int>(threadIdx.x), rank = cluster_rank();
  const int next = (rank + 1) % 4, before = (rank + 3) % 4;
  if (lane == 0) {
    shared.full.init(1);
    fence_barrier_init();
  }
  shared.sent[lane] = 100 * rank + lane;
  fence_async_proxy();
  cluster_arrive();
  cluster_wait();
  *peer_shared(&shared.stored[lane], next) = 1000 * rank + lane;
  if (lane == 0) {
    shared.full.arrive_and_expect(sizeof shared.sent);
    bulk_copy_to_peer(shared.copied, shared.sent, sizeof shared.sent,
                      shared.full, next);
  }
  shared.full.wait(0);
  cluster_arrive();
  cluster_wait();  // all threads have stored
  int* const to = out + 4 * 32 * static_cast<int>(blockIdx.x);
  to[lane] = shared.stored[lane];
  to[32 + lane] = shared.copied[lane];
  to[64 + lane] = *peer_shared(&shared.sent[lane], before);
  to[96 + lane] = rank;
  cluster_arrive();
  cluster_wait();  // no block ends while another one reads its memory
}

TEST_CASE("blocks of a cluster use each other's shared memory") {
  FA_EACH_TEST;
  DeviceBuffer<int> out(8 * 4 * 32);
  launch(pass_round, {{8}, {32}, 1024, 0, false, 4}, out.data());
  const auto result = values(out);
  for (int block = 0; block < 8; ++block) {
    const int before = (block + 3) % 4;
    for (int lane = 0; lane < 32; ++lane) {
      const auto at = static_cast<std::size_t>(4 * 32 * block + lane);
      CHECK(result[at] == 1000 * before + lane);
      CHECK(result[at + 32] == 100 * before + lane);
      CHECK(result[at + 64] == 100 * before + lane);
      CHECK(result[at + 96] == block % 4);
    }
  }
}

struct SharedRing {
  using Tile = SwizzledTile<std::uint16_t, 16, 64>;
  Tile tiles[2];
  Pipeline<2> pipe;
};

// Both blocks of a cluster get both halves of a tile: each loads one. They go round a ring of two
// stages, which both must have released.
__global__ void share_tiles(const __grid_constant__ TensorMap map,
                            std::uint16_t* out, int tiles) {
  auto& [stages, pipe] = *dynamic_shared<SharedRing>();
  const int thread = static_cast<int>(threadIdx.x), rank = cluster_rank();
  if (thread == 0) {
    pipe.init(2 * kWarpgroup);
    fence_barrier_init();
  }
  cluster_arrive();
  cluster_wait();
  PipelineState<2> at;
  if (thread == kWarpgroup) {
    for (int i = 0; i < tiles; ++i, at.advance()) {
      tma_load_multicast(stages[at.stage].at(8 * rank, 0), map,
                         pipe.producer_acquire(at, SharedRing::Tile::bytes),
                         0, 16 * i + 8 * rank, 3);
    }
  } else if (thread < kWarpgroup) {
    std::uint16_t* const to = out + 1024 * tiles * rank;
    for (int i = 0; i < tiles; ++i, at.advance()) {
      pipe.consumer_wait(at);
      for (int e = thread; e < 1024; e += kWarpgroup) {
        to[1024 * i + e] = stages[at.stage].at(e / 64, e % 64 / 8 * 8)[e % 8];
      }
      for (int peer = 0; peer < 2; ++peer) {
        pipe.empty[at.stage].arrive_at_peer(peer);
      }
    }
  }
  cluster_arrive();
  cluster_wait();
}

TEST_CASE("a copy to both blocks of a cluster") {
  FA_EACH_TEST;
  for (const int tiles : {1, 2, 3, 8}) {
    CAPTURE(tiles);
    const std::int64_t rows = 16 * tiles;
    std::vector<std::uint16_t> bits(static_cast<std::size_t>(rows * 64));
    std::iota(bits.begin(), bits.end(), std::uint16_t{1});
    DeviceBuffer<half> in(rows * 64);
    in.upload(bits.data());
    DeviceBuffer<std::uint16_t> out(2 * rows * 64);
    const TensorMap map = tensor_map(in.data(), rows, 64, 64, 8);
    launch(share_tiles,
           {{2}, {kWarpgroup + kWarp}, sizeof(SharedRing), 2, false, 2}, map,
           out.data(), tiles);
    auto expected = bits;
    expected.insert(expected.end(), bits.begin(), bits.end());
    CHECK((values(out) == expected));
  }
}

TEST_CASE("clusters that cannot be launched are refused in one sentence") {
  FA_EACH_TEST;
  DeviceBuffer<int> out(1024);
  const auto refusal = [&](unsigned blocks, unsigned threads, int cluster) {
    return message_of<std::invalid_argument>([&] {
      launch(pass_round, {{blocks}, {threads}, 1024, 0, false, cluster},
             out.data());
    });
  };
  CHECK(contains(refusal(6, 32, 4), "clusters of 4 blocks of 32 threads"));
  CHECK(contains(refusal(6, 32, 4), "in a grid of 6 blocks in x"));
  CHECK(contains(refusal(16, 32, 16), "allowed are 1 to 8 blocks"));
  CHECK(contains(refusal(4, 33, 4), "of whole warps"));
  CHECK(contains(refusal(4, 32, 0), "clusters of 0 blocks"));
}

// ---------------------------------------------------------------- stmatrix

__global__ void matrices_and_back(std::uint16_t* out) {
  __shared__ __align__(16) std::uint16_t matrices[3][4][8][8];
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < 256; i += 32) {
    matrices[0][i / 64][i / 8 % 8][i % 8] =
        static_cast<std::uint16_t>(1000 + i);
  }
  __syncwarp();
  std::uint32_t straight[4], transposed[4];
  ldmatrix_x4(straight, &matrices[0][lane / 8][lane % 8][0]);
  ldmatrix_x4_transposed(transposed, &matrices[0][lane / 8][lane % 8][0]);
  stmatrix_x4(&matrices[1][lane / 8][lane % 8][0], straight);
  stmatrix_x4_transposed(&matrices[2][lane / 8][lane % 8][0], transposed);
  __syncwarp();
  for (int i = lane; i < 512; i += 32) {
    out[i] = matrices[1 + i / 256][i / 64 % 4][i / 8 % 8][i % 8];
  }
}

TEST_CASE("stmatrix puts back what ldmatrix has taken") {
  FA_EACH_TEST;
  DeviceBuffer<std::uint16_t> out(512);
  launch(matrices_and_back, {{1}, {32}}, out.data());
  const auto result = values(out);
  for (std::size_t i = 0; i < result.size(); ++i) {
    CHECK(result[i] == 1000 + i % 256);
  }
}

// ---------------------------------------------------------------- the host's part

TEST_CASE("what TMA does not take is refused in one sentence") {
  FA_EACH_TEST;
  using E = std::invalid_argument;
  DeviceBuffer<half> data(1024);
  const auto refusal = [&](std::int64_t offset, std::int64_t row_stride,
                           std::int64_t rows, int box_rows) {
    return message_of<E>([&] {
      (void)tensor_map(data.data() + offset, {1, 1, rows, 64},
                       {0, 0, row_stride}, box_rows);
    });
  };
  CHECK(contains(refusal(0, 64, 0, 8), "a tensor 1 x 1 x 0 x 64 for TMA"));
  CHECK(contains(refusal(0, 64, 16, 257), "a box of 257 rows for TMA"));
  CHECK(contains(refusal(1, 64, 16, 8), "not a multiple of 16"));
  CHECK(contains(refusal(0, 60, 16, 8), "rows 60 elements apart for TMA"));
}

}  // namespace
}  // namespace fa::FA_TARGET
