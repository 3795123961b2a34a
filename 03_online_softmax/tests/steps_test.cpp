// A recording matches its run, its steps obey the recurrence, and its JSON is valid; the program.
#include "03_online_softmax/steps.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "common/cli/tests/good_input.hpp"
#include "common/data/files.hpp"
#include "common/tensor/matrix.hpp"
#include "common/tensor/npy.hpp"
#include "common/tensor/random.hpp"
#include "common/testing/process.hpp"

using namespace fa;
using namespace fa::online;

namespace {

constexpr float kNegInf = -std::numeric_limits<float>::infinity();

struct Problem {
  Tensor<float, 4> q, k, v;
};

Problem problem(std::int64_t length_q, std::int64_t length_k, std::int64_t dim = 8) {
  return {normal_tensor<float, 4>({1, 1, length_q, dim}, 1),
          normal_tensor<float, 4>({1, 1, length_k, dim}, 2),
          normal_tensor<float, 4>({1, 1, length_k, dim}, 3)};
}

RecordingNames names_for(std::int64_t length_q, std::int64_t length_k) {
  RecordingNames names;
  names.input = "random \"numbers\"";
  for (std::int64_t i = 0; i < length_q; ++i) {
    names.queries.push_back("q<" + std::to_string(i));
  }
  for (std::int64_t j = 0; j < length_k; ++j) {
    names.keys.push_back("k\\" + std::to_string(j));
  }
  return names;
}

// A float32 sum of few terms.
bool close(double a, double b) {
  return std::abs(a - b) <= 1e-5 * (1 + std::abs(b));
}

// The scores and probabilities of a row of a tile, and its m, l and O.
void check_row(const Problem& p, const Recording& run, const TileStep& step, std::int64_t i) {
  const std::int64_t query = step.query + i, dim = p.q.size(3);
  const std::int64_t seen = query + p.k.size(2) - p.q.size(2);  // causal
  float largest = step.m_before(i);
  double sum = 0;
  for (std::int64_t j = 0; j < step.keys; ++j) {
    double s = 0;
    for (std::int64_t c = 0; c < dim; ++c) {
      s += run.scale * p.q(0, 0, query, c) * p.k(0, 0, step.key + j, c);
    }
    if (run.causal && step.key + j > seen) {
      CHECK(step.s(i, j) == kNegInf);
      CHECK(step.p(i, j) == 0);
      continue;
    }
    CHECK(close(step.s(i, j), s));
    largest = std::max(largest, step.s(i, j));
    CHECK(close(step.p(i, j), std::exp(double{step.s(i, j)} - step.m(i))));
    sum += step.p(i, j);
  }
  CHECK(step.m(i) == largest);
  if (step.m(i) == step.m_before(i)) {
    CHECK(step.rescale(i) == 1);
  } else {
    CHECK(close(step.rescale(i), std::exp(double{step.m_before(i)} - step.m(i))));
  }
  CHECK(close(step.l(i), step.rescale(i) * step.l_before(i) + sum));
  for (std::int64_t c = 0; c < dim; ++c) {
    CHECK(step.o_rescaled(i, c) == step.rescale(i) * step.o_before(i, c));
    double added = 0;
    for (std::int64_t j = 0; j < step.keys; ++j) {
      added += double{step.p(i, j)} * p.v(0, 0, step.key + j, c);
    }
    CHECK(close(step.o(i, c), step.o_rescaled(i, c) + added));
  }
}

// A row of the result after the last step of its queries.
void check_result(const Recording& run, const TileStep& last, std::int64_t i) {
  const std::int64_t query = last.query + i;
  const float divisor = last.l(i) == 0 ? 1 : last.l(i);
  CHECK(run.out.lse(0, 0, query) == last.m(i) + std::log(last.l(i)));
  for (std::int64_t c = 0; c < last.o.size(1); ++c) {
    CHECK(run.out.o(0, 0, query, c) == last.o(i, c) / divisor);
  }
}

// The properties of each step, for any run.
void check_steps(const Problem& p, const Recording& run) {
  const std::int64_t length_q = p.q.size(2), length_k = p.k.size(2);
  std::int64_t query = 0, key = 0;  // where the next step must begin
  const TileStep* last = nullptr;   // of these queries, not skipped
  Tensor<int, 2> covered({length_q, length_k});
  for (const TileStep& step : run.steps) {
    REQUIRE(step.query == query);
    REQUIRE(step.key == key);
    REQUIRE(step.queries == std::min(run.tiles.block_m, length_q - query));
    const std::int64_t width = std::min(run.tiles.block_n, length_k - key);
    const std::int64_t last_seen =
        run.causal ? query + step.queries - 1 + length_k - length_q : length_k - 1;
    CHECK(step.skipped == (key > last_seen));
    if (step.skipped) {
      CHECK(step.keys == width);
      CHECK(step.s.count() + step.p.count() + step.m.count() + step.o.count() == 0);
    } else {
      CHECK(step.keys == std::min(width, last_seen + 1 - key));
      if (key > 0) {  // the state after the last step
        CHECK(same_bits(step.m_before, last->m));
        CHECK(same_bits(step.l_before, last->l));
        CHECK(same_bits(step.o_before, last->o));
      }
      for (std::int64_t i = 0; i < step.queries; ++i) {
        if (key == 0) {
          CHECK(step.m_before(i) == kNegInf);
          CHECK(step.l_before(i) == 0);
          CHECK(as_matrix(step.o_before.view()).row(i).isZero(0));
        }
        check_row(p, run, step, i);
        for (std::int64_t j = 0; j < step.keys; ++j) {
          covered(query + i, key + j) = 1;
        }
      }
      last = &step;
    }
    key += width;
    if (key < length_k) continue;
    for (std::int64_t i = 0; last_seen >= 0 && i < step.queries; ++i) {
      check_result(run, *last, i);
    }
    query += step.queries;
    key = 0;
  }
  CHECK(query == length_q);
  for_each_index(covered.shape(), [&](const Shape<2>& i) {
    const bool seen = !run.causal || i[1] <= i[0] + length_k - length_q;
    if (seen) CHECK(covered.view()[i] == 1);
  });
}

}  // namespace

TEST_CASE("every step of a recording obeys the recurrence") {
  const std::pair<std::int64_t, std::int64_t> lengths[] = {
      {1, 1}, {16, 16}, {17, 13}, {5, 23}, {23, 5}};
  for (const auto& pair : lengths) {
    const std::int64_t length_q = pair.first, length_k = pair.second;
    const Problem p = problem(length_q, length_k);
    for (const bool causal : {false, true}) {
      for (const Tiles& tiles :
           {Tiles{1, 1}, Tiles{4, 4}, Tiles{5, 6}, Tiles{3, 16}, Tiles{64, 2}}) {
        const testing::Threads threads(4);
        CAPTURE(length_q);
        CAPTURE(length_k);
        CAPTURE(causal);
        CAPTURE(tiles.block_m);
        CAPTURE(tiles.block_n);
        const Recording run = record(p.q, p.k, p.v, causal, tiles);
        check_steps(p, run);
        CHECK_MESSAGE(run.o.accepted, run.o.report());
        CHECK_MESSAGE(run.lse.accepted, run.lse.report());
      }
    }
  }
}

TEST_CASE("an observer sees every stage of every tile of every head, in order") {
  const auto q = normal_tensor<float, 4>({2, 4, 9, 4}, 1),
             k = normal_tensor<float, 4>({2, 2, 7, 4}, 2),
             v = normal_tensor<float, 4>({2, 2, 7, 4}, 3);
  const testing::Threads threads(1);
  std::vector<std::string> seen, expected;
  tiled_forward<float>(q, k, v, {}, {5, 4}, {}, [&](const TileMoment<float>& now) {
    seen.push_back(fmt::format("{} {} {} {} {}", now.batch, now.head, now.query, now.key,
                               static_cast<int>(now.stage)));
    CHECK(now.s.size(0) == (now.query == 0 ? 5 : 4));
    CHECK(now.s.size(1) == (now.key == 0 ? 4 : 3));
    CHECK(now.o.size(1) == 4);
  });
  for (int b = 0; b < 2; ++b) {
    for (int h = 0; h < 4; ++h) {
      for (const int i : {0, 5}) {
        for (const int j : {0, 4}) {
          for (int stage = 0; stage < 3; ++stage) {
            expected.push_back(fmt::format("{} {} {} {} {}", b, h, i, j, stage));
          }
        }
      }
    }
  }
  CHECK(seen == expected);
}

TEST_CASE("an exception of an observer ends the work, and more than one head is refused") {
  const Problem p = problem(9, 9);
  CHECK_THROWS_WITH_AS(
      tiled_forward<float>(p.q, p.k, p.v, {}, {4, 4}, {},
                           [](const TileMoment<float>&) { throw std::runtime_error("enough"); }),
      "enough", std::runtime_error);
  const auto x = normal_tensor<float, 4>({1, 2, 3, 4}, 1);
  CHECK_THROWS_AS(record(x, x, x, false, {4, 4}), std::invalid_argument);
}

TEST_CASE("the JSON is valid and complete, with null for missing values") {
  const testing::TemporaryDirectory directory;
  const auto file = directory.path() / "steps.json";
  const Problem p = problem(7, 5);  // with the mask, queries 0 and 1 are fully masked
  std::vector<Recording> runs;
  for (const bool causal : {false, true}) {
    runs.push_back(record(p.q, p.k, p.v, causal, {2, 3}));
  }
  write_file(file, steps_as_json(runs, names_for(7, 5)));
  const auto holds = [&](const std::string& expression) {
    return testing::python_says("(lambda d: " + expression + ")(json.load(open(file)))", file) ==
           "True\n";
  };
  CHECK(holds(R"x([d["input"], d["queries"][6], d["keys"][4], d["head_dim"], len(d["runs"])])x"
              R"x( == ["random \"numbers\"", "q<6", "k\\4", 8, 2])x"));
  CHECK(holds(R"x([[s["kind"][0] for s in r["steps"]] for r in d["runs"]])x"
              R"x( == [list("ttf" * 4), list("ssftsfttfttf")])x"));
  // Queries 2 and 3 of the causal run: keys 0 and 1, the second masked for query 2.
  CHECK(holds(R"x([[x is None for x in row] for row in d["runs"][1]["steps"][3]["s"]])x"
              R"x( == [[False, True], [False, False]])x"));
  CHECK(holds(R"x([d["runs"][1]["steps"][2][x] for x in ("m", "l", "lse")])x"
              R"x( == [[None, None], [0, 0], [None, None]])x"));
  const auto& s = runs[0].steps[0].s;
  CHECK(holds(fmt::format(R"x(all(abs(a - b) <= 1e-5 * abs(b) for a, b in)x"
                          R"x( zip(d["runs"][0]["steps"][0]["s"][1], [{}, {}, {}])))x",
                          s(1, 0), s(1, 1), s(1, 2))));
}

namespace {

const std::string kProgram = FA_PROGRAM;

}  // namespace

TEST_CASE("the program passes on the shipped input and writes its files") {
  const testing::TemporaryDirectory directory;
  const auto summary = directory.path() / "summary.tsv";
  const auto result =
      testing::run(kProgram + " --length 1000 --save " + testing::quoted(directory.path()) +
                   " --summary " + testing::quoted(summary));
  CHECK(result.status == 0);
  CHECK(std::count(result.output.begin(), result.output.end(), '\n') <= 60);  // a line a group
  const std::string lines = testing::file_bytes(summary);
  CHECK(testing::contains(lines, "03_online_softmax\tinduction step"));
  CHECK(testing::contains(lines, "64 rows of 1000"));
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
  const std::string input = " --input " + testing::quoted(path);
  for (const char* section :
       {"tiled --causal", "tiled --block-m 3", "tiled --block-n 1", "split", "steps"}) {
    const auto result = testing::run(kProgram + input + " --section " + section);
    CAPTURE(result.output);
    CHECK(result.status == 0);
    CHECK(result.error == "");
  }
  for (const char* options :
       {"--length 1", "--length 131 --causal", "--length 40 --block-m 1000 --block-n 7",
        "--length 425", "--length 500", "--length 1050", "--length 2000 --block-n 1",
        "--length 2000 --block-m 1 --block-n 2 --causal"}) {
    const auto result = testing::run(kProgram + " --section long " + std::string(options));
    CAPTURE(result.output);
    CHECK(result.status == 0);
  }
}

TEST_CASE("the program refuses what it cannot use with exit 2") {
  const testing::TemporaryDirectory directory;
  const auto& path = directory.path();
  const std::string ours = " --input " + testing::quoted(path);
  testing::check_refused(kProgram, {{"--length 0", "--length"},
                                    {"--block-m 0", "--block-m"},
                                    {"--block-n -3", "--block-n"},
                                    {"--length many", "--length"}});
  cli::write_uneven_heads(path);
  testing::check_refused(kProgram, {{"--section tiled" + ours, "kv_heads"}});
}
