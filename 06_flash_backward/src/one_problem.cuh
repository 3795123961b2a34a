/// @file
/// A step of this lesson on one problem, for ./learn flatten, which says FA_STEP.
#include <cmath>
#include <vector>

#include "06_flash_backward/kernels/gradient.cuh"
#include "common/attention/host/one_problem.cuh"

namespace fa::FA_TARGET {

/// The formulas for one head: P, then dV += P^T dO, dP = dO V^T, dS = P (dP - delta), dQ = dS K and
/// dK += dS^T Q. Each pointer is to the head's row 0; several heads add to d_k and d_v.
inline void plain_head(const OneSize& n, const float* q, const float* k, const float* v,
                       const float* d_o, bool causal, double* o, double* lse, double* d_q,
                       double* d_k, double* d_v) {
  const double scale = 1 / std::sqrt(n.d);
  const auto dot = [=](const auto* x, const auto* y) {
    double sum = 0;
    for (int e = 0; e < n.d; ++e) sum += double{x[e]} * y[e];
    return sum;
  };
  for (int i = 0; i < n.length_q; ++i) {
    const int at = i * n.d;
    const int visible = causal ? i + 1 + n.length_k - n.length_q : n.length_k;
    std::vector<double> p(visible);
    double m = -INFINITY, l = 0;
    for (int j = 0; j < visible; ++j) {
      p[j] = scale * dot(q + at, k + j * n.d);
      m = std::max(m, p[j]);
    }
    for (double& x : p) l += x = std::exp(x - m);
    lse[i] = m + std::log(l);
    for (int j = 0; j < visible; ++j) {
      p[j] /= l;
      for (int e = 0; e < n.d; ++e) {
        o[at + e] += p[j] * v[j * n.d + e];
        d_v[j * n.d + e] += p[j] * d_o[at + e];
      }
    }
    const double delta = dot(d_o + at, o + at);
    for (int j = 0; j < visible; ++j) {
      const double d_s = scale * p[j] * (dot(d_o + at, v + j * n.d) - delta);
      for (int e = 0; e < n.d; ++e) {
        d_q[at + e] += d_s * k[j * n.d + e];
        d_k[j * n.d + e] += d_s * q[at + e];
      }
    }
  }
}

/// Gradients with their tensors on the GPU.
template <class T>
struct OneGradient {
  OneGradient(int head_dim, bool causal, bool timed)
      : n(head_dim, timed),
        o(n.rows_q() * n.d),
        lse(n.rows_q(), timed ? std::log(n.length_k) : 0),
        d_q(o.size()),
        d_k(n.rows_k() * n.d),
        d_v(d_k.size()) {
    const std::vector<float> q = random_values(o.size(), 1), k = random_values(d_k.size(), 2),
                             v = random_values(d_k.size(), 3), d_o = random_values(o.size(), 4);
    n.describe(a, causal);
    for (int head = 0; head < n.batch * n.heads && !timed; ++head) {
      const std::int64_t at = head * a.q_strides.head;
      const std::int64_t kv = head / (n.heads / n.kv_heads) * a.k_strides.head;
      plain_head(n, q.data() + at, k.data() + kv, v.data() + kv, d_o.data() + at, causal,
                 o.data() + at, lse.data() + head * n.length_q, d_q.data() + at, d_k.data() + kv,
                 d_v.data() + kv);
    }
    a.q = to_device<T>(q);
    a.k = to_device<T>(k);
    a.v = to_device<T>(v);
    a.d_o = to_device<T>(d_o);
    a.o = to_device<T>(std::vector<float>(o.begin(), o.end()));
    a.lse = to_device<float>(std::vector<float>(lse.begin(), lse.end()));
    a.d_q = device_array<T>(d_q.size());
    a.d_k = device_array<T>(d_k.size());
    a.d_v = device_array<T>(d_v.size());
    a.d_o_strides = a.d_q_strides = a.q_strides;
    a.d_k_strides = a.d_v_strides = a.k_strides;
  }
  bool right() const {
    const double tolerance = std::is_same_v<T, float> ? 1e-4 : 0.02;
    const bool right_d_q = compare("dQ", from_device(a.d_q, d_q.size()), d_q, tolerance);
    const bool right_d_k = compare("dK", from_device(a.d_k, d_k.size()), d_k, tolerance);
    return compare("dV", from_device(a.d_v, d_v.size()), d_v, tolerance) && right_d_k && right_d_q;
  }

  OneSize n;
  std::vector<double> o, lse, d_q, d_k, d_v;
  AttentionGradient<T> a{};
};

}  // namespace fa::FA_TARGET

/// With an argument the step is timed.
int main(int count, char**) {
  using namespace fa::FA_TARGET;
  return backward_step(std::integral_constant<int, FA_STEP>{}, OneRow<OneGradient>{count > 1}) ? 0
                                                                                               : 1;
}
