/// @file
/// Problems of this lesson's exercises, as graders and entries exchange them.
#pragma once

#include <tuple>
#include <vector>

#include "common/classroom/wire.hpp"

namespace fa::classroom {

/// Sizes of one sequence.
struct Sizes {
  int heads;     ///< of q
  int kv_heads;  ///< of k and v
  int length_q;  ///< queries
  int length_k;  ///< keys
  int head_dim;  ///< elements of a row
  bool causal;   ///< the mask, aligned bottom right
};

/// Random inputs, exact in T, and the scale.
struct Inputs {
  Sizes sizes;              ///< of all
  std::vector<float> q;     ///< [heads, length_q, head_dim]
  std::vector<float> k, v;  ///< [kv_heads, length_k, head_dim]
  float scale;              ///< of the scores
  /// Elements that are not used behind each row of the kernel's q; twice as many behind those of k,
  /// and three and four times as many behind those of v and o.
  int gap;
};

/// The members, for Wire.
inline auto parts(Inputs& x) {
  return std::tie(x.sizes, x.q, x.k, x.v, x.scale, x.gap);
}

/// What attention gives.
struct Rows {
  std::vector<double> o;    ///< [heads, length_q, head_dim]
  std::vector<double> lse;  ///< [heads, length_q]
};

/// What a launch gave.
struct Ran {
  Seen seen;  ///< by the lab
  Rows rows;  ///< O and LSE; NaN where nothing was written
};

/// The members, for Wire.
inline auto parts(Rows& x) {
  return std::tie(x.o, x.lse);
}
/// The same.
inline auto parts(Ran& x) {
  return std::tie(x.seen, x.rows);
}

}  // namespace fa::classroom
