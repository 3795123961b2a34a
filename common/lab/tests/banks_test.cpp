// The banks of shared memory: known requests take the rounds that they are known to take, and the
// picture shows just these.
#include "common/lab/banks.hpp"

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include "common/data/files.hpp"
#include "common/testing/process.hpp"

namespace fa::lab {
namespace {

using testing::contains;

// A request of all lanes.
Request request(std::uint32_t size, const std::function<std::uint64_t(int)>& address) {
  Request result;
  result.size = size;
  result.lanes = 0xffffffffu;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    result.address[static_cast<std::size_t>(lane)] = address(lane);
  }
  return result;
}

std::uint64_t at(int offset) {
  return static_cast<std::uint64_t>(offset);
}

const Request kColumn = request(4, [](int l) { return at(128 * l); });
const Request kPadded = request(4, [](int l) { return at(132 * l); });
const Request kBroadcast = request(4, [](int) { return at(20); });
const Request kPairs = request(2, [](int l) { return at(2 * l); });
const Request kVectors = request(16, [](int l) { return at(16 * l); });

std::vector<Request> samples() {
  return {kColumn,
          kPadded,
          kBroadcast,
          kPairs,
          kVectors,
          request(8, [](int l) { return at(16 * l); }),
          request(16, [](int l) { return at(80 * l); }),
          request(16, [](int l) { return at(l / 16 * 16); }),
          request(4, [](int l) { return at(l % 2 * 4); })};
}

TEST_CASE("a column takes a round for each lane, a pad makes that one") {
  CHECK(wavefronts(kColumn) == 32);
  CHECK(best_wavefronts(kColumn) == 1);
  CHECK(wavefronts(kPadded) == 1);
  CHECK(wavefronts(request(4, [](int l) { return at(8 * l); })) == 2);
}

TEST_CASE("lanes that ask for the same word are served together") {
  CHECK(wavefronts(kBroadcast) == 1);
  CHECK(serve(kBroadcast).size() == 1);
  CHECK(wavefronts(kPairs) == 1);
  CHECK(serve(kPairs).size() == 16);
}

TEST_CASE("a warp is served in halves for 8 bytes and in quarters for 16") {
  CHECK(wavefronts(request(8, [](int l) { return at(8 * l); })) == 2);
  CHECK(wavefronts(kVectors) == 4);
  CHECK(best_wavefronts(kVectors) == 4);
  // Rows 128 bytes apart: all eight lanes of a quarter want the same banks.
  CHECK(wavefronts(request(16, [](int l) { return at(128 * l); })) == 32);
  CHECK(wavefronts(request(16, [](int l) { return at(144 * l); })) == 4);
}

TEST_CASE("quarters go together when lanes ask in pairs") {
  CHECK(wavefronts(request(16, [](int) { return at(64); })) == 2);
  // The loads of matmul_vector_loads(), as ncu counts them on an H200: a_smem, then b_smem.
  CHECK(wavefronts(request(16, [](int l) { return at(l / 16 * 16); })) == 2);
  CHECK(wavefronts(request(16, [](int l) { return at(l % 16 * 16); })) == 4);
  // Eight places: in pairs of neighbours, or of every other lane; and four that no pair shares.
  CHECK(wavefronts(request(16, [](int l) { return at(l / 4 * 16); })) == 2);
  CHECK(wavefronts(request(16, [](int l) { return at((l % 2 + l / 4 % 4 * 2) * 16); })) == 2);
  CHECK(wavefronts(request(16, [](int l) { return at(l % 4 * 16); })) == 4);
  // Lanes that take no part are no obstacle.
  Request half = request(16, [](int l) { return at(l * 16); });
  half.lanes = 0x55555555u;
  CHECK(wavefronts(half) == 4);  // 16 places in the same banks by pairs
  half.lanes = 0x00000055u;
  CHECK(wavefronts(half) == 1);
}

TEST_CASE("lanes that take no part ask for nothing") {
  Request some = kColumn;
  some.lanes = 0x00010003u;
  CHECK(some.bytes() == 12);
  CHECK(wavefronts(some) == 3);
  some.lanes = 0;
  CHECK(wavefronts(some) == 0);
  CHECK(best_wavefronts(some) == 0);
  CHECK(serve(some).empty());
}

TEST_CASE("each lane gets each of its words once, no bank works twice") {
  for (const Request& sample : samples()) {
    std::set<std::pair<int, int>> busy;  // round and bank
    std::map<int, std::set<std::uint64_t>> words;
    std::size_t deliveries = 0;
    int round = 0;
    for (const Served& served : serve(sample)) {
      CHECK(busy.insert({served.round, served.bank()}).second);
      CHECK(served.round >= round);  // in the order of the rounds
      round = served.round;
      for (int lane = 0; lane < kWarpSize; ++lane) {
        if ((served.lanes >> lane & 1u) == 0) continue;
        words[lane].insert(served.word);
        ++deliveries;
      }
    }
    const std::size_t words_each = (sample.size + 3) / 4;
    CHECK(deliveries == 32 * words_each);
    for (int lane = 0; lane < kWarpSize; ++lane) {
      CHECK(words[lane].size() == words_each);
      CHECK(*words[lane].begin() == sample.address[static_cast<std::size_t>(lane)] / 4);
    }
  }
}

TEST_CASE("more conflicts: the ratio first, then how many") {
  CHECK(conflicts_more(32, 1, 40, 4));
  CHECK(conflicts_more(64, 2, 32, 1));
  CHECK(conflicts_more(1, 1, 0, 0));
  CHECK_FALSE(conflicts_more(32, 1, 32, 1));
}

// ---------------------------------------------------------------- the picture

// Checks that a parser of XML reads it.
void check_well_formed(const std::string& xml) {
  const testing::TemporaryDirectory directory;
  write_file(directory.path() / "picture.svg", xml);
  CHECK(testing::python_says("xml.dom.minidom.parse(file).documentElement.tagName == \"svg\"",
                             directory.path() / "picture.svg") == "True\n");
}

// The values of an attribute, in their order.
std::vector<std::string> values_of(const std::string& svg, const std::string& attribute) {
  const std::string before = attribute + "=\"";
  std::vector<std::string> values;
  for (std::size_t i = 0; (i = svg.find(before, i)) != std::string::npos;) {
    i += before.size();
    values.push_back(svg.substr(i, svg.find('"', i) - i));
  }
  return values;
}

TEST_CASE("the picture has a cell for each word that is served") {
  for (const Request& sample : samples()) {
    const std::string svg = draw_banks("kernel", "file.cuh:7", false, sample);
    check_well_formed(svg);
    std::vector<std::string> rounds, banks, words, lanes;
    for (const Served& served : serve(sample)) {
      rounds.push_back(std::to_string(served.round));
      banks.push_back(std::to_string(served.bank()));
      words.push_back(std::to_string(served.word));
      lanes.emplace_back();
      for (int lane = 0; lane < kWarpSize; ++lane) {
        if ((served.lanes >> lane & 1u) == 0) continue;
        lanes.back() += (lanes.back().empty() ? "" : " ") + std::to_string(lane);
      }
    }
    CHECK(values_of(svg, "data-round") == rounds);
    CHECK(values_of(svg, "data-bank") == banks);
    CHECK(values_of(svg, "data-word") == words);
    CHECK(values_of(svg, "data-lanes") == lanes);
  }
}

TEST_CASE("the picture says which kernel, which line, and how bad it is") {
  const std::string bad = draw_banks("k<int> & \"more\"", "slow\x01.cuh:26", false, kColumn);
  check_well_formed(bad);
  CHECK(contains(bad, "k&lt;int&gt; &amp; &quot;more&quot;: 32 wavefronts"));
  CHECK(contains(bad, ".cuh:26</text>"));
  CHECK(contains(draw_banks("good", "good.cuh:1", true, kPadded), "good: 1 wavefront,"));
}

}  // namespace
}  // namespace fa::lab
