/// @file
/// The other way: an all-to-all gives each rank the whole sequence of some heads, another returns
/// the results.
///
/// Source: Jacobs et al., DeepSpeed Ulysses, 2023.
#pragma once

#include "06_flash_backward/ring/rank.hpp"

namespace fa::ring::by_heads {

/// Where an all-to-all moves rows: from own positions of all heads to all positions of own heads, or
/// back.
enum class Way { kToHeads, kToPositions };

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
  /// @{ Adds the messages for a tensor of queries, with head_dim columns or, LSE, with one, or for K
  /// and V, or their gradients, of which the second half of `by_positions` is V's.
  template <class X>
  void exchange_q(Way way, X* by_positions, X* by_heads, std::int64_t columns) {
    exchange(way, false, columns, by_positions, by_heads);
  }
  void exchange_kv(Way way, typename Rank::template Buffer<T>& by_positions, T* of_k, T* of_v) {
    exchange(way, true, shape.head_dim, by_positions.data(), of_k);
    exchange(way, true, shape.head_dim, by_positions.data() + by_positions.count() / 2, of_v);
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

 private:
  // A message is the rows of one head, which lie without gaps on both sides.
  template <class X>
  void exchange(Way way, bool of_keys, std::int64_t columns, X* by_positions, X* by_heads) {
    const Problem& all = rank.problem;
    const AttentionShape& s = all.shape;
    const std::int64_t heads = of_keys ? s.kv_heads : s.heads, group = heads / s.kv_heads;
    const std::int64_t length = of_keys ? s.length_k : s.length_q;
    const auto positions_of = [&](int r) {  // contiguous: one range
      return (of_keys ? keys_of(all, r) : queries_of(all, r)).front();
    };
    const auto add = [&](Way sends, int r, X* data, std::int64_t rows) {
      if (way == sends) {
        messages.send(r, data, rows * columns);
      } else {
        messages.receive(r, data, rows * columns);
      }
    };
    const std::int64_t own_heads = kv_heads_of(all, rank.me).size() * group;
    const std::int64_t own_rows = positions_of(rank.me).size();
    for (int r = 0; r < all.ranks; ++r) {
      const Range theirs = kv_heads_of(all, r), there = positions_of(r);
      for (std::int64_t b = 0; b < s.batch; ++b) {
        for (std::int64_t head = theirs.begin * group; head < theirs.end * group; ++head) {
          add(Way::kToHeads, r, by_positions + (b * heads + head) * own_rows * columns, own_rows);
        }
        for (std::int64_t head = 0; head < own_heads; ++head) {
          add(Way::kToPositions, r,
              by_heads + ((b * own_heads + head) * length + there.begin) * columns, there.size());
        }
      }
    }
  }
};

/// The forward pass of a rank's queries.
template <class Rank>
void forward(Rank& rank) {
  Heads<Rank> own(rank);
  const std::int64_t d = rank.problem.shape.head_dim;
  own.exchange_q(Way::kToHeads, rank.q.data(), own.q, d);
  own.exchange_kv(Way::kToHeads, rank.kv, own.k, own.v);
  own.move();
  if (own.shape.heads > 0) {  // else there are more ranks than heads
    rank.engine.attend(own.piece(), own.o, own.lse);
  }
  own.exchange_q(Way::kToPositions, rank.o.data(), own.o, d);
  own.exchange_q(Way::kToPositions, rank.lse.data(), own.lse, 1);
  own.move();
}

/// The backward pass, after forward(), which leaves Q, K, V, O and LSE of own heads.
template <class Rank>
void backward(Rank& rank) {
  Heads<Rank> own(rank);
  const std::int64_t d = rank.problem.shape.head_dim;
  own.exchange_q(Way::kToHeads, rank.d_o.data(), own.d_o, d);
  own.move();
  if (own.shape.heads > 0) {
    rank.engine.gradients(own.piece(), own.o, own.lse, own.d_o, own.d_q, own.d_k, own.d_v);
  }
  own.exchange_q(Way::kToPositions, rank.d_q.data(), own.d_q, d);
  own.exchange_kv(Way::kToPositions, rank.d_kv, own.d_k, own.d_v);
  own.move();
}

}  // namespace fa::ring::by_heads
