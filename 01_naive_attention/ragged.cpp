#include "01_naive_attention/ragged.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>

namespace fa {
namespace {

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) {
  throw std::invalid_argument(fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace

void check_cu_seqlens(const std::string& name, const std::vector<std::int32_t>& cu_seqlens,
                      std::int64_t tokens) {
  if (cu_seqlens.size() < 2) {
    refuse("{} has {} elements; it must have one more than there are sequences, at least 2", name,
           cu_seqlens.size());
  }
  if (cu_seqlens.front() != 0) refuse("{}[0] is {}; it must be 0", name, cu_seqlens.front());
  for (std::size_t i = 1; i < cu_seqlens.size(); ++i) {
    if (cu_seqlens[i] < cu_seqlens[i - 1]) {
      refuse("{}[{}] is {}, less than {}[{}], which is {}", name, i, cu_seqlens[i], name, i - 1,
             cu_seqlens[i - 1]);
    }
  }
  if (cu_seqlens.back() != tokens) {
    refuse("{}[{}], the last one, is {}; it must be {}, the number of tokens", name,
           cu_seqlens.size() - 1, cu_seqlens.back(), tokens);
  }
}

void BlockTable::check(std::int64_t cache_pages, std::int64_t page_size) const {
  if (page_size < 1) refuse("page_size is {}; it must be at least 1", page_size);
  if (static_cast<std::int64_t>(lengths.size()) != pages.size(0)) {
    refuse("the block table has {} rows, and there are {} lengths; they must be as many",
           pages.size(0), lengths.size());
  }
  for (std::int64_t b = 0; b < pages.size(0); ++b) {
    const std::int64_t length = lengths[static_cast<std::size_t>(b)];
    const std::int64_t most = pages.size(1) * page_size;
    if (length < 0 || length > most) {
      refuse("sequence {} has length {}; allowed are 0 to {}, in {} pages of {}", b, length, most,
             pages.size(1), page_size);
    }
    for (std::int64_t i = 0; i * page_size < length; ++i) {
      if (pages(b, i) < 0 || pages(b, i) >= cache_pages) {
        refuse("the block table has page {} in row {}, column {}; allowed are 0 to {}", pages(b, i),
               b, i, cache_pages - 1);
      }
    }
  }
}

namespace naive {
namespace {

void check_no_dropout(const AttentionOptions& options) {
  if (options.dropout_keep.data() != nullptr) {
    refuse("a dropout mask of shape {}; sequences of different lengths have no dropout",
           to_string(options.dropout_keep.shape()));
  }
}

// Tokens `begin` to `end` of a packed tensor, as a batch of one sequence.
template <class T>
View<const T, 4> sequence(View<const T, 3> packed, std::int64_t begin, std::int64_t end) {
  const auto tokens = packed.narrow(0, begin, end);
  const Shape<3>&shape = tokens.shape(), &strides = tokens.strides();
  return {
      tokens.data(), {1, shape[1], shape[0], shape[2]}, {0, strides[1], strides[0], strides[2]}};
}

// The first `length` tokens of the pages in one row of a block table, as a batch of one sequence.
template <class T>
Tensor<T, 4> gathered(View<const T, 4> cache, View<const std::int32_t, 1> row,
                      std::int64_t length) {
  const std::int64_t page_size = cache.size(1);
  Tensor<T, 4> result({1, cache.size(2), length, cache.size(3)});
  for (std::int64_t h = 0; h < cache.size(2); ++h) {
    for (std::int64_t j = 0; j < length; ++j) {
      for (std::int64_t e = 0; e < cache.size(3); ++e) {
        result(0, h, j, e) = cache(row(j / page_size), j % page_size, h, e);
      }
    }
  }
  return result;
}

template <class A>
constexpr A kOfNoKeys = -std::numeric_limits<A>::infinity();

}  // namespace

template <class T>
VarlenForward<T> forward_varlen(View<const T, 3> q, View<const T, 3> k, View<const T, 3> v,
                                const std::vector<std::int32_t>& cu_seqlens_q,
                                const std::vector<std::int32_t>& cu_seqlens_k,
                                const AttentionOptions& options) {
  check_no_dropout(options);
  check_cu_seqlens("cu_seqlens_q", cu_seqlens_q, q.size(0));
  check_cu_seqlens("cu_seqlens_k", cu_seqlens_k, k.size(0));
  if (cu_seqlens_q.size() != cu_seqlens_k.size()) {
    refuse("cu_seqlens_q has {} sequences and cu_seqlens_k {}; they must have as many",
           cu_seqlens_q.size() - 1, cu_seqlens_k.size() - 1);
  }
  const Shape<4> of_q = sequence(q, 0, q.size(0)).shape(), of_k = sequence(k, 0, k.size(0)).shape(),
                 of_v = sequence(v, 0, v.size(0)).shape();
  attention_shape(of_q, of_k, of_v);  // the sizes match
  VarlenForward<T> result{Tensor<T, 3>({q.size(0), q.size(1), v.size(2)}),
                          Tensor<accumulator_t<T>, 2>({q.size(1), q.size(0)})};
  std::fill_n(result.lse.data(), result.lse.count(), kOfNoKeys<accumulator_t<T>>);
  for (std::size_t i = 0; i + 1 < cu_seqlens_q.size(); ++i) {
    const std::int64_t begin = cu_seqlens_q[i], end = cu_seqlens_q[i + 1];
    const std::int64_t begin_k = cu_seqlens_k[i], end_k = cu_seqlens_k[i + 1];
    if (begin == end || begin_k == end_k) continue;
    const auto one = forward<T>(sequence(q, begin, end), sequence(k, begin_k, end_k),
                                sequence(v, begin_k, end_k), options);
    copy(one.o.view().at(0).swap_axes(0, 1), result.o.view().narrow(0, begin, end));
    copy(one.lse.view().at(0), result.lse.view().narrow(1, begin, end));
  }
  return result;
}

template <class T>
Forward<T> forward_paged(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v,
                         const BlockTable& table, const AttentionOptions& options) {
  check_no_dropout(options);
  table.check(k.size(0), k.size(1));
  if (q.size(0) != table.pages.size(0)) {
    refuse("q has batch {}, and the block table has {} rows; they must be as many", q.size(0),
           table.pages.size(0));
  }
  const auto heads_first = [&](const Shape<4>& cache) {
    return Shape<4>{q.size(0), cache[2], cache[0] * cache[1], cache[3]};
  };
  attention_shape(q.shape(), heads_first(k.shape()), heads_first(v.shape()));  // the sizes match
  Forward<T> result{Tensor<T, 4>(shape_of_o(q.shape(), v.shape())),
                    Tensor<accumulator_t<T>, 3>({q.size(0), q.size(1), q.size(2)})};
  std::fill_n(result.lse.data(), result.lse.count(), kOfNoKeys<accumulator_t<T>>);
  for (std::int64_t b = 0; b < q.size(0); ++b) {
    const std::int64_t length = table.lengths[static_cast<std::size_t>(b)];
    if (length == 0) continue;
    const View<const std::int32_t, 1> row = table.pages.view().at(b);
    const auto one = forward<T>(q.narrow(0, b, b + 1), gathered(k, row, length),
                                gathered(v, row, length), options);
    copy(one.o.view(), result.o.view().narrow(0, b, b + 1));
    copy(one.lse.view(), result.lse.view().narrow(0, b, b + 1));
  }
  return result;
}

#define FA_RAGGED_FOR(T)                                                                      \
  template VarlenForward<T> forward_varlen<T>(                                                \
      View<const T, 3>, View<const T, 3>, View<const T, 3>, const std::vector<std::int32_t>&, \
      const std::vector<std::int32_t>&, const AttentionOptions&);                             \
  template Forward<T> forward_paged<T>(View<const T, 4>, View<const T, 4>, View<const T, 4>,  \
                                       const BlockTable&, const AttentionOptions&);
FA_RAGGED_FOR(double)
FA_RAGGED_FOR(float)
FA_RAGGED_FOR(half)
FA_RAGGED_FOR(bfloat16)

}  // namespace naive
}  // namespace fa
