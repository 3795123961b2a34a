/// @file
/// Lesson 03: attention of one row while its scores arrive one at a time. Two recurrences are
/// correct, those of FlashAttention-1 and -2; the others are wrong, though published or easily
/// written. All have the same form, so that one check applies to all of them.
///
/// Each has `name`, `step(state, score, value)`, which adds one key, and `output(state)`, the
/// attention over the keys so far.
#pragma once

#include <algorithm>

#include "03_online_softmax/state.hpp"

namespace fa::online {

/// O stays unnormalised and is divided once at the end. Source: Dao, FlashAttention-2, 2023,
/// section 3.1.
struct Unnormalised {
  static constexpr const char* name = "unnormalised (FA-2)";  ///< in tables
  /// Adds one key.
  template <class W, class V>
  static constexpr void step(State<W, V>& x, typename W::Score s, const V& v) {
    //! [unnormalised]
    const auto m = std::max(x.m, s);
    const auto rescale = W::exp_diff(x.m, m), p = W::exp_diff(s, m);
    x.l = rescale * x.l + p;
    x.o = rescale * x.o + p * v;
    x.m = m;
    //! [unnormalised]
  }
  /// The attention so far; 0 before the first key.
  template <class W, class V>
  static constexpr V output(const State<W, V>& x) {
    if (x.l == typename W::Number(0)) return x.o;
    return x.o / x.l;
  }
};

/// O is normalised after every step. Source: Dao et al., FlashAttention, 2022, algorithm 1, line
/// 12.
struct Normalised {
  static constexpr const char* name = "normalised (FA-1)";  ///< in tables
  /// Adds one key.
  template <class W, class V>
  static constexpr void step(State<W, V>& x, typename W::Score s, const V& v) {
    if (s == W::neg_inf) return;  // 0 / 0 before the first key
    //! [normalised]
    const auto m = std::max(x.m, s);
    const auto l_old = W::exp_diff(x.m, m) * x.l, p = W::exp_diff(s, m);
    x.l = l_old + p;
    x.o = (l_old * x.o + p * v) / x.l;
    x.m = m;
    //! [normalised]
  }
  /// The attention so far.
  template <class W, class V>
  static constexpr V output(const State<W, V>& x) {
    return x.o;
  }
};

/// Wrong recurrences. Each inherits output() from the correct one that it resembles.
namespace wrong {

/// P is normalised and O is not: P = exp(S - m') / l', then O = O exp(m - m') + P V.
struct MixedNormalisation : Normalised {
  static constexpr const char* name = "P normalised, O not";  ///< in tables
  /// Adds one key.
  template <class W, class V>
  static constexpr void step(State<W, V>& x, typename W::Score s, const V& v) {
    if (s == W::neg_inf) return;
    const auto m = std::max(x.m, s);
    const auto rescale = W::exp_diff(x.m, m), p = W::exp_diff(s, m);
    x.l = rescale * x.l + p;
    x.o = rescale * x.o + p / x.l * v;
    x.m = m;
  }
};

/// Divided in the loop and again after it: O = exp(m - m') O + P V / l', at the end O / l.
struct DividedTwice : Unnormalised {
  static constexpr const char* name = "divided twice";  ///< in tables
  /// Adds one key.
  template <class W, class V>
  static constexpr void step(State<W, V>& x, typename W::Score s, const V& v) {
    MixedNormalisation::step(x, s, v);
  }
};

/// A separate softmax for each tile, summed: O = O + softmax(S) V. Here each tile is one key.
struct LocalSoftmax : Normalised {
  static constexpr const char* name = "softmax per tile";  ///< in tables
  /// Adds one key.
  template <class W, class V>
  static constexpr void step(State<W, V>& x, typename W::Score s, const V& v) {
    if (s == W::neg_inf) return;
    x.o = x.o + W::exp_diff(s, s) * v;
    x.m = s;
  }
};

/// The sum is not rescaled when the maximum rises.
struct SumNotRescaled : Unnormalised {
  static constexpr const char* name = "l not rescaled";  ///< in tables
  /// Adds one key.
  template <class W, class V>
  static constexpr void step(State<W, V>& x, typename W::Score s, const V& v) {
    const auto m = std::max(x.m, s);
    const auto rescale = W::exp_diff(x.m, m), p = W::exp_diff(s, m);
    x.l = x.l + p;
    x.o = rescale * x.o + p * v;
    x.m = m;
  }
};

/// The output is not rescaled when the maximum rises.
struct OutputNotRescaled : Unnormalised {
  static constexpr const char* name = "O not rescaled";  ///< in tables
  /// Adds one key.
  template <class W, class V>
  static constexpr void step(State<W, V>& x, typename W::Score s, const V& v) {
    const auto m = std::max(x.m, s);
    const auto rescale = W::exp_diff(x.m, m), p = W::exp_diff(s, m);
    x.l = rescale * x.l + p;
    x.o = x.o + p * v;
    x.m = m;
  }
};

/// The rescale factor is inverted: exp(m' - m).
struct InvertedCorrection : Unnormalised {
  static constexpr const char* name = "rescale inverted";  ///< in tables
  /// Adds one key.
  template <class W, class V>
  static constexpr void step(State<W, V>& x, typename W::Score s, const V& v) {
    const auto m = std::max(x.m, s);
    const auto p = W::exp_diff(s, m);
    const auto rescale = x.m == W::neg_inf ? W::exp_diff(x.m, m) : W::exp_diff(m, x.m);
    x.l = rescale * x.l + p;
    x.o = rescale * x.o + p * v;
    x.m = m;
  }
};

}  // namespace wrong
}  // namespace fa::online
