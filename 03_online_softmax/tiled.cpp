#include "03_online_softmax/tiled.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>

#include "common/parallel/parallel_for.hpp"
#include "common/tensor/matrix.hpp"

namespace fa::online {
namespace {

template <class T>  // the maximum of no scores
constexpr T kNegInf = -std::numeric_limits<T>::infinity();

void check(const Tiles& tiles) {
  if (tiles.block_m < 1 || tiles.block_n < 1) {
    throw std::invalid_argument(
        fmt::format("tiles of {} queries and {} keys: both sizes must be at least 1", tiles.block_m,
                    tiles.block_n));
  }
}

std::int64_t tiles_per_head(std::int64_t length_q, std::int64_t block_m) {
  return (length_q - 1) / block_m + 1;  // rounded up; block_m may be huge
}

// The tensors of one query head.
template <class T>
struct Head {
  View<const T, 2> q, k, v;
  View<const std::uint8_t, 2> keep;  // null without dropout
  View<T, 2> o;
  View<T, 1> lse;
  bool causal;
  std::int64_t batch, index;  // for observers

  // The number of visible keys among `key` to `key + count`; they are the first ones.
  std::int64_t seen(std::int64_t query, std::int64_t key, std::int64_t count) const {
    if (!causal) return count;
    const std::int64_t last = query + k.size(0) - q.size(0);
    return std::clamp<std::int64_t>(last + 1 - key, 0, count);
  }
};

// Copies rows `begin` to `end` of a view with any strides to a dense matrix. Memory is allocated
// only when the size changes: at the first tile, and at the last one if it is smaller.
template <class T>
void load(View<const T, 2> rows, std::int64_t begin, std::int64_t end, Matrix<T>& tile) {
  const std::int64_t cols = rows.size(1), stride = rows.strides()[1];
  tile.resize(end - begin, cols);
  for (std::int64_t i = begin; i < end; ++i) {
    const T* const from = rows.data() + i * rows.strides()[0];
    T* const to = tile.data() + (i - begin) * cols;
    if (stride == 1) {
      std::copy(from, from + cols, to);
    } else {
      for (std::int64_t c = 0; c < cols; ++c) to[c] = from[c * stride];
    }
  }
}

// Applies dropout to a tile of P that begins at (row, col), and scales the kept elements.
template <class T>
void drop(View<const std::uint8_t, 2> keep, double probability, std::int64_t row, std::int64_t col,
          Matrix<T>& p) {
  if (keep.data() == nullptr) return;
  const T factor = static_cast<T>(1.0 / (1.0 - probability));
  for (std::int64_t i = 0; i < p.rows(); ++i) {
    for (std::int64_t j = 0; j < p.cols(); ++j) {
      p(i, j) *= keep(row + i, col + j) != 0 ? factor : T(0);
    }
  }
}

template <class T>
TileMoment<T> moment(const Head<T>& head, TileStage stage, std::int64_t query, std::int64_t key,
                     const Matrix<T>& s, const Vector<T>& m, const Vector<T>& l,
                     const Matrix<T>& o) {
  return {stage,
          head.batch,
          head.index,
          query,
          key,
          {s.data(), {s.rows(), s.cols()}},
          {m.data(), {m.size()}},
          {l.data(), {l.size()}},
          {o.data(), {o.rows(), o.cols()}}};
}

// clang-format off
//! [online_softmax]
// Adds the tile of scores S at (begin, j) to the state (m, l, O) of its rows:
// S becomes P = exp(S - m), and l and O are rescaled.
template <class T>
void online_softmax(const Head<T>& head, std::int64_t begin, std::int64_t j,
                    Matrix<T>& s, Vector<T>& m, Vector<T>& l, Matrix<T>& o) {
  const std::int64_t cols = s.cols();
  for (std::int64_t i = 0; i < s.rows(); ++i) {
    const std::int64_t seen = head.seen(begin + i, j, cols);
    s.row(i).tail(cols - seen).setZero();  // masked keys
    if (seen == 0) continue;
    auto p = s.row(i).head(seen).array();  // still S
    const T m_new = std::max(p.maxCoeff(), m(i));
    if (m_new == kNegInf<T>) {  // all of them -inf: as if masked
      p.setZero();
      continue;
    }
    const T rescale = std::exp(m(i) - m_new);
    p = (p - m_new).exp();
    l(i) = rescale * l(i) + p.sum();
    o.row(i) *= rescale;
    m(i) = m_new;
  }
}
//! [online_softmax]
// clang-format on

// Attention of the queries `begin` to `end` of one head.
template <class T>
void attend(const Head<T>& head, std::int64_t begin, std::int64_t end, std::int64_t block_n,
            const AttentionOptions& options, const TileWatch<T>& watch) {
  const std::int64_t rows = end - begin, d = head.q.size(1);
  const T scale = static_cast<T>(options.scale_for(d));
  Matrix<T> q, k, v, s, o = Matrix<T>::Zero(rows, head.v.size(1));
  Vector<T> m = Vector<T>::Constant(rows, kNegInf<T>);
  Vector<T> l = Vector<T>::Zero(rows);
  const auto show = [&](TileStage stage, std::int64_t j) {  // to observers
    if (watch) watch(moment(head, stage, begin, j, s, m, l, o));
  };
  //! [tiled]
  load(head.q, begin, end, q);
  const auto needed = head.seen(end - 1, 0, head.k.size(0));
  for (std::int64_t j = 0; j < needed; j += block_n) {  // the rest is masked
    const std::int64_t cols = std::min(block_n, needed - j);
    load(head.k, j, j + cols, k);
    load(head.v, j, j + cols, v);
    s.resize(rows, cols);
    s.noalias() = scale * q * k.transpose();
    show(TileStage::kScored, j);
    online_softmax(head, begin, j, s, m, l, o);
    drop(head.keep, options.dropout_probability, begin, j, s);
    show(TileStage::kRescaled, j);
    o.noalias() += s * v;
    show(TileStage::kAdded, j);
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    const T divisor = l(i) == T(0) ? T(1) : l(i);  // 0: fully masked
    as_matrix(head.o).row(begin + i) = o.row(i) / divisor;
    head.lse(begin + i) = m(i) + std::log(l(i));
  }
  //! [tiled]
}

}  // namespace

std::int64_t tile_count(const AttentionShape& shape, const Tiles& tiles) {
  check(tiles);
  return shape.batch * shape.heads * tiles_per_head(shape.length_q, tiles.block_m);
}

template <class T>
naive::Forward<T> tiled_forward(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v,
                                const AttentionOptions& options, const Tiles& tiles,
                                const std::function<void()>& tile_done, const TileWatch<T>& watch) {
  const AttentionShape shape = attention_shape(q.shape(), k.shape(), v.shape());
  options.check(shape);
  const std::int64_t count = tile_count(shape, tiles);
  naive::Forward<T> result{Tensor<T, 4>(shape_of_o(q.shape(), v.shape())),
                           Tensor<T, 3>({shape.batch, shape.heads, shape.length_q})};
  const std::int64_t group = shape.heads / shape.kv_heads;
  const std::int64_t per_head = tiles_per_head(shape.length_q, tiles.block_m);
  parallel_for(count, [&](std::int64_t index) {
    const std::int64_t b = index / per_head / shape.heads;
    const std::int64_t h = index / per_head % shape.heads;
    const std::int64_t begin = index % per_head * tiles.block_m;
    const std::int64_t rows = std::min(tiles.block_m, shape.length_q - begin);
    Head<T> head{q.at(b).at(h),
                 k.at(b).at(h / group),
                 v.at(b).at(h / group),
                 {},
                 result.o.view().at(b).at(h),
                 result.lse.view().at(b).at(h),
                 options.causal,
                 b,
                 h};
    if (options.dropout_keep.data() != nullptr) {
      head.keep = options.dropout_keep.at(b).at(h);
    }
    attend(head, begin, begin + rows, tiles.block_n, options, watch);
    if (tile_done) tile_done();
  });
  return result;
}

#define FA_TILED_FOR(T)                                                                            \
  template naive::Forward<T> tiled_forward<T>(                                                     \
      View<const T, 4>, View<const T, 4>, View<const T, 4>, const AttentionOptions&, const Tiles&, \
      const std::function<void()>&, const TileWatch<T>&);
FA_TILED_FOR(double)
FA_TILED_FOR(float)

}  // namespace fa::online
