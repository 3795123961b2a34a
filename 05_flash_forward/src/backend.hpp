/// @file
/// The kernels of this lesson as the program and the tests see them: from host tensors to host
/// tensors, on each backend that this build has.
#pragma once

#include <functional>
#include <optional>
#include <stdexcept>
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

/// The tiles of a kernel, from which watched_problems() chooses its problems.
struct Tiles {
  std::int64_t queries = 1;
  std::int64_t keys = 1;
  // Stages in shared memory; 0 where a block has one tile of queries, or of
  // keys, and does not iterate over them.
  std::int64_t query_stages = 0;
  std::int64_t key_stages = 0;
  std::int64_t head_dim = 64;  ///< columns that the kernel is compiled for
  bool persists = false;       ///< persistent blocks
  std::optional<std::int64_t> head_dim_v{};  ///< as in Problem
  int cluster = 1;                           ///< blocks of a cluster
};

/// A rung of a ladder, and the problems that it supports.
struct RungInfo {
  std::string name;         ///< of the file in kernels/
  std::string idea;         ///< the technique, in a few words
  std::vector<Type> types;  ///< of the inputs
  std::int64_t max_head_dim;
  bool supports_dropout = true;
  std::int64_t min_head_dim = 8;
  Needs needs{};  ///< of a GPU, beside shared memory
  /// Shared memory of a block for a head dimension; null where every GPU has enough.
  std::function<std::size_t(std::int64_t)> shared_bytes{};
  /// For each head_dim whose tiles are of another form.
  std::vector<Tiles> tiles{};
  /// Whether it supports a head_dim_v of 128 with a head_dim of 192.
  bool supports_head_dim_v = false;

  /// The supported head dimension that is nearest to another one.
  std::int64_t head_dim_near(std::int64_t head_dim) const;
  /// Whether it supports a problem.
  bool supports(const Problem& problem) const;
  /// @throws std::invalid_argument with one message when it does not
  void check(const Problem& problem) const;
  /// Lowers max_head_dim to what a device can run, or below min_head_dim.
  /// @return a message that says why; empty when nothing was changed
  std::string fit(const DeviceProperties& device);
};

/// The problems with which the watched lab observes a rung. For each form of its tiles they are
/// chosen so that every branch is taken:
/// - few queries, less than a tile, and one key more than a tile; with dropout where it is
/// supported; - few keys, little more than half a tile, and one query more than two tiles: under
/// the mask a whole
///   tile of queries sees no key. Two sequences of four heads, which share two heads of keys;
/// - whole tiles of all columns, two tiles more than there are stages: no guard applies, and each
///   stage is used again. For persistent blocks there are heads enough for three tiles of queries
///   for each of two blocks;
/// - ragged: one query and one key more than whole tiles, one tile more than there are stages,
///   fewer columns than the kernel is compiled for, unless it has a head_dim_v of its own; two heads
///   share one of keys.
/// @param type   of the inputs
/// @param causal the mask
std::vector<Problem> watched_problems(const RungInfo& rung, Type type,
                                      bool causal);

/// The sizes of such a problem: "2 x 4 on 2 heads, 257 queries, 33 keys, D 40, causal".
std::string watched_words(const Problem& problem);

/// Removes the rungs that a device cannot run.
/// @return a message for each rung that was changed or removed
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

/// A backend's rung.
/// @param name of its file
/// @throws std::logic_error when there is none
template <class Backend>
const auto& find_rung(const Backend& backend, const std::string& name) {
  for (const auto& rung : backend.rungs) {
    if (rung.name == name) return rung;
  }
  throw std::logic_error("there is no rung " + name);
}

/// One rung of this lesson's ladder.
struct Rung : RungInfo {
  /// Copies inputs to the device. A tensor with one head of one sequence stands for all of them.
  /// @throws std::invalid_argument for problems that the rung does not support, and for tensors of
  /// other sizes
  std::function<Prepared(const Problem&, const Inputs&)> prepare;
};

/// What runs kernels.
struct Backend : BackendBase {
  std::vector<Rung> rungs;  ///< the lesson's kernels on it
  /// The file of the kernel that the C interface chooses for a problem on a device.
  std::function<std::string(const Problem&, const DeviceProperties&)> chosen;
  /// The kernel that is chosen for a device, as a rung of this backend.
  std::function<Rung(const DeviceProperties&)> dispatched;
};

/// The backends of this build: the lab first.
std::vector<Backend> backends();

}  // namespace fa::flash
