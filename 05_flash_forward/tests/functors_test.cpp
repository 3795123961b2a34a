// Kernels with functors on every backend of this build that can run here, against lesson 01 with
// the same functor; and the functors against their definitions, which are written here, too.
#include "05_flash_forward/src/functors.hpp"

#include <cmath>
#include <functional>
#include <stdexcept>

#include <doctest/doctest.h>

#include "05_flash_forward/tests/functor_specs.hpp"
#include "common/attention/dual.cuh"
#include "common/attention/functor_instances.cuh"

using namespace fa;
using namespace fa::attention;
using flash::functors::FunctorChecker;
using on_lab::ScoreTile;
using on_lab::TileKind;

namespace {

using Tests =
    FunctorTests<FunctorChecker, flash::functors::backends, flash::functors::functor_inputs>;

// Whether a query sees a key, by the words of functor_spec.hpp. Position p is the query's among the
// keys.
bool seen(const FunctorSpec& spec, const AttentionShape& shape, int b, int h, int i, int j) {
  const int p = i + static_cast<int>(shape.length_k - shape.length_q);
  const bool in_window =
      (spec.left < 0 || j >= p - spec.left) && (spec.right < 0 || j <= p + spec.right);
  const auto document = [&](int token) { return spec.documents[2 * (b * shape.length_k + token)]; };
  switch (spec.kind) {
    case FunctorKind::kPlain:
      return true;
    case FunctorKind::kCausal:
      return j <= p;
    case FunctorKind::kPrefix:
      return j <= p || j < spec.prefix;
    case FunctorKind::kDocuments:
      return in_window && p >= 0 && document(p) == document(j);
    case FunctorKind::kBlockSparse: {
      const auto blocks = [&](std::int64_t length) {
        return (length + spec.block_size - 1) / spec.block_size;
      };
      const std::int64_t row = h * blocks(shape.length_q) + i / spec.block_size;
      return spec.blocks[row * blocks(shape.length_k) + j / spec.block_size] == 1;
    }
    case FunctorKind::kBits: {
      const std::int64_t words = (shape.length_k + 31) / 32;
      const std::uint32_t word = spec.bits[(b * shape.length_q + i) * words + j / 32];
      return (word & (1u << j % 32)) != 0;
    }
    default:
      return in_window;
  }
}

// A changed score, likewise.
double changed(const FunctorSpec& spec, const AttentionShape& shape, double s, int b, int h, int i,
               int j) {
  const int p = i + static_cast<int>(shape.length_k - shape.length_q);
  switch (spec.kind) {
    case FunctorKind::kAlibi:
      return s - static_cast<double>(spec.slopes[h]) * std::abs(p - j);
    case FunctorKind::kSoftCap:
      return static_cast<double>(spec.cap) * std::tanh(s / static_cast<double>(spec.cap));
    case FunctorKind::kBias:
      return s + static_cast<double>(
                     spec.bias[b * spec.bias_batch + h * spec.bias_head + i * spec.bias_query + j]);
    default:
      return s;
  }
}

const AttentionShape kShapes[] = {{2, 4, 2, 113, 203, 64},
                                  {2, 2, 1, 203, 113, 64},
                                  {1, 2, 2, 1, 17, 64},
                                  {1, 1, 1, 130, 130, 64}};

// Calls work(spec, shape) for every functor with tables on each shape.
void for_each_functor(const std::function<void(const FunctorSpec&, const AttentionShape&)>& work) {
  for (const AttentionShape& shape : kShapes) {
    for (FunctorSpec spec : all_specs()) {
      const Problem problem = problem_of(Type::kBFloat16, shape);
      const auto tables = flash::functors::random_tables(problem, spec, 7);
      work(pointed(spec, tables), shape);
    }
  }
}

}  // namespace

TEST_CASE("each functor sees and changes what its definition says") {
  for_each_functor([](const FunctorSpec& spec, const AttentionShape& shape) {
    const ScoreFunctor functor = flash::functors::reference_functor(spec, shape);
    CAPTURE(static_cast<int>(spec.kind));
    bool equal = true;
    for_each_index(Shape<4>{shape.batch, shape.heads, shape.length_q, shape.length_k},
                   [&](const Shape<4>& at) {
                     const auto n = [&](int axis) { return static_cast<int>(at[axis]); };
                     equal = equal && functor.visible(at[0], at[1], at[2], at[3]) ==
                                          seen(spec, shape, n(0), n(1), n(2), n(3));
                     const double expected = changed(spec, shape, 0.7, n(0), n(1), n(2), n(3));
                     equal = equal && std::abs(functor.score(0.7, at[0], at[1], at[2], at[3]) -
                                               expected) < 1e-6;
                   });
    CHECK(equal);
  });
}

TEST_CASE("each derivative, by hand and by dual numbers, agrees with central differences") {
  for_each_functor([](const FunctorSpec& spec, const AttentionShape& shape) {
    CAPTURE(static_cast<int>(spec.kind));
    on_lab::with_functor(
        spec, static_cast<int>(shape.length_q), static_cast<int>(shape.length_k),
        [&](const auto& functor) {
          const ScoreFunctor reference = reference_of(functor);
          const on_lab::WithDual dual(functor);
          const int i = static_cast<int>(shape.length_q) - 1;
          for (const double s : {-3.0, -0.4, 0.0, 0.9, 2.5}) {
            const double derivative = functor.derivative(s, 0, 0, i, 0);
            CHECK(derivative == doctest::Approx(reference.derivative(s, 0, 0, i, 0)).epsilon(1e-6));
            CHECK(dual.derivative(s, 0, 0, i, 0) == doctest::Approx(derivative));
            CHECK(dual.score(s, 0, 0, i, 0) == functor.score(s, 0, 0, i, 0));
          }
        });
  });
}

TEST_CASE("dual numbers follow the rules of differentiation") {
  using Dual = on_lab::Dual<double>;
  using on_lab::tanh_approx;
  // Each operator, with constants on either side.
  const auto f = [](auto x) {
    using R = decltype(x);
    const R y = 2.0 * x - 0.5, z = (y * y + x) / (x * 3.0 + R(7));
    return (x < y ? -z : z) / 4.0 - (1.5 - z * tanh_approx(x)) + (0.25 + x / (z - R(20)));
  };
  for (const double x : {-1.7, -0.2, 0.3, 0.9, 4.0}) {
    const double h = 1e-6;
    const Dual result = f(Dual(x, 1.0));
    CHECK(result.value == doctest::Approx(f(x)));
    CHECK(result.derivative == doctest::Approx((f(x + h) - f(x - h)) / (2 * h)).epsilon(1e-7));
    CHECK(f(Dual(x)).derivative == 0);  // a constant
  }
}

TEST_CASE("rules for tiles, and ranges of queries, are those of the definition") {
  for_each_functor([](const FunctorSpec& spec, const AttentionShape& shape) {
    CAPTURE(static_cast<int>(spec.kind));
    const int length_q = static_cast<int>(shape.length_q),
              length_k = static_cast<int>(shape.length_k);
    on_lab::with_functor(spec, length_q, length_k, [&](const auto& functor) {
      if (functor.needs_map) return;
      int wrong = 0;
      for (const auto& [m, n] : {std::pair{16, 8}, {64, 32}, {5, 48}}) {
        for (int query0 = 0; query0 < length_q; query0 += m) {
          for (int key0 = 0; key0 < length_k; key0 += n) {
            const ScoreTile tile{
                static_cast<int>(shape.batch) - 1,  0,    query0,
                std::min(query0 + m, length_q) - 1, key0, std::min(key0 + n, length_k) - 1};
            bool any = false, all = true;
            for (int i = tile.first_query; i <= tile.last_query; ++i) {
              for (int j = tile.first_key; j <= tile.last_key; ++j) {
                const bool visible = seen(spec, shape, tile.batch, 0, i, j);
                any = any || visible;
                all = all && visible;
              }
            }
            wrong += functor.tile_kind(tile) != (all   ? TileKind::kWhole
                                                 : any ? TileKind::kPartial
                                                       : TileKind::kSkipped);
          }
        }
      }
      if constexpr (std::decay_t<decltype(functor)>::shows_ranges) {
        for_each_index(Shape<2>{shape.length_q, shape.length_k}, [&](const Shape<2>& at) {
          const int i = static_cast<int>(at[0]), j = static_cast<int>(at[1]);
          const auto queries = functor.queries(0, j);
          wrong += (queries.begin <= i && i < queries.end) != functor.visible(0, 0, i, j);
        });
      }
      CHECK(wrong == 0);
    });
  });
}

TEST_CASE("every functor with odd lengths, groups and rows without keys") {
  for (const FunctorSpec& spec : all_specs()) Tests::check_sizes(spec);
}

TEST_CASE("windows around the edges of tiles") {
  Tests::check_windows({1, 1, 1, 260, 333, 64});
}

TEST_CASE("documents that only one warpgroup of a tile of queries sees") {
  // Tile 8 has the queries from 1024 on, and its second warpgroup those from 1088 on.
  for (const std::int32_t border : {1030, 1088}) {
    for (const int right : {-1, 0}) {
      const Problem problem = problem_of(Type::kBFloat16, {1, 1, 1, 1600, 1600, 64});
      auto inputs = flash::functors::functor_inputs(
          problem, of_kind(FunctorKind::kDocuments, -1, right), Values::kNormal, 1);
      inputs.tables.documents = flash::functors::documents_of({0, border, 1600}, 1600);
      Tests::Tests::check_everywhere(problem, inputs, 1, [](const auto&) { return true; });
    }
  }
}

TEST_CASE("functors with other layouts, and with scores of +-1e4") {
  Tests::check_layouts_and_scores();
}

TEST_CASE("a bias of -infinity masks, and one of -1e4 to the least float as well") {
  Tests::check_masking_biases();
}

TEST_CASE("rows whose scores are all the same negative number have the mean of V") {
  Tests::with_equal_scores([](const auto& step, const Problem& problem, auto inputs, float masked) {
    for (std::int64_t i = 0; i < inputs.q.count(); ++i) inputs.q.data()[i] = 0;
    const Outputs out = step.run(problem, inputs);
    const double lse = static_cast<double>(masked) + std::log(133.0);
    double o_error = 0, lse_error = 0;
    for (int i = 0; i < 70; ++i) {
      lse_error = std::max(lse_error, std::abs(static_cast<double>(out.lse(0, 0, i)) - lse));
      CHECK(std::isfinite(out.lse(0, 0, i)));
      for (int col = 0; col < 64; ++col) {
        double mean = 0;
        for (int j = 0; j < 133; ++j) mean += static_cast<double>(inputs.v(0, 0, j, col)) / 133;
        const double error = std::abs(static_cast<double>(out.o(0, 0, i, col)) - mean);
        o_error = std::isfinite(error) ? std::max(o_error, error) : INFINITY;
      }
    }
    CHECK(o_error < 2e-3);
    CHECK(lse_error <= 1e-4 + 1e-6 * std::abs(lse));
  });
}

namespace {

// The largest error of LSE, of the best backend's steps, over what is allowed.
double lse_error(const FunctorSpec& spec, const AttentionShape& shape,
                 const std::vector<float>& slopes) {
  const Problem problem = problem_of(Type::kBFloat16, shape);
  const auto inputs = flash::functors::functor_inputs(
      problem, spec, Values::kNormal, 1, [&](FunctorTables& tables) { tables.slopes = slopes; });
  const auto q = converted<double>(inputs.q), k = converted<double>(inputs.k),
             v = converted<double>(inputs.v);
  const auto ref = naive::forward<double>(
      q.view(), k.view(), v.view(),
      flash::functors::reference_functor(pointed(inputs.spec, inputs.tables), problem.shape));
  double largest = 0;
  for (const auto& step : Tests::Tests::best().steps) {
    if (!step.supports(problem)) continue;
    const Outputs out = step.run(problem, inputs);
    for (std::int64_t i = 0; i < ref.lse.count(); ++i) {
      const double lse = ref.lse.data()[i];
      if (std::isinf(lse)) continue;
      const double error = std::abs(static_cast<double>(out.lse.data()[i]) - lse);
      largest = std::max(largest, error / (1e-4 + 1e-6 * std::abs(lse)));
    }
  }
  return largest;
}

}  // namespace

TEST_CASE("LSE with ALiBi is exact with slopes from small to large") {
  for (const int length_k : {100, 300}) {
    CAPTURE(length_k);
    CHECK(lse_error(of_kind(FunctorKind::kAlibi, -1, 0), {1, 8, 8, 100, length_k, 64},
                    {0, 1e-3f, 0.7071067f, 1, 1.01f, 1234.567f, 1e4f, 1e6f}) < 1);
  }
}

TEST_CASE("LSE is exact with many keys, with every functor") {
  const int length_k = !wants_all_tests() ? 1 << 13 : Tests::Tests::on_gpu() ? 1 << 20 : 1 << 17;
  for (const FunctorSpec& spec : all_specs()) {
    CAPTURE(static_cast<int>(spec.kind));
    CHECK(lse_error(spec, {1, 1, 1, 3, length_k, 8}, {0.5f}) < 1);
  }
}

TEST_CASE("documents are those of cu_seqlens") {
  CHECK(flash::functors::documents_of({0, 2, 2, 5}, 5) ==
        std::vector<std::int32_t>{0, 2, 0, 2, 2, 5, 2, 5, 2, 5});
  CHECK_THROWS_AS(flash::functors::documents_of({0, 3}, 5), std::invalid_argument);
  CHECK_THROWS_AS(flash::functors::documents_of({0, 3, 2, 5}, 5), std::invalid_argument);
}

TEST_CASE("every functor is right in the watched lab, with no finding") {
  Tests::check_watched({{1, 2, 1, 150, 203, 40}, {1, 1, 1, 129, 256, 128}});
}
