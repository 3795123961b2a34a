/// @file
/// The base of every lesson's program: options, input, sections, checks, progress, exit status.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/check/acceptance.hpp"
#include "common/tensor/tensor.hpp"

namespace fa::cli {

/// Exit status when every check passed.
inline constexpr int kSuccess = 0;
/// Exit status when a check failed.
inline constexpr int kCheckFailed = 1;
/// Exit status of bad use and of errors: a bad file, something missing.
inline constexpr int kCannotDo = 2;

/// The input of a lesson and the directory that it was read from.
struct Input {
  /// @{ Q is [batch, heads, length_q, head_dim], K and V are [batch, kv_heads, length_k, head_dim].
  std::filesystem::path directory;
  Tensor<float, 4> q, k, v;
  /// @}
  /// One per key from tokens.txt, as printable() shows it; empty without that file.
  std::vector<std::string> tokens;
};

/// The directory of the shipped input: one attention layer applied to a real text (common/data).
std::filesystem::path shipped_input();

/// Reads q.npy, k.npy, v.npy and, where present, tokens.txt. Wider elements are rounded to float32,
/// before anything is computed from them.
/// @throws std::invalid_argument for a missing or malformed file, a rank other than 4, a size of 0,
///   an element that is NaN or infinite, or a number of tokens that is not the number of keys
Input read_input(const std::filesystem::path& directory);

/// A lesson's program: named sections that run in order, or one of them alone (`--section NAME`,
/// the form that the pages quote).
class Program {
 public:
  /// @param lesson      name of the lesson's folder and program, "01_naive_attention"
  /// @param description one sentence for --help
  Program(std::string lesson, std::string description);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// @{ Adds a section. Sections run in the order in which they were added; one of checks takes one
  /// line in a full run without --verbose, in which detail() prints nothing and check() only what
  /// fails; one on request needs --verbose or its name, one apart its name.
  /// @param title printed above the section in a full run
  /// @param body  prints the section; throws std::invalid_argument for bad input
  void section(std::string name, std::string title, std::function<void()> body) {
    sections_.push_back({std::move(name), std::move(title), std::move(body), In::kEveryRun});
  }
  void section_of_checks(std::string name, std::string title, std::function<void()> body) {
    sections_.push_back({std::move(name), std::move(title), std::move(body), In::kOneLine});
  }
  void section_on_request(std::string name, std::string title, std::function<void()> body) {
    sections_.push_back({std::move(name), std::move(title), std::move(body), In::kVerboseRun});
  }
  void section_apart(std::string name, std::string title, std::function<void()> body) {
    sections_.push_back({std::move(name), std::move(title), std::move(body), In::kNamedRun});
  }
  /// @}

  /// Names the sections of LESSON_apart, a program beside this one that is compiled only on request.
  /// With --section and one of these names this program goes on as that one.
  void sections_in_apart(std::vector<std::string> names) { apart_ = std::move(names); }

  /// @{ Adds an option; its present value is the default: an integer within bounds, an optional one
  /// whose range the lesson checks, a text, one of several words, or none (a flag).
  /// @param name  "--length"
  /// @param value set by run(); must outlive it
  void option(const std::string& name, std::int64_t& value, std::int64_t low, std::int64_t high,
              const std::string& help);
  void option(const std::string& name, std::optional<std::int64_t>& value, const std::string& help);
  void option(const std::string& name, std::string& value, const std::string& help);
  void option(const std::string& name, std::string& value, const std::vector<std::string>& allowed,
              const std::string& help);
  void flag(const std::string& name, bool& value, const std::string& help);
  /// @}
  /// Adds an option that names a file to write. run() refuses a file that cannot be written before
  /// any work begins.
  /// @param file  empty: none; "-", where `help` says so: standard output
  void output(const std::string& name, std::string& file, const std::string& help);

  /// Parses the command line, checks that its output files can be written, and runs the sections.
  /// An exception becomes one sentence on standard error and kCannotDo; after a failed check the
  /// remaining sections still run, and the status is kCheckFailed.
  int run(int argc, char** argv);

  /// Whether --section is given; slow work may be left to this case.
  bool runs_one_section() const { return !only_section_.empty(); }

  /// Prints text, unless the section takes one line in this run.
  void detail(const std::string& text) const;

  /// Prints a verdict and adds it to the summary, where the largest error stands, or the rms if
  /// only the rms exceeds its limit.
  /// @throws std::runtime_error when the summary cannot be written
  void check(const Verdict& verdict);
  /// The same for several.
  void check(const std::vector<Verdict>& verdicts) {
    for (const Verdict& verdict : verdicts) check(verdict);
  }

  /// Reports a figure with a limit: "PASS  largest error / limit   0.724  (limit 1.00)".
  /// @param limit passes when figure <= limit (and neither is NaN)
  /// @throws std::runtime_error when the summary cannot be written
  void check(const std::string& what, double figure, double limit);

  /// Reports a count that must be 0: "PASS  01_unfused: no findings", "FAIL  01_unfused: 1
  /// finding".
  /// @param noun what is counted, in the singular
  /// @throws std::runtime_error when the summary cannot be written
  void check_none(const std::string& what, std::int64_t count, const std::string& noun);

  /// Declares that the lesson has kernels. Without this call --device gpu is refused.
  /// @param gpu_available whether there is a GPU; none when this build has no code for GPUs
  void has_kernels(std::optional<bool> gpu_available);
  /// Whether kernels run on the GPU: --device gpu, or auto where there is one.
  bool on_gpu() const;

  /// The input chosen by --input, else the shipped one; read once.
  /// @throws std::invalid_argument as read_input()
  const Input& input();
  /// The directory given by --save, created; none without the option.
  const std::optional<std::filesystem::path>& save_directory() const { return save_; }

 private:
  enum class In { kEveryRun, kOneLine, kVerboseRun, kNamedRun };  // where a section is shown
  struct Section {
    std::string name, title;
    std::function<void()> body;
    In shown;
  };
  std::string footer() const;
  int parse_and_run(int argc, char** argv);
  void check_outputs();
  int run_sections(const std::string& program);
  [[noreturn]] void go_on_as_apart(char** argv) const;
  void run_one_section();
  void run_in_one_line(const Section& section);
  void report(bool passed, const std::string& line);
  void summarise(bool passed, const std::string& what, const std::string& figure,
                 const std::string& limit);

  // Behind a pointer, because the command-line library takes seconds to compile.
  struct CommandLine;
  std::string lesson_;
  std::unique_ptr<CommandLine> command_line_;
  std::vector<Section> sections_;
  std::vector<std::string> apart_;
  std::vector<std::pair<std::string, const std::string*>> outputs_;
  std::string device_ = "auto", input_directory_, save_name_, summary_file_, only_section_;
  std::optional<std::filesystem::path> save_;
  std::optional<Input> input_;
  bool any_failed_ = false, has_kernels_ = false, verbose_ = false, one_line_ = false;
  int passed_ = 0, failed_ = 0;        // checks of the section that takes one line
  std::optional<bool> gpu_available_;  // none: no code for GPUs
};

/// Counts finished steps and shows on a terminal how many percent are done and the time left, in a
/// line on standard error that the end clears. Several threads may call step() at once.
class Progress {
 public:
  /// @param title what is being done, "attention over 65536 keys"
  /// @param total number of steps, at least 1
  Progress(std::string title, std::int64_t total) : title_(std::move(title)), total_(total) {}
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// Counts one finished step.
  void step();

 private:
  std::string title_;
  std::int64_t total_, done_ = 0;
  double shown_ = 0;  // seconds after the beginning
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
};

}  // namespace fa::cli
