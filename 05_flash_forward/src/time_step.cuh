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
