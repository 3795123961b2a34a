// The tape and its operations, by central differences and by hand; the model, Adam, and training
// with the kernels on every backend that can run here.
#include "06_flash_backward/src/training/training.hpp"

#include <cmath>

#include <doctest/doctest.h>

#include "common/check/acceptance.hpp"
#include "common/tensor/random.hpp"

using namespace fa;
using namespace fa::backward;

namespace {

const std::string kWords = "one word and one more word and then one more word, and another one. ";

Variable<double> number(double x) {
  return std::make_shared<Node<double>>(Matrix<double>::Constant(1, 1, x));
}

Plan tiny_plan() {
  Plan plan;
  plan.layers = 2;
  plan.width = 16;
  plan.inner = 24;
  plan.length = 12;
  plan.batch = 3;
  plan.warm_up = 2;
  return plan;
}

template <class T>
void make_steps(Training<T>& run, int steps) {
  for (int i = 0; i < steps; ++i) run.step();
}

}  // namespace

TEST_CASE("gradients that reach a variable by two paths are added") {
  Tape<double> tape;
  const auto x = number(3), w = number(2);
  const auto a = tape.matmul(x, w);
  const auto loss = tape.matmul(a, tape.add(a, x));  // x^2 w^2 + x^2 w
  tape.backward(loss);
  CHECK(loss->value(0, 0) == 54);
  CHECK(x->grad(0, 0) == 36);  // 2 x w^2 + 2 x w
  CHECK(w->grad(0, 0) == 45);  // 2 x^2 w + x^2
  CHECK(a->grad(0, 0) == 15);  // 2 a + x
}

TEST_CASE("gradients of two losses are added, and the tape forgets its steps") {
  const auto x = number(3), y = number(4);
  Tape<double> tape;
  std::weak_ptr<Node<double>> between;
  {
    const auto square = tape.matmul(x, x);
    between = square;
    tape.backward(tape.add(square, square));
  }
  CHECK(between.expired());
  const auto aside = tape.matmul(x, y);
  tape.backward(tape.matmul(x, number(5)));
  CHECK(x->grad(0, 0) == 12 + 5);
  CHECK(aside->grad(0, 0) == 0);  // it does not lead to the loss
  CHECK(y->grad(0, 0) == 0);
}

TEST_CASE("cross entropy survives logits of 10000") {
  Tape<double> tape;
  Matrix<double> logits(2, 3);
  logits << 1e4, -1e4, 0, -1e4, 1e4, 1e4;
  const auto x = std::make_shared<Node<double>>(logits);
  const auto loss = tape.cross_entropy(x, {0, 1});
  CHECK(loss->value(0, 0) == doctest::Approx(std::log(2.0) / 2));
  tape.backward(loss);
  CHECK(x->grad(0, 0) == 0);
  CHECK(x->grad(1, 1) == doctest::Approx(-0.25));
  CHECK(x->grad(1, 2) == doctest::Approx(0.25));
}

TEST_CASE("a new model predicts at random, and no character sees the next") {
  const Text text(kWords);
  Training<double> run(tiny_plan(), text, naive_engine<double>());
  std::vector<std::int64_t> ids{3, 1, 4, 1, 5, 0, 2, 6, 5, 3};
  Tape<double> tape;
  CHECK(run.logits(tape, ids, 2)->value.isZero(0));
  make_steps(run, 3);
  const Matrix<double> before = run.logits(tape, ids, 2)->value;
  ids[3] = 2;  // of the first sequence
  const Matrix<double> after = run.logits(tape, ids, 2)->value;
  CHECK(before.topRows(3) == after.topRows(3));
  CHECK(before.bottomRows(5) == after.bottomRows(5));
  CHECK((before.row(3) - after.row(3)).norm() > 1e-3);
  CHECK((before.row(4) - after.row(4)).norm() > 1e-4);  // by attention
  // Each sequence begins at the first place, and the same character differs by its place.
  const Matrix<double> twice = run.logits(tape, {3, 1, 4, 3, 1, 4}, 2)->value;
  CHECK((twice.topRows(3) - twice.bottomRows(3)).norm() < 1e-12);
  CHECK((before.row(1) - before.row(3)).norm() > 1e-3);
}

TEST_CASE("a text knows its alphabet and its entropies") {
  const Text text("abab\nab\xff");
  CHECK(text.ids.size() == 8);
  CHECK(text.alphabet.size() == 4);
  // 3, 3, 1 and 1 of 8.
  const double expected = -(6 * std::log(3.0 / 8) + 2 * std::log(1.0 / 8)) / 8;
  CHECK(text.unigram_entropy() == doctest::Approx(expected));
  // Of 7 pairs, a is followed by b each time; b once each by a, a line feed and \xff; the line
  // feed by a.
  CHECK(text.bigram_entropy() == doctest::Approx(3 * std::log(3.0) / 7));
}

TEST_CASE("Adam's first steps move by the rate, along the sign of the gradient") {
  const Text text(kWords);
  Plan plan = tiny_plan();
  Training<double> run(plan, text, naive_engine<double>());
  const Matrix<double> before = run.parameters.back()->value;
  run.loss_and_gradients(0);
  const Matrix<double> gradient = run.parameters.back()->grad;
  run.step();
  // Both means are those of one gradient: the quotient is its sign. The rate has begun to rise.
  const double rate = plan.rate / static_cast<double>(plan.warm_up + 1);
  const Matrix<double> moved = run.parameters.back()->value - before;
  for (std::int64_t i = 0; i < moved.size(); ++i) {
    const double g = gradient.data()[i];
    if (std::abs(g) > 1e-4) CHECK(moved.data()[i] == doctest::Approx(g > 0 ? -rate : rate));
  }
}

TEST_CASE("the kernels' loss curve is the reference's, and it falls") {
  const Text text(kWords);
  Plan plan = tiny_plan();
  plan.batch = 2;
  constexpr int kSteps = 10;
  const auto losses = [](const auto& run) {
    return View<const double, 1>(run.losses.data(), {kSteps});
  };
  Training<double> exact(plan, text, naive_engine<double>());
  Training<float> plain(plan, text, naive_engine<float>());
  make_steps(exact, 60);
  make_steps(plain, kSteps);
  CHECK(exact.losses.front() ==
        doctest::Approx(std::log(static_cast<double>(text.alphabet.size()))));
  CHECK(exact.losses.back() < text.bigram_entropy());
  for (const Backend& backend : backends()) {
    if (!backend.available || backend.kind == "watched") continue;
    CAPTURE(backend.kind);
    Training<float> out(plan, text, kernel_engine(backend, Type::kFloat32)),
        again(plan, text, kernel_engine(backend, Type::kFloat32)),
        rounded(plan, text, kernel_engine(backend, Type::kBFloat16));
    make_steps(out, kSteps);
    make_steps(again, kSteps);
    make_steps(rounded, kSteps);
    CHECK(out.losses == again.losses);  // to the last bit
    const Verdict verdict =
        decide("losses", distance(losses(out), losses(exact)),
               distance(losses(plain), losses(exact)), kGradientFactor, epsilon<float>());
    CAPTURE(verdict.report());
    CHECK(verdict.accepted);
    // 16 bits: the same course, with their digits.
    const Distance off = distance(losses(rounded), losses(exact));
    CHECK(off.invalid == 0);
    CHECK(off.max_error > 1e-5);
    CHECK(off.max_error < 0.05);
  }
}

TEST_CASE("nothing is learnt from random text") {
  // A model that saw what it is asked for would do better than chance.
  std::string dice;
  for (std::uint64_t i = 0; i < 20000; ++i) dice += static_cast<char>('a' + random_bits(7, i) % 4);
  const Text text(dice);
  Plan plan = tiny_plan();
  plan.batch = 8;
  Training<float> run(plan, text, naive_engine<float>());
  make_steps(run, 60);
  double last = 0;
  for (std::size_t i = 50; i < 60; ++i) last += run.losses[i] / 10;
  CHECK(last > 0.97 * std::log(4.0));
  CHECK(last < 1.1 * std::log(4.0));
}
