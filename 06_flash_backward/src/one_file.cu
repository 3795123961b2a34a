/// @file
/// A backward kernel on small random inputs, compared with plain loops: both masks, grouped-query
/// attention, and lengths that are not multiples of a tile.
#include <cmath>
#include <cstdio>
#include <vector>

#include "06_flash_backward/kernels/workspace.cuh"
#include "common/flatten/host.cuh"

namespace fa::FA_TARGET {

/// Sizes of the inputs.
constexpr int kHeads = 4, kKvHeads = 2, kLengthQ = 130, kLengthK = 203;

/// The formulas for one head: P, then dV += P^T dO, dP = dO V^T, dS = P (dP - delta), dQ = dS K and
/// dK += dS^T Q. Each pointer is to the head's row 0; several heads add to d_k and d_v.
inline void plain_head(const float* q, const float* k, const float* v, const float* d_o,
                       int head_dim, bool causal, double* o, double* lse, double* d_q, double* d_k,
                       double* d_v) {
  const double scale = 1 / std::sqrt(head_dim);
  const auto dot = [=](const auto* x, const auto* y) {
    double sum = 0;
    for (int e = 0; e < head_dim; ++e) sum += double{x[e]} * y[e];
    return sum;
  };
  for (int i = 0; i < kLengthQ; ++i) {
    const int at = i * head_dim;
    const int visible = causal ? i + 1 + kLengthK - kLengthQ : kLengthK;
    std::vector<double> p(visible);
    double m = -INFINITY, l = 0;
    for (int j = 0; j < visible; ++j) {
      p[j] = scale * dot(q + at, k + j * head_dim);
      m = std::max(m, p[j]);
    }
    for (double& x : p) l += x = std::exp(x - m);
    lse[i] = m + std::log(l);
    for (int j = 0; j < visible; ++j) {
      p[j] /= l;
      for (int e = 0; e < head_dim; ++e) {
        o[at + e] += p[j] * v[j * head_dim + e];
        d_v[j * head_dim + e] += p[j] * d_o[at + e];
      }
    }
    const double delta = dot(d_o + at, o + at);
    for (int j = 0; j < visible; ++j) {
      const double d_s = scale * p[j] * (dot(d_o + at, v + j * head_dim) - delta);
      for (int e = 0; e < head_dim; ++e) {
        d_q[at + e] += d_s * k[j * head_dim + e];
        d_k[j * head_dim + e] += d_s * q[at + e];
      }
    }
  }
}

/// Runs a kernel of elements of type T with and without the causal mask.
/// @param what the workspace that it needs
/// @param run  called as run(gradient, stream)
template <class T, class Run>
bool check(int head_dim, const Workspace& what, Run run) {
  const std::size_t count_q = std::size_t{kHeads} * kLengthQ * head_dim;
  const std::size_t count_k = std::size_t{kKvHeads} * kLengthK * head_dim;
  const std::vector<float> q = random_values(count_q, 1);
  const std::vector<float> k = random_values(count_k, 2);
  const std::vector<float> v = random_values(count_k, 3);
  const std::vector<float> d_o = random_values(count_q, 4);
  const int head_q = kLengthQ * head_dim, head_k = kLengthK * head_dim;
  const RowStrides of_q{static_cast<std::int64_t>(count_q), head_q, head_dim};
  const RowStrides of_k{static_cast<std::int64_t>(count_k), head_k, head_dim};
  bool passed = true;
  for (const bool causal : {false, true}) {
    std::vector<double> o(count_q), lse(std::size_t{kHeads} * kLengthQ), d_q(count_q), d_k(count_k),
        d_v(count_k);
    for (int head = 0; head < kHeads; ++head) {
      const int kv_head = head / (kHeads / kKvHeads);
      plain_head(q.data() + head * head_q, k.data() + kv_head * head_k, v.data() + kv_head * head_k,
                 d_o.data() + head * head_q, head_dim, causal, o.data() + head * head_q,
                 lse.data() + head * kLengthQ, d_q.data() + head * head_q,
                 d_k.data() + kv_head * head_k, d_v.data() + kv_head * head_k);
    }
    AttentionGradient<T> a{};
    a.q = to_device<T>(q);
    a.k = to_device<T>(k);
    a.v = to_device<T>(v);
    a.d_o = to_device<T>(d_o);
    a.o = to_device<T>(std::vector<float>(o.begin(), o.end()));
    a.lse = to_device<float>(std::vector<float>(lse.begin(), lse.end()));
    a.d_q = device_array<T>(count_q);
    a.d_k = device_array<T>(count_k);
    a.d_v = device_array<T>(count_k);
    a.q_strides = a.o_strides = a.d_o_strides = a.d_q_strides = of_q;
    a.k_strides = a.v_strides = a.d_k_strides = a.d_v_strides = of_k;
    a.batch = 1;
    a.heads = kHeads;
    a.kv_heads = kKvHeads;
    a.length_q = kLengthQ;
    a.length_k = kLengthK;
    a.head_dim = a.head_dim_v = head_dim;
    a.scale = 1 / std::sqrt(static_cast<float>(head_dim));
    a.causal = causal;
    set_workspace(a, device_array<float>(workspace_floats(a, what)), what);
    run(a, Stream{});
    const double tolerance = std::is_same_v<T, float> ? 1e-4 : 0.02;
    std::printf("%s\n", causal ? "causal mask" : "no mask");
    passed &= compare("dQ", from_device(a.d_q, count_q), d_q, tolerance);
    passed &= compare("dK", from_device(a.d_k, count_k), d_k, tolerance);
    passed &= compare("dV", from_device(a.d_v, count_k), d_v, tolerance);
  }
  return passed;
}

/// Checks a step, then prints the milliseconds of a call with 16384 tokens in sequences of 4096,
/// without and with the causal mask. O is 0 and LSE a constant: times do not depend on them.
template <class T, class Run>
bool check_and_time(int head_dim, const Workspace& what, Run run) {
  if (!check<T>(head_dim, what, run)) return false;
  constexpr int batch = 4, length = 4096, columns = 2048;
  const std::size_t count = std::size_t{batch} * length * columns;
  AttentionGradient<T> a{};
  a.q = device_values<T>(count, 1);
  a.k = device_values<T>(count, 2);
  a.v = device_values<T>(count, 3);
  a.d_o = device_values<T>(count, 4);
  a.o = device_zeros<T>(count);
  a.lse = to_device<float>(std::vector<float>(count / head_dim, std::log(float{length})));
  a.d_q = device_array<T>(count);
  a.d_k = device_array<T>(count);
  a.d_v = device_array<T>(count);
  a.q_strides = a.k_strides = a.v_strides = a.o_strides = a.d_o_strides = a.d_q_strides =
      a.d_k_strides = a.d_v_strides = {std::int64_t{length} * columns,
                                       std::int64_t{length} * head_dim, head_dim};
  a.batch = batch;
  a.heads = a.kv_heads = columns / head_dim;
  a.length_q = a.length_k = length;
  a.head_dim = a.head_dim_v = head_dim;
  a.scale = 1 / std::sqrt(static_cast<float>(head_dim));
  set_workspace(a, device_array<float>(workspace_floats(a, what)), what);
  for (const bool causal : {false, true}) {
    a.causal = causal;
    std::printf("%s: %.4f ms\n", causal ? "causal" : "full",
                milliseconds([&] { run(a, Stream{}); }));
  }
  return true;
}

/// The step, with inputs of the types and sizes that it is for.
inline bool check_step() {
  //! [01_unfused]
  return check<float>(64, Workspace{0}, [](const auto& a, const Stream& stream) {
    launch_backward_unfused(a, device_array<float>(2 * score_count(a)), stream);
  });
  //! [01_unfused]
  //! [02_preprocess]
  return check<float>(64, Workspace{0}, [](const auto& a, const Stream& stream) {
    launch_backward_preprocess<64>(a, device_array<float>(2 * score_count(a)), stream);
  });
  //! [02_preprocess]
  //! [03_two_kernels]
  return check<float>(64, Workspace{0}, [](const auto& a, const Stream& stream) {
    launch_backward_two_kernels<64>(a, stream);
  });
  //! [03_two_kernels]
  //! [04_atomics]
  return check<float>(64, Workspace{0}, [](const auto& a, const Stream& stream) {
    launch_backward_atomics<64>(a, stream);
  });
  //! [04_atomics]
  //! [05_tensor_cores]
  return check<half>(64, Workspace{64}, [](const auto& a, const Stream& stream) {
    launch_backward_tensor_cores<64>(a, stream);
  });
  //! [05_tensor_cores]
  //! [06_swizzled_pipeline]
  return check<half>(128, Workspace{128}, [](const auto& a, const Stream& stream) {
    launch_backward_swizzled_pipeline<128>(a, stream);
  });
  //! [06_swizzled_pipeline]
  //! [07_deterministic]
  return check<half>(64, Workspace{0}, [](const auto& a, const Stream& stream) {
    launch_backward_deterministic<64>(a, stream);
  });
  //! [07_deterministic]
  //! [08_wgmma]
  return check<half>(128, Workspace{128}, [](const auto& a, const Stream& stream) {
    launch_backward_wgmma<128>(a, stream);
  });
  //! [08_wgmma]
  //! [09_warp_specialized]
  return check<half>(128, Workspace{128}, [](const auto& a, const Stream& stream) {
    launch_backward_warp_specialized<128>(a, stream);
  });
  //! [09_warp_specialized]
  //! [10_delayed_dq]
  return check<half>(128, Workspace{128}, [](const auto& a, const Stream& stream) {
    launch_backward_delayed_dq<128>(a, stream);
  });
  //! [10_delayed_dq]
  //! [11_ordered_dq]
  return check<half>(128, Workspace{128, true}, [](const auto& a, const Stream& stream) {
    launch_backward_ordered_dq<128>(a, stream);
  });
  //! [11_ordered_dq]
  //! [12_store_then_reduce]
  return check<half>(96, Workspace{96, true}, [](const auto& a, const Stream& stream) {
    launch_backward_store_then_reduce<96>(a, stream);
  });
  //! [12_store_then_reduce]
  //! [13_wide_heads]
  return check<half>(256, Workspace{0}, [](const auto& a, const Stream& stream) {
    launch_backward_wide_heads<256>(a, stream);
  });
  //! [13_wide_heads]
  //! [14_persistent]
  return check<half>(64, Workspace{64, true}, [](const auto& a, const Stream& stream) {
    launch_backward_persistent<false>(a, stream);
  });
  //! [14_persistent]
  //! [15_dependent_launch]
  return check<half>(64, Workspace{64, true}, [](const auto& a, const Stream& stream) {
    launch_backward_dependent<64>(a, false, stream);
  });
  //! [15_dependent_launch]
  //! [16_transposed_gradients]
  return check<half>(192, Workspace{192}, [](const auto& a, const Stream& stream) {
    launch_backward_transposed(a, stream);
  });
  //! [16_transposed_gradients]
  //! [17_split_tf32]
  return check<float>(64, Workspace{0}, [](const auto& a, const Stream& stream) {
    launch_backward_split_tf32<64>(a, stream);
  });
  //! [17_split_tf32]
  //! [18_block_pairs]
  return check<half>(192, Workspace{192}, [](const auto& a, const Stream& stream) {
    launch_backward_pairs<192>(a, stream);
  });
  //! [18_block_pairs]
  //! [19_split_groups]
  Attention<half> shape{};
  shape.batch = 1;
  shape.kv_heads = kKvHeads;
  shape.length_k = kLengthK;
  constexpr int parts = kHeads / kKvHeads;
  const Workspace what{64, true, d_kv_floats(shape, 128, 128, parts)};
  return check<half>(64, what, [](const auto& a, const Stream& stream) {
    launch_backward_split_groups<64>(a, parts, false, stream);
  });
  //! [19_split_groups]
  //! [20_split_wide_groups]
  Attention<half> shape{};
  shape.batch = 1;
  shape.kv_heads = kKvHeads;
  shape.length_k = kLengthK;
  constexpr int parts = kHeads / kKvHeads;
  const Workspace what{192, false, d_kv_floats(shape, kPairKeys, 2 * 192, parts)};
  return check<half>(192, what, [](const auto& a, const Stream& stream) {
    launch_backward_split_pairs<192>(a, parts, stream);
  });
  //! [20_split_wide_groups]
}

}  // namespace fa::FA_TARGET

int main() {
  return fa::FA_TARGET::check_step() ? 0 : 1;
}
