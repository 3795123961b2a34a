// Lesson 02: where exp overflows, how subtracting the maximum prevents it, and the error of each
// type.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "01_naive_attention/attention.hpp"
#include "02_safe_softmax/softmax.hpp"
#include "common/cli/program.hpp"
#include "common/cli/table.hpp"
#include "common/tensor/npy.hpp"
#include "common/tensor/random.hpp"

namespace {

using namespace fa;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <class T>
Tensor<T, 1> row_of(const std::vector<double>& values) {
  Tensor<T, 1> row({static_cast<std::int64_t>(values.size())});
  fill_with(row.view(), [&](std::uint64_t i) { return values[i]; });
  return row;
}

std::string joined(const Tensor<float, 1>& row, const char* format) {
  std::string text;
  for (std::int64_t j = 0; j < row.size(0); ++j) {
    text += j == 0 ? "" : "  ";
    text += fmt::format(fmt::runtime(format), row(j));
  }
  return text;
}

// Three scores for which the definition overflows and the safe form does not.
void worked_example() {
  const std::vector<float> x = {1000, 1001, 1002};
  const auto unsafe = safe::softmax(x), safe = safe::shifted_softmax(x);
  const double m = *std::max_element(x.begin(), x.end());
  cli::Table table({"s", "exp(s)", "exp(s)/sum", "s - max", "exp(s - max)", "softmax"});
  for (std::size_t j = 0; j < x.size(); ++j) {
    const double shifted = x[j] - m;
    table.add({fmt::format("{:g}", x[j]), fmt::format("{:g}", safe::exp_in<float>(x[j])),
               fmt::format("{:g}", std::abs(unsafe[j])), fmt::format("{:g}", shifted),
               fmt::format("{:.4f}", safe::exp_in<float>(shifted)),
               fmt::format("{:.4f}", safe[j])});
  }
  fmt::print("{}", table.text());
}

template <class T>
void add_range(cli::Table& table) {
  const safe::ExpRange range = safe::exp_range<T>();
  table.add({FloatTraits<T>::name, fmt::format("{:.3g}", largest<T>()),
             fmt::format("{:.2f}", range.overflows_after),
             fmt::format("{:.2f}", range.normal_until),
             fmt::format("{:.2f}", range.nonzero_until)});
}

void where_exp_fails() {
  cli::Table table({"type", "largest value", "exp is inf above", "subnormal below", "0 below"});
  add_range<half>(table);
  add_range<bfloat16>(table);
  add_range<float>(table);
  add_range<double>(table);
  fmt::print("{}", table.text());
}

// The softmax of x + c must equal that of x. If the sums are exact in float32, no bit may change;
// otherwise the change must stay within the bound for their rounding.
void shift_invariance(cli::Program& program) {
  constexpr int kRows = 1000, kLength = 50;
  int changed = 0;
  double worst_share = 0;
  for (int row = 0; row < kRows; ++row) {
    const auto seed = static_cast<std::uint64_t>(row);
    Tensor<float, 1> x({kLength}), exact({kLength}), inexact({kLength});
    // Multiples of 1/64 below 2^9: their sums need 16 bits, and float32 has 24.
    const auto grid = [&](double range, std::uint64_t i) {
      return std::floor(range * (random_uniform(seed, i) - 0.5)) / 64;
    };
    fill_with(x.view(), [&](std::uint64_t i) { return grid(1024, i); });
    const double c = grid(65536, 1000);
    const double odd = 1000 * (random_uniform(seed, 2000) - 0.5);
    double largest_sum = 0;
    for (std::int64_t j = 0; j < kLength; ++j) {
      exact(j) = static_cast<float>(x(j) + c);
      inexact(j) = static_cast<float>(x(j) + odd);
      largest_sum = std::max(largest_sum, std::abs(x(j) + odd));
    }
    Tensor<float, 1> p({kLength}), p_exact({kLength});
    safe::safe_softmax<float>(x, p);
    safe::safe_softmax<float>(exact, p_exact);
    changed += !std::equal(p.data(), p.data() + kLength, p_exact.data());
    // In float64, so that the only rounding is that of the sums.
    const auto wide = converted<double>(x), wide_odd = converted<double>(inexact);
    Tensor<double, 1> q({kLength}), q_odd({kLength});
    safe::safe_softmax<double>(wide, q);
    safe::safe_softmax<double>(wide_odd, q_odd);
    const double bound = safe::shift_error_bound<float>(largest_sum);
    for (std::int64_t j = 0; j < kLength; ++j) {
      const double change = std::abs(q_odd(j) - q(j)) / q(j);
      worst_share = std::max(worst_share, change / bound);
    }
  }
  fmt::print("{} rows of {} scores, each shifted by two constants\n", kRows, kLength);
  program.check_none("exact shift", changed, "changed row");
  program.check("rounded shift: largest change / bound", worst_share, 1);
}

void passes_over_memory() {
  constexpr std::int64_t kLength = 4096;
  const auto x = normal_tensor<float, 1>({kLength}, 1);
  Tensor<float, 1> y(x.shape());
  cli::Table table({"softmax", "passes", "reads", "writes", "accesses per score"});
  const auto add = [&](const char* name, const safe::Traffic& traffic) {
    table.add({name, std::to_string(traffic.passes), std::to_string(traffic.reads),
               std::to_string(traffic.writes),
               fmt::format("{:g}", static_cast<double>(traffic.reads + traffic.writes) / kLength)});
  };
  add("unsafe", safe::unsafe_softmax<float>(x, y));
  add("safe", safe::safe_softmax<float>(x, y));
  fmt::print("One row of {} scores; reads and writes in elements\n{}", kLength, table.text());
}

// max <= LSE <= max + ln n, and the derivative of LSE is the softmax.
void log_sum_exp_laws(cli::Program& program) {
  cli::Table table({"scores", "max", "LSE", "max + ln n"});
  const auto add = [&](const char* name, const std::vector<double>& scores) {
    const auto x = row_of<double>(scores);
    const double m = safe::row_max<double>(x);
    table.add({name, fmt::format("{:.4f}", m), fmt::format("{:.4f}", safe::log_sum_exp<double>(x)),
               fmt::format("{:.4f}", m + std::log(static_cast<double>(x.size(0))))});
  };
  add("1000, 1001, 1002", {1000, 1001, 1002});
  add("5, 5, 5, 5", {5, 5, 5, 5});
  add("0, 100", {0, 100});
  fmt::print("{}", table.text());

  constexpr std::int64_t kLength = 20;
  constexpr double kStep = 6e-6;  // about the cube root of epsilon
  auto x = normal_tensor<double, 1>({kLength}, 7, 5.0);
  Tensor<double, 1> p(x.shape());
  safe::safe_softmax<double>(x, p);
  double worst = 0;
  for (std::int64_t j = 0; j < kLength; ++j) {
    const double before = x(j);
    x(j) = before + kStep;
    const double above = safe::log_sum_exp<double>(x);
    x(j) = before - kStep;
    const double below = safe::log_sum_exp<double>(x);
    x(j) = before;
    worst = std::max(worst, std::abs((above - below) / (2 * kStep) - p(j)));
  }
  // Truncation h^2/6 times the third derivative (below 1), rounding |LSE| epsilon / h.
  const double rounding = std::abs(safe::log_sum_exp<double>(x)) * epsilon<double>() / kStep;
  program.check("derivative of LSE against softmax", worst, kStep * kStep + rounding);
}

void rows_at_the_edge() {
  cli::Table table({"scores", "unsafe", "safe", "LSE"});
  const auto add = [&](const char* name, const std::vector<double>& scores) {
    const auto x = row_of<float>(scores);
    Tensor<float, 1> unsafe(x.shape()), safe(x.shape());
    safe::unsafe_softmax<float>(x, unsafe);
    safe::safe_softmax<float>(x, safe);
    for (Tensor<float, 1>* row : {&unsafe, &safe}) {
      for (std::int64_t j = 0; j < row->size(0); ++j) {  // -nan prints as nan
        if (std::isnan((*row)(j))) (*row)(j) = static_cast<float>(kNan);
      }
    }
    table.add({name, joined(unsafe, "{:.3g}"), joined(safe, "{:.3g}"),
               fmt::format("{:.4g}", safe::log_sum_exp<float>(x))});
  };
  add("0, 1, -inf", {0, 1, -kInfinity});
  add("-inf, -inf, -inf", {-kInfinity, -kInfinity, -kInfinity});
  add("-1000, -1000, -1000", {-1000, -1000, -1000});
  add("-10000, 0, 10000", {-1e4, 0, 1e4});
  add("0, nan, 1", {0, kNan, 1});
  add("0, 1, inf", {0, 1, kInfinity});
  fmt::print("{}", table.text());
}

template <class T>
void add_stop(cli::Table& table, double limit) {
  const double stop = safe::sum_stops_at<T>(limit);
  table.add({FloatTraits<T>::name, stop < limit ? fmt::format("{:.0f}", stop) : "-",
             fmt::format("2^{}", FloatTraits<T>::fraction_bits + 1)});
}

void where_sums_stop() {
  constexpr double kLimit = 1 << 25;
  cli::Table table({"type of the sum", "1 + 1 + ... stops at", "predicted"});
  add_stop<bfloat16>(table, kLimit);
  add_stop<half>(table, kLimit);
  add_stop<float>(table, kLimit);
  add_stop<double>(table, kLimit);
  fmt::print("{}-: does not stop up to 2^25\n", table.text());
}

// The scores of all queries of the input, as in lesson 01: [rows, length_k].
Tensor<double, 2> input_scores(cli::Program& program) {
  const cli::Input& input = program.input();
  const AttentionShape shape = attention_shape(input.q.shape(), input.k.shape(), input.v.shape());
  const double scale = AttentionOptions{}.scale_for(shape.head_dim);
  const std::int64_t group = shape.heads / shape.kv_heads;
  Tensor<double, 2> scores({shape.batch * shape.heads * shape.length_q, shape.length_k});
  std::int64_t row = 0;
  for_each_index(Shape<3>{shape.batch, shape.heads, shape.length_q}, [&](const Shape<3>& i) {
    for (std::int64_t j = 0; j < shape.length_k; ++j) {
      double s = 0;
      for (std::int64_t c = 0; c < shape.head_dim; ++c) {
        s += static_cast<double>(input.q(i[0], i[1], i[2], c)) *
             static_cast<double>(input.k(i[0], i[1] / group, j, c));
      }
      scores(row, j) = scale * s;
    }
    ++row;
  });
  return scores;
}

// The errors of a softmax over many rows.
struct Quality {
  double worst = 0;         // largest error, relative to the row's largest element
  double worst_sum = 1;     // the sum of a row that is farthest from 1
  std::int64_t broken = 0;  // rows with a NaN, or with zeros only
};

template <class T, class A, bool Safe>
Quality quality(const Tensor<double, 2>& scores) {
  Quality result;
  for (std::int64_t i = 0; i < scores.size(0); ++i) {
    const auto x = converted<T>(scores.view().at(i));
    const auto seen = converted<double>(x);  // the rounded input
    Tensor<T, 1> y(x.shape());
    Tensor<double, 1> ref(x.shape());
    if constexpr (Safe) {
      safe::safe_softmax<T, A>(x, y);
    } else {
      safe::unsafe_softmax<T, A>(x, y);
    }
    safe::safe_softmax<double>(seen, ref);
    const double top = safe::row_max<double>(ref);
    double sum = 0, error = 0;
    for (std::int64_t j = 0; j < x.size(0); ++j) {
      const double p = safe::exact(y(j));
      sum += p;
      error = std::max(error, std::abs(p - ref(j)) / top);
    }
    if (!std::isfinite(sum) || sum == 0) {
      ++result.broken;
      continue;
    }
    result.worst = std::max(result.worst, error);
    if (std::abs(sum - 1) > std::abs(result.worst_sum - 1)) {
      result.worst_sum = sum;
    }
  }
  return result;
}

template <class T, class A, bool Safe>
void add_quality(cli::Table& table, const Tensor<double, 2>& scores) {
  const Quality q = quality<T, A, Safe>(scores);
  const bool all_broken = q.broken == scores.size(0);
  table.add({FloatTraits<T>::name, FloatTraits<A>::name, Safe ? "max" : "nothing",
             std::to_string(q.broken), all_broken ? "-" : fmt::format("{:.0e}", q.worst),
             all_broken ? "-" : fmt::format("{:.3f}", q.worst_sum)});
}

void print_quality(const Tensor<double, 2>& scores) {
  cli::Table table({"storage type", "arithmetic", "subtracted", "NaN or zero rows", "largest error",
                    "worst sum"});
  add_quality<float, float, false>(table, scores);
  add_quality<float, float, true>(table, scores);
  add_quality<half, float, false>(table, scores);
  add_quality<half, float, true>(table, scores);
  add_quality<half, half, true>(table, scores);
  add_quality<bfloat16, float, false>(table, scores);
  add_quality<bfloat16, float, true>(table, scores);
  add_quality<bfloat16, bfloat16, true>(table, scores);
  fmt::print("{}", table.text());
}

void types_on_random_scores(cli::Program& program) {
  const auto scores = normal_tensor<double, 2>({20, 4096}, 1);
  fmt::print("{} rows of {} normal scores\n", scores.size(0), scores.size(1));
  print_quality(scores);

  double worst_share = 0;
  for (std::int64_t i = 0; i < scores.size(0); ++i) {
    const auto x = converted<float>(scores.view().at(i));
    const auto seen = converted<double>(x);
    Tensor<float, 1> y(x.shape());
    Tensor<double, 1> ref(x.shape());
    safe::safe_softmax<float>(x, y);
    safe::safe_softmax<double>(seen, ref);
    const auto [low, high] = std::minmax_element(seen.data(), seen.data() + seen.count());
    const double bound = safe::relative_error_bound<float>(seen.count(), *high - *low);
    for (std::int64_t j = 0; j < x.size(0); ++j) {
      worst_share = std::max(worst_share, std::abs(y(j) - ref(j)) / ref(j) / bound);
    }
  }
  program.check("float32: largest error / bound", worst_share, 1);
}

void types_on_the_input(cli::Program& program) {
  const cli::Input& input = program.input();
  const Tensor<double, 2> scores = input_scores(program);
  const auto [low, high] = std::minmax_element(scores.data(), scores.data() + scores.count());
  fmt::print("{} rows of {} scores of the input, from {:.1f} to {:.1f}\n", scores.size(0),
             scores.size(1), *low, *high);
  print_quality(scores);

  // Lesson 01 shares no code with this lesson's softmax.
  const auto ref = naive::weights<double>(converted<double>(input.q), converted<double>(input.k));
  const auto plain = naive::weights<float>(input.q, input.k);
  const auto lse = naive::forward<double>(converted<double>(input.q), converted<double>(input.k),
                                          converted<double>(input.v))
                       .lse;
  Tensor<float, 4> weights(ref.shape());
  const View<float, 2> rows(weights.data(), scores.shape());
  const auto single = converted<float>(scores);
  double worst_lse = 0, largest_lse = 0;
  for (std::int64_t i = 0; i < scores.size(0); ++i) {
    safe::safe_softmax<float>(single.view().at(i), rows.at(i));
    const double expected = lse.data()[i];
    worst_lse =
        std::max(worst_lse, std::abs(safe::log_sum_exp<double>(scores.view().at(i)) - expected));
    largest_lse = std::max(largest_lse, std::abs(expected));
  }
  program.check(accept("P of the input", weights, ref, plain));
  // Sums of head_dim products and of length_k exponentials, in float64.
  program.check("LSE of the input", worst_lse,
                static_cast<double>(input.q.size(3) + scores.size(1)) * epsilon<double>() *
                    std::max(1.0, largest_lse));
  if (program.save_directory()) {
    write_npy(*program.save_directory() / "weights.npy", weights);
  }
}

}  // namespace

int main(int argc, char** argv) {
  cli::Program program("02_safe_softmax",
                       "Lesson 02: where exp overflows, and the softmax that avoids it.");
  program.section("example", "Worked example: three large scores", worked_example);
  program.section("overflow", "Range of exp in each type", where_exp_fails);
  program.section("shift", "Softmax of shifted scores", [&] { shift_invariance(program); });
  program.section("passes", "Passes over the row", passes_over_memory);
  program.section("logsumexp", "Bounds and derivative of LSE", [&] { log_sum_exp_laws(program); });
  program.section("masked", "Masked rows, infinities and NaN", rows_at_the_edge);
  program.section("sums", "Where a sum of ones stops growing", where_sums_stop);
  program.section("types", "Error of each type, random scores",
                  [&] { types_on_random_scores(program); });
  program.section("input", "Error of each type, scores of the input",
                  [&] { types_on_the_input(program); });
  return program.run(argc, argv);
}
