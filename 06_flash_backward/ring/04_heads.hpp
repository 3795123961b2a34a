/// @file
/// The other way: an all-to-all gives each rank the whole sequence of some heads, another returns
/// the results.
///
/// Source: Jacobs et al., DeepSpeed Ulysses, 2023.
#pragma once

#include "06_flash_backward/ring/rank.hpp"

namespace fa::ring::by_heads {

/// Tensors [batch, heads, rows, columns]: queries or keys, with head_dim columns or, LSE, with one.
struct Kind {
  bool of_keys;
  std::int64_t columns;
};

/// Adds the messages of an all-to-all between own positions of all heads and all positions of own
/// heads. A message is the rows of one head, which lie without gaps on both sides.
/// @param back from heads to positions
template <class T>
void exchange(const Problem& problem, int me, Kind kind, T* by_positions, T* by_heads, bool back,
              Messages& messages) {
  const AttentionShape& s = problem.shape;
  const std::int64_t heads = kind.of_keys ? s.kv_heads : s.heads;
  const std::int64_t length = kind.of_keys ? s.length_k : s.length_q;
  const auto heads_of = [&](int r) {
    const Range of = kv_heads_of(problem, r);
    return Range{of.begin * heads / s.kv_heads, of.end * heads / s.kv_heads};
  };
  const auto positions_of = [&](int r) {  // contiguous: one range
    return (kind.of_keys ? keys_of(problem, r) : queries_of(problem, r)).front();
  };
  const auto add = [&](bool sends, int r, T* data, std::int64_t rows) {
    if (sends) {
      messages.send(r, data, rows * kind.columns);
    } else {
      messages.receive(r, data, rows * kind.columns);
    }
  };
  const std::int64_t own_heads = heads_of(me).size(), own_rows = positions_of(me).size();
  for (int r = 0; r < problem.ranks; ++r) {
    const Range theirs = heads_of(r), there = positions_of(r);
    for (std::int64_t b = 0; b < s.batch; ++b) {
      for (std::int64_t head = theirs.begin; head < theirs.end; ++head) {
        add(!back, r, by_positions + (b * heads + head) * own_rows * kind.columns, own_rows);
      }
      for (std::int64_t head = 0; head < own_heads; ++head) {
        add(back, r, by_heads + ((b * own_heads + head) * length + there.begin) * kind.columns,
            there.size());
      }
    }
  }
}

/// A rank's heads of the whole problem, in its buffers.
template <class Rank>
struct Heads {
  using T = typename Rank::T;
  /// Takes the rank's buffers.
  explicit Heads(Rank& of) : rank(of), shape(of.problem.shape) {
    const std::int64_t group = shape.heads / shape.kv_heads;
    shape.kv_heads = kv_heads_of(rank.problem, rank.me).size();
    shape.heads = shape.kv_heads * group;
    const std::int64_t q_count = shape.batch * shape.heads * shape.length_q * shape.head_dim,
                       kv_count = shape.batch * shape.kv_heads * shape.length_k * shape.head_dim;
    k = rank.buffer(0, 2 * kv_count);
    v = k + kv_count;
    q = rank.buffer(Rank::kOther, q_count);
    o = rank.buffer(Rank::kOther + 1, q_count);
    d_o = rank.buffer(Rank::kOther + 2, q_count);
    d_q = rank.buffer(Rank::kOther + 3, q_count);
    d_k = rank.buffer(Rank::kOther + 4, 2 * kv_count);
    d_v = d_k + kv_count;
    lse = rank.sums(Rank::kOtherSums, q_count / shape.head_dim);
  }
  /// K and V of own positions, or their gradients.
  T* second(typename Rank::template Buffer<T>& block) { return block.data() + block.count() / 2; }
  /// @{ Adds what goes between own positions and own heads, `back` to the positions.
  template <class X>
  void exchange_q(X* by_positions, X* by_heads, std::int64_t columns, bool back) {
    exchange(rank.problem, rank.me, {false, columns}, by_positions, by_heads, back, messages);
  }
  void exchange_k(T* by_positions, T* by_heads, bool back) {
    exchange(rank.problem, rank.me, {true, shape.head_dim}, by_positions, by_heads, back, messages);
  }
  /// @}
  /// Sends and receives what the calls above have added.
  void move() {
    rank.start(messages);
    rank.wait();
    messages = {};
  }
  /// The rank's heads as one piece.
  Piece<T> piece() const {
    return {shape, rank.problem.causal, q, k, v, shape.length_q, shape.length_k};
  }

  Rank& rank;
  AttentionShape shape;  ///< of own heads; may have none
  T *q, *k, *v, *o, *d_o, *d_q, *d_k, *d_v;
  float* lse;
  Messages messages;
};

// clang-format off
/// The forward pass of a rank's queries.
template <class Rank>
//! [forward]
void forward(Rank& rank) {
  Heads<Rank> own(rank);
  const std::int64_t d = rank.problem.shape.head_dim;
  own.exchange_q(rank.q.data(), own.q, d, false);
  own.exchange_k(rank.kv.data(), own.k, false);
  own.exchange_k(own.second(rank.kv), own.v, false);
  own.move();
  if (own.shape.heads > 0) {  // else there are more ranks than heads
    rank.engine.attend(own.piece(), own.o, own.lse);
  }
  own.exchange_q(rank.o.data(), own.o, d, true);
  own.exchange_q(rank.lse.data(), own.lse, 1, true);
  own.move();
}
//! [forward]
// clang-format on

/// The backward pass, after forward(), which leaves Q, K, V, O and LSE of own heads.
template <class Rank>
void backward(Rank& rank) {
  Heads<Rank> own(rank);
  const std::int64_t d = rank.problem.shape.head_dim;
  own.exchange_q(rank.d_o.data(), own.d_o, d, false);
  own.move();
  if (own.shape.heads > 0) {
    rank.engine.gradients(own.piece(), own.o, own.lse, own.d_o, own.d_q, own.d_k, own.d_v);
  }
  own.exchange_q(rank.d_q.data(), own.d_q, d, true);
  own.exchange_k(rank.d_kv.data(), own.d_k, true);
  own.exchange_k(own.second(rank.d_kv), own.d_v, true);
  own.move();
}

}  // namespace fa::ring::by_heads
