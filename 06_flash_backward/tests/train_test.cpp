// The model, its optimiser, training runs with their checkpoints, the curve, and the command
// `train`.
#include "06_flash_backward/src/training/train.hpp"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include "05_flash_forward/src/language_model.hpp"
#include "06_flash_backward/src/training/model.hpp"
#include "common/check/acceptance.hpp"
#include "common/data/files.hpp"
#include "common/tensor/random.hpp"
#include "common/testing/process.hpp"

using namespace fa;
using namespace fa::backward;
using testing::contains;
using testing::message_of;
namespace fs = std::filesystem;

namespace {

const std::string kTrain = std::string(FA_PROGRAM) + " train";
const std::string kWords = "one word and one more word and then one more word, and another one. ";

Plan tiny_plan() {
  Plan plan;
  plan.size = {2, 2, 16, 24, 12, 0};
  plan.batch = 3;
  plan.warm_up = 2;
  return plan;
}

template <class T>
void make_steps(Training<T>& run, int steps) {
  for (int i = 0; i < steps; ++i) run.step();
}

template <class T>
bool same_bits(const Matrix<T>& a, const Matrix<T>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.size()) * sizeof(T)) == 0;
}

bool same_parameters(const Training<float>& a, const Training<float>& b) {
  for (std::size_t i = 0; i < a.model().parameters().size(); ++i) {
    if (!same_bits(a.model().parameters()[i].value->value,
                   b.model().parameters()[i].value->value)) {
      return false;
    }
  }
  return true;
}

// The machines that can run here, but for the watched one.
std::vector<Backend> usable() {
  std::vector<Backend> result;
  for (const Backend& backend : backends()) {
    if (backend.available && backend.kind != "watched") {
      result.push_back(backend);
    }
  }
  return result;
}

AttentionEngine<float> lab_engine() {
  return kernel_engine(*find_backend(backends(), "lab"), Type::kFloat32);
}

}  // namespace

TEST_CASE("two steps of Adam are those computed by hand") {
  const auto x = variable<double>(Matrix<double>::Constant(1, 2, 10));
  const std::vector<Parameter<double>> parameters{{"x", x}};
  Adam<double> adam(parameters);
  x->grad << 1, 0;
  adam.step(parameters, 0.5);
  CHECK(x->value(0, 0) == doctest::Approx(9.5).epsilon(1e-8));
  CHECK(x->value(0, 1) == 10);
  // Means 0.9 0.1 - 0.3 = -0.21 and 0.999 0.001 + 0.009 = 0.009999, divided by 0.19 and 0.001999.
  x->grad << -3, 0;
  adam.step(parameters, 0.5);
  CHECK(x->value(0, 0) == doctest::Approx(9.5 + 0.5 * 1.1052631579 / 2.2365153776).epsilon(1e-8));
  CHECK(adam.steps == 2);
}

TEST_CASE("Adam's root has the same bits on every processor") {
  const auto x = variable<float>(Matrix<float>::Zero(1, 256));
  const std::vector<Parameter<float>> parameters{{"x", x}};
  Adam<float> adam(parameters);
  fill_normal(View<float, 2>(x->grad.data(), {1, 256}), 3);
  adam.step(parameters, 0.5);
  for (Eigen::Index j = 0; j < 256; ++j) {
    const float root = std::sqrt(adam.square[0](0, j) / static_cast<float>(1 - 0.999));
    const auto rate = static_cast<float>(0.5 / (1 - 0.9));
    CHECK(x->value(0, j) == -(rate * adam.mean[0](0, j) / (root + 1e-8f)));
  }
}

TEST_CASE("a new model predicts at random, and no character sees the next") {
  ModelSize size{2, 2, 16, 24, 12, 7};
  const Model<double> model(size, 1);
  const auto engine = naive_engine<double>();
  std::vector<std::int64_t> ids{3, 1, 4, 1, 5, 0, 2, 6, 5, 3};
  Tape<double> tape;
  CHECK(model.logits(tape, ids, 2, engine)->value.isZero(0));
  Matrix<double>& out = model.parameters().back().value->value;
  fill_normal(View<double, 2>(out.data(), {16, 7}), 5);
  const Matrix<double> before = model.logits(tape, ids, 2, engine)->value;
  ids[3] = 2;  // of the first sequence
  const Matrix<double> after = model.logits(tape, ids, 2, engine)->value;
  CHECK(before.topRows(3) == after.topRows(3));
  CHECK(before.bottomRows(5) == after.bottomRows(5));
  CHECK((before.row(3) - after.row(3)).norm() > 1e-3);
  CHECK((before.row(4) - after.row(4)).norm() > 1e-4);  // by attention
  // Each sequence begins at the first place.
  const Matrix<double> twice = model.logits(tape, {3, 1, 4, 3, 1, 4}, 2, engine)->value;
  CHECK((twice.topRows(3) - twice.bottomRows(3)).norm() < 1e-12);
  // The same character at another place.
  CHECK((before.row(1) - before.row(3)).norm() > 1e-3);
  std::int64_t count = 0;
  for (const auto& parameter : model.parameters()) {
    count += parameter.value->value.size();
  }
  CHECK(model.parameter_count() == count);
  // Both types start from the same numbers.
  const Model<float> narrow(size, 1);
  for (std::size_t i = 0; i + 1 < model.parameters().size(); ++i) {
    CHECK(narrow.parameters()[i].value->value.cast<double>() == model.parameters()[i].value->value);
  }
}

TEST_CASE("sizes of models and batches are checked") {
  const auto refusal = [](const ModelSize& size) {
    return message_of<std::invalid_argument>([&] { size.check(); });
  };
  CHECK(refusal({1, 1, 8, 1, 1, 2}) == "");
  CHECK(contains(refusal({0, 1, 8, 1, 1, 2}), "layers is 0"));
  CHECK(contains(refusal({1, 1, 8, 1, -3, 2}), "length is -3"));
  CHECK(contains(refusal({1, 2, 24, 1, 1, 2}), "width 24"));
  const Model<float> model({1, 1, 8, 8, 4, 2}, 1);
  Tape<float> tape;
  const auto logits = [&](std::vector<std::int64_t> ids, std::int64_t batch) {
    return message_of<std::invalid_argument>(
        [&] { model.logits(tape, ids, batch, naive_engine<float>()); });
  };
  CHECK(logits({0, 1, 1, 0}, 1) == "");
  CHECK(contains(logits({0, 1, 1, 0, 1}, 1), "length 4"));
  CHECK(logits({0, 1, 1}, 2) != "");
  CHECK(logits({}, 1) != "");
  CHECK(logits({0, 2}, 1) != "");  // no such character
  const Text text = text_of("words", "abababababab");
  Plan plan = tiny_plan();
  const auto training = [&] {
    return message_of<std::invalid_argument>(
        [&] { Training<float>(plan, text, naive_engine<float>()); });
  };
  CHECK(contains(training(), "has 12 characters"));
  plan.size.length = 11;
  CHECK(training() == "");
  plan.batch = 0;
  CHECK(contains(training(), "0 sequences"));
}

TEST_CASE("a text knows its alphabet and its entropies") {
  const Text text = text_of("text", "abab\nab\xff");
  CHECK(text.alphabet == "\nab\xff");
  CHECK(text.ids == std::vector<std::int64_t>{1, 2, 1, 2, 0, 1, 2, 3});
  CHECK(text.printable(text.ids) == "abab\nab?");
  // 3, 3, 1 and 1 of 8.
  const double expected = -(6 * std::log(3.0 / 8) + 2 * std::log(1.0 / 8)) / 8;
  CHECK(unigram_entropy(text) == doctest::Approx(expected));
  // Of 7 pairs, a is followed by b each time; b once each by a, a line feed and \xff; the line
  // feed by a.
  CHECK(bigram_entropy(text) == doctest::Approx(3 * std::log(3.0) / 7));
  CHECK(text_of("other", "abab\nabb").hash != text.hash);
  CHECK(message_of<std::invalid_argument>([] { text_of("x", "aaa"); }) != "");
  CHECK(contains(message_of<std::invalid_argument>([] { read_text("x", {"/nowhere/x"}); }),
                 "/nowhere/x: cannot be read"));
}

TEST_CASE("the kernels' loss curve is the reference's, and it falls") {
  const Text text = text_of("words", kWords);
  Plan plan = tiny_plan();
  plan.batch = 2;
  constexpr int kSteps = 10;
  const auto losses = [](const auto& run) {
    return View<const double, 1>(run.losses().data(), {kSteps});
  };
  Training<double> exact(plan, text, naive_engine<double>());
  Training<float> plain(plan, text, naive_engine<float>());
  make_steps(exact, 60);
  make_steps(plain, kSteps);
  CHECK(exact.losses().front() ==
        doctest::Approx(std::log(static_cast<double>(text.alphabet.size()))));
  CHECK(exact.losses().back() < bigram_entropy(text));
  for (const Backend& backend : usable()) {
    CAPTURE(backend.kind);
    Training<float> out(plan, text, kernel_engine(backend, Type::kFloat32)),
        rounded(plan, text, kernel_engine(backend, Type::kBFloat16));
    make_steps(out, kSteps);
    make_steps(rounded, kSteps);
    const Verdict verdict =
        decide("losses", distance(losses(out), losses(exact)),
               distance(losses(plain), losses(exact)), kGradientFactor, epsilon<float>());
    CAPTURE(verdict.report());
    CHECK(verdict.accepted);
    // 16 bits: the same course, with their digits.
    const Distance off = distance(losses(rounded), losses(exact));
    CAPTURE(off.max_error);
    CHECK(off.invalid == 0);
    CHECK(off.max_error > 1e-5);
    CHECK(off.max_error < 0.05);
  }
}

TEST_CASE("nothing is learnt from random text") {
  // A model that saw what it is asked for would do better than chance.
  std::string dice;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    dice += static_cast<char>('a' + random_bits(7, i) % 4);
  }
  const Text text = text_of("dice", dice);
  Plan plan = tiny_plan();
  plan.batch = 8;
  Training<float> run(plan, text, naive_engine<float>());
  make_steps(run, 60);
  double last = 0;
  for (std::size_t i = 50; i < 60; ++i) last += run.losses()[i] / 10;
  CHECK(last > 0.97 * std::log(4.0));
  CHECK(last < 1.1 * std::log(4.0));
}

TEST_CASE("the engine of kernels refuses what it would ignore") {
  const auto engine = lab_engine();
  const Tensor<float, 4> x({1, 1, 3, 8});
  AttentionOptions options;
  const auto refusal = [&] {
    return message_of<std::invalid_argument>([&] { engine.forward(x, x, x, options); });
  };
  CHECK(refusal() == "");
  options.scale = 1;
  CHECK(contains(refusal(), "no scale"));
  options.scale.reset();
  const auto keep = random_keep_mask<4>({1, 1, 3, 3}, 0.5, 1);
  options.dropout_keep = keep.view();
  CHECK(contains(refusal(), "no dropout"));
}

TEST_CASE("a resumed run is the uninterrupted one to the last bit") {
  const testing::TemporaryDirectory directory;
  const auto file = directory.path() / "run";
  const Text text = text_of("words", kWords);
  Training<float> whole(tiny_plan(), text, lab_engine()), first(tiny_plan(), text, lab_engine()),
      second(tiny_plan(), text, lab_engine());
  make_steps(whole, 6);
  make_steps(first, 3);
  CHECK_FALSE(same_parameters(whole, first));
  first.save(file, "the lab");
  make_steps(second, 1);  // is forgotten
  CHECK(second.load(file) == "the lab");
  CHECK(same_parameters(first, second));
  make_steps(second, 3);
  CHECK(same_parameters(whole, second));
  CHECK(whole.losses() == second.losses());
  CHECK(whole.sample(20, 0.7, 12) == second.sample(20, 0.7, 12));
}

TEST_CASE("a checkpoint of another run is refused") {
  const testing::TemporaryDirectory directory;
  const auto file = directory.path() / "run";
  const Text text = text_of("words", kWords),
             other = text_of("words", {kWords.rbegin(), kWords.rend()});
  Training<float> run(tiny_plan(), text, naive_engine<float>()),
      fresh(tiny_plan(), text, naive_engine<float>());
  make_steps(run, 2);
  run.save(file, "");
  const std::string good = testing::file_bytes(file);
  const auto refusal = [&](Training<float>& of) {
    return message_of<std::invalid_argument>([&] { of.load(file); });
  };
  // Cut off anywhere, or changed anywhere.
  for (const std::size_t size : {std::size_t{0}, std::size_t{10}, std::size_t{24}, std::size_t{30},
                                 good.size() / 2, good.size() - 1}) {
    write_file(file, good.substr(0, size));
    CHECK(refusal(fresh) != "");
  }
  write_file(file, good.substr(0, good.size() / 2));
  CHECK(contains(refusal(fresh), "cut off or damaged"));
  std::string changed = good;
  changed[good.size() / 2] ^= 1;
  write_file(file, changed);
  CHECK(contains(refusal(fresh), "cut off or damaged"));
  write_file(file, "no checkpoint at all");
  CHECK(contains(refusal(fresh), "is not a checkpoint"));
  CHECK(fresh.losses().empty());
  write_file(file, good);
  Training<float> of_other(tiny_plan(), other, naive_engine<float>());
  CHECK(contains(refusal(of_other), "of another run"));
  Plan plan = tiny_plan();
  plan.size.inner = 25;
  Training<float> wider(plan, text, naive_engine<float>());
  CHECK(contains(refusal(wider), "of another run"));
  CHECK(refusal(fresh) == "");
  CHECK(fresh.losses() == run.losses());
}

TEST_CASE("a curve is drawn in the terminal and as SVG") {
  const std::string text = terminal_curve({4, 3, 2, 1, 1}, {{"level", 2}});
  CHECK(contains(text, " 4.00 |*\n"));
  CHECK(contains(text, " 2.00 |--*-- level\n"));
  CHECK(contains(text, " 1.20 |   **\n"));  // the nearest row
  CHECK(terminal_curve(std::vector<double>(1000, 1), {}).size() < 400);
  const testing::TemporaryDirectory directory;
  const auto file = directory.path() / "loss.svg";
  write_curve_svg(file, "a < b", {4, 3, 2, 1}, {{"x & y", 2}});
  CHECK(testing::python_says("len(xml.dom.minidom.parse(file).getElementsByTagName"
                             "(\"polyline\")[0].getAttribute(\"points\").split()) == 4",
                             file) == "True\n");
  write_curve_svg(file, "one", {4}, {});
  CHECK_FALSE(contains(testing::file_bytes(file), "nan"));
}

TEST_CASE("train: a checkpoint resumes exactly, and the curve is written") {
  const testing::TemporaryDirectory directory;
  const auto whole = directory.path() / "whole", parts = directory.path() / "parts",
             svg = directory.path() / "loss.svg";
  const auto train = [&](const std::string& options) {
    const auto outcome = testing::run(kTrain + " --engine reference " + options);
    CAPTURE(outcome.output);
    CHECK(outcome.status == 0);
    CHECK(outcome.error == "");
    return outcome.output;
  };
  const std::string said =
      train("--steps 4 --checkpoint " + testing::quoted(whole) + " --svg " + testing::quoted(svg));
  CHECK(contains(said, "step     4  loss"));
  CHECK(contains(said, "Sample of the model:\n  | MIT License"));
  CHECK(contains(testing::file_bytes(svg), "<polyline"));
  train("--steps 2 --checkpoint " + testing::quoted(parts));
  CHECK(contains(train("--steps 4 --resume " + testing::quoted(parts)), "resumed after step 2"));
  CHECK(testing::file_bytes(whole).size() > 1000);
  CHECK(testing::file_bytes(whole) == testing::file_bytes(parts));
  const auto mixed =
      testing::run(kTrain + " --device cpu --steps 5 --resume " + testing::quoted(parts));
  CHECK(mixed.status == 0);
  CHECK(contains(mixed.output, "note: before that it was lesson 01 in float32"));
}

TEST_CASE("train: files that cannot be written are refused before any step") {
  const testing::TemporaryDirectory directory;
  const auto& path = directory.path();
  const auto refused = [&](const std::string& options, const std::string& why) {
    const auto outcome = testing::run(kTrain + " --engine reference --steps 2 " + options);
    CAPTURE(options);
    CHECK(outcome.status == 2);
    CHECK(contains(outcome.error, why));
    CHECK(outcome.output == "");
  };
  const std::string missing = (path / "no" / "file").string(),
                    why = missing + ": cannot be written: there is no folder";
  refused("--checkpoint " + missing, "--checkpoint " + why);
  refused("--svg " + missing, "--svg " + why);
  refused("--summary " + missing, "--summary " + why);
  // The checkpoint that is resumed is written at the end.
  write_file(path / "old", "old");
  const auto good = testing::quoted(path / "good");
  REQUIRE(testing::run(kTrain + " --engine reference --steps 1 --checkpoint " + good).status == 0);
  const std::string before = testing::file_bytes(path / "good");
  fs::permissions(path / "good", fs::perms::owner_read);
  if (geteuid() != 0) {
    refused("--resume " + good, "cannot be written: Permission denied");
  }
  CHECK(testing::file_bytes(path / "good") == before);
  // The old file stays until it is replaced.
  refused("--checkpoint " + testing::quoted(path / "old") + " --svg " + missing, "--svg");
  CHECK(testing::file_bytes(path / "old") == "old");
  const fs::directory_iterator entries(path);
  CHECK(std::distance(begin(entries), end(entries)) == 2);
}

TEST_CASE("train: a note says where no checkpoint can be written") {
  if (!fs::is_directory("/proc/self")) return;  // no file can be made there
  const auto outcome = testing::run("cd /proc/self && " + kTrain + " --engine reference --steps 1");
  CHECK(outcome.status == 0);
  CHECK(contains(outcome.output,
                 "note: Ctrl-C will lose this run: 06_flash_backward.checkpoint: "
                 "cannot be written"));
}

TEST_CASE("train: lesson 05 computes what a model has learnt from its file") {
  const testing::TemporaryDirectory directory;
  const auto path = directory.path() / "weights.npy";
  const Text text = text_of("words", kWords);
  Training<double> run(tiny_plan(), text, naive_engine<double>());
  make_steps(run, 3);
  for (const auto& parameter : run.model().parameters()) {  // as the file has them
    Matrix<double>& value = parameter.value->value;
    value =
        value.unaryExpr([](double x) { return static_cast<double>(half(static_cast<float>(x))); });
  }
  write_weights(path, run.model(), text);
  const flash::LanguageModel<double> model(path);
  CHECK(model.alphabet == text.alphabet);
  const std::vector<std::int64_t> ids(text.ids.begin(), text.ids.begin() + 12);
  Tape<double> tape;
  const Matrix<double> expected = run.model().logits(tape, ids, 1, naive_engine<double>())->value;
  const Matrix<double> found = flash::logits<double>(
      model, std::vector<int>(ids.begin(), ids.end()), {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11},
      flash::plain_attention<double>(model.heads));
  CHECK(expected.cwiseAbs().maxCoeff() > 1e-3);
  CHECK((found - expected).cwiseAbs().maxCoeff() < 1e-12);
}

TEST_CASE("train: Ctrl-C leaves a checkpoint") {
  const testing::TemporaryDirectory directory;
  // Once a line is there, a step is made and Ctrl-C is waited for.
  const auto outcome =
      testing::run("cd " + testing::quoted(directory.path()) + " && { " + kTrain +
                   " --steps 100000 --engine reference >out & } && "
                   "for i in $(seq 400); do grep -q '^step' out && break; sleep 0.05; "
                   "done; kill -INT $! && wait $!");
  CHECK(outcome.status == 130);
  CAPTURE(outcome.error);
  CHECK(contains(outcome.error, "interrupted after step "));
  CHECK(contains(outcome.error, "--resume 06_flash_backward.checkpoint"));
  const auto file = directory.path() / "06_flash_backward.checkpoint";
  CHECK(testing::file_bytes(file).size() > 1000);
  // It says how many steps it has.
  CHECK(contains(testing::refusal(kTrain + " --steps 1 --resume " + testing::quoted(file)),
                 "steps already"));
}

TEST_CASE("train: what it cannot use is refused: one sentence, exit 2") {
  const testing::TemporaryDirectory directory;
  const auto path = [&](const char* name) { return testing::quoted(directory.path() / name); };
  write_file(directory.path() / "short", "too short");
  write_file(directory.path() / "same", std::string(100, 'a'));
  testing::check_refused(kTrain, {{"--size huge", "--size"},
                                  {"--steps -1", "--steps"},
                                  {"--steps many", "--steps"},
                                  {"--engine magic", "--engine"},
                                  {"--type float16", "--type"},
                                  {"--type bfloat16 --engine reference", "supports float32 only"},
                                  {"--nonsense", "--nonsense"},
                                  {"--section tape", "train is a command"},
                                  {"--text " + path("nowhere"), "cannot be read"},
                                  {"--text " + testing::quoted(directory.path()), "cannot be read"},
                                  {"--text " + path("short"), "has 9 characters"},
                                  {"--text " + path("same"), "two different"},
                                  {"--resume " + path("nowhere"), "cannot be read"},
                                  {"--resume " + path("short"), "is not a checkpoint"},
                                  {"--checkpoint " + path("no/where"), "--checkpoint"},
                                  {"--weights " + path("no/where"), "--weights"},
                                  {"--svg " + testing::quoted(directory.path()), "--svg"}});
  const auto help = testing::run(kTrain + " --help");
  CHECK(help.status == 0);
  CHECK(contains(help.output, "--resume"));
  CHECK(contains(help.output, "130"));
}
