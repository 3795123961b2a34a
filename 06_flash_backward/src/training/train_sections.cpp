// Training: a section that compares loss curves, and the command `train`.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "06_flash_backward/src/sections.hpp"
#include "06_flash_backward/src/training/train.hpp"
#include "common/cli/progress.hpp"
#include "common/cli/table.hpp"
#include "common/data/files.hpp"

namespace fa::backward {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = FA_ROOT_DIRECTORY;

// Options of the command.
struct Choice {
  std::string size = "small", engine = "kernels", type = "float32";
  std::string text, resume, checkpoint, weights, svg;  // files; empty: none
  std::int64_t steps = 0;                              // 0: the size's own
};

Plan plan_of(const std::string& size) {
  if (size == "small") return {};
  Plan plan;
  plan.size =
      size == "medium" ? ModelSize{2, 2, 64, 128, 256, 0} : ModelSize{2, 2, 128, 512, 512, 0};
  plan.batch = 8;
  plan.rate = 0.002;
  plan.warm_up = 50;
  return plan;
}

// The licence for a small model, the pages of the course for a large one.
Text default_text(const std::string& size) {
  if (size == "small") return read_text("LICENSE", {kRoot / "LICENSE"});
  std::vector<fs::path> pages;
  for (const auto& entry : fs::directory_iterator(kRoot)) {
    const fs::path page = entry.path() / "README.md";
    if (entry.path().filename().string()[0] == '0' && fs::exists(page)) {
      pages.push_back(page);
    }
  }
  std::sort(pages.begin(), pages.end());
  return read_text("the pages of the lessons", pages);
}

// What is learnt, and what a reader of how much would lose.
std::vector<Level> describe(const Text& text, const Training<float>& run, std::int64_t batch) {
  const double characters = static_cast<double>(text.alphabet.size());
  const std::vector<Level> levels{{"unigram entropy", unigram_entropy(text)},
                                  {"bigram entropy", bigram_entropy(text)}};
  const ModelSize& s = run.model().size();
  cli::Table table({"prediction from", "loss, nats"});
  const auto add = [&](const char* what, double loss) {
    table.add({what, fmt::format("{:.3f}", loss)});
  };
  add("the alphabet (uniform)", std::log(characters));
  add("character frequencies (unigram entropy)", levels[0].value);
  add("the previous character (bigram entropy)", levels[1].value);
  fmt::print(
      "text: {}, {} bytes, {} different characters\n"
      "model: {} layers, {} heads, head_dim {}, {} parameters\n"
      "batch: {} sequences of {} characters\n{}",
      printable(text.name), text.ids.size(), text.alphabet.size(), s.layers, s.heads,
      s.width / s.heads, run.model().parameter_count(), batch, s.length, table.text());
  return levels;
}

// A line for each line of what a model wrote.
void print_sample(const std::string& sample) {
  fmt::print("Sample of the model:\n  | ");
  for (const char c : sample) fmt::print("{}{}", c, c == '\n' ? "  | " : "");
  fmt::print("\n");
}

// Ctrl-C is noted for as long as this lives; a second one ends the program at once.
class InterruptNote {
 public:
  InterruptNote() {
    noted_ = 0;
    struct sigaction action {};
    action.sa_handler = [](int) { noted_ = 1; };
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
    sigaction(SIGINT, &action, &before_);
  }
  ~InterruptNote() { sigaction(SIGINT, &before_, nullptr); }
  InterruptNote(const InterruptNote&) = delete;
  InterruptNote& operator=(const InterruptNote&) = delete;
  bool noted() const { return noted_ != 0; }

 private:
  static volatile std::sig_atomic_t noted_;
  struct sigaction before_ {};
};
volatile std::sig_atomic_t InterruptNote::noted_ = 0;

// Why Ctrl-C could not save the run; empty when it can.
// @throws std::runtime_error instead when the caller asked for the file
std::string why_not_writable(const std::string& file, bool asked) {
  try {
    check_writable(file);
    return "";
  } catch (const std::runtime_error& error) {
    if (asked) throw;
    return error.what();
  }
}

// Makes the steps up to `steps`. Ctrl-C saves the run in `kept`.
void make_steps(Training<float>& run, std::int64_t steps, const std::string& kept,
                const std::string& engine) {
  const auto done = static_cast<std::int64_t>(run.losses().size());
  const auto start = std::chrono::steady_clock::now();
  const InterruptNote interrupt;
  cli::Progress progress("training", steps - done);
  for (std::int64_t step = done + 1; step <= steps; ++step) {
    const double loss = run.step();
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    progress.step(fmt::format("{:.1f} steps/s, loss {:.3f}",
                              static_cast<double>(step - done) / seconds, loss));
    if (step == done + 1 || step * 10 / steps != (step - 1) * 10 / steps) {
      fmt::print("step {:>5}  loss {:.3f}\n", step, loss);
      std::fflush(stdout);
    }
    if (interrupt.noted() && step < steps) {
      run.save(kept, engine);
      throw cli::Interrupted(
          fmt::format("interrupted after step {} of {}; continue with the same command "
                      "and --resume {}",
                      step, steps, kept));
    }
  }
}

void train(const Backend& backend, const Choice& choice) {
  const bool kernels = choice.engine == "kernels";
  if (!kernels && choice.type != "float32") {
    throw std::invalid_argument(
        fmt::format("--type {}: --engine reference supports float32 only", choice.type));
  }
  const Text text =
      choice.text.empty() ? default_text(choice.size) : read_text(choice.text, {choice.text});
  const Plan plan = plan_of(choice.size);
  const std::int64_t steps = choice.steps > 0 ? choice.steps : choice.size == "small" ? 300 : 400;
  Training<float> run(
      plan, text,
      kernels ? kernel_engine(backend, choice.type == "float32" ? Type::kFloat32 : Type::kBFloat16)
              : naive_engine<float>());
  const std::string engine =
      kernels ? fmt::format("kernels in {} on {}", choice.type, backend.properties.name)
              : "lesson 01 in float32";
  std::string before = engine;
  if (!choice.resume.empty()) before = run.load(choice.resume);
  const auto done = static_cast<std::int64_t>(run.losses().size());
  if (done >= steps) {
    throw std::invalid_argument(fmt::format("--steps {}: the checkpoint {} has {} steps already",
                                            steps, choice.resume, done));
  }
  const std::string kept = !choice.checkpoint.empty() ? choice.checkpoint
                           : !choice.resume.empty()   ? choice.resume
                                                      : "06_flash_backward.checkpoint";
  const bool keeps = !choice.checkpoint.empty() || !choice.resume.empty();
  const std::string unkept = why_not_writable(kept, keeps);
  const std::vector<Level> levels = describe(text, run, plan.batch);
  fmt::print("attention: {}\n", engine);
  if (done > 0) fmt::print("resumed after step {}\n", done);
  if (before != engine) {
    fmt::print("note: before that it was {}; last digits may differ\n", printable(before));
  }
  if (!unkept.empty()) fmt::print("note: Ctrl-C will lose this run: {}\n", unkept);

  make_steps(run, steps, kept, engine);
  // What can be shown is shown before a disk that is full by now ends this.
  fmt::print("\n{}\n", terminal_curve(run.losses(), levels));
  print_sample(run.sample(240, 0.7, 128));
  if (keeps) {
    run.save(kept, engine);
    fmt::print("checkpoint: {}\n", printable(kept));
  }
  if (!choice.weights.empty()) {
    write_weights(choice.weights, run.model(), text);
    fmt::print("weights: {}\n", printable(choice.weights));
  }
  if (!choice.svg.empty()) {
    write_curve_svg(choice.svg, fmt::format("Loss on {}, in nats", text.name), run.losses(),
                    levels);
    fmt::print("curve: {}\n", printable(choice.svg));
  }
}

// All losses of a new run.
template <class T>
Tensor<T, 1> losses_of(Training<T>& run, std::int64_t steps, cli::Progress& progress) {
  Tensor<T, 1> losses({steps});
  for (std::int64_t i = 0; i < steps; ++i) {
    losses(i) = static_cast<T>(run.step());
    progress.step();
  }
  return losses;
}

// The same run three times: lesson 01 in float64 and in float32, and the kernels.
void compare(cli::Program& program, const Backend& backend) {
  constexpr std::int64_t kSteps = 112;
  const Plan plan = plan_of("small");
  const Text text = default_text("small");
  Training<double> exact(plan, text, naive_engine<double>());
  Training<float> textbook(plan, text, naive_engine<float>()),
      kernels(plan, text, kernel_engine(backend, Type::kFloat32));
  const std::vector<Level> levels = describe(text, kernels, plan.batch);
  cli::Progress progress("training", 3 * kSteps);
  const auto ref = losses_of(exact, kSteps, progress);
  const auto plain = losses_of(textbook, kSteps, progress),
             out = losses_of(kernels, kSteps, progress);

  const std::vector<double>& losses = kernels.losses();
  fmt::print("\n{}\n", terminal_curve(losses, levels));
  cli::Table table(
      {"step", "lesson 01, float64", "kernels, float32", "difference", "lesson 01, float32"});
  for (const std::int64_t step : {1, 2, 4, 8, 16, 32, 64, 112}) {
    const double expected = ref(step - 1);
    table.add({std::to_string(step), fmt::format("{:.4f}", expected),
               fmt::format("{:.4f}", out(step - 1)),
               fmt::format("{:.1e}", out(step - 1) - expected),
               fmt::format("{:.1e}", plain(step - 1) - expected)});
  }
  fmt::print("{}", table.text());
  program.check(accept("loss curve", out, ref, plain, kGradientFactor));
  double last = 0;
  for (std::int64_t i = kSteps - 16; i < kSteps; ++i) last += out(i) / 16;
  program.check("mean of the last 16 losses", last, levels[1].value);
  if (program.save_directory()) {
    write_curve_svg(*program.save_directory() / "loss.svg", "Loss on " + text.name + ", in nats",
                    losses, levels);
  }
}

}  // namespace

void add_training(cli::Program& program, const std::vector<Backend>& backends) {
  const Backend* const lab = find_backend(backends, "lab");
  const Backend* const gpu = find_backend(backends, "gpu");
  program.has_kernels(gpu == nullptr ? std::nullopt : std::optional(gpu->available));
  const auto backend = [=, &program]() -> const Backend& { return program.on_gpu() ? *gpu : *lab; };
  program.section("train", "Training with the kernels",
                  [=, &program] { compare(program, backend()); });

  const auto choice = std::make_shared<Choice>();
  cli::Options& options = program.command(
      "train", "Trains a language model on a text with the kernels, and draws its loss.",
      [=] { train(backend(), *choice); });
  options.option("--size", choice->size, {"small", "medium", "large"},
                 "small: width 32, length 64, the text is LICENSE; medium: width 64, "
                 "length 256;\nlarge: width 128, length 512; their text: the pages of the course");
  options.option("--steps", choice->steps, 0, 1000000,
                 "number of the last step (0: 300 for small, else 400)");
  options.option("--text", choice->text, "the file to train on instead");
  options.option("--engine", choice->engine, {"kernels", "reference"},
                 "what computes attention; reference: lesson 01");
  options.option("--type", choice->type, {"float32", "bfloat16"}, "storage type of the kernels");
  options.option("--resume", choice->resume,
                 "the checkpoint to continue from, of the same size and text");
  options.output("--checkpoint", choice->checkpoint,
                 "the checkpoint to write at the end and on Ctrl-C (default: the "
                 "one resumed;\notherwise, on Ctrl-C, 06_flash_backward.checkpoint)");
  options.output("--weights", choice->weights,
                 "the file for what was learnt, which lesson 05 generates text from");
  options.output("--svg", choice->svg, "the file for a chart of the loss");
}

}  // namespace fa::backward
