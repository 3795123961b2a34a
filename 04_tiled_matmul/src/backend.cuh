/// @file
/// The table of this lesson's kernels on one backend. Compiled once for each: see
/// common/gpu/target.hpp.
#pragma once

#include <functional>
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
#include "04_tiled_matmul/kernels/10_matmul_1d_thread_tiling.cuh"
#include "04_tiled_matmul/kernels/11_matmul_2d_thread_tiling.cuh"
#include "04_tiled_matmul/kernels/12_matmul_vector_loads.cuh"
#include "04_tiled_matmul/kernels/13_matmul_double_buffer.cuh"
#include "04_tiled_matmul/kernels/14_matmul_register_prefetch.cuh"
#include "04_tiled_matmul/kernels/15_matmul_tensor_cores.cuh"
#include "04_tiled_matmul/kernels/16_matmul_pipelined.cuh"
#include "04_tiled_matmul/kernels/17_matmul_fragment_prefetch.cuh"
#include "04_tiled_matmul/kernels/18_back_to_back_matmul.cuh"
#include "04_tiled_matmul/kernels/19_matmul_wgmma.cuh"
#include "04_tiled_matmul/kernels/20_matmul_stages.cuh"
#include "04_tiled_matmul/kernels/21_matmul_persistent.cuh"
#include "04_tiled_matmul/kernels/22_matmul_cluster.cuh"
#include "04_tiled_matmul/src/backend.hpp"
#include "common/gpu/backend.cuh"

namespace fa::FA_TARGET {
namespace {  // one source file for each backend includes this

using tiled::Inputs;
using tiled::Kernel;
using tiled::Prepared;
using tiled::Tiles;
using tiled::tiles;

int rows(const Tensor<float, 2>& matrix) {
  return static_cast<int>(matrix.size(0));
}
int cols(const Tensor<float, 2>& matrix) {
  return static_cast<int>(matrix.size(1));
}

// Kernels 01 to 06 and 18: float32 inputs, one output.

using Pointers = std::vector<const float*>;

// A row of the table: launch_step(inputs, output, the inputs for their sizes).
struct SmallKernel {
  const char* name;
  const char* idea;
  std::function<void(const Pointers&, float*, const Inputs&)> launch_step;
  Tiles tiles;
};

// launch_step(input, output, rows, columns) for the table.
template <class LaunchMatrix>
auto on_matrix(LaunchMatrix launch_step) {
  return [=](const Pointers& in, float* out, const Inputs& sizes) {
    launch_step(in[0], out, rows(sizes[0]), cols(sizes[0]));
  };
}

Prepared prepare_small(const SmallKernel& kernel, const Inputs& in, bool transposes) {
  const Shape<2> shape = transposes ? Shape<2>{in[0].size(1), in[0].size(0)} : in[0].shape();
  auto buffers = std::make_shared<std::vector<DeviceBuffer<float>>>();
  Pointers pointers;
  for (const auto& matrix : in) {
    buffers->emplace_back(matrix);
    pointers.push_back(buffers->back().data());
  }
  auto out = std::make_shared<DeviceBuffer<float>>(element_count(shape));
  return {[=, launch_step = kernel.launch_step] {
            (void)buffers;  // the pointers' memory
            launch_step(pointers, out->data(), in);
          },
          [=] { return out->template tensor<float, 2>(shape); }};
}

std::vector<Kernel> small_kernels(const std::vector<SmallKernel>& table, bool transposes = false) {
  std::vector<Kernel> kernels;
  for (const SmallKernel& row : table) {
    kernels.push_back(
        {row.name, row.idea,
         [row, transposes](const Inputs& in) { return prepare_small(row, in, transposes); },
         row.tiles});
  }
  return kernels;
}

std::vector<Kernel> add_kernels() {
  return small_kernels({{"01_vector_add", "grid, block, thread, tail",
                         [](const Pointers& in, float* out, const Inputs& sizes) {
                           launch_vector_add(in[0], in[1], out, sizes[0].count());
                         },
                         tiles(1, 256)}});
}

std::vector<Kernel> transpose_kernels() {
  constexpr Tiles kTile = tiles(kTransposeTile, kTransposeTile);
  return small_kernels(
      {
          {"02_transpose_naive", "element by element", on_matrix(launch_transpose_naive), kTile},
          {"03_transpose_shared", "a tile in shared memory", on_matrix(launch_transpose_shared<0>),
           kTile},
          {"03_transpose_shared, padded", "33 columns", on_matrix(launch_transpose_shared<1>),
           kTile},
          {"04_transpose_swizzled", "no memory for a pad", on_matrix(launch_transpose_swizzled),
           kTile},
      },
      true);
}

std::vector<Kernel> softmax_kernels() {
  constexpr Tiles kTile = tiles(kSoftmaxWarps, kWarp);
  return small_kernels({
      {"05_softmax_three_passes", "a warp for each row", on_matrix(launch_softmax_three_passes),
       kTile},
      {"06_softmax_online", "lanes merge (m, l)", on_matrix(launch_softmax_online), kTile},
  });
}

std::vector<Kernel> block_kernels() {
  return small_kernels({{"18_back_to_back_matmul", "both matmuls, scores never stored",
                         [](const Pointers& in, float* out, const Inputs& sizes) {
                           launch_back_to_back_matmul(in[0], in[1], in[2], out, rows(sizes[0]),
                                                      rows(sizes[1]));
                         },
                         tiles(kBackToBackTile, kBackToBackTile)}});
}

// The matmuls.

// A matrix on the device as MatmulParams wants it: rows a multiple of 16 bytes apart, with 0
// between cols and ld.
template <class T>
std::shared_ptr<DeviceBuffer<T>> padded(const Tensor<float, 2>& matrix, int* ld) {
  using Host = std::conditional_t<std::is_same_v<T, float>, float, fa::bfloat16>;
  constexpr std::int64_t unit = 16 / sizeof(T);
  const std::int64_t distance = ceil_div(matrix.size(1), unit) * unit;
  Tensor<Host, 2> wide({matrix.size(0), distance});
  copy(matrix.view(), wide.view().narrow(1, 0, matrix.size(1)));
  *ld = static_cast<int>(distance);
  return std::make_shared<DeviceBuffer<T>>(wide);
}

// A row of the table.
template <class T>
struct MatmulKernel {
  const char* name;
  const char* idea;
  std::function<void(const MatmulParams<T>&)> launch_step;
  Tiles tiles;
  Needs needs{};
};

template <bool b_transposed, class T>
Prepared prepare_matmul(const MatmulKernel<T>& kernel, const Inputs& in) {
  MatmulParams<T> p{};
  const auto a = padded<T>(in[0], &p.lda), b = padded<T>(in[1], &p.ldb);
  p.a = a->data();
  p.b = b->data();
  p.m = rows(in[0]);
  p.k = cols(in[0]);
  p.n = b_transposed ? rows(in[1]) : cols(in[1]);
  p.ldc = ceil_div(p.n, 4) * 4;
  auto c = std::make_shared<DeviceBuffer<float>>(std::int64_t{p.m} * p.ldc);
  p.c = c->data();
  return {
      [a, b, p, launch_step = kernel.launch_step] {
        (void)a, (void)b;  // the memory of p.a and p.b
        launch_step(p);
      },
      [=] {
        const auto wide = c->template tensor<float, 2>({std::int64_t{p.m}, std::int64_t{p.ldc}});
        return converted<float>(wide.view().narrow(1, 0, p.n));
      }};
}

template <bool b_transposed, class T>
std::vector<Kernel> matmul_kernels(const std::vector<MatmulKernel<T>>& table) {
  std::vector<Kernel> kernels;
  for (const MatmulKernel<T>& row : table) {
    kernels.push_back({row.name, row.idea,
                       [row](const Inputs& in) { return prepare_matmul<b_transposed>(row, in); },
                       row.tiles.with_vector(16 / sizeof(T)), row.needs});
  }
  return kernels;
}

template <class Tile>
constexpr Tiles tiles_of() {
  return tiles(Tile::block_m, Tile::block_n, Tile::block_k).with_stages(Tile::stages);
}

template <bool bt>
std::vector<Kernel> float_matmuls() {
  return matmul_kernels<bt, float>({
      {"07_matmul_naive", "a thread for each element", launch_matmul_naive<bt>, tiles(16, 16)},
      {"08_matmul_coalesced", "lanes along the columns", launch_matmul_coalesced<bt>, tiles(8, 32)},
      {"09_matmul_shared_tiles", "tiles in shared memory", launch_matmul_shared_tiles<bt>,
       tiles(kSharedTile, kSharedTile, kSharedTile)},
      {"10_matmul_1d_thread_tiling", "8 elements a thread", launch_matmul_1d_thread_tiling<bt>,
       tiles(64, 64, 8)},
      {"11_matmul_2d_thread_tiling", "8 x 8 elements a thread", launch_matmul_2d_thread_tiling<bt>,
       tiles(128, 128, 8)},
      {"12_matmul_vector_loads", "four elements at a time", launch_matmul_vector_loads<bt>,
       tiles(128, 128, 8)},
      {"13_matmul_double_buffer", "copies while multiplying", launch_matmul_double_buffer<bt>,
       tiles(128, 128, 16).with_stages(2), kNeedsCpAsync},
      {"14_matmul_register_prefetch", "8 x 16 elements, a step ahead",
       launch_matmul_register_prefetch<bt>, tiles_of<RegisterTile>(),
       kNeedsCpAsync.with_shared(RegisterTile::smem_bytes)},
  });
}

template <bool bt>
std::vector<Kernel> bfloat16_matmuls() {
  using T = bfloat16;
  using Wgmma = MatmulWgmmaTile<bt, T>;
  using Stages = MatmulStagesTile<bt, T>;
  using Persistent = MatmulPersistentTile<bt, T>;
  using Cluster = MatmulClusterTile<bt, T>;
  return matmul_kernels<bt, T>({
      {"15_matmul_tensor_cores", "16 x 8 x 16 in one instruction",
       launch_matmul_tensor_cores<bt, T>, tiles_of<TensorCoresTile<bt>>(), kNeedsMma},
      {"16_matmul_pipelined", "two more tiles in flight", launch_matmul_pipelined<bt, T>,
       tiles_of<PipelinedTile<bt>>(), kNeedsMma.with_shared(PipelinedTile<bt>::smem_bytes)},
      {"17_matmul_fragment_prefetch", "fragments a step ahead",
       launch_matmul_fragment_prefetch<bt, T>, tiles_of<PrefetchTile<bt>>(),
       kNeedsMma.with_shared(PrefetchTile<bt>::smem_bytes)},
      {"19_matmul_wgmma", "tiles by TMA, 64 x 256 x 16 at once", launch_matmul_wgmma<Wgmma, T>,
       tiles_of<Wgmma>(), kNeedsHopper},
      {"20_matmul_stages", "four stages, wgmma in flight", launch_matmul_stages<Stages, T>,
       tiles_of<Stages>(), kNeedsHopper},
      {"21_matmul_persistent", "a producer warpgroup, tile after tile",
       [](const MatmulParams<T>& p) { launch_matmul_persistent<Persistent>(p); },
       tiles_of<Persistent>().in_persistent_blocks(), kNeedsHopper},
      {"22_matmul_cluster", "two blocks share what they load",
       [](const MatmulParams<T>& p) { launch_matmul_cluster<Cluster>(p); },
       tiles_of<Cluster>().in_persistent_blocks(kClusterBlocks), kNeedsHopper},
  });
}

std::vector<Kernel> kernels_of(const std::string& group) {
  if (group == "add") return add_kernels();
  if (group == "transpose") return transpose_kernels();
  if (group == "softmax") return softmax_kernels();
  if (group == "matmul") return float_matmuls<false>();
  if (group == "matmul_bt") return float_matmuls<true>();
  if (group == "mma") return bfloat16_matmuls<false>();
  if (group == "mma_bt") return bfloat16_matmuls<true>();
  if (group == "block") return block_kernels();
  throw std::logic_error("there are no kernels for group " + group);
}

}  // namespace

/// This backend with all kernels of the lesson that it can run.
inline tiled::Backend backend(const std::string& kind) {
  tiled::Backend result{backend_base(kind), {}};
  result.groups = tiled::groups_without_kernels();
  for (tiled::Group& group : result.groups) {
    for (Kernel& kernel : kernels_of(group.name)) {
      const std::string lacks = result.available ? missing(result.properties, kernel.needs) : "";
      if (lacks.empty()) {
        group.kernels.push_back(std::move(kernel));
      } else {
        group.left_out.push_back(fmt::format("{} is left out: it {}", kernel.name, lacks));
      }
    }
  }
  return result;
}

}  // namespace fa::FA_TARGET
