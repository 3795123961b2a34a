/// @file
/// The ladder of this lesson as a table, on one backend. Compiled once for each: see
/// common/gpu/target.hpp.
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
#include "05_flash_forward/kernels/10_warp_specialized.cuh"
#include "05_flash_forward/kernels/11_overlap.cuh"
#include "05_flash_forward/kernels/12_ping_pong.cuh"
#include "05_flash_forward/kernels/13_persistent.cuh"
#include "05_flash_forward/src/dispatch.cuh"
#include "05_flash_forward/src/on_device.cuh"

namespace fa::FA_TARGET {
namespace {  // one source file for each backend includes this

using flash::Rung;
using flash::Tiles;
using flash::Type;

// What prepares a rung: `start(a)` allocates its workspace and returns what launches it.
template <class Start>
auto in_float32(Start start) {
  return [=](const Problem& problem, const Inputs& in) {
    return prepare<float>(problem, in, start);
  };
}
template <class Start>
auto in_16_bits(Start start) {
  return [=](const Problem& problem, const Inputs& in) {
    return problem.type == Type::kFloat16
               ? prepare<half>(problem, in, start)
               : prepare<bfloat16>(problem, in, start);
  };
}

// The `start` of a rung without a workspace: launch(a, stream).
template <class Launch>
auto plain(Launch launch_rung) {
  return [=](const auto& a) {
    return [=] { launch_rung(a, Stream::of(nullptr)); };
  };
}
// With a workspace of `size(a)` floats: launch(a, stream, workspace).
template <class Count, class Launch>
auto with_floats(Count size, Launch launch_rung) {
  return [=](const auto& a) {
    const auto workspace = std::make_shared<DeviceBuffer<float>>(size(a));
    return [=] { launch_rung(a, Stream::of(nullptr), workspace->data()); };
  };
}
// With a tile counter: launch(a, stream, tile_counter).
template <class Launch>
auto with_tile_counter(Launch launch_rung) {
  return [=](const auto& a) {
    const auto counter = std::make_shared<DeviceBuffer<unsigned>>(1);
    counter->zero();
    return [=] { launch_rung(a, Stream::of(nullptr), counter->data()); };
  };
}

// Tiles of blocks that own a tile of queries and iterate over tiles of keys.
template <class Tile>
Tiles forward_tiles(int stages, bool persists = false) {
  return {Tile::block_m, Tile::block_n, 0, stages, Tile::d, persists};
}

// Those of rung 15 with fewer columns of V than of K.
inline Tiles latent_tiles() {
  Tiles tiles = forward_tiles<HopperTileFor<half, 192, 128>>(2, true);
  tiles.head_dim_v = 128;
  return tiles;
}

// Shared memory of a block, by head dimension: `bytes(std::integral_constant<int, d>)`.
template <int least, int most, class Bytes>
auto by_head_dim(Bytes bytes) {
  return [=](std::int64_t head_dim) -> std::size_t {
    return with_head_dim<least, most>(head_dim, bytes);
  };
}

// The ladder: name and idea, types, largest head_dim, dropout, smallest head_dim, what a GPU needs,
// shared memory, tiles; launch function.
inline std::vector<Rung> ladder() {
  const std::vector<Type> float32{Type::kFloat32};
  const std::vector<Type> sixteen_bit{Type::kFloat16, Type::kBFloat16};
  constexpr bool kDropout = true, kNoDropout = false;
  const auto float_tile_bytes = by_head_dim<32, 256>([](auto head_dim) {
    constexpr int d = decltype(head_dim)::value;
    return FloatTile<d, (d > 32)>::shared_bytes;
  });
  const auto plain_tile_bytes = by_head_dim<64, 128>([](auto head_dim) {
    return plain_forward_bytes<decltype(head_dim)::value, half>();
  });
  const auto two_stage_bytes = by_head_dim<64, 128>([](auto head_dim) {
    constexpr int d = decltype(head_dim)::value;
    return pipeline_bytes<PlainForwardTile<d>, half>();
  });
  const auto small_tile_bytes = by_head_dim<32, 256>([](auto head_dim) {
    constexpr int d = decltype(head_dim)::value;
    return pipeline_bytes<
        std::conditional_t<d == 256, SmallForwardTile256, ForwardTileFor<d>>,
        half>();
  });
  const auto split_tile_bytes = by_head_dim<32, 128>([](auto head_dim) {
    return pipeline_bytes<SplitForwardTile<decltype(head_dim)::value>,
                          float>();
  });
  return {
      {{"01_unfused",
        "three kernels, scores in global memory",
        float32,
        256,
        kDropout,
        8,
        Needs{},
        nullptr,
        {{kUnfusedTile, kUnfusedTile, 0, 1}}},
       in_float32(with_floats(unfused_workspace, launch_unfused))},
      {{"02_flash_1",
        "outer loop over tiles of keys",
        float32,
        128,
        kDropout,
        8,
        Needs{},
        nullptr,
        {{kFlash1Queries, kFlash1Keys, 1, 1}}},
       in_float32(with_floats(flash_1_workspace, launch_flash_1))},
      {{"03_flash_2",
        "one block per tile of queries",
        float32,
        128,
        kDropout,
        8,
        Needs{},
        nullptr,
        {{kFlash2Queries, kFlash2Keys, 0, 1}}},
       in_float32(plain(launch_flash_2))},
      {{"04_register_tiles",
        "8 x 8 scores per lane",
        float32,
        256,
        kDropout,
        8,
        kNeedsCpAsync,
        float_tile_bytes,
        {forward_tiles<FloatTile<64>>(1), forward_tiles<FloatTile<256>>(1)}},
       in_float32(plain([](const auto& a, const auto& stream) {
         register_tiles_kernel(a).launch(stream, nullptr);
       }))},
      {{"05_tensor_cores",
        "P stays in registers",
        sixteen_bit,
        128,
        kDropout,
        8,
        kNeedsMma,
        plain_tile_bytes,
        {forward_tiles<PlainForwardTile<64>>(1)}},
       in_16_bits(plain([](const auto& a, const auto& stream) {
         launch_tensor_cores(a, stream);
       }))},
      {{"06_swizzle",
        "ldmatrix, no bank conflicts",
        sixteen_bit,
        128,
        kDropout,
        8,
        kNeedsMma,
        plain_tile_bytes,
        {forward_tiles<PlainForwardTile<64>>(1)}},
       in_16_bits(plain([](const auto& a, const auto& stream) {
         launch_swizzle(a, stream);
       }))},
      {{"07_pipeline",
        "cp.async pipeline",
        sixteen_bit,
        128,
        kDropout,
        8,
        kNeedsMma,
        two_stage_bytes,
        {forward_tiles<PlainForwardTile<64>>(kPipelineStages)}},
       in_16_bits(plain([](const auto& a, const auto& stream) {
         launch_pipeline(a, stream);
       }))},
      {{"08_edge_masks",
        "masks at the edge only, exp2",
        sixteen_bit,
        256,
        kDropout,
        8,
        kNeedsMma,
        small_tile_bytes,
        {forward_tiles<ForwardTileFor<64>>(kPipelineStages),
         forward_tiles<ForwardTileFor<256>>(kPipelineStages)}},
       in_16_bits(plain([](const auto& a, const auto& stream) {
         sm_80_kernel(a).launch(stream, nullptr);
       }))},
      {{"09_wgmma",
        "wgmma and TMA",
        sixteen_bit,
        128,
        kNoDropout,
        8,
        kNeedsHopper,
        nullptr,
        {forward_tiles<HopperTile128<half>>(2)}},
       in_16_bits(plain([](const auto& a, const auto& stream) {
         launch_wgmma(a, stream);
       }))},
      {{"10_warp_specialized",
        "a producer warpgroup",
        sixteen_bit,
        128,
        kNoDropout,
        8,
        kNeedsHopper,
        nullptr,
        {forward_tiles<HopperTile128<half>>(2)}},
       in_16_bits(plain([](const auto& a, const auto& stream) {
         launch_warp_specialized(a, stream);
       }))},
      {{"11_overlap",
        "softmax overlaps the matmuls",
        sixteen_bit,
        128,
        kNoDropout,
        8,
        kNeedsHopper,
        nullptr,
        {forward_tiles<HopperTile128<half>>(2)}},
       in_16_bits(plain([](const auto& a, const auto& stream) {
         launch_overlap(a, stream);
       }))},
      {{"12_ping_pong",
        "ping-pong warpgroup scheduling",
        sixteen_bit,
        128,
        kNoDropout,
        8,
        kNeedsHopper,
        nullptr,
        {forward_tiles<HopperTile128<half>>(2)}},
       in_16_bits(plain([](const auto& a, const auto& stream) {
         launch_ping_pong(a, stream);
       }))},
      {{"13_persistent",
        "dynamic tile scheduler",
        sixteen_bit,
        128,
        kNoDropout,
        8,
        kNeedsHopper,
        nullptr,
        {forward_tiles<HopperTile128<half>>(2, true)}},
       in_16_bits(with_tile_counter(
           [](const auto& a, const auto& stream, auto* counter) {
             launch_persistent(a, stream, counter);
           }))},
      {{"14_lazy_rescaling",
        "lazy rescaling",
        sixteen_bit,
        128,
        kNoDropout,
        8,
        kNeedsHopper,
        nullptr,
        {forward_tiles<HopperTile128<half>>(2, true)}},
       in_16_bits(with_tile_counter(
           [](const auto& a, const auto& stream, auto* counter) {
             launch_lazy_rescaling(a, stream, counter);
           }))},
      {{"15_warpgroup_tiles",
        "skip masked tiles per warpgroup",
        sixteen_bit,
        256,
        kNoDropout,
        8,
        kNeedsHopper,
        nullptr,
        {forward_tiles<HopperTileFor<half, 64>>(3, true),
         forward_tiles<HopperTileFor<half, 96>>(2, true),
         forward_tiles<HopperTileFor<half, 192>>(2, true),
         forward_tiles<HopperTileFor<half, 256>>(2, true), latent_tiles()},
        true},
       in_16_bits(with_tile_counter(
           [](const auto& a, const auto& stream, auto* counter) {
             if (a.head_dim_v != a.head_dim) {
               launch_warpgroup_tiles<192, 128>(a, stream, counter);
               return;
             }
             with_tma_head_dim<64, 256>(a.head_dim, [&](auto d) {
               launch_warpgroup_tiles<decltype(d)::value>(a, stream, counter);
             });
           }))},
      {{"16_mirrored_tiles",
        "mirrored tiles for small problems",
        sixteen_bit,
        256,
        kNoDropout,
        8,
        kNeedsHopper,
        nullptr,
        {forward_tiles<MirroredTile<half, 64>>(3),
         forward_tiles<MirroredTile<half, 256>>(2)}},
       in_16_bits(plain([](const auto& a, const auto& stream) {
         with_head_dim<64, 256>(a.head_dim, [&](auto d) {
           launch_mirrored_tiles<decltype(d)::value>(a, stream);
         });
       }))},
      {{"17_split_tf32",
        "float32 on tensor cores, 3xTF32",
        float32,
        128,
        kDropout,
        8,
        kNeedsMma,
        split_tile_bytes,
        {forward_tiles<SplitForwardTile<64>>(kPipelineStages),
         forward_tiles<SplitForwardTile<128>>(kPipelineStages)}},
       in_float32(plain([](const auto& a, const auto& stream) {
         with_head_dim<32, 128>(a.head_dim, [&](auto d) {
           launch_split_tf32<SplitForwardTile<decltype(d)::value>>(a, stream);
         });
       }))},
  };
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

// The kernel that is chosen for a device, as a rung of this backend.
inline Rung dispatched_rung(const DeviceProperties& device) {
  const auto chosen = plain([=](const auto& a, const auto& stream) {
    forward_kernel(a, device).launch(stream, nullptr);
  });
  Rung rung{{"dispatched",
             "",
             {Type::kFloat32, Type::kFloat16, Type::kBFloat16},
             256},
            [=](const Problem& problem, const Inputs& in) {
              return problem.type == Type::kFloat32
                         ? in_float32(chosen)(problem, in)
                         : in_16_bits(chosen)(problem, in);
            }};
  rung.supports_head_dim_v = true;
  return rung;
}

}  // namespace

/// A backend with all kernels of the lesson.
inline flash::Backend backend(const std::string& kind) {
  flash::Backend result{backend_base(kind), ladder(), {}, dispatched_rung};
  result.chosen = [](const Problem& problem, const DeviceProperties& device) {
    return with_type(problem, [&](const auto& a) {
      return std::string(forward_kernel(a, device).name);
    });
  };
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
