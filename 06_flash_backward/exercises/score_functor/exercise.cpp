#if defined(FA_STUDENT)
#include "05_flash_forward/kernels/functors/01_score_functor.cuh"
#include "06_flash_backward/kernels/functors/01_score_functor.cuh"
#include "common/attention/dual.cuh"

namespace fa::FA_TARGET {

/// A dilated window whose scores stay between -cap and cap. Query i stands at
/// key i + shift and sees, of the keys that are at most `reach` away, every
/// second one, beginning with its own. A score s becomes
/// s / (1 + |s| / cap).
struct CappedDilated : PlainScores {
  float cap;
  int reach;
  int shift;  ///< length_k - length_q, also below 0

  __host__ __device__ CappedDilated(float the_cap, int the_reach, int the_shift)
      : cap(the_cap), reach(the_reach), shift(the_shift) {}
#ifdef FA_SOLUTION
  static constexpr bool changes_scores = true;
  __host__ __device__ bool visible(int, int, int query, int key) const {
    const int distance = query + shift - key;
    return distance % 2 == 0 && -reach <= distance && distance <= reach;
  }
  __host__ __device__ TileKind tile_kind(const ScoreTile& t) const {
    const int least = t.first_query + shift - t.last_key;
    const int most = t.last_query + shift - t.first_key;
    if (most < -reach || least > reach) return TileKind::kSkipped;
    return TileKind::kPartial;
  }
  template <class R>
  __host__ __device__ R score(R s, int, int, int, int) const {
    const R size = s < R(0) ? -s : s;
    return s / (R(1) + size / R(cap));
  }
  template <class R>
  __host__ __device__ R derivative(R s, int, int, int, int) const {
    const R magnitude = s < R(0) ? -s : s;
    const R u = R(1) + magnitude / R(cap);
    return R(1) / (u * u);
  }
#else
  // TODO: visible() and tile_kind(); score() and derivative(); and what
  // tells the kernels that scores change.
#endif
};

}  // namespace fa::FA_TARGET
#elif defined(FA_ENTRIES)
#include "05_flash_forward/exercises/tile_kinds.hpp"
#include "06_flash_backward/exercises/plain.hpp"
#include "06_flash_backward/kernels/gradient.cuh"

namespace {

CappedDilated dilated(const Mask& m) {
  return CappedDilated(1, m.reach, m.length_k - m.length_q);
}

DeviceBuffer<half> uploaded(const std::vector<double>& numbers) {
  std::vector<half> typed;
  for (const double x : numbers) typed.push_back(static_cast<half>(static_cast<float>(x)));
  DeviceBuffer<half> buffer(static_cast<std::int64_t>(typed.size()));
  buffer.upload(typed.data());
  return buffer;
}

std::vector<double> downloaded(const DeviceBuffer<half>& buffer) {
  std::vector<half> typed(static_cast<std::size_t>(buffer.count()));
  buffer.download(typed.data());
  std::vector<double> result;
  for (const half x : typed) result.push_back(static_cast<double>(static_cast<float>(x)));
  return result;
}

}  // namespace

FA_ENTRY(pairs, [](const Mask& m) { return visible_pairs(m, dilated(m)); });
FA_ENTRY(kinds, [](const Mask& m) {
  if (CappedDilated::needs_map) fail("this mask needs no map: a rule says which tiles it skips");
  return tile_kinds(m, dilated(m));
});
// The changed score and the derivative, in float64.
FA_ENTRY(score, [](double s, double cap) {
  if (CappedDilated::shifts_scores) {
    fail("shifts_scores says that the derivative is 1 everywhere: some kernels then leave it out");
  }
  const CappedDilated functor(static_cast<float>(cap), 1, 0);
  return std::pair(double{functor.score(s, 0, 0, 0, 0)}, double{functor.derivative(s, 0, 0, 0, 0)});
});

// Forward and then backward: O, LSE, dQ, dK, dV.
FA_ENTRY(run, [](const fa::backward::plain::Problem& x, double cap, int reach) {
  std::pair<Seen, std::vector<std::vector<double>>> result;
  result.first = watch([&] {
    const auto q = uploaded(x.q), k = uploaded(x.k), v = uploaded(x.v), d_o = uploaded(x.d_o);
    DeviceBuffer<half> o(q.count()), d_q(q.count()), d_k(k.count()), d_v(k.count());
    DeviceBuffer<float> lse(std::int64_t{x.heads} * x.length_q);
    AttentionGradient<half> a = {};
    a.q = q.data();
    a.k = k.data();
    a.v = v.data();
    a.o = o.data();
    a.lse = lse.data();
    a.d_o = d_o.data();
    a.d_q = d_q.data();
    a.d_k = d_k.data();
    a.d_v = d_v.data();
    fa::backward::plain::set_sizes(a, x);
    const CappedDilated functor(static_cast<float>(cap), reach, x.length_k - x.length_q);
    using Tile = ForwardTile<32, 32, 2, 32>;
    launch(flash_score_functor<Tile, half, CappedDilated>,
           {grid_of(a, Tile::block_m), {Tile::threads}, pipeline_bytes<Tile, half>()},
           static_cast<const Attention<half>&>(a), functor);
    const Workspace workspace{64};
    DeviceBuffer<float> floats(workspace_floats(a, workspace));
    set_workspace(a, floats.data(), workspace);
    launch_backward_score_functor<64>(a, functor, Stream{}, nullptr);
    result.second = {downloaded(o), from_device(lse), downloaded(d_q), downloaded(d_k),
                     downloaded(d_v)};
  });
  return result;
});
#elif defined(FA_GRADER)
#include <numeric>

#include "05_flash_forward/exercises/grading/tiles.hpp"
#include "06_flash_backward/exercises/plain.hpp"
#include "common/classroom/lab.hpp"

using namespace fa::classroom;
namespace plain = fa::backward::plain;

namespace {

bool dilated(int distance, int reach) {
  return distance % 2 == 0 && std::abs(distance) <= reach;
}

void grade_mask(const Mask& m, bool tight = false) {
  const int shift = m.length_k - m.length_q;
  const Sees sees = [&](int query, int key) { return dilated(query + shift - key, m.reach); };
  const auto pairs = call<std::vector<int>>("pairs", m);
  for (int i = 0; i < static_cast<int>(pairs.size()); ++i) {
    const int query = i / m.length_k, key = i % m.length_k;
    require((pairs[i] != 0) == sees(query, key),
            fmt::format("visible() is not that of the task: it says that query {} {} key {} "
                        "(case: {})",
                        query, pairs[i] != 0 ? "sees" : "does not see", key, words(m)));
  }
  check_kinds(m, call<std::vector<int>>("kinds", m), sees, tight);
}

void grade_score(double cap, const std::vector<double>& scores) {
  const auto f = [&](double s) { return s / (1 + std::abs(s) / cap); };
  std::vector<double> score, derivative, by_differences;
  for (const double s : scores) {
    const auto [value, slope] = call<std::pair<double, double>>("score", s, cap);
    score.push_back(value);
    derivative.push_back(slope);
    const double h = 1e-5 * std::max(1.0, std::abs(s));
    by_differences.push_back((f(s + h) - f(s - h)) / (2 * h));
  }
  const auto by = [&](auto rule) {
    std::vector<double> result;
    for (const double s : scores) result.push_back(rule(s));
    return result;
  };
  const std::string where = fmt::format("cap {}", cap);
  check({"score", score}, by(f), 1e-12 * cap,
        {{"the score is not changed: score() is not there yet, so that of PlainScores answers",
          by([](double s) { return s; })},
         {"for negative scores it is wrong: the sum has |s| in it",
          by([&](double s) { return s / (1 + s / cap); })}},
        where);
  check({"derivative", derivative}, by_differences, 1e-7,
        {{"the derivative is 1: that of PlainScores, or of a score that is not changed",
          by([](double) { return 1.0; })},
         {"the square is missing: d(s / u) is not ds / u, since u depends on s",
          by([&](double s) { return 1 / (1 + std::abs(s) / cap); })},
         {"for negative scores it is wrong: the sum has |s| in it",
          by([&](double s) { return std::pow(1 + s / cap, -2); })},
         {"derivative() was given the score before the change, and takes it for the changed one",
          by([&](double s) { return std::pow(1 + std::abs(f(s)) / cap, -2); })}},
        where);
}

// O, LSE, dQ, dK and dV in float64.
std::vector<std::vector<double>> attention(const plain::Problem& x, double cap, int reach) {
  const int d = x.head_dim, rows = x.heads * x.length_q;
  std::vector<std::vector<double>> r{
      std::vector<double>(x.q.size()), std::vector<double>(rows), std::vector<double>(x.q.size()),
      std::vector<double>(x.k.size()), std::vector<double>(x.v.size())};
  const auto dot = [&](const double* a, const double* b) {
    return std::inner_product(a, a + d, b, 0.0);
  };
  for (int row = 0; row < rows; ++row) {
    const double* const q = &x.q[row * d];
    const double* const d_o = &x.d_o[row * d];
    std::vector<double> s(x.length_k), p(x.length_k);
    double sum = 0;
    for (int j = 0; j < x.length_k; ++j) {
      if (!dilated(row % x.length_q + x.length_k - x.length_q - j, reach)) continue;
      s[j] = x.scale * dot(q, &x.k[j * d]);
      p[j] = std::exp(s[j] / (1 + std::abs(s[j]) / cap));
      sum += p[j];
    }
    r[1][row] = sum == 0 ? -std::numeric_limits<double>::infinity() : std::log(sum);
    for (int j = 0; j < x.length_k && sum > 0; ++j) {
      p[j] /= sum;
      for (int c = 0; c < d; ++c) r[0][row * d + c] += p[j] * x.v[j * d + c];
    }
    const double delta = dot(d_o, &r[0][row * d]);
    for (int j = 0; j < x.length_k; ++j) {
      const double of_changed = p[j] * (dot(d_o, &x.v[j * d]) - delta);
      const double d_s = x.scale * of_changed * std::pow(1 + std::abs(s[j]) / cap, -2);
      for (int c = 0; c < d; ++c) {
        r[2][row * d + c] += d_s * x.k[j * d + c];
        r[3][j * d + c] += d_s * q[c];
        r[4][j * d + c] += p[j] * d_o[c];
      }
    }
  }
  return r;
}

void grade_kernels(int heads, int length_q, int length_k, double cap, int reach) {
  plain::Problem x = plain::random_problem(heads, length_q, length_k, 32);
  for (auto* const numbers : {&x.q, &x.k, &x.v, &x.d_o}) {
    for (double& number : *numbers) {
      number = static_cast<double>(static_cast<float>(fa::half(static_cast<float>(number))));
    }
  }
  const auto [seen, out] =
      call<std::pair<Seen, std::vector<std::vector<double>>>>("run", x, cap, reach);
  const auto right = attention(x, cap, reach);
  const std::string where = fmt::format("{} heads, {} queries, {} keys, cap {}, reach {}", heads,
                                        length_q, length_k, cap, reach);
  const char* const names[] = {"O", "LSE", "dQ", "dK", "dV"};
  for (int part = 0; part < 5; ++part) {
    check_result(seen, {}, {names[part], out[part], part == 1 ? 1 : x.head_dim}, right[part],
                 part == 1 ? 1e-3 : 2e-2, {}, where);
  }
  if (seen.watched) require_no_findings(seen);
}

}  // namespace

FA_STAGE(easy) {
  grade_mask({64, 200, 233, 64, 48});
  grade_mask({7, 90, 41, 16, 8});
  for (int reach = 0; reach < 12; ++reach) grade_mask({reach, 24, 27, 8, 4});
  grade_mask({64, 256, 256, 64, 64}, true);
}

FA_STAGE(odd) {
  grade_score(3, {-7, -3, -1.25, -0.1, 0.1, 0.5, 1, 2.5, 6, 40});
  grade_score(0.5, {-1e4, -2, 0.25, 1e4});
  grade_score(50, {-30, -1, 1e-3, 49});
}

FA_STAGE(backward) {
  grade_kernels(1, 40, 40, 2, 8);
  grade_kernels(2, 70, 33, 1, 15);
  grade_kernels(1, 20, 90, 4, 64);
}
#endif
/* Other answers, as changes of the solution
# a_map: the general way
@ easy: needs no map
- static constexpr bool changes_scores = true;
+   static constexpr bool changes_scores = true, needs_map = true;

# corners: a mask that is not monotone
@ easy: a key is lost
- const int least = t.first_query + shift - t.last_key;
- const int most = t.last_query + shift - t.first_key;
- if (most < -reach || least > reach) return TileKind::kSkipped;
- return TileKind::kPartial;
+     const bool seen = visible(0, 0, t.first_query, t.first_key) || visible(0, 0, t.first_query, t.last_key) ||
+                       visible(0, 0, t.last_query, t.first_key) || visible(0, 0, t.last_query, t.last_key);
+     return seen ? TileKind::kPartial : TileKind::kSkipped;

# not_told: the kernels leave the score out
@ compiles: needs changes_scores
- static constexpr bool changes_scores = true;
+

# shifted: a flag that only some kernels read
@ odd: shifts_scores
- static constexpr bool changes_scores = true;
+   static constexpr bool changes_scores = true, shifts_scores = true;

# one_power: the quotient without its square
@ odd: the square is missing
- return R(1) / (u * u);
+     return R(1) / u;

# dual: the derivative follows from the score
@ right
- const R magnitude = s < R(0) ? -s : s;
- const R u = R(1) + magnitude / R(cap);
- return R(1) / (u * u);
+     return score(Dual<R>(s, R(1)), 0, 0, 0, 0).derivative;
*/
