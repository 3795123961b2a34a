/// @file
/// The kernels of this lesson as a table. Compiled once for each backend: see
/// common/gpu/target.hpp.
#pragma once

#include "06_flash_backward/kernels/02_preprocess.cuh"
#include "06_flash_backward/kernels/05_tensor_cores.cuh"
#include "06_flash_backward/kernels/08_wgmma.cuh"
#include "06_flash_backward/kernels/16_transposed_gradients.cuh"
#include "06_flash_backward/src/dispatch.cuh"
#include "06_flash_backward/src/on_device.cuh"

namespace fa::FA_TARGET {
namespace {  // one source file for each backend includes this

// Tiles of a kernel whose blocks own keys and loop over the queries; with key_stages, of those as
// well whose blocks own queries and loop over the keys.
template <class Tile>
Tiles backward_tiles(int query_stages, int key_stages = 0) {
  return {Tile::block_m, Tile::block_n, query_stages, key_stages, Tile::d};
}

// Tiles of rungs 01 and 02, 03 and 04, 06 and 07, 08 to 12, and 13.
inline std::vector<Tiles> unfused_tiles() {
  return {{kUnfusedGradientTile, kUnfusedGradientTile, 1, 1}};
}
inline std::vector<Tiles> float_tiles(int key_stages) {
  using Tile = FloatBackwardTile<64>;
  return {{Tile::side, Tile::side, 1, key_stages}};
}
inline std::vector<Tiles> swizzled_tiles(int key_stages) {
  return {
      backward_tiles<SwizzledBackwardTile<64>>(kPipelineStages, key_stages),
      backward_tiles<SwizzledBackwardTile<256>>(kPipelineStages, key_stages)};
}
template <int stages, int... d>
std::vector<Tiles> tma_tiles() {
  return {backward_tiles<HopperBackwardTileFor<half, d, stages>>(stages)...};
}
// Tiles of which V and dO may have fewer columns.
template <class Tile>
Tiles tiles_with_d_v(Tiles tiles) {
  if (Tile::d_v != Tile::d) tiles.head_dim_v = Tile::d_v;
  return tiles;
}
template <int d, int d_v = d>
Tiles wide_tiles() {
  using Tile = WideTile<half, d, d_v>;
  return tiles_with_d_v<Tile>(
      {kWideQueries, Tile::block_n, Tile::stages, Tile::stages, d});
}
template <int d_v>
Tiles pair_tiles() {
  using Tile = PairTile<half, d_v>;
  Tiles tiles = tiles_with_d_v<Tile>(backward_tiles<Tile>(Tile::stages));
  tiles.cluster = 2;
  return tiles;
}

// Shared memory of rung 05.
inline std::size_t plain_bytes(std::int64_t head_dim) {
  return with_head_dim<64, 128>(head_dim, [](auto d) {
    using Tile = PlainBackwardTile<decltype(d)::value>;
    return plain_backward_bytes<Tile, half>();
  });
}

// What a rung needs in the workspace beside row statistics.
enum class Needed { kNothing, kAccumulator, kSemaphores };

// Prepares `work(gradient, d, stream)` with a workspace; d is the head dimension, from `least` to
// `most`, that its kernels are compiled for: by with_head_dim(), or by with_tma_head_dim().
template <int least, int most, bool tma = false, class Work>
auto start(Needed needed, Work work) {
  return [=](const auto& of) {
    const auto prepare_columns = [&](auto d) {
      const Workspace what{
          needed == Needed::kNothing ? 0 : decltype(d)::value,
          needed == Needed::kSemaphores};
      return with_workspace(
          of, what, [=](const auto& a) { work(a, d, Stream::of(nullptr)); });
    };
    if constexpr (tma) {
      return with_tma_head_dim<least, most>(of.head_dim, prepare_columns);
    } else {
      return with_head_dim<least, most>(of.head_dim, prepare_columns);
    }
  };
}

// Allocates memory for P and dS; `start(gradient, scores)` prepares the rest.
template <class Start>
auto with_scores(Start start) {
  return [=](const AttentionGradient<float>& a) -> std::function<void()> {
    const auto scores =
        std::make_shared<DeviceBuffer<float>>(2 * score_count(a));
    const std::function<void()> work = start(a, scores->data());
    return [=] {
      (void)scores;  // kept as long as this is
      work();
    };
  };
}

// The ladder: name, idea, whether every run gives the same bits, limits, launch.
inline std::vector<Rung> ladder() {
  constexpr Needed nothing = Needed::kNothing;
  constexpr Needed accumulator = Needed::kAccumulator;
  constexpr Needed semaphores = Needed::kSemaphores;
  return {
      float_rung("01_unfused", "a kernel for each formula", true,
                 {256, unfused_tiles()},
                 with_scores([](const auto& a, float* scores) {
                   return [=] {
                     launch_backward_unfused(a, scores, Stream::of(nullptr));
                   };
                 })),
      float_rung("02_preprocess", "LSE and delta, one sum of each row", true,
                 {256, unfused_tiles()},
                 with_scores([](const auto& of, float* scores) {
                   return start<32, 256>(
                       Needed::kNothing,
                       [=](const auto& a, auto d, const Stream& stream) {
                         launch_backward_preprocess<decltype(d)::value>(
                             a, scores, stream);
                       })(of);
                 })),
      float_rung(
          "03_two_kernels", "keys outside, then queries", true,
          {256, float_tiles(1), float_backward_bytes},
          start<32, 256>(nothing,
                         [](const auto& a, auto d, const Stream& stream) {
                           launch_backward_two_kernels<decltype(d)::value>(
                               a, stream);
                         })),
      float_rung("04_atomics", "one kernel adds to dQ", false,
                 {256, float_tiles(0), float_backward_bytes},
                 start<32, 256>(
                     nothing,
                     [](const auto& a, auto d, const Stream& stream) {
                       launch_backward_atomics<decltype(d)::value>(a, stream);
                     })),
      mma_rung(
          "05_tensor_cores", "P and dS stay in registers", false,
          {128, {backward_tiles<PlainBackwardTile<64>>(1)}, plain_bytes},
          start<64, 128>(accumulator,
                         [](const auto& a, auto d, const Stream& stream) {
                           launch_backward_tensor_cores<decltype(d)::value>(
                               a, stream);
                         })),
      mma_rung("06_swizzled_pipeline",
               "swizzle, cp.async, P and dS between matmuls", false,
               {256, swizzled_tiles(0),
                [](std::int64_t head_dim) {
                  return sm_80_backward_bytes(head_dim, false);
                }},
               start<32, 256>(
                   accumulator,
                   [](const auto& a, auto d, const Stream& stream) {
                     launch_backward_swizzled_pipeline<decltype(d)::value>(
                         a, stream);
                   })),
      mma_rung(
          "07_deterministic", "the same bits in every run", true,
          {256, swizzled_tiles(kPipelineStages),
           [](std::int64_t head_dim) {
             return sm_80_backward_bytes(head_dim, true);
           }},
          start<32, 256>(nothing,
                         [](const auto& a, auto d, const Stream& stream) {
                           launch_backward_deterministic<decltype(d)::value>(
                               a, stream);
                         })),
      hopper_rung("08_wgmma", "Hopper's matmuls and copies", false,
                  {128, tma_tiles<1, 64, 128>()},
                  start<64, 128>(
                      accumulator,
                      [](const auto& a, auto d, const Stream& stream) {
                        launch_backward_wgmma<decltype(d)::value>(a, stream);
                      })),
      hopper_rung("09_warp_specialized", "warps that load, warps that add",
                  false, {128, tma_tiles<2, 64, 128>()},
                  start<64, 128>(
                      accumulator,
                      [](const auto& a, auto d, const Stream& stream) {
                        launch_backward_warp_specialized<decltype(d)::value>(
                            a, stream);
                      })),
      hopper_rung(
          "10_delayed_dq", "dQ one tile later", false,
          {128, tma_tiles<2, 64, 128>()},
          start<64, 128>(accumulator,
                         [](const auto& a, auto d, const Stream& stream) {
                           launch_backward_delayed_dq<decltype(d)::value>(
                               a, stream);
                         })),
      hopper_rung("11_ordered_dq", "the same bits, ordered accumulation",
                  true, {128, tma_tiles<2, 64, 96, 128>()},
                  start<64, 128, true>(
                      semaphores,
                      [](const auto& a, auto d, const Stream& stream) {
                        launch_backward_ordered_dq<decltype(d)::value>(
                            a, stream);
                      })),
      hopper_rung("12_store_then_reduce", "the first stores, no zeros", false,
                  {128, tma_tiles<2, 64, 96, 128>()},
                  start<64, 128, true>(
                      semaphores,
                      [](const auto& a, auto d, const Stream& stream) {
                        launch_backward_store_then_reduce<decltype(d)::value>(
                            a, stream);
                      })),
      hopper_rung(
          "13_wide_heads", "wide heads, no accumulation of dQ", true,
          {256,
           {wide_tiles<192>(), wide_tiles<192, 128>(), wide_tiles<256>()},
           {},
           ceil_div(kWideHeads, 8) * 8},
          start<192, 256, true>(
              nothing,
              [](const auto& a, auto d, const Stream& stream) {
                if (a.head_dim_v != a.head_dim) {
                  launch_backward_wide_heads<192, 128>(a, stream);
                } else {
                  launch_backward_wide_heads<decltype(d)::value>(a, stream);
                }
              })),
      hopper_rung(
          "14_persistent", "persistent blocks", false,
          {64, {backward_tiles<HopperBackwardTileFor<half, 64>>(2)}},
          start<64, 64>(semaphores,
                        [](const auto& a, auto /*d*/, const Stream& stream) {
                          launch_backward_persistent<false>(a, stream);
                        })),
      hopper_rung("15_dependent_launch", "programmatic dependent launch",
                  false, {128, tma_tiles<2, 64, 96, 128>()},
                  start<64, 128, true>(
                      semaphores,
                      [](const auto& a, auto d, const Stream& stream) {
                        launch_backward_dependent<decltype(d)::value>(
                            a, false, stream);
                      })),
      hopper_rung("16_transposed_gradients", "dK and dV transposed, 96 keys",
                  false,
                  {192,
                   {backward_tiles<TransposedTile<half>>(
                       TransposedTile<half>::stages)},
                   {},
                   ceil_div(kWideHeads, 8) * 8},
                  start<192, 192, true>(
                      accumulator,
                      [](const auto& a, auto /*d*/, const Stream& stream) {
                        launch_backward_transposed(a, stream);
                      })),
      float_rung(
          "17_split_tf32", "float32 on tensor cores, 3xTF32", false,
          {128,
           {backward_tiles<SplitBackwardTileFor<64>>(2),
            backward_tiles<SplitBackwardTileFor<128>>(1)},
           split_backward_bytes},
          start<32, 128>(nothing,
                         [](const auto& a, auto d, const Stream& stream) {
                           launch_backward_split_tf32<decltype(d)::value>(
                               a, stream);
                         }),
          kNeedsMma),
      hopper_rung(
          "18_block_pairs", "pairs of blocks share dQ", false,
          {192,
           {pair_tiles<192>(), pair_tiles<128>()},
           {},
           ceil_div(kWideHeads, 8) * 8},
          start<192, 192, true>(
              accumulator, [](const auto& a, auto d, const Stream& stream) {
                if (a.head_dim_v != a.head_dim) {
                  launch_backward_pairs<128>(a, stream);
                } else {
                  launch_backward_pairs<decltype(d)::value>(a, stream);
                }
              }))};
}

// Lesson 05's fastest kernels, from host tensors to host tensors.
template <class T>
flash::Outputs forward_of(const Problem& problem, const flash::Inputs& in) {
  const DeviceAttention<T> device(problem, in);
  launch_forward(device.a, Stream::of(nullptr));
  return device.outputs();
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
  Rung rung{{"dispatched",
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
  rung.supports_head_dim_v = true;
  return rung;
}

// The file of what is chosen for a problem on a device.
template <class T>
std::string chosen_rung(const Problem& problem, bool deterministic,
                        const DeviceProperties& device) {
  AttentionGradient<T> a{};
  static_cast<Attention<T>&>(a) = attention_of<T>(problem);
  a.d_o_strides = a.o_strides;
  a.d_q_strides = a.q_strides;
  a.d_k_strides = a.k_strides;
  a.d_v_strides = a.v_strides;
  return backward_rung(a, deterministic, device).name;
}

}  // namespace

/// This backend with all kernels of the lesson.
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
  result.rungs = ladder();
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
