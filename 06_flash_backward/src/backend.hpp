/// @file
/// The kernels of this lesson as the program and the tests see them: from host tensors to host
/// tensors, on each backend of this build.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "05_flash_forward/src/backend.hpp"
#include "06_flash_backward/src/problem.hpp"

namespace fa::backward {

/// A rung with its inputs in the memory of the device.
struct Prepared {
  std::function<void()> launch;       ///< runs all its kernels once
  std::function<Gradients()> result;  ///< on the host
  std::int64_t extra_bytes = 0;       ///< memory beside inputs and gradients
};

/// One rung of this lesson's ladder.
struct Rung : flash::RungInfo {
  bool same_bits;  ///< whether every run gives the same
  /// Copies inputs to the device. Tensors with one head of one sequence stand for all of them.
  /// @throws std::invalid_argument for what the rung does not take, and for tensors of other sizes
  std::function<Prepared(const Problem&, const Inputs&)> prepare;
};

/// What runs kernels.
struct Backend : BackendBase {
  std::vector<Rung> rungs;  ///< the lesson's kernels on it
  /// The fastest kernels of lesson 05: o and lse for q, k and v of the problem's type.
  /// @throws std::invalid_argument as Rung::prepare
  std::function<flash::Outputs(const Problem&, const flash::Inputs&)> forward;
  /// The file of the kernels that the C interface chooses for a problem on a device, deterministic
  /// or not.
  std::function<std::string(const Problem&, bool deterministic,
                            const DeviceProperties&)>
      chosen;
  /// What is chosen for a device, as a rung on this backend.
  std::function<Rung(bool deterministic, const DeviceProperties&)> dispatched;
};

/// The backends of this build: the lab first.
std::vector<Backend> backends();

}  // namespace fa::backward
