/// @file
/// The backend that a lesson's kernels are compiled for.
#pragma once

#include <functional>
#include <string>

#include "common/gpu/backend.hpp"
#include "common/gpu/launch.cuh"

namespace fa::FA_TARGET {

/// The backend that this is compiled for.
inline BackendBase backend_base(const std::string& kind) {
  BackendBase result;
  result.kind = kind;
  result.available = device_available();
  if (result.available) result.properties = device_properties();
  result.milliseconds = [](const std::function<void()>& work, int repeats) {
    return median_milliseconds(work, repeats);
  };
  result.resources = resources_of;
  return result;
}

}  // namespace fa::FA_TARGET
