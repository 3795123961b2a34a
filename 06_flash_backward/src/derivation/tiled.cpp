#include "06_flash_backward/src/derivation/tiled.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>

#include "common/parallel/parallel_for.hpp"
#include "common/tensor/matrix.hpp"

namespace fa::backward {
namespace {

//! [range]
// Rows `begin` to `end` (exclusive) of a matrix.
struct Range {
  std::int64_t begin, end;
};
//! [range]

Range tile(std::int64_t index, std::int64_t size, std::int64_t length) {
  return {index * size, std::min((index + 1) * size, length)};
}

std::int64_t tiles_in(std::int64_t length, std::int64_t size) {
  return (length + size - 1) / size;
}

//! [head]
// What one query head reads, with the key head of its group.
template <class T>
struct Head {
  View<const T, 2> q, k, v, d_o;
  View<const T, 1> lse, delta;
  View<const std::uint8_t, 2> keep;  // null when nothing is dropped
  T scale, kept_factor;
  bool causal;

  bool sees(std::int64_t query, std::int64_t key) const {
    return !causal || key <= query + k.size(0) - q.size(0);
  }
  T dropout(std::int64_t query, std::int64_t key) const {
    if (keep.data() == nullptr) return 1;
    return keep(query, key) != 0 ? kept_factor : T(0);
  }
};
//! [head]

template <class T>
Matrix<T> load(View<const T, 2> from, const Range& rows) {
  return as_matrix(from.narrow(0, rows.begin, rows.end));
}

//! [tile_result]
template <class T>
struct Tile {
  Matrix<T> p_kept, d_s;  // P after dropout; dS
};
//! [tile_result]

// P of a tile of queries and a tile of keys, recomputed, and
// the gradient of their scores (but for the factor `scale`).
template <class T>
Tile<T> recompute(const Head<T>& head, const Range& queries, const Range& keys, const Matrix<T>& q,
                  const Matrix<T>& k, const Matrix<T>& v, const Matrix<T>& d_o) {
  constexpr T kNegInf = -std::numeric_limits<T>::infinity();
  const Matrix<T> s = head.scale * q * k.transpose();
  const Matrix<T> d_o_v = d_o * v.transpose();
  Tile<T> tile{Matrix<T>(s.rows(), s.cols()), Matrix<T>(s.rows(), s.cols())};
  //! [tile_elements]
  for (std::int64_t i = 0; i < s.rows(); ++i) {
    const T lse = head.lse(queries.begin + i);
    const T delta = head.delta(queries.begin + i);
    for (std::int64_t j = 0; j < s.cols(); ++j) {
      const std::int64_t query = queries.begin + i, key = keys.begin + j;
      const bool seen = head.sees(query, key) && lse != kNegInf;
      const T p = seen ? std::exp(s(i, j) - lse) : T(0);
      const T z = head.dropout(query, key);
      tile.p_kept(i, j) = p * z;
      tile.d_s(i, j) = p * (d_o_v(i, j) * z - delta);
    }
  }
  //! [tile_elements]
  return tile;
}

// clang-format off
//! [keys_outside]
// dK and dV of one tile of keys: goes through the queries that see any of
// them, of all heads of the group.
template <class T>
void collect_for_keys(const std::vector<Head<T>>& group, const Range& keys,
                      std::int64_t block_m, View<T, 2> d_k, View<T, 2> d_v) {
  const Matrix<T> k = load(group[0].k, keys), v = load(group[0].v, keys);
  Matrix<T> sum_k = Matrix<T>::Zero(k.rows(), k.cols());
  Matrix<T> sum_v = Matrix<T>::Zero(v.rows(), v.cols());
  for (const Head<T>& head : group) {
    const std::int64_t length_q = head.q.size(0);
    for (std::int64_t t = 0; t < tiles_in(length_q, block_m); ++t) {
      const Range queries = tile(t, block_m, length_q);
      if (!head.sees(queries.end - 1, keys.begin)) continue;
      const Matrix<T> q = load(head.q, queries);
      const Matrix<T> d_o = load(head.d_o, queries);
      const Tile<T> x = recompute(head, queries, keys, q, k, v, d_o);
      sum_v += x.p_kept.transpose() * d_o;
      sum_k += x.d_s.transpose() * q;
    }
  }
  as_matrix(d_k).middleRows(keys.begin, k.rows()) = group[0].scale * sum_k;
  as_matrix(d_v).middleRows(keys.begin, k.rows()) = sum_v;
}
//! [keys_outside]
// clang-format on

// dQ of one tile of queries: goes through the keys that any of them sees.
template <class T>
void collect_for_queries(const Head<T>& head, const Range& queries, std::int64_t block_n,
                         View<T, 2> d_q) {
  const Matrix<T> q = load(head.q, queries), d_o = load(head.d_o, queries);
  Matrix<T> sum_q = Matrix<T>::Zero(q.rows(), q.cols());
  const std::int64_t length_k = head.k.size(0);
  for (std::int64_t t = 0; t < tiles_in(length_k, block_n); ++t) {
    const Range keys = tile(t, block_n, length_k);
    if (!head.sees(queries.end - 1, keys.begin)) break;
    const Matrix<T> k = load(head.k, keys), v = load(head.v, keys);
    sum_q += recompute(head, queries, keys, q, k, v, d_o).d_s * k;
  }
  as_matrix(d_q).middleRows(queries.begin, q.rows()) = head.scale * sum_q;
}

template <std::size_t Rank>
void check_shape(const char* name, const std::array<std::int64_t, Rank>& is,
                 const std::array<std::int64_t, Rank>& must_be) {
  if (is == must_be) return;
  throw std::invalid_argument(
      fmt::format("{} has shape {}; {} is needed", name, to_string(is), to_string(must_be)));
}

}  // namespace

template <class T>
Tensor<T, 3> row_dots(View<const T, 4> o, View<const T, 4> d_o) {
  check_shape("d_o", d_o.shape(), o.shape());
  Tensor<T, 3> delta({o.size(0), o.size(1), o.size(2)});
  for_each_index(delta.shape(), [&](const Shape<3>& i) {
    T sum = 0;
    for (std::int64_t c = 0; c < o.size(3); ++c) {
      sum += o(i[0], i[1], i[2], c) * d_o(i[0], i[1], i[2], c);
    }
    delta.view()[i] = sum;
  });
  return delta;
}

template <class T>
naive::Gradients<T> tiled_backward(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v,
                                   View<const T, 4> o, View<const T, 3> lse, View<const T, 4> d_o,
                                   const AttentionOptions& options, const online::Tiles& tiles) {
  const AttentionShape shape = attention_shape(q.shape(), k.shape(), v.shape());
  options.check(shape);
  online::tile_count(shape, tiles);  // refuses tiles of no size
  const Shape<4> of_o = shape_of_o(q.shape(), v.shape());
  check_shape("o", o.shape(), of_o);
  check_shape("d_o", d_o.shape(), of_o);
  check_shape("lse", lse.shape(), Shape<3>{shape.batch, shape.heads, shape.length_q});
  const Tensor<T, 3> delta = row_dots<T>(o, d_o);
  const std::int64_t block_m = std::min(tiles.block_m, shape.length_q),
                     block_n = std::min(tiles.block_n, shape.length_k),
                     group = shape.heads / shape.kv_heads;
  const auto head = [&](std::int64_t b, std::int64_t h) {
    return Head<T>{q.at(b).at(h),
                   k.at(b).at(h / group),
                   v.at(b).at(h / group),
                   d_o.at(b).at(h),
                   lse.at(b).at(h),
                   delta.view().at(b).at(h),
                   options.dropout_keep.data() == nullptr ? View<const std::uint8_t, 2>()
                                                          : options.dropout_keep.at(b).at(h),
                   static_cast<T>(options.scale_for(shape.head_dim)),
                   static_cast<T>(1 / (1 - options.dropout_probability)),
                   options.causal};
  };
  naive::Gradients<T> result{Tensor<T, 4>(q.shape()), Tensor<T, 4>(k.shape()),
                             Tensor<T, 4>(v.shape())};
  const std::int64_t key_tiles = tiles_in(shape.length_k, block_n);
  parallel_for(shape.batch * shape.kv_heads * key_tiles, [&](std::int64_t index) {
    const std::int64_t t = index % key_tiles, kv_head = index / key_tiles % shape.kv_heads,
                       b = index / key_tiles / shape.kv_heads;
    std::vector<Head<T>> heads;
    for (std::int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h)
      heads.push_back(head(b, h));
    collect_for_keys(heads, tile(t, block_n, shape.length_k), block_m,
                     result.d_k.view().at(b).at(kv_head), result.d_v.view().at(b).at(kv_head));
  });
  const std::int64_t query_tiles = tiles_in(shape.length_q, block_m);
  parallel_for(shape.batch * shape.heads * query_tiles, [&](std::int64_t index) {
    const std::int64_t t = index % query_tiles, h = index / query_tiles % shape.heads,
                       b = index / query_tiles / shape.heads;
    collect_for_queries(head(b, h), tile(t, block_m, shape.length_q), block_n,
                        result.d_q.view().at(b).at(h));
  });
  return result;
}

#define FA_TILED_BACKWARD_FOR(T)                                                                \
  template Tensor<T, 3> row_dots<T>(View<const T, 4>, View<const T, 4>);                        \
  template naive::Gradients<T> tiled_backward<T>(                                               \
      View<const T, 4>, View<const T, 4>, View<const T, 4>, View<const T, 4>, View<const T, 3>, \
      View<const T, 4>, const AttentionOptions&, const online::Tiles&);
FA_TILED_BACKWARD_FOR(double)
FA_TILED_BACKWARD_FOR(float)

}  // namespace fa::backward
