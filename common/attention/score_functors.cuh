/// @file
/// Masks and changes of scores as functors, which kernels take as a template argument. A functor
/// answers, for a query and a key of a head of a sequence,
///
///     score(s, batch, head, query, key)   the changed score, from the scaled one
///     derivative(s, ...)                  its derivative with respect to s
///     visible(batch, head, query, key)    whether the query sees the key
///
/// and, for a whole tile of scores, tile_kind(). A functor derives from PlainScores and replaces
/// what differs. All are called for queries and keys that exist, score() and derivative() only
/// where the key is visible. They run on the GPU in float32, and on the host, for lesson 01, in
/// float64.
///
/// Source: Dong et al., FlexAttention: A Programming Model for Generating Optimized Attention
/// Kernels, 2024, sections 3 and 4.
#pragma once

#include "common/gpu/kernel.cuh"

namespace fa::FA_TARGET {

/// What a tile of scores needs: nothing; a mask for each element; or scores without a mask.
enum class TileKind : unsigned char { kSkipped, kPartial, kWhole };

/// A tile of scores: queries and keys from the first to the last, which exist.
struct ScoreTile {
  int batch, head;
  int first_query, last_query;
  int first_key, last_key;
};

/// What constants of a score function are: the numbers that it computes with; see Dual.
template <class R>
struct NumberOf {
  using Type = R;
};
/// The same, in short.
template <class R>
using Number = typename NumberOf<R>::Type;

//! [plain]
/// Scores as they are, and every key visible: what a functor has that says
/// nothing else.
struct PlainScores {
  /// @{ What kernels leave out at compile time where it is false.
  static constexpr bool changes_scores = false;  ///< score(), derivative()
  static constexpr bool has_sink = false;        ///< sink(), d_sinks()
  static constexpr bool has_gradient = false;    ///< add_gradient()
  static constexpr bool needs_map = false;       ///< no tile_kind()
  /// @}
  /// The changed score, of a score that has been scaled: score(s, batch, head, query, key).
  template <class R>
  __host__ __device__ R score(R s, int, int, int, int) const {
    return s;
  }
  /// The derivative of score() by s.
  template <class R>
  __host__ __device__ R derivative(R, int, int, int, int) const {
    return 1;
  }
  /// Whether a query sees a key: visible(batch, head, query, key).
  __host__ __device__ bool visible(int, int, int, int) const { return true; }
  /// What visible() says of a whole tile.
  __host__ __device__ TileKind tile_kind(const ScoreTile&) const { return TileKind::kWhole; }
  /// The logit of a head's sink, a further key whose value is 0.
  __host__ __device__ float sink(int) const { return -INFINITY; }
  /// Where the gradient of a head's sink goes, [heads]; null: it is not computed.
  __host__ __device__ float* d_sinks() const { return nullptr; }
  /// Adds the gradient of a changed score to that of a parameter.
  __device__ void add_gradient(float, int, int, int, int) const {}
};
//! [plain]

//! [corners]
/// The kind of a tile of a monotone mask: from one edge of the matrix of scores
/// to the opposite one each row, and each column, changes once at most, and all
/// in the same direction. So the corners speak for the tile.
template <class Mask>
__host__ __device__ TileKind kind_by_corners(const Mask& mask, const ScoreTile& t) {
  const auto visible = [&](int query, int key) {
    return mask.visible(t.batch, t.head, query, key) ? 1 : 0;
  };
  const int seen = visible(t.first_query, t.first_key) + visible(t.first_query, t.last_key) +
                   visible(t.last_query, t.first_key) + visible(t.last_query, t.last_key);
  return seen == 4 ? TileKind::kWhole : seen == 0 ? TileKind::kSkipped : TileKind::kPartial;
}
//! [corners]

//! [monotone]
/// Query i sees keys up to i + offset. With length_k - length_q it is the causal mask; with a
/// larger offset, the right side of a window.
struct UpToDiagonal : PlainScores {
  int offset;
  /// @{ As PlainScores has it, and what it takes.
  __host__ __device__ explicit UpToDiagonal(int the_offset) : offset(the_offset) {}
  __host__ __device__ bool visible(int, int, int query, int key) const {
    return key - query <= offset;
  }
  __host__ __device__ TileKind tile_kind(const ScoreTile& tile) const {
    return kind_by_corners(*this, tile);
  }
  /// @}
};
/// Query i sees keys from i + offset on: the left side of a window.
struct FromDiagonal : PlainScores {
  int offset;
  /// @{ As PlainScores has it, and what it takes.
  __host__ __device__ explicit FromDiagonal(int the_offset) : offset(the_offset) {}
  __host__ __device__ bool visible(int, int, int query, int key) const {
    return key - query >= offset;
  }
  __host__ __device__ TileKind tile_kind(const ScoreTile& tile) const {
    return kind_by_corners(*this, tile);
  }
  /// @}
};
/// Every query sees the first keys.
struct Prefix : PlainScores {
  int length;
  /// @{ As PlainScores has it, and what it takes.
  __host__ __device__ explicit Prefix(int the_length) : length(the_length) {}
  __host__ __device__ bool visible(int, int, int, int key) const { return key < length; }
  __host__ __device__ TileKind tile_kind(const ScoreTile& tile) const {
    return kind_by_corners(*this, tile);
  }
  /// @}
};
//! [monotone]

//! [combined]
/// What both masks show. A tile that one of them skips is skipped; it is whole where both are.
template <class A, class B>
struct Both : PlainScores {
  A a;
  B b;
  /// @{ As PlainScores has it, and what it takes.
  __host__ __device__ Both(const A& the_a, const B& the_b) : a(the_a), b(the_b) {}
  __host__ __device__ bool visible(int batch, int head, int query, int key) const {
    return a.visible(batch, head, query, key) && b.visible(batch, head, query, key);
  }
  __host__ __device__ TileKind tile_kind(const ScoreTile& tile) const {
    const TileKind of_a = a.tile_kind(tile), of_b = b.tile_kind(tile);
    return of_a < of_b ? of_a : of_b;
  }
  /// @}
};
/// What one of the masks shows: the rule is that of Both with whole and skipped exchanged.
template <class A, class B>
struct Either : PlainScores {
  A a;
  B b;
  /// @{ As PlainScores has it, and what it takes.
  __host__ __device__ Either(const A& the_a, const B& the_b) : a(the_a), b(the_b) {}
  __host__ __device__ bool visible(int batch, int head, int query, int key) const {
    return a.visible(batch, head, query, key) || b.visible(batch, head, query, key);
  }
  __host__ __device__ TileKind tile_kind(const ScoreTile& tile) const {
    const TileKind of_a = a.tile_kind(tile), of_b = b.tile_kind(tile);
    return of_a > of_b ? of_a : of_b;
  }
  /// @}
};
/// A functor with another one's mask.
template <class Mask, class Scores>
struct Masked : Scores {
  static constexpr bool needs_map = Mask::needs_map;
  Mask mask;
  /// @{ As PlainScores has it, and what it takes.
  __host__ __device__ Masked(const Mask& the_mask, const Scores& scores)
      : Scores(scores), mask(the_mask) {}
  __host__ __device__ bool visible(int batch, int head, int query, int key) const {
    return mask.visible(batch, head, query, key);
  }
  __host__ __device__ TileKind tile_kind(const ScoreTile& tile) const {
    return mask.tile_kind(tile);
  }
  /// @}
};
//! [combined]

//! [documents]
/// Keys of the query's own document. Document numbers ascend, so those of a tile's first and last
/// tokens bound all others.
struct Documents : PlainScores {
  const int* document;  ///< of each token, [batch, length_k]
  int length_k;
  int shift;  ///< length_k - length_q: query i is token i + shift
  /// @{ As PlainScores has it, and what it takes.
  __host__ __device__ Documents(const int* documents, int tokens, int the_shift)
      : document(documents), length_k(tokens), shift(the_shift) {}
  /// The document of a query; -1, which no key has, before the first token.
  __host__ __device__ int of_query(int batch, int query) const {
    return query + shift < 0 ? -1 : of_key(batch, query + shift);
  }
  __host__ __device__ int of_key(int batch, int key) const {
    return document[std::int64_t{batch} * length_k + key];
  }
  __host__ __device__ bool visible(int batch, int, int query, int key) const {
    return of_query(batch, query) == of_key(batch, key);
  }
  __host__ __device__ TileKind tile_kind(const ScoreTile& t) const {
    const int query0 = of_query(t.batch, t.first_query), key0 = of_key(t.batch, t.first_key);
    const int query1 = of_query(t.batch, t.last_query), key1 = of_key(t.batch, t.last_key);
    if (query1 < key0 || key1 < query0) return TileKind::kSkipped;
    return query0 == query1 && key0 == key1 ? TileKind::kWhole : TileKind::kPartial;
  }
  /// @}
};
//! [documents]

//! [any_mask]
/// Blocks of scores, each visible or not. Its kinds of tiles come from a map: see TileMap.
struct BlockSparse : PlainScores {
  static constexpr bool needs_map = true;
  const unsigned char* blocks;  ///< [heads, rows, columns], 0 or 1
  int rows, columns, size;      ///< of a block: size queries and size keys
  /// @{ As PlainScores has it, and what it takes.
  __host__ __device__ BlockSparse(const unsigned char* the_blocks, int the_rows, int the_columns,
                                  int the_size)
      : blocks(the_blocks), rows(the_rows), columns(the_columns), size(the_size) {}
  __host__ __device__ bool visible(int, int head, int query, int key) const {
    return blocks[(std::int64_t{head} * rows + query / size) * columns + key / size] != 0;
  }
  /// @}
};
/// A bit for each query and key, the same for all heads: the ancestors of each token in a tree of
/// guesses, for example.
struct Bits : PlainScores {
  static constexpr bool needs_map = true;
  const std::uint32_t* bits;  ///< [batch, length_q, words]
  int length_q, words;
  /// @{ As PlainScores has it, and what it takes.
  __host__ __device__ Bits(const std::uint32_t* the_bits, int queries, int the_words)
      : bits(the_bits), length_q(queries), words(the_words) {}
  __host__ __device__ bool visible(int batch, int, int query, int key) const {
    const std::int64_t row = std::int64_t{batch} * length_q + query;
    return (bits[row * words + key / 32] >> key % 32 & 1) != 0;
  }
  /// @}
};
//! [any_mask]

//! [scores]
/// ALiBi: a penalty that grows with the distance of the key, by each head's slope.
/// Source: Press, Smith, Lewis, Train Short, Test Long, ICLR 2022.
struct Alibi : PlainScores {
  static constexpr bool changes_scores = true;
  const float* slopes;  ///< [heads]
  int shift;            ///< length_k - length_q
  /// @{ As PlainScores has it, and what it takes.
  __host__ __device__ Alibi(const float* the_slopes, int the_shift)
      : slopes(the_slopes), shift(the_shift) {}
  template <class R>
  __host__ __device__ R score(R s, int, int head, int query, int key) const {
    const int distance = query + shift - key;
    return s - Number<R>(slopes[head]) * Number<R>(distance < 0 ? -distance : distance);
  }
  /// @}
};
/// Scores that stay between -cap and cap.
/// Source: Gemma Team, Gemma 2, 2024, section 2.
struct SoftCap : PlainScores {
  static constexpr bool changes_scores = true;
  float cap, inv_cap;
  /// @{ As PlainScores has it, and what it takes.
  __host__ __device__ explicit SoftCap(float the_cap) : cap(the_cap), inv_cap(1 / the_cap) {}
  template <class R>
  __host__ __device__ R score(R s, int, int, int, int) const {
    return Number<R>(cap) * tanh_approx(s * Number<R>(inv_cap));
  }
  template <class R>
  __host__ __device__ R derivative(R s, int, int, int, int) const {
    const R t = tanh_approx(s * R(inv_cap));
    return R(1) - t * t;
  }
  /// @}
};
/// A bias for each score, whose gradient is that of the changed score, summed over what the bias is
/// broadcast to.
struct Bias : PlainScores {
  static constexpr bool changes_scores = true;
  static constexpr bool has_gradient = true;
  const float* bias;
  float* d_bias;                   ///< a sum, 0 before the launch; null: none
  std::int64_t of_batch, of_head;  ///< strides, 0 to broadcast
  std::int64_t of_query;           ///< a stride
  /// @{ As PlainScores has it, and what it takes.
  __host__ __device__ Bias(const float* the_bias, float* gradient, std::int64_t batch_stride,
                           std::int64_t head_stride, std::int64_t query_stride)
      : bias(the_bias),
        d_bias(gradient),
        of_batch(batch_stride),
        of_head(head_stride),
        of_query(query_stride) {}
  __host__ __device__ std::int64_t at(int batch, int head, int query, int key) const {
    return batch * of_batch + head * of_head + query * of_query + key;
  }
  template <class R>
  __host__ __device__ R score(R s, int batch, int head, int query, int key) const {
    return s + Number<R>(bias[at(batch, head, query, key)]);
  }
  __device__ void add_gradient(float d_s, int batch, int head, int query, int key) const {
    if (d_bias != nullptr) atomicAdd(d_bias + at(batch, head, query, key), d_s);
  }
  /// @}
};
/// A learnable sink for each head.
/// Source: Xiao et al., Efficient Streaming Language Models with Attention Sinks, ICLR 2024;
/// OpenAI, gpt-oss-120b & gpt-oss-20b Model Card, 2025.
struct Sinks : PlainScores {
  static constexpr bool has_sink = true;
  const float* sinks;  ///< [heads]
  float* gradient;     ///< [heads]; may be null
  /// @{ As PlainScores has it, and what it takes.
  __host__ __device__ Sinks(const float* the_sinks, float* the_gradient)
      : sinks(the_sinks), gradient(the_gradient) {}
  __host__ __device__ float sink(int head) const { return sinks[head]; }
  __host__ __device__ float* d_sinks() const { return gradient; }
  /// @}
};
//! [scores]

}  // namespace fa::FA_TARGET
