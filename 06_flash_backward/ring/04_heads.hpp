/// @file
/// The other way: an all-to-all gives each rank the whole sequence of some heads, another returns
/// the results.
///
/// Source: Jacobs et al., DeepSpeed Ulysses, 2023.
#pragma once

#include "03_online_softmax/tiled.hpp"
#include "06_flash_backward/ring/rank.hpp"
#include "06_flash_backward/src/derivation/tiled.hpp"

namespace fa::ring::by_heads {

/// Heads and rows that one message of an all-to-all holds: `heads` of the rank that computes,
/// positions of the rank that owns.
struct Share {
  Range heads;
  Ranges positions;
  /// Its elements, of a tensor with so many columns.
  std::int64_t count(std::int64_t batch, std::int64_t columns) const {
    return batch * heads.size() * rows(positions) * columns;
  }
};

/// Moves a tensor [batch, heads, rows, columns] between its two layouts.
template <class T>
class Exchange {
 public:
  /// @param of_keys  K and V: positions are those of keys, heads those of keys
  /// @param columns head_dim, or 1 for LSE
  Exchange(Rank<T>& rank, bool of_keys, std::int64_t columns)
      : rank_(rank), of_keys_(of_keys), columns_(columns) {}

  /// From own positions of all heads to all positions of own heads.
  Tensor<T, 4> to_heads(View<const T, 4> x, const std::string& what) const {
    const int me = rank_.comm.rank();
    Tensor<T, 4> result({batch(), share(me, 0).heads.size(), length(), columns_});
    const auto flat = exchange(
        what,
        [&](int r, auto visit) {
          rows_here(share(r, me), [&](auto head, auto row, auto) { visit(x, head, row); });
        },
        [&](int r) { return share(r, me); }, [&](int r) { return share(me, r); });
    std::size_t at = 0;
    for (int r = 0; r < rank_.problem.ranks; ++r) {
      rows_here(share(me, r), [&](auto head, auto, auto position) {
        put(result, head - share(me, r).heads.begin, position, flat, at);
      });
    }
    return result;
  }

  /// Back: from all positions of own heads to own positions of all heads.
  Tensor<T, 4> to_positions(View<const T, 4> x, const std::string& what) const {
    const int me = rank_.comm.rank();
    Tensor<T, 4> result({batch(), heads(), rows(positions(me)), columns_});
    const auto flat = exchange(
        what,
        [&](int r, auto visit) {
          rows_here(share(me, r), [&](auto head, auto, auto position) {
            visit(x, head - share(me, r).heads.begin, position);
          });
        },
        [&](int r) { return share(me, r); }, [&](int r) { return share(r, me); });
    std::size_t at = 0;
    for (int r = 0; r < rank_.problem.ranks; ++r) {
      rows_here(share(r, me), [&](auto head, auto row, auto) { put(result, head, row, flat, at); });
    }
    return result;
  }

 private:
  std::int64_t batch() const { return rank_.problem.shape.batch; }
  std::int64_t heads() const {
    return of_keys_ ? rank_.problem.shape.kv_heads : rank_.problem.shape.heads;
  }
  std::int64_t length() const {
    return of_keys_ ? rank_.problem.shape.length_k : rank_.problem.shape.length_q;
  }
  Ranges positions(int r) const {
    return of_keys_ ? keys_of(rank_.problem, r) : queries_of(rank_.problem, r);
  }
  Share share(int computes, int owns) const {
    const Range kv = kv_heads_of(rank_.problem, computes);
    const std::int64_t group =
        of_keys_ ? 1 : rank_.problem.shape.heads / rank_.problem.shape.kv_heads;
    return {{kv.begin * group, kv.end * group}, positions(owns)};
  }
  // Calls visit(head, row as its owner stores it, position) in the order of a message; the same
  // order for each element of the batch.
  template <class Visit>
  static void rows_here(const Share& share, Visit visit) {
    for (std::int64_t head = share.heads.begin; head < share.heads.end; ++head) {
      std::int64_t row = 0;
      for (const Range& range : share.positions) {
        for (std::int64_t i = range.begin; i < range.end; ++i) visit(head, row++, i);
      }
    }
  }
  template <class Fill, class Sent, class Received>
  std::vector<T> exchange(const std::string& what, Fill fill, Sent sent, Received received) const {
    std::vector<T> send;
    std::vector<std::int64_t> to, from;
    for (int r = 0; r < rank_.problem.ranks; ++r) {
      to.push_back(sent(r).count(batch(), columns_));
      from.push_back(received(r).count(batch(), columns_));
      fill(r, [&](View<const T, 4> x, std::int64_t head, std::int64_t row) {
        for (std::int64_t b = 0; b < batch(); ++b) {
          for (std::int64_t c = 0; c < columns_; ++c) send.push_back(x(b, head, row, c));
        }
      });
    }
    return rank_.comm.all_to_all(send, to, from, what);
  }
  void put(Tensor<T, 4>& x, std::int64_t head, std::int64_t row, const std::vector<T>& flat,
           std::size_t& at) const {
    for (std::int64_t b = 0; b < batch(); ++b) {
      for (std::int64_t c = 0; c < columns_; ++c) x(b, head, row, c) = flat[at++];
    }
  }

  Rank<T>& rank_;
  bool of_keys_;
  std::int64_t columns_;
};

/// What a rank keeps for the backward pass: all positions of its heads.
template <class T>
struct Kept {
  Tensor<T, 4> q, k, v;
  naive::Forward<T> forward;
};

/// LSE as a tensor with one column.
template <class T>
View<const T, 4> with_column(const Tensor<T, 3>& lse) {
  return {lse.data(), {lse.size(0), lse.size(1), lse.size(2), 1}};
}

// clang-format off
/// The forward pass of a rank's queries.
/// @param kept set for backward()
template <class T>
//! [forward]
naive::Forward<T> forward(Rank<T>& rank, Kept<T>& kept) {
  const std::int64_t d = rank.problem.shape.head_dim;
  const Exchange<T> of_q(rank, false, d), of_k(rank, true, d), of_lse(rank, false, 1);
  kept.q = of_q.to_heads(rank.q, "Q of my heads");
  kept.k = of_k.to_heads(rank.kv.view().at(0), "K of my heads");
  kept.v = of_k.to_heads(rank.kv.view().at(1), "V of my heads");
  rank.stores(kept.k.count() + kept.v.count());
  AttentionOptions options;
  options.causal = rank.problem.causal;
  if (kept.q.count() > 0) {  // else there are more ranks than heads
    kept.forward = online::tiled_forward<T>(kept.q, kept.k, kept.v, options);
  }
  const auto o = of_q.to_positions(kept.forward.o, "O of all heads");
  const auto lse = of_lse.to_positions(with_column(kept.forward.lse), "LSE of all heads");
  naive::Forward<T> result{o, Tensor<T, 3>({o.size(0), o.size(1), o.size(2)})};
  std::copy_n(lse.data(), lse.count(), result.lse.data());
  return result;
}
//! [forward]

/// The backward pass.
template <class T>
RankGradients<T> backward(Rank<T>& rank, const Kept<T>& kept) {
  const std::int64_t d = rank.problem.shape.head_dim;
  const Exchange<T> of_q(rank, false, d), of_k(rank, true, d);
  const auto d_o = of_q.to_heads(rank.d_o, "dO of my heads");
  AttentionOptions options;
  options.causal = rank.problem.causal;
  naive::Gradients<T> own;
  if (kept.q.count() > 0) {
    own = ::fa::backward::tiled_backward<T>(kept.q, kept.k, kept.v, kept.forward.o,
                                            kept.forward.lse, d_o, options);
  }
  RankGradients<T> result{of_q.to_positions(own.d_q, "dQ of all heads"), Block<T>(rank.kv.shape())};
  copy(View<const T, 4>(of_k.to_positions(own.d_k, "dK of all heads")),
       result.d_kv.view().at(0));
  copy(View<const T, 4>(of_k.to_positions(own.d_v, "dV of all heads")),
       result.d_kv.view().at(1));
  return result;
}
// clang-format on

}  // namespace fa::ring::by_heads
