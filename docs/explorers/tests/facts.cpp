// explorer_facts: what the explorers' rules are compared with, as JSON. Everything is asked of the
// project's own code: the lab's banks, its instructions, the tiles and descriptors of the Hopper
// kernels.
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "06_flash_backward/kernels/11_ordered_dq.cuh"
#include "06_flash_backward/ring/layout.hpp"
#include "common/attention/hopper_tile.cuh"
#include "common/attention/mma_tile.cuh"
#include "common/gpu/hopper.cuh"
#include "common/gpu/launch.cuh"
#include "common/lab/banks.hpp"

namespace fa::FA_TARGET {
namespace {

constexpr int kRowBytes = 128;

// Where 16 bytes stand that begin at an element of a tile of 64 columns: the XOR swizzle of the
// kernels.
std::uint64_t kernel_swizzle(int row, int chunk) {
  return static_cast<std::uint64_t>(2 * swizzled<64>(row, 8 * chunk));
}

// Lane l reads element l * stride of a tile with rows of 128 bytes.
lab::Request request(int width, int stride, int pad, bool swizzle) {
  lab::Request result;
  result.lanes = 0xffffffffu;
  result.size = static_cast<std::uint32_t>(width);
  const int cols = kRowBytes / width;
  for (int lane = 0; lane < lab::kWarpSize; ++lane) {
    const int row = lane * stride / cols, col = lane * stride % cols;
    const int at = swizzle ? col ^ row % cols : col;
    auto address = static_cast<std::uint64_t>((row * (cols + pad) + at) * width);
    if (swizzle && width == 16 && pad == 0) address = kernel_swizzle(row, col);
    result.address[static_cast<std::size_t>(lane)] = address;
  }
  return result;
}

// [width, stride, pad, swizzle, wavefronts, least, words, checksum]: of round, bank and lanes of
// each word.
std::string banks() {
  std::vector<std::string> rows;
  for (const int width : {4, 8, 16}) {
    for (int stride = 0; stride <= 33; ++stride) {
      for (int pad = 0; pad <= 2; ++pad) {
        for (const bool swizzle : {false, true}) {
          const lab::Request one = request(width, stride, pad, swizzle);
          const auto served = lab::serve(one);
          std::int64_t sum = 0;
          for (const lab::Served& s : served) {
            for (int lane = 0; lane < lab::kWarpSize; ++lane) {
              if ((s.lanes >> lane & 1u) != 0) sum += (lane + 1) * (32 * s.round + s.bank() + 1);
            }
          }
          rows.push_back(fmt::format("[{},{},{},{},{},{},{},{}]", width, stride, pad,
                                     swizzle ? 1 : 0, lab::wavefronts(one),
                                     lab::best_wavefronts(one), served.size(), sum));
        }
      }
    }
  }
  return fmt::format("[\n{}]", fmt::join(rows, ",\n"));
}

// ---------------------------------------------------------------- fragments

constexpr int kThreads = kWarpgroup;

// The two halves of a register.
void unpack(std::uint32_t pair, float* to) {
  half numbers[2];
  std::memcpy(static_cast<void*>(numbers), &pair, sizeof pair);
  to[0] = to_float(numbers[0]);
  to[1] = to_float(numbers[1]);
}

// What ldmatrix brings of a matrix of 16 x 16 whose elements are their own numbers.
__global__ void load(float* straight, float* transposed) {
  __shared__ __align__(16) half tile[16 * 16];
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < 16 * 16; i += kWarp) tile[i] = from_float<half>(static_cast<float>(i));
  __syncwarp();
  const half* const row = tile + lane % 16 * 16 + lane / 16 * 8;
  std::uint32_t r[4];
  ldmatrix_x4(r, row);
  for (int i = 0; i < 4; ++i) unpack(r[i], straight + 8 * lane + 2 * i);
  ldmatrix_x4_transposed(r, row);
  for (int i = 0; i < 4; ++i) unpack(r[i], transposed + 8 * lane + 2 * i);
}

// The products of what the lanes are given with unit matrices: d holds A, with A's columns 8 n to 8
// n + 7; or B.
__global__ void mma(const float* a, const float* b, float* d, int n) {
  __shared__ __align__(16) half unit[16 * 16];
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < 16 * 16; i += kWarp)
    unit[i] = from_float<half>(i / 16 == i % 16 ? 1.0f : 0.0f);
  __syncwarp();
  float sum[4] = {};
  std::uint32_t of_a[4], of_b[4];
  if (a != nullptr) {
    for (int i = 0; i < 4; ++i) of_a[i] = pack2<half>(a[8 * lane + 2 * i], a[8 * lane + 2 * i + 1]);
    ldmatrix_x4_transposed(of_b, unit + lane % 16 * 16 + lane / 16 * 8);
    const std::uint32_t right[2] = {of_b[2 * n], of_b[2 * n + 1]};
    mma_m16n8k16<half>(sum, of_a, right);
  } else {
    ldmatrix_x4(of_a, unit + lane % 16 * 16 + lane / 16 * 8);
    const std::uint32_t right[2] = {pack2<half>(b[4 * lane], b[4 * lane + 1]),
                                    pack2<half>(b[4 * lane + 2], b[4 * lane + 3])};
    mma_m16n8k16<half>(sum, of_a, right);
  }
  for (int i = 0; i < 4; ++i) d[4 * lane + i] = sum[i];
}

// d = rows(A) of a matrix A in shared memory whose elements are `of_row` times the row and else the
// column; and A from registers that hold the numbers of the registers.
__global__ void __launch_bounds__(kThreads) multiply(float* d, int mode) {
  using Square = SwizzledTile<half, 64, 64>;
  using Flat = SwizzledTile<half, 16, 64>;
  Square& a = *dynamic_shared<Square>();
  Square& unit = *(&a + 1);
  Flat& flat = *reinterpret_cast<Flat*>(&a + 2);
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < 64 * 64; i += kThreads) {
    const int row = i / 64, col = i % 64;
    a.at(row, col / 8 * 8)[col % 8] = from_float<half>(static_cast<float>(mode == 0 ? row : col));
    unit.at(row, col / 8 * 8)[col % 8] = from_float<half>(row == col ? 1.0f : 0.0f);
    if (row < 16) flat.at(row, col / 8 * 8)[col % 8] = from_float<half>(row == col ? 1.0f : 0.0f);
  }
  fence_async_proxy();
  __syncthreads();
  float sum[32] = {};
  std::uint32_t r[4];
  for (int i = 0; i < 4; ++i) {
    const auto first = static_cast<float>(8 * thread + 2 * i);
    r[i] = pack2<half>(first, first + 1);
  }
  wgmma_fence(sum, r);
  if (mode == 2) {
    wgmma<half>(sum, r, flat.by_columns(0, 0), false);
  } else {
    for (int k = 0; k < 64; k += 16)
      wgmma<half>(sum, a.by_rows(0, k), unit.by_columns(k, 0), k > 0);
  }
  wgmma_commit(sum, r);
  wgmma_wait<0>(sum);
  for (int i = 0; i < 32; ++i) d[32 * thread + i] = sum[i];
}

std::vector<float> downloaded(const DeviceBuffer<float>& buffer) {
  std::vector<float> result(static_cast<std::size_t>(buffer.count()));
  buffer.download(result.data());
  return result;
}

std::vector<int> whole(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

// Which register a value came from, by row and column of D.
std::string owners(const std::vector<std::vector<float>>& d, const std::vector<int>& rows,
                   const std::vector<int>& cols, int n_cols, int count) {
  std::vector<int> place(static_cast<std::size_t>(count), -1);
  for (std::size_t part = 0; part < d.size(); ++part) {
    for (std::size_t i = 0; i < d[part].size(); ++i) {
      const int col = cols[i] + 8 * static_cast<int>(part);
      if (col < n_cols) place.at(static_cast<std::size_t>(d[part][i])) = rows[i] * n_cols + col;
    }
  }
  return fmt::format("[{}]", fmt::join(place, ","));
}

std::string fragments() {
  DeviceBuffer<float> straight(256), transposed(256), d(128), sums(32 * kThreads), a(256), b(128);
  launch(load, {Size(1), Size(kWarp)}, straight.data(), transposed.data());
  // D by the A that ldmatrix loads: rows and columns of the accumulators.
  const std::vector<float> loaded = downloaded(straight);
  std::vector<int> d_row, d_col;
  for (const bool of_row : {true, false}) {
    std::vector<float> values;
    for (const float id : loaded) {
      const int whole = static_cast<int>(id);
      values.push_back(static_cast<float>(of_row ? whole / 16 : whole % 16));
    }
    a.upload(values.data());
    launch(mma, {Size(1), Size(kWarp)}, a.data(), nullptr, d.data(), 0);
    (of_row ? d_row : d_col) = whole(downloaded(d));
  }
  std::vector<float> ids;
  for (int i = 0; i < 256; ++i) ids.push_back(static_cast<float>(i));
  a.upload(ids.data());
  b.upload(ids.data());
  std::vector<std::vector<float>> of_a;
  for (const int n : {0, 1}) {
    launch(mma, {Size(1), Size(kWarp)}, a.data(), nullptr, d.data(), n);
    of_a.push_back(downloaded(d));
  }
  launch(mma, {Size(1), Size(kWarp)}, nullptr, b.data(), d.data(), 0);
  const std::vector<std::vector<float>> of_b{downloaded(d)};
  const auto run = [&](int mode) {
    launch(multiply, {Size(1), Size(kThreads), 3 * sizeof(SwizzledTile<half, 64, 64>)}, sums.data(),
           mode);
    return downloaded(sums);
  };
  const std::vector<int> rows = whole(run(0)), cols = whole(run(1));
  // The probabilities of a lane as the next operand: which of its eight accumulators is where.
  float s[8];
  for (int i = 0; i < 8; ++i) s[i] = static_cast<float>(i);
  std::uint32_t p[1][4];
  round_to_operand<half>(p, reinterpret_cast<float(&)[8]>(s));
  float next[8];
  for (int i = 0; i < 4; ++i) unpack(p[0][i], next + 2 * i);
  const auto list = [](const auto& values) { return fmt::format("[{}]", fmt::join(values, ",")); };
  return fmt::format(
      "{{\"ldmatrix\": {},\n\"ldmatrix_trans\": {},\n\"mma_d_row\": {},\n\"mma_d_col\": "
      "{},\n\"mma_a\": {},\n"
      "\"mma_b\": {},\n\"wgmma_d_row\": {},\n\"wgmma_d_col\": {},\n\"wgmma_a\": {},\n\"next\": "
      "{}}}",
      list(whole(loaded)), list(whole(downloaded(transposed))), list(d_row), list(d_col),
      owners(of_a, d_row, d_col, 16, 256), owners(of_b, d_row, d_col, 8, 128), list(rows),
      list(cols), owners({run(2)}, rows, cols, 16, 8 * kThreads), list(whole({next, next + 8})));
}

// ---------------------------------------------------------------- descriptors

// Of a tile of 64 x 128 in shared memory: where each 16 bytes stand, and what descriptors say.
__global__ void describe(std::vector<std::int64_t>* at, std::vector<std::string>* by_rows,
                         std::vector<std::string>* by_columns) {
  using Tile = SwizzledTile<half, 64, 128>;
  const Tile& tile = *dynamic_shared<Tile>();
  for (int row = 0; row < 64; ++row) {
    for (int col = 0; col < 128; col += 8) {
      at->push_back(reinterpret_cast<const char*>(const_cast<Tile&>(tile).at(row, col)) -
                    reinterpret_cast<const char*>(&tile));
    }
  }
  for (int row = 0; row < 64; row += 8) {
    for (int col = 0; col < 128; col += 16) {
      by_rows->push_back(fmt::format("[{},{},\"{:x}\"]", row, col, tile.by_rows(row, col).bits()));
    }
  }
  for (int row = 0; row < 64; row += 16) {
    for (int col = 0; col < 128; col += 16) {
      by_columns->push_back(
          fmt::format("[{},{},\"{:x}\"]", row, col, tile.by_columns(row, col).bits()));
    }
  }
}

// What wgmma reads of shared memory with a descriptor of B: the product of a unit matrix, 16 x 16
// of it, and B. The elements of shared memory are their own numbers, without the multiples of 128
// or only these.
constexpr int kElements = 16 * 1024;

template <int sums>
__global__ void __launch_bounds__(kThreads)
    read(float* d, bool high, bool columns, std::uint64_t descriptor) {
  using Unit = SwizzledTile<half, 64, 16>;
  half* const elements = dynamic_shared<half>();
  Unit& unit = *reinterpret_cast<Unit*>(elements + kElements);
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < kElements; i += kThreads) {
    elements[i] = from_float<half>(static_cast<float>(high ? i / 128 : i % 128));
  }
  for (int i = thread; i < 64 * 16; i += kThreads) {
    unit.at(i / 16, i % 16 / 8 * 8)[i % 8] = from_float<half>(i / 16 == i % 16 ? 1.0f : 0.0f);
  }
  fence_async_proxy();
  __syncthreads();
  float sum[sums] = {};
  wgmma_fence(sum);
  lab::begin_wgmma(
      {sums, kWgmmaType<half>, false, columns, false, false, unit.by_rows(0, 0).bits(), descriptor},
      {sum, nullptr}, caller_location());
  wgmma_commit(sum);
  wgmma_wait<0>(sum);
  if (thread >= kWarp) return;  // the first 16 rows of D, which are B
  for (int i = 0; i < sums; ++i) {
    const int row = thread / 4 + 8 * (i / 2 % 2), col = 8 * (i / 4) + thread % 4 * 2 + i % 2;
    d[row * 2 * sums + col] += sum[i] * (high ? 128.0f : 1.0f);
  }
}

// {..., "elements": [k n + i]}: which element of shared memory is element (k, i) of B.
template <int sums>
std::string reads(bool columns, std::uint64_t start, std::uint64_t leading, std::uint64_t stride) {
  const std::uint64_t bits =
      start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | std::uint64_t{1} << 62;
  std::vector<float> elements(16 * 2 * sums, 0.0f);
  for (const bool high : {false, true}) {
    DeviceBuffer<float> d(16 * 2 * sums);
    d.upload(elements.data());
    launch(read<sums>,
           {Size(1), Size(kThreads), kElements * sizeof(half) + sizeof(SwizzledTile<half, 64, 16>)},
           d.data(), high, columns, bits);
    elements = downloaded(d);
  }
  return fmt::format(
      "{{\"major\":\"{}\",\"start\":{},\"leading\":{},\"stride\":{},\"bits\":\"{:x}\",\"elements\":"
      "[{}]}}",
      columns ? "mn" : "k", start, leading, stride, bits, fmt::join(whole(elements), ","));
}

std::string descriptors() {
  std::vector<std::int64_t> at;
  std::vector<std::string> by_rows, by_columns;
  launch(describe, {Size(1), Size(1), sizeof(SwizzledTile<half, 64, 128>)}, &at, &by_rows,
         &by_columns);
  std::vector<std::string> read;
  for (const std::uint64_t stride : {512, 1024, 2048}) {
    for (const std::uint64_t start : {0, 32, 96, 1024, 16384 + 1024 + 64}) {
      if (start < 16384 || stride < 2048) read.push_back(reads<32>(false, start, 16384, stride));
    }
    for (const std::uint64_t leading : {0, 8192, 16384}) {
      for (const std::uint64_t start : {0, 2048, 4096})
        read.push_back(reads<64>(true, start, leading, stride));
    }
  }
  return fmt::format(
      "{{\"at\": [{}],\n\"by_rows\": [{}],\n\"by_columns\": [{}],\n\"reads\": [{}]}}",
      fmt::join(at, ","), fmt::join(by_rows, ","), fmt::join(by_columns, ","),
      fmt::join(read, ",\n"));
}

// ---------------------------------------------------------------- the backward pass

// {..., "visits": of each block of keys the tiles of queries in order, "ranks": its place among
// those that add to dQ}.
template <int d>
std::string blocks(int length, bool causal) {
  using Tile = HopperBackwardTileFor<bfloat16, d>;
  Attention<bfloat16> a{};
  a.batch = a.heads = a.kv_heads = 1;
  a.length_q = a.length_k = length;
  a.head_dim = a.head_dim_v = d;
  a.causal = causal;
  std::vector<std::string> visits, ranks;
  for (int index = 0; index < length / Tile::block_n; ++index) {
    const NBlock block = n_block<Tile>(a, index, 0, 0);
    std::vector<int> of_block, of_ranks;
    for_each_m_block<Tile>(a, block, [&](int, int query0) {
      of_block.push_back(query0 / Tile::block_m);
      of_ranks.push_back(accumulation_rank<Tile>(a, block, query0));
    });
    visits.push_back(fmt::format("[{}]", fmt::join(of_block, ",")));
    ranks.push_back(fmt::format("[{}]", fmt::join(of_ranks, ",")));
  }
  return fmt::format("{{\"length\":{},\"dim\":{},\"mask\":\"{}\",\"visits\":[{}],\"ranks\":[{}]}}",
                     length, d, causal ? "causal" : "none", fmt::join(visits, ","),
                     fmt::join(ranks, ","));
}

std::string backward() {
  std::vector<std::string> all;
  for (const int length : {512, 1024}) {
    for (const bool causal : {false, true}) {
      all.push_back(blocks<64>(length, causal));
      all.push_back(blocks<128>(length, causal));
    }
  }
  return fmt::format("[{}]", fmt::join(all, ",\n"));
}

// ---------------------------------------------------------------- the ring

// {..., "owners", "pairs": of each step those of all ranks}, with 2 pieces of 1024 positions for
// each rank.
std::string ring_of(int ranks, bool causal, ring::RowOrder order) {
  const std::int64_t length = 2048 * ranks;
  const ring::Problem problem{{1, 1, 1, length, length, 64}, causal, order, ranks};
  std::vector<std::string> owners, pairs;
  for (int step = 0; step < ranks; ++step) {
    std::vector<int> of_owners;
    std::vector<std::int64_t> of_pairs;
    for (int rank = 0; rank < ranks; ++rank) {
      of_owners.push_back(ring::owner_at(rank, step, ranks));
      of_pairs.push_back(
          visible_pairs(problem, queries_of(problem, rank), keys_of(problem, of_owners.back())));
    }
    owners.push_back(fmt::format("[{}]", fmt::join(of_owners, ",")));
    pairs.push_back(fmt::format("[{}]", fmt::join(of_pairs, ",")));
  }
  return fmt::format(
      "{{\"ranks\":{},\"mask\":\"{}\",\"order\":\"{}\",\"owners\":[{}],\"pairs\":[{}]}}", ranks,
      causal ? "causal" : "none", order == ring::RowOrder::kZigZag ? "zig-zag" : "contiguous",
      fmt::join(owners, ","), fmt::join(pairs, ","));
}

std::string ring_attention() {
  std::vector<std::string> all;
  for (const int ranks : {2, 3, 4, 8}) {
    all.push_back(ring_of(ranks, false, ring::RowOrder::kContiguous));
    all.push_back(ring_of(ranks, true, ring::RowOrder::kContiguous));
    all.push_back(ring_of(ranks, true, ring::RowOrder::kZigZag));
  }
  return fmt::format("[{}]", fmt::join(all, ",\n"));
}

}  // namespace
}  // namespace fa::FA_TARGET

int main() {
  try {
    namespace facts = fa::FA_TARGET;
    fmt::print(
        "{{\"banks\": {},\n\"fragments\": {},\n\"descriptors\": {},\n\"backward\": {},\n\"ring\": "
        "{}}}\n",
        facts::banks(), facts::fragments(), facts::descriptors(), facts::backward(),
        facts::ring_attention());
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "explorer_facts: {}\n", error.what());
    return 2;
  }
}
