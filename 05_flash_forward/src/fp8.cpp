#include "05_flash_forward/src/fp8.hpp"

#include <cmath>
#include <limits>

#include "01_naive_attention/head_matrix.hpp"
#include "common/attention/attention.cuh"
#include "common/tensor/random.hpp"

namespace fa::flash::fp8 {

template <class T>
Quantized<T> quantize(const Tensor<float, 4>& tensor, ScalePer per) {
  const Shape<4>& shape = tensor.shape();
  const std::int64_t rows = per == ScalePer::kBlock ? kBlockRows : shape[2];
  Quantized<T> result{Tensor<T, 4>(shape),
                      Tensor<float, 3>({shape[0], shape[1], (shape[2] + rows - 1) / rows}), rows};
  Tensor<float, 3>& scales = result.scales;
  for_each_index(shape, [&](const Shape<4>& i) {
    float& largest_value = scales(i[0], i[1], i[2] / rows);
    largest_value = std::max(largest_value, std::abs(tensor.view()[i]));
  });
  if (per == ScalePer::kTensor) {
    const float all = *std::max_element(scales.data(), scales.data() + scales.count());
    std::fill(scales.data(), scales.data() + scales.count(), all);
  }
  for_each_index(scales.shape(), [&](const Shape<3>& i) {
    float& scale = scales.view()[i];
    scale = scale == 0 ? 1 : scale / static_cast<float>(largest<T>());
  });
  for_each_index(shape, [&](const Shape<4>& i) {
    result.codes.view()[i] = static_cast<T>(tensor.view()[i] / result.scale(i[0], i[1], i[2]));
  });
  return result;
}

template <class T>
Tensor<double, 4> dequantized(const Quantized<T>& tensor) {
  Tensor<double, 4> result(tensor.codes.shape());
  for_each_index(result.shape(), [&](const Shape<4>& i) {
    result.view()[i] = static_cast<double>(static_cast<float>(tensor.codes.view()[i])) *
                       static_cast<double>(tensor.scale(i[0], i[1], i[2]));
  });
  return result;
}

Fp8Inputs quantize(const Inputs& inputs, ScalePer per) {
  return {quantize<e4m3>(inputs.q, per), quantize<e4m3>(inputs.k, per),
          quantize<e4m3>(inputs.v, per)};
}

namespace {

float dot(const Matrix<float>& a, std::int64_t i, const Matrix<float>& b, std::int64_t j) {
  float sum = 0;
  for (std::int64_t c = 0; c < a.cols(); ++c) sum += a(i, c) * b(j, c);
  return sum;
}

void store_row(Outputs& out, std::int64_t b, std::int64_t h, std::int64_t i,
               const std::vector<float>& o, float lse) {
  out.lse(b, h, i) = lse;
  for (std::size_t c = 0; c < o.size(); ++c) {
    out.o(b, h, i, c) = static_cast<float>(static_cast<bfloat16>(o[c]));
  }
}

}  // namespace

Outputs forward(const Fp8Inputs& in, bool causal) {
  const AttentionShape shape =
      attention_shape(in.q.codes.shape(), in.k.codes.shape(), in.v.codes.shape());
  const Shape<4> of_o = shape_of_o(in.q.codes.shape(), in.v.codes.shape());
  Outputs out{Tensor<float, 4>(of_o), Tensor<float, 3>({of_o[0], of_o[1], of_o[2]})};
  const auto exponent_scale =
      static_cast<float>(AttentionOptions{}.scale_for(shape.head_dim) * 1.4426950408889634);
  naive::for_each_head(shape, [&](std::int64_t b, std::int64_t h, std::int64_t kv) {
    const auto q8 = naive::load_head<e4m3>(in.q.codes, b, h);
    const auto k8 = naive::load_head<e4m3>(in.k.codes, b, kv);
    const auto v8 = naive::load_head<e4m3>(in.v.codes, b, kv);
    for (std::int64_t i = 0; i < shape.length_q; ++i) {
      const std::int64_t keys =
          causal ? std::max<std::int64_t>(0, i + 1 + shape.length_k - shape.length_q)
                 : shape.length_k;
      float m = -std::numeric_limits<float>::infinity(), l = 0;
      std::vector<float> o(static_cast<std::size_t>(of_o[3])), s(kBlockRows);
      // clang-format off
      //! [tiles]
      for (std::int64_t first = 0; first < keys; first += kBlockRows) {
        const std::int64_t count = std::min(kBlockRows, keys - first);
        const float factor = exponent_scale * in.q.scale(b, h, i)
                                            * in.k.scale(b, kv, first);
        const float m_before = m;
        for (std::int64_t j = 0; j < count; ++j) {
          s[j] = factor * dot(q8, i, k8, first + j);
          m = std::max(m, s[j]);
        }
        const float rescale = std::exp2(m_before - m);
        for (float& x : o) x *= rescale;
        float sum = 0;
        for (std::int64_t j = 0; j < count; ++j) {
          const float p = std::exp2(s[j] - m + kOffset);
          sum += p;
          const auto p8 = static_cast<float>(static_cast<e4m3>(p));
          for (std::size_t c = 0; c < o.size(); ++c) {
            o[c] += p8 * v8(first + j, c) * in.v.scale(b, kv, first);
          }
        }
        l = rescale * l + sum;
      }
      //! [tiles]
      // clang-format on
      for (float& x : o) x = l == 0 ? 0 : x / l;
      store_row(out, b, h, i, o, 0.6931471805599453f * (m - kOffset) + std::log(l));
    }
  });
  return out;
}

template <class T>
Outputs plain(const Tensor<float, 4>& q, const Tensor<float, 4>& k, const Tensor<float, 4>& v,
              bool causal, int offset) {
  AttentionOptions options;
  options.causal = causal;
  const AttentionShape shape = attention_shape(q.shape(), k.shape(), v.shape());
  auto forward = naive::forward<float>(q, k, v, options);
  const auto probs = naive::weights<float>(q, k, options);
  Outputs out{std::move(forward.o), std::move(forward.lse)};
  naive::for_each_head(shape, [&](std::int64_t b, std::int64_t h, std::int64_t kv) {
    const auto values = naive::load_head<float>(v, b, kv);
    for (std::int64_t i = 0; i < shape.length_q; ++i) {
      const View<const float, 1> p = probs.view().at(b).at(h).at(i);
      // exp(S - m) is P divided by the largest of its row.
      const float largest_p = *std::max_element(p.data(), p.data() + p.count());
      std::vector<float> o(static_cast<std::size_t>(v.size(3)));
      for (std::int64_t j = 0; j < shape.length_k && largest_p > 0; ++j) {
        const T stored = static_cast<T>(std::ldexp(p(j) / largest_p, offset));
        const float p8 = largest_p * std::ldexp(static_cast<float>(stored), -offset);
        for (std::size_t c = 0; c < o.size(); ++c) o[c] += p8 * values(j, c);
      }
      store_row(out, b, h, i, o, out.lse(b, h, i));
    }
  });
  return out;
}

Fp8Checker::Fp8Checker(const Fp8Inputs& inputs, bool causal) {
  AttentionOptions options;
  options.causal = causal;
  const auto q = dequantized(inputs.q), k = dequantized(inputs.k), v = dequantized(inputs.v);
  ref_ = naive::forward<double>(q, k, v, options);
  const Inputs seen{converted<float>(q), converted<float>(k), converted<float>(v)};
  plain_ = plain<e4m3>(seen.q, seen.k, seen.v, causal, kOffset);
  score_magnitude_ = score_magnitude(seen);
}

std::vector<Verdict> Fp8Checker::check(const std::string& name, const Outputs& outputs,
                                       double accumulator_epsilon) const {
  return {decide(name + ", o", distance(outputs.o.view(), ref_.o.view()),
                 distance(plain_.o.view(), ref_.o.view()), kForwardFactor, epsilon<bfloat16>()),
          decide(name + ", lse", distance(outputs.lse.view(), ref_.lse.view()),
                 distance(plain_.lse.view(), ref_.lse.view()), kForwardFactor, accumulator_epsilon,
                 score_magnitude_ + kOffset * 0.6931471805599453)};
}

Tensor<float, 4> rotated(const Tensor<float, 4>& tensor) {
  const std::int64_t d = tensor.size(3) & -tensor.size(3);
  Tensor<float, 4> result(tensor.shape());
  std::vector<double> row(static_cast<std::size_t>(d));
  for (std::int64_t first = 0; first < tensor.count(); first += d) {
    for (std::int64_t c = 0; c < d; ++c) {
      const bool negative = random_bits(7, static_cast<std::uint64_t>(c)) % 2 != 0;
      row[c] = (negative ? -1 : 1) * static_cast<double>(tensor.data()[first + c]);
    }
    //! [rotate]
    for (std::int64_t half = 1; half < d; half *= 2) {
      for (std::int64_t c = 0; c < d; ++c) {
        if ((c & half) != 0) continue;
        const double a = row[c], b = row[c + half];
        row[c] = a + b;
        row[c + half] = a - b;
      }
    }
    //! [rotate]
    for (std::int64_t c = 0; c < d; ++c) {
      result.data()[first + c] = static_cast<float>(row[c] / std::sqrt(static_cast<double>(d)));
    }
  }
  return result;
}

#define FA_FP8_FOR(T)                                                         \
  template Quantized<T> quantize<T>(const Tensor<float, 4>&, ScalePer);       \
  template Tensor<double, 4> dequantized<T>(const Quantized<T>&);             \
  template Outputs plain<T>(const Tensor<float, 4>&, const Tensor<float, 4>&, \
                            const Tensor<float, 4>&, bool, int);
FA_FP8_FOR(e4m3)
FA_FP8_FOR(e5m2)

}  // namespace fa::flash::fp8
