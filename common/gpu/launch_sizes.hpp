/// @file
/// How many threads a kernel runs with: the same types for a GPU and for the lab.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fa {

/// Threads in a block at most, as on every GPU since 2010.
inline constexpr int kMaxThreads = 1024;

/// Blocks in a cluster at most that every GPU with clusters takes.
inline constexpr int kMaxCluster = 8;

/// CUDA's dim3 and uint3.
struct Size {
  unsigned x = 1;  ///< fastest
  unsigned y = 1;  ///< next
  unsigned z = 1;  ///< slowest
  constexpr Size() = default;
  /// Sizes not given are 1.
  constexpr Size(unsigned size_x, unsigned size_y = 1, unsigned size_z = 1)
      : x(size_x), y(size_y), z(size_z) {}
  /// x y z
  constexpr std::int64_t count() const { return std::int64_t{x} * y * z; }
};

/// How a kernel is launched.
struct Launch {
  Size grid;                     ///< blocks
  Size block;                    ///< threads of a block
  std::size_t shared_bytes = 0;  ///< of dynamic shared memory
  int stages = 0;                ///< of its pipeline of copies, to be reported; 0: it has none
  /// Programmatic dependent launch: the kernel may start before the previous one on its stream has
  /// ended, and calls grid_dependency_wait() before it uses memory of that kernel. GPUs before
  /// sm_90 start it afterwards.
  bool with_pdl = false;
  int cluster = 1;                        ///< blocks, side by side in x, that run together
  unsigned cluster_y = 1, cluster_z = 1;  ///< the lab's clusters may be as wide in y and z
  /// The shape of a cluster.
  constexpr Size cluster_size() const {
    return {static_cast<unsigned>(cluster) / (cluster_y * cluster_z), cluster_y, cluster_z};
  }
  /// The index of a block in the grid. The blocks of a cluster have neighbouring numbers.
  constexpr Size block_at(std::int64_t number) const {
    const Size of = cluster_size();
    const auto rank = static_cast<unsigned>(number % cluster);
    const std::int64_t in_x = grid.x / of.x, in_y = grid.y / of.y, at = number / cluster;
    return {static_cast<unsigned>(at % in_x) * of.x + rank % of.x,
            static_cast<unsigned>(at / in_x % in_y) * of.y + rank / of.x % of.y,
            static_cast<unsigned>(at / in_x / in_y) * of.z + rank / of.x / of.y};
  }
};

}  // namespace fa
