#include "common/lab/banks.hpp"

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

namespace fa::lab {
namespace {

// The words that the lanes [first, last) ask for, each once, ascending.
std::vector<Served> words_of(const Request& request, int first, int last) {
  std::vector<std::pair<std::uint64_t, int>> asked;
  for (int lane = first; lane < last; ++lane) {
    if (!request.has(lane)) continue;
    const std::uint64_t begin =
        request.address[static_cast<std::size_t>(lane)];
    for (std::uint64_t word = begin / 4;
         word <= (begin + request.size - 1) / 4; ++word) {
      asked.emplace_back(word, lane);
    }
  }
  std::sort(asked.begin(), asked.end());
  std::vector<Served> words;
  for (const auto& [word, lane] : asked) {
    if (words.empty() || words.back().word != word) {
      words.push_back({0, word, 0});
    }
    words.back().lanes |= 1u << lane;
  }
  return words;
}

bool by_word(const Served& a, const Served& b) { return a.word < b.word; }

}  // namespace

std::int64_t Request::bytes() const {
  return static_cast<std::int64_t>(std::bitset<kWarpSize>(lanes).count()) *
         size;
}

// A warp is served whole when lanes ask for up to 4 bytes, in halves for 8, in quarters for 16. A part that
// asks for nothing but words of the part before it is served together with that one. The last rule was
// matched with ncu for 16 bytes: on an H200 it counts 13,312 wavefronts for lesson 04's
// 12_matmul_vector_loads at 128 x 128 x 128, as this does. There 16 lanes after 16 lanes read one place each,
// in 2 rounds; and 16 neighbouring places are read by 16 lanes and once more by the others, in 4. That it
// also holds for halves is assumed.
std::vector<Served> serve(const Request& request) {
  const int together = request.size <= 4 ? 32 : request.size == 8 ? 16 : 8;
  std::vector<Served> result, part;  // part: what is served together
  int rounds = 0;
  const auto finish_part = [&] {
    std::array<int, kBanks> used{};
    int most = 0;
    for (Served& served : part) {
      int& of_bank = used[static_cast<std::size_t>(served.bank())];
      served.round = rounds + of_bank++;
      most = std::max(most, of_bank);
    }
    rounds += most;
    result.insert(result.end(), part.begin(), part.end());
  };
  for (int first = 0; first < kWarpSize; first += together) {
    std::vector<Served> words = words_of(request, first, first + together);
    if (std::includes(part.begin(), part.end(), words.begin(), words.end(),
                      by_word)) {
      for (const Served& more : words) {
        std::lower_bound(part.begin(), part.end(), more, by_word)->lanes |=
            more.lanes;
      }
      continue;
    }
    finish_part();
    part = std::move(words);
  }
  finish_part();
  std::stable_sort(
      result.begin(), result.end(),
      [](const Served& a, const Served& b) { return a.round < b.round; });
  return result;
}

std::int64_t wavefronts(const Request& request) {
  const std::vector<Served> served = serve(request);
  return served.empty() ? 0 : served.back().round + 1;
}

std::int64_t best_wavefronts(const Request& request) {
  constexpr std::int64_t at_once = 4 * kBanks;  // bytes
  return (request.bytes() + at_once - 1) / at_once;
}

}  // namespace fa::lab
