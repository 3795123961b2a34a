/// @file
/// A recorded run of tiled attention, step by step, for the explorer docs/explorers/stepper.js.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "03_online_softmax/tiled.hpp"
#include "common/check/acceptance.hpp"

namespace fa::online {

/// One step: a tile of keys for a tile of queries.
struct TileStep {
  /// @{ The first query and key, and their numbers.
  std::int64_t query = 0, queries = 0;
  std::int64_t key = 0, keys = 0;
  /// @}
  /// Whether the tile is fully masked: nothing was computed, and all tensors are empty.
  bool skipped = false;
  /// @{ [queries, keys]: the scores S, and P = exp(S - m), 0 for masked keys.
  Tensor<float, 2> s, p;
  /// @}
  /// @{ [queries]: running maxima and sums before and after this tile; m is -infinity before the
  /// first.
  Tensor<float, 1> m_before, m, l_before, l;
  /// @}
  /// [queries], exp(m_before - m); 1 where m does not change.
  Tensor<float, 1> rescale;
  /// @{ [queries, head_dim]: O before this tile, not divided by l; times the rescale factor; plus P
  /// V.
  Tensor<float, 2> o_before, o_rescaled, o;
  /// @}
};

/// A run and its comparison with lesson 01.
struct Recording {
  /// @{ The problem, and the tiles of keys for each tile of queries in the order of the run.
  Tiles tiles;
  bool causal = false;
  double scale = 0;
  std::vector<TileStep> steps;
  /// @}
  /// The result of tiled_forward(): O [1, 1, length_q, head_dim], and LSE.
  naive::Forward<float> out;
  /// @{ `out` against lesson 01.
  Verdict o, lse;
  /// @}
};

/// Runs tiled_forward() on one head and records its steps. All values are those of the run, except
/// for the rescale factors, which are recomputed from the maxima.
/// @param q [1, 1, length_q, head_dim], any strides
/// @param k [1, 1, length_k, head_dim], any strides
/// @param v [1, 1, length_k, head_dim], any strides
/// @param causal whether the causal mask applies
/// @throws std::invalid_argument as tiled_forward(), and for more than one batch or head
Recording record(View<const float, 4> q, View<const float, 4> k, View<const float, 4> v,
                 bool causal, const Tiles& tiles);

/// Labels of a recording.
struct RecordingNames {
  /// @{ The input and its head; a label for each query and each key.
  std::string input;
  std::int64_t head = 0;
  std::vector<std::string> queries, keys;
  /// @}
};

/// Recordings of one head as JSON, with six digits. A step has the kind "tile" or "skipped"; after
/// the last tile of keys follows one of the kind "finish", where O is divided by l. Infinities and
/// masked scores are null.
std::string steps_as_json(const std::vector<Recording>& runs, const RecordingNames& names);

}  // namespace fa::online
