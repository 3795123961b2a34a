// The program of the lesson, run as a reader runs it.
#include <filesystem>

#include <doctest/doctest.h>

#include "04_tiled_matmul/src/backend.hpp"
#include "common/testing/process.hpp"
#include "common/testing/sections.hpp"

using namespace fa;
using testing::contains;
using testing::is_traced;
using testing::python_says;
using testing::run;
using testing::traced;

namespace {
const std::string kProgram = FA_PROGRAM;
}

TEST_CASE("kernels are timed on a GPU only, when asked") {
  const auto result = run(kProgram + " --device cpu --section time");
  CHECK(result.status == 0);
  CHECK(result.output == "No GPU is used, so no kernel is timed.\n");
}

TEST_CASE("the whole walk is right, on the CPU") {
  const testing::TemporaryDirectory directory;
  const auto summary = directory.path() / "summary.tsv";
  const auto result =
      run(kProgram + " --device cpu --size 40 --summary '" + summary.string() + "'");
  CAPTURE(result.output);
  CHECK(result.status == 0);
  CHECK(result.error == "");
  CHECK_FALSE(contains(result.output, "FAIL"));
  CHECK_FALSE(contains(result.output, "timed"));  // only with --verbose
  const std::string lines = testing::file_bytes(summary);
  CHECK(contains(lines, "04_tiled_matmul\t01_vector_add"));
  CHECK(contains(lines, "18_back_to_back_matmul"));
  CHECK(contains(lines, "22_matmul_cluster"));
}

TEST_CASE("a kernel is launched once, for programs that watch") {
  testing::check_once(kProgram, "07_matmul_naive", {"matmul", "matmul_bt"}, 40);
}

TEST_CASE("the order of operations of a Hopper kernel is printed") {
  testing::check_operations(kProgram, "21_matmul_persistent", "C of 128 x 512, depth 512",
                            {"block 1 of 1", "warp 8 (producer)", "    wait     room for A, B"},
                            "17");
  // A timeline is of one SM, a cluster of two.
  const auto of_cluster = run(kProgram + " --device cpu --section timeline --kernel 22_matmul");
  CHECK(contains(of_cluster.output, "22_matmul has none"));
}

TEST_CASE("the program refuses what it cannot use: one sentence, exit 2") {
  testing::check_refused(kProgram,
                         {{"--size -1", "--size"},
                          {"--size many", "--size"},
                          {"--device tpu", "--device"},
                          {"--nonsense", "--nonsense"},
                          {"--section nowhere", "there is no such section"},
                          {"--device cpu --section timeline --kernel 99", "no such kernel"}});
}

TEST_CASE("trace writes a report for programs and draws the worst line") {
  testing::check_trace(kProgram, "--kernel 03_transpose_shared",
                       [](const auto&, const auto& json, const auto& svg) {
                         CHECK(python_says("[k[\"kernel\"] for k in json.load(open(file))] == "
                                           "[\"03_transpose_shared\", "
                                           "\"03_transpose_shared, padded\"]",
                                           json) == "True\n");
                         const std::string picture = testing::file_bytes(svg);
                         CHECK(contains(picture,
                                        "03_transpose_shared, Transpose of a matrix: 32 "
                                        "wavefronts where 1 would do"));
                         CHECK(contains(picture, "03_transpose_shared.cuh:"));
                       });
}

TEST_CASE("trace chooses sizes that reach every line, --size may not") {
  const auto all = traced(kProgram, "--kernel 20_matmul_stages");
  CAPTURE(all.output);
  CHECK(all.status == 0);
  if (!is_traced(all)) return;
  CHECK(contains(all.output, "Every line of the kernels was reached.\n"));
  CHECK(contains(all.output, ", all sizes 70\n"));
  const auto one = traced(kProgram, "--kernel 20_matmul_stages --size 16");
  CHECK(contains(one.output, "\nNever reached: 20_matmul_stages.cuh:"));
}

TEST_CASE("a kernel without shared memory has no banks to draw") {
  const testing::TemporaryDirectory directory;
  const auto svg = directory.path() / "banks.svg";
  const auto result = traced(kProgram, "--kernel 02_transpose_naive --svg " + testing::quoted(svg));
  CHECK(result.status == 0);
  if (!is_traced(result)) return;
  CHECK(contains(result.output, "No shared memory is used: there are no banks to draw."));
  CHECK_FALSE(std::filesystem::exists(svg));
}

TEST_CASE("a trace that cannot be written: one sentence, exit 2, no file") {
  if (!is_traced(traced(kProgram, "--kernel 02_transpose_naive"))) return;
  const testing::TemporaryDirectory directory;
  const auto file = directory.path() / "not_there" / "file";
  for (const std::string option : {"--json ", "--svg "}) {
    const std::string words = testing::refusal(kProgram +
                                               " --device cpu --section trace --kernel "
                                               "03_transpose_shared " +
                                               option + testing::quoted(file));
    CAPTURE(words);
    CHECK(contains(words, file.string()));
    CHECK(contains(words, "cannot be written"));
  }
  CHECK(std::filesystem::is_empty(directory.path()));
}
