// The lesson's program.
#include <algorithm>

#include <doctest/doctest.h>

#include "common/cli/tests/good_input.hpp"
#include "common/tensor/npy.hpp"
#include "common/testing/process.hpp"

using namespace fa;
using testing::contains;
using testing::quoted;
using testing::run;

namespace {

const std::string kProgram = FA_PROGRAM;

}  // namespace

TEST_CASE("all sections pass on the shipped input and write their files") {
  const testing::TemporaryDirectory directory;
  const auto summary = directory.path() / "summary.tsv";
  const auto result = run(kProgram + " --length 1000 --save " + quoted(directory.path()) +
                          " --summary " + quoted(summary));
  CHECK(result.status == 0);
  CHECK_FALSE(contains(result.output, "FAIL"));
  CHECK(contains(result.output, "PASS  Laws of the merge"));
  CHECK(std::count(result.output.begin(), result.output.end(), '\n') <= 60);  // a line a group
  const std::string lines = testing::file_bytes(summary);
  CHECK(contains(lines, "03_online_softmax\tinduction step"));
  CHECK(contains(lines, "8 recurrences: wrong verdicts"));
  CHECK(contains(lines, "64 rows of 1000"));
  const auto o = read_npy<float, 4>(directory.path() / "o.npy");
  const auto lse = read_npy<float, 3>(directory.path() / "lse.npy");
  CHECK(lse.shape() == Shape<3>{o.size(0), o.size(1), o.size(2)});
  CHECK(testing::python_says("[(r[\"mask\"], r[\"block_m\"]) for r in "
                             "json.load(open(file))[\"runs\"]] == [(mask, m) for mask in "
                             "(\"full\", \"causal\") for m in (4, 8, 5, 16)]",
                             directory.path() / "steps.json") == "True\n");
}

TEST_CASE("the program takes any tiles, masks, GQA and unequal lengths") {
  const testing::TemporaryDirectory directory;
  const auto& path = directory.path();
  cli::write_gqa_input(path, 7, 5);
  const std::string input = " --input " + quoted(path);
  for (const char* section :
       {"tiled --causal", "tiled --block-m 3", "tiled --block-n 1", "split", "steps"}) {
    const auto result = run(kProgram + input + " --section " + section);
    CAPTURE(result.output);
    CHECK(result.status == 0);
    CHECK(result.error == "");
  }
  for (const char* options :
       {"--length 1", "--length 131 --causal", "--length 40 --block-m 1000 --block-n 7",
        "--length 425", "--length 500", "--length 1050", "--length 2000 --block-n 1",
        "--length 2000 --block-m 1 --block-n 2 --causal"}) {
    const auto result = run(kProgram + " --section long " + std::string(options));
    CAPTURE(result.output);
    CHECK(result.status == 0);
  }
}

TEST_CASE("the program refuses what it cannot use: one sentence, exit 2") {
  const testing::TemporaryDirectory directory;
  const auto& path = directory.path();
  const std::string ours = " --input " + quoted(path);
  testing::check_refused(kProgram, {{"--length 0", "--length"},
                                    {"--block-m 0", "--block-m"},
                                    {"--block-n -3", "--block-n"},
                                    {"--length many", "--length"},
                                    {"--nonsense", "--nonsense"},
                                    {"--section nowhere", "there is no such section"},
                                    {"--section tiled" + ours, "q.npy: there is no such file"}});
  cli::write_uneven_heads(path);
  testing::check_refused(kProgram, {{"--section tiled" + ours, "multiple of kv_heads"}});
}
