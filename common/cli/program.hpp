/// @file
/// What the executables of all lessons have in common: options, sections, checks, exit status.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/check/acceptance.hpp"
#include "common/cli/input.hpp"

namespace CLI {  // the library of the command line
class App;
}

namespace fa::cli {

/// Exit status of a program that did what was asked, with every check passed.
inline constexpr int kSuccess = 0;
/// Exit status when a check failed: the computer says that a result is wrong.
inline constexpr int kCheckFailed = 1;
/// Exit status when what was asked could not be done: bad use, a bad file, something missing.
inline constexpr int kCannotDo = 2;
/// Exit status of work that Ctrl-C ended early but in order: what shells report for SIGINT.
inline constexpr int kInterrupted = 130;

/// Thrown by work that Ctrl-C ended early: Program::run() says why and returns kInterrupted.
struct Interrupted : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Takes options: a program, or one of its commands.
class Options {
 public:
  /// Adds an option that takes a whole number, with its present value as default.
  /// @param name  "--length"
  /// @param value set by Program::run(); must outlive it
  /// @param low   smallest allowed value
  /// @param high  largest allowed value
  /// @param help  for --help
  void option(const std::string& name, std::int64_t& value, std::int64_t low,
              std::int64_t high, const std::string& help);
  /// Adds an option that may be absent; its range is the lesson's to check.
  void option(const std::string& name, std::optional<std::int64_t>& value,
              const std::string& help);
  /// Adds an option that takes a text, with its present value as default.
  void option(const std::string& name, std::string& value,
              const std::string& help);
  /// Adds an option that takes one of some words, with its present value as default.
  void option(const std::string& name, std::string& value,
              const std::vector<std::string>& allowed,
              const std::string& help);
  /// Adds an option that takes the name of a file to write. Program::run() refuses one that cannot be written, before
  /// any work.
  /// @param name  "--svg"
  /// @param file  set by Program::run(); must outlive it. Empty: none; "-", where `help` says so: standard output
  /// @param help  for --help
  void output(const std::string& name, std::string& file,
              const std::string& help);
  /// Adds an option without a value.
  void flag(const std::string& name, bool& value, const std::string& help);

 private:
  friend class Program;
  Options() = default;
  void check_outputs() const;
  CLI::App* app_ = nullptr;
  std::vector<std::pair<std::string, const std::string*>> outputs_;
};

/// A lesson's executable: a walk in named sections, each of which can also be run alone
/// (`--section NAME`, the form that the pages quote).
class Program : public Options {
 public:
  /// @param lesson      name of the lesson's directory and executable, "01_naive_attention"
  /// @param description one sentence for --help
  Program(std::string lesson, std::string description);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// Adds a section. Sections run in the order in which they were added.
  /// @param name  for --section
  /// @param title printed above the section in a full run
  /// @param body  prints the section; throws std::invalid_argument for bad input
  void section(std::string name, std::string title,
               std::function<void()> body);

  /// Adds a section that runs only when it is named: for other programs rather than for readers.
  /// @param name, title, body as for section()
  void section_apart(std::string name, std::string title,
                     std::function<void()> body);

  /// Adds a command: `PROGRAM NAME` runs `body` in place of the walk. The options of the program can follow
  /// the name.
  /// @param name        the word to type
  /// @param description one sentence for --help
  /// @param body        does it; may throw as a section, or Interrupted
  /// @return takes the command's own options
  Options& command(const std::string& name, const std::string& description,
                   std::function<void()> body);

  /// Parses the command line, looks whether what it names can be written, and runs the sections, or a command. Every exception ends as one sentence on
  /// standard error and kCannotDo, or kInterrupted; a failed check lets the walk go on and ends it with kCheckFailed.
  /// @return the exit status
  int run(int argc, char** argv);

  /// Whether --section names the only section that runs: what takes long may be left to it.
  bool runs_one_section() const { return !only_section_.empty(); }

  /// Reports a verdict: prints it, adds it to the summary, and remembers a failure. The summary has the
  /// bound on the largest error, or the one on the rms when only that one is broken.
  /// @throws std::runtime_error when the summary cannot be written
  void check(const Verdict& verdict);

  /// Reports a check that is no comparison of tensors, for example a theorem tried on many cases.
  /// @param what      name for the report
  /// @param error     what was measured, in the unit of `tolerance`
  /// @param tolerance accepted when error <= tolerance (and neither is NaN)
  /// @throws std::runtime_error when the summary cannot be written
  void check(const std::string& what, double error, double tolerance);

  /// For lessons with kernels: says whether there is a GPU to run them on. Without this call --device gpu is
  /// refused as meaningless.
  /// @param gpu_available none when this build has no code for GPUs
  void has_kernels(std::optional<bool> gpu_available);
  /// Whether kernels are to run on the GPU: --device gpu, or auto where there is one.
  bool on_gpu() const;

  /// The input chosen by --input, else the shipped one; read once.
  /// @throws std::invalid_argument as read_input()
  const Input& input();
  /// The directory chosen by --save, created; none when the option was not given.
  const std::optional<std::filesystem::path>& save_directory() const {
    return save_;
  }

 private:
  struct Section {
    std::string name, title;
    std::function<void()> body;
    bool apart = false;  // of the walk
  };
  struct Command : Options {
    std::function<void()> body;
  };
  void make_save_directory();
  int run_sections();
  void summarise(const std::string& what, double error, double tolerance,
                 bool accepted);

  // The command line lies behind a pointer: its library takes seconds to compile, in every lesson.
  struct CommandLine;
  std::string lesson_;
  std::unique_ptr<CommandLine> command_line_;
  std::vector<Section> sections_;
  std::list<Command> commands_;
  std::string device_ = "auto", input_directory_, save_name_, summary_file_,
              only_section_;
  std::optional<std::filesystem::path> save_;
  std::optional<Input> input_;
  bool any_failed_ = false, has_kernels_ = false;
  std::optional<bool> gpu_available_;  // none: no code for GPUs
};

}  // namespace fa::cli
