/// @file
/// The kernels of this lesson on one machine. Compiled once for each: see common/gpu/target.hpp.
#pragma once

#include <algorithm>
#include <memory>

#include "05_flash_forward/kernels/01_unfused.cuh"
#include "05_flash_forward/kernels/02_flash_1.cuh"
#include "05_flash_forward/kernels/03_flash_2.cuh"
#include "05_flash_forward/kernels/05_tensor_cores.cuh"
#include "05_flash_forward/kernels/06_swizzle.cuh"
#include "05_flash_forward/kernels/07_pipeline.cuh"
#include "05_flash_forward/kernels/09_wgmma.cuh"
#include "05_flash_forward/src/dispatch.cuh"
#include "05_flash_forward/src/on_device.cuh"

namespace fa::FA_TARGET {
namespace {  // one source file for each machine includes this

using flash::Rung;
using flash::Tiles;
using flash::Type;

// What a kernel takes at once whose blocks have block_m queries and go through keys, block_n at a time.
template <class Tile>
Tiles forward_tiles(int stages, bool persists = false) {
  return {Tile::block_m, Tile::block_n, 0, stages, Tile::d, persists};
}

// A rung, and for which forms of its tiles problems are to be chosen.
inline Rung with_tiles(Rung rung, const std::vector<Tiles>& tiles) {
  rung.tiles = tiles;
  return rung;
}

inline unsigned blocks(std::int64_t size, std::int64_t tile) {
  return static_cast<unsigned>(ceil_div(size, tile));
}

inline Rung unfused() {
  return {
      {"01_unfused",
       "three kernels, scores in global memory",
       {Type::kFloat32},
       256,
       true,
       8,
       {},
       {},
       {{kUnfusedTile, kUnfusedTile, 0, 1}}},
      [](const Problem& problem, const Inputs& in) {
        return prepare<float>(problem, in, [](const Attention<float>& a) {
          const auto heads = static_cast<unsigned>(a.batch * a.heads);
          const auto scores = std::make_shared<DeviceBuffer<float>>(
              std::int64_t{heads} * a.length_q * a.length_k);
          return [=] {
            const unsigned rows = blocks(a.length_q, kUnfusedTile);
            const Size block(kUnfusedTile, kUnfusedTile);
            launch(unfused_scores,
                   {{blocks(a.length_k, kUnfusedTile), rows, heads}, block},
                   a, scores->data());
            launch(unfused_probs,
                   {{blocks(a.length_q, 4), 1, heads}, {32, 4}}, a,
                   scores->data());
            launch(unfused_output,
                   {{blocks(a.head_dim, kUnfusedTile), rows, heads}, block},
                   a, scores->data());
          };
        });
      }};
}

inline Rung flash_1_rung() {
  return {{"02_flash_1",
           "outer loop over tiles of keys",
           {Type::kFloat32},
           128,
           true,
           8,
           {},
           {},
           {{kFlash1Queries, kFlash1Keys, 1, 1}}},
          [](const Problem& problem, const Inputs& in) {
            return prepare<float>(problem, in, [](const Attention<float>& a) {
              const auto running = std::make_shared<DeviceBuffer<float>>(
                  std::int64_t{a.batch} * a.heads * a.length_q * 2);
              return [=] {
                with_head_dim<32, 128>(a.head_dim, [&](auto d) {
                  launch(flash_1<decltype(d)::value>,
                         {{static_cast<unsigned>(a.heads),
                           static_cast<unsigned>(a.batch)},
                          {kFlash1Queries}},
                         a, running->data());
                });
              };
            });
          }};
}

inline Rung flash_2_rung() {
  return {{"03_flash_2",
           "one block per tile of queries",
           {Type::kFloat32},
           128,
           true,
           8,
           {},
           {},
           {{kFlash2Queries, kFlash2Keys, 0, 1}}},
          [](const Problem& problem, const Inputs& in) {
            return prepare<float>(problem, in, [](const Attention<float>& a) {
              return [=] {
                with_head_dim<32, 128>(a.head_dim, [&](auto d) {
                  launch(flash_2<decltype(d)::value>,
                         {{blocks(a.length_q, kFlash2Queries),
                           static_cast<unsigned>(a.heads),
                           static_cast<unsigned>(a.batch)},
                          {kFlash2Queries}},
                         a);
                });
              };
            });
          }};
}

inline Rung register_tiles() {
  return {
      {"04_register_tiles",
       "8 x 8 scores per lane",
       {Type::kFloat32},
       256,
       true,
       8,
       kNeedsCpAsync,
       [](std::int64_t head_dim) {
         return with_head_dim<32, 256>(head_dim, [](auto d) {
           return FloatTile<decltype(d)::value,
                            (decltype(d)::value > 32)>::shared_bytes;
         });
       },
       {forward_tiles<FloatTile<64>>(1), forward_tiles<FloatTile<256>>(1)}},
      [](const Problem& problem, const Inputs& in) {
        return prepare<float>(problem, in, [](const Attention<float>& a) {
          return [=] { launch_forward(a, Stream::of(nullptr)); };
        });
      }};
}

// A rung for both 16-bit types. `launch_kernel(attention)` has the head dimension from with_head_dim().
// Rungs without Hopper's instructions; `shared_bytes(head_dim)` is what a block has.
template <class Bytes, class Launch>
Rung sixteen_bit_rung(const char* name, const char* idea,
                      std::int64_t max_head_dim, Bytes shared_bytes,
                      Launch launch_kernel) {
  return {{name,
           idea,
           {Type::kFloat16, Type::kBFloat16},
           max_head_dim,
           true,
           8,
           kNeedsMma,
           shared_bytes},
          [=](const Problem& problem, const Inputs& in) {
            const auto start = [=](const auto& a) {
              return [=] { launch_kernel(a); };
            };
            return problem.type == Type::kFloat16
                       ? prepare<half>(problem, in, start)
                       : prepare<bfloat16>(problem, in, start);
          }};
}

// Type of the inputs of a kernel.
template <class T>
T type_of(const Attention<T>&);

// Rungs 05 to 07, which differ in their kernel and its stages, 0 without a pipeline. `kernel(d, zero)` gives the kernel for a head dimension
// and a type.
template <class Kernel>
Rung plain_tile_rung(const char* name, const char* idea, int stages,
                     Kernel kernel) {
  const auto shared_bytes = [=](std::int64_t head_dim) {
    return with_head_dim<64, 128>(head_dim, [&](auto d) {
      using Tile = PlainForwardTile<decltype(d)::value>;
      return stages == 0 ? plain_forward_bytes<Tile::d, half>()
                         : pipeline_bytes<Tile, half>();
    });
  };
  const Rung rung =
      sixteen_bit_rung(name, idea, 128, shared_bytes, [=](const auto& a) {
        using T = decltype(type_of(a));
        with_head_dim<64, 128>(a.head_dim, [&](auto d) {
          using Tile = PlainForwardTile<decltype(d)::value>;
          launch(kernel(d, T{}),
                 {grid_of(a, Tile::block_m),
                  {Tile::threads},
                  shared_bytes(a.head_dim),
                  stages},
                 a);
        });
      });
  return with_tiles(
      rung, {forward_tiles<PlainForwardTile<64>>(std::max(1, stages))});
}

inline std::vector<Rung> tensor_core_rungs() {
  return {
      plain_tile_rung(
          "05_tensor_cores", "P stays in registers", 0,
          [](auto d, auto zero) {
            return flash_tensor_cores<decltype(d)::value, decltype(zero)>;
          }),
      plain_tile_rung(
          "06_swizzle", "ldmatrix, no bank conflicts", 0,
          [](auto d, auto zero) {
            return flash_swizzle<decltype(d)::value, decltype(zero)>;
          }),
      plain_tile_rung(
          "07_pipeline", "cp.async pipeline", kPipelineStages,
          [](auto d, auto zero) {
            return flash_pipeline<decltype(d)::value, decltype(zero)>;
          }),
      with_tiles(
          sixteen_bit_rung(
              "08_edge_masks", "masks at the edge only, exp2", 256,
              [](std::int64_t head_dim) {
                return with_head_dim<32, 256>(head_dim, [](auto d) {
                  using Tile =
                      std::conditional_t<decltype(d)::value == 256,
                                         SmallEdgeMaskTile,
                                         EdgeMaskTile<decltype(d)::value>>;
                  return pipeline_bytes<Tile, half>();
                });
              },
              [](const auto& a) {
                sm_80_kernel(a).launch(Stream::of(nullptr), nullptr);
              }),
          {forward_tiles<EdgeMaskTile<64>>(kPipelineStages),
           forward_tiles<EdgeMaskTile<256>>(kPipelineStages)})};
}

// A rung with Hopper's instructions. `kernel(attention)` gives what launches it.
template <class Kernel>
Rung hopper_rung(const char* name, const char* idea,
                 std::int64_t max_head_dim, const std::vector<Tiles>& tiles,
                 Kernel kernel) {
  const auto start = [=](const auto& a) {
    return [work = kernel(a)] { work(Stream::of(nullptr)); };
  };
  return {{name,
           idea,
           {Type::kFloat16, Type::kBFloat16},
           max_head_dim,
           false,
           8,
           kNeedsHopper,
           {},
           tiles},
          [=](const Problem& problem, const Inputs& in) {
            return problem.type == Type::kFloat16
                       ? prepare<half>(problem, in, start)
                       : prepare<bfloat16>(problem, in, start);
          }};
}

// A launch of a persistent kernel with a tile counter of its own.
inline std::function<void(const Stream&)> with_tile_counter(
    PersistentLaunch launch) {
  const auto counter = std::make_shared<DeviceBuffer<unsigned>>(1);
  counter->zero();
  return [=](const Stream& stream) { launch(stream, counter->data()); };
}

// What rungs 09 to 14 take at once.
inline std::vector<Tiles> teaching_tiles(bool persists) {
  using Tile = LadderTile<half>;
  return {forward_tiles<Tile>(Tile::stages, persists)};
}

// Rungs 10 to 12, which differ in their kernel. `kernel(zero)` gives the kernel for a type.
template <class Kernel>
Rung specialized_rung(const char* name, const char* idea, Kernel kernel) {
  return hopper_rung(
      name, idea, 128, teaching_tiles(false), [=](const auto& a) {
        using T = decltype(type_of(a));
        using Tile = LadderTile<T>;
        return tma_launch<Tile>(a, kernel(T{}),
                                kWarpgroup * (Tile::consumers + 1),
                                sizeof(SpecializedShared<Tile>));
      });
}

inline std::vector<Rung> hopper_rungs() {
  return {
      hopper_rung("09_wgmma", "wgmma and TMA", 128,
                  teaching_tiles(false),
                  [](const auto& a) {
                    using T = decltype(type_of(a));
                    using Tile = LadderTile<T>;
                    return tma_launch<Tile>(a, flash_wgmma<Tile, T>,
                                            kWarpgroup * Tile::consumers,
                                            sizeof(WgmmaShared<Tile>));
                  }),
      specialized_rung("10_warp_specialized", "a producer warp",
                       [](auto zero) {
                         using T = decltype(zero);
                         return flash_warp_specialized<LadderTile<T>, T>;
                       }),
      specialized_rung("11_overlap", "softmax overlaps the matmuls",
                       [](auto zero) {
                         using T = decltype(zero);
                         return flash_overlap<LadderTile<T>, T>;
                       }),
      specialized_rung("12_ping_pong", "ping-pong warpgroup scheduling",
                       [](auto zero) {
                         using T = decltype(zero);
                         return flash_ping_pong<LadderTile<T>, T>;
                       }),
      hopper_rung("13_persistent", "dynamic tile scheduler", 128,
                  teaching_tiles(true),
                  [](const auto& a) {
                    using T = decltype(type_of(a));
                    using Tile = LadderTile<T>;
                    return with_tile_counter(persistent_launch<Tile>(
                        a, flash_persistent<Tile, T>));
                  }),
      hopper_rung("14_lazy_rescaling", "lazy rescaling", 128,
                  teaching_tiles(true),
                  [](const auto& a) {
                    using T = decltype(type_of(a));
                    using Tile = LadderTile<T>;
                    return with_tile_counter(persistent_launch<Tile>(
                        a, flash_lazy_rescaling<Tile, T>));
                  }),
      hopper_rung("15_warpgroup_tiles", "skip masked tiles per warpgroup", 256,
                  {forward_tiles<WarpgroupTilesTile<half, 64>>(
                       WarpgroupTilesTile<half, 64>::stages, true),
                   forward_tiles<WarpgroupTilesTile<half, 256>>(
                       WarpgroupTilesTile<half, 256>::stages, true)},
                  [](const auto& a) {
                    using T = decltype(type_of(a));
                    return with_head_dim<64, 256>(a.head_dim, [&](auto d) {
                      using Tile = WarpgroupTilesTile<T, decltype(d)::value>;
                      return with_tile_counter(persistent_launch<Tile>(
                          a, flash_warpgroup_tiles<Tile, T>));
                    });
                  })};
}

// Calls work(attention) with the attention of a problem, without pointers.
template <class Work>
auto with_type(const Problem& problem, Work work) {
  switch (problem.type) {
    case Type::kFloat16:
      return work(attention_of<half>(problem));
    case Type::kBFloat16:
      return work(attention_of<bfloat16>(problem));
    default:
      return work(attention_of<float>(problem));
  }
}

// What is chosen for a device.
inline Rung dispatched_rung(const DeviceProperties& device) {
  return {{"dispatched",
           "",
           {Type::kFloat32, Type::kFloat16, Type::kBFloat16},
           256},
          [=](const Problem& problem, const Inputs& in) {
            return with_type(problem, [&](const auto& of) {
              using T = decltype(type_of(of));
              return prepare<T>(problem, in, [=](const Attention<T>& a) {
                return [=] {
                  forward_kernel(a, device).launch(Stream::of(nullptr),
                                                   nullptr);
                };
              });
            });
          }};
}

}  // namespace

/// This machine with all kernels of the lesson.
inline flash::Backend backend(const std::string& kind) {
  flash::Backend result{backend_base(kind), {}, {}, dispatched_rung};
  result.chosen = [](const Problem& problem, const DeviceProperties& device) {
    return with_type(problem, [&](const auto& a) {
      return std::string(forward_kernel(a, device).name);
    });
  };
  result.rungs = {unfused(), flash_1_rung(), flash_2_rung(),
                  register_tiles()};
  for (const Rung& rung : tensor_core_rungs()) result.rungs.push_back(rung);
  for (const Rung& rung : hopper_rungs()) result.rungs.push_back(rung);
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
  return result;
}

}  // namespace fa::FA_TARGET
