/// @file
/// The Hopper rungs in float16 for the problems whose timelines are drawn. Compiled twice, without
/// stamps and with them: see common/gpu/stamps.hpp.
#pragma once

#include "06_flash_backward/kernels/08_wgmma.cuh"
#include "06_flash_backward/kernels/09_warp_specialized.cuh"
#include "06_flash_backward/kernels/10_delayed_dq.cuh"
#include "06_flash_backward/kernels/11_ordered_dq.cuh"
#include "06_flash_backward/kernels/12_store_then_reduce.cuh"
#include "06_flash_backward/kernels/13_wide_heads.cuh"
#include "06_flash_backward/kernels/16_transposed_gradients.cuh"
#include "06_flash_backward/src/gradient_rung.cuh"
#include "06_flash_backward/src/stamped.hpp"
#include "common/gpu/stamps.cuh"

namespace fa::FA_TARGET {
/// A backend with these rungs.
inline backward::stamped::Backend backend(const std::string&) {
  const auto rung = [](const char* name) {
    return gradient_rung<half>(name, "").columns(kAny<128>).hopper();
  };
  const auto wide = [](const char* name) {
    return gradient_rung<half>(name, "").from(kWideHeads).hopper();
  };
  constexpr RowStatistics<false> statistics{};
  constexpr DqAccumulator sums{};
  constexpr DqSemaphores semaphores{};
  auto result = backend_with<backward::stamped::Backend>(
      "gpu",
      std::vector<Rung>{
          // clang-format off
          rung("08_wgmma")
            .launch(sums, [](auto& a, auto on) { launch_backward_wgmma<on.d>(a, on); }),
          rung("09_warp_specialized")
            .launch(sums, [](auto& a, auto on) { launch_backward_warp_specialized<on.d>(a, on); }),
          rung("10_delayed_dq")
            .launch(sums, [](auto& a, auto on) { launch_backward_delayed_dq<on.d>(a, on); }),
          rung("11_ordered_dq")
            .launch(semaphores, [](auto& a, auto on) { launch_backward_ordered_dq<on.d>(a, on); }),
          rung("12_store_then_reduce")
            .launch(semaphores,
              [](auto& a, auto on) { launch_backward_store_then_reduce<on.d>(a, on); }),
          wide("13_wide_heads")
            .launch(statistics, [](auto& a, auto on) { launch_backward_wide_heads<on.d>(a, on); }),
          wide("16_transposed_gradients").columns(kAny<kTransposedColumns>)
            .launch(sums, [](auto& a, auto on) { launch_backward_transposed(a, on); }),
          // clang-format on
      });
  result.clear_stamps = clear_stamps;
  result.take_stamps = take_stamps;
  return result;
}

}  // namespace fa::FA_TARGET
