/// @file
/// Rung 08 with other tile sizes, for the experiments, on each backend of this build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "05_flash_forward/src/backend.hpp"

namespace fa::flash::tiles {

/// The sizes of a tile.
struct Tile {
  std::int64_t head_dim = 0;     ///< columns
  std::int64_t queries = 0;      ///< of a block
  std::int64_t keys = 0;         ///< of a step
  std::int64_t warps = 0;        ///< of a block
  std::size_t shared_bytes = 0;  ///< of a block: Q, two stages of K and two of V
  bool finished = false;         ///< whether rung 08 has it

  /// Queries, keys and warps: "128 x 96, 4 warps".
  std::string name() const;
  /// How many blocks compute a problem.
  std::int64_t blocks(const Problem& problem) const;
  /// What the kernel asks of global memory with this tile, reads and writes, in bytes.
  std::int64_t traffic(const Problem& problem) const;
  /// The fraction of the computed scores that are masked or lie beyond the last query or key.
  double masked_share(const Problem& problem) const;
};

/// The kernel with one tile, for bfloat16 without dropout.
struct Kernel {
  Tile tile;  ///< its sizes
  /// None where a block would need more shared memory than any GPU has.
  std::optional<Rung> rung;
};

/// The kernels on one backend.
struct Backend {
  std::string kind;             ///< "lab", "watched" or "gpu"
  std::vector<Kernel> kernels;  ///< by head_dim
};

/// The backends of this build: the watched lab, or the lab where there is none; and a GPU where
/// kernels are compiled for it.
std::vector<Backend> backends();

}  // namespace fa::flash::tiles
