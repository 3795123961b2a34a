// Attention in 8 bits on the host: scales, the loop over tiles, and what the acceptance rule for
// 8 bits accepts and refuses.
#include "05_flash_forward/src/fp8.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include <doctest/doctest.h>

#include "common/tensor/random.hpp"

using namespace fa;
using namespace fa::flash;
using namespace fa::flash::fp8;

namespace {

constexpr ScalePer kScales[] = {ScalePer::kTensor, ScalePer::kHead, ScalePer::kBlock};

bool accepted(const Fp8Inputs& inputs, const Outputs& outputs, bool causal = false) {
  const auto verdicts = Fp8Checker(inputs, causal).check("", outputs);
  return std::all_of(verdicts.begin(), verdicts.end(),
                     [](const Verdict& verdict) { return verdict.accepted; });
}

Inputs normal_inputs(const AttentionShape& shape, std::uint64_t seed) {
  return make_inputs(problem_of(Type::kFloat32, shape), Values::kNormal, seed);
}

// One key is ahead of 2999 equal ones by 7: their probabilities are below the least e4m3.
Inputs one_ahead() {
  Inputs in{Tensor<float, 4>({1, 1, 1, 1}), Tensor<float, 4>({1, 1, 3000, 1}),
            normal_tensor<float, 4>({1, 1, 3000, 16}, 4)};
  in.q(0, 0, 0, 0) = 1;
  in.k(0, 0, 1234, 0) = 7;
  for (std::int64_t j = 0; j < 3000; ++j) in.v(0, 0, j, 3) += 1;
  return in;
}

}  // namespace

TEST_CASE_TEMPLATE("the largest element of each group becomes the largest code", T, e4m3, e5m2) {
  Tensor<float, 4> x = normal_tensor<float, 4>({2, 3, 150, 16}, 1);
  for_each_index(x.shape(), [&](const Shape<4>& i) {
    // Heads and blocks of rows of different sizes; one head is 0.
    x.view()[i] *=
        i[0] == 1 && i[1] == 2 ? 0.0f : static_cast<float>(std::exp2(3 * i[1] - i[2] / 64 * 4));
  });
  for (const ScalePer per : kScales) {
    const Quantized<T> quantized = quantize<T>(x, per);
    const Tensor<double, 4> back = dequantized(quantized);
    Tensor<float, 3> largest_code(quantized.scales.shape());
    bool near = true;
    for_each_index(x.shape(), [&](const Shape<4>& i) {
      const double scale = quantized.scale(i[0], i[1], i[2]), exact = x.view()[i];
      const double code = static_cast<float>(quantized.codes.view()[i]);
      near = near && back.view()[i] == code * scale &&
             std::abs(back.view()[i] - exact) <=
                 (1 + 1e-6) * std::max(epsilon<T>() / 2 * std::abs(exact),
                                       smallest_normal<T>() * epsilon<T>() / 2 * scale);
      float& most = largest_code(i[0], i[1], i[2] / quantized.block_rows);
      most = std::max(most, static_cast<float>(std::abs(code)));
    });
    CHECK(near);
    const float most =
        *std::max_element(largest_code.data(), largest_code.data() + largest_code.count());
    CHECK(most == largest<T>());
    for_each_index(largest_code.shape(), [&](const Shape<3>& i) {
      const bool zeros = i[0] == 1 && i[1] == 2;
      if (per != ScalePer::kTensor) CHECK(largest_code.view()[i] == (zeros ? 0 : most));
      if (per != ScalePer::kTensor && zeros) CHECK(quantized.scales.view()[i] == 1);
    });
  }
}

TEST_CASE("the loop over tiles is accepted on random problems") {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const auto random = [&](std::uint64_t what, std::int64_t most) {
      return 1 + static_cast<std::int64_t>(random_bits(seed, what) % static_cast<unsigned>(most));
    };
    const std::int64_t kv_heads = random(1, 2), lengths = seed % 2 == 0 ? 6 : 150;
    const Problem problem = problem_of(Type::kFloat32,
                                       {random(0, 2), kv_heads * random(2, 2), kv_heads,
                                        random(3, lengths / 3), random(4, lengths), random(5, 40)},
                                       random(6, 2) == 1);
    const auto values = static_cast<Values>(random(7, 3) - 1);
    const Fp8Inputs inputs =
        quantize(make_inputs(problem, values, seed), kScales[random(8, 3) - 1]);
    INFO(problem.text());
    CHECK(accepted(inputs, forward(inputs, problem.causal), problem.causal));
  }
}

TEST_CASE("a missing scale, one that is used twice and another head's are refused") {
  const Fp8Inputs right = quantize(normal_inputs({1, 4, 2, 40, 200, 32}, 3), ScalePer::kHead);
  REQUIRE(accepted(right, forward(right, false)));
  const auto refused = [&](Quantized<> Fp8Inputs::*tensor,
                           const std::function<float(float)>& change) {
    Fp8Inputs wrong = right;
    float& scale = (wrong.*tensor).scales(0, 1, 0);
    scale = change(scale);
    return !accepted(right, forward(wrong, false));
  };
  for (const auto tensor : {&Fp8Inputs::q, &Fp8Inputs::k, &Fp8Inputs::v}) {
    CHECK(refused(tensor, [](float) { return 1.0f; }));
    CHECK(refused(tensor, [](float scale) { return scale * scale; }));
    CHECK(refused(tensor, [](float scale) { return 1.1f * scale; }));
    CHECK_FALSE(refused(tensor, [](float scale) { return scale; }));
  }
}

TEST_CASE("small probabilities of a long row survive with the offset only") {
  const Inputs in = one_ahead();
  const Fp8Inputs in8 = quantize(in, ScalePer::kHead);
  CHECK(accepted(in8, forward(in8, false)));
  const auto seen = [](const Quantized<>& x) { return converted<float>(dequantized(x)); };
  const auto stored = [&](int offset) {
    return plain<e4m3>(seen(in8.q), seen(in8.k), seen(in8.v), false, offset);
  };
  CHECK(accepted(in8, stored(kOffset)));
  CHECK_FALSE(accepted(in8, stored(0)));
  // All but one are lost: O is that key's part.
  CHECK(stored(0).o(0, 0, 0, 3) ==
        doctest::Approx(seen(in8.v)(0, 0, 1234, 3) / (1 + 2999 * std::exp(-7.0))).epsilon(0.02));
}

TEST_CASE("a row that sees no key gives zeros and -infinity") {
  const Fp8Inputs in = quantize(normal_inputs({1, 1, 1, 5, 2, 8}, 5), ScalePer::kTensor);
  const Outputs out = forward(in, true);
  CHECK(out.lse(0, 0, 2) == -INFINITY);
  CHECK(out.o(0, 0, 2, 3) == 0);
  CHECK(accepted(in, out, true));
}

TEST_CASE("a rotation keeps products and spreads a large element") {
  Tensor<float, 4> x = normal_tensor<float, 4>({1, 1, 2, 96}, 1), one({1, 1, 1, 96});
  one(0, 0, 0, 17) = -8;
  const auto dot = [](const Tensor<float, 4>& a) {
    double sum = 0;
    for (std::int64_t c = 0; c < 96; ++c) sum += double{a(0, 0, 0, c)} * double{a(0, 0, 1, c)};
    return sum;
  };
  CHECK(dot(rotated(x)) == doctest::Approx(dot(x)).epsilon(1e-4));
  for (const int c : {0, 31, 32}) {  // of 96 columns 32 at a time
    CHECK(std::abs(rotated(one)(0, 0, 0, c)) ==
          doctest::Approx(c < 32 ? 8 / std::sqrt(32.0) : 0).epsilon(1e-6));
  }
}
