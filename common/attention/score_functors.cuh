/// @file
/// Masks and changes of scores as functors, which kernels take as a template argument. A functor
/// answers, for a query and a key of a head of a sequence,
///
///     score(s, batch, head, query, key)   the changed score, from the scaled one; -infinity masks
///     derivative(s, ...)                  its derivative with respect to s
///     visible(batch, head, query, key)    whether the query sees the key
///
/// and, for a whole tile of scores, tile_kind(). A functor derives from PlainScores and replaces
/// what differs. All are called for queries and keys that exist, score() and derivative() only
/// where the key exists. They run on the GPU in float32, and on the host, for lesson 01, in
/// float64.
///
/// Most masks show a query a range of keys, and a key to a range of queries. These derive from
/// RangeMask: keys() and queries() say it all.
///
/// Source: Dong et al., FlexAttention: A Programming Model for Generating Optimized Attention
/// Kernels, 2024, sections 3 and 4.
#pragma once

#include <type_traits>

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

/// Keys, or queries, begin <= i < end. Either may lie outside of those that exist.
struct IndexRange {
  int begin, end;
};

/// @{ The smaller and the larger of two numbers.
__host__ __device__ constexpr int smaller(int a, int b) {
  return a < b ? a : b;
}
__host__ __device__ constexpr int larger(int a, int b) {
  return a < b ? b : a;
}
/// @}

/// More keys or queries, or a larger distance, than there are.
constexpr int kUnlimited = 1 << 30;

/// Scores as they are, and every key visible: what a functor has that says
/// nothing else.
struct PlainScores {
  /// @{ What kernels leave out at compile time where it is false.
  static constexpr bool changes_scores = false;   ///< score(), derivative()
  static constexpr bool shifts_scores = false;    ///< it adds to s: its derivative is 1
  static constexpr bool has_wide_scores = true;   ///< score() can be -infinity, or any large number
  static constexpr bool folds_constants = false;  ///< lane(), unit()
  static constexpr bool has_slope = false;        ///< score() adds lane().slope from key to key
  static constexpr bool has_sink = false;         ///< sink(), d_sinks()
  static constexpr bool has_gradient = false;     ///< add_gradient()
  static constexpr bool shows_ranges = false;     ///< keys(), queries(): see RangeMask
  static constexpr bool needs_map = false;        ///< no tile_kind()
  static constexpr bool has_words = false;        ///< word()
  static constexpr bool differs_by_head = true;   ///< visible(): each head needs a map of its own
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

/// A mask that shows a query a range of keys, keys(batch, query), and a key to
/// a range of queries, queries(batch, key), the same for all heads. From a
/// query or a key to the next one neither end decreases: so the first and the
/// last one of a tile speak for those between them.
template <class Mask>
struct RangeMask : PlainScores {
  static constexpr bool shows_ranges = true;
  /// @{ As PlainScores has it.
  __host__ __device__ bool visible(int batch, int, int query, int key) const {
    const IndexRange seen = self().keys(batch, query);
    return seen.begin <= key && key < seen.end;
  }
  /// Of the ranges of its first and its last query.
  //! [range_rule]
  __host__ __device__ TileKind tile_kind(const ScoreTile& t) const {
    const IndexRange first = self().keys(t.batch, t.first_query);
    const IndexRange last = self().keys(t.batch, t.last_query);
    if (t.last_key < first.begin || last.end <= t.first_key) {
      return TileKind::kSkipped;
    }
    const bool whole = last.begin <= t.first_key && t.last_key < first.end;
    return whole ? TileKind::kWhole : TileKind::kPartial;
  }
  //! [range_rule]
  /// @}
  /// The mask has its own: see check_mask().
  __host__ __device__ IndexRange queries(int batch, int key) const;

 private:
  __host__ __device__ const Mask& self() const { return static_cast<const Mask&>(*this); }
};

/// The class that declares a member function.
template <class Class, class Function>
Class declares(Function Class::*);
/// Fails to compile where a mask inherits what speaks of another mask.
template <class Mask>
__host__ __device__ constexpr void check_mask() {
  using Visible = decltype(declares(&Mask::visible));
  if constexpr (Mask::shows_ranges) {
    using Keys = decltype(declares(&Mask::keys));
    static_assert(std::is_same_v<Visible, Keys> || std::is_same_v<Visible, RangeMask<Keys>>,
                  "a functor with a visible() of its own shows no ranges");
    static_assert(std::is_same_v<decltype(declares(&Mask::queries)), Keys>,
                  "a mask with keys(batch, query) needs queries(batch, key) for a backward pass");
  } else if constexpr (!Mask::needs_map) {
    static_assert(std::is_same_v<Visible, decltype(declares(&Mask::tile_kind))>,
                  "a functor with a visible() of its own needs a tile_kind(), or needs_map");
  }
  if constexpr (Mask::has_words) {
    static_assert(std::is_same_v<Visible, decltype(declares(&Mask::word))>,
                  "a functor with a visible() of its own needs a word(), or has_words = false");
  }
}
/// Fails to compile where kernels would leave out the score() of a functor.
template <class Functor>
__host__ __device__ constexpr void check_scores() {
  using Score = decltype(declares(&Functor::template score<float>));
  static_assert(Functor::changes_scores || std::is_same_v<Score, PlainScores>,
                "a functor with a score() of its own needs changes_scores = true");
}

/// Every key.
struct AllKeys : RangeMask<AllKeys> {
  /// @{ See RangeMask.
  __host__ __device__ IndexRange keys(int, int) const { return {0, kUnlimited}; }
  __host__ __device__ IndexRange queries(int, int) const { return {0, kUnlimited}; }
  /// @}
};
/// Query i sees keys up to i + offset. With length_k - length_q it is the causal mask.
struct UpToDiagonal : RangeMask<UpToDiagonal> {
  int offset;
  /// @{ See RangeMask, and what it takes.
  __host__ __device__ explicit UpToDiagonal(int the_offset) : offset(the_offset) {}
  __host__ __device__ IndexRange keys(int, int query) const { return {0, query + offset + 1}; }
  __host__ __device__ IndexRange queries(int, int key) const { return {key - offset, kUnlimited}; }
  /// @}
};
/// Query i sees keys from i + first up to i + last.
struct Window : RangeMask<Window> {
  int first, last;
  /// @{ See RangeMask, and what it takes.
  __host__ __device__ Window(int the_first, int the_last) : first(the_first), last(the_last) {}
  //! [window]
  __host__ __device__ IndexRange keys(int, int query) const {
    return {query + first, query + last + 1};
  }
  __host__ __device__ IndexRange queries(int, int key) const {
    return {key - last, key - first + 1};
  }
  //! [window]
  /// @}
};
/// Every query sees the first keys, and query i all keys up to i + offset.
struct Prefix : RangeMask<Prefix> {
  int length, offset;
  /// @{ See RangeMask, and what it takes.
  __host__ __device__ Prefix(int the_length, int the_offset)
      : length(the_length), offset(the_offset) {}
  __host__ __device__ IndexRange keys(int, int query) const {
    return {0, larger(length, query + offset + 1)};
  }
  __host__ __device__ IndexRange queries(int, int key) const {
    return {key < length ? 0 : key - offset, kUnlimited};
  }
  /// @}
};
/// Keys of the query's own document.
struct Documents : RangeMask<Documents> {
  const int* ranges;  ///< of each token's document, [batch, length_k, begin and end]
  int length_k;
  int shift;  ///< length_k - length_q: query i is token i + shift
  /// @{ See RangeMask, and what it takes.
  __host__ __device__ Documents(const int* the_ranges, int tokens, int the_shift)
      : ranges(the_ranges), length_k(tokens), shift(the_shift) {}
  __host__ __device__ IndexRange keys(int batch, int query) const {
    const int token = query + shift;
    return token < 0 ? IndexRange{0, 0} : range_of(batch, token);
  }
  __host__ __device__ IndexRange queries(int batch, int key) const {
    const IndexRange tokens = range_of(batch, key);
    return {tokens.begin - shift, tokens.end - shift};
  }
  /// The tokens of a token's document.
  __host__ __device__ IndexRange range_of(int batch, int token) const {
    const int* const range = ranges + 2 * (std::int64_t{batch} * length_k + token);
    return {range[0], range[1]};
  }
  /// @}
};

/// What two ranges have in common.
__host__ __device__ inline IndexRange common_range(const IndexRange& a, const IndexRange& b) {
  return {larger(a.begin, b.begin), smaller(a.end, b.end)};
}
/// What both masks show.
template <class A, class B>
struct Both : RangeMask<Both<A, B>> {
  A a;
  B b;
  /// @{ As PlainScores has it, and what it takes.
  __host__ __device__ Both(const A& the_a, const B& the_b) : a(the_a), b(the_b) {
    check_mask<A>(), check_mask<B>();
  }
  __host__ __device__ IndexRange keys(int batch, int query) const {
    return common_range(a.keys(batch, query), b.keys(batch, query));
  }
  __host__ __device__ IndexRange queries(int batch, int key) const {
    return common_range(a.queries(batch, key), b.queries(batch, key));
  }
  /// @}
};
/// A functor with another one's mask.
template <class Mask, class Scores>
struct Masked : Scores {
  static constexpr bool shows_ranges = Mask::shows_ranges;
  static constexpr bool needs_map = Mask::needs_map;
  static constexpr bool has_words = Mask::has_words;
  static constexpr bool differs_by_head = Mask::differs_by_head;
  Mask mask;
  /// @{ As PlainScores has it, and what it takes.
  __host__ __device__ Masked(const Mask& the_mask, const Scores& scores)
      : Scores(scores), mask(the_mask) {
    check_mask<Mask>();
  }
  __host__ __device__ IndexRange keys(int batch, int query) const {
    return mask.keys(batch, query);
  }
  __host__ __device__ IndexRange queries(int batch, int key) const {
    return mask.queries(batch, key);
  }
  __host__ __device__ bool visible(int batch, int head, int query, int key) const {
    return mask.visible(batch, head, query, key);
  }
  __host__ __device__ std::uint32_t word(int batch, int head, int query, int key) const {
    return mask.word(batch, head, query, key);
  }
  __host__ __device__ TileKind tile_kind(const ScoreTile& tile) const {
    return mask.tile_kind(tile);
  }
  /// @}
};

/// Blocks of scores, each visible or not.
struct BlockSparse : PlainScores {
  const unsigned char* blocks;  ///< [heads, rows, columns], 0 or 1
  int rows, columns, size;      ///< of a block: size queries and size keys
  /// @{ As PlainScores has it, and what it takes.
  __host__ __device__ BlockSparse(const unsigned char* the_blocks, int the_rows, int the_columns,
                                  int the_size)
      : blocks(the_blocks), rows(the_rows), columns(the_columns), size(the_size) {}
  __host__ __device__ bool visible(int, int head, int query, int key) const {
    const std::int64_t row = std::int64_t{head} * rows + query / size;
    return blocks[row * columns + key / size] != 0;
  }
  __host__ __device__ TileKind tile_kind(const ScoreTile& t) const {
    bool any = false, all = true;
    for (int row = t.first_query / size; row <= t.last_query / size; ++row) {
      for (int col = t.first_key / size; col <= t.last_key / size; ++col) {
        const bool seen = visible(t.batch, t.head, row * size, col * size);
        any = any || seen;
        all = all && seen;
      }
    }
    return all ? TileKind::kWhole : any ? TileKind::kPartial : TileKind::kSkipped;
  }
  /// @}
};
/// A bit for each query and key, the same for all heads: the ancestors of each token in a tree of
/// guesses, for example.
struct Bits : PlainScores {
  static constexpr bool needs_map = true;
  static constexpr bool has_words = true;
  static constexpr bool differs_by_head = false;
  const std::uint32_t* bits;  ///< [batch, length_q, words]
  int length_q, words;
  /// @{ As PlainScores has it, and what it takes.
  __host__ __device__ Bits(const std::uint32_t* the_bits, int queries, int the_words)
      : bits(the_bits), length_q(queries), words(the_words) {}
  __host__ __device__ bool visible(int batch, int head, int query, int key) const {
    return (word(batch, head, query, key) >> key % 32 & 1) != 0;
  }
  /// What visible() says of 32 keys, a bit for each: of this one and those with the same key / 32.
  __host__ __device__ std::uint32_t word(int batch, int, int query, int key) const {
    const std::int64_t row = std::int64_t{batch} * length_q + query;
    return bits[row * words + key / 32];
  }
  /// @}
};

/// ALiBi: a penalty that grows with the distance of the key, by each head's slope.
/// Source: Press, Smith, Lewis, Train Short, Test Long, ICLR 2022.
struct Alibi : PlainScores {
  static constexpr bool changes_scores = true;
  static constexpr bool shifts_scores = true;
  static constexpr bool has_wide_scores = false;
  const float* slopes;  ///< [heads]
  int shift;            ///< length_k - length_q
  /// @{ As PlainScores has it, and what it takes.
  __host__ __device__ Alibi(const float* the_slopes, int the_shift)
      : slopes(the_slopes), shift(the_shift) {}
  //! [alibi]
  template <class R>
  __host__ __device__ R score(R s, int, int head, int query, int key) const {
    const int distance = query + shift - key;
    const int size = distance < 0 ? -distance : distance;
    return s - Number<R>(slopes[head]) * Number<R>(size);
  }
  //! [alibi]
  /// @}
};
/// Scores that stay between -cap and cap.
/// Source: Gemma Team, Gemma 2, 2024, section 2.
struct SoftCap : PlainScores {
  static constexpr bool changes_scores = true;
  static constexpr bool has_wide_scores = false;
  float cap, inv_cap;
  /// @{ As PlainScores has it, and what it takes.
  __host__ __device__ explicit SoftCap(float the_cap) : cap(the_cap), inv_cap(1 / the_cap) {}
  //! [soft_cap]
  template <class R>
  __host__ __device__ R score(R s, int, int, int, int) const {
    return Number<R>(cap) * tanh_approx(s * Number<R>(inv_cap));
  }
  template <class R>
  __host__ __device__ R derivative(R s, int, int, int, int) const {
    const R t = tanh_approx(s * Number<R>(inv_cap));
    return R(1) - t * t;
  }
  //! [soft_cap]
  /// @}
};
/// A bias for each score, whose gradient is that of the changed score, summed over what the bias is
/// broadcast to.
struct Bias : PlainScores {
  static constexpr bool changes_scores = true;
  static constexpr bool shifts_scores = true;
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
    //! [add_gradient]
    if (d_bias != nullptr) {
      atomicAdd(d_bias + at(batch, head, query, key), d_s);
    }
    //! [add_gradient]
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

/// The scores of a lane, of a functor that folds no constants. The lane has a first query and a first
/// key, and a score is i queries and j keys from these; i and j are constants of the compiled code.
/// What a functor reads for a head is read once for all tiles: the same lane of another tile is
/// at_keys() of this one.
template <class Functor>
struct LaneScores {
  const Functor& functor;
  float scale;
  int batch, head, query, key;
  int last_query, last_key;  ///< that exist

  /// The changed score.
  /// @param s without the scale
  __device__ float score(float s, int i, int j) const {
    return functor.score(scale * s, batch, head, query_at(i), key_at(j));
  }
  /// The derivative of score() by the scaled score.
  /// @param s likewise
  __device__ float derivative(float s, float /*changed*/, int i, int j) const {
    return functor.derivative(scale * s, batch, head, query_at(i), key_at(j));
  }
  /// The lane so many keys further on.
  __device__ LaneScores at_keys(int keys) const {
    return {functor, scale, batch, head, query, key + keys, last_query, last_key};
  }

 private:
  // A score of a query or a key that does not exist is masked: it may be any.
  __device__ int query_at(int i) const { return smaller(query + i, last_query); }
  __device__ int key_at(int j) const { return smaller(key + j, last_key); }
};
/// ALiBi where no query sees a key after it: without |distance| each key has the slope more than the
/// key before it. A mask goes with it that shows ranges. The distance is a whole number, so that its
/// product with the slope is rounded once.
struct CausalAlibi : Alibi {
  static constexpr bool folds_constants = true;
  static constexpr bool has_slope = true;
  using Alibi::Alibi;
  /// See LaneScores.
  struct Lane {
    float slope;  ///< divided by the scale
    float after;  ///< keys that the first key comes after the first query's place
    /// @{ As LaneScores has it.
    __device__ float score(float s, int i, int j) const {
      return s + slope * (after + static_cast<float>(j - i));
    }
    __device__ float derivative(float, float, int, int) const { return 1; }
    __device__ Lane at_keys(int keys) const { return {slope, after + static_cast<float>(keys)}; }
    /// @}
  };
  /// Whether scores relative to another key of the tile are exact enough: with larger slopes they
  /// would lose digits that count at the query's own place.
  __device__ bool is_gentle(int head) const { return fabsf(slopes[head]) <= 1; }
  /// That of a lane.
  __device__ Lane lane(float scale, int, int head, int query, int key, int, int) const {
    return {slopes[head] / scale, static_cast<float>(key - query - shift)};
  }
  /// What scores of lanes are to be multiplied by.
  __device__ float unit(float scale) const { return scale; }
};
/// The soft cap with its factors folded into those of the kernel: one multiplication and tanh.
struct FoldedSoftCap : SoftCap {
  static constexpr bool folds_constants = true;
  using SoftCap::SoftCap;
  /// See LaneScores.
  struct Lane {
    float scale;
    /// @{ As LaneScores has it.
    __device__ float score(float s, int, int) const { return tanh_approx(s * scale); }
    __device__ float derivative(float, float t, int, int) const { return 1 - t * t; }
    __device__ Lane at_keys(int) const { return *this; }
    /// @}
  };
  /// That of a lane.
  __device__ Lane lane(float scale, int, int, int, int, int, int) const {
    return {scale * inv_cap};
  }
  /// What scores of lanes are to be multiplied by.
  __device__ float unit(float) const { return cap; }
};
/// The bias with the address of the lane's first one, from which the others lie at distances that
/// the compiler knows.
struct FoldedBias : Bias {
  static constexpr bool folds_constants = true;
  using Bias::Bias;
  /// See LaneScores.
  struct Lane {
    float scale;
    const float* first;
    std::int64_t of_query;  ///< a stride
    int queries, keys;      ///< that exist, from the first ones on
    /// @{ As LaneScores has it.
    __device__ float score(float s, int i, int j) const {
      return s * scale + (i < queries && j < keys ? first[i * of_query + j] : 0.0f);
    }
    __device__ float derivative(float, float, int, int) const { return 1; }
    __device__ Lane at_keys(int distance) const {
      return {scale, first + distance, of_query, queries, keys - distance};
    }
    /// @}
  };
  /// That of a lane.
  __device__ Lane lane(float scale, int batch, int head, int query, int key, int last_query,
                       int last_key) const {
    return {scale, bias + at(batch, head, query, key), of_query, last_query - query + 1,
            last_key - key + 1};
  }
  /// What scores of lanes are to be multiplied by.
  __device__ float unit(float) const { return 1; }
};

/// Whether kernels must compute with scores of any size: P = exp(S' - m) from the difference, as the
/// product of m with a constant may overflow, or be rounded by more than 1.
template <class Functor>
constexpr bool kWideScores = Functor::changes_scores ? Functor::has_wide_scores : false;

/// log2(P), from a changed score and LSE / ln 2. P of scores of any size is at most 1, also where LSE
/// is so large that it is rounded by more than 1.
/// @param scale what makes logarithms of base 2 of scores
template <class Functor>
__device__ float changed_exponent(float changed, float scale, float lse) {
  const float exponent = changed * scale - lse;
  return kWideScores<Functor> && exponent > 0 ? 0.0f : exponent;
}

/// What a lane's scores are to be multiplied by: the scale, where a functor does not change them.
template <class Functor>
__device__ float unit_of(const Functor& functor, float scale) {
  if constexpr (Functor::folds_constants) return functor.unit(scale);
  return Functor::changes_scores ? 1.0f : scale;
}

}  // namespace fa::FA_TARGET
