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
#include "06_flash_backward/src/on_device.cuh"
#include "06_flash_backward/src/stamped.hpp"
#include "common/gpu/stamps.cuh"

namespace fa::FA_TARGET {
namespace {  // one source file for each backend includes this

// A rung with a workspace: launch(a, stream).
template <class Launch>
Rung stamped_rung(const char* name, const Workspace& what, int min_head_dim,
                  int max_head_dim, Launch launch_rung) {
  Rung rung{};
  rung.name = name;
  rung.min_head_dim = min_head_dim;
  rung.max_head_dim = max_head_dim;
  rung.prepare = [=](const Problem& problem, const Inputs& in) {
    return prepare<half>(problem, in, [=](const auto& of) {
      return with_workspace(of, what, [=](const auto& a) {
        launch_rung(a, Stream::of(nullptr));
      });
    });
  };
  return rung;
}

}  // namespace

/// A backend with these rungs.
inline backward::stamped::Backend backend(const std::string&) {
  backward::stamped::Backend result;
  static_cast<BackendBase&>(result) = backend_base("gpu");
  result.clear_stamps = clear_stamps;
  result.take_stamps = take_stamps;
  constexpr int d = 128, wide = ceil_div(kWideHeads, 8) * 8;
  const Workspace sums{d, false}, semaphores{d, true};
  result.rungs = {
      stamped_rung("08_wgmma", sums, 8, d,
                   [](const auto& a, const auto& stream) {
                     launch_backward_wgmma<d>(a, stream);
                   }),
      stamped_rung("09_warp_specialized", sums, 8, d,
                   [](const auto& a, const auto& stream) {
                     launch_backward_warp_specialized<d>(a, stream);
                   }),
      stamped_rung("10_delayed_dq", sums, 8, d,
                   [](const auto& a, const auto& stream) {
                     launch_backward_delayed_dq<d>(a, stream);
                   }),
      stamped_rung("11_ordered_dq", semaphores, 8, d,
                   [](const auto& a, const auto& stream) {
                     launch_backward_ordered_dq<d>(a, stream);
                   }),
      stamped_rung("12_store_then_reduce", semaphores, 8, d,
                   [](const auto& a, const auto& stream) {
                     launch_backward_store_then_reduce<d>(a, stream);
                   }),
      stamped_rung("13_wide_heads", {}, wide, 256,
                   [](const auto& a, const auto& stream) {
                     launch_backward_wide_heads<256>(a, stream);
                   }),
      stamped_rung("16_transposed_gradients", {kTransposedColumns}, wide,
                   kTransposedColumns,
                   [](const auto& a, const auto& stream) {
                     launch_backward_transposed(a, stream);
                   }),
  };
  return result;
}

}  // namespace fa::FA_TARGET
