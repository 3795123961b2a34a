// The finished kernels over a matrix of problems: all of it on a GPU, a thinner one in the lab.
// And random problems.
#include <algorithm>
#include <cmath>
#include <map>

#include <doctest/doctest.h>

#include "05_flash_forward/src/checker.hpp"
#include "06_flash_backward/src/backend.hpp"
#include "common/attention/tests/step_tests.hpp"

using namespace fa;
using namespace fa::attention;

namespace {

// What lessons 05 and 06 test alike.
using Tests = StepTests<backward::Checker, backward::backends, backward::make_inputs>;

// The finished ones: in float32 03, 04 and 17, in 16 bits 06 and 07, and those from 10 on.
bool is_finished(const backward::LadderStep& step) {
  const std::string number = step.name.substr(0, 2);
  return number == "03" || number == "04" || number == "06" || number == "07" || number > "09";
}

void check(const Problem& problem, std::uint64_t seed) {
  // 192 and 128 columns: steps 13, 16 and 18
  REQUIRE(Tests::check_best(problem, seed, is_finished) >= (problem.head_dim_v ? 3 : 2));
}

}  // namespace

TEST_CASE("the matrix of problems in float32, first part") {
  Tests::for_each_of_matrix(Type::kFloat32, 0, check);
}
TEST_CASE("the matrix of problems in float32, second part") {
  Tests::for_each_of_matrix(Type::kFloat32, 1, check);
}
TEST_CASE("the matrix of problems in float32, third part") {
  Tests::for_each_of_matrix(Type::kFloat32, 2, check);
}
TEST_CASE("the matrix of problems in float16, first part") {
  Tests::for_each_of_matrix(Type::kFloat16, 0, check);
}
TEST_CASE("the matrix of problems in float16, second part") {
  Tests::for_each_of_matrix(Type::kFloat16, 1, check);
}
TEST_CASE("the matrix of problems in float16, third part") {
  Tests::for_each_of_matrix(Type::kFloat16, 2, check);
}
TEST_CASE("the matrix of problems in bfloat16, first part") {
  Tests::for_each_of_matrix(Type::kBFloat16, 0, check);
}
TEST_CASE("the matrix of problems in bfloat16, second part") {
  Tests::for_each_of_matrix(Type::kBFloat16, 1, check);
}
TEST_CASE("the matrix of problems in bfloat16, third part") {
  Tests::for_each_of_matrix(Type::kBFloat16, 2, check);
}

TEST_CASE("random problems") {
  Tests::for_each_random_problem(check);
}

namespace {

// dV by lesson 01, in T.
template <class T>
Tensor<T, 4> textbook_d_v(const Problem& problem, const backward::Inputs& in) {
  Tensor<std::uint8_t, 4> keep;
  const auto q = converted<T>(in.forward.q), k = converted<T>(in.forward.k),
             v = converted<T>(in.forward.v), d_o = converted<T>(in.d_o);
  return naive::backward<T>(q.view(), k.view(), v.view(), d_o.view(),
                            flash::options_of(problem, keep))
      .d_v;
}

}  // namespace

TEST_CASE("float32: dV is as exact as by the textbook formulas, with scores of 1 to 1e4") {
  // Checker also allows what follows from a rounded LSE; here nothing but the textbook's own error
  // counts, three times.
  std::mt19937_64 random(18);
  std::map<std::string, std::vector<double>> ratios;  // error / limit
  const int problems = 200;
  for (int i = 0; i < problems; ++i) {
    // Small, on a GPU as well: steps 01 and 02 sum up a long row one by one,
    // which the textbook does not. In the lab few heads, since an error is that of one row.
    Problem problem = random_problem(random, 70, 128, Tests::on_gpu() ? 18 : 2);
    if (!Tests::on_gpu()) {
      problem.shape.batch = problem.shape.kv_heads = 1;
      problem.shape.heads = 1 + problem.shape.heads % 2;
    }
    problem.type = Type::kFloat32;
    Inputs qkv = make_inputs(problem, Values::kNormal, random());
    const double size = std::pow(1e4, static_cast<double>(i) / problems);
    for (std::int64_t e = 0; e < qkv.q.count(); ++e) {
      qkv.q.data()[e] *= static_cast<float>(size);
    }
    backward::Inputs inputs = backward::with_forward(problem, std::move(qkv), random());
    if (i % 2 == 0) {  // else the exact ones, rounded
      auto [o, lse] = Tests::best().forward(problem, inputs.forward);
      inputs.o = std::move(o);
      inputs.lse = std::move(lse);
    }
    const auto ref = textbook_d_v<double>(problem, inputs);
    const auto plain = textbook_d_v<float>(problem, inputs);
    for (const backward::LadderStep& step : Tests::best().steps) {
      if (!step.supports(problem)) continue;
      ratios[step.name].push_back(error_over_tolerance(
          accept("d_v", step.run(problem, inputs).d_v, ref, plain, kGradientFactor)));
    }
  }
  REQUIRE(ratios.size() == 5);
  for (auto& [name, of_step] : ratios) {
    CAPTURE(name);
    REQUIRE(of_step.size() == problems);
    std::sort(of_step.begin(), of_step.end());
    CAPTURE(of_step.back());
    CHECK(of_step[problems / 2] < 0.5);  // 1/3: an error as large as plain's
    // A few by chance: where one row has two scores that nearly tie, it makes all of the error,
    // and plain may be lucky.
    CHECK(of_step[problems * 95 / 100] <= 1);
  }
}
