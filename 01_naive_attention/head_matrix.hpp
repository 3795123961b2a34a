/// @file
/// One head of a tensor as a matrix, in the type of its sums, and back. The functions for one head
/// are written in that type, and round what the storage type would have rounded.
#pragma once

#include <cstdint>
#include <type_traits>

#include "common/attention/shape.hpp"
#include "common/parallel/parallel_for.hpp"
#include "common/tensor/matrix.hpp"
#include "common/tensor/tensor.hpp"

namespace fa::naive {

/// Rounds computed values to the storage type and back. The functions for one head take it as an
/// argument, so they are written and compiled once for all storage types.
template <class A>
using Stored = Matrix<A> (*)(Matrix<A>);

/// Stored for the type T.
template <class T>
Matrix<accumulator_t<T>> stored_as(Matrix<accumulator_t<T>> values) {
  if constexpr (std::is_same_v<T, accumulator_t<T>>) {
    return values;
  } else {
    return values.template cast<T>().template cast<accumulator_t<T>>();
  }
}

/// Calls body(b, h, kv_head), threaded, for each query head h of each sequence b; it reads keys and
/// values from head kv_head.
template <class Body>
void for_each_head(const AttentionShape& shape, Body body) {
  const std::int64_t group = shape.heads / shape.kv_heads;
  parallel_for(shape.batch * shape.heads, [&](std::int64_t i) {
    const std::int64_t h = i % shape.heads;
    body(i / shape.heads, h, h / group);
  });
}

/// Copies a head of a tensor to a matrix. Plain loops compile fast.
template <class T>
Matrix<accumulator_t<T>> load_head(View<const T, 4> tensor, std::int64_t b, std::int64_t h) {
  const View<const T, 2> head = tensor.at(b).at(h);
  Matrix<accumulator_t<T>> result(head.size(0), head.size(1));
  for (std::int64_t i = 0; i < head.size(0); ++i) {
    for (std::int64_t j = 0; j < head.size(1); ++j) {
      result(i, j) = static_cast<accumulator_t<T>>(head(i, j));
    }
  }
  return result;
}

/// Copies a matrix to a head of a tensor.
template <class T, class A>
void store_head(const Matrix<A>& head, View<T, 4> tensor, std::int64_t b, std::int64_t h) {
  const View<T, 2> target = tensor.at(b).at(h);
  for (std::int64_t i = 0; i < head.rows(); ++i) {
    for (std::int64_t j = 0; j < head.cols(); ++j) target(i, j) = static_cast<T>(head(i, j));
  }
}

/// Copies sums over the query heads of each group to a tensor of K's or V's gradient.
/// @param per_head [batch, heads, length_k, columns]
/// @param result   [batch, kv_heads, length_k, columns]
template <class T, class A>
void sum_groups(View<const A, 4> per_head, View<T, 4> result) {
  const std::int64_t group = per_head.size(1) / result.size(1);
  parallel_for(result.size(0) * result.size(1), [&](std::int64_t i) {
    const std::int64_t b = i / result.size(1), kv_head = i % result.size(1);
    Matrix<A> sum = Matrix<A>::Zero(result.size(2), result.size(3));
    for (std::int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
      sum += load_head<A>(per_head, b, h);
    }
    store_head(sum, result, b, kv_head);
  });
}

}  // namespace fa::naive
