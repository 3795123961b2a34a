/// @file
/// The table of this lesson's kernels on one backend. Compiled once for each: see
/// common/gpu/target.hpp.
#pragma once

#include "04_tiled_matmul/src/step_row.cuh"
#include "steps/tiled.cuh"

namespace fa::FA_TARGET {
namespace {  // one source file for each backend includes this

template <int... before>
std::vector<TiledRow> tiled_steps(std::integer_sequence<int, before...>) {
  return {tiled_step(std::integral_constant<int, before + 1>{}, TiledRow{})...};
}

}  // namespace

/// This backend with all kernels of the lesson that it can run.
inline tiled::Backend backend(const std::string& kind) {
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
