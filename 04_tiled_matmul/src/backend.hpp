/// @file
/// The kernels of this lesson as the program and the tests see them: in groups that compute the same, from
/// host tensors to a host tensor, on each machine that this build knows.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/gpu/backend.hpp"
#include "common/tensor/tensor.hpp"

namespace fa::tiled {

/// Matrices that a kernel is given.
using Inputs = std::vector<Tensor<float, 2>>;

/// A kernel with its inputs in the memory of the device.
struct Prepared {
  std::function<void()> launch;              ///< runs it once
  std::function<Tensor<float, 2>()> result;  ///< its output, on the host
};

/// What a kernel takes at once. watched_sizes() goes by it.
struct Tiles {
  std::int64_t rows = 1;    ///< of the result, that a block computes
  std::int64_t cols = 1;    ///< of the result, that a block computes
  std::int64_t depth = 1;   ///< of the sums, in a tile of the inputs
  std::int64_t stages = 1;  ///< tiles of the inputs in shared memory
  std::int64_t vector = 1;  ///< neighbours in a row that are loaded at once
  bool persists = false;    ///< blocks compute one tile after the other
};

/// One rung of a ladder.
struct Kernel {
  std::string name;  ///< of the file in kernels/, and what distinguishes it
  std::string idea;  ///< what is new, in a few words
  /// Copies inputs to the device. (All dimensions may be ragged.)
  std::function<Prepared(const Inputs&)> prepare;
  Tiles tiles{};  ///< what it takes at once
  Needs needs{};  ///< of a GPU
};

/// Kernels that compute the same.
struct Group {
  std::string name;             ///< "transpose"
  std::string title;            ///< for people
  std::vector<Kernel> kernels;  ///< in the order of the lesson
  /// Kernels that the machine cannot run, a sentence for each with the reason.
  std::vector<std::string> left_out;
  /// Inputs for a size, random.
  /// @param rows  first dimension of the result
  /// @param cols  second one
  /// @param depth length of sums, where there are any
  std::function<Inputs(std::int64_t rows, std::int64_t cols,
                       std::int64_t depth)>
      inputs;
  /// The result in float64, [rows, cols].
  std::function<Tensor<double, 2>(const Inputs&)> reference;
  /// The result by the textbook in the kernels' own types: the `plain` of the acceptance rule.
  std::function<Tensor<float, 2>(const Inputs&)> plain;
  /// Floating-point operations for a size, a multiplication with an addition counted as two; 0 where bytes count.
  std::function<double(double rows, double cols, double depth)> flops;
  /// What they are done with.
  Arithmetic arithmetic = Arithmetic::kFloat32;
  /// Bytes of global memory that must be moved at least: each input read and each result written once.
  std::function<double(double rows, double cols, double depth)> bytes;
};

/// What runs kernels.
struct Backend : BackendBase {
  std::vector<Group> groups;  ///< the lesson's kernels on it
};

/// A group of a machine.
/// @throws std::logic_error when there is none of that name
const Group& group_of(const Backend& backend, const std::string& name);

/// The largest sum of absolute terms of an element of a group's result: what the floor of the acceptance rule
/// goes by where terms may cancel; 0 for groups that sum nothing.
double magnitude_of(const Group& group, Inputs inputs);

/// The machines of this build: the lab first.
std::vector<Backend> backends();

/// What is common to the groups of all machines: inputs, references, counts; no kernels yet.
std::vector<Group> groups_without_kernels();

}  // namespace fa::tiled
