/// @file
/// The kernels of this lesson on one machine. Compiled once for each: see common/gpu/target.hpp.
#pragma once

#include <memory>

#include "05_flash_forward/src/device_tensor.cuh"
#include "06_flash_backward/src/backend.hpp"
#include "06_flash_backward/src/dispatch.cuh"
#include "common/gpu/launch.cuh"

namespace fa::FA_TARGET {
namespace {  // one source file for each machine includes this

using backward::Gradients;
using backward::Inputs;
using backward::Prepared;
using backward::Rung;
using flash::Problem;
using flash::Tiles;
using flash::Type;

// What a kernel takes at once whose blocks have block_n keys and go through queries, block_m at a time; where other
// blocks have queries and go through keys, those as well.
template <class Tile>
Tiles backward_tiles(int query_stages, int key_stages = 0) {
  return {Tile::block_m, Tile::block_n, query_stages, key_stages, Tile::d};
}

// A rung, and for which forms of its tiles problems are to be chosen.
inline Rung with_tiles(Rung rung, const std::vector<Tiles>& tiles) {
  rung.tiles = tiles;
  return rung;
}

// What rungs 01 and 02 take at once.
inline std::vector<Tiles> unfused_tiles() {
  return {{kUnfusedGradientTile, kUnfusedGradientTile, 1, 1}};
}
// What rungs 03 and 04 take at once.
inline std::vector<Tiles> float_tiles(int key_stages) {
  using Tile = FloatBackwardTile<64>;
  return {{Tile::side, Tile::side, 1, key_stages}};
}
// What rungs 06 and 07 take at once.
inline std::vector<Tiles> swizzled_tiles(int key_stages) {
  return {
      backward_tiles<SwizzledBackwardTile<64>>(kPipelineStages, key_stages),
      backward_tiles<SwizzledBackwardTile<256>>(kPipelineStages, key_stages)};
}
// What rungs 08 to 12 take at once.
template <int stages>
std::vector<Tiles> tma_tiles() {
  return {backward_tiles<TmaBackwardTile<half, 64, stages>>(stages),
          backward_tiles<TmaBackwardTile<half, 128, stages>>(stages)};
}

// A problem in the memory of the device.
template <class T>
struct OnDevice {
  OnDevice(const Problem& problem, const Inputs& in)
      : q(in.forward.q, problem.shape_of_q(), problem.layout),
        k(in.forward.k, problem.shape_of_kv(), problem.layout),
        v(in.forward.v, problem.shape_of_kv(), problem.layout),
        o(in.o, problem.shape_of_q(), problem.layout),
        d_o(in.d_o, problem.shape_of_q(), problem.layout),
        d_q(problem.shape_of_q(), problem.layout),
        d_k(problem.shape_of_kv(), problem.layout),
        d_v(problem.shape_of_kv(), problem.layout),
        lse(repeated(in.lse, problem.shape)),
        a{attention_of<T>(problem),
          {},
          {},
          {},
          {},
          {},
          {},
          {},
          {},
          {},
          {},
          {},
          {},
          {}} {
    a.q = q.data();
    a.k = k.data();
    a.v = v.data();
    a.o = o.data();
    a.lse = lse.data();
    a.d_o = d_o.data();
    a.d_q = d_q.data();
    a.d_k = d_k.data();
    a.d_v = d_v.data();
    a.d_o_strides = a.d_q_strides = a.q_strides;
    a.d_k_strides = a.d_v_strides = a.k_strides;
  }
  // The LSE of one head of one sequence, for all of them.
  static Tensor<float, 3> repeated(const Tensor<float, 3>& lse,
                                   const AttentionShape& shape) {
    Tensor<float, 3> result({shape.batch, shape.heads, shape.length_q});
    for (std::int64_t i = 0; i < result.count(); i += lse.count()) {
      std::copy(lse.data(), lse.data() + lse.count(), result.data() + i);
    }
    return result;
  }

  DeviceTensor<T> q, k, v, o, d_o, d_q, d_k, d_v;
  DeviceBuffer<float> lse;
  AttentionGradient<T> a;
};

// A rung for one type: `start(gradient)` takes what memory it needs beside inputs and results, and gives what
// launches it.
template <class T, class Start>
Prepared prepare(const Problem& problem, const Inputs& in, Start start) {
  const auto device = std::make_shared<OnDevice<T>>(problem, in);
  const std::int64_t before = taken_bytes();
  const std::function<void()> work = start(device->a);
  return {
      [=] { work(); },
      [=]() -> Gradients {
        return {device->d_q.host(), device->d_k.host(), device->d_v.host()};
      },
      taken_bytes() - before};
}

// What launches kernels that need a workspace: `work(gradient)`.
template <class T, class Work>
std::function<void()> with_workspace(AttentionGradient<T> a,
                                     const Workspace& what, Work work) {
  const auto memory =
      std::make_shared<DeviceBuffer<float>>(workspace_floats(a, what));
  set_workspace(a, memory->data(), what);
  return [=] {
    (void)memory;  // kept as long as this is
    work(a);
  };
}

using FloatGradient = AttentionGradient<float>;

// A rung for float32.
template <class Start>
Rung float_rung(const char* name, const char* idea, bool same_bits,
                Start start,
                std::size_t (*shared_bytes)(std::int64_t) = nullptr) {
  return {{name, idea, {Type::kFloat32}, 256, true, 8, {}, shared_bytes},
          same_bits,
          [=](const Problem& problem, const Inputs& in) {
            return prepare<float>(problem, in, start);
          }};
}

// A rung for both 16-bit types.
template <class Start>
Rung sixteen_bit_rung(
    const char* name, const char* idea, std::int64_t max_head_dim,
    bool same_bits, Start start,
    std::function<std::size_t(std::int64_t)> shared_bytes = nullptr) {
  return {{name,
           idea,
           {Type::kFloat16, Type::kBFloat16},
           max_head_dim,
           true,
           8,
           kNeedsMma,
           std::move(shared_bytes)},
          same_bits,
          [=](const Problem& problem, const Inputs& in) {
            return problem.type == Type::kFloat16
                       ? prepare<half>(problem, in, start)
                       : prepare<bfloat16>(problem, in, start);
          }};
}

// Blocks of 32 x 32 that cover [rows, columns] for each head.
inline Launch product_launch(int rows, int columns, int heads) {
  constexpr int tile = kUnfusedGradientTile;
  return {{static_cast<unsigned>(ceil_div(columns, tile)),
           static_cast<unsigned>(ceil_div(rows, tile)),
           static_cast<unsigned>(heads)},
          {tile, tile}};
}

// A warp for each row of the scores.
inline Launch row_launch(const FloatGradient& a) {
  return {{static_cast<unsigned>(ceil_div(a.length_q, 4)), 1,
           static_cast<unsigned>(a.batch * a.heads)},
          {32, 4}};
}

// The kernels of rungs 01 and 02, which differ in how P and dS come to be: `launch_scores(sizes)`.
template <class Scores>
void launch_unfused(const FloatGradient& a, float* weights, float* gradients,
                    Scores launch_scores) {
  const int heads = a.batch * a.heads;
  launch_scores(product_launch(a.length_q, a.length_k, heads));
  launch(unfused_d_q, product_launch(a.length_q, a.head_dim, heads), a,
         gradients);
  launch(unfused_d_k_d_v,
         product_launch(a.length_k, a.head_dim, a.batch * a.kv_heads), a,
         weights, gradients);
}

// Elements of the scores of all heads.
inline std::int64_t score_count(const FloatGradient& a) {
  return std::int64_t{a.batch} * a.heads * a.length_q * a.length_k;
}

inline Rung unfused() {
  return float_rung(
      "01_unfused", "one kernel per formula", true,
      [](const FloatGradient& a) -> std::function<void()> {
        const auto scores =
            std::make_shared<DeviceBuffer<float>>(2 * score_count(a));
        return [=] {
          float* const weights = scores->data();
          float* const gradients = weights + score_count(a);
          launch_unfused(a, weights, gradients, [&](const Launch& sizes) {
            launch(unfused_backward_scores, sizes, a, weights);
            launch(unfused_prob_gradients, sizes, a, gradients);
            launch(unfused_score_gradients, row_launch(a), a, weights,
                   gradients);
          });
        };
      });
}

inline Rung preprocessed() {
  return float_rung(
      "02_preprocess", "delta and the row sums precomputed", true,
      [](const FloatGradient& of) {
        return with_workspace(
            of, {0},
            [scores = std::make_shared<DeviceBuffer<float>>(
                 2 * score_count(of))](const FloatGradient& a) {
              float* const weights = scores->data();
              float* const gradients = weights + score_count(a);
              with_head_dim<32, 256>(a.head_dim, [&](auto d) {
                launch_preprocess<decltype(d)::value>(a, Stream::of(nullptr));
              });
              launch_unfused(a, weights, gradients, [&](const Launch& sizes) {
                launch(probs_by_element, sizes, a, weights);
                launch(stored_row_sums, row_launch(a), a, weights);
                launch(score_gradients_by_element, sizes, a, weights,
                       gradients);
              });
            });
      });
}

// What launch_backward() launches, as a rung.
inline auto start_backward(bool deterministic) {
  return [=](const auto& of) {
    return with_workspace(
        of, workspace_of(of, deterministic), [=](const auto& a) {
          launch_backward(a, deterministic, Stream::of(nullptr));
        });
  };
}

// What launch_sm_80_backward() launches, as a rung.
inline auto start_sm_80_backward(bool deterministic) {
  return [=](const auto& of) {
    return with_workspace(
        of, sm_80_workspace_of(of, deterministic), [=](const auto& a) {
          launch_sm_80_backward(a, deterministic, Stream::of(nullptr));
        });
  };
}

// A rung with Hopper's instructions, with turns or without: `work(gradient, columns)` launches it.
template <class Work>
Rung hopper_rung(const char* name, const char* idea, bool same_bits,
                 bool d_q_semaphores, Work work) {
  Rung rung =
      sixteen_bit_rung(name, idea, 128, same_bits, [=](const auto& of) {
        return with_workspace(
            of, {tma_columns(of), d_q_semaphores}, [=](const auto& a) {
              with_head_dim<64, 128>(a.head_dim,
                                     [&](auto columns) { work(a, columns); });
            });
      });
  rung.supports_dropout = false;
  rung.needs = kNeedsHopper;
  rung.tiles = tma_tiles<2>();
  return rung;
}

inline Rung wide_heads() {
  Rung rung =
      sixteen_bit_rung("13_wide_heads", "head_dim 256, no atomics", 256, true,
                       [](const auto& of) {
                         return with_workspace(of, {0}, [](const auto& a) {
                           launch_wide(a, Stream::of(nullptr));
                         });
                       });
  rung.supports_dropout = false;
  rung.needs = kNeedsHopper;
  rung.min_head_dim = ceil_div(kWideHeads, 8) * 8;
  using Tile = WideTile<half>;
  rung.tiles = {
      {kWideQueries, Tile::block_n, Tile::stages, Tile::stages, Tile::d}};
  return rung;
}

inline std::vector<Rung> hopper_rungs() {
  return {
      with_tiles(hopper_rung(
                     "08_wgmma", "wgmma and TMA", false, false,
                     [](const auto& a, auto columns) {
                       using T = std::remove_pointer_t<decltype(a.d_q)>;
                       using Tile =
                           TmaBackwardTile<T, decltype(columns)::value, 1>;
                       launch_tma_keys<Tile>(
                           a, flash_backward_wgmma<Tile, T>,
                           kWarpgroup * kKeyWarpgroups,
                           sizeof(WgmmaBackwardShared<Tile>),
                           Stream::of(nullptr));
                     }),
                 tma_tiles<1>()),
      hopper_rung("09_warp_specialized", "producer warps, warps that add dQ",
                  false, false,
                  [](const auto& a, auto columns) {
                    using T = std::remove_pointer_t<decltype(a.d_q)>;
                    using Tile = TmaBackwardTile<T, decltype(columns)::value>;
                    launch_tma_keys<Tile>(
                        a, flash_backward_specialized<Tile, T>,
                        kWarpgroup * (kKeyWarpgroups + 1),
                        sizeof(BackwardShared<Tile>), Stream::of(nullptr));
                  }),
      hopper_rung("10_delayed_dq", "dQ one tile later", false, false,
                  [](const auto& a, auto columns) {
                    using T = std::remove_pointer_t<decltype(a.d_q)>;
                    using Tile = TmaBackwardTile<T, decltype(columns)::value>;
                    launch_ordered<Tile>(a,
                                         flash_backward_delayed_dq<Tile, T>,
                                         a.causal, Stream::of(nullptr));
                  }),
      hopper_rung("11_ordered_dq", "ordered accumulation of dQ", true, true,
                  [](const auto& a, auto columns) {
                    launch_store_then_reduce<decltype(columns)::value>(
                        a, true, Stream::of(nullptr));
                  }),
      hopper_rung("12_store_then_reduce", "first block stores, rest add", false,
                  true,
                  [](const auto& a, auto columns) {
                    launch_store_then_reduce<decltype(columns)::value>(
                        a, false, Stream::of(nullptr));
                  }),
      wide_heads()};
}

inline Rung tensor_cores() {
  const auto columns = [](const auto& a) {
    return with_head_dim<64, 128>(a.head_dim,
                                  [](auto d) { return decltype(d)::value; });
  };
  return with_tiles(
      sixteen_bit_rung(
          "05_tensor_cores", "P and dS stay in registers", 128, false,
          [=](const auto& of) {
            return with_workspace(of, {columns(of)}, [](const auto& a) {
              using T = std::remove_pointer_t<decltype(a.d_q)>;
              with_head_dim<64, 128>(a.head_dim, [&](auto head_dim) {
                constexpr int d = decltype(head_dim)::value;
                using Tile = PlainBackwardTile<d>;
                launch_with_sums<Tile>(flash_backward_tensor_cores<d, T>,
                                       plain_backward_bytes<Tile, T>(), a,
                                       Stream::of(nullptr));
              });
            });
          },
          [](std::int64_t head_dim) {
            return with_head_dim<64, 128>(head_dim, [](auto d) {
              return plain_backward_bytes<
                  PlainBackwardTile<decltype(d)::value>, half>();
            });
          }),
      {backward_tiles<PlainBackwardTile<64>>(1)});
}

// Lesson 05's fastest kernels, from host tensors to host tensors.
template <class T>
flash::Outputs forward_of(const Problem& problem, const flash::Inputs& in) {
  DeviceTensor<T> q(in.q, problem.shape_of_q(), problem.layout),
      k(in.k, problem.shape_of_kv(), problem.layout),
      v(in.v, problem.shape_of_kv(), problem.layout),
      o(problem.shape_of_q(), problem.layout);
  const AttentionShape& s = problem.shape;
  DeviceBuffer<float> lse(s.batch * s.heads * s.length_q);
  Attention<T> a = attention_of<T>(problem);
  a.q = q.data();
  a.k = k.data();
  a.v = v.data();
  a.o = o.data();
  a.lse = lse.data();
  launch_forward(a, Stream::of(nullptr));
  return {o.host(),
          lse.template tensor<float, 3>({s.batch, s.heads, s.length_q})};
}

// What is chosen for a device.
inline Rung dispatched_rung(bool deterministic,
                            const DeviceProperties& device) {
  const auto start = [=](const auto& of) {
    return with_workspace(
        of, workspace_of(of, deterministic, device), [=](const auto& a) {
          launch_backward(a, deterministic, Stream::of(nullptr), device);
        });
  };
  return {{"dispatched",
           "",
           {Type::kFloat32, Type::kFloat16, Type::kBFloat16},
           256},
          deterministic,
          [=](const Problem& problem, const Inputs& in) {
            switch (problem.type) {
              case Type::kFloat16:
                return prepare<half>(problem, in, start);
              case Type::kBFloat16:
                return prepare<bfloat16>(problem, in, start);
              default:
                return prepare<float>(problem, in, start);
            }
          }};
}

// The file of what is chosen for a problem on a device.
template <class T>
std::string chosen_rung(const Problem& problem, bool deterministic,
                        const DeviceProperties& device) {
  AttentionGradient<T> a{};
  static_cast<Attention<T>&>(a) = attention_of<T>(problem);
  a.d_o_strides = a.d_q_strides = a.q_strides;
  a.d_k_strides = a.d_v_strides = a.k_strides;
  return backward_rung(a, deterministic, device).name;
}

}  // namespace

/// This machine with all kernels of the lesson.
inline backward::Backend backend(const std::string& kind) {
  backward::Backend result{backend_base(kind), {}, {}, {}, dispatched_rung};
  result.chosen = [](const Problem& problem, bool deterministic,
                     const DeviceProperties& device) {
    switch (problem.type) {
      case Type::kFloat16:
        return chosen_rung<half>(problem, deterministic, device);
      case Type::kBFloat16:
        return chosen_rung<bfloat16>(problem, deterministic, device);
      default:
        return chosen_rung<float>(problem, deterministic, device);
    }
  };
  result.rungs = {
      with_tiles(unfused(), unfused_tiles()),
      with_tiles(preprocessed(), unfused_tiles()),
      with_tiles(float_rung("03_two_kernels", "two kernels: keys, queries",
                            true, start_backward(true), float_backward_bytes),
                 float_tiles(1)),
      with_tiles(float_rung("04_atomics", "one kernel, atomic dQ", false,
                            start_backward(false), float_backward_bytes),
                 float_tiles(0)),
      tensor_cores(),
      with_tiles(sixteen_bit_rung(
                     "06_swizzled_pipeline", "swizzle and cp.async pipeline",
                     256, false, start_sm_80_backward(false),
                     [](std::int64_t head_dim) {
                       return sm_80_backward_bytes(head_dim, false);
                     }),
                 swizzled_tiles(0)),
      with_tiles(
          sixteen_bit_rung("07_deterministic", "deterministic",
                           256, true, start_sm_80_backward(true),
                           [](std::int64_t head_dim) {
                             return sm_80_backward_bytes(head_dim, true);
                           }),
          swizzled_tiles(kPipelineStages))};
  for (const Rung& rung : hopper_rungs()) result.rungs.push_back(rung);
  const Rung of_floats = result.rungs[3], of_16_bits = result.rungs[5];
  if (result.available) {
    result.left_out = flash::fit_ladder(result.rungs, result.properties);
  }
  for (Rung& rung : result.rungs) {
    rung.prepare = [prepare = rung.prepare, rung](const Problem& problem,
                                                  const Inputs& in) {
      rung.check(problem);
      return prepare(problem, in);
    };
  }
  result.forward = [=](const Problem& problem, const flash::Inputs& in) {
    (problem.type == Type::kFloat32 ? of_floats : of_16_bits).check(problem);
    switch (problem.type) {
      case Type::kFloat16:
        return forward_of<half>(problem, in);
      case Type::kBFloat16:
        return forward_of<bfloat16>(problem, in);
      default:
        return forward_of<float>(problem, in);
    }
  };
  return result;
}

}  // namespace fa::FA_TARGET
