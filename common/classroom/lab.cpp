#include "common/classroom/lab.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "common/lab/sites.hpp"

namespace fa::classroom {
namespace {

// The function with number 0: lines of the student's program, which may start no other.
const Function lines = known([](const std::string& bytes) {
  const auto addresses = unpacked<std::string>(bytes);
  require(addresses.find_first_not_of("0123456789abcdefx ") == std::string::npos, "no addresses");
  return packed(lab::addr2line(student_program(), addresses));
});

bool is_race(const lab::Finding& finding) {
  return finding.kind == "race" || finding.kind == "same value";
}

// Whether a finding is of a kind that reasons can be for.
bool is_of(const lab::Finding& finding, const std::string& kind) {
  const auto says = [&](const char* words) {
    return finding.message.find(words) != std::string::npos;
  };
  if (kind == "race") return is_race(finding);
  if (kind == "blocks") {
    return is_race(finding) && finding.where == finding.other && says(" writes what ") &&
           says(" of block ") && says(" has written");
  }
  if (kind == "bytes") return finding.kind == "copy" && says("to an mbarrier that expects");
  return finding.kind == kind;
}

}  // namespace

bool found(const Seen& seen, const std::string& kind) {
  const auto& findings = seen.report.findings;
  return std::any_of(findings.begin(), findings.end(),
                     [&](const lab::Finding& finding) { return is_of(finding, kind); });
}

Reason own_elements() {
  return {"blocks",
          "two blocks write the same element at the same line: each block must have elements of "
          "its own. Does an index lack what tells the blocks apart?"};
}

void require_no_findings(const Seen& seen, const std::vector<Reason>& reasons) {
  if (seen.report.findings.empty()) return;
  const lab::Finding& first = seen.report.findings.front();
  std::string why = "the lab found what a GPU would not tell you";
  if (is_race(first)) {
    why = first.other == first.where || first.other.empty()
              ? "several threads use the same element where each should have its own"
              : "two threads use the same element, and nothing orders them";
  } else if (first.kind == "out of bounds") {
    why = "an index lies outside of the array";
  } else if (first.kind == "unwritten") {
    why = "an element is read that no thread has written";
  } else if (first.kind == "barrier") {
    why = "not all threads of the block come to a barrier";
  }
  for (const auto& [kind, says] : reasons) {
    if (found(seen, kind)) {
      why = says;
      break;
    }
  }
  refuse(why + "\n\n" + seen.report.findings_text());
}

void require_no_races(const Seen& seen, const std::vector<Reason>& reasons) {
  needs_watching(seen);
  require_no_findings(seen, reasons);
}

void require_divided(const Seen& seen, double of_warp) {
  const bool by_thread = seen.of_thread > 0.05;
  if (!by_thread && seen.of_warp <= of_warp) return;
  refuse(fmt::format(
      "one {} loads and stores {:.0f} % of what its block does in global memory: "
      "divide the work among all warps and threads",
      by_thread ? "thread" : "warp", 100 * (by_thread ? seen.of_thread : seen.of_warp)));
}

bool nothing_written(const Seen& seen, const std::vector<double>& out) {
  const auto& traffic = seen.report.traffic;
  return std::all_of(out.begin(), out.end(), [](double x) { return std::isnan(x); }) &&
         std::none_of(traffic.begin(), traffic.end(),
                      [](const lab::LineTraffic& line) { return line.write && !line.shared; });
}

void check_result(const Seen& seen, const std::vector<Reason>& reasons, const Table& out,
                  const std::vector<double>& reference, double tolerance,
                  const std::vector<Mistake>& mistakes, const std::string& where,
                  const std::function<void()>& explain) {
  if (agree(out.values, reference, tolerance)) {
    // What lands beside a matrix may leave the result as it is, and end the next launch.
    if (found(seen, "out of bounds")) require_no_findings(seen, reasons);
    return;
  }
  if (nothing_written(seen, out.values) && !found(seen, "out of bounds")) {
    refuse("nothing was written (case: " + where + ")");
  }
  for (const Mistake& mistake : mistakes) {
    if (agree(out.values, mistake.result, tolerance)) {
      refuse(mistake.says + " (case: " + where + ")");
    }
  }
  require_no_findings(seen, reasons);
  if (explain && recognised(out, reference, tolerance).empty()) explain();
  check(out, reference, tolerance, {}, where);
}

namespace {

// Threads that touch an element: block and thread.
using Threads = std::set<std::pair<int, int>>;

// A thread as drawings name it: "3"; "(2,1)" in a block of two dimensions.
std::string thread_name(const Puzzle& p, int thread) {
  const int width = static_cast<int>(p.block[0]);
  if (p.block[1] == 1) return std::to_string(thread);
  return fmt::format("({},{})", thread % width, thread / width);
}

// Several threads, short: "3", "0-7", "1:0-3" in block 1, "12 thr." for a mixture.
std::string threads_name(const Puzzle& p, const Threads& threads) {
  if (threads.empty()) return ".";
  const auto [block, first] = *threads.begin();
  const auto [last_block, last] = *threads.rbegin();
  const int count = static_cast<int>(threads.size());
  const bool row = block == last_block && last - first + 1 == count && p.block[1] == 1;
  if (count > 2 && !row) return fmt::format("{} thr.", count);
  const std::string of_block = p.grid[0] * p.grid[1] == 1 ? "" : fmt::format("{}:", block);
  const std::string one = of_block + thread_name(p, first), other = thread_name(p, last);
  if (count == 1) return one;
  if (block != last_block) return fmt::format("{}+{}:{}", one, last_block, other);
  return one + (row ? "-" : "+") + other;
}

// One array and one direction: which thread touches which element.
std::string draw_array(const Puzzle& p, const Drawn& array,
                       const std::map<std::int64_t, Threads>& touched, bool write) {
  constexpr std::int64_t most = 64;
  const char* how = write ? "written" : "read";
  const auto of = [&](std::int64_t element) {
    const auto found = touched.find(element);
    return threads_name(p, found == touched.end() ? Threads{} : found->second);
  };
  std::vector<std::string> names;
  std::size_t width = 1;
  for (std::int64_t i = 0; i < std::min(array.size, most); ++i) {
    names.push_back(of(i));
    width = std::max(width, names.back().size());
  }
  // Lines of up to 76 columns, or the rows of a matrix.
  const std::size_t in_line =
      array.cols > 0 ? static_cast<std::size_t>(array.cols) : (76 - 12) / (width + 2);
  std::string text = fmt::format("{}, {} by thread", array.name, how);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i % in_line == 0) {
      text += array.cols > 0 ? fmt::format("\n  row {:<6}", i / in_line)
                             : fmt::format("\n  {:<10}", fmt::format("[{}]", i));
    }
    text += fmt::format("  {:>{}}", names[i], width);
  }
  text += "\n";
  if (array.size > most) text += fmt::format("  ... {} elements more\n", array.size - most);
  int beside = 0;
  for (const auto& [element, threads] : touched) {
    if (element >= 0 && element < array.size) continue;
    if (++beside > 4) continue;
    text += fmt::format("  outside: {}[{}] is {} by thread {}\n", array.name, element, how,
                        threads_name(p, threads));
  }
  if (beside > 4) text += fmt::format("  outside: {} more\n", beside - 4);
  return text;
}

// Which thread touches what, for the terminal; arrays as the parameters of the kernel.
std::string drawing(const Puzzle& p, const Played& played, const std::vector<Drawn>& arrays) {
  if (played.places.empty()) return "";
  std::string text =
      fmt::format("Which thread touches what: {} block{} of {}{} threads{}\n\n",
                  p.grid[0] * p.grid[1], p.grid[0] * p.grid[1] == 1 ? "" : "s", p.block[0],
                  p.block[1] == 1 ? "" : fmt::format(" x {}", p.block[1]),
                  p.grid[0] * p.grid[1] > 1 ? "; 1:0 is thread 0 of block 1"
                  : p.block[1] > 1          ? "; (2,1) has threadIdx.x = 2 and threadIdx.y = 1"
                                            : "");
  std::map<std::pair<int, int>, std::map<std::int64_t, Threads>> touched;
  std::int64_t shared = 0;  // words of it
  for (const Place& place : played.places) {
    if (place.array < 0 && place.block > 0) continue;  // as block 0 does
    touched[{place.array, place.write}][place.element].insert({place.block, place.thread});
    if (place.array < 0) shared = std::max(shared, place.element + 1);
  }
  const auto draw = [&](const Drawn& array, int number, int write) {
    const auto found = touched.find({number, write});
    if (found == touched.end()) return;
    text += draw_array(p, array, found->second, write == 1);
  };
  const int out = static_cast<int>(arrays.size()) - 1;
  for (int i = 0; i < out; ++i) draw(arrays[static_cast<std::size_t>(i)], i, 0);
  draw({"shared", shared, 0}, -1, 1);
  draw({"shared", shared, 0}, -1, 0);
  draw(arrays.back(), out, 0);
  draw(arrays.back(), out, 1);
  return text;
}

// Refuses when a thread does the work of others.
void refuse_one_for_all(const PuzzleCase& c, const std::map<std::int64_t, Threads>& writers) {
  std::map<std::pair<int, int>, std::int64_t> elements;
  for (const auto& [element, threads] : writers) {
    for (const auto& thread : threads) ++elements[thread];
  }
  for (const auto& [thread, count] : elements) {
    if (count <= c.per_thread) continue;
    refuse(fmt::format(
        "thread {} of block {} writes {} elements, and {} is its share: a thread must not do the "
        "work of the others (case: {})",
        thread_name(c.puzzle, thread.second), thread.first, count, c.per_thread, c.where));
  }
}

// Refuses when a result came from elements that no access of the kernel has touched: by a function
// of the C library, which the lab does not see.
void require_seen_accesses(const PuzzleCase& c, const Played& played) {
  std::set<std::pair<int, std::int64_t>> touched;
  for (const Place& place : played.places) touched.insert({place.array, place.element});
  const int arrays = static_cast<int>(c.arrays.size());
  for (int array = c.reads_all ? 0 : arrays - 1; array < arrays; ++array) {
    const Drawn& drawn = c.arrays[static_cast<std::size_t>(array)];
    for (std::int64_t i = 0; i < drawn.size; ++i) {
      require(touched.count({array, i}) > 0,
              fmt::format("the result is right, and the lab has not seen {}[{}] {}: read and write "
                          "by assignments, so that accesses can be counted (case: {})",
                          drawn.name, i, array + 1 < arrays ? "read" : "written", c.where));
    }
  }
}

}  // namespace

std::int64_t reads(const Played& played, int array) {
  return std::count_if(played.places.begin(), played.places.end(), [&](const Place& place) {
    return place.array == array && place.write == 0;
  });
}

std::int64_t most_loads(const Played& played) {
  std::map<std::pair<int, int>, std::int64_t> count;
  std::int64_t most = 0;
  for (const Place& place : played.places) {
    if (place.write == 0) most = std::max(most, ++count[{place.block, place.thread}]);
  }
  return most;
}

Played play_puzzle(const PuzzleCase& c, const std::string& stage) {
  constexpr double tolerance = 1e-5;
  auto played = unpacked<Played>(call<std::string>("run", packed(c.puzzle)));
  show(drawing(c.puzzle, played, c.arrays));
  std::vector<Reason> reasons = c.reasons;
  reasons.push_back(
      {"out of bounds",
       "a thread touches an element that does not exist; the drawing has it as 'outside'"});
  // A read of unwritten memory may give the result of a mistake.
  if (found(played.seen, "unwritten")) require_no_findings(played.seen, reasons);
  const auto out = static_cast<int>(c.arrays.size()) - 1;
  std::map<std::int64_t, Threads> writers;
  std::pair<std::int64_t, int> most{0, 1};
  for (const Place& place : played.places) {
    if (place.array != out || place.write == 0) continue;
    Threads& threads = writers[place.element];
    threads.insert({place.block, place.thread});
    const int count = static_cast<int>(threads.size());
    if (count > most.second) most = {place.element, count};
  }
  const auto explained = [&](const Mistake& mistake) {
    return agree(played.out, mistake.result, tolerance) &&
           !agree(mistake.result, c.right, tolerance);
  };
  if (most.second > 1 && std::none_of(c.mistakes.begin(), c.mistakes.end(), explained)) {
    refuse(fmt::format("{} threads write {}[{}]: {} (case: {})", most.second, c.arrays.back().name,
                       most.first, c.twice, c.where));
  }
  check_result(played.seen, reasons,
               {c.arrays.back().name, played.out, std::max<std::int64_t>(1, c.arrays.back().cols)},
               c.right, tolerance, c.mistakes, c.where);
  refuse_one_for_all(c, writers);
  if (played.seen.watched) require_seen_accesses(c, played);
  if (stage == "races") require_no_races(played.seen, c.reasons);
  return played;
}

}  // namespace fa::classroom
