/// @file
/// The row with which a numbered file ends: the kernels of a step, each in the group of those that
/// compute the same, and the way from host tensors to a launch. And the table of all of them on one
/// backend. Compiled once for each backend: see common/gpu/target.hpp.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "04_tiled_matmul/kernels/matmul_params.cuh"
#include "04_tiled_matmul/src/backend.hpp"
#include "common/gpu/backend.cuh"
#include "steps/tiled.cuh"

namespace fa::FA_TARGET {
namespace {  // one source file for each backend includes this

using tiled::Inputs;
using tiled::Kernel;
using tiled::Prepared;
using tiled::Tiles;

int rows(const Tensor<float, 2>& matrix) {
  return static_cast<int>(matrix.size(0));
}
int cols(const Tensor<float, 2>& matrix) {
  return static_cast<int>(matrix.size(1));
}

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

// A kernel whose inputs are float32, with one output: launch_step(inputs, output).
template <class Launch>
Prepared prepare_small(Launch launch_step, const Inputs& in, const Shape<2>& shape) {
  auto buffers = std::make_shared<std::vector<DeviceBuffer<float>>>();
  for (const auto& matrix : in) buffers->emplace_back(matrix);
  auto out = std::make_shared<DeviceBuffer<float>>(element_count(shape));
  return {[=] { launch_step(*buffers, out->data()); },
          [=] { return out->template tensor<float, 2>(shape); }};
}

// A matmul: launch_step(MatmulParams<T>).
template <bool b_transposed, class T, class Launch>
Prepared prepare_matmul(Launch launch_step, const Inputs& in) {
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
      [=] {
        (void)a, (void)b;  // the memory of p.a and p.b
        launch_step(p);
      },
      [=] {
        const auto wide = c->template tensor<float, 2>({std::int64_t{p.m}, std::int64_t{p.ldc}});
        return converted<float>(wide.view().narrow(1, 0, p.n));
      }};
}

// The kernels of one step, each with the name of its group: row(name of the file, idea), then what
// they need, their tiles, and what they compute.
class TiledRow {
 public:
  TiledRow operator()(const char* name, const char* idea) const { return variant(name, idea); }
  // What follows is another kernel of the step.
  TiledRow variant(const char* name, const char* idea) const {
    TiledRow row = *this;
    row.plain_.name = row.transposed_.name = name;
    row.plain_.idea = row.transposed_.idea = idea;
    return row;
  }
  TiledRow needs(const Needs& needs) const {
    return changed([&](Kernel& kernel, auto) { kernel.needs = needs; });
  }
  // Shared memory that a GPU may lack: bytes(bt), where bt says whether B is transposed.
  template <class Bytes>
  TiledRow shared_bytes(Bytes bytes) const {
    return changed(
        [&](Kernel& kernel, auto bt) { kernel.needs = kernel.needs.with_shared(bytes(bt)); });
  }
  // The part of the result that a block computes, and the depth of its tiles; or tile_of(bt).
  TiledRow tile(int block_m, int block_n, int block_k = 1, int stages = 1) const {
    return changed([=](Kernel& kernel, auto) {
      kernel.tiles = {block_m, block_n, block_k, stages};
    });
  }
  template <class TileOf>
  TiledRow tile(TileOf tile_of) const {
    return changed([&](Kernel& kernel, auto bt) {
      using Tile = decltype(tile_of(bt));
      kernel.tiles = {Tile::block_m, Tile::block_n, Tile::block_k, Tile::stages};
    });
  }
  // Blocks, in clusters of so many, compute one tile after the other.
  TiledRow persistent(int cluster) const {
    return changed([=](Kernel& kernel, auto) {
      kernel.tiles.persistent = true;
      kernel.tiles.cluster = cluster;
    });
  }

  // @{ What the kernel computes, and its launch function.
  // z = x + y: launch_step(x, y, z, count).
  template <class Launch>
  TiledRow add(Launch launch_step) const {
    return in_group("add", [=](const Inputs& in) {
      return prepare_small(
          [=, count = in[0].count()](auto& on_device, float* out) {
            launch_step(on_device[0].data(), on_device[1].data(), out, count);
          },
          in, in[0].shape());
    });
  }
  // The transpose, or the softmax of each row: launch_step(x, y, rows, columns).
  template <class Launch>
  TiledRow transpose(Launch launch_step) const {
    return in_group("transpose", [=](const Inputs& in) {
      return prepare_small(of_one(launch_step, in), in, {in[0].size(1), in[0].size(0)});
    });
  }
  template <class Launch>
  TiledRow softmax(Launch launch_step) const {
    return in_group("softmax", [=](const Inputs& in) {
      return prepare_small(of_one(launch_step, in), in, in[0].shape());
    });
  }
  // Q K^T V: launch_step(q, k, v, o, rows of q, rows of k).
  template <class Launch>
  TiledRow two_matmuls(Launch launch_step) const {
    return in_group("block", [=](const Inputs& in) {
      return prepare_small(
          [=, m = rows(in[0]), n = rows(in[1])](auto& on_device, float* out) {
            launch_step(on_device[0].data(), on_device[1].data(), on_device[2].data(), out, m, n);
          },
          in, in[0].shape());
    });
  }
  // C = A B, or A B^T, for elements of type T: launch_step(bt, MatmulParams<T>).
  template <class T, class Launch>
  TiledRow matmul(T, Launch launch_step) const {
    TiledRow row = changed([](Kernel& kernel, auto) { kernel.tiles.vector = 16 / sizeof(T); });
    const std::string group = std::is_same_v<T, float> ? "matmul" : "mma";
    row.plain_.prepare = [=](const Inputs& in) {
      return prepare_matmul<false, T>([=](auto& p) { launch_step(std::false_type{}, p); }, in);
    };
    row.transposed_.prepare = [=](const Inputs& in) {
      return prepare_matmul<true, T>([=](auto& p) { launch_step(std::true_type{}, p); }, in);
    };
    row.kernels_.emplace_back(group, row.plain_);
    row.kernels_.emplace_back(group + "_bt", row.transposed_);
    return row;
  }
  // @}

  // The kernels with their groups.
  const std::vector<std::pair<std::string, Kernel>>& kernels() const { return kernels_; }

 private:
  template <class Change>
  TiledRow changed(Change change) const {
    TiledRow row = *this;
    change(row.plain_, std::false_type{});
    change(row.transposed_, std::true_type{});
    return row;
  }
  template <class Prepare>
  TiledRow in_group(const char* group, Prepare prepare) const {
    TiledRow row = *this;
    row.plain_.prepare = prepare;
    row.kernels_.emplace_back(group, row.plain_);
    return row;
  }
  template <class Launch>
  static auto of_one(Launch launch_step, const Inputs& in) {
    return [=, m = rows(in[0]), n = cols(in[0])](auto& on_device, float* out) {
      launch_step(on_device[0].data(), out, m, n);
    };
  }

  Kernel plain_, transposed_;  // with B, and with B^T
  std::vector<std::pair<std::string, Kernel>> kernels_;
};

template <int... before>
std::vector<TiledRow> tiled_steps(std::integer_sequence<int, before...>) {
  return {tiled_step(std::integral_constant<int, before + 1>{}, TiledRow{})...};
}

}  // namespace

/// This backend with all kernels of the lesson that it can run.
static tiled::Backend backend(const std::string& kind) {
  tiled::Backend result{backend_base(kind), tiled::groups_without_kernels()};
  for (const TiledRow& step : tiled_steps(std::make_integer_sequence<int, kTiledSteps>{})) {
    for (const auto& [group_name, kernel] : step.kernels()) {
      for (tiled::Group& group : result.groups) {
        if (group.name != group_name) continue;
        const std::string lacks = result.available ? missing(result.properties, kernel.needs) : "";
        if (lacks.empty()) {
          group.kernels.push_back(kernel);
        } else {
          group.left_out.push_back(fmt::format("{} is left out: it {}", kernel.name, lacks));
        }
      }
    }
  }
  return result;
}

}  // namespace fa::FA_TARGET
