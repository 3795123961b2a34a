/// @file
/// A step of this lesson on one problem, for ./learn flatten, which says FA_STEP.
#include <cmath>
#include <vector>

#include "common/attention/host/one_problem.cuh"

namespace fa::FA_TARGET {

/// O and LSE of one head by the formulas.
inline void plain_attention(const OneSize& n, const float* q, const float* k, const float* v,
                            bool causal, double* o, double* lse) {
  for (int i = 0; i < n.length_q; ++i) {
    const int visible = causal ? i + 1 + n.length_k - n.length_q : n.length_k;
    std::vector<double> s(static_cast<std::size_t>(visible));
    double m = -INFINITY, l = 0;
    for (int j = 0; j < visible; ++j) {
      for (int e = 0; e < n.d; ++e) s[j] += double{q[i * n.d + e]} * k[j * n.d + e];
      s[j] /= std::sqrt(n.d);
      m = std::max(m, s[j]);
    }
    for (int j = 0; j < visible; ++j) l += std::exp(s[j] - m);
    lse[i] = m + std::log(l);
    for (int j = 0; j < visible; ++j) {
      for (int e = 0; e < n.d; ++e) o[i * n.d + e] += std::exp(s[j] - lse[i]) * v[j * n.d + e];
    }
  }
}

/// Attention with its tensors on the GPU.
template <class T>
struct OneForward {
  OneForward(int head_dim, bool causal, bool timed)
      : n(head_dim, timed),
        q(random_values(n.rows_q() * n.d, 1)),
        k(random_values(n.rows_k() * n.d, 2)),
        v(random_values(n.rows_k() * n.d, 3)) {
    n.describe(a, causal);
    a.q = to_device<T>(q);
    a.k = to_device<T>(k);
    a.v = to_device<T>(v);
    a.o = device_array<T>(n.rows_q() * n.d);
    a.lse = device_array<float>(n.rows_q());
  }
  bool right() const {
    std::vector<double> o(n.rows_q() * n.d), lse(n.rows_q());
    for (int head = 0; head < n.batch * n.heads; ++head) {
      const int kv_head = head / (n.heads / n.kv_heads);
      plain_attention(n, q.data() + head * a.q_strides.head, k.data() + kv_head * a.k_strides.head,
                      v.data() + kv_head * a.v_strides.head, a.causal,
                      o.data() + head * a.o_strides.head, lse.data() + head * n.length_q);
    }
    const double tolerance = std::is_same_v<T, float> ? 1e-5 : 1.0 / 512;
    const bool right_o = compare("O", from_device(a.o, o.size()), o, tolerance);
    return compare("LSE", from_device(a.lse, lse.size()), lse, 1e-4) && right_o;
  }

  OneSize n;
  std::vector<float> q, k, v;
  Attention<T> a{};
};

}  // namespace fa::FA_TARGET

/// With an argument the step is timed.
int main(int count, char**) {
  using namespace fa::FA_TARGET;
  return forward_step(std::integral_constant<int, FA_STEP>{}, OneRow<OneForward>{count > 1}) ? 0
                                                                                             : 1;
}
