// The layer around attention, and the program.
#include "01_naive_attention/multi_head.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include <doctest/doctest.h>

#include "01_naive_attention/gradient_check.hpp"
#include "common/check/acceptance.hpp"
#include "common/cli/program.hpp"
#include "common/cli/tests/good_input.hpp"
#include "common/tensor/npy.hpp"
#include "common/tensor/random.hpp"
#include "common/testing/process.hpp"

using namespace fa;
using doctest::Contains;
using namespace fa::testing;

namespace {

const std::string kProgram = FA_PROGRAM;

naive::Linear<double> random_linear(std::int64_t width, std::uint64_t seed) {
  naive::Linear<double> linear{Matrix<double>(width, width), Vector<double>(width)};
  for (std::int64_t i = 0; i < width * width; ++i) {
    linear.w.data()[i] = random_normal(seed, static_cast<std::uint64_t>(i));
  }
  for (std::int64_t i = 0; i < width; ++i) {
    linear.b(i) = random_normal(seed + 100, static_cast<std::uint64_t>(i));
  }
  return linear;
}

naive::MultiHeadWeights<double> random_weights(std::int64_t width) {
  return {random_linear(width, 11), random_linear(width, 12), random_linear(width, 13),
          random_linear(width, 14)};
}

View<double, 2> as_view(Matrix<double>& m) {
  return {m.data(), {m.rows(), m.cols()}};
}
View<double, 2> as_view(Vector<double>& v) {
  return {v.data(), {v.size(), 1}};
}

}  // namespace

TEST_CASE("the layer is projections, heads and a projection, by loops") {
  constexpr std::int64_t kBatch = 2, kLength = 3, kWidth = 6, kHeads = 2;
  const auto x = normal_tensor<double, 3>({kBatch, kLength, kWidth}, 1);
  const auto weights = random_weights(kWidth);
  const auto layer = naive::multi_head_forward<double>(x, weights, kHeads);
  // One query element by hand: head 1, element 2 is column 1 * 3 + 2 of the projection.
  const auto project = [&](const naive::Linear<double>& linear, std::int64_t b, std::int64_t n,
                           std::int64_t out) {
    double sum = linear.b(out);
    for (std::int64_t i = 0; i < kWidth; ++i) {
      sum += x(b, n, i) * linear.w(out, i);
    }
    return sum;
  };
  for_each_index(layer.q.shape(), [&](const Shape<4>& i) {
    const std::int64_t column = i[1] * (kWidth / kHeads) + i[3];
    CHECK(layer.q.view()[i] == doctest::Approx(project(weights.q, i[0], i[2], column)));
    CHECK(layer.k.view()[i] == doctest::Approx(project(weights.k, i[0], i[2], column)));
    CHECK(layer.v.view()[i] == doctest::Approx(project(weights.v, i[0], i[2], column)));
  });
  const auto o = naive::forward<double>(layer.q, layer.k, layer.v).o;
  for_each_index(layer.y.shape(), [&](const Shape<3>& i) {
    double sum = weights.o.b(i[2]);
    for (std::int64_t c = 0; c < kWidth; ++c) {
      sum += o(i[0], c / 3, i[1], c % 3) * weights.o.w(i[2], c);
    }
    CHECK(layer.y.view()[i] == doctest::Approx(sum));
  });
}

TEST_CASE("every gradient of the layer agrees with central differences") {
  auto x = normal_tensor<double, 3>({2, 4, 6}, 1);
  auto weights = random_weights(6);
  for (auto* linear : {&weights.q, &weights.k, &weights.v, &weights.o}) {
    linear->w *= 0.4;  // scores of about 1, where softmax has a slope
  }
  const auto d_y = normal_tensor<double, 3>({2, 4, 6}, 2);
  AttentionOptions options;
  options.causal = true;
  const auto loss = [&] {
    const auto y = naive::multi_head_forward<double>(x, weights, 3, options).y;
    return std::inner_product(y.data(), y.data() + y.count(), d_y.data(), 0.0);
  };
  const auto state = naive::multi_head_forward<double>(x, weights, 3, options);
  auto g = naive::multi_head_backward<double>(x, weights, state, d_y, options);
  const auto check = [&](auto gradient, auto view) {
    const auto numerical = naive::numerical_gradient(loss, view);
    CHECK(naive::relative_difference(gradient, numerical.view()) < naive::kDifferenceTolerance);
  };
  check(View<const double, 3>(g.d_x), x.view());
  for (auto linear : {&naive::MultiHeadWeights<double>::q, &naive::MultiHeadWeights<double>::k,
                      &naive::MultiHeadWeights<double>::v, &naive::MultiHeadWeights<double>::o}) {
    auto& gradient = g.d_weights.*linear;
    check(View<const double, 2>(as_view(gradient.w)), as_view((weights.*linear).w));
    if (linear == &naive::MultiHeadWeights<double>::k) {
      // Adds the same to every score of a row, which does not change P.
      CHECK(gradient.b.cwiseAbs().maxCoeff() < 1e-12);
    } else {
      check(View<const double, 2>(as_view(gradient.b)), as_view((weights.*linear).b));
    }
  }
}

TEST_CASE("a layer that does not fit is refused") {
  const auto x = normal_tensor<double, 3>({1, 4, 6}, 1);
  auto weights = random_weights(6);
  CHECK_THROWS_WITH_AS(naive::multi_head_forward<double>(x, weights, 4), Contains("4 heads"),
                       std::invalid_argument);
  weights.v = random_linear(5, 1);
  CHECK_THROWS_WITH_AS(naive::multi_head_forward<double>(x, weights, 3), Contains("[5, 5]"),
                       std::invalid_argument);
  const auto good = random_weights(6);
  const auto state = naive::multi_head_forward<double>(x, good, 3);
  const Tensor<double, 3> d_y({1, 4, 5});
  CHECK_THROWS_WITH_AS(naive::multi_head_backward<double>(x, good, state, d_y),
                       Contains("[1, 4, 5]"), std::invalid_argument);
}

TEST_CASE("the program checks the real input and exits 0") {
  const TemporaryDirectory directory;
  const auto summary = directory.path() / "summary.tsv";
  const auto result =
      run(kProgram + " --save " + quoted(directory.path()) + " --summary " + quoted(summary));
  CHECK(result.status == 0);
  CHECK(result.error == "");
  CHECK(std::count(result.output.begin(), result.output.end(), '\n') <= 50);  // one screen
  const std::string lines = file_bytes(summary);
  CHECK(std::count(lines.begin(), lines.end(), '\n') == 5);
  CHECK(contains(lines, "PASS\t01_naive_attention\to against the model\t"));
  const auto o = read_npy<float, 4>(directory.path() / "o.npy");
  const auto lse = read_npy<float, 3>(directory.path() / "lse.npy");
  CHECK(lse.shape() == Shape<3>{o.size(0), o.size(1), o.size(2)});
}

TEST_CASE("the program takes other people's files") {
  const TemporaryDirectory directory;
  const auto& path = directory.path();
  cli::write_gqa_input(path, 5, 9);
  const auto result = run(kProgram + " --verbose --causal --input " + quoted(path));
  CHECK(result.status == 0);
  CHECK(result.error == "");
  CHECK(contains(result.output, "q [2, 4, 5, 16]"));
}

TEST_CASE("a model's tensor that is not ours fails the check, exit 1") {
  const TemporaryDirectory directory;
  const auto& path = directory.path();
  for (const auto& file : std::filesystem::directory_iterator(cli::shipped_input())) {
    if (file.path().extension() == ".npy") {
      std::filesystem::copy(file.path(), path / file.path().filename());
    }
  }
  const auto section = [&](const char* name) {
    return run(kProgram + " --section " + name + " --input " + quoted(path));
  };
  CHECK(section("output").status == 0);
  CHECK(section("layer").status == 0);
  auto model = read_npy<float, 3>(path / "layer.npy");  // x, o and y
  model(1, 20, 30) += 1;
  write_npy(path / "layer.npy", model);
  CHECK(section("output").status == 1);
  CHECK(section("layer").status == 0);
  model(2, 20, 30) += 1;
  write_npy(path / "layer.npy", model);
  CHECK(section("layer").status == 1);
}

TEST_CASE("the program refuses what it cannot use with exit 2") {
  const TemporaryDirectory directory;
  const auto& path = directory.path();
  const std::string ours = "--input " + quoted(path);
  check_refused(kProgram, {{"--head 99", "0 to 11"}, {"--tokens 0", "--tokens"}});
  cli::write_uneven_heads(path);
  check_refused(kProgram, {{ours, "kv_heads"}});
}
