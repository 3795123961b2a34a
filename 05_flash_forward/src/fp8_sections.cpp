#include "05_flash_forward/src/fp8_sections.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "01_naive_attention/head_matrix.hpp"
#include "05_flash_forward/src/fp8.hpp"
#include "common/cli/table.hpp"
#include "common/tensor/random.hpp"

namespace fa::flash::fp8 {
namespace {

using Heads = Tensor<float, 4>;

// What all codes of a type say about it.
template <class T>
void add_type(cli::Table& table) {
  double least = INFINITY, most = 0;
  int finite = 0, infinite = 0, nan = 0;
  for (std::uint32_t code = 0; code < 1u << (8 * sizeof(T)); ++code) {
    T x;
    std::memcpy(static_cast<void*>(&x), &code, sizeof x);  // the code's lowest bytes
    const double value = static_cast<float>(x);
    (std::isnan(value) ? nan : std::isinf(value) ? infinite : finite) += 1;
    if (std::isfinite(value) && value > 0) {
      least = std::min(least, value);
      most = std::max(most, value);
    }
  }
  const int fraction = FloatTraits<T>::fraction_bits;
  table.add({FloatTraits<T>::name, std::to_string(8 * static_cast<int>(sizeof(T)) - 1 - fraction),
             std::to_string(fraction), fmt::format("{:.6g}", most),
             fmt::format("2^{}", FloatTraits<T>::min_exponent),
             fmt::format("2^{:.0f}", std::log2(least)), fmt::format("2^{}", -fraction - 1),
             std::to_string(finite), std::to_string(infinite), std::to_string(nan)});
}

void show_types() {
  cli::Table table({"type", "exponent", "fraction", "largest", "least normal", "least", "u",
                    "finite codes", "infinite", "NaN"});
  add_type<e4m3>(table);
  add_type<e5m2>(table);
  add_type<half>(table);
  add_type<bfloat16>(table);
  fmt::print("{}", table.text());
}

// Normal elements, those of one column ten times as large. Without a column: each element with a
// probability of 0.001 has a normal part added that is ten times as large (the FlashAttention-3
// paper, section 4.3).
Heads with_outliers(const Shape<4>& shape, std::uint64_t seed, std::int64_t column = -1) {
  Heads result = normal_tensor<float, 4>(shape, seed);
  for (std::int64_t i = 0; i < result.count(); ++i) {
    const auto at = static_cast<std::uint64_t>(i);
    if (i % shape[3] == column) result.data()[i] *= 10;
    if (column < 0 && random_uniform(seed + 100, at) < 0.001) {
      result.data()[i] += static_cast<float>(10 * random_normal(seed + 200, at));
    }
  }
  return result;
}

struct NamedInputs {
  std::string name;
  Inputs inputs;
};

// Tensors of every kind: the input, normal ones, and two kinds of outliers.
std::vector<NamedInputs> all_inputs(cli::Program& program) {
  const cli::Input& given = program.input();
  const Shape<4> shape{1, 2, 512, 64};
  const auto normal = [&](std::uint64_t seed) { return normal_tensor<float, 4>(shape, seed); };
  return {{"input", {given.q, given.k, given.v}},
          {"normal", {normal(1), normal(2), normal(3)}},
          {"outliers", {with_outliers(shape, 1), with_outliers(shape, 2), with_outliers(shape, 3)}},
          {"column of K", {normal(1), with_outliers(shape, 2, 5), normal(3)}},
          {"column of Q, K", {with_outliers(shape, 1, 5), with_outliers(shape, 2, 5), normal(3)}}};
}

template <class T>
Heads through(const Heads& tensor, ScalePer per = ScalePer::kHead) {
  return converted<float>(dequantized(quantize<T>(tensor, per)));
}

// The largest |quantized - exact| of a row, both as vectors of head_dim elements, relative to the
// exact one.
double worst_row_error(const Heads& exact, const Heads& quantized) {
  const Matrix<double> x = all_rows(exact), error = all_rows(quantized) - x;
  return error.rowwise().norm().cwiseQuotient(x.rowwise().norm()).maxCoeff();
}

void show_scales(cli::Program& program) {
  cli::Table table({"tensor", "no scale", "per tensor", "per head", "per block"});
  const auto add = [&](const std::string& name, const Heads& x) {
    std::vector<std::string> cells{
        name,
        fmt::format("{:.1f}", 100 * worst_row_error(x, converted<float>(converted<e4m3>(x))))};
    for (const ScalePer per : {ScalePer::kTensor, ScalePer::kHead, ScalePer::kBlock}) {
      cells.push_back(fmt::format("{:.1f}", 100 * worst_row_error(x, through<e4m3>(x, per))));
    }
    table.add(cells);
  };
  const Shape<4> shape{1, 4, 256, 64};
  const auto times = [&](auto factor) {
    Heads x = normal_tensor<float, 4>(shape, 2);
    for_each_index(shape, [&](const Shape<4>& i) { x.view()[i] *= static_cast<float>(factor(i)); });
    return x;
  };
  add("input, K", program.input().k);
  add("normal", times([](auto&) { return 1; }));
  add("normal, times 1000", times([](auto&) { return 1000; }));
  add("normal, times 0.001", times([](auto&) { return 0.001; }));
  add("one of 4 heads, times 10^-5", times([](auto& i) { return i[1] == 1 ? 1e-5 : 1; }));
  add("64 of 256 rows, times 10^-5", times([](auto& i) { return i[2] < 64 ? 1e-5 : 1; }));
  fmt::print("Error of the worst row, % of its norm; e4m3, blocks of {} rows\n{}", kBlockRows,
             table.text());
}

// The sum of stored probabilities of a row, as a part of what it should be.
template <class T>
double stored_part(const std::vector<double>& scores, int offset) {
  const double m = *std::max_element(scores.begin(), scores.end());
  double sum = 0, stored = 0;
  for (const double s : scores) {
    const double p = std::exp(s - m);
    sum += p;
    const T code(static_cast<float>(std::ldexp(p, offset)));
    stored += std::ldexp(static_cast<float>(code), -offset);
  }
  return stored / sum;
}

void show_probs() {
  constexpr std::size_t kKeys = 4096;
  cli::Table table({"one score is larger by", "P of the others", "e4m3", "e4m3, P 2^8", "e5m2"});
  for (const double ahead : {0.0, 4.0, 6.0, 7.0, 8.0, 10.0, 12.0, 13.0}) {
    std::vector<double> scores(kKeys, 0);
    scores[0] = ahead;
    const double others = (kKeys - 1) / (kKeys - 1 + std::exp(ahead));
    table.add({fmt::format("{:g}", ahead), fmt::format("{:.3f}", others),
               fmt::format("{:.3f}", stored_part<e4m3>(scores, 0)),
               fmt::format("{:.3f}", stored_part<e4m3>(scores, kOffset)),
               fmt::format("{:.3f}", stored_part<e5m2>(scores, 0))});
  }
  fmt::print("{} scores, all equal but one; sum of the stored P / sum of P\n{}", kKeys,
             table.text());
}

// ||out - ref|| / ||ref||.
template <class T>
double relative_error(const Tensor<T, 4>& out, const Tensor<double, 4>& ref) {
  const Distance d = distance(out.view(), ref.view());
  return d.rms_error / d.rms_reference;
}

naive::Forward<double> reference(const Inputs& in) {
  return naive::forward<double>(converted<double>(in.q), converted<double>(in.k),
                                converted<double>(in.v));
}

void show_shares(const std::vector<NamedInputs>& all) {
  std::vector<std::string> headings{"in 8 bits"};
  std::vector<std::vector<std::string>> rows{{"Q and K"},   {"P"},         {"V"},
                                             {"all, e4m3"}, {"all, e5m2"}, {"none: bfloat16"}};
  for (const auto& [name, in] : all) {
    headings.push_back(name);
    const auto ref = reference(in).o;
    const auto wide = [&](const Heads& q, const Heads& k, const Heads& v) {
      return relative_error(naive::forward<float>(q, k, v).o, ref);
    };
    const auto q8 = through<e4m3>(in.q), k8 = through<e4m3>(in.k), v8 = through<e4m3>(in.v);
    const auto b16 = [](const Heads& x) { return converted<bfloat16>(x); };
    const double errors[] = {
        wide(q8, k8, in.v),
        relative_error(plain<e4m3>(in.q, in.k, in.v, false, kOffset).o, ref),
        wide(in.q, in.k, v8),
        relative_error(plain<e4m3>(q8, k8, v8, false, kOffset).o, ref),
        relative_error(
            plain<e5m2>(through<e5m2>(in.q), through<e5m2>(in.k), through<e5m2>(in.v), false, 0).o,
            ref),
        relative_error(naive::forward<bfloat16>(b16(in.q), b16(in.k), b16(in.v)).o, ref)};
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i].push_back(fmt::format("{:.1f}", 100 * errors[i]));
    }
  }
  cli::Table table(headings);
  for (auto& row : rows) table.add(row);
  fmt::print("Error of O, % of its norm\n{}", table.text());
}

// The largest score, its largest error, and the largest errors as parts of their bounds.
struct Bounds {
  double largest_s = 0, error_s = 0, s = 0, p = 0, o = 0;
};

// At most so far off is an element: half a step, of normal and of subnormal values; dividing by the
// scale in float32 adds a little.
Matrix<double> rounding_bound(const Matrix<double>& x, double scale) {
  return (1 + epsilon<float>()) * (0x1p-4 * x.array().abs()).max(0x1p-10 * scale);
}

// One head of Q, K and V, exact and in 8 bits, with their scales.
void add_head(Bounds& worst, const std::array<Matrix<double>, 3>& exact,
              const std::array<Matrix<double>, 3>& rounded, const std::array<double, 3>& scales) {
  const auto& [q, k, v] = exact;
  const double scale = AttentionOptions{}.scale_for(q.cols());
  const Matrix<double> e_q = rounding_bound(q, scales[0]), e_k = rounding_bound(k, scales[1]),
                       e_v = rounding_bound(v, scales[2]);
  const Matrix<double> bound_s = scale * (q.cwiseAbs() * e_k.transpose() +
                                          e_q * k.cwiseAbs().transpose() + e_q * e_k.transpose());
  const Matrix<double> s = scale * q * k.transpose(),
                       s8 = scale * rounded[0] * rounded[1].transpose();
  const Matrix<double> error_s = (s8 - s).cwiseAbs();
  worst.largest_s = std::max(worst.largest_s, s.cwiseAbs().maxCoeff());
  worst.error_s = std::max(worst.error_s, error_s.maxCoeff());
  worst.s = std::max(worst.s, error_s.cwiseQuotient(bound_s).maxCoeff());
  const Matrix<double> p = naive::safe_softmax(s), p8 = naive::safe_softmax(s8);
  Matrix<double> stored = p8, bound_p = p;
  for (std::int64_t i = 0; i < p.rows(); ++i) {
    const double eta = error_s.row(i).maxCoeff(), largest_p = p8.row(i).maxCoeff();
    for (std::int64_t j = 0; j < p.cols(); ++j) {
      const e4m3 code(static_cast<float>(std::ldexp(p8(i, j) / largest_p, kOffset)));
      stored(i, j) = largest_p * std::ldexp(static_cast<float>(code), -kOffset);
      // It is a float before it has 8 bits.
      bound_p(i, j) = std::expm1(2 * eta) * p(i, j) +
                      (1 + epsilon<float>()) * std::max(0x1p-4 * p8(i, j), 0x1p-18 * largest_p);
    }
  }
  const Matrix<double> error_p = (stored - p).cwiseAbs();
  worst.p = std::max(worst.p, error_p.cwiseQuotient(bound_p).maxCoeff());
  const Matrix<double> error_o = (stored * rounded[2] - p * v).cwiseAbs(),
                       bound_o = error_p * v.cwiseAbs() + stored * e_v;
  worst.o = std::max(worst.o, error_o.cwiseQuotient(bound_o).maxCoeff());
}

// One head, and the head of K and V that a head of Q reads.
template <class Tensor>
Matrix<double> head_of(const Tensor& tensor, std::int64_t b, std::int64_t h) {
  return naive::load_head(tensor.view(), b, h).template cast<double>();
}
template <class Body>
void for_heads(const Heads& q, const Heads& k, Body body) {
  for_each_index(Shape<2>{q.size(0), q.size(1)},
                 [&](const Shape<2>& i) { body(i[0], i[1], i[1] / (q.size(1) / k.size(1))); });
}

void show_bounds(cli::Program& program, const std::vector<NamedInputs>& all) {
  cli::Table table({"tensors", "largest S", "largest error of S", "S: error / bound",
                    "P: error / bound", "O: error / bound"});
  double largest = 0;
  for (const auto& [name, in] : all) {
    const Fp8Inputs in8 = quantize(in, ScalePer::kHead);
    const auto q = dequantized(in8.q), k = dequantized(in8.k), v = dequantized(in8.v);
    Bounds worst;
    for_heads(in.q, in.k, [&](std::int64_t b, std::int64_t h, std::int64_t kv) {
      add_head(worst, {head_of(in.q, b, h), head_of(in.k, b, kv), head_of(in.v, b, kv)},
               {head_of(q, b, h), head_of(k, b, kv), head_of(v, b, kv)},
               {in8.q.scale(b, h, 0), in8.k.scale(b, kv, 0), in8.v.scale(b, kv, 0)});
    });
    table.add({name, fmt::format("{:.1f}", worst.largest_s), fmt::format("{:.2f}", worst.error_s),
               fmt::format("{:.2f}", worst.s), fmt::format("{:.2f}", worst.p),
               fmt::format("{:.2f}", worst.o)});
    largest = std::max({largest, worst.s, worst.p, worst.o});
  }
  fmt::print("e4m3, a scale per head\n{}", table.text());
  program.check("errors of S, P and O / bounds", largest, 1);
}

// The loop over tiles in 8 bits, by the acceptance rule.
void check_forward(cli::Program& program) {
  for (const auto& [name, in] : all_inputs(program)) {
    const Fp8Inputs in8 = quantize(in, ScalePer::kHead);
    program.check(Fp8Checker(in8, false).check(name, forward(in8, false)));
  }
}

// Errors of q k over all pairs of rows, and sum q^2 k^2: the mean square is proportional to it if
// the error of each element is a random part of the element.
struct ProductErrors {
  double rms = 0, largest = 0, spread = 0;
};

ProductErrors product_errors(const Heads& q, const Heads& k) {
  const Heads q8 = through<e4m3>(q), k8 = through<e4m3>(k);
  const double count = static_cast<double>(q.size(0) * q.size(1) * q.size(2) * k.size(2));
  ProductErrors result;
  for_heads(q, k, [&](std::int64_t b, std::int64_t h, std::int64_t kv) {
    const Matrix<double> exact_q = head_of(q, b, h), exact_k = head_of(k, b, kv);
    const Matrix<double> error =
        head_of(q8, b, h) * head_of(k8, b, kv).transpose() - exact_q * exact_k.transpose();
    result.rms += error.squaredNorm() / count;
    result.largest = std::max(result.largest, error.cwiseAbs().maxCoeff());
    result.spread += (exact_q.cwiseAbs2() * exact_k.cwiseAbs2().transpose()).sum() / count;
  });
  result.rms = std::sqrt(result.rms);
  return result;
}

void show_rotation(cli::Program& program) {
  cli::Table table({"tensors", "rms", "rms, rotated", "predicted", "largest", "largest, rotated",
                    "O", "O, rotated"});
  for (const auto& [name, in] : all_inputs(program)) {
    const Inputs other{rotated(in.q), rotated(in.k), in.v};
    const ProductErrors before = product_errors(in.q, in.k),
                        after = product_errors(other.q, other.k);
    const double scale = AttentionOptions{}.scale_for(in.q.size(3));
    const auto ref = reference(in).o;
    const auto error_of_o = [&](const Inputs& inputs) {
      const auto out = forward(quantize(inputs, ScalePer::kHead), false);
      return fmt::format("{:.1f}", 100 * relative_error(out.o, ref));
    };
    table.add({name, fmt::format("{:.3f}", scale * before.rms),
               fmt::format("{:.3f}", scale * after.rms),
               fmt::format("{:.3f}", scale * before.rms * std::sqrt(after.spread / before.spread)),
               fmt::format("{:.2f}", scale * before.largest),
               fmt::format("{:.2f}", scale * after.largest), error_of_o(in), error_of_o(other)});
  }
  fmt::print("e4m3, a scale per head: errors of S, and of O in % of its norm\n{}", table.text());
}

}  // namespace

void add_sections(cli::Program& program) {
  program.section_on_request("fp8_types", "8 bits: the types", show_types);
  program.section_on_request("fp8_scales", "8 bits: scales", [&] { show_scales(program); });
  program.section_on_request("fp8_probs", "8 bits: probabilities of long rows", show_probs);
  program.section_on_request("fp8_bounds", "8 bits: bounds of the errors of S, P and O",
                             [&] { show_bounds(program, all_inputs(program)); });
  program.section_on_request("fp8_errors", "8 bits: what each tensor adds to the error of O",
                             [&] { show_shares(all_inputs(program)); });
  program.section_on_request("fp8_check", "8 bits: the loop over tiles, by the acceptance rule",
                             [&] { check_forward(program); });
  program.section_on_request("fp8_rotation", "8 bits: rotated queries and keys",
                             [&] { show_rotation(program); });
}

}  // namespace fa::flash::fp8
