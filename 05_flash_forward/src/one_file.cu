/// @file
/// A forward kernel on small random inputs, compared with plain loops. Both masks, grouped-query
/// attention, and lengths that are no multiple of a tile.
#include <cmath>
#include <cstdio>
#include <vector>

#include "common/attention/attention.cuh"
#include "common/flatten/host.cuh"

namespace fa::FA_TARGET {

/// Sizes of the inputs.
constexpr int kBatch = 2, kHeads = 4, kKvHeads = 2, kLengthQ = 200, kLengthK = 333;

/// O, of head_dim columns, and LSE of one head by the formulas.
inline void plain_attention(const float* q, const float* k, const float* v, int head_dim,
                            bool causal, double* o, double* lse) {
  for (int i = 0; i < kLengthQ; ++i) {
    const int visible = causal ? i + 1 + kLengthK - kLengthQ : kLengthK;
    std::vector<double> s(static_cast<std::size_t>(visible));
    double m = -INFINITY, l = 0;
    for (int j = 0; j < visible; ++j) {
      for (int e = 0; e < head_dim; ++e) {
        s[j] += double{q[i * head_dim + e]} * k[j * head_dim + e];
      }
      s[j] /= std::sqrt(head_dim);
      m = std::max(m, s[j]);
    }
    for (int j = 0; j < visible; ++j) l += std::exp(s[j] - m);
    lse[i] = m + std::log(l);
    for (int j = 0; j < visible; ++j) {
      for (int e = 0; e < head_dim; ++e) {
        o[i * head_dim + e] += std::exp(s[j] - lse[i]) * v[j * head_dim + e];
      }
    }
  }
}

/// Runs a kernel of elements of type T with and without the causal mask.
/// @param run called as run(attention, stream)
template <class T, class Run>
bool check(int head_dim, Run run) {
  const std::size_t rows_q = kBatch * kHeads * kLengthQ;
  const std::size_t rows_k = kBatch * kKvHeads * kLengthK;
  const std::vector<float> q = random_values(rows_q * head_dim, 1);
  const std::vector<float> k = random_values(rows_k * head_dim, 2);
  const std::vector<float> v = random_values(rows_k * head_dim, 3);
  const RowStrides of_q{std::int64_t{kHeads} * kLengthQ * head_dim,
                        std::int64_t{kLengthQ} * head_dim, head_dim};
  const RowStrides of_k{std::int64_t{kKvHeads} * kLengthK * head_dim,
                        std::int64_t{kLengthK} * head_dim, head_dim};
  bool passed = true;
  for (const bool causal : {false, true}) {
    T* const o = device_array<T>(rows_q * head_dim);
    float* const lse = device_array<float>(rows_q);
    const Attention<T> a{to_device<T>(q),
                         to_device<T>(k),
                         to_device<T>(v),
                         o,
                         lse,
                         of_q,
                         of_k,
                         of_k,
                         of_q,
                         kBatch,
                         kHeads,
                         kKvHeads,
                         kLengthQ,
                         kLengthK,
                         head_dim,
                         head_dim,
                         1 / std::sqrt(static_cast<float>(head_dim)),
                         causal,
                         Dropout{}};
    run(a, Stream{});
    std::vector<double> right_o(rows_q * head_dim), right_lse(rows_q);
    for (int head = 0; head < kBatch * kHeads; ++head) {
      const int kv_head = head / (kHeads / kKvHeads);
      plain_attention(q.data() + head * of_q.head, k.data() + kv_head * of_k.head,
                      v.data() + kv_head * of_k.head, head_dim, causal,
                      right_o.data() + head * of_q.head, right_lse.data() + head * kLengthQ);
    }
    const double bits = std::is_same_v<T, float>  ? 1e-5
                        : std::is_same_v<T, half> ? 1.0 / 512
                                                  : 1.0 / 64;
    std::printf("%s\n", causal ? "causal mask" : "no mask");
    passed &= compare("O", from_device(o, rows_q * head_dim), right_o, bits);
    passed &= compare("LSE", from_device(lse, rows_q), right_lse, 1e-4);
  }
  return passed;
}

/// Checks a step, then prints the milliseconds of a call with 16384 tokens in sequences of 4096,
/// without and with the causal mask.
template <class T, class Run>
bool check_and_time(int head_dim, Run run) {
  if (!check<T>(head_dim, run)) return false;
  constexpr int batch = 4, length = 4096, columns = 2048;
  const std::size_t count = std::size_t{batch} * length * columns;
  Attention<T> a{};
  a.q = device_values<T>(count, 1);
  a.k = device_values<T>(count, 2);
  a.v = device_values<T>(count, 3);
  a.o = device_array<T>(count);
  a.lse = device_array<float>(count / head_dim);
  a.q_strides = a.k_strides = a.v_strides =
      a.o_strides = {std::int64_t{length} * columns, std::int64_t{length} * head_dim, head_dim};
  a.batch = batch;
  a.heads = a.kv_heads = columns / head_dim;
  a.length_q = a.length_k = length;
  a.head_dim = a.head_dim_v = head_dim;
  a.scale = 1 / std::sqrt(static_cast<float>(head_dim));
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
  return check<float>(64, [](const auto& a, const Stream& stream) {
    launch_unfused(a, stream, device_array<float>(unfused_workspace(a)));
  });
  //! [01_unfused]
  //! [02_flash_1]
  return check<float>(64, [](const auto& a, const Stream& stream) {
    launch_flash_1(a, stream, device_array<float>(flash_1_workspace(a)));
  });
  //! [02_flash_1]
  //! [03_flash_2]
  return check<float>(64, [](const auto& a, const Stream& stream) { launch_flash_2(a, stream); });
  //! [03_flash_2]
  //! [04_register_tiles]
  return check<float>(64, [](const auto& a, const Stream& stream) {
    launch_register_tiles<FloatTile<64>>(a, stream);
  });
  //! [04_register_tiles]
  //! [05_tensor_cores]
  return check<half>(64,
                     [](const auto& a, const Stream& stream) { launch_tensor_cores(a, stream); });
  //! [05_tensor_cores]
  //! [06_swizzle]
  return check<half>(64, [](const auto& a, const Stream& stream) { launch_swizzle(a, stream); });
  //! [06_swizzle]
  //! [07_pipeline]
  return check<half>(64, [](const auto& a, const Stream& stream) { launch_pipeline(a, stream); });
  //! [07_pipeline]
  //! [08_edge_masks]
  return check<half>(64, [](const auto& a, const Stream& stream) {
    launch_edge_masks<ForwardTileFor<64>>(a, stream);
  });
  //! [08_edge_masks]
  //! [09_wgmma]
  return check<half>(128, [](const auto& a, const Stream& stream) { launch_wgmma(a, stream); });
  //! [09_wgmma]
  //! [10_warp_specialized]
  return check<half>(
      128, [](const auto& a, const Stream& stream) { launch_warp_specialized(a, stream); });
  //! [10_warp_specialized]
  //! [11_overlap]
  return check<half>(128, [](const auto& a, const Stream& stream) { launch_overlap(a, stream); });
  //! [11_overlap]
  //! [12_ping_pong]
  return check<half>(128, [](const auto& a, const Stream& stream) { launch_ping_pong(a, stream); });
  //! [12_ping_pong]
  //! [13_persistent]
  return check<half>(128, [](const auto& a, const Stream& stream) {
    launch_persistent(a, stream, device_zeros<unsigned>(1));
  });
  //! [13_persistent]
  //! [14_lazy_rescaling]
  return check<half>(128, [](const auto& a, const Stream& stream) {
    launch_lazy_rescaling(a, stream, device_zeros<unsigned>(1));
  });
  //! [14_lazy_rescaling]
  //! [15_warpgroup_tiles]
  return check<half>(128, [](const auto& a, const Stream& stream) {
    launch_warpgroup_tiles<128>(a, stream, device_zeros<unsigned>(1));
  });
  //! [15_warpgroup_tiles]
  //! [16_mirrored_tiles]
  return check<half>(
      128, [](const auto& a, const Stream& stream) { launch_mirrored_tiles<128>(a, stream); });
  //! [16_mirrored_tiles]
  //! [17_split_tf32]
  return check<float>(64, [](const auto& a, const Stream& stream) {
    launch_split_tf32<SplitForwardTile<64>>(a, stream);
  });
  //! [17_split_tf32]
}

}  // namespace fa::FA_TARGET

int main() {
  return fa::FA_TARGET::check_step() ? 0 : 1;
}
