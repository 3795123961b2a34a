/// @file
/// A run of attention by tiles, written down step by step: what the page docs/stepper shows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "03_online_softmax/tiled.hpp"
#include "common/check/acceptance.hpp"

namespace fa::online {

/// What one tile of keys does to one tile of queries.
struct TileStep {
  std::int64_t query = 0;    ///< the first query
  std::int64_t queries = 0;  ///< how many
  std::int64_t key = 0;      ///< the first key
  std::int64_t keys = 0;     ///< how many: computed, or with skipped spared
  /// No query sees a key: nothing was computed, and all tensors are empty.
  bool skipped = false;
  Tensor<float, 2> s;  ///< [queries, keys], scores
  Tensor<float, 2> p;  ///< [queries, keys], exp(s - m), 0 for hidden keys
  /// [queries], maxima of the keys before; -infinity for none.
  Tensor<float, 1> m_before;
  Tensor<float, 1> m;         ///< [queries], maxima with this tile
  Tensor<float, 1> l_before;  ///< [queries], sums of the keys before
  Tensor<float, 1> l;         ///< [queries], sums with this tile
  /// [queries], exp(m_before - m); 1 where m stays.
  Tensor<float, 1> rescale;
  Tensor<float, 2> o_before;  ///< [queries, head_dim], not divided by l
  /// [queries, head_dim], o_before times the corrections.
  Tensor<float, 2> o_rescaled;
  Tensor<float, 2> o;  ///< [queries, head_dim], o_rescaled plus P V
};

/// A run and its judgement.
struct Recording {
  Tiles tiles;          ///< sizes of the tiles
  bool causal = false;  ///< the mask
  double scale = 0;     ///< factor of the scores
  /// For each tile of queries its tiles of keys, in the order of the run.
  std::vector<TileStep> steps;
  /// What tiled_forward() returned: O [1, 1, length_q, head_dim], and LSE.
  naive::Forward<float> out;
  Verdict o;    ///< out.o against lesson 01
  Verdict lse;  ///< out.lse against lesson 01
};

/// Runs tiled_forward() on one head and writes down what it does. Every number is the run's own, except for the
/// corrections, which are computed again from the maxima.
/// @param q [1, 1, length_q, head_dim], any strides
/// @param k [1, 1, length_k, head_dim], any strides
/// @param v [1, 1, length_k, head_dim], any strides
/// @param causal whether a query sees only keys up to its own place
/// @param tiles  sizes of the tiles
/// @throws std::invalid_argument as tiled_forward(), and for more than one batch or head
Recording record(View<const float, 4> q, View<const float, 4> k,
                 View<const float, 4> v, bool causal, const Tiles& tiles);

/// Names for what was recorded.
struct RecordingNames {
  std::string input;                 ///< of the data
  std::int64_t head = 0;             ///< which head of the input
  std::vector<std::string> queries;  ///< one for each query
  std::vector<std::string> keys;     ///< one for each key
};

/// Recordings of one head as JSON, with six digits. A step has the kind "tile" or "skipped"; after the last tile of
/// keys follows one of the kind "finish", where O is divided by l. Infinities and scores of hidden keys are null.
/// @param runs  of the same head
/// @param names of its queries and keys
std::string steps_as_json(const std::vector<Recording>& runs,
                          const RecordingNames& names);

/// One step as an SVG picture on a light panel: where the tile lies, its scores, m, l and the corrections, and O before
/// the step, corrected, and after it.
/// @param run   of which
/// @param step  the index of a step that is not skipped
/// @param names of its queries and keys
/// @throws std::invalid_argument when there is no such step, or it is skipped
std::string step_as_svg(const Recording& run, std::size_t step,
                        const RecordingNames& names);

}  // namespace fa::online
