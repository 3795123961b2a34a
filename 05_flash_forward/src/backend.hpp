/// @file
/// The kernels of this lesson as the program and the tests see them: from host tensors to host
/// tensors, on each backend that this build has.
#pragma once

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "05_flash_forward/src/checker.hpp"
#include "common/attention/host/step.hpp"
#include "common/cli/timelines.hpp"

namespace fa::flash {

/// One step of this lesson's ladder.
using LadderStep = attention::LadderStep<Inputs, Outputs>;

/// What runs kernels.
struct Backend : LadderBackend<LadderStep> {
  /// The file of the kernel that the C interface chooses for a problem on a device.
  std::function<std::string(const Problem&, const DeviceProperties&)> chosen;
  /// The kernel that is chosen for a device, as a step of this backend.
  std::function<LadderStep(const DeviceProperties&)> dispatched;
};

/// The backends of this build: the lab first.
std::vector<Backend> backends();

/// The steps with a timeline, see stamped.cuh.
namespace stamped {
/// What runs them, on a GPU.
using Backend = cli::StampedBackend<flash::Backend>;
/// Without stamps, and with them.
std::vector<Backend> backends();
}  // namespace stamped

/// The forward pass for lesson 06: the kernel that is chosen on the backend of a kind.
/// @throws std::invalid_argument without such a backend, and as LadderStep::prepare
inline Outputs dispatched_forward(const std::string& kind, const Problem& problem,
                                  const Inputs& inputs) {
  static const std::vector<Backend> all = backends();
  const auto used = std::find_if(all.begin(), all.end(),
                                 [&](const Backend& backend) { return backend.kind == kind; });
  if (used == all.end()) throw std::invalid_argument("no backend is of the kind " + kind);
  return used->dispatched(used->properties).run(problem, inputs);
}

}  // namespace fa::flash
