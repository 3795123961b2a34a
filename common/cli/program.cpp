#include "common/cli/program.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <new>
#include <stdexcept>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/cli/table.hpp"
#include "common/data/files.hpp"
#include "common/tensor/npy.hpp"

namespace fa::cli {

namespace {

// The lab reports a deadlock in several lines, indented from the second on. They stay lines; a line
// break before anything else could come from a file's text and is shown as \x0a.
std::string printable_lines(const std::string& text) {
  const std::string next = "\n  ";
  std::string result;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find(next, begin)) != std::string::npos;) {
    result += printable(text.substr(begin, end - begin)) + next;
    begin = end + next.size();
  }
  return result + printable(text.substr(begin));
}

Tensor<float, 4> read_tensor(const std::filesystem::path& path) {
  auto tensor = read_npy<float, 4>(path);
  if (tensor.count() == 0) {
    throw std::invalid_argument(fmt::format("{}: has shape {}; every size must be at least 1",
                                            path.string(), to_string(tensor.shape())));
  }
  for_each_index(tensor.shape(), [&](const Shape<4>& index) {
    const float value = tensor.view()[index];
    if (std::isfinite(value)) return;
    throw std::invalid_argument(
        fmt::format("{}: element {} is {}; every element must be a finite float32", path.string(),
                    to_string(index), value));
  });
  return tensor;
}

}  // namespace

std::filesystem::path shipped_input() {
  return FA_DATA_DIR;
}

Input read_input(const std::filesystem::path& directory) {
  std::error_code error;
  Input input;
  input.directory = directory;
  input.q = read_tensor(directory / "q.npy");
  input.k = read_tensor(directory / "k.npy");
  input.v = read_tensor(directory / "v.npy");
  if (std::filesystem::exists(directory / "tokens.txt", error)) {
    std::ifstream file(directory / "tokens.txt");
    for (std::string line; std::getline(file, line);) {
      if (!line.empty() && line.back() == '\r') line.pop_back();
      input.tokens.push_back(printable(line));
    }
    if (static_cast<std::int64_t>(input.tokens.size()) != input.k.size(2)) {
      throw std::invalid_argument(fmt::format("{}: has {} tokens, but k.npy has {} keys",
                                              (directory / "tokens.txt").string(),
                                              input.tokens.size(), input.k.size(2)));
    }
  }
  return input;
}

struct Program::CommandLine {
  CLI::App app;
};

Program::Program(std::string lesson, std::string description)
    : lesson_(std::move(lesson)),
      command_line_(new CommandLine{CLI::App(std::move(description), lesson_)}) {
  CLI::App& app = command_line_->app;
  app.add_option("--device", device_,
                 "where kernels run: cpu is the lab, gpu an NVIDIA GPU, auto a GPU "
                 "where there is one, else the lab")
      ->check(CLI::IsMember({"auto", "cpu", "gpu"}));
  app.add_option("--input", input_directory_,
                 "directory with q.npy, k.npy and v.npy, each [batch, heads, length, head_dim]\n"
                 "(default: the text shipped with the course)");
  app.add_option("--save", save_name_, "directory for result files, created if missing");
  output("--summary", summary_file_, "append one tab-separated line per check to this file");
  app.add_option("--section", only_section_,
                 "run only this section, and print it without its title");
  flag("--verbose", verbose_, "show every section in full");
}

Program::~Program() = default;

void Program::option(const std::string& name, std::int64_t& value, std::int64_t low,
                     std::int64_t high, const std::string& help) {
  command_line_->app.add_option(name, value, help)
      ->check(CLI::Range(low, high))
      ->capture_default_str();
}

void Program::option(const std::string& name, std::optional<std::int64_t>& value,
                     const std::string& help) {
  command_line_->app.add_option(name, value, help);
}

void Program::option(const std::string& name, std::string& value, const std::string& help) {
  command_line_->app.add_option(name, value, help)->capture_default_str();
}

void Program::option(const std::string& name, std::string& value,
                     const std::vector<std::string>& allowed, const std::string& help) {
  command_line_->app.add_option(name, value, help)
      ->check(CLI::IsMember(allowed))
      ->capture_default_str();
}

void Program::output(const std::string& name, std::string& file, const std::string& help) {
  command_line_->app.add_option(name, file, help);
  outputs_.emplace_back(name, &file);
}

void Program::check_outputs() {
  const auto check_output = [](const std::string& option, const std::filesystem::path& file) {
    try {
      check_writable(file);
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(fmt::format("{} {}", option, error.what()));
    }
  };
  for (const auto& [name, file] : outputs_) {
    if (!file->empty() && *file != "-") check_output(name, *file);
  }
  if (save_name_.empty()) return;
  save_ = save_name_;
  std::error_code ignored;  // the check says what is wrong
  std::filesystem::create_directories(*save_, ignored);
  check_output("--save", *save_ / "o.npy");
}

void Program::has_kernels(std::optional<bool> gpu_available) {
  has_kernels_ = true;
  gpu_available_ = gpu_available;
}

bool Program::on_gpu() const {
  return gpu_available_.value_or(false) && device_ != "cpu";
}

void Program::flag(const std::string& name, bool& value, const std::string& help) {
  command_line_->app.add_flag(name, value, help);
}

std::string Program::footer() const {
  std::string text = "\nSections, in order:\n";
  for (const Section& section : sections_)
    text += fmt::format("  {:<14}{}{}\n", section.name, section.title,
                        section.shown == In::kNamedRun     ? " (only when named)"
                        : section.shown == In::kVerboseRun ? " (with --verbose, or when named)"
                                                           : "");
  if (!apart_.empty()) {
    text += fmt::format("\nSections of {}_apart, which this program starts: {}\n", lesson_,
                        fmt::join(apart_, ", "));
  }
  return text +
         "\nExit status: 0 all checks passed, 1 a check failed, 2 bad use or an "
         "error.";
}

int Program::parse_and_run(int argc, char** argv) {
  command_line_->app.parse(argc, argv);
  if (device_ == "gpu" && !on_gpu()) {
    throw std::invalid_argument(
        fmt::format("--device gpu: {}; allowed are auto and cpu",
                    !has_kernels_     ? "this lesson has no GPU kernels"
                    : !gpu_available_ ? "this build has no code for GPUs; that needs nvcc and the "
                                        "CMake option -DFA_GPU=REQUIRED"
                                      : "there is no NVIDIA GPU here that this build can use"));
  }
  check_outputs();
  if (!only_section_.empty()) {
    if (std::count(apart_.begin(), apart_.end(), only_section_) > 0) go_on_as_apart(argv);
    run_one_section();
    return any_failed_ ? kCheckFailed : kSuccess;
  }
  return run_sections(argv[0]);
}

int Program::run(int argc, char** argv) {
  const auto cannot_do = [&](const std::string& why) {
    std::fflush(stdout);
    // Not fmt::print(), which throws where standard error cannot be written.
    std::fputs(fmt::format("{}: {}\n", lesson_, printable_lines(why)).c_str(), stderr);
    return kCannotDo;
  };
  command_line_->app.footer(footer());
  try {
    return parse_and_run(argc, argv);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", command_line_->app.help());
    return kSuccess;
  } catch (const CLI::ConversionError& error) {
    return cannot_do(fmt::format("{}: must be an integer (see --help)", error.what()));
  } catch (const CLI::ParseError& error) {
    return cannot_do(fmt::format("{} (see --help)", error.what()));
  } catch (const std::bad_alloc&) {
    return cannot_do("out of memory");
  } catch (const std::exception& error) {
    return cannot_do(error.what());
  }
}

void Program::go_on_as_apart(char** argv) const {
  const std::string name = lesson_ + "_apart";
  const std::filesystem::path beside = std::filesystem::path(argv[0]).parent_path() / name;
  execv(beside.c_str(), argv);
  throw std::runtime_error(
      fmt::format("--section {}: needs the program {}, which ./learn run does not compile; first: "
                  "cmake --build build/learn --target {}",
                  only_section_, name, name));
}

void Program::run_one_section() {
  for (const Section& section : sections_) {
    if (section.name != only_section_) continue;
    section.body();
    if (std::fflush(stdout) != 0) throw std::runtime_error("standard output: cannot be written");
    return;
  }
  std::vector<std::string> names;
  for (const Section& section : sections_) names.push_back(section.name);
  names.insert(names.end(), apart_.begin(), apart_.end());
  throw std::invalid_argument(fmt::format("--section {}: there is no such section; allowed are {}",
                                          only_section_, fmt::join(names, ", ")));
}

int Program::run_sections(const std::string& program) {
  bool in_lines = false, all_shown = true;
  for (const Section& section : sections_) {
    if (section.shown == In::kNamedRun) continue;
    const bool full = verbose_ || section.shown == In::kEveryRun;
    all_shown = all_shown && full;
    if (!full && section.shown == In::kVerboseRun) continue;
    if (full) {
      fmt::print("\n{}\n{}\n", section.title, std::string(display_width(section.title), '='));
      section.body();
    } else {
      if (!in_lines) fmt::print("\n");
      run_in_one_line(section);
    }
    in_lines = !full;
    if (std::fflush(stdout) != 0) throw std::runtime_error("standard output: cannot be written");
  }
  if (!all_shown) {
    fmt::print("\nEverything: {} --verbose. One section: --section NAME; --help lists them.\n",
               printable(program));
  }
  return any_failed_ ? kCheckFailed : kSuccess;
}

void Program::run_in_one_line(const Section& section) {
  one_line_ = true;
  passed_ = failed_ = 0;
  section.body();
  one_line_ = false;
  const int checks = passed_ + failed_;
  const std::string count = failed_ > 0 ? fmt::format("{} of {} checks failed", failed_, checks)
                                        : fmt::format("{} check{}", checks, checks == 1 ? "" : "s");
  const std::string rest = fmt::format("{:<9}  --section {}", count, section.name);
  // A section that found nothing to check has not passed.
  fmt::print("{}\n", checks == 0 ? fmt::format("-     {:<38}  {}", section.title, rest)
                                 : check_line(failed_ == 0, section.title, rest));
}

void Program::detail(const std::string& text) const {
  if (!one_line_) fmt::print("{}", text);
}

void Program::report(bool passed, const std::string& line) {
  ++(passed ? passed_ : failed_);
  if (!one_line_ || !passed) fmt::print("{}\n", line);
}

const Input& Program::input() {
  if (!input_) {
    input_ = read_input(input_directory_.empty() ? shipped_input()
                                                 : std::filesystem::path(input_directory_));
  }
  return *input_;
}

void Program::check(const Verdict& verdict) {
  report(verdict.accepted, verdict.report());
  const Distance& error = verdict.error;
  const bool only_rms = error.invalid == 0 && error.max_error <= verdict.allowed_max &&
                        !(error.rms_error <= verdict.allowed_rms);
  const double figure = error.invalid > 0 ? std::nan("")
                        : only_rms        ? error.rms_error
                                          : error.max_error;
  summarise(verdict.accepted, verdict.what + (only_rms ? " (rms)" : ""),
            fmt::format("{:.2e}", figure),
            fmt::format("{:.2e}", only_rms ? verdict.allowed_rms : verdict.allowed_max));
}

void Program::check(const std::string& what, double figure, double limit) {
  const bool passed = figure <= limit;  // false for NaN
  report(passed, check_line(passed, what, against_limit(figure, limit)));
  summarise(passed, what, fmt::format("{:.2e}", figure), fmt::format("{:.2e}", limit));
}

void Program::check_none(const std::string& what, std::int64_t count, const std::string& noun) {
  const std::string found = fmt::format("{} {}{}", count == 0 ? "no" : std::to_string(count), noun,
                                        count == 1 ? "" : "s");
  report(count == 0, check_line(count == 0, what + ": " + found));
  summarise(count == 0, fmt::format("{}: {}s", what, noun), std::to_string(count), "0");
}

void Program::summarise(bool passed, const std::string& what, const std::string& figure,
                        const std::string& limit) {
  any_failed_ = any_failed_ || !passed;
  if (summary_file_.empty()) return;
  try {
    append_to_file(summary_file_, fmt::format("{}\t{}\t{}\t{}\t{}\n", passed ? "PASS" : "FAIL",
                                              lesson_, what, figure, limit));
  } catch (const std::runtime_error& failure) {
    throw std::runtime_error(fmt::format("--summary {}", failure.what()));
  }
}

Progress::~Progress() {
  if (shown_ > 0) fmt::print(stderr, "\r\033[K");
}

void Progress::step() {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto done = static_cast<double>(++done_), total = static_cast<double>(total_);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  if (seconds < shown_ + 0.2 || isatty(STDERR_FILENO) == 0) return;
  shown_ = seconds;
  fmt::print(stderr, "\r{}: {:.0f} %, about {:.0f} s left\033[K", title_, 100 * done / total,
             seconds * (total - done) / done);
}

}  // namespace fa::cli
