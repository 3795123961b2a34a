/// @file
/// What the watched lab sees of a kernel of this lesson.
#pragma once

#include "04_tiled_matmul/machine.hpp"
#include "common/lab/trace.hpp"

namespace fa::tiled {

/// Runs a kernel of the machine "watched" and watches it; none where this build has no watched lab.
/// @param group  of that machine
/// @param kernel of that group
/// @param inputs its inputs
inline std::optional<lab::Trace> trace(const Group& group,
                                       const Kernel& kernel,
                                       const Inputs& inputs) {
  lab::TraceName name{kernel.name, group.title, {}};
  for (const auto& input : inputs) {
    name.inputs.push_back({input.size(0), input.size(1)});
  }
  return lab::trace(name, [&] {
    const Prepared prepared = kernel.prepare(inputs);
    prepared.launch();
    prepared.result();
  });
}

}  // namespace fa::tiled
