// What the programs of all lessons have in common: tables, progress, input, options, exit status.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <limits>
#include <stdexcept>
#include <stdlib.h>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include "common/cli/files.hpp"
#include "common/cli/input.hpp"
#include "common/cli/kernel_options.hpp"
#include "common/cli/kernel_table.hpp"
#include "common/cli/program.hpp"
#include "common/cli/progress.hpp"
#include "common/cli/results.hpp"
#include "common/cli/table.hpp"
#include "common/tensor/npy.hpp"
#include "common/tensor/random.hpp"
#include "common/testing/process.hpp"

using namespace fa;
using namespace fa::cli;
using fa::testing::contains;
using fa::testing::file_bytes;
using fa::testing::message_of;
using fa::testing::Outcome;
using fa::testing::run_in_child;
using fa::testing::TemporaryDirectory;
namespace fs = std::filesystem;

namespace {

using Clock = std::chrono::steady_clock;

// q, k and v that read_input takes, with as many tokens as keys.
void write_good_input(const fs::path& directory) {
  write_npy(directory / "q.npy", normal_tensor<float, 4>({1, 2, 5, 4}, 1));
  write_npy(directory / "k.npy", normal_tensor<float, 4>({1, 2, 3, 4}, 2));
  write_npy(directory / "v.npy", normal_tensor<float, 4>({1, 2, 3, 4}, 3));
  write_file(directory / "tokens.txt", "[CLS]\nAlice\n[SEP]\n");
}

std::string input_refusal(const fs::path& directory) {
  return message_of<std::invalid_argument>([&] { read_input(directory); });
}

// A small program as a lesson would write it, run in a child process.
Outcome run_program(std::vector<std::string> arguments) {
  return run_in_child([&] {
    Program program("09_example", "Shows nothing.");
    bool twice = false;
    program.flag("--twice", twice, "an option of the lesson");
    program.section("numbers", "Zahlen größer als null",
                    [&] { std::printf(twice ? "1 2 1 2\n" : "1 2\n"); });
    program.section_apart("apart", "For other programs", [] { std::printf("{}\n"); });
    program.section("good", "A check that passes", [&] { program.check("theorem", 0.5, 0.5); });
    program.section("bad", "A check that fails", [&] { program.check("claim", 0.75, 0.5); });
    program.section("nan", "A check of NaN", [&] {
      program.check("nothing", std::numeric_limits<double>::quiet_NaN(), 1.0);
    });
    program.section_apart("findings", "Counts that must be 0", [&] {
      for (const int count : {0, 1, 3}) {
        program.check_none("kernel", count, "finding");
      }
    });
    program.section("tensor", "The verdict on a tensor", [&] {
      Distance error, plain;
      error.max_error = plain.max_error = 0.25;
      program.check(decide("o", error, plain, 2, 0));
      error.max_error = 2;
      program.check(decide("d_q", error, plain, 3, 0));
      error.max_error = 0.25;
      error.rms_error = 0.125;
      program.check(decide("d_k", error, plain, 3, 0));
      error.invalid = 1;
      program.check(decide("d_v", error, plain, 3, 0));
    });
    program.section("input", "The input", [&] {
      const Input& input = program.input();
      std::printf("%s %zu\n", to_string(input.q.shape()).c_str(), input.tokens.size());
      std::printf("%s\n", &input == &program.input() ? "once" : "twice");
    });
    program.section("save", "Where results go", [&] {
      const auto& directory = program.save_directory();
      std::printf("%s\n", directory ? directory->c_str() : "nowhere");
      for (int i = 0; directory && i < 50; ++i) {
        write_file(*directory / "result", std::string(10000, 'x'));
      }
    });
    program.section("throw", "An error", [] { throw std::runtime_error("the reason"); });
    program.section_apart("controls", "An error that holds a file's text",
                          [] { throw std::runtime_error("\x1b[2J two\nlines, größer"); });
    program.section_apart("lines", "An error as the lab reports a deadlock",
                          [] { throw std::runtime_error("deadlock:\n  1 waits\n  2 \x1b ends"); });
    program.section_apart("long", "A check with a long name", [&] {
      program.check("a check whose line is longer than it looks", 0, 1);
    });
    std::string picture = "-", drawing;
    program.output("--picture", picture, "a file to write");
    program.section("memory", "Too much memory", [] { throw std::bad_alloc(); });
    program.section("length", "More memory than there can be",
                    [] { Tensor<double, 1>({std::numeric_limits<std::int64_t>::max()}); });
    std::int64_t count = 3;
    std::string colour = "red";
    Options& options = program.command("paint", "Paints something.", [&] {
      std::printf("%d %s%s\n", static_cast<int>(count), colour.c_str(), twice ? ", twice" : "");
      if (count == 5) throw Interrupted("interrupted after 5");
      program.check("paint", 0.5, count == 6 ? 0.25 : 1.0);
    });
    options.option("--count", count, 1, 9, "how often");
    options.output("--drawing", drawing, "a file to write");
    options.option("--colour", colour, {"red", "blue"}, "which");
    arguments.insert(arguments.begin(), "09_example");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    return program.run(static_cast<int>(argv.size()), argv.data());
  });
}

Outcome run_section(const std::string& name, std::vector<std::string> arguments = {}) {
  arguments.insert(arguments.end(), {"--section", name});
  return run_program(arguments);
}

// One sentence on standard error, nothing on standard output, status 2.
void check_refused(const Outcome& outcome, const std::string& sentence) {
  CHECK(outcome.status == 2);
  CHECK(outcome.output == "");
  CHECK(outcome.error == "09_example: " + sentence + "\n");
}

void work(Progress& progress, int steps, std::chrono::milliseconds each) {
  for (int i = 0; i < steps; ++i) {
    std::this_thread::sleep_for(each);
    progress.step();
  }
}

}  // namespace

TEST_CASE("a table's columns are as wide as their widest cell") {
  Table table({"name", "n"});
  table.add({"q", "12"});
  table.add({"a long name", "3"});
  CHECK(table.text() ==
        "name          n\n"
        "-----------  --\n"
        "q            12\n"
        "a long name   3\n");
}

TEST_CASE("a table sets numbers right and text left") {
  Table table({"mixed", "numbers", "word"});
  table.add({"1", "-1.5", "info"});
  table.add({"x", "+2e-3", "nan?"});
  table.add({"", "inf", "infinite"});
  table.add({"-", "-inf", "-x"});
  table.add({"2", "nan", "n"});
  table.add({"3", "-", "4"});
  table.add({"3", "17 %", "5"});
  CHECK(table.text() ==
        "mixed  numbers  word\n"
        "-----  -------  --------\n"
        "1         -1.5  info\n"
        "x        +2e-3  nan?\n"
        "           inf  infinite\n"
        "-         -inf  -x\n"
        "2          nan  n\n"
        "3            -  4\n"
        "3         17 %  5\n");
}

TEST_CASE("a column of words that begin like inf is set left") {
  Table table({"longer heading"});
  table.add({"inflight"});
  table.add({"nanometre"});
  CHECK(table.text() == "longer heading\n--------------\ninflight\nnanometre\n");
}

TEST_CASE("a table counts letters and not bytes") {
  CHECK(display_width("") == 0);
  CHECK(display_width("abc") == 3);
  CHECK(display_width("größer") == 6);
  CHECK(display_width("x → ∞") == 5);
  CHECK(display_width("▁▂▃") == 3);
  Table table({"Größe", "∑"});
  table.add({"größer", "1"});
  table.add({"x", "22"});
  CHECK(table.text() ==
        "Größe    ∑\n"
        "------  --\n"
        "größer   1\n"
        "x       22\n");
}

TEST_CASE("a table with no rows is its headings") {
  CHECK(Table({"a", "bcd"}).text() == "a  bcd\n-  ---\n");
}

TEST_CASE("a row that does not fit its table is refused") {
  Table table({"a", "b"});
  const auto refusal = [&](const std::vector<std::string>& cells) {
    return message_of<std::invalid_argument>([&] { table.add(cells); });
  };
  CHECK(refusal({"1"}) == "a row of 1 cells does not fit a table of 2 columns");
  CHECK(refusal({"1", "2", "3"}) != "");
  CHECK(refusal({"1", "2"}) == "");
}

TEST_CASE("progress says nothing for two seconds and then how far it is") {
  const Outcome outcome = run_in_child([] {
    const auto start = Clock::now();
    Progress progress("waiting", 1000);
    const auto step_until = [&](std::chrono::milliseconds end) {
      while (Clock::now() < start + end) {
        progress.step();
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    };
    step_until(std::chrono::milliseconds(1500));
    std::fprintf(stderr, "so far nothing\n");
    step_until(std::chrono::milliseconds(2050));
    progress.step();
    return 0;
  });
  CHECK(outcome.output == "");
  INFO(outcome.error);
  CHECK(outcome.error.substr(0, 24) == "so far nothing\nwaiting: ");
  CHECK(contains(outcome.error, " s left\n"));
  // One line: not on a terminal, the next would come ten seconds later.
  CHECK(outcome.error.find('\n', 15) == outcome.error.size() - 1);
  CHECK(!contains(outcome.error, "\r"));
}

TEST_CASE("progress on quick work is silent") {
  const Outcome outcome = run_in_child([] {
    Progress progress("quick", 1000);
    for (int i = 0; i < 1000; ++i) progress.step();
    return 0;
  });
  CHECK(outcome.status == 0);
  CHECK(outcome.output + outcome.error == "");
}

TEST_CASE("progress tells the share done and the time left") {
  const auto start = Clock::now();
  const Outcome outcome = run_in_child([] {
    Progress progress("counted", 11, std::chrono::milliseconds(0));
    work(progress, 1, std::chrono::milliseconds(300));
    return 0;
  });
  const double elapsed = std::chrono::duration<double>(Clock::now() - start).count();
  const std::string before = "counted: 9 %, about ";
  REQUIRE(outcome.error.substr(0, before.size()) == before);
  const double left = std::stod(outcome.error.substr(before.size()));
  CHECK(left >= 3);  // ten more of at least 0.3 s each
  CHECK(left <= 10 * elapsed + 0.5);
}

TEST_CASE("progress redraws its line on a terminal and clears it") {
  constexpr int kNoTerminal = 98;
  const Outcome outcome = run_in_child([] {
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) return kNoTerminal;
    const int other_end = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    if (other_end < 0 || dup2(other_end, STDERR_FILENO) < 0) return kNoTerminal;
    {
      Progress progress("drawn", 2, std::chrono::milliseconds(0));
      work(progress, 1, std::chrono::milliseconds(1));
      work(progress, 1, std::chrono::milliseconds(201));
    }
    // With its other end closed, reading the terminal comes to an end.
    close(STDERR_FILENO);
    close(other_end);
    char text[200];
    for (ssize_t size; (size = read(terminal, text, sizeof text)) > 0;)
      std::printf("%.*s", static_cast<int>(size), text);
    return 0;
  });
  if (outcome.status == kNoTerminal) {
    std::puts("skipped: this machine has no pseudo-terminals");
    std::exit(77);
  }
  CHECK(outcome.status == 0);
  CHECK(outcome.output ==
        "\rdrawn: 50 %, about 0 s left\033[K"
        "\rdrawn: 100 %, about 0 s left\033[K"
        "\r\033[K");
}

TEST_CASE("progress adds a note") {
  const Outcome outcome = run_in_child([] {
    Progress progress("noted", 1, std::chrono::milliseconds(0));
    progress.step("loss 2.5");
    return 0;
  });
  CHECK(outcome.error == "noted: 100 %, about 0 s left, loss 2.5\n");
}

TEST_CASE("a command runs in place of the walk, with its options") {
  const Outcome plain = run_program({"paint"});
  CHECK(plain.status == 0);
  CHECK(plain.output.substr(0, 6) == "3 red\n");
  CHECK(!contains(plain.output, "Zahlen"));
  const Outcome chosen = run_program({"paint", "--colour", "blue", "--twice", "--count", "4"});
  CHECK(chosen.output.substr(0, 14) == "4 blue, twice\n");
  const Outcome failed = run_program({"paint", "--count", "6"});
  CHECK(failed.status == 1);
  const Outcome ended = run_program({"paint", "--count", "5"});
  CHECK(ended.status == 130);
  CHECK(ended.error == "09_example: interrupted after 5\n");
  check_refused(run_program({"--section", "numbers", "paint"}),
                "--section numbers: paint is a command, which has no "
                "sections");
  CHECK(run_program({"paint", "--colour", "green"}).status == 2);
  CHECK(run_program({"--colour", "blue"}).status == 2);
  const Outcome help = run_program({"paint", "--help"});
  CHECK(help.status == 0);
  CHECK(contains(help.output, "--colour"));
  CHECK(contains(help.output, "130"));
  CHECK(contains(run_program({"--help"}).output, "Paints something."));
}

TEST_CASE("progress may be made by several threads") {
  const Outcome outcome = run_in_child([] {
    Progress progress("together", 400, std::chrono::milliseconds(0));
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] { work(progress, 100, std::chrono::milliseconds(0)); });
    }
    for (std::thread& thread : threads) thread.join();
    return 0;
  });
  CHECK(outcome.status == 0);
  CHECK(outcome.error.substr(0, 10) == "together: ");
  CHECK(outcome.error.find('\n') == outcome.error.size() - 1);
}

TEST_CASE("the lines of a text file come without their ends") {
  const TemporaryDirectory directory;
  const fs::path path = directory.path() / "lines.txt";
  write_file(path, "one\n\ntwo words\nwindows\r\nlast");
  CHECK(read_lines(path) == std::vector<std::string>{"one", "", "two words", "windows", "last"});
  write_file(path, "");
  CHECK(read_lines(path).empty());
  for (const fs::path& unreadable : {directory.path() / "missing.txt", directory.path()}) {
    CHECK(message_of<std::invalid_argument>([&] { read_lines(unreadable); }) ==
          unreadable.string() + ": cannot be read");
  }
}

TEST_CASE("good input is read with its tokens") {
  const TemporaryDirectory directory;
  write_good_input(directory.path());
  const Input input = read_input(directory.path());
  CHECK(input.directory == directory.path());
  CHECK(input.q.shape() == Shape<4>{1, 2, 5, 4});
  CHECK(input.k.shape() == Shape<4>{1, 2, 3, 4});
  CHECK(input.v.shape() == Shape<4>{1, 2, 3, 4});
  const auto q = normal_tensor<float, 4>({1, 2, 5, 4}, 1);
  const auto v = normal_tensor<float, 4>({1, 2, 3, 4}, 3);
  CHECK(input.q(0, 1, 4, 3) == q(0, 1, 4, 3));
  CHECK(input.v(0, 1, 2, 3) == v(0, 1, 2, 3));
  CHECK(input.tokens == std::vector<std::string>{"[CLS]", "Alice", "[SEP]"});
  fs::remove(directory.path() / "tokens.txt");
  CHECK(read_input(directory.path()).tokens.empty());
}

TEST_CASE("control characters of tokens are shown, not obeyed") {
  const TemporaryDirectory directory;
  write_good_input(directory.path());
  write_file(directory.path() / "tokens.txt", "\x1b[31mred\nno\tUTF-8 \xff\r\ngrößer\n");
  CHECK(read_input(directory.path()).tokens ==
        std::vector<std::string>{"\\x1b[31mred", "no\\x09UTF-8 \\xff", "größer"});
}

TEST_CASE("input of other types is rounded to float32") {
  const TemporaryDirectory directory;
  write_good_input(directory.path());
  const auto wide = normal_tensor<double, 4>({1, 2, 5, 4}, 1);
  const auto narrow = normal_tensor<half, 4>({1, 2, 3, 4}, 2);
  write_npy(directory.path() / "q.npy", wide);
  write_npy(directory.path() / "k.npy", narrow);
  const Input input = read_input(directory.path());
  CHECK(input.q(0, 0, 1, 2) == static_cast<float>(wide(0, 0, 1, 2)));
  CHECK(input.k(0, 0, 1, 2) == static_cast<float>(narrow(0, 0, 1, 2)));
}

TEST_CASE("input that is missing is named") {
  const TemporaryDirectory directory;
  const std::string name = directory.path().string();
  CHECK(input_refusal(directory.path() / "nowhere") == name + "/nowhere: is not a directory");
  CHECK(input_refusal(directory.path()) == name + "/q.npy: there is no such file");
  write_good_input(directory.path());
  CHECK(input_refusal(directory.path()) == "");
  CHECK(input_refusal(directory.path() / "q.npy") == name + "/q.npy: is not a directory");
  for (const char* file : {"q.npy", "k.npy", "v.npy"}) {
    write_good_input(directory.path());
    fs::remove(directory.path() / file);
    CHECK(input_refusal(directory.path()) == name + "/" + file + ": there is no such file");
  }
}

TEST_CASE("input that is not finite is refused with its place") {
  const TemporaryDirectory directory;
  const auto refusal = [&](auto bad, const std::string& file) {
    write_good_input(directory.path());
    auto tensor = normal_tensor<decltype(bad), 4>({1, 2, 3, 4}, 4);
    tensor(0, 1, 2, 3) = bad;
    write_npy(directory.path() / file, tensor);
    const std::string message = input_refusal(directory.path());
    const std::string start = (directory.path() / file).string() + ": element [0, 1, 2, 3] is ";
    REQUIRE(message.substr(0, start.size()) == start);
    return message.substr(start.size());
  };
  const float infinity = std::numeric_limits<float>::infinity();
  const std::string rest = "; every element must be a finite float32";
  CHECK(refusal(std::numeric_limits<float>::quiet_NaN(), "q.npy") == "nan" + rest);
  CHECK(refusal(infinity, "k.npy") == "inf" + rest);
  CHECK(refusal(-infinity, "v.npy") == "-inf" + rest);
  CHECK(refusal(1e300, "v.npy") == "inf" + rest);  // too large for float32
}

TEST_CASE("input of the wrong shape is refused") {
  const TemporaryDirectory directory;
  const std::string name = directory.path().string();
  write_good_input(directory.path());
  write_npy(directory.path() / "k.npy", normal_tensor<float, 3>({2, 3, 4}, 2));
  CHECK(input_refusal(directory.path()) ==
        name +
            "/k.npy: has shape [2, 3, 4], which is 3 dimensions; 4 are "
            "needed");
  write_npy(directory.path() / "k.npy", Tensor<float, 4>({1, 2, 0, 4}));
  CHECK(input_refusal(directory.path()) ==
        name + "/k.npy: has shape [1, 2, 0, 4]; every size must be at least 1");
  write_good_input(directory.path());
  write_file(directory.path() / "q.npy", "no array");
  CHECK(contains(input_refusal(directory.path()), "/q.npy: is not a .npy file"));
  write_good_input(directory.path());
  write_file(directory.path() / "tokens.txt", "[CLS]\n[SEP]\n");
  CHECK(input_refusal(directory.path()) ==
        name + "/tokens.txt: has 2 tokens, but k.npy has 3 keys");
}

TEST_CASE("the shipped input is every head of one layer and its tokens") {
  const Input input = read_input(shipped_input());
  const std::int64_t length = input.q.size(2);
  CHECK(length >= 100);
  CHECK(length <= 256);
  CHECK(input.q.shape() == Shape<4>{1, 12, length, 32});
  CHECK(input.k.shape() == input.q.shape());
  CHECK(input.v.shape() == input.q.shape());
  REQUIRE(static_cast<std::int64_t>(input.tokens.size()) == length);
  CHECK(input.tokens.front() == "[CLS]");
  CHECK(input.tokens.back() == "[SEP]");
  // Without --input, this is what a program reads.
  const Outcome outcome = run_section("input");
  CHECK(outcome.output == to_string(input.q.shape()) + " " + std::to_string(length) + "\nonce\n");
}

TEST_CASE("a section alone prints only what it says itself") {
  const Outcome outcome = run_section("numbers");
  CHECK(outcome.status == 0);
  CHECK(outcome.output == "1 2\n");
  CHECK(outcome.error == "");
  CHECK(run_section("numbers", {"--twice"}).output == "1 2 1 2\n");
}

TEST_CASE("a full run prints all sections in order under their titles") {
  const Outcome outcome = run_program({});
  // It ends at the section that throws.
  CHECK(outcome.status == 2);
  const std::string start = "\nZahlen größer als null\n======================\n1 2\n\nA check";
  CHECK(outcome.output.substr(0, start.size()) == start);
  std::size_t at = 0;
  for (const char* title : {"Zahlen größer als null", "A check that passes", "A check that fails",
                            "A check of NaN", "The verdict on a tensor", "The input"}) {
    const std::size_t found = outcome.output.find(title);
    REQUIRE(found != std::string::npos);
    CHECK(found > at);
    at = found;
  }
}

TEST_CASE("a section apart is no part of the walk") {
  CHECK_FALSE(contains(run_program({}).output, "For other programs"));
  const Outcome outcome = run_section("apart");
  CHECK(outcome.status == 0);
  CHECK(outcome.output == "{}\n");
  CHECK(contains(run_program({"--help"}).output, "For other programs (only when named)\n"));
}

TEST_CASE("help is printed in full and is a success") {
  const Outcome outcome = run_program({"--help"});
  CHECK(outcome.status == 0);
  CHECK(outcome.error == "");
  for (const char* part :
       {"Shows nothing.", "--device", "--input", "--save", "--summary", "--section", "--twice",
        "an option of the lesson", "  numbers       Zahlen größer als null\n",
        "  length        More memory than there can be\n", "Exit status: 0"}) {
    CHECK_MESSAGE(contains(outcome.output, part), part);
  }
}

TEST_CASE("what is not understood is refused with status 2") {
  const auto refused = [](const std::vector<std::string>& arguments, const std::string& value) {
    const Outcome outcome = run_program(arguments);
    INFO(outcome.error);
    CHECK(outcome.status == 2);
    CHECK(outcome.output == "");
    CHECK(outcome.error.substr(0, 12) == "09_example: ");
    CHECK(contains(outcome.error, value));
    CHECK(contains(outcome.error, " (see --help)\n"));
    CHECK(outcome.error.find('\n') == outcome.error.size() - 1);
  };
  refused({"--colour"}, "--colour");
  refused({"numbers"}, "numbers");
  refused({"--section"}, "--section");
  refused({"--device", "tpu"}, "tpu");
  refused({"--device", "tpu"}, "gpu");  // one that is allowed
}

TEST_CASE("an unknown section is refused with the known ones") {
  check_refused(run_section("sums"),
                "--section sums: there is no such section; allowed are numbers, "
                "apart, good, bad, nan, findings, tensor, input, save, throw, "
                "controls, lines, long, "
                "memory, length");
}

TEST_CASE("a GPU is refused where there is nothing to run on it") {
  check_refused(run_section("numbers", {"--device", "gpu"}),
                "--device gpu: this lesson has no GPU kernels; allowed are "
                "auto and cpu");
  CHECK(run_section("numbers", {"--device", "cpu"}).status == 0);
  CHECK(run_section("numbers", {"--device", "auto"}).status == 0);
}

TEST_CASE("--device gpu where there is no GPU, or no code for one") {
  const auto run_on = [](std::optional<bool> gpu, const char* device) {
    return run_in_child([=] {
      Program program("09_example", "Has kernels.");
      program.has_kernels(gpu);
      program.section("where", "Where they run",
                      [&] { std::puts(program.on_gpu() ? "on the GPU" : "in the lab"); });
      const char* arguments[] = {"09_example", "--section", "where", "--device", device};
      return program.run(5, const_cast<char**>(arguments));
    });
  };
  check_refused(run_on(false, "gpu"),
                "--device gpu: there is no NVIDIA GPU here that this build "
                "can use; allowed are auto and cpu");
  check_refused(run_on(std::nullopt, "gpu"),
                "--device gpu: this build has no code for GPUs; that needs "
                "nvcc and the CMake option -DFA_GPU=REQUIRED; allowed are "
                "auto and cpu");
  CHECK(run_on(true, "gpu").output == "on the GPU\n");
  CHECK(run_on(true, "auto").output == "on the GPU\n");
  CHECK(run_on(true, "cpu").output == "in the lab\n");
  CHECK(run_on(false, "auto").output == "in the lab\n");
  CHECK(run_on(std::nullopt, "auto").output == "in the lab\n");
}

TEST_CASE("a check that fails gives status 1") {
  const Outcome good = run_section("good");
  CHECK(good.status == 0);
  CHECK(good.output ==
        "PASS  theorem                                    0.500  (limit "
        "0.500)\n");
  const Outcome bad = run_section("bad");
  CHECK(bad.status == 1);
  CHECK(bad.output ==
        "FAIL  claim                                      0.750  (limit "
        "0.500)\n");
  CHECK(bad.error == "");
  CHECK(run_section("nan").status == 1);
  const Outcome tensor = run_section("tensor");
  CHECK(tensor.status == 1);
  CHECK(contains(tensor.output, "PASS  o  "));
  CHECK(contains(tensor.output, "FAIL  d_q  "));
}

TEST_CASE("a count that must be 0") {
  const TemporaryDirectory directory;
  const std::string summary = (directory.path() / "summary").string();
  const Outcome outcome = run_section("findings", {"--summary", summary});
  CHECK(outcome.status == 1);
  CHECK(outcome.output ==
        "PASS  kernel: no findings\n"
        "FAIL  kernel: 1 finding\n"
        "FAIL  kernel: 3 findings\n");
  CHECK(file_bytes(summary) ==
        "PASS\t09_example\tkernel: findings\t0\t0\n"
        "FAIL\t09_example\tkernel: findings\t1\t0\n"
        "FAIL\t09_example\tkernel: findings\t3\t0\n");
}

TEST_CASE("errors give status 2 and one sentence") {
  check_refused(run_section("throw"), "the reason");
  check_refused(run_section("controls"), "\\x1b[2J two\\x0alines, größer");
  check_refused(run_section("lines"), "deadlock:\n  1 waits\n  2 \\x1b ends");
  check_refused(run_section("memory"), "out of memory");
  check_refused(run_section("length"), "out of memory");
}

TEST_CASE("output that cannot be written gives status 2") {
  const Outcome outcome = run_in_child([] {
    if (std::freopen("/dev/full", "w", stdout) == nullptr) return 98;
    Program program("09_example", "Shows nothing.");
    program.section("numbers", "Numbers", [] { std::printf("1 2\n"); });
    char name[] = "09_example";
    char* argv[] = {name};
    return program.run(1, argv);
  });
  CHECK(outcome.status == 2);
  CHECK(outcome.error == "09_example: standard output: cannot be written\n");
}

TEST_CASE("every check adds a line to the summary") {
  const TemporaryDirectory directory;
  const std::string summary = (directory.path() / "summary").string();
  run_section("numbers", {"--summary", summary});
  CHECK(!fs::exists(summary));  // no check, no line
  CHECK(run_section("good", {"--summary", summary}).status == 0);
  CHECK(run_section("bad", {"--summary", summary}).status == 1);
  CHECK(run_section("nan", {"--summary", summary}).status == 1);
  CHECK(file_bytes(summary) ==
        "PASS\t09_example\ttheorem\t5.00e-01\t5.00e-01\n"
        "FAIL\t09_example\tclaim\t7.50e-01\t5.00e-01\n"
        "FAIL\t09_example\tnothing\tnan\t1.00e+00\n");
}

TEST_CASE("a verdict's line in the summary shows the bound that broke") {
  const TemporaryDirectory directory;
  const std::string summary = (directory.path() / "summary").string();
  CHECK(run_section("tensor", {"--summary", summary}).status == 1);
  CHECK(file_bytes(summary) ==
        "PASS\t09_example\to\t2.50e-01\t5.00e-01\n"
        "FAIL\t09_example\td_q\t2.00e+00\t7.50e-01\n"
        "FAIL\t09_example\td_k (rms)\t1.25e-01\t0.00e+00\n"
        "FAIL\t09_example\td_v\tnan\t7.50e-01\n");
}

TEST_CASE("a summary that cannot be written gives status 2 before any work") {
  const TemporaryDirectory directory;
  const std::string folder = directory.path().string(), missing = folder + "/missing/summary";
  const auto refused = [](const std::string& summary, const std::string& why) {
    check_refused(run_section("good", {"--summary", summary}),
                  "--summary " + summary + ": cannot be written: " + why);
  };
  refused(folder, "it is a folder");
  refused(missing, "there is no folder " + folder + "/missing");
  CHECK(fs::is_empty(directory.path()));
}

TEST_CASE("a summary that cannot be continued, on a full disk for example, gives status 2") {
  const TemporaryDirectory directory;
  const fs::path summary = directory.path() / "summary";
  const Outcome outcome = run_in_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{40, 40};  // a line has more
    setrlimit(RLIMIT_FSIZE, &limit);
    const Outcome inner = run_section("long", {"--summary", summary.string()});
    std::printf("%d\n", inner.status);
    return 0;
  });
  // The child's own files are limited too.
  CHECK(outcome.output == "2\n");
}

TEST_CASE("files to write are checked before any work, and not touched") {
  const TemporaryDirectory directory;
  const fs::path file = directory.path() / "picture";
  const std::string missing = (directory.path() / "no" / "file").string();
  for (const std::string option : {"--picture", "--drawing"}) {
    std::vector<std::string> arguments{"--section", "good"};
    if (option == "--drawing") arguments = {"paint"};
    const auto with = [&](const std::string& name) {
      auto all = arguments;
      all.insert(all.end(), {option, name});
      return run_program(all);
    };
    check_refused(with(missing), option + " " + missing +
                                     ": cannot be written: there is no "
                                     "folder " +
                                     directory.path().string() + "/no");
    fs::remove(file);
    CHECK(contains(with(file.string()).output, "theorem") == (option == "--picture"));
    CHECK(!fs::exists(file));
    write_file(file, "old");
    CHECK(with(file.string()).error == "");
    CHECK(file_bytes(file) == "old");
    CHECK(with("-").error == "");
  }
  const fs::directory_iterator entries(directory.path());
  CHECK(std::distance(begin(entries), end(entries)) == 1);
}

TEST_CASE("several programs share one folder and one summary") {
  const TemporaryDirectory directory;
  const std::string save = (directory.path() / "save").string(),
                    summary = (directory.path() / "summary").string();
  std::vector<pid_t> programs;
  for (int i = 0; i < 4; ++i) {
    programs.push_back(fork());
    if (programs.back() != 0) continue;
    const Outcome outcome = run_section("save", {"--save", save, "--summary", summary});
    std::fputs(outcome.error.c_str(), stderr);
    _exit(outcome.status);
  }
  for (const pid_t program : programs) {
    int status = 1;
    CHECK(waitpid(program, &status, 0) == program);
    CHECK(status == 0);
  }
  const fs::directory_iterator entries(save);
  CHECK(std::distance(begin(entries), end(entries)) == 1);
}

TEST_CASE("the input option is read once and its faults give status 2") {
  const TemporaryDirectory directory;
  write_good_input(directory.path());
  const std::string name = directory.path().string();
  CHECK(run_section("input", {"--input", name}).output == "[1, 2, 5, 4] 3\nonce\n");
  check_refused(run_section("input", {"--input", name + "/nowhere"}),
                name + "/nowhere: is not a directory");
}

TEST_CASE("the save option makes its directory") {
  const TemporaryDirectory directory;
  CHECK(run_section("save").output == "nowhere\n");
  const std::string deep = (directory.path() / "a" / "b").string();
  CHECK(run_section("save", {"--save", deep}).output == deep + "\n");
  CHECK(fs::is_directory(deep));
  CHECK(run_section("save", {"--save", deep}).status == 0);
  const std::string file = (directory.path() / "file").string();
  write_file(file, "in the way");
  for (const std::string& place : {file, file + "/below"}) {
    check_refused(run_section("save", {"--save", place}),
                  "--save " + place + ": is not a directory and cannot be created");
  }
  // Not even the superuser can create a file there.
  if (!fs::is_directory("/proc/self")) return;
  const Outcome outcome = run_section("save", {"--save", "/proc/self"});
  CHECK(outcome.status == 2);
  CHECK(contains(outcome.error, "--save /proc/self: cannot be written: no file can be made"));
}

TEST_CASE("a refusal is one line on standard error and status 2, nothing else") {
  using testing::refusal;
  CHECK(refusal("echo no >&2; exit 2") == "no\n");
  CHECK(refusal("echo no >&2; exit 1") == "(exit status 1, 1 lines on standard error)");
  CHECK(refusal("echo no >&2; echo no >&2; exit 2") ==
        "(exit status 2, 2 lines on standard error)");
  CHECK(refusal("true") == "(exit status 0, 0 lines on standard error)");
}

TEST_CASE("measurements are shown as a table and recorded as JSON") {
  cli::Measurement fast{
      {"kernel", std::string("01 \"fast\"")}, {"milliseconds", 0.1234}, {"tflops", 12.345}};
  cli::add_resources(fast, {128, 49152, 16, 2, 0.25, 384, 3});
  const std::vector<cli::Measurement> rows{
      fast, {{"kernel", std::string("02")}, {"milliseconds", 1.0}, {"tflops", 1.5}}};
  const std::string table = cli::table_of(rows, {"kernel"});
  CAPTURE(table);
  CHECK(contains(table,
                 "kernel        ms  TFLOP/s  registers  shared, B  spilled, B  "
                 "blocks/SM  % of warps\n"));
  CHECK(contains(table,
                 "01 \"fast\"  0.123    12.35        128      49152          "
                 "16          2          25\n"));
  CHECK(contains(table,
                 "02         1.000     1.50          -          -           "
                 "-          -           -\n"));
  CHECK(contains(
      cli::table_of(
          {{{"kernel", std::string("03")}, {"length", std::int64_t{1024}}, {"milliseconds", 2.0}}},
          {"kernel"}),
      "kernel     N     ms\n"));
  const testing::TemporaryDirectory directory;
  const auto file = directory.path() / "record.json";
  DeviceProperties device;
  device.name = "A GPU";
  device.toolkit = "1.2";
  cli::write_results(file, device, "prog --size 3", rows);
  const std::string text = testing::file_bytes(file);
  for (const char* part :
       {"\"gpu\": \"A GPU\"", "\"driver\": \"", "\"toolkit\": \"1.2\"", "\"commit\": \"",
        "\"date\": \"20", "\"command\": \"prog --size 3\"",
        "{\"kernel\": \"01 \\\"fast\\\"\", \"milliseconds\": 0.1234, ",
        "\"registers\": 128, \"shared_bytes\": 49152", "\"threads\": 384, \"stages\": 3"}) {
    CAPTURE(text);
    CHECK(contains(text, part));
  }
  CHECK_THROWS_AS(cli::write_results(directory.path() / "no" / "file", device, "prog", rows),
                  std::runtime_error);
}

TEST_CASE("what warps ask for is told by warpgroups, in their order") {
  CHECK(cli::asked_text({}) == "");
  CHECK(cli::asked_text({24, 24, 24, 24}) == "24");
  CHECK(cli::asked_text({240, 240, 240, 240, 240, 240, 240, 240, 24, 24, 24, 24}) == "2 x 240, 24");
  CHECK(cli::asked_text({0, 0, 0, 0, 40, 40, 40, 40}) == "-, 40");
}

TEST_CASE("a row for each kernel of a rung: lines once, unknowns left out") {
  cli::LaunchedRung lab{"02_two, padded", {}};
  lab.takes.resize(2);
  lab.takes[0].threads = 256;
  lab.takes[1].threads = 96;
  lab.takes[1].shared_bytes = 1000;
  lab.takes[1].stages = 3;
  lab.in_lab = lab.takes;
  lab.in_lab[1].asked_registers = {40, 40, 40, 40};
  const cli::KernelLines lines{{"02_two", 7}, {"02_tw", 8}, {"03", 9}};
  std::string table = cli::kernel_table(cli::kernel_rows({lab}, lines));
  CAPTURE(table);
  CHECK(contains(table,
                 "kernel             lines  threads  shared, B  stages  "
                 "setmaxnreg  registers  spilled, B  blocks/SM\n"));
  CHECK(contains(table,
                 "02_two, padded         7      256          -       -  "
                 "         -          -           -          -\n"));
  CHECK(contains(table,
                 "02_two, padded, 2      -       96       1000       3  "
                 "        40          -           -          -\n"));
  // A GPU knows zeros; setmaxnreg comes from the lab, if that launched the same kernels.
  cli::LaunchedRung gpu{"99_new", {{64, 0, 0, 8, 0.5, 128, 0}}};
  gpu.in_lab.resize(1);
  gpu.in_lab[0].asked_registers = {24, 24, 24, 24};
  table = cli::kernel_table(cli::kernel_rows({gpu}, lines));
  CAPTURE(table);
  CHECK(contains(table,
                 "99_new      -      128          0       -          24  "
                 "       64           0          8\n"));
  gpu.in_lab.resize(2);
  CHECK_FALSE(contains(cli::kernel_table(cli::kernel_rows({gpu}, lines)), "24"));
}

TEST_CASE("what kernels take of a GPU is recorded, group by group") {
  const testing::TemporaryDirectory directory;
  const auto file = directory.path() / "kernels.json";
  KernelOptions options;
  options.results = file.string();
  options.kernel = "one";
  BackendBase gpu;
  gpu.kind = "gpu";
  gpu.properties.name = "A GPU";
  cli::show_kernel_tables(options, gpu, "04_x", {{"01_one", 5}},
                          {{"empty", {}}, {"D 64", {{"01_one", {{64, 7, 0, 8, 0.5, 128, 2}}}}}});
  const std::string text = testing::file_bytes(file);
  CAPTURE(text);
  CHECK(contains(text,
                 "\"command\": \"04_x --device gpu --section kernels "
                 "--kernel one\""));
  CHECK(contains(text,
                 "\"measurements\": [\n    {\"group\": \"D 64\", "
                 "\"title\": \"D 64\", \"kernel\": \"01_one\", "
                 "\"lines\": 5, \"threads\": 128, \"shared_bytes\": 7, "
                 "\"stages\": 2, \"registers\": 64, "));
}

TEST_CASE("what kernels take of the lab is no record") {
  KernelOptions options;
  options.results = "file";
  BackendBase lab;
  lab.kind = "lab";
  CHECK_THROWS_WITH_AS(cli::show_kernel_tables(options, lab, "04_x", {}, {}),
                       "--results records the resources of kernels on a GPU, and none is used",
                       std::invalid_argument);
}

TEST_CASE("peaks are known for the compute capabilities of the course") {
  DeviceProperties device;
  device.compute_capability = 90;
  device.sm_count = 132;
  device.clock_hz = 1.83e9;
  // NVIDIA's data sheet of the H100 SXM: 67 and 989 TFLOP/s.
  CHECK(*peak_flops(device, Arithmetic::kTensorCores16) / 1e12 ==
        doctest::Approx(989).epsilon(0.01));
  device.clock_hz = 1.98e9;
  CHECK(*peak_flops(device, Arithmetic::kFloat32) / 1e12 == doctest::Approx(67).epsilon(0.01));
  device.compute_capability = 0;
  CHECK_FALSE(peak_flops(device, Arithmetic::kFloat32).has_value());
}

TEST_CASE("a part of a name chooses kernels; one that chooses none is refused") {
  KernelOptions options;
  CHECK(options.wants("01_first"));
  CHECK(options.size_or(70) == 70);
  options.kernel = "sec";
  options.size = 3;
  CHECK(options.wants("02_second"));
  CHECK_FALSE(options.wants("01_first"));
  CHECK(options.size_or(70) == 3);
  CHECK_NOTHROW(check_kernel(options, {"01_first", "02_second"}, "04_x"));
  CHECK_THROWS_WITH_AS(check_kernel(options, {"01_first"}, "04_x"),
                       "--kernel sec: there is no such kernel; allowed is "
                       "any part of the name "
                       "of a file in 04_x/kernels",
                       std::invalid_argument);
}

TEST_CASE("sections use the lab where there is no GPU, and times are none") {
  Program program("04_x", "A lesson.");
  const KernelBackends<BackendBase> backends(
      program, {{"lab", true, {}, {}, {}}, {"watched", true, {}, {}, {}}});
  CHECK(backends.used().kind == "lab");
  CHECK(backends.observed().kind == "watched");
  std::string seen;
  backends.watching([&](const BackendBase& on) { seen = on.kind; })();
  CHECK(seen == "watched");
  KernelOptions options;
  CHECK_FALSE(can_time(program, options));
  options.results = "file.json";
  CHECK_THROWS_WITH_AS(can_time(program, options),
                       "--results records times on a GPU, and none is used", std::invalid_argument);
}
