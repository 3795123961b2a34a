// The tape and its operations: by central differences, by hand, and what they refuse.
#include <cmath>
#include <stdexcept>

#include <doctest/doctest.h>

#include "06_flash_backward/src/training/autograd_check.hpp"
#include "06_flash_backward/src/training/operations.hpp"
#include "common/tensor/random.hpp"

using namespace fa;
using namespace fa::backward;
using doctest::Contains;

namespace {

Variable<double> number(double x) {
  return variable<double>(Matrix<double>::Constant(1, 1, x));
}

template <class T>
Variable<T> random_variable(std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  Matrix<T> value(rows, cols);
  fill_normal(View<T, 2>(value.data(), {rows, cols}), seed);
  return variable<T>(value);
}

}  // namespace

TEST_CASE("every operation's gradients are those of central differences") {
  for (const TapeCase& of : operation_cases()) {
    const Comparison c = checker(of);
    CAPTURE(c.what);
    CHECK(c.difference <= c.allowed);
    for (const Matrix<double>& gradient : tape_gradients(of)) {
      CHECK(gradient.cwiseAbs().maxCoeff() > 0.01);  // not of nothing
    }
  }
}

TEST_CASE("a transformer of two layers has right gradients as a whole") {
  for (const auto& engine : {naive_engine<double>(), tiled_engine<double>({2, 3})}) {
    const TapeCase of = transformer_case(engine);
    const Comparison c = checker(of);
    CHECK(c.difference <= c.allowed);
    CHECK(of.arguments.size() == 3 + 2 * 12);
  }
}

TEST_CASE("gradients that reach a variable by two paths are added") {
  Tape<double> tape;
  const auto x = number(3), w = number(2);
  const auto a = matmul(tape, x, w);
  const auto loss = matmul(tape, a, add(tape, a, x));  // x^2 w^2 + x^2 w
  tape.backward(loss);
  CHECK(loss->value(0, 0) == 54);
  CHECK(x->grad(0, 0) == 36);  // 2 x w^2 + 2 x w
  CHECK(w->grad(0, 0) == 45);  // 2 x^2 w + x^2
  CHECK(a->grad(0, 0) == 15);  // 2 a + x
}

TEST_CASE("an operation whose arguments are the same variable adds both gradients") {
  Tape<double> tape;
  const auto x = number(5);
  tape.backward(matmul(tape, add(tape, x, x), x));  // 2 x^2
  CHECK(x->grad(0, 0) == 20);
}

TEST_CASE("gradients of two losses are added until they are set to 0") {
  const auto x = number(3);
  Tape<double> tape;
  tape.backward(scale(tape, x, 2.0));
  tape.backward(scale(tape, x, 5.0));  // the first loss's steps are gone
  CHECK(x->grad(0, 0) == 7);
}

TEST_CASE("what does not lead to the loss gets no gradient") {
  Tape<double> tape;
  const auto x = number(3), y = number(4);
  const auto aside = matmul(tape, x, y);
  tape.backward(scale(tape, x, 2.0));
  CHECK(x->grad(0, 0) == 2);
  CHECK(y->grad(0, 0) == 0);
  CHECK(aside->grad(0, 0) == 0);
}

TEST_CASE("the tape lets go of what it kept") {
  Tape<double> tape;
  const auto x = number(3);
  std::weak_ptr<Node<double>> between;
  {
    const auto y = scale(tape, x, 2.0);
    between = y;
    const auto loss = scale(tape, y, 2.0);
    tape.backward(loss);
  }
  CHECK(between.expired());
}

TEST_CASE("values are what the operations' definitions say") {
  Tape<double> tape;
  const auto x = random_variable<double>(5, 3, 1);
  const auto ones = variable<double>(Matrix<double>::Ones(1, 3)),
             zeros = variable<double>(Matrix<double>::Zero(1, 3));
  const auto layer = layer_norm(tape, x, ones, zeros);
  const Matrix<double>& normal = layer->value;
  for (std::int64_t i = 0; i < 5; ++i) {
    CHECK(std::abs(normal.row(i).mean()) < 1e-15);
    CHECK(normal.row(i).squaredNorm() / 3 == doctest::Approx(1).epsilon(1e-3));
  }
  const auto y = gelu(tape, x);
  CHECK(y->value(1, 2) ==
        doctest::Approx(x->value(1, 2) * std::erfc(-x->value(1, 2) / std::sqrt(2.0)) / 2));
  // All classes alike: the surprise is ln(classes), whatever the targets.
  const auto flat = variable<double>(Matrix<double>::Constant(4, 7, -3));
  CHECK(cross_entropy(tape, flat, {0, 6, 3, 3})->value(0, 0) == doctest::Approx(std::log(7)));
  const auto rows = embedding(tape, x, {4, 4, 0});
  CHECK(rows->value.row(1) == x->value.row(4));
  CHECK(rows->value.row(2) == x->value.row(0));
}

TEST_CASE("cross entropy survives logits of 10000") {
  Tape<double> tape;
  Matrix<double> logits(2, 3);
  logits << 1e4, -1e4, 0, -1e4, 1e4, 1e4;
  const auto x = variable<double>(logits);
  const auto loss = cross_entropy(tape, x, {0, 1});
  CHECK(loss->value(0, 0) == doctest::Approx(std::log(2.0) / 2));
  tape.backward(loss);
  CHECK(x->grad(0, 0) == 0);
  CHECK(x->grad(1, 1) == doctest::Approx(-0.25));
  CHECK(x->grad(1, 2) == doctest::Approx(0.25));
}

TEST_CASE("attention on the tape saves O and LSE for its backward pass") {
  // An engine that looks at what it is given.
  const AttentionEngine<float> naive = naive_engine<float>();
  naive::Forward<float> given;
  int calls = 0;
  AttentionEngine<float> engine;
  engine.forward = [&](auto q, auto k, auto v, const auto& options) {
    CHECK(q.shape() == Shape<4>{2, 4, 7, 3});
    CHECK(k.shape() == Shape<4>{2, 2, 5, 3});
    given = naive.forward(q, k, v, options);
    return given;
  };
  engine.backward = [&](auto q, auto k, auto v, View<const float, 4> o, View<const float, 3> lse,
                        auto d_o, const auto& options) {
    ++calls;
    CHECK(options.causal);
    for_each_index(o.shape(), [&](const Shape<4>& i) { CHECK(o[i] == given.o.view()[i]); });
    for_each_index(lse.shape(), [&](const Shape<3>& i) { CHECK(lse[i] == given.lse.view()[i]); });
    // d_o: row (b, n), column (h, c) of what the next operation sent back.
    CHECK(d_o(1, 2, 6, 1) == 0.5f);
    CHECK(d_o(0, 2, 6, 1) == 0);
    return naive.backward(q, k, v, o, lse, d_o, options);
  };
  const auto q = random_variable<float>(14, 12, 1), k = random_variable<float>(10, 6, 2),
             v = random_variable<float>(10, 6, 3);
  AttentionOptions options;
  options.causal = true;
  Tape<float> tape;
  const auto o = attention(tape, q, k, v, {2, 4, 2}, options, engine);
  CHECK(o->value(13, 7) == given.o(1, 2, 6, 1));
  const auto loss = tape.record(Matrix<float>::Constant(1, 1, o->value(13, 7) / 2),
                                [o](const Matrix<float>& d) { o->grad(13, 7) += d(0, 0) / 2; });
  tape.backward(loss);
  CHECK(calls == 1);
  CHECK(q->grad.row(13).cwiseAbs().maxCoeff() > 0);
  CHECK(q->grad.topRows(13).cwiseAbs().maxCoeff() == 0);
  CHECK(v->grad.topRows(5).cwiseAbs().maxCoeff() == 0);  // other sequence
}

TEST_CASE("a loss that is not one number is refused") {
  Tape<double> tape;
  const auto x = random_variable<double>(2, 3, 1);
  CHECK_THROWS_WITH_AS(tape.backward(x), "backward: the loss must be one number; it is [2, 3]",
                       std::invalid_argument);
}

TEST_CASE("operations refuse shapes that do not fit, in one sentence") {
  Tape<double> tape;
  const auto x = random_variable<double>(4, 6, 1), y = random_variable<double>(5, 6, 2),
             row = random_variable<double>(1, 5, 3), fits = random_variable<double>(1, 6, 4);
  const auto refused = [](const auto& call, const char* why) {
    CHECK_THROWS_WITH_AS(call(), Contains(why), std::invalid_argument);
  };
  refused([&] { matmul(tape, x, y); }, "matmul: x is [4, 6] and w is [5, 6]");
  refused([&] { add(tape, x, y); }, "add: a is [4, 6] and b is [5, 6]");
  refused([&] { add_bias(tape, x, row); },
          "add_bias: x is [4, 6], so the bias must be [1, 6]; it is [1, 5]");
  refused([&] { add_bias(tape, x, x); }, "must be [1, 6]; it is [4, 6]");
  refused([&] { layer_norm(tape, x, row, fits); }, "the gain must be");
  refused([&] { layer_norm(tape, x, fits, row); }, "the bias must be");
  refused([&] { embedding(tape, x, {0, 4}); }, "embedding: the id 4 is not in 0 to 3");
  refused([&] { embedding(tape, x, {-1}); }, "the id -1");
  refused([&] { cross_entropy(tape, x, {0, 1, 2}); }, "there must be 4 targets; there are 3");
  refused([&] { cross_entropy(tape, x, {0, 1, 2, 6}); }, "the target 6 is not in 0 to 5");
  const auto engine = naive_engine<double>();
  const auto with = [&](const HeadLayout& layout, const auto& k) {
    return [&tape, &engine, layout, x, k] { attention(tape, x, k, k, layout, {}, engine); };
  };
  refused(with({3, 1, 1}, x),
          "attention: q is [4, 6]; it cannot be cut into 3 sequences and 1 heads");
  refused(with({1, 4, 1}, x), "q is [4, 6]; it cannot be cut");
  refused(with({0, 1, 1}, x), "0 sequences");
  refused(with({1, 0, 1}, x), "0 heads");
  refused(with({4, 1, 1}, y), "k is [5, 6]; it cannot be cut");
  refused(with({2, 3, 2}, x), "must have the same head_dim");
  refused(with({2, 2, 3}, x), "head_dim");
}
