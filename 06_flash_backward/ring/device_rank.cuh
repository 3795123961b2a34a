/// @file
/// Lesson 06, ring attention on GPUs: what a rank computes. The kernels are those behind the C
/// interfaces of lessons 05 and 06; transfers are given, so that the same code runs over NCCL, and
/// in tests over copies between ranks that share one device.
#pragma once

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <vector>

#include "06_flash_backward/interface/flash_attention_backward.h"
#include "06_flash_backward/ring/device_rows.cuh"
#include "06_flash_backward/ring/layout.hpp"

namespace fa::FA_TARGET {

/// What a rank sends to the next one in the ring and receives from the one before. Either may have
/// no bytes.
struct RingMessage {
  const void* send;
  std::int64_t send_bytes;
  void* receive;
  std::int64_t receive_bytes;
};

/// A rank's rows of a problem in bfloat16, in the memory of its device, and memory to compute with.
/// All of it is allocated here.
class DeviceRank {
 public:
  using T = bfloat16;
  /// @throws std::runtime_error when memory does not suffice, or for a problem that the interfaces
  ///         refuse
  DeviceRank(const ring::Problem& problem, int rank);

  /// @{ [batch, heads, rows, head_dim] for the rows of queries_of(); lse without head_dim.
  DeviceBuffer<T> q, o, d_o, d_q;
  DeviceBuffer<float> lse;
  /// @}
  /// K and V, and their gradients: [2, batch, kv_heads, rows, head_dim] for those of keys_of().
  DeviceBuffer<T> kv, d_kv;

  /// Begins to compute O and LSE.
  /// @tparam Links has shift(messages, stream), which begins transfers after what the stream has to
  ///   do so far, and wait(stream), which makes the stream wait for them
  template <class Links>
  void forward(Links& links, const Stream& stream);
  /// Begins to compute dQ, dK and dV, after forward().
  template <class Links>
  void backward(Links& links, const Stream& stream);
  /// Begins to pass K and V on, with nothing beside it.
  template <class Links>
  void shift_block(Links& links, const Stream& stream) {
    if (!merges()) return;
    links.shift({message(kv.data(), next_[0].data(), 0)}, stream);
    links.wait(stream);
  }

 private:
  static std::int64_t rows(const ring::Ranges& ranges) { return ring::rows(ranges); }
  std::int64_t q_heads() const { return problem_.shape.batch * problem_.shape.heads; }
  std::int64_t kv_heads() const { return problem_.shape.batch * problem_.shape.kv_heads; }
  std::int64_t d() const { return problem_.shape.head_dim; }
  std::int64_t queries() const { return rows(queries_of(problem_, rank_)); }
  std::int64_t keys(int owner) const { return rows(keys_of(problem_, owner)); }
  std::int64_t block_elements(int owner) const { return 2 * kv_heads() * keys(owner) * d(); }
  std::int64_t largest_block() const;
  bool merges() const { return problem_.ranks > 1; }
  int owner(int step) const { return ring::owner_at(rank_, step, problem_.ranks); }
  // The parts of a step; where it has none, an empty one, as sums begin and end all the same.
  std::vector<ring::Part> parts_at(int step) const {
    auto found = parts(owner(step));
    if (found.empty()) found.push_back({{0, 0}, {0, 0}, false});
    return found;
  }
  // Sums before and after a part: the result is complete with the last one of the last step.
  Sums<T> sums_at(int step, std::size_t part, float* sums, T* result) const {
    const bool last = step + 1 == problem_.ranks && part + 1 == parts_at(step).size();
    return {sums, step == 0 && part == 0, last ? result : nullptr};
  }
  // One rank has the whole problem.
  ring::Part whole() const { return {{0, queries()}, {0, keys(rank_)}, problem_.causal}; }
  std::vector<ring::Part> parts(int owner) const {
    if (!merges()) return {whole()};
    return visible_parts(problem_, queries_of(problem_, rank_), keys_of(problem_, owner));
  }
  std::size_t most_workspace(bool backward) const;
  PartRows query_rows(const ring::Part& part) const {
    return {q_heads(), queries(), part.queries.begin, part.queries.size(), d()};
  }
  fa_strides strides(std::int64_t heads, std::int64_t rows) const {
    return {heads * rows * d(), rows * d(), d()};
  }
  // The block of a step, or its sums, to the next rank; that of the next step arrives.
  template <class Element>
  RingMessage message(const Element* send, Element* receive, int step) const {
    constexpr auto bytes = static_cast<std::int64_t>(sizeof(Element));
    return {send, bytes * block_elements(owner(step)), receive,
            bytes * block_elements(owner(step + 1))};
  }
  fa_attention attention_of(const ring::Part& part, int owner, const T* block) const;
  fa_gradient gradient_of(const ring::Part& part, int owner, const T* block);
  void forward_alone(const Stream& stream);
  void backward_alone(const Stream& stream);
  void begin_forward(fa_attention& a, const Stream& stream);
  void begin_backward(fa_gradient& g, const Stream& stream);
  void attend(int step, const T* block, const Stream& stream);
  template <class Ready>
  void add_gradients(int step, T* block, float* d_block, Ready ready, const Stream& stream);

  ring::Problem problem_;
  int rank_;
  std::array<DeviceBuffer<T>, 2> next_;        // blocks that arrive
  std::array<DeviceBuffer<float>, 2> d_sums_;  // of a block: arriving, and leaving
  DeviceBuffer<T> q_part_, d_kv_part_;         // of a part, without gaps: O or dQ; dK and dV
  DeviceBuffer<float> lse_part_, q_sum_;       // LSE of a part; sums of O or of dQ
  DeviceBuffer<unsigned> tile_counter_;
  DeviceBuffer<char> workspace_;
};

/// Throws what an interface says.
inline void check_interface(int status, const char* message) {
  if (status == FA_STATUS_REFUSED) throw std::invalid_argument(message);
  if (status != FA_STATUS_OK) throw std::runtime_error(message);
}

inline DeviceRank::DeviceRank(const ring::Problem& problem, int rank)
    : q(problem.shape.batch * problem.shape.heads * rows(queries_of(problem, rank)) *
        problem.shape.head_dim),
      o(q.count()),
      d_o(q.count()),
      d_q(q.count()),
      lse(q.count() / problem.shape.head_dim),
      kv(2 * problem.shape.batch * problem.shape.kv_heads * rows(keys_of(problem, rank)) *
         problem.shape.head_dim),
      d_kv(kv.count()),
      problem_(problem),
      rank_(rank),
      // Two ranks receive one block each, and one rank needs nothing but the workspace.
      next_{DeviceBuffer<T>(merges() ? largest_block() : 0),
            DeviceBuffer<T>(problem.ranks > 2 ? largest_block() : 0)},
      d_sums_{DeviceBuffer<float>(merges() ? largest_block() : 0),
              DeviceBuffer<float>(merges() ? largest_block() : 0)},
      q_part_(merges() ? q.count() : 0),
      d_kv_part_(merges() ? largest_block() : 0),
      lse_part_(merges() ? lse.count() : 0),
      q_sum_(q_part_.count()),
      tile_counter_(static_cast<std::int64_t>(most_workspace(false) / sizeof(unsigned))),
      workspace_(static_cast<std::int64_t>(most_workspace(true))) {
  tile_counter_.zero();
}

inline std::int64_t DeviceRank::largest_block() const {
  std::int64_t most = 0;
  for (int owner = 0; owner < problem_.ranks; ++owner) {
    most = std::max(most, block_elements(owner));
  }
  return most;
}

// Of all parts that this rank computes.
inline std::size_t DeviceRank::most_workspace(bool backward) const {
  std::size_t most = 0;
  for (int owner = 0; owner < problem_.ranks; ++owner) {
    for (const ring::Part& part : parts(owner)) {
      fa_gradient g{};
      g.size = sizeof g;
      g.attention = attention_of(part, owner, kv.data());
      const std::size_t bytes =
          backward ? fa_backward_workspace_bytes(&g) : fa_workspace_bytes(&g.attention);
      const char* const message = backward ? fa_backward_last_error() : fa_last_error();
      if (bytes == 0 && *message != '\0') throw std::invalid_argument(message);
      most = std::max(most, bytes);
    }
  }
  return (most + sizeof(unsigned) - 1) / sizeof(unsigned) * sizeof(unsigned);
}

// A part as a problem for lesson 05; its O and LSE lie without gaps.
inline fa_attention DeviceRank::attention_of(const ring::Part& part, int owner,
                                             const T* block) const {
  const AttentionShape& s = problem_.shape;
  fa_attention a{};
  a.size = sizeof a;
  a.q = q.data() + part.queries.begin * d();
  a.k = block + part.keys.begin * d();
  a.v = block + (kv_heads() * keys(owner) + part.keys.begin) * d();
  a.q_strides = strides(s.heads, queries());
  a.k_strides = a.v_strides = strides(s.kv_heads, keys(owner));
  a.o_strides = strides(s.heads, part.queries.size());
  a.batch = s.batch;
  a.heads = s.heads;
  a.kv_heads = s.kv_heads;
  a.length_q = part.queries.size();
  a.length_k = part.keys.size();
  a.head_dim = a.head_dim_v = s.head_dim;
  a.type = FA_TYPE_BFLOAT16;
  a.causal = part.causal ? 1 : 0;
  a.scale = fa_default_scale(s.head_dim);
  return a;
}

// The same with dO and the gradients of a part, and the LSE of its rows.
inline fa_gradient DeviceRank::gradient_of(const ring::Part& part, int owner, const T* block) {
  const AttentionShape& s = problem_.shape;
  fa_gradient g{};
  g.size = sizeof g;
  g.attention = attention_of(part, owner, block);
  const std::int64_t first = part.queries.begin * d();
  g.attention.o = o.data() + first;  // over all keys
  g.attention.lse = lse_part_.data();
  g.d_o = d_o.data() + first;
  g.attention.o_strides = g.d_o_strides = strides(s.heads, queries());
  g.d_q = q_part_.data();
  g.d_q_strides = strides(s.heads, part.queries.size());
  g.d_k = d_kv_part_.data();
  g.d_v = d_kv_part_.data() + kv_heads() * part.keys.size() * d();
  g.d_k_strides = g.d_v_strides = strides(s.kv_heads, part.keys.size());
  return g;
}

// The whole problem with one call each, of one rank.
inline void DeviceRank::forward_alone(const Stream& stream) {
  fa_attention a = attention_of(whole(), rank_, kv.data());
  a.o = o.data();
  a.lse = lse.data();
  begin_forward(a, stream);
}
inline void DeviceRank::backward_alone(const Stream& stream) {
  fa_gradient g = gradient_of(whole(), rank_, kv.data());
  g.attention.lse = lse.data();
  g.d_q = d_q.data();
  g.d_k = d_kv.data();
  g.d_v = d_kv.data() + d_kv.count() / 2;
  begin_backward(g, stream);
}

inline void DeviceRank::begin_forward(fa_attention& a, const Stream& stream) {
  a.stream = stream.native();
  a.workspace = tile_counter_.count() > 0 ? tile_counter_.data() : nullptr;
  a.workspace_bytes = sizeof(unsigned) * static_cast<std::size_t>(tile_counter_.count());
  check_interface(fa_forward(&a), fa_last_error());
}
inline void DeviceRank::begin_backward(fa_gradient& g, const Stream& stream) {
  g.attention.stream = stream.native();
  g.workspace = workspace_.data();
  g.workspace_bytes = static_cast<std::size_t>(workspace_.count());
  check_interface(fa_backward(&g), fa_backward_last_error());
}

inline void DeviceRank::attend(int step, const T* block, const Stream& stream) {
  const std::vector<ring::Part> all = parts_at(step);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].queries.size() > 0) {
      fa_attention a = attention_of(all[i], owner(step), block);
      a.o = q_part_.data();
      a.lse = lse_part_.data();
      begin_forward(a, stream);
    }
    const PartRows to = query_rows(all[i]);
    launch_rows(stream, to.all(), d(), merge_part<T>, to, q_part_.data(), lse_part_.data(),
                sums_at(step, i, q_sum_.data(), o.data()), lse.data());
  }
}

// clang-format off
//! [forward]
template <class Links>
void DeviceRank::forward(Links& links, const Stream& stream) {
  if (!merges()) return forward_alone(stream);
  const T* block = kv.data();
  for (int step = 0; step < problem_.ranks; ++step) {
    const bool last = step + 1 == problem_.ranks;
    T* const next = next_[step % 2].data();
    if (!last) links.shift({message(block, next, step)}, stream);
    attend(step, block, stream);
    if (!last) links.wait(stream);
    block = next;
  }
}
//! [forward]
// clang-format on

// Adds a rank's contribution to its dQ and to the sums of a block. In the last step these sums are
// complete; rounded, they take the place of the block.
// @param ready called before the sums of the block are used
template <class Ready>
void DeviceRank::add_gradients(int step, T* block, float* d_block, Ready ready,
                               const Stream& stream) {
  const std::vector<ring::Part> all = parts_at(step);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const ring::Part& part = all[i];
    const PartRows of_q = query_rows(part);
    const PartRows of_kv{2 * kv_heads(), keys(owner(step)), part.keys.begin, part.keys.size(), d()};
    if (part.queries.size() > 0) {
      launch_flat(stream, of_q.all(), copy_lse, of_q, lse.data(), lse_part_.data());
      fa_gradient g = gradient_of(part, owner(step), block);
      begin_backward(g, stream);
    }
    ready();
    launch_rows(stream, of_q.all(), d(), add_part<T>, of_q, q_part_.data(),
                sums_at(step, i, q_sum_.data(), d_q.data()));
    launch_rows(stream, of_kv.all(), d(), add_part<T>, of_kv, d_kv_part_.data(),
                sums_at(step, i, d_block, block));
  }
}

template <class Links>
void DeviceRank::backward(Links& links, const Stream& stream) {
  if (!merges()) return backward_alone(stream);
  T* block = kv.data();
  const int ranks = problem_.ranks;
  for (int step = 0; step < ranks; ++step) {
    T* const next = next_[step % 2].data();
    float* const sums = d_sums_[step % 2].data();
    std::vector<RingMessage> messages;
    if (step + 1 < ranks) messages.push_back(message(block, next, step));
    if (step > 0) {  // the sums of the block that has left
      const float* const leaving = d_sums_[(step - 1) % 2].data();
      messages.push_back(message(leaving, sums, step - 1));
    }
    links.shift(messages, stream);
    add_gradients(
        step, block, sums, [&] { links.wait(stream); }, stream);
    if (step + 1 < ranks) block = next;
  }
  // One step further, to the owner.
  links.shift({message<T>(block, d_kv.data(), ranks - 1)}, stream);
  links.wait(stream);
}

}  // namespace fa::FA_TARGET
