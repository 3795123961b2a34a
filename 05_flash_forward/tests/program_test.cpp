// The program of the lesson, run as a reader runs it.
#include <fstream>

#include <doctest/doctest.h>

#include "common/lab/measured.hpp"
#include "common/tensor/npy.hpp"
#include "common/testing/process.hpp"
#include "common/testing/sections.hpp"

using namespace fa;
using namespace fa::testing;

TEST_CASE("kernels are timed on a GPU only, when asked") {
  const auto result = run(kProgram + " --device cpu --section time");
  CHECK(result.status == 0);
  CHECK(result.output == "No GPU is used, so no kernel is timed.\n");
}

TEST_CASE("the whole walk is right, on the CPU, and saves the last step") {
  const TemporaryDirectory directory;
  const auto summary = directory.path() / "summary.tsv";
  const auto saved = directory.path() / "saved";
  const auto result = run(kProgram + " --device cpu --size 40 --summary " + quoted(summary) +
                          " --save " + quoted(saved));
  CAPTURE(result.output);
  CHECK(result.status == 0);
  CHECK(result.error == "");
  CHECK_FALSE(contains(result.output, "FAIL"));
  CHECK_FALSE(contains(result.output, "timed"));  // only with --verbose
  const std::string lines = file_bytes(summary);
  CHECK(contains(lines, "05_flash_forward\t01_unfused, float32, o"));
  CHECK(contains(lines, "08_edge_masks, bfloat16, causal, lse"));
  CHECK(read_npy<float, 4>(saved / "o.npy").shape() == Shape<4>{1, 12, 135, 32});
  CHECK(read_npy<float, 3>(saved / "lse.npy").shape() == Shape<3>{1, 12, 135});
}

TEST_CASE("the program refuses what it cannot use: one sentence, exit 2") {
  check_refused(kProgram, {{"--size -1", "--size"},
                           {"--size 16385", "--size"},
                           {"--size many", "--size"},
                           {"--device cpu --section time --results file", "none is used"},
                           {"--device cpu --section timeline --kernel 99", "no such kernel"}});
}

TEST_CASE("the order of operations of a Hopper kernel is printed") {
  check_operations("12_ping_pong", "256 queries, 512 keys",
                   {"blocks 1, 2 of 2", "warp 8 (producer)", "    wait     room for K"},
                   "08_edge_masks");
}

TEST_CASE("measured timelines are printed and written as a trace file") {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "stamps", json = directory.path() / "json";
  const auto stamp = [](std::uint32_t clock, StampKind kind) {
    return Stamp{0, clock, static_cast<std::uint32_t>(kind)};
  };
  std::ofstream(file) << lab::stamps_text(
      {"some GPU",
       {{"12_ping_pong",
         0.02,
         0.03,
         {stamp(100, StampKind::kBlock), stamp(200, StampKind::kIssueScores),
          stamp(210, StampKind::kCommit), stamp(220, StampKind::kWaitMatmuls),
          stamp(1100, StampKind::kEnd)}}}});
  const std::string command = kProgram + " --device cpu --section timeline --stamps ";
  const auto result = run(command + quoted(file) + " --kernel 12 --json " + quoted(json));
  CAPTURE(result.output);
  CHECK(result.status == 0);
  // Its matmuls take 16384 cycles at the peak: the stamps are of one of them.
  CHECK(contains(result.output, "12_ping_pong  20.0         30.0   1.50    1000       1638"));
  CHECK(python_says("len(json.load(open(file))[\"traceEvents\"])", json) == "5\n");
  CHECK(contains(refusal(command + quoted(file) + " --kernel 15"),
                 "the stamps are of other kernels"));
}

TEST_CASE("trace writes a JSON report and draws the worst line") {
  check_trace("--size 40 --kernel 08_edge_masks",
              [](const auto& output, const auto& json, const auto&) {
                CHECK(contains(output, "08_edge_masks, float16, D 64, causal, N 40\n"));
                CHECK(python_says("[(k[\"kernel\"], k[\"group\"], k[\"inputs\"]) for k in "
                                  "json.load(open(file))] == [(\"08_edge_masks\", group, 3 * "
                                  "[[1, 1, 40, 64]]) for group in (\"float16, D 64\", "
                                  "\"float16, D 64, causal\")]",
                                  json) == "True\n");
              });
}

TEST_CASE("an unknown kernel cannot be traced: one sentence, exit 2") {
  if (!is_traced(traced("--size 8 --kernel 08_edge_masks"))) return;
  CHECK(contains(refusal(kProgram + " --device cpu --section trace --kernel 09_magic"),
                 "--kernel 09_magic: there is no such kernel"));
}
