/// @file
/// The kernels of this lesson as the program and the tests see them: from host tensors to host
/// tensors, on each backend of this build.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "06_flash_backward/src/problem.hpp"
#include "common/attention/host/step.hpp"
#include "common/cli/timelines.hpp"

namespace fa::backward {

/// One step of this lesson's ladder.
using LadderStep = attention::LadderStep<Inputs, Gradients>;

/// What runs kernels.
struct Backend : LadderBackend<LadderStep> {
  /// The fastest kernels of lesson 05: o and lse for q, k and v of the problem's type.
  /// @throws std::invalid_argument as LadderStep::prepare
  std::function<Outputs(const Problem&, const attention::Inputs&)> forward;
  /// The file of the kernels that the C interface chooses for a problem on a device, deterministic
  /// or not.
  std::function<std::string(const Problem&, bool deterministic, const DeviceProperties&)> chosen;
  /// What is chosen for a device, as a step on this backend.
  std::function<LadderStep(bool deterministic, const DeviceProperties&)> dispatched;
};

/// The backends of this build: the lab first.
std::vector<Backend> backends();

/// The steps with a timeline, see stamped.cuh.
namespace stamped {
/// What runs them, on a GPU.
using Backend = cli::StampedBackend<backward::Backend>;
/// Without stamps, and with them.
std::vector<Backend> backends();
}  // namespace stamped

}  // namespace fa::backward
