/// @file
/// A step of a ladder: a kernel with what it supports, from host tensors to host tensors.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/attention/host/problem.hpp"
#include "common/gpu/backend.hpp"

namespace fa::attention {

/// The tiles of a kernel, from which watched_problems() chooses its problems.
struct Tiles {
  std::int64_t queries = 1;
  std::int64_t keys = 1;
  /// @{ Stages in shared memory; 0 where a block has one tile of queries, or of keys, and does not
  /// iterate over them.
  std::int64_t query_stages = 0;
  std::int64_t key_stages = 0;
  /// @}
  std::int64_t head_dim = 64;                ///< columns that the kernel is compiled for
  bool persists = false;                     ///< persistent blocks
  std::optional<std::int64_t> head_dim_v{};  ///< as in Problem
  int cluster = 1;                           ///< blocks of a cluster
};

/// A number that depends on the sizes of one head: n queries, as many keys, d columns.
struct Formula {
  std::string text{};  ///< for people
  std::function<std::int64_t(std::int64_t n, std::int64_t d)> value{};
};

/// A kernel, and the problems that it supports.
struct StepInfo {
  std::string name;         ///< of the file in kernels/
  std::string idea;         ///< the technique, in a few words
  std::vector<Type> types;  ///< of the inputs
  std::int64_t min_head_dim = 8, max_head_dim = 0;
  bool supports_dropout = true;
  bool supports_mla = false;  ///< see is_mla()
  bool deterministic = true;  ///< whether every run gives the same bits
  bool slow = false;          ///< timed at one length, with fewer repeats
  Needs needs{};              ///< of a GPU, beside shared memory
  /// Shared memory of a block for a head dimension; null where every GPU has enough.
  std::function<std::size_t(std::int64_t)> shared_bytes{};
  /// For each head_dim whose tiles are of another form.
  std::vector<Tiles> tiles{};
  bool supports_lengths = false;  ///< reads lengths of keys from the memory of the device
  /// Bytes that it allocates beside its tensors, with the d columns of its first tiles.
  Formula memory{"0", [](auto, auto) { return 0; }};
  /// @{ Elements of global memory that all threads together read and write, without a mask and with
  /// whole tiles, in float32; an atomic addition is a write. Null where they are not counted.
  Formula reads{}, writes{};
  /// @}
  /// One head whose timeline is drawn; none where there is no timeline.
  std::optional<Problem> drawn{};
  /// Tensors in the order in which its copies take them; empty: as most steps of the lesson do.
  std::vector<std::string> tensors{};
  /// Of a kernel with functors, the lesson's step that computes the same without one.
  std::string without_functor;

  /// The supported head dimension that is nearest to another one.
  std::int64_t head_dim_near(std::int64_t head_dim) const {
    return std::clamp(head_dim, min_head_dim, max_head_dim);
  }
  /// Whether it supports a problem.
  bool supports(const Problem& problem) const;
  /// @throws std::invalid_argument with one message when it does not
  void check(const Problem& problem) const;
  /// Lowers max_head_dim to what a device can run, or below min_head_dim.
  /// @return a message that says why; empty when nothing was changed
  std::string fit(const DeviceProperties& device);
};

/// A kernel that can be launched.
/// @tparam Result what it returns, on the host
template <class Given, class Result>
struct LadderStep : StepInfo {
  using GivenType = Given;
  using ResultType = Result;
  /// A kernel with its inputs in the memory of the device.
  struct Prepared {
    std::function<void()> launch;    ///< runs it once
    std::function<Result()> result;  ///< its results, on the host
    std::int64_t extra_bytes = 0;    ///< memory beside inputs and results
  };

  /// Copies inputs to the device. A tensor with one head of one sequence stands for all of them.
  /// @throws std::invalid_argument for problems that the step does not support, and for tensors of
  /// other sizes
  Prepared prepare(const Problem& problem, const Given& given) const {
    check(problem);
    return start(problem, given);
  }
  /// Runs it once.
  Result run(const Problem& problem, const Given& given) const {
    const Prepared prepared = prepare(problem, given);
    prepared.launch();
    return prepared.result();
  }

  /// What prepare() does for a problem that is supported; given by StepRow.
  std::function<Prepared(const Problem&, const Given&)> start;
};

/// The kernels of a lesson on one backend.
template <class StepOfLesson>
struct LadderBackend : BackendBase {
  std::vector<StepOfLesson> steps;
};

/// The problems with which the watched lab observes a step. For each form of its tiles they are
/// chosen so that every branch is taken:
/// - few queries, less than a tile, and one key more than a tile; with dropout where it is
///   supported;
/// - few keys, little more than half a tile, and one query more than two tiles: under the mask a
///   whole tile of queries sees no key. Two sequences of two heads;
/// - whole tiles of all columns, two tiles more than there are stages: no guard applies, and each
///   stage is used again. For persistent blocks there are heads enough for three tiles of queries
///   for each of two blocks;
/// - ragged: one query and one key more than whole tiles, one tile more than there are stages,
///   fewer columns than the kernel is compiled for, unless it has a head_dim_v of its own; two
///   heads share one of keys.
std::vector<Problem> watched_problems(const StepInfo& step, Type type, bool causal);

/// The sizes of such a problem: "2 x 4 on 2 heads, 257 queries, 33 keys, D 40, causal".
std::string watched_words(const Problem& problem);

/// Removes the steps that a device cannot run.
/// @return a message for each step that was changed or removed
template <class LadderStep>
std::vector<std::string> fit_ladder(std::vector<LadderStep>& steps,
                                    const DeviceProperties& device) {
  std::vector<std::string> left_out;
  std::vector<LadderStep> fitting;
  for (LadderStep& step : steps) {
    const std::string why = step.fit(device);
    if (!why.empty()) left_out.push_back(why);
    if (step.min_head_dim <= step.max_head_dim) fitting.push_back(step);
  }
  steps = std::move(fitting);
  return left_out;
}

/// A backend's step.
/// @throws std::logic_error when there is none
template <class Backend>
const auto& find_step(const Backend& backend, const std::string& name) {
  for (const auto& step : backend.steps) {
    if (step.name == name) return step;
  }
  throw std::logic_error("there is no step " + name);
}

/// The names of a backend's steps.
template <class Backend>
std::vector<std::string> step_names(const Backend& backend) {
  std::vector<std::string> names;
  for (const auto& step : backend.steps) names.push_back(step.name);
  return names;
}

}  // namespace fa::attention
