#ifdef FA_ENTRIES  // the student's process
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
#else  // the grader
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

// What the formulas of P and dS are made of.
struct Element {
  int i, j;           // in the tile
  int query, key;     // in the head
  double s;           // scaled, not masked
  double lse, delta;  // of the query
  double d_o_v, z;    // dropout's factor is not in d_o_v
  bool seen;          // and the query sees a key
  double p() const { return seen ? std::exp(s - lse) : 0; }
};

using Formula = std::function<double(const Element&)>;

double right_d_s(const Element& e) {
  return e.p() * (e.d_o_v * e.z - e.delta);
}

// A tile of a problem with one head.
struct Case {
  plain::Problem x;
  Range queries, keys;
  std::vector<double> lse, delta;

  Case(const plain::Problem& problem, const Range& of_queries, const Range& of_keys)
      : x(problem), queries(of_queries), keys(of_keys) {
    const plain::Forward y = plain::forward(x);
    for (int i = 0; i < x.length_q; ++i) {
      lse.push_back(y.lse[i]);
      delta.push_back(plain::row_delta(x, y, i));
    }
  }
  Element element(int i, int j) const {
    Element e{i, j, int(queries.begin) + i, int(keys.begin) + j, 0, 0, 0, 0, 0, false};
    e.s = x.scale * plain::product(x, 0, e.query, e.key);
    e.lse = lse[e.query];
    e.delta = delta[e.query];
    for (int c = 0; c < x.head_dim; ++c) {
      e.d_o_v += x.d_o[e.query * x.head_dim + c] * x.v[e.key * x.head_dim + c];
    }
    e.z = x.kept[e.query * x.length_k + e.key];
    e.seen = x.sees(e.query, e.key) && !std::isinf(e.lse);
    return e;
  }
  int height() const { return int(queries.end - queries.begin); }
  int width() const { return int(keys.end - keys.begin); }
  // Each element of the tile by a formula.
  std::vector<double> by(const Formula& formula) const {
    std::vector<double> result;
    for (int i = 0; i < height(); ++i) {
      for (int j = 0; j < width(); ++j) result.push_back(formula(element(i, j)));
    }
    return result;
  }
  M matrix(const Formula& formula) const {
    M result(height(), width());
    const std::vector<double> numbers = by(formula);
    std::copy(numbers.begin(), numbers.end(), result.data());
    return result;
  }
};

std::vector<Mistake> wrong_p(const Case& c) {
  return {
      {"P is zero: nothing was computed", c.by([](const Element&) { return 0.0; })},
      {"LSE is a natural logarithm: the exponential is e^x, not 2^x",
       c.by([](const Element& e) { return e.seen ? std::exp2(e.s - e.lse) * e.z : 0; })},
      {"the mask was asked about row i and column j of the tile; it wants numbers in the head",
       c.by([&](const Element& e) {
         return c.x.sees(e.i, e.j) && !std::isinf(e.lse) ? std::exp(e.s - e.lse) * e.z : 0;
       })},
      {"masked keys have a probability above 0: the mask was forgotten",
       c.by([](const Element& e) { return std::isinf(e.lse) ? 0 : std::exp(e.s - e.lse) * e.z; })}};
}

std::vector<Mistake> wrong_d_s(const Case& c) {
  return {{"dS is zero: nothing was computed", c.by([](const Element&) { return 0.0; })},
          {"delta was left out: dS is P * (dP - delta), elementwise",
           c.by([](const Element& e) { return e.p() * e.d_o_v * e.z; })},
          {"the scale is not multiplied in here: dQ and dK get it at the end",
           c.by([&](const Element& e) { return c.x.scale * right_d_s(e); })},
          {"dP without dropout: a dropped probability passes no gradient on, and a kept one its "
           "factor",
           c.by([](const Element& e) { return e.p() * (e.d_o_v - e.delta); })}};
}

// One column of Q and of K makes all scores about this large.
plain::Problem with_scores_around(double level, plain::Problem x) {
  for (int i = 0; i < x.length_q; ++i) {
    x.q[i * x.head_dim] = level / x.scale;
  }
  for (int j = 0; j < x.length_k; ++j) x.k[j * x.head_dim] = 1;
  x.k[(x.length_k - 2) * x.head_dim] = 2;  // the first queries do not see it
  return x;
}

void grade(const plain::Problem& problem, const Range& queries, const Range& keys,
           double level = 0) {
  const Case c(level == 0 ? problem : with_scores_around(level, problem), queries, keys);
  const plain::Problem& x = c.x;
  std::vector<std::uint8_t> keep;
  double factor = 1;
  for (const double z : x.kept) {
    keep.push_back(z != 0);
    factor = std::max(factor, z);
  }
  const bool dropped = factor > 1;
  if (!dropped) keep.clear();
  const std::string where = fmt::format(
      "queries {} to {} of {}, keys {} to {} of {}{}{}{}", queries.begin, queries.end - 1,
      x.length_q, keys.begin, keys.end - 1, x.length_k, x.causal ? ", causal" : "",
      dropped ? ", dropout" : "", level == 0 ? "" : fmt::format(", scores around {}", level));
  const auto tile = call<Tile>("recompute", x, c.lse, c.delta, keep, factor, queries, keys,
                               c.matrix([](const Element& e) { return e.s; }),
                               c.matrix([](const Element& e) { return e.d_o_v; }));
  const auto numbers = [](const M& m) {
    return std::vector<double>(m.data(), m.data() + m.size());
  };
  const auto right_p = c.by([](const Element& e) { return e.p() * e.z; });
  if (level != 0) {
    require(agree(numbers(tile.p_kept), right_p, 1e-11),
            "e^s and e^LSE alone are 0 or infinite here, and e^(s - LSE) is neither; what is "
            "masked is 0 by the mask, not by a small score (case: " +
                where + ")");
  }
  check({"p_kept", numbers(tile.p_kept), c.width()}, right_p, 1e-12, wrong_p(c), where);
  check({"d_s", numbers(tile.d_s), c.width()}, c.by(right_d_s), 1e-12, wrong_d_s(c), where);
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
