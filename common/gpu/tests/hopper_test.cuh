// What kernels for Hopper are written with beside wgmma: copies, barriers, clusters. Compiled for
// the lab, for the watched lab, which must find nothing, and for the GPU: where all pass, all
// agree. Where a GPU, or its code, is of another architecture, they are skipped.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "common/gpu/hopper.cuh"
#include "common/gpu/tensor_map.cuh"
#include "common/gpu/tests/surface.cuh"

namespace fa::FA_TARGET {
namespace {

// ---------------------------------------------------------------- copies

// A tensor whose rows are longer than its columns, and which has room between its heads. Each
// number is random bits.
struct Strided {
  static constexpr std::int64_t batch = 2, heads = 3, rows = 37, cols = 72;
  static constexpr std::int64_t of_row = 80, of_head = 38 * of_row, of_batch = 3 * of_head + 16;
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
    return tensor_map(data.data(), {batch, heads, rows, cols}, {of_batch, of_head, of_row},
                      box_rows, panel_bytes);
  }
  static bool has(std::int64_t b, std::int64_t h, std::int64_t row, std::int64_t col) {
    return b >= 0 && b < batch && h >= 0 && h < heads && row >= 0 && row < rows && col >= 0 &&
           col < cols;
  }
  static std::size_t offset(std::int64_t b, std::int64_t h, std::int64_t row, std::int64_t col) {
    return static_cast<std::size_t>(b * of_batch + h * of_head + row * of_row + col);
  }
};

// 1, 2, 3 ...
std::vector<std::uint16_t> counted(std::int64_t count) {
  std::vector<std::uint16_t> bits(static_cast<std::size_t>(count));
  std::iota(bits.begin(), bits.end(), std::uint16_t{1});
  return bits;
}

constexpr int kBoxRows = 16;

// Where a box begins.
struct Corner {
  int col, row, head, batch;
};

// A tile and its barrier. With static shared memory beside it, dynamic shared memory need not begin
// at a multiple of 1024 on a GPU.
template <class Tile>
struct WithBarrier {
  Tile tile;
  Mbarrier full;
};
template <int panel_bytes>
using BoxTile = SwizzledTile<std::uint16_t, kBoxRows, panel_bytes / 2, panel_bytes>;

template <int panel_bytes>
__global__ void load_box(const __grid_constant__ TensorMap map, Corner at, std::uint16_t* out) {
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
    tma_load(tile.data, map, full, at.col, at.row, at.head, at.batch, CacheHint::kEvictLast);
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
       {Corner{0, 0, 0, 0}, Corner{0, 16, 2, 1}, Corner{64, 5, 1, 0}, Corner{0, 32, 1, 1},
        Corner{8, 36, 0, 1}, Corner{0, 37, 0, 0}, Corner{-8, -3, 2, 0}, Corner{0, 0, 3, 0},
        Corner{0, 0, 0, 2}, Corner{72, 0, 0, 0}}) {
    CAPTURE(at.col);
    CAPTURE(at.row);
    out.poison();
    launch(load_box<panel_bytes>, {{1}, {64}, sizeof(WithBarrier<Tile>)}, map, at, out.data());
    const auto result = values(out);
    std::vector<std::uint16_t> expected(result.size(), 0);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const int row = at.row + static_cast<int>(i) / Tile::cols,
                col = at.col + static_cast<int>(i) % Tile::cols;
      if (!Strided::has(at.batch, at.head, row, col)) continue;
      expected[i] = tensor.bits[Strided::offset(at.batch, at.head, row, col)];
    }
    CHECK((result == expected));
  }
}

TEST_CASE("tma_load copies a box, swizzled, with zeros outside the tensor") {
  FA_EACH_TEST;
  check_loaded_boxes<kPanelBytes>();
  check_loaded_boxes<kNarrowPanelBytes>();
}

// A tile of a head, of one or more panels, from one tensor to another.
template <class Tile>
__global__ void move_tile(const __grid_constant__ TensorMap from,
                          const __grid_constant__ TensorMap to, Corner at) {
  auto& [tile, full] = *dynamic_shared<WithBarrier<Tile>>();
  if (threadIdx.x != 0) return;
  full.init(1);
  fence_barrier_init();
  full.arrive_and_expect(Tile::bytes);
  load_tile(tile, from, full, at.row, at.head, at.batch, CacheHint::kEvictFirst, at.col);
  full.wait(0);
  store_tile(to, tile, at.row, at.head, at.batch, at.col);
  bulk_commit();
  bulk_wait_read<0>();
}

template <class Tile>
void check_moved_tiles(int panel_bytes) {
  CAPTURE(panel_bytes);
  const Strided from;
  Strided to;
  for (const Corner& at : {Corner{0, 0, 0, 0}, Corner{64, 30, 2, 1}, Corner{0, 21, 1, 0},
                           Corner{0, 37, 2, 1}, Corner{72, 0, 0, 0}, Corner{0, 0, 3, 0}}) {
    CAPTURE(at.col);
    CAPTURE(at.row);
    to.data.poison();
    launch(move_tile<Tile>, {{1}, {32}, sizeof(WithBarrier<Tile>)}, from.map(kBoxRows, panel_bytes),
           to.map(kBoxRows, panel_bytes), at);
    std::vector<std::uint16_t> expected(to.bits.size(), 0xffff);
    for (int row = at.row; row < at.row + kBoxRows; ++row) {
      for (int col = at.col; col < at.col + Tile::cols; ++col) {
        if (!Strided::has(at.batch, at.head, row, col)) continue;
        const std::size_t place = Strided::offset(at.batch, at.head, row, col);
        expected[place] = from.bits[place];
      }
    }
    CHECK((bits_of<std::uint16_t>(to.data) == expected));
  }
}

TEST_CASE("tiles of one and of two panels are stored where they are in the tensor") {
  FA_EACH_TEST;
  check_moved_tiles<BoxTile<kPanelBytes>>(kPanelBytes);
  check_moved_tiles<BoxTile<kNarrowPanelBytes>>(kNarrowPanelBytes);
  check_moved_tiles<SwizzledTile<std::uint16_t, kBoxRows, 128>>(kPanelBytes);
}

// Moves each box of a head of a packed tensor, one sequence after another.
__global__ void move_sequence(const __grid_constant__ RaggedMap from,
                              const __grid_constant__ RaggedMap to, int begin, int length) {
  using Tile = BoxTile<kPanelBytes>;
  auto& [tile, full] = *dynamic_shared<WithBarrier<Tile>>();
  if (threadIdx.x != 0) return;
  full.init(1);
  fence_barrier_init();
  int parity = 0;
  for (int row = 0; row < length + kBoxRows; row += kBoxRows, parity ^= 1) {  // one is empty
    const int at = kRaggedRows - length + row, head = blockIdx.x;
    full.arrive_and_expect(Tile::bytes);
    tma_load(tile.data, from, full, 0, at, head, begin + length, CacheHint::kEvictNormal);
    full.wait(parity);
    tma_store(to, tile.data, 0, at, head, begin + length);
    bulk_commit();
    bulk_wait<0>();
  }
}

TEST_CASE("copies with a ragged map end where a sequence ends") {
  FA_EACH_TEST;
  // Of one token the distance to the next does not matter.
  for (const int tokens : {200, 1}) {
    const int heads = 3, cols = 64, row = heads * cols;
    std::vector<std::uint16_t> bits(static_cast<std::size_t>(tokens * row));
    for (std::size_t i = 0; i < bits.size(); ++i) {
      bits[i] = static_cast<std::uint16_t>(random_bits(2, i));
    }
    DeviceBuffer<half> in(tokens * row), out(tokens * row);
    in.upload(bits.data());
    const auto map_of = [&](const DeviceBuffer<half>& of) {
      return ragged_map(of.data(), {tokens, heads, cols}, {tokens == 1 ? 1 : row, cols}, kBoxRows);
    };
    // Sequences that begin at 0, end at the last row, have whole boxes, are empty.
    for (const auto& sequence : {std::pair{0, 1}, {0, 40}, {40, 72}, {72, 72}, {90, 200}}) {
      // No structured binding: CAPTURE's lambda cannot capture one before C++20.
      const int begin = sequence.first, end = sequence.second;
      CAPTURE(begin);
      if (end > tokens) continue;
      out.poison();
      launch(move_sequence, {{heads}, {32}, sizeof(WithBarrier<BoxTile<kPanelBytes>>)}, map_of(in),
             map_of(out), begin, end - begin);
      auto expected = bits;
      std::fill(expected.begin(), expected.begin() + begin * row, std::uint16_t{0xffff});
      std::fill(expected.begin() + end * row, expected.end(), std::uint16_t{0xffff});
      CHECK((bits_of<std::uint16_t>(out) == expected));
    }
  }
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
  const auto in = small_integers(20, 100, 1);
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

// Two warpgroups alternate, and record the order.
__global__ void __launch_bounds__(2 * kWarpgroup) alternate(int* order, int rounds) {
  __shared__ int count;
  const int thread = static_cast<int>(threadIdx.x);
  const int own = thread / kWarpgroup, other = 1 - own;
  if (thread == 0) count = 0;
  __syncthreads();
  if (own == 1) named_barrier_arrive(1 + other, 2 * kWarpgroup);
  for (int i = 0; i < rounds; ++i) {
    named_barrier_wait(1 + own, 2 * kWarpgroup);
    if (thread % kWarpgroup == 0) order[count++] = own;
    if (own == 0 || i + 1 < rounds) named_barrier_arrive(1 + other, 2 * kWarpgroup);
  }
}

TEST_CASE("two warpgroups alternate at named barriers") {
  FA_EACH_TEST;
  DeviceBuffer<int> order(20);
  launch(alternate, {{1}, {2 * kWarpgroup}}, order.data(), 10);
  const auto result = values(order);
  for (std::size_t i = 0; i < result.size(); ++i) CHECK(result[i] == static_cast<int>(i % 2));
}

// A warpgroup gives registers to two others.
__global__ void __launch_bounds__(3 * kWarpgroup, 1) move_registers(int* out) {
  if (threadIdx.x < kWarpgroup) {
    setmaxnreg_dec<40>();
  } else {
    setmaxnreg_inc<232>();
  }
  out[threadIdx.x] = static_cast<int>(threadIdx.x);
}

TEST_CASE("setmaxnreg moves registers between warpgroups, and resources_of() records it") {
  FA_EACH_TEST;
  DeviceBuffer<int> out(3 * kWarpgroup);
  const auto takes = resources_of([&] {
    launch(move_registers, {{1}, {3 * kWarpgroup}, 2048, 3}, out.data());
    launch(alternate, {{1}, {2 * kWarpgroup}}, out.data(), 1);
  });
  const auto result = output_of<int>(move_registers, 3 * kWarpgroup, 3 * kWarpgroup);  // not noted
  for (std::size_t i = 0; i < result.size(); ++i) CHECK(result[i] == static_cast<int>(i));
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
    bulk_copy_to_peer(shared.copied, shared.sent, sizeof shared.sent, shared.full, next);
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
__global__ void share_tiles(const __grid_constant__ TensorMap map, std::uint16_t* out, int tiles) {
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
                         pipe.producer_acquire(at, SharedRing::Tile::bytes), 0, 16 * i + 8 * rank,
                         3);
    }
  } else if (thread < kWarpgroup) {
    std::uint16_t* const to = out + 1024 * tiles * rank;
    for (int i = 0; i < tiles; ++i, at.advance()) {
      pipe.consumer_wait(at);
      for (int e = thread; e < 1024; e += kWarpgroup) {
        to[1024 * i + e] = stages[at.stage].at(e / 64, e % 64 / 8 * 8)[e % 8];
      }
      for (int peer = 0; peer < 2; ++peer) pipe.empty[at.stage].arrive_at_peer(peer);
    }
  }
  cluster_arrive();
  cluster_wait();
}

TEST_CASE("tma_load_multicast writes to both blocks of a cluster") {
  FA_EACH_TEST;
  for (const int tiles : {1, 2, 3, 8}) {
    CAPTURE(tiles);
    const std::int64_t rows = 16 * tiles;
    const auto bits = counted(rows * 64);
    DeviceBuffer<half> in(rows * 64);
    in.upload(bits.data());
    DeviceBuffer<std::uint16_t> out(2 * rows * 64);
    const TensorMap map = tensor_map(in.data(), rows, 64, 64, 8);
    launch(share_tiles, {{2}, {kWarpgroup + kWarp}, sizeof(SharedRing), 2, false, 2}, map,
           out.data(), tiles);
    auto expected = bits;
    expected.insert(expected.end(), bits.begin(), bits.end());
    CHECK((values(out) == expected));
  }
}

TEST_CASE("a launch with an impossible cluster throws an error that names it") {
  FA_EACH_TEST;
  DeviceBuffer<int> out(1024);
  const auto refusal = [&](unsigned blocks, unsigned threads, int cluster) {
    return message_of<std::invalid_argument>([&] {
      launch(pass_round, {{blocks}, {threads}, 1024, 0, false, cluster}, out.data());
    });
  };
  CHECK(contains(refusal(6, 32, 4), "clusters of 4 blocks of 32 threads in a grid of 6"));
  CHECK(contains(refusal(16, 32, 16), "1 to 8 blocks"));
  CHECK(contains(refusal(4, 33, 4), "33 threads"));
  CHECK(contains(refusal(4, 32, 0), "clusters of 0"));
}

// ---------------------------------------------------------------- stmatrix

__global__ void matrices_and_back(std::uint16_t* out) {
  __shared__ __align__(16) std::uint16_t matrices[3][4][8][8];
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < 256; i += 32) {
    matrices[0][i / 64][i / 8 % 8][i % 8] = static_cast<std::uint16_t>(1000 + i);
  }
  __syncwarp();
  std::uint32_t straight[4], transposed[4];
  ldmatrix_x4(straight, &matrices[0][lane / 8][lane % 8][0]);
  ldmatrix_x4_transposed(transposed, &matrices[0][lane / 8][lane % 8][0]);
  stmatrix_x4(&matrices[1][lane / 8][lane % 8][0], straight);
  stmatrix_x4_transposed(&matrices[2][lane / 8][lane % 8][0], transposed);
  __syncwarp();
  for (int i = lane; i < 512; i += 32) out[i] = matrices[1 + i / 256][i / 64 % 4][i / 8 % 8][i % 8];
}

TEST_CASE("stmatrix stores what ldmatrix loads") {
  FA_EACH_TEST;
  const auto result = output_of<std::uint16_t>(matrices_and_back, 32, 512);
  for (std::size_t i = 0; i < result.size(); ++i) CHECK(result[i] == 1000 + i % 256);
}

// ---------------------------------------------------------------- the host's part

TEST_CASE("tensor_map() throws for what TMA does not support") {
  FA_EACH_TEST;
  using E = std::invalid_argument;
  DeviceBuffer<half> data(1024);
  const auto refusal = [&](std::int64_t offset, std::int64_t row_stride, std::int64_t rows,
                           int box_rows) {
    return message_of<E>([&] {
      (void)tensor_map(data.data() + offset, {1, 1, rows, 64}, {0, 0, row_stride}, box_rows);
    });
  };
  CHECK(contains(refusal(0, 64, 0, 8), "a tensor 1 x 1 x 0 x 64 for TMA"));
  CHECK(contains(refusal(0, 64, 16, 257), "a box of 257 rows for TMA"));
  CHECK(contains(refusal(1, 64, 16, 8), "not a multiple of 16"));
  CHECK(contains(refusal(0, 60, 16, 8), "rows 60 elements apart for TMA"));
}

}  // namespace
}  // namespace fa::FA_TARGET
