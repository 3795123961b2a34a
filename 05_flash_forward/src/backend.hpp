/// @file
/// The kernels of this lesson as the program and the tests see them: from host tensors to host tensors, on each
/// machine that this build knows.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "05_flash_forward/src/problem.hpp"
#include "common/gpu/backend.hpp"

namespace fa::flash {

/// A kernel with its inputs in the memory of the device.
struct Prepared {
  std::function<void()> launch;     ///< runs it once
  std::function<Outputs()> result;  ///< its outputs, on the host
  std::int64_t extra_bytes = 0;     ///< memory beside inputs and outputs
};

/// What a kernel takes at once. watched_problems() goes by it.
struct Tiles {
  std::int64_t queries = 1;  ///< of a tile
  std::int64_t keys = 1;     ///< of a tile
  std::int64_t query_stages =
      0;  ///< in shared memory, where a block goes through tiles of queries; else 0
  std::int64_t key_stages =
      0;  ///< in shared memory, where a block goes through tiles of keys; else 0
  std::int64_t head_dim = 64;  ///< columns that it is compiled for
  bool persists = false;  ///< blocks take one tile of queries after the other
};

/// What a rung of a ladder is and takes.
struct RungInfo {
  std::string name;               ///< of the file in kernels/
  std::string idea;               ///< what is new, in a few words
  std::vector<Type> types;        ///< of the inputs that it takes
  std::int64_t max_head_dim;      ///< the largest that it takes
  bool supports_dropout = true;   ///< whether it can drop weights
  std::int64_t min_head_dim = 8;  ///< the smallest that it takes
  Needs needs{};                  ///< of a GPU, beside shared memory
  /// Shared memory of a block for a head dimension; null where every GPU has enough.
  std::function<std::size_t(std::int64_t)> shared_bytes{};
  /// For each head_dim whose tiles are of another form.
  std::vector<Tiles> tiles{};

  /// The head dimension that it takes and that is nearest to another one.
  std::int64_t head_dim_near(std::int64_t head_dim) const;
  /// Whether it takes a problem.
  bool supports(const Problem& problem) const;
  /// @throws std::invalid_argument with one sentence when it does not
  void check(const Problem& problem) const;
  /// Lowers max_head_dim to what a device can run, or below min_head_dim.
  /// @return a sentence that says why; empty when nothing was changed
  std::string fit(const DeviceProperties& device);
};

/// Takes from a ladder what a device cannot run.
/// @return a sentence for each rung that was changed or is gone
template <class Rung>
std::vector<std::string> fit_ladder(std::vector<Rung>& rungs,
                                    const DeviceProperties& device) {
  std::vector<std::string> left_out;
  std::vector<Rung> fitting;
  for (Rung& rung : rungs) {
    const std::string why = rung.fit(device);
    if (!why.empty()) left_out.push_back(why);
    if (rung.min_head_dim <= rung.max_head_dim) fitting.push_back(rung);
  }
  rungs = std::move(fitting);
  return left_out;
}

/// One rung of this lesson's ladder.
struct Rung : RungInfo {
  /// Copies inputs to the device. A tensor with one head of one sequence stands for all of them.
  /// @throws std::invalid_argument for what the rung does not take, and for tensors of other sizes
  std::function<Prepared(const Problem&, const Inputs&)> prepare;
};

/// What runs kernels.
struct Backend : BackendBase {
  std::vector<Rung> rungs;  ///< the lesson's kernels on it
  /// The file of the kernel that the C interface chooses for a problem on a device.
  std::function<std::string(const Problem&, const DeviceProperties&)> chosen;
  /// What is chosen for a device, as a rung on this machine.
  std::function<Rung(const DeviceProperties&)> dispatched;
};

/// A machine's rung.
/// @param machine that has it
/// @param name    of its file
/// @throws std::logic_error when there is none
const Rung& find_rung(const Backend& backend, const std::string& name);

/// The machines of this build: the lab first.
std::vector<Backend> backends();

}  // namespace fa::flash
