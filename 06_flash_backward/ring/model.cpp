#include "06_flash_backward/ring/model.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "common/drawing/svg.hpp"

namespace fa::ring {
namespace {

double compute_seconds(std::int64_t pairs, const Problem& problem, bool backward,
                       const Machine& machine) {
  const auto batch = static_cast<double>(problem.shape.batch);
  return flops(batch * static_cast<double>(pairs), problem.shape.head_dim, backward) /
         (machine.tflops * 1e12);
}

// Of the largest block of K and V: all links work at the same time.
double block_elements(const Problem& problem) {
  const AttentionShape& s = problem.shape;
  const std::int64_t rows_of_block = rows(keys_of(problem, 0));
  return static_cast<double>(2 * s.batch * s.kv_heads * rows_of_block * s.head_dim);
}

// The ring, step by step: in each, the slowest rank counts.
double ring_seconds(const Problem& problem, Method method, bool backward, const Machine& machine) {
  const double bytes_per_second = machine.link * 1e9;
  const double kv = block_elements(problem) * machine.element / bytes_per_second;
  const double d_kv = block_elements(problem) * machine.gradient_element / bytes_per_second;
  double seconds = 0;
  for (int step = 0; step < problem.ranks; ++step) {
    const double compute = compute_seconds(problem.shape.heads * most_pairs(problem, step), problem,
                                           backward, machine);
    const bool last = step + 1 == problem.ranks;
    if (method == Method::kRing) {
      seconds += compute + (last ? 0 : kv) + (backward ? d_kv : 0);
    } else {
      // dK and dV of the step before travel with the next K and V. In the last shift they are
      // complete, and rounded.
      const double transfers = (last ? 0 : kv) + (backward && step > 0 ? d_kv : 0);
      seconds += std::max(compute, transfers) + (backward && last ? kv : 0);
    }
  }
  return seconds;
}

}  // namespace

double predicted_seconds(const Problem& problem, Method method, bool backward,
                         const Machine& machine) {
  if (problem.ranks > 1 && method != Method::kAllGather && method != Method::kHeads) {
    return ring_seconds(problem, method, backward, machine);
  }
  double slowest = 0;
  for (int rank = 0; rank < problem.ranks; ++rank) {
    const RankCounts counts = counts_of(problem, method, rank);
    double bytes = machine.element * static_cast<double>(backward ? counts.backward_elements
                                                                  : counts.forward_elements);
    if (backward && method == Method::kAllGather) {
      // K and V again, and the sums of dK and dV.
      bytes = machine.element * static_cast<double>(counts.forward_elements) +
              machine.gradient_element *
                  static_cast<double>(counts.backward_elements - counts.forward_elements);
    }
    slowest = std::max(slowest, compute_seconds(counts.pairs, problem, backward, machine) +
                                    bytes / (machine.link * 1e9));
  }
  return slowest;
}

double predicted_efficiency(AttentionShape shape, bool causal, int gpus, Method method,
                            bool backward, const Machine& machine) {
  const Problem one{shape, causal, RowOrder::kContiguous, 1};
  const Problem all{shape, causal, order_of(method), gpus};
  return predicted_seconds(one, Method::kRing, backward, machine) /
         (gpus * predicted_seconds(all, method, backward, machine));
}

std::string efficiency_chart(AttentionShape shape, int gpus, const Machine& machine) {
  constexpr double kLeft = 44, kTop = 66, kWidth = 236, kHeight = 230, kLabels = 156;
  constexpr int kFirst = 14, kLast = 20;  // powers of two
  Svg svg(fmt::format("Predicted parallel efficiency of {} GPUs by length", gpus));
  const auto x_of = [&](int power) { return kLeft + kWidth * (power - kFirst) / (kLast - kFirst); };
  const auto y_of = [&](double fraction) { return kTop + kHeight * (1 - fraction); };
  svg.text(12, 24, fmt::format("{} GPUs, causal, forward: predicted", gpus),
           {{"font-weight", "bold"}, {"font-size", 14}});
  svg.text(12, 46, "parallel efficiency, %", {{"font-size", 14}});
  for (int percent = 0; percent <= 100; percent += 25) {
    const double y = y_of(percent / 100.0);
    svg.line(kLeft, y, kLeft + kWidth, y, {{"stroke", "#bbbbbb"}});
    svg.text(kLeft - 8, y + 5, std::to_string(percent),
             {{"text-anchor", "end"}, {"font-size", 14}});
  }
  for (int power = kFirst; power <= kLast; power += 2) {
    svg.text(x_of(power), kTop + kHeight + 22,
             power == 20 ? "1M" : fmt::format("{}k", 1 << (power - 10)),
             {{"text-anchor", "middle"}, {"font-size", 14}});
  }
  svg.text(kLeft + kWidth / 2, kTop + kHeight + 46, "length N",
           {{"text-anchor", "middle"}, {"font-size", 14}});
  const char* const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#444444"};
  const char* const dashes[] = {"2 4", "10 4", "6 3 2 3", "", "4 4"};
  struct Line {
    double end;
    std::string points, name;
    Svg::Attributes look;
  };
  std::vector<Line> lines;  // methods that coincide share one
  for (int m = 0; m < 5; ++m) {
    Line line{0, "", name_of(kMethods[m]), {}};
    for (int power = kFirst; power <= kLast; ++power) {
      shape.length_q = shape.length_k = std::int64_t{1} << power;
      line.end = y_of(predicted_efficiency(shape, true, gpus, kMethods[m], false, machine));
      line.points += fmt::format("{:.1f},{:.1f} ", x_of(power), line.end);
    }
    line.look = {{"stroke", colours[m]}, {"stroke-width", 2.5}, {"stroke-dasharray", dashes[m]}};
    const auto same = std::find_if(lines.begin(), lines.end(),
                                   [&](const Line& other) { return other.points == line.points; });
    if (same != lines.end()) {
      same->name += " = " + line.name;
    } else {
      lines.push_back(line);
    }
  }
  // Names beside the ends of the lines, at least a line of text apart.
  std::sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) { return a.end < b.end; });
  double last = 0;
  for (const Line& line : lines) {
    Svg::Attributes curve = line.look;
    curve.insert(curve.end(), {{"points", line.points}, {"fill", "none"}});
    svg.element("polyline", curve);
    last = std::max(line.end + 5, last + 19);
    svg.line(kLeft + kWidth + 6, last - 5, kLeft + kWidth + 24, last - 5, line.look);
    svg.text(kLeft + kWidth + 28, last, line.name, {{"font-size", 14}});
  }
  return svg.str(kLeft + kWidth + kLabels, kTop + kHeight + 60);
}

}  // namespace fa::ring
