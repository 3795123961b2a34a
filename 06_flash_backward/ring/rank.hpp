/// @file
/// Lesson 06: a rank of ring attention: its rows of a problem, its buffers, and what it computes
/// with a block of keys that it holds for a while. The forms (01_all_gather.hpp and so on) are
/// written once, over this; what a rank computes with is an engine: the tiles of lessons 03 and 06
/// on the CPU (cpu_engine.hpp), or the kernels of lessons 05 and 06 (device_engine.cuh).
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "06_flash_backward/ring/comm.hpp"
#include "06_flash_backward/ring/layout.hpp"

namespace fa::ring {

/// Where the rows of a part are among those of a rank: of each head, `count` rows from `first` on.
struct PartRows {
  std::int64_t heads;     ///< in all sequences
  std::int64_t rows;      ///< of a rank, for each head
  std::int64_t first;     ///< row of the rank
  std::int64_t count;     ///< rows of the part; may be 0
  std::int64_t head_dim;  ///< columns
};

/// Sums over parts, float32: where they are, and what a part that is added does with them.
template <class T>
struct Sums {
  float* sums;
  bool first;           ///< whether there are none yet: what `sums` holds is not read
  T* result = nullptr;  ///< where the complete sums go, rounded; null: back to `sums`
};

/// A problem for an engine: [batch, heads, rows, head_dim], of which each head has `q_rows` or
/// `k_rows` rows in memory. Results have no gaps between heads.
template <class T>
struct Piece {
  AttentionShape shape;
  bool causal;
  const T *q, *k, *v;
  std::int64_t q_rows, k_rows;
};

/// A rank. Engine has
/// - T, and Buffer<X>(count), memory that begins as NaN, with data() and count();
/// - attend(piece, o, lse) and gradients(piece, o, lse, d_o, d_q, d_k, d_v): o and d_o as q;
/// - merge_part(rows, o, lse, sums, lse_sum), add_part(rows, gradient, sums), copy_lse(rows, lse,
///   part's): of a part, without gaps, into or from all rows of a rank;
/// - add_blocks(blocks, how many, elements of each, result);
/// - start(messages) and wait(), as Comm; on a GPU both are about the order on its streams;
/// - put(to, tensor) and get(from, count), which copy between its memory and float32 of the host.
template <class Engine>
class Rank {
 public:
  using T = typename Engine::T;
  template <class X>
  using Buffer = typename Engine::template Buffer<X>;

  /// Allocates the memory of one rank.
  Rank(Engine& of, const Problem& problem_of_all, int rank)
      : engine(of),
        problem(problem_of_all),
        me(rank),
        q(q_heads() * queries() * d()),
        o(q.count()),
        d_o(q.count()),
        d_q(q.count()),
        lse(q_heads() * queries()),
        kv(block_elements(rank)),
        d_kv(kv.count()) {}

  Engine& engine;
  const Problem problem;
  const int me;
  /// @{ [batch, heads, rows, head_dim] for the rows of queries_of(); lse without head_dim.
  Buffer<T> q, o, d_o, d_q;
  Buffer<float> lse;
  /// @}
  /// K and V, and their gradients: [2, batch, kv_heads, rows, head_dim] for those of keys_of().
  Buffer<T> kv, d_kv;

  /// How many ranks there are.
  int ranks() const { return problem.ranks; }
  /// Whose block is here at a step of the ring.
  int owner(int step) const { return owner_at(me, step, ranks()); }
  /// @{ Elements of a rank's block, and of the largest.
  std::int64_t block_elements(int owner) const { return ring::block_elements(problem, owner); }
  std::int64_t largest_block() const { return ring::largest_block(problem); }
  /// @}

  /// @{ Memory, allocated when it is first asked for; the same for the same number.
  T* buffer(int number, std::int64_t count) { return grown(buffers_, number, count); }
  float* sums(int number, std::int64_t count) { return grown(sums_, number, count); }
  /// @}
  /// Elements of the first two buffers, in which every form keeps blocks of K and V.
  std::int64_t stored() const {
    return (buffers_[0] ? buffers_[0]->count() : 0) + (buffers_[1] ? buffers_[1]->count() : 0);
  }

  /// The message of a step of the ring: what belongs to its block goes to the next rank, and the
  /// same of the next step's block arrives.
  template <class X>
  Messages shift(const X* send, X* receive, int step) const {
    Messages messages;
    messages.send((me + 1) % ranks(), send, block_elements(owner(step)));
    messages.receive((me + ranks() - 1) % ranks(), receive, block_elements(owner(step + 1)));
    return messages;
  }
  /// @{ As Comm.
  void start(const Messages& messages) { engine.start(messages); }
  void wait() { engine.wait(); }
  /// @}

  /// Attention of the rank's queries over a block of keys, merged into O and LSE.
  /// @param step 0 for the first block, P - 1 for the last
  void attend(int step, int owner, const T* block) {
    T* const o_part = buffer(kPartOfQ, q.count());
    float* const lse_part = sums(kPartOfLse, lse.count());
    const auto all = parts(owner);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].queries.size() > 0) engine.attend(piece(all[i], owner, block), o_part, lse_part);
      engine.merge_part(query_rows(all[i]), o_part, lse_part, q_sums(step, i, all.size(), o),
                        lse.data());
    }
  }

  /// Adds what the rank's queries and a block of keys contribute to dQ, dK and dV.
  /// @param step   as in attend()
  /// @param of_kv  of dK and dV of this block
  /// @param before called before these are used
  template <class Before = void (*)()>
  void add_gradients(
      int step, int owner, const T* block, Sums<T> of_kv, Before before = [] {}) {
    T* const d_block = buffer(kPartOfKv, largest_block());
    T* const d_q_part = buffer(kPartOfQ, q.count());
    float* const lse_part = sums(kPartOfLse, lse.count());
    const auto all = parts(owner);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Part& part = all[i];
      const PartRows of_q = query_rows(part);
      const PartRows of_k{2 * kv_heads(), rows(keys_of(problem, owner)), part.keys.begin,
                          part.keys.size(), d()};
      if (part.queries.size() > 0) {
        const std::int64_t first = part.queries.begin * d();
        engine.copy_lse(of_q, lse.data(), lse_part);
        engine.gradients(piece(part, owner, block), o.data() + first, lse_part, d_o.data() + first,
                         d_q_part, d_block, d_block + kv_heads() * part.keys.size() * d());
      }
      if (i == 0) before();
      engine.add_part(of_q, d_q_part, q_sums(step, i, all.size(), d_q));
      engine.add_part(
          of_k, d_block,
          Sums<T>{of_kv.sums, of_kv.first && i == 0, i + 1 == all.size() ? of_kv.result : nullptr});
    }
  }

  /// The first number of buffer() and of sums() that is a form's own.
  static constexpr int kOther = 4, kOtherSums = 4;

 private:
  // Buffers 0 and 1 have blocks of K and V, these the results of a part without gaps.
  static constexpr int kPartOfKv = 2, kPartOfQ = 3;
  // Sums 0 and 1 are of dK and dV, these of O or dQ, and the LSE of a part.
  static constexpr int kSumOfQ = 2, kPartOfLse = 3;
  std::int64_t q_heads() const { return problem.shape.batch * problem.shape.heads; }
  std::int64_t kv_heads() const { return problem.shape.batch * problem.shape.kv_heads; }
  std::int64_t d() const { return problem.shape.head_dim; }
  std::int64_t queries() const { return rows(queries_of(problem, me)); }
  PartRows query_rows(const Part& part) const {
    return {q_heads(), queries(), part.queries.begin, part.queries.size(), d()};
  }
  // What is visible of a block; an empty part where nothing is, as sums begin and end all the same.
  std::vector<Part> parts(int owner) const {
    auto found = visible_parts(problem, queries_of(problem, me), keys_of(problem, owner));
    if (found.empty()) found.push_back({{0, 0}, {0, 0}, false});
    return found;
  }
  Sums<T> q_sums(int step, std::size_t part, std::size_t parts, Buffer<T>& result) {
    const bool last = step + 1 == ranks() && part + 1 == parts;
    return {sums(kSumOfQ, q.count()), step == 0 && part == 0, last ? result.data() : nullptr};
  }
  Piece<T> piece(const Part& part, int owner, const T* block) const {
    AttentionShape shape = problem.shape;
    shape.length_q = part.queries.size();
    shape.length_k = part.keys.size();
    const std::int64_t k_rows = rows(keys_of(problem, owner));
    const T* const k = block + part.keys.begin * d();
    return {shape,
            part.causal,
            q.data() + part.queries.begin * d(),
            k,
            k + kv_heads() * k_rows * d(),
            queries(),
            k_rows};
  }
  template <class X, std::size_t n>
  static X* grown(std::array<std::unique_ptr<Buffer<X>>, n>& buffers, int number,
                  std::int64_t count) {
    auto& buffer = buffers[static_cast<std::size_t>(number)];
    if (!buffer || buffer->count() < count) buffer = std::make_unique<Buffer<X>>(count);
    return buffer->data();
  }

  std::array<std::unique_ptr<Buffer<T>>, kOther + 5> buffers_;
  std::array<std::unique_ptr<Buffer<float>>, kOtherSums + 1> sums_;
};

}  // namespace fa::ring
