/// @file
/// The Hopper rungs in float16 for the problems whose timelines are drawn. Compiled twice, without
/// stamps and with them: see common/gpu/stamps.hpp.
#pragma once

#include "05_flash_forward/kernels/09_wgmma.cuh"
#include "05_flash_forward/kernels/10_warp_specialized.cuh"
#include "05_flash_forward/kernels/11_overlap.cuh"
#include "05_flash_forward/kernels/12_ping_pong.cuh"
#include "05_flash_forward/kernels/13_persistent.cuh"
#include "05_flash_forward/kernels/14_lazy_rescaling.cuh"
#include "05_flash_forward/kernels/15_warpgroup_tiles.cuh"
#include "05_flash_forward/src/forward_rung.cuh"
#include "05_flash_forward/src/stamped.hpp"
#include "common/gpu/stamps.cuh"

namespace fa::FA_TARGET {

/// A backend with these rungs.
inline flash::stamped::Backend backend(const std::string&) {
  const auto rung = [](const char* name) { return forward_rung<half>(name, "").hopper(); };
  auto result = backend_with<flash::stamped::Backend>(
      "gpu",
      std::vector<flash::Rung>{
          // clang-format off
          rung("09_wgmma").launch([](auto& a, auto on) { launch_wgmma(a, on); }),
          rung("10_warp_specialized")
            .launch([](auto& a, auto on) { launch_warp_specialized(a, on); }),
          rung("11_overlap").launch([](auto& a, auto on) { launch_overlap(a, on); }),
          rung("12_ping_pong").launch([](auto& a, auto on) { launch_ping_pong(a, on); }),
          rung("13_persistent")
            .launch(TileCounterWorkspace{},
              [](auto& a, auto on) { launch_persistent(a, on, on.workspace); }),
          rung("14_lazy_rescaling")
            .launch(TileCounterWorkspace{},
              [](auto& a, auto on) { launch_lazy_rescaling(a, on, on.workspace); }),
          rung("15_warpgroup_tiles")
            .launch(TileCounterWorkspace{},
              [](auto& a, auto on) { launch_warpgroup_tiles<64>(a, on, on.workspace); }),
          // clang-format on
      });
  result.clear_stamps = clear_stamps;
  result.take_stamps = take_stamps;
  return result;
}

}  // namespace fa::FA_TARGET
