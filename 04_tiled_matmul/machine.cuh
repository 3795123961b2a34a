/// @file
/// The kernels of this lesson on one machine. Compiled once for each: see common/gpu/target.hpp.
#pragma once

#include <cmath>
#include <memory>
#include <stdexcept>

#include "04_tiled_matmul/kernels/01_vector_add.cuh"
#include "04_tiled_matmul/kernels/02_transpose_naive.cuh"
#include "04_tiled_matmul/kernels/03_transpose_shared.cuh"
#include "04_tiled_matmul/kernels/04_transpose_swizzled.cuh"
#include "04_tiled_matmul/kernels/05_softmax_three_passes.cuh"
#include "04_tiled_matmul/kernels/06_softmax_online.cuh"
#include "04_tiled_matmul/kernels/07_matmul_naive.cuh"
#include "04_tiled_matmul/kernels/08_matmul_coalesced.cuh"
#include "04_tiled_matmul/kernels/09_matmul_shared_tiles.cuh"
#include "04_tiled_matmul/kernels/10_matmul_register_column.cuh"
#include "04_tiled_matmul/kernels/11_matmul_register_block.cuh"
#include "04_tiled_matmul/kernels/12_matmul_vector_loads.cuh"
#include "04_tiled_matmul/kernels/13_matmul_double_buffer.cuh"
#include "04_tiled_matmul/kernels/14_matmul_register_prefetch.cuh"
#include "04_tiled_matmul/kernels/15_matmul_tensor_cores.cuh"
#include "04_tiled_matmul/kernels/16_matmul_pipelined.cuh"
#include "04_tiled_matmul/kernels/17_matmul_fragment_prefetch.cuh"
#include "04_tiled_matmul/kernels/18_block_product.cuh"
#include "04_tiled_matmul/machine.hpp"
#include "04_tiled_matmul/mapped.cuh"
#include "common/gpu/launch.cuh"

namespace fa::FA_TARGET {
namespace {  // one source file for each machine includes this

using tiled::Inputs;
using tiled::Prepared;
using tiled::Tiles;

inline unsigned blocks(std::int64_t size, std::int64_t tile) {
  return static_cast<unsigned>(ceil_div(size, tile));
}

// A matrix on the device whose rows are a multiple of 16 bytes apart, with 0 between cols and ld.
template <class T, class H>
std::shared_ptr<DeviceBuffer<T>> padded(const Tensor<float, 2>& matrix,
                                        int* ld) {
  constexpr std::int64_t unit = 16 / sizeof(T);
  const std::int64_t distance = ceil_div(matrix.size(1), unit) * unit;
  Tensor<H, 2> wide({matrix.size(0), distance});
  copy(matrix.view(), wide.view().narrow(1, 0, matrix.size(1)));
  *ld = static_cast<int>(distance);
  return std::make_shared<DeviceBuffer<T>>(wide);
}

// Elementwise kernels: inputs as they are, one output.
template <class Launch>
Prepared prepare_plain(const Inputs& in, const Shape<2>& out_shape,
                       Launch launch_kernel) {
  auto buffers = std::make_shared<std::vector<DeviceBuffer<float>>>();
  for (const auto& matrix : in) buffers->emplace_back(matrix);
  auto out = std::make_shared<DeviceBuffer<float>>(element_count(out_shape));
  return {[=] { launch_kernel(*buffers, out->data()); },
          [=] { return out->template tensor<float, 2>(out_shape); }};
}

// Matrix products. H is the host's type of T; `start(p)` gives what launches the kernel.
template <class T, class H>
Prepared prepare_product(
    const Inputs& in, bool b_transposed,
    const std::function<std::function<void()>(const Product<T>&)>& start) {
  Product<T> p{};
  const auto a = padded<T, H>(in[0], &p.lda), b = padded<T, H>(in[1], &p.ldb);
  p.a = a->data();
  p.b = b->data();
  p.m = static_cast<int>(in[0].size(0));
  p.k = static_cast<int>(in[0].size(1));
  p.n = static_cast<int>(in[1].size(b_transposed ? 0 : 1));
  p.ldc = ceil_div(p.n, 4) * 4;
  auto c = std::make_shared<DeviceBuffer<float>>(std::int64_t{p.m} * p.ldc);
  p.c = c->data();
  return {[a, b, work = start(p)] {
            (void)a, (void)b;  // kept as long as this is
            work();
          },
          [=] {
            const auto wide = c->template tensor<float, 2>(
                {std::int64_t{p.m}, std::int64_t{p.ldc}});
            return converted<float>(wide.view().narrow(1, 0, p.n));
          }};
}

template <class T, class H>
tiled::Kernel product_kernel(
    const std::string& name, const std::string& idea, bool b_transposed,
    const Tiles& tiles,
    const std::function<void(const Product<T>&)>& launch_kernel,
    const Needs& needs) {
  return {name, idea,
          [=](const Inputs& in) {
            return prepare_product<T, H>(in, b_transposed,
                                         [=](const Product<T>& p) {
                                           return [=] { launch_kernel(p); };
                                         });
          },
          tiles, needs};
}

template <bool bt>
std::vector<tiled::Kernel> float_products() {
  const auto kernel = [](const char* name, const char* idea, auto function,
                         const Tiles& tile, Size block,
                         bool rows_in_x = false, std::size_t shared_bytes = 0,
                         int stages = 0) {
    return product_kernel<float, float>(
        name, idea, bt, tile,
        [=](const Product<float>& p) {
          const unsigned of_rows = blocks(p.m, tile.rows),
                         of_cols = blocks(p.n, tile.cols);
          const Size grid =
              rows_in_x ? Size(of_rows, of_cols) : Size(of_cols, of_rows);
          launch(function, {grid, block, shared_bytes, stages}, p);
        },
        stages > 0 ? kNeedsCpAsync.with_shared(shared_bytes) : Needs{});
  };
  constexpr int four = 4;  // rows are a multiple of it apart
  return {kernel("07_matmul_naive", "one thread per element of C",
                 matmul_naive<bt>, {16, 16, 1, 1, four}, {16, 16}, true),
          kernel("08_matmul_coalesced", "lanes along a row of C",
                 matmul_coalesced<bt>, {8, 32, 1, 1, four}, {32, 8}),
          kernel("09_matmul_shared_tiles", "tiles in shared memory",
                 matmul_shared_tiles<bt>,
                 {kSharedTile, kSharedTile, kSharedTile, 1, four},
                 {kSharedTile, kSharedTile}),
          kernel("10_matmul_register_column", "1D thread tiling, 8 x 1",
                 matmul_register_column<bt>, {64, 64, 8, 1, four}, {64, 8}),
          kernel("11_matmul_register_block", "2D thread tiling, 8 x 8",
                 matmul_register_block<bt>, {128, 128, 8, 1, four}, {16, 16}),
          kernel("12_matmul_vector_loads", "vector loads of 4 floats",
                 matmul_vector_loads<bt>,
                 {kVectorTile, kVectorTile, kVectorDepth, 1, four}, {16, 16}),
          kernel("13_matmul_double_buffer", "double buffering",
                 matmul_double_buffer<bt>,
                 {kVectorTile, kVectorTile, kAsyncDepth, 2, four}, {16, 16},
                 false, 0, 2),
          kernel("14_matmul_register_prefetch",
                 "register prefetch, 8 x 16", matmul_register_prefetch<bt>,
                 {RegisterTile::rows, RegisterTile::cols, RegisterTile::depth,
                  RegisterTile::stages, four},
                 {RegisterTile::threads}, false, RegisterTile::shared_bytes,
                 RegisterTile::stages)};
}

template <bool bt, class T, class H>
std::vector<tiled::Kernel> mma_products() {
  const auto kernel = [](const char* name, const char* idea, auto function,
                         auto tile, std::size_t shared_bytes, int stages) {
    using Tile = decltype(tile);
    const Tiles tiles{Tile::rows, Tile::cols, Tile::depth,
                      stages == 0 ? 1 : stages, 16 / sizeof(T)};
    return product_kernel<T, H>(
        name, idea, bt, tiles,
        [=](const Product<T>& p) {
          launch(function,
                 {{blocks(p.n, Tile::cols), blocks(p.m, Tile::rows)},
                  {Tile::threads},
                  shared_bytes,
                  stages},
                 p);
        },
        kNeedsMma.with_shared(shared_bytes));
  };
  return {kernel("15_matmul_tensor_cores", "mma.m16n8k16",
                 matmul_tensor_cores<bt, T>, PlainTile<bt>{}, 0, 0),
          kernel("16_matmul_pipelined", "cp.async, two tiles in flight",
                 matmul_pipelined<bt, T>, PipelinedTile<bt>{},
                 stages_bytes<PipelinedTile<bt>>(), kStages),
          kernel("17_matmul_fragment_prefetch", "fragment prefetch",
                 matmul_fragment_prefetch<bt, T>, PrefetchTile<bt>{},
                 stages_bytes<PrefetchTile<bt>>(), kStages)};
}

// Rungs 19 and later, for GPUs of the Hopper architecture.
template <bool bt, class T, class H>
std::vector<tiled::Kernel> wgmma_products() {
  const auto kernel = [](const char* name, const char* idea, auto tile,
                         auto start, bool persists = false) {
    using Tile = decltype(tile);
    return tiled::Kernel{name,
                         idea,
                         [=](const Inputs& in) {
                           return prepare_product<T, H>(in, bt, start);
                         },
                         {Tile::rows, Tile::cols, Tile::depth, Tile::stages,
                          16 / sizeof(T), persists},
                         kNeedsHopper};
  };
  using OneStage = OneStageTile<bt, T>;
  using Stages = StagesTile<bt, T>;
  return {
      kernel("19_matmul_wgmma", "wgmma.m64n256k16, tiles by TMA",
             OneStage{},
             [](const Product<T>& p) {
               return mapped_launch<OneStage, OneStageShared<OneStage>>(
                   p, matmul_wgmma<OneStage, T>);
             }),
      kernel("20_matmul_stages", "asynchronous wgmma, four stages", Stages{},
             [](const Product<T>& p) {
               return mapped_launch<Stages, StagesShared<Stages>>(
                   p, matmul_stages<Stages, T>);
             }),
      kernel(
          "21_matmul_persistent", "persistent blocks, a producer warp",
          Stages{},
          [](const Product<T>& p) {
            return persistent_launch<Stages>(p, kTileGroup);
          },
          true)};
}

// All of them.
template <bool bt>
std::vector<tiled::Kernel> bfloat16_products() {
  auto result = mma_products<bt, bfloat16, fa::bfloat16>();
  for (auto& kernel : wgmma_products<bt, bfloat16, fa::bfloat16>()) {
    result.push_back(std::move(kernel));
  }
  return result;
}

inline tiled::Kernel add_kernel() {
  return {"01_vector_add",
          "grid, block, thread, bounds check",
          [](const Inputs& in) {
            const std::int64_t n = in[0].count();
            return prepare_plain(
                in, in[0].shape(), [=](auto& buffers, float* out) {
                  launch(vector_add, {{blocks(n, 256)}, {256}},
                         buffers[0].data(), buffers[1].data(), out, n);
                });
          },
          {1, 256}};
}

template <class Function>
tiled::Kernel transpose_kernel(const char* name, const char* idea,
                               Function function) {
  return {name,
          idea,
          [=](const Inputs& in) {
            const std::int64_t rows = in[0].size(0), cols = in[0].size(1);
            return prepare_plain(in, {cols, rows},
                                 [=](auto& buffers, float* out) {
                                   launch(function,
                                          {{blocks(cols, kTransposeTile),
                                            blocks(rows, kTransposeTile)},
                                           {kTransposeTile, kTransposeTile}},
                                          buffers[0].data(), out, rows, cols);
                                 });
          },
          {kTransposeTile, kTransposeTile}};
}

template <class Function>
tiled::Kernel softmax_kernel(const char* name, const char* idea,
                             Function function) {
  return {name,
          idea,
          [=](const Inputs& in) {
            const std::int64_t rows = in[0].size(0), cols = in[0].size(1);
            return prepare_plain(
                in, in[0].shape(), [=](auto& buffers, float* out) {
                  launch(function,
                         {{blocks(rows, kSoftmaxWarps)}, {32, kSoftmaxWarps}},
                         buffers[0].data(), out, rows, cols);
                });
          },
          {kSoftmaxWarps, 32}};
}

inline tiled::Kernel block_kernel() {
  return {"18_block_product",
          "two matmuls, scores never stored",
          [](const Inputs& in) {
            const std::int64_t length_q = in[0].size(0),
                               length_k = in[1].size(0);
            return prepare_plain(
                in, in[0].shape(), [=](auto& buffers, float* out) {
                  launch(block_product<64>,
                         {{blocks(length_q, kBlockProductTile)}, {32, 8}},
                         buffers[0].data(), buffers[1].data(),
                         buffers[2].data(), out, length_q, length_k, 0.125f);
                });
          },
          {kBlockProductTile, kBlockProductTile}};
}

}  // namespace

/// This machine with all kernels of the lesson.
inline tiled::Machine machine(const std::string& kind) {
  tiled::Machine result{bare_machine(kind), {}};
  result.groups = tiled::groups_without_kernels();
  const auto kernels_of =
      [](const std::string& group) -> std::vector<tiled::Kernel> {
    if (group == "add") return {add_kernel()};
    if (group == "transpose") {
      return {transpose_kernel("02_transpose_naive", "one element per thread",
                               transpose_naive),
              transpose_kernel("03_transpose_shared", "shared-memory tile",
                               transpose_shared<0>),
              transpose_kernel("03_transpose_shared, padded", "padded rows",
                               transpose_shared<1>),
              transpose_kernel("04_transpose_swizzled", "XOR swizzle",
                               transpose_swizzled)};
    }
    if (group == "softmax") {
      return {softmax_kernel("05_softmax_three_passes", "one warp per row",
                             softmax_three_passes),
              softmax_kernel("06_softmax_online", "lanes merge (m, l)",
                             softmax_online)};
    }
    if (group == "matmul") return float_products<false>();
    if (group == "matmul_bt") return float_products<true>();
    if (group == "mma") return bfloat16_products<false>();
    if (group == "mma_bt") return bfloat16_products<true>();
    if (group == "block") return {block_kernel()};
    throw std::logic_error("there are no kernels for group " + group);
  };
  for (tiled::Group& group : result.groups) {
    for (tiled::Kernel& kernel : kernels_of(group.name)) {
      const std::string lacks =
          result.available ? missing(result.properties, kernel.needs) : "";
      if (lacks.empty()) {
        group.kernels.push_back(std::move(kernel));
      } else {
        group.left_out.push_back(
            fmt::format("{} is left out: it {}", kernel.name, lacks));
      }
    }
  }
  return result;
}

}  // namespace fa::FA_TARGET
