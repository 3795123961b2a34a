/// @file
/// The kernels of this lesson as the program and the tests see them: in groups that compute the
/// same, from host tensors to a host tensor, on each backend of this build.
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

/// A kernel with its inputs in global memory.
struct Prepared {
  std::function<void()> launch;              ///< runs it once
  std::function<Tensor<float, 2>()> result;  ///< its output, on the host
};

/// The tile sizes of a kernel, from which watched_sizes() derives the sizes to be watched.
struct Tiles {
  std::int64_t block_m = 1;  ///< rows of the result that a block computes
  std::int64_t block_n = 1;  ///< columns of the result that a block computes
  std::int64_t block_k = 1;  ///< depth of the tiles of a matmul
  std::int64_t stages = 1;   ///< tiles of an operand in shared memory
  std::int64_t vector = 1;   ///< elements of the widest load
  bool persistent = false;   ///< blocks compute one tile after the other
  int cluster = 1;           ///< blocks that share tiles
};

/// One step of a ladder.
struct Kernel {
  std::string name;  ///< of the file in kernels/, and the variant if any
  std::string idea;  ///< what is new, in a few words
  /// Copies inputs to the device. All dimensions may be ragged.
  std::function<Prepared(const Inputs&)> prepare;
  Tiles tiles{};
  Needs needs{};
};

/// Kernels that compute the same. The sizes m, n and k are the rows and columns of the result and,
/// for matmuls, the columns of A.
struct Group {
  std::string name;   ///< "transpose"
  std::string title;  ///< as the program prints it
  /// Random inputs.
  std::function<Inputs(std::int64_t m, std::int64_t n, std::int64_t k)> inputs;
  /// The result in float64, [m, n].
  std::function<Tensor<double, 2>(const Inputs&)> reference;
  /// The result by the textbook in the kernels' own types: the `plain` of the acceptance rule.
  std::function<Tensor<float, 2>(const Inputs&)> plain;
  /// The least traffic of global memory, in bytes: each input read and each result written once.
  std::function<double(double m, double n, double k)> bytes;
  /// Floating-point operations, two for a multiplication with an addition; 0 where the limit is
  /// memory.
  std::function<double(double m, double n, double k)> flops = [](double, double, double) {
    return 0.0;
  };
  /// The units that do them.
  Arithmetic arithmetic = Arithmetic::kFloat32;
  std::vector<Kernel> kernels{};  ///< in the order of the lesson
  /// Kernels that the backend cannot run, each with the reason.
  std::vector<std::string> left_out{};
};

/// Runs kernels.
struct Backend : BackendBase {
  std::vector<Group> groups;  ///< the lesson's kernels on it
};

/// A group of a backend.
/// @throws std::logic_error when there is none of that name
const Group& group_of(const Backend& backend, const std::string& name);

/// The largest sum of absolute terms of an element of a group's result, for the floor of the
/// acceptance rule where terms may cancel; 0 for groups that sum nothing.
double magnitude_of(const Group& group, Inputs inputs);

/// The backends of this build: the lab first.
std::vector<Backend> backends();

/// What is common to the groups of all backends: inputs, references, counts; no kernels yet.
std::vector<Group> groups_without_kernels();

/// cuBLAS for the matmuls of a group, with TF32 off; none for other groups and where this build has
/// no cuBLAS.
/// Source: NVIDIA, cuBLAS library, cublasGemmEx.
std::optional<Kernel> cublas(const std::string& group);

}  // namespace fa::tiled
