/// @file
/// The Hopper rungs in float16 for the problems whose timelines are drawn. Compiled twice, without
/// stamps and with them: see common/gpu/stamps.hpp.
#pragma once

#include <memory>

#include "05_flash_forward/kernels/09_wgmma.cuh"
#include "05_flash_forward/kernels/10_warp_specialized.cuh"
#include "05_flash_forward/kernels/11_overlap.cuh"
#include "05_flash_forward/kernels/12_ping_pong.cuh"
#include "05_flash_forward/kernels/13_persistent.cuh"
#include "05_flash_forward/kernels/14_lazy_rescaling.cuh"
#include "05_flash_forward/kernels/15_warpgroup_tiles.cuh"
#include "05_flash_forward/src/on_device.cuh"
#include "05_flash_forward/src/stamped.hpp"
#include "common/gpu/stamps.cuh"

namespace fa::FA_TARGET {
namespace {  // one source file for each backend includes this

// A rung: launch(a, stream, tile_counter).
template <class Launch>
flash::Rung stamped_rung(const char* name, Launch launch_rung) {
  flash::Rung rung{};
  rung.name = name;
  rung.prepare = [=](const Problem& problem, const Inputs& in) {
    return prepare<half>(problem, in, [=](const auto& a) {
      const auto counter = std::make_shared<DeviceBuffer<unsigned>>(1);
      counter->zero();
      return [=] { launch_rung(a, Stream::of(nullptr), counter->data()); };
    });
  };
  return rung;
}

}  // namespace

/// A backend with these rungs.
inline flash::stamped::Backend backend(const std::string&) {
  flash::stamped::Backend result;
  static_cast<BackendBase&>(result) = backend_base("gpu");
  result.clear_stamps = clear_stamps;
  result.take_stamps = take_stamps;
  result.rungs = {
      stamped_rung("09_wgmma", [](const auto& a, const auto& stream,
                                  unsigned*) { launch_wgmma(a, stream); }),
      stamped_rung("10_warp_specialized",
                   [](const auto& a, const auto& stream, unsigned*) {
                     launch_warp_specialized(a, stream);
                   }),
      stamped_rung("11_overlap",
                   [](const auto& a, const auto& stream, unsigned*) {
                     launch_overlap(a, stream);
                   }),
      stamped_rung("12_ping_pong",
                   [](const auto& a, const auto& stream, unsigned*) {
                     launch_ping_pong(a, stream);
                   }),
      stamped_rung("13_persistent",
                   [](const auto& a, const auto& stream, unsigned* counter) {
                     launch_persistent(a, stream, counter);
                   }),
      stamped_rung("14_lazy_rescaling",
                   [](const auto& a, const auto& stream, unsigned* counter) {
                     launch_lazy_rescaling(a, stream, counter);
                   }),
      stamped_rung("15_warpgroup_tiles",
                   [](const auto& a, const auto& stream, unsigned* counter) {
                     launch_warpgroup_tiles<64>(a, stream, counter);
                   }),
  };
  return result;
}

}  // namespace fa::FA_TARGET
