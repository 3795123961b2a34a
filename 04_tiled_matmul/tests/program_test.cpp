// The program of the lesson, run as a reader runs it.
#include <filesystem>

#include <doctest/doctest.h>

#include "common/testing/process.hpp"
#include "common/testing/sections.hpp"

using namespace fa;
using namespace fa::testing;

TEST_CASE("the whole walk is right, on the CPU, where no kernel is timed") {
  const TemporaryDirectory directory;
  const auto summary = directory.path() / "summary.tsv";
  const auto result =
      run(kProgram + " --device cpu --size 40 --summary '" + summary.string() + "'");
  CAPTURE(result.output);
  CHECK(result.status == 0);
  CHECK(result.error == "");
  const std::string lines = file_bytes(summary);
  CHECK(contains(lines, "04_tiled_matmul\t01_vector_add"));
  CHECK(contains(lines, "22_matmul_cluster"));
  CHECK(run(kProgram + " --device cpu --section time").status == 0);
}

TEST_CASE("the order of operations of a Hopper kernel is printed") {
  check_operations("21_matmul_persistent", "C of 128 x 512, depth 512",
                   {"block 1 of 1", "warp 8 (producer)", "    wait     room for A, B"}, "17");
  // A timeline is of one SM, a cluster of two.
  const auto of_cluster = run(kProgram + " --device cpu --section timeline --kernel 22_matmul");
  CHECK(contains(of_cluster.output, "22_matmul has none"));
}

TEST_CASE("the program refuses what it cannot use with exit 2") {
  check_refused(kProgram, {{"--size -1", "--size"},
                           {"--size many", "--size"},
                           {"--device cpu --section timeline --kernel 99", "99"}});
}

TEST_CASE("trace writes a report for programs and draws the worst line") {
  check_trace("--kernel 03_transpose_shared", [](const auto&, const auto& json, const auto& svg) {
    CHECK(python_says("[k[\"kernel\"] for k in json.load(open(file))] == "
                      "[\"03_transpose_shared\", "
                      "\"03_transpose_shared, padded\"]",
                      json) == "True\n");
    const std::string picture = file_bytes(svg);
    CHECK(contains(picture, "32 wavefronts"));
    CHECK(contains(picture, "03_transpose_shared.cuh:"));
  });
}

TEST_CASE("trace chooses sizes that reach every line, --size may not") {
  const auto all = traced("--kernel 20_matmul_stages");
  CAPTURE(all.output);
  CHECK(all.status == 0);
  if (!is_traced(all)) return;
  CHECK_FALSE(contains(all.output, "Never reached"));
  const auto one = traced("--kernel 20_matmul_stages --size 16");
  CHECK(contains(one.output, "Never reached: 20_matmul_stages.cuh:"));
}

TEST_CASE(
    "a trace draws no banks without shared memory, and refuses files that cannot be written") {
  const TemporaryDirectory directory;
  const auto svg = directory.path() / "banks.svg", file = directory.path() / "not_there" / "file";
  const auto result = traced("--kernel 02_transpose_naive --svg " + quoted(svg));
  CHECK(result.status == 0);
  if (!is_traced(result)) return;
  CHECK_FALSE(std::filesystem::exists(svg));
  for (const std::string option : {"--json ", "--svg "}) {
    check_refused(kProgram, {{"--device cpu --section trace --kernel 03_transpose_shared " +
                                  option + quoted(file),
                              file.string()}});
  }
  CHECK(std::filesystem::is_empty(directory.path()));
}
