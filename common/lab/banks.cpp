#include "common/lab/banks.hpp"

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "common/drawing/svg.hpp"

namespace fa::lab {
namespace {

// The words that the lanes [first, last) ask for, each once, ascending.
std::vector<Served> words_of(const Request& request, int first, int last) {
  std::vector<std::pair<std::uint64_t, int>> asked;
  for (int lane = first; lane < last; ++lane) {
    if (!request.has(lane)) continue;
    const std::uint64_t begin = request.address[static_cast<std::size_t>(lane)];
    for (std::uint64_t word = begin / 4; word <= (begin + request.size - 1) / 4; ++word) {
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

// ---------------------------------------------------------------- the picture

// All in pixels.
constexpr int kWidth = 1000, kLeft = 36, kCellWidth = 30, kTop = 144;
constexpr int kTextHeight = 14;  // of a line in a cell

std::string counted(std::int64_t number, const std::string& things) {
  return fmt::format("{} {}{}", number, things, number == 1 ? "" : "s");
}

// Lanes as people write them, neighbours together: "0–15", "20".
std::vector<std::string> names_of(std::uint32_t lanes) {
  std::vector<std::string> names;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((lanes >> lane & 1u) == 0) continue;
    const int first = lane;
    while (lane + 1 < kWarpSize && (lanes >> (lane + 1) & 1u) != 0) ++lane;
    names.push_back(first == lane ? std::to_string(lane) : fmt::format("{}–{}", first, lane));
  }
  return names;
}

// The same in lines that fit into a cell: a range with a number of two digits takes two.
std::vector<std::string> lines_of_cell(std::uint32_t lanes) {
  std::vector<std::string> lines;
  for (const std::string& name : names_of(lanes)) {
    const std::string dash = "–";
    const std::size_t at = name.find(dash);
    if (at == std::string::npos || name.size() <= dash.size() + 2) {
      lines.push_back(name);
    } else {
      lines.push_back(name.substr(0, at) + dash);
      lines.push_back(name.substr(at + dash.size()));
    }
  }
  return lines;
}

// One line of text, made smaller when it would be cut off.
void draw_line(Svg& svg, int y, double size, const std::string& text, Svg::Attributes look) {
  const double widest = (kWidth - 2.0 * kLeft) / (0.6 * static_cast<double>(text.size()));
  look.emplace_back("font-size", std::min(size, widest));
  svg.text(kLeft, y, text, look);
}

// Each lane has a colour of its own; a word of several has that of the first. It is laid thinly
// over the background, so that text is legible on it when that is light and when it is dark.
void draw_cell(Svg& svg, const Served& served, int y, int height) {
  std::string lanes, numbers;
  for (const std::string& name : names_of(served.lanes)) {
    lanes += (lanes.empty() ? "" : ", ") + name;
  }
  int first = -1;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((served.lanes >> lane & 1u) == 0) continue;
    if (first < 0) first = lane;
    numbers += fmt::format("{}{}", numbers.empty() ? "" : " ", lane);
  }
  const int x = kLeft + kCellWidth * served.bank();
  svg.open("g", {{"data-round", served.round},
                 {"data-bank", served.bank()},
                 {"data-word", std::to_string(served.word)},
                 {"data-lanes", numbers}});
  svg.element("title", {},
              fmt::format("round {}, bank {}, byte {}: lanes {}", served.round + 1, served.bank(),
                          4 * served.word, lanes));
  svg.rect(x + 1, y + 1, kCellWidth - 2, height - 2,
           {{"rx", 3},
            {"fill", fmt::format("hsl({}, 90%, 50%)", first * 360 / kWarpSize)},
            {"fill-opacity", 0.4}});
  const std::vector<std::string> lines = lines_of_cell(served.lanes);
  int baseline = y + height / 2 + 4 - kTextHeight * (static_cast<int>(lines.size()) - 1) / 2;
  for (const std::string& line : lines) {
    svg.text(x + kCellWidth / 2, baseline, line, {{"text-anchor", "middle"}});
    baseline += kTextHeight;
  }
  svg.close();
}

}  // namespace

std::int64_t Request::bytes() const {
  return static_cast<std::int64_t>(std::bitset<kWarpSize>(lanes).count()) * size;
}

namespace {

// Whether each lane of [first, last) asks for the same place as its neighbour, lane ^ distance; one
// that takes no part is no obstacle.
bool in_pairs(const Request& request, int first, int last, int distance) {
  for (int lane = first; lane < last; ++lane) {
    const int other = lane ^ distance;
    if (request.has(lane) && request.has(other) &&
        request.address[static_cast<std::size_t>(lane)] !=
            request.address[static_cast<std::size_t>(other)]) {
      return false;
    }
  }
  return true;
}

// Up to 4 bytes of each lane: the whole warp together. 8 bytes: in halves, 16 bytes: in quarters;
// but two such parts go together when all their lanes ask for the same place as lane ^ 1, or all
// for that of lane ^ 2. Matched with ncu on an H200 for 16 bytes; that it also holds for 8 is
// assumed. See docs/results.
template <class Visit>
void for_parts(const Request& request, Visit visit) {
  if (request.size <= 4) return visit(0, kWarpSize);
  const int part = request.size == 8 ? 16 : 8;
  for (int first = 0; first < kWarpSize; first += 2 * part) {
    const int middle = first + part, last = middle + part;
    if (in_pairs(request, first, last, 1) || in_pairs(request, first, last, 2)) {
      visit(first, last);
    } else {
      visit(first, middle);
      visit(middle, last);
    }
  }
}

}  // namespace

std::vector<Served> serve(const Request& request) {
  std::vector<Served> result;
  int rounds = 0;
  for_parts(request, [&](int first, int last) {
    std::array<int, kBanks> used{};
    int most = 0;
    for (Served served : words_of(request, first, last)) {
      int& of_bank = used[static_cast<std::size_t>(served.bank())];
      served.round = rounds + of_bank++;
      most = std::max(most, of_bank);
      result.push_back(served);
    }
    rounds += most;
  });
  std::stable_sort(result.begin(), result.end(),
                   [](const Served& a, const Served& b) { return a.round < b.round; });
  return result;
}

std::int64_t wavefronts(const Request& request) {
  std::int64_t rounds = 0;
  for_parts(request, [&](int first, int last) {
    std::array<int, kBanks> used{};
    request.for_units(first, last, 4, [&](std::uint64_t word) { ++used[word % kBanks]; });
    rounds += *std::max_element(used.begin(), used.end());
  });
  return rounds;
}

std::int64_t best_wavefronts(const Request& request) {
  constexpr std::int64_t at_once = 4 * kBanks;  // bytes
  return (request.bytes() + at_once - 1) / at_once;
}

std::string draw_banks(const std::string& kernel, const std::string& where, bool write,
                       const Request& request) {
  const std::vector<Served> served = serve(request);
  const std::int64_t rounds = wavefronts(request);
  const std::int64_t best = best_wavefronts(request);
  const std::string headline =
      fmt::format("{}: {}{}", kernel, counted(rounds, "wavefront"),
                  rounds > best ? fmt::format(" where {} would do", best)
                                : ", no more than lanes side by side need");
  const std::string access =
      fmt::format("one {} of a warp, {} for each of {}", write ? "store" : "load",
                  counted(request.size, "byte"), counted(request.bytes() / request.size, "lane"));

  // A row is as high as the cell with the most lines of text.
  std::vector<int> height(static_cast<std::size_t>(rounds), 0);
  for (const Served& s : served) {
    int& of_row = height[static_cast<std::size_t>(s.round)];
    const auto lines = static_cast<int>(lines_of_cell(s.lanes).size());
    of_row = std::max(of_row, kTextHeight * lines + 8);
  }
  std::vector<int> top{kTop};
  for (const int of_row : height) top.push_back(top.back() + of_row);
  const int bottom = top.back();

  Svg svg(headline, Svg::Paper::kAdaptive,
          fmt::format("{}: {}. The columns are the 32 banks of shared "
                      "memory, the rows the {} in which the warp is served; "
                      "each cell names the lanes of its word.",
                      where, access, counted(rounds, "round")));
  draw_line(svg, 32, 20, headline, {{"font-weight", 600}});
  draw_line(svg, 58, 14, where, {});
  draw_line(svg, 79, 14, access, {});
  draw_line(svg, 100, 13,
            "columns: banks; rows: rounds; in the cells: the lanes that a "
            "bank serves with one word in a round",
            {{"class", "quiet"}});
  const Svg::Attributes grid{{"class", "grid"}};
  const Svg::Attributes number{{"class", "quiet"}, {"text-anchor", "middle"}};
  for (int bank = 0; bank <= kBanks; ++bank) {
    const int x = kLeft + kCellWidth * bank;
    svg.line(x, kTop, x, bottom, grid);
    if (bank == kBanks) break;
    svg.text(x + kCellWidth / 2, kTop - 8, std::to_string(bank), number);
  }
  for (std::size_t row = 0; row < top.size(); ++row) {
    svg.line(kLeft, top[row], kLeft + kCellWidth * kBanks, top[row], grid);
    if (row == height.size()) break;
    svg.text(kLeft / 2, top[row] + height[row] / 2 + 4, std::to_string(row + 1), number);
  }
  for (const Served& s : served) {
    const auto row = static_cast<std::size_t>(s.round);
    draw_cell(svg, s, top[row], height[row]);
  }
  return svg.str(kWidth, bottom + 16);
}

}  // namespace fa::lab
