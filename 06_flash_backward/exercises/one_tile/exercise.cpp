#if defined(FA_STUDENT)
#include <cmath>
#include <limits>

#include "common/tensor/matrix.hpp"
#include "common/tensor/tensor.hpp"

namespace student {

using fa::Matrix;
using fa::View;

// listing: 06_flash_backward/src/derivation/tiled.cpp#range

// listing: 06_flash_backward/src/derivation/tiled.cpp#head

// listing: 06_flash_backward/src/derivation/tiled.cpp#tile_result

/// P of a tile of queries and a tile of keys, recomputed, and the gradient of their scores.
/// @param head    what one query head reads
/// @param queries of the tile: row i is query queries.begin + i
/// @param keys    of the tile: column j is key keys.begin + j
/// @param s       scale Q K^T of the tile, not masked
/// @param d_o_v   dO V^T of the tile, without dropout
template <class T>
Tile<T> recompute(const Head<T>& head, const Range& queries, const Range& keys, const Matrix<T>& s,
                  const Matrix<T>& d_o_v) {
  constexpr T kNegInf = -std::numeric_limits<T>::infinity();
  Tile<T> tile{Matrix<T>(s.rows(), s.cols()), Matrix<T>(s.rows(), s.cols())};
#ifdef FA_SOLUTION
  // listing: 06_flash_backward/src/derivation/tiled.cpp#tile_elements
#else
  // TODO: for each i and j, tile.p_kept(i, j) and tile.d_s(i, j).
  tile.p_kept.setZero();
  tile.d_s.setZero();
  (void)head, (void)queries, (void)keys, (void)d_o_v, (void)kNegInf;
#endif
  return tile;
}

}  // namespace student
#elif defined(FA_ENTRIES)
#include "06_flash_backward/exercises/plain.hpp"

namespace plain = fa::backward::plain;
using M = fa::Matrix<double>;
using Numbers = std::vector<double>;

FA_ENTRY(recompute, [](const plain::Problem& x, const Numbers& lse, const Numbers& delta,
                       const std::vector<std::uint8_t>& keep, double factor,
                       const student::Range& queries, const student::Range& keys, const M& s,
                       const M& d_o_v) {
  const auto rows = [&](const Numbers& from, int length) {
    return fa::View<const double, 2>(from.data(), {length, x.head_dim});
  };
  const student::Head<double> head{
      rows(x.q, x.length_q),
      rows(x.k, x.length_k),
      rows(x.v, x.length_k),
      rows(x.d_o, x.length_q),
      fa::View<const double, 1>(lse.data(), {x.length_q}),
      fa::View<const double, 1>(delta.data(), {x.length_q}),
      keep.empty() ? fa::View<const std::uint8_t, 2>()
                   : fa::View<const std::uint8_t, 2>(keep.data(), {x.length_q, x.length_k}),
      x.scale,
      factor,
      x.causal};
  const auto tile = student::recompute<double>(head, queries, keys, s, d_o_v);
  return std::pair(M(tile.p_kept), M(tile.d_s));
});
#elif defined(FA_GRADER)
#include "06_flash_backward/exercises/plain.hpp"
#include "common/classroom/grader.hpp"

using namespace fa::classroom;
namespace plain = fa::backward::plain;
using M = fa::Matrix<double>;

namespace {

// As the student's file has them.
struct Range {
  std::int64_t begin, end;
};
struct Tile {
  M p_kept, d_s;
};
auto parts(Tile& x) {
  return std::tie(x.p_kept, x.d_s);
}

// One column of Q and of K makes all scores about this large.
void set_scores(double level, plain::Problem& x) {
  for (int i = 0; i < x.length_q; ++i) x.q[i * x.head_dim] = level / x.scale;
  for (int j = 0; j < x.length_k; ++j) x.k[j * x.head_dim] = 1;
  x.k[(x.length_k - 2) * x.head_dim] = 2;  // the first queries do not see it
}

void grade(plain::Problem x, const Range& queries, const Range& keys, double level = 0) {
  if (level != 0) set_scores(level, x);
  const plain::Forward y = plain::forward(x);
  std::vector<double> delta;
  for (int i = 0; i < x.length_q; ++i) delta.push_back(plain::row_delta(x, y, i));
  std::vector<std::uint8_t> keep;
  double factor = 1;
  for (const double z : x.kept) {
    keep.push_back(z != 0);
    factor = std::max(factor, z);
  }
  const bool dropped = factor > 1;
  if (!dropped) keep.clear();
  M s(queries.end - queries.begin, keys.end - keys.begin), d_o_v(s.rows(), s.cols());
  std::vector<double> p_kept, d_s, base_two, asked_in_tile, unmasked, no_delta, lse_in_tile;
  std::vector<double> undropped, dropped_delta;
  for (int i = 0; i < s.rows(); ++i) {
    for (int j = 0; j < s.cols(); ++j) {
      const int query = static_cast<int>(queries.begin) + i, key = static_cast<int>(keys.begin) + j;
      s(i, j) = x.scale * plain::product(x, 0, query, key);
      d_o_v(i, j) = 0;
      for (int c = 0; c < x.head_dim; ++c) {
        d_o_v(i, j) += x.d_o[query * x.head_dim + c] * x.v[key * x.head_dim + c];
      }
      const double z = x.kept[query * x.length_k + key], exponent = s(i, j) - y.lse[query];
      const bool any = !std::isinf(y.lse[query]), seen = any && x.sees(query, key);
      const double p = seen ? std::exp(exponent) : 0;
      p_kept.push_back(p * z);
      d_s.push_back(p * (d_o_v(i, j) * z - delta[query]));
      base_two.push_back(seen ? std::exp2(exponent) * z : 0);
      asked_in_tile.push_back(any && x.sees(i, j) ? std::exp(exponent) * z : 0);
      unmasked.push_back(any ? std::exp(exponent) * z : 0);
      no_delta.push_back(p * d_o_v(i, j) * z);
      lse_in_tile.push_back(seen ? std::exp(s(i, j) - y.lse[i]) * z : 0);
      undropped.push_back(p * (d_o_v(i, j) - delta[query]));
      dropped_delta.push_back(p * z * (d_o_v(i, j) - delta[query]));
    }
  }
  const std::string where = fmt::format(
      "queries {} to {} of {}, keys {} to {} of {}{}{}{}", queries.begin, queries.end - 1,
      x.length_q, keys.begin, keys.end - 1, x.length_k, x.causal ? ", causal" : "",
      dropped ? ", dropout" : "", level == 0 ? "" : fmt::format(", scores around {}", level));
  const auto tile = call<Tile>("recompute", x, y.lse, delta, keep, factor, queries, keys, s, d_o_v);
  const auto table = [](const std::string& name, const M& m) {
    return Table{name, {m.data(), m.data() + m.size()}, m.cols()};
  };
  require(level == 0 || agree(table("", tile.p_kept).values, p_kept, 1e-11),
          "e^s and e^LSE alone are 0 or infinite here, and e^(s - LSE) is neither; what is masked "
          "is 0 by the mask, not by a small score (case: " +
              where + ")");
  check(table("p_kept", tile.p_kept), p_kept, 1e-12,
        {{"P is zero: nothing was computed", std::vector<double>(p_kept.size())},
         {"LSE is a natural logarithm: the exponential is e^x, not 2^x", base_two},
         {"the mask was asked about row i and column j of the tile; it wants numbers in the head",
          asked_in_tile},
         {"the LSE is that of row i of the tile; head.lse has the number of the query in the head",
          lse_in_tile},
         {"masked keys have a probability above 0: the mask was forgotten", unmasked}},
        where);
  check(table("d_s", tile.d_s), d_s, 1e-12,
        {{"delta was left out: dS is P * (dP - delta), elementwise", no_delta},
         {"dO V^T is not dP yet: dropout gives dP its factor, too", undropped},
         {"delta has the factor of dropout, and dP alone has it: P is before dropout here",
          dropped_delta}},
        where);
}

}  // namespace

FA_STAGE(easy) {
  grade(plain::random_problem(1, 4, 5, 3), {0, 4}, {0, 5});
}

FA_STAGE(odd) {
  grade(plain::random_problem(1, 7, 5, 3), {4, 7}, {2, 5});
  const plain::Problem causal = plain::random_problem(1, 5, 8, 4, true);
  grade(causal, {2, 5}, {1, 7});
  grade(causal, {0, 1}, {0, 1});
  const plain::Problem fully_masked = plain::random_problem(1, 7, 4, 3, true);
  grade(fully_masked, {2, 6}, {0, 3});
  const plain::Problem drops = plain::random_problem(1, 6, 6, 3, true, 0.4);
  grade(drops, {0, 3}, {0, 3});
  grade(drops, {3, 6}, {1, 6});
  grade(causal, {2, 5}, {1, 7}, 900);
  grade(causal, {2, 5}, {1, 7}, -900);
}
#endif
/* Other answers, as changes of the solution
# base_two: a power of 2 with a natural LSE
@ easy: LSE is a natural logarithm
- const T p = seen ? std::exp(s(i, j) - lse) : T(0);
+       const T p = seen ? std::exp2(s(i, j) - lse) : T(0);

# no_delta: P o dP
@ easy: delta was left out
- tile.d_s(i, j) = p * (d_o_v(i, j) * z - delta);
+       tile.d_s(i, j) = p * d_o_v(i, j) * z, (void)delta;

# mask_of_the_tile: row and column of the tile
@ odd: it wants numbers in the head
- const bool seen = head.sees(query, key) && lse != kNegInf;
+       const bool seen = head.sees(i, j) && lse != kNegInf;

# dropped_delta: dS from p_kept
@ odd: delta has the factor of dropout
- tile.d_s(i, j) = p * (d_o_v(i, j) * z - delta);
+       tile.d_s(i, j) = p * z * (d_o_v(i, j) - delta);

# quotient: e^s / e^LSE
@ odd: e^s and e^LSE alone
- const T p = seen ? std::exp(s(i, j) - lse) : T(0);
+       const T p = seen ? std::exp(s(i, j)) / std::exp(lse) : T(0);

# step_by_step: std::pow
@ right
- const T p = seen ? std::exp(s(i, j) - lse) : T(0);
+      T p = 0; if (seen == true) { T x = s(i, j); x = x - lse; p = std::pow(T(2.718281828459045), x); }
*/
