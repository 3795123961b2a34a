// What the programs of all lessons have in common: sections, options, input, checks, exit status.
#include "common/cli/program.hpp"

#include <filesystem>
#include <fstream>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "common/cli/tests/good_input.hpp"
#include "common/data/files.hpp"
#include "common/tensor/npy.hpp"
#include "common/tensor/random.hpp"
#include "common/testing/process.hpp"

using namespace fa;
using namespace fa::cli;
using namespace fa::testing;
namespace fs = std::filesystem;

namespace {

int run_with(Program& program, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "09_example");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  return program.run(static_cast<int>(argv.size()), argv.data());
}

// Sections with one check each, or more.
void add_checks(Program& program) {
  program.section("good", "A check that passes", [&] { program.check("theorem", 0.5, 0.5); });
  program.section("bad", "A check that fails", [&] { program.check("claim", 0.75, 0.5); });
  program.section("nan", "A check of NaN",
                  [&] { program.check("nothing", std::numeric_limits<double>::quiet_NaN(), 1.0); });
  program.section_apart("findings", "Counts that must be 0", [&] {
    for (const int count : {0, 1, 3}) program.check_none("kernel", count, "finding");
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
    add_checks(program);
    program.section("input", "The input", [&] {
      const Input& input = program.input();
      std::printf("%s %zu\n", to_string(input.q.shape()).c_str(), input.tokens.size());
    });
    program.section("save", "Where results go", [&] {
      const auto& directory = program.save_directory();
      std::printf("%s\n", directory ? directory->c_str() : "nowhere");
    });
    program.section("throw", "An error", [] { throw std::runtime_error("the \x1b reason"); });
    program.section_apart("lines", "An error as the lab reports a deadlock",
                          [] { throw std::runtime_error("deadlock:\n  1 waits\n  2 \x1b ends"); });
    program.section("memory", "Too much memory", [] { throw std::bad_alloc(); });
    std::string picture = "-", colour = "red";
    std::int64_t count = 3;
    program.section_apart("paint", "Paints something",
                          [&] { std::printf("%d %s\n", static_cast<int>(count), colour.c_str()); });
    program.output("--picture", picture, "a file to write");
    program.option("--count", count, 1, 9, "how often");
    program.option("--colour", colour, {"red", "blue"}, "which");
    return run_with(program, std::move(arguments));
  });
}

Outcome run_section(const std::string& name, std::vector<std::string> arguments = {}) {
  arguments.insert(arguments.end(), {"--section", name});
  return run_program(arguments);
}

// One line on standard error with these parts, nothing on standard output, status 2.
void check_refused(const Outcome& outcome, const std::vector<std::string>& parts) {
  CAPTURE(outcome.error);
  CHECK(outcome.status == 2);
  CHECK(outcome.output == "");
  CHECK(outcome.error.rfind("09_example: ", 0) == 0);
  CHECK(outcome.error.find('\n') == outcome.error.size() - 1);
  for (const std::string& part : parts) CHECK_MESSAGE(contains(outcome.error, part), part);
}

std::string input_refusal(const fs::path& directory) {
  return message_of<std::invalid_argument>([&] { read_input(directory); });
}

}  // namespace

TEST_CASE("options have defaults, bounds and allowed words; others are refused by name") {
  CHECK(run_section("paint").output == "3 red\n");
  CHECK(run_section("paint", {"--colour", "blue", "--count", "4"}).output == "4 blue\n");
  check_refused(run_program({"--colour", "green"}), {"--colour", "green", "blue"});
  check_refused(run_program({"--count", "10"}), {"--count", "10"});
  check_refused(run_program({"--count", "many"}), {"--count", "many"});
  check_refused(run_program({"--hue"}), {"--hue"});
  check_refused(run_program({"numbers"}), {"numbers"});
  check_refused(run_program({"--device", "tpu"}), {"tpu", "gpu"});
  check_refused(run_section("sums"), {"sums", "numbers", "memory"});
  const Outcome help = run_program({"--help"});
  CHECK(help.status == 0);
  for (const char* part : {"--device", "--section", "--twice", "paint", "Zahlen größer als null"}) {
    CHECK_MESSAGE(contains(help.output, part), part);
  }
}

TEST_CASE("a section alone prints only what it says itself") {
  const Outcome outcome = run_section("numbers");
  CHECK(outcome.status == 0);
  CHECK(outcome.output == "1 2\n");
  CHECK(outcome.error == "");
  CHECK(run_section("numbers", {"--twice"}).output == "1 2 1 2\n");
  CHECK(run_section("apart").output == "{}\n");
}

TEST_CASE("a full run prints all sections but those apart, in order under their titles") {
  const Outcome outcome = run_program({});
  CHECK(outcome.status == 2);  // it ends at the section that throws
  std::size_t at = 0;
  for (const char* title : {"Zahlen größer als null\n======================\n1 2\n\nA check",
                            "A check that fails", "The verdict on a tensor", "The input"}) {
    const std::size_t found = outcome.output.find(title);
    REQUIRE(found != std::string::npos);
    CHECK(found > at);
    at = found;
  }
  CHECK_FALSE(contains(outcome.output, "For other programs"));
}

TEST_CASE("a section of checks takes one line, in which only failures are printed") {
  const auto run_checks = [](std::vector<std::string> arguments, double second) {
    return run_in_child([&] {
      Program program("09_example", "Shows nothing.");
      program.section("picture", "What to look at", [&] { program.detail("a picture\n"); });
      program.section_of_checks("laws", "The laws", [&] {
        program.detail("two laws\n");
        program.check("first", 0.25, 0.5);
        program.check("second", second, 0.5);
      });
      program.section_on_request("table", "A table", [&] { program.detail("1 2\n"); });
      return run_with(program, std::move(arguments));
    });
  };
  const Outcome brief = run_checks({}, 0.5);
  CHECK(brief.status == 0);
  CHECK(contains(brief.output, "a picture\n\nPASS  The laws  "));
  CHECK_FALSE(contains(brief.output, "two laws"));
  CHECK_FALSE(contains(brief.output, "A table"));
  const Outcome failed = run_checks({}, 0.75);
  CHECK(failed.status == 1);
  CHECK(contains(failed.output, "FAIL  second  "));
  CHECK_FALSE(contains(failed.output, "PASS  first"));
  CHECK(contains(failed.output, "FAIL  The laws  "));
  const Outcome full = run_checks({"--verbose"}, 0.5);
  for (const char* part : {"two laws\n", "PASS  first", "PASS  second", "1 2\n"}) {
    CHECK_MESSAGE(contains(full.output, part), part);
  }
  CHECK(contains(run_checks({"--section", "laws"}, 0.5).output, "two laws\nPASS  first"));
  CHECK(run_checks({"--section", "table"}, 0.5).output == "1 2\n");
}

TEST_CASE("a section of the program apart goes on as that program, with all arguments") {
  const TemporaryDirectory directory;
  const std::string name = (directory.path() / "09_example").string();
  const auto run_far = [&] {
    return run_in_child([&] {
      Program program("09_example", "Is long to compile.");
      program.sections_in_apart({"far", "farther"});
      const char* arguments[] = {name.c_str(), "--section", "far", "--device", "cpu", nullptr};
      return program.run(5, const_cast<char**>(arguments));
    });
  };
  check_refused(run_far(), {"far", "--target 09_example_apart"});
  std::ofstream(name + "_apart") << "#!/bin/sh\necho \"$@\"\nexit 1\n";
  fs::permissions(name + "_apart", fs::perms::owner_all);
  const Outcome outcome = run_far();
  CHECK(outcome.output == "--section far --device cpu\n");
  CHECK(outcome.status == 1);
}

TEST_CASE("--device gpu where there is no GPU, or no code for one") {
  const auto run_on = [](std::optional<bool> gpu, const char* device) {
    return run_in_child([=] {
      Program program("09_example", "Has kernels.");
      program.has_kernels(gpu);
      program.section("where", "Where they run",
                      [&] { std::puts(program.on_gpu() ? "on the GPU" : "in the lab"); });
      return run_with(program, {"--section", "where", "--device", device});
    });
  };
  check_refused(run_section("numbers", {"--device", "gpu"}), {"--device gpu", "auto", "cpu"});
  check_refused(run_on(false, "gpu"), {"--device gpu"});
  check_refused(run_on(std::nullopt, "gpu"), {"FA_GPU"});
  CHECK(run_on(true, "gpu").output == "on the GPU\n");
  CHECK(run_on(true, "auto").output == "on the GPU\n");
  CHECK(run_on(true, "cpu").output == "in the lab\n");
  CHECK(run_on(false, "auto").output == "in the lab\n");
  CHECK(run_on(std::nullopt, "auto").output == "in the lab\n");
}

TEST_CASE("a check that fails gives status 1, an error status 2 and one sentence") {
  CHECK(run_section("good").status == 0);
  const Outcome bad = run_section("bad");
  CHECK(bad.status == 1);
  CHECK(contains(bad.output, "FAIL  claim  "));
  CHECK(contains(bad.output, "0.750  (limit 0.500)\n"));
  CHECK(run_section("nan").status == 1);
  const Outcome tensor = run_section("tensor");
  CHECK(tensor.status == 1);
  CHECK(contains(tensor.output, "PASS  o  "));
  CHECK(contains(tensor.output, "FAIL  d_q  "));
  check_refused(run_section("throw"), {"the \\x1b reason"});
  CHECK(contains(run_section("lines").error, "deadlock:\n  1 waits\n  2 \\x1b ends"));
  check_refused(run_section("memory"), {"memory"});
  const Outcome full = run_in_child([] {
    if (std::freopen("/dev/full", "w", stdout) == nullptr) return 98;
    Program program("09_example", "Shows nothing.");
    program.section("numbers", "Numbers", [] { std::printf("1 2\n"); });
    return run_with(program, {});
  });
  CHECK(full.status == 2);
}

TEST_CASE("every check adds a line to the summary; that of a verdict shows the bound that broke") {
  const TemporaryDirectory directory;
  const std::string summary = (directory.path() / "summary").string();
  run_section("numbers", {"--summary", summary});
  CHECK(!fs::exists(summary));  // no check, no line
  for (const char* name : {"good", "bad", "nan", "findings", "tensor"}) {
    CHECK(run_section(name, {"--summary", summary}).status == (name[0] != 'g'));
  }
  CHECK(file_bytes(summary) ==
        "PASS\t09_example\ttheorem\t5.00e-01\t5.00e-01\n"
        "FAIL\t09_example\tclaim\t7.50e-01\t5.00e-01\n"
        "FAIL\t09_example\tnothing\tnan\t1.00e+00\n"
        "PASS\t09_example\tkernel: findings\t0\t0\n"
        "FAIL\t09_example\tkernel: findings\t1\t0\n"
        "FAIL\t09_example\tkernel: findings\t3\t0\n"
        "PASS\t09_example\to\t2.50e-01\t5.00e-01\n"
        "FAIL\t09_example\td_q\t2.00e+00\t7.50e-01\n"
        "FAIL\t09_example\td_k (rms)\t1.25e-01\t0.00e+00\n"
        "FAIL\t09_example\td_v\tnan\t7.50e-01\n");
}

TEST_CASE("output files are checked before any work, and not written") {
  const TemporaryDirectory directory;
  const fs::path file = directory.path() / "file";
  const std::string missing = (directory.path() / "no" / "file").string();
  for (const std::string option : {"--picture", "--summary"}) {
    check_refused(run_section("good", {option, missing}), {option, missing});
  }
  CHECK(run_section("good", {"--picture", "-"}).error == "");
  CHECK(run_section("good", {"--picture", file.string()}).error == "");
  CHECK(!fs::exists(file));
  write_file(file, "old");
  CHECK(run_section("good", {"--picture", file.string()}).error == "");
  CHECK(file_bytes(file) == "old");
  CHECK(run_section("save").output == "nowhere\n");
  const std::string deep = (directory.path() / "a" / "b").string();
  for (int i = 0; i < 2; ++i) CHECK(run_section("save", {"--save", deep}).output == deep + "\n");
  CHECK(fs::is_directory(deep));
  check_refused(run_section("save", {"--save", file.string()}), {"--save", file.string()});
}

TEST_CASE("the shipped input is every head of one layer and its tokens") {
  const Input input = read_input(shipped_input());
  const std::int64_t length = input.q.size(2);
  CHECK(input.q.shape() == Shape<4>{1, 12, length, 32});
  CHECK(input.k.shape() == input.q.shape());
  CHECK(input.v.shape() == input.q.shape());
  REQUIRE(static_cast<std::int64_t>(input.tokens.size()) == length);
  CHECK(input.tokens.front() == "[CLS]");
  CHECK(input.tokens.back() == "[SEP]");
  // Without --input, this is what a program reads.
  CHECK(run_section("input").output ==
        to_string(input.q.shape()) + " " + std::to_string(length) + "\n");
}

TEST_CASE("input is read with its tokens and rounded to float32") {
  const TemporaryDirectory directory;
  const std::string name = directory.path().string();
  write_good_input(directory.path());
  const auto wide = normal_tensor<double, 4>({1, 2, 5, 4}, 1);
  write_npy(directory.path() / "q.npy", wide);
  write_file(directory.path() / "tokens.txt", "\x1b[31mred\nUTF-8 \xff\r\ngrößer");
  const Input input = read_input(directory.path());
  CHECK(input.directory == directory.path());
  CHECK(input.q.shape() == Shape<4>{1, 2, 5, 4});
  CHECK(input.k.shape() == Shape<4>{1, 2, 3, 4});
  CHECK(input.q(0, 0, 1, 2) == static_cast<float>(wide(0, 0, 1, 2)));
  CHECK(input.v(0, 1, 2, 3) == normal_tensor<float, 4>({1, 2, 3, 4}, 3)(0, 1, 2, 3));
  CHECK(input.tokens == std::vector<std::string>{"\\x1b[31mred", "UTF-8 \\xff", "größer"});
  CHECK(run_section("input", {"--input", name}).output == "[1, 2, 5, 4] 3\n");
  check_refused(run_section("input", {"--input", name + "/nowhere"}), {name + "/nowhere"});
  fs::remove(directory.path() / "tokens.txt");
  CHECK(read_input(directory.path()).tokens.empty());
  fs::remove(directory.path() / "v.npy");
  CHECK(contains(input_refusal(directory.path()), name + "/v.npy"));
}

TEST_CASE("input that is not finite is refused with its place") {
  const TemporaryDirectory directory;
  const auto refused = [&](auto bad, const std::string& file, const std::string& value) {
    write_good_input(directory.path());
    auto tensor = normal_tensor<decltype(bad), 4>({1, 2, 3, 4}, 4);
    tensor(0, 1, 2, 3) = bad;
    write_npy(directory.path() / file, tensor);
    const std::string message = input_refusal(directory.path());
    CHECK(contains(message, (directory.path() / file).string()));
    CHECK(contains(message, "[0, 1, 2, 3] is " + value));
  };
  refused(std::numeric_limits<float>::quiet_NaN(), "q.npy", "nan");
  refused(-std::numeric_limits<float>::infinity(), "v.npy", "-inf");
  refused(1e300, "v.npy", "inf");  // too large for float32
}

TEST_CASE("input of the wrong shape is refused") {
  const TemporaryDirectory directory;
  const auto refused = [&](const char* file, const std::string& part) {
    const std::string message = input_refusal(directory.path());
    CHECK(contains(message, file));
    CHECK(contains(message, part));
    write_good_input(directory.path());
  };
  write_good_input(directory.path());
  write_npy(directory.path() / "k.npy", normal_tensor<float, 3>({2, 3, 4}, 2));
  refused("k.npy", "[2, 3, 4]");
  write_npy(directory.path() / "k.npy", Tensor<float, 4>({1, 2, 0, 4}));
  refused("k.npy", "[1, 2, 0, 4]");
  write_file(directory.path() / "tokens.txt", "[CLS]\n[SEP]\n");
  refused("tokens.txt", "2 tokens");
}
