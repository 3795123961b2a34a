// The C interface on tensors of more than 2^31 elements.
#include <array>
#include <cstdint>
#include <memory>
#include <stdexcept>

#include <doctest/doctest.h>

#include "06_flash_backward/src/problem.hpp"
#include "06_flash_backward/tests/gradient_call.cuh"
#include "common/attention/tests/c_interface.cuh"

namespace fa::FA_TARGET {
namespace {

using backward::Gradients;

// Rows of a tensor that lies anywhere in memory of the device, to or from the host.
template <class H>
void copy_rows(H* device, const fa_strides& strides, Tensor<H, 4>& host, CopyKind kind) {
  const Shape<4> shape = host.shape();
  const auto bytes = sizeof(H) * static_cast<std::size_t>(shape[3]);
  for_each_index(Shape<3>{shape[0], shape[1], shape[2]}, [&](const Shape<3>& at) {
    H* there = device + at[0] * strides.batch + at[1] * strides.head + at[2] * strides.row;
    H* here = &host(at[0], at[1], at[2], 0);
    const bool up = kind == CopyKind::kToDevice;
    device_copy(up ? there : here, up ? here : there, bytes, kind);
  });
}

// Memory of the device that is not written before; null, with a message, where there is not enough.
std::shared_ptr<void> untouched(std::size_t bytes) {
  try {
    return {device_allocate(bytes), device_free};
  } catch (const std::runtime_error& error) {
    MESSAGE("skipped: ", error.what());
    return nullptr;
  }
}

// All tensors of a problem with these distances, one after the other in the first `apart` elements
// of memory.
template <class H>
void check_far(const Problem& problem, const fa_strides& strides, std::int64_t apart,
               bool deterministic) {
  const Shape<4> of_q = problem.shape_of_q(), of_kv = problem.shape_of_kv();
  const std::int64_t last =
      (of_q[0] - 1) * strides.batch + (of_q[1] - 1) * strides.head + (of_q[2] - 1) * strides.row;
  REQUIRE(last > std::int64_t{1} << 31);
  const auto memory = untouched(sizeof(H) * static_cast<std::size_t>(last + 8 * apart + of_q[3]));
  if (memory == nullptr) return;
  const auto in = backward::make_inputs(problem, Values::kNormal, 1);
  H* const first = static_cast<H*>(memory.get());
  int placed = 0;
  const auto place = [&](const Tensor<float, 4>& values) {
    H* const at = first + placed++ * apart;
    Tensor<H, 4> typed = converted<H>(values);
    copy_rows(at, strides, typed, CopyKind::kToDevice);
    return at;
  };
  const Tensor<float, 4> none_q(of_q), none_kv(of_kv);
  DeviceBuffer<float> lse(in.lse);
  G g = given_gradient(problem, deterministic);
  g.attention.lse = lse.data();
  std::array<void*, 8> at{};
  const Tensor<float, 4>* const values[] = {&in.forward.q, &in.forward.k, &in.forward.v, &in.o,
                                            &in.d_o,       &none_q,       &none_kv,      &none_kv};
  for (std::size_t i = 0; i < at.size(); ++i) at[i] = place(*values[i]);
  set_tensors(g, at, strides, strides);
  run(g);
  const auto result = [&](void* from, const Shape<4>& shape) {
    Tensor<H, 4> typed(shape);
    copy_rows(static_cast<H*>(from), strides, typed, CopyKind::kToHost);
    return converted<float>(typed);
  };
  check_result(backward::Checker(problem, in), problem, fa_backward_kernel_name(&g),
               Gradients{result(g.d_q, of_q), result(g.d_k, of_kv), result(g.d_v, of_kv)});
}

TEST_CASE("rows that are more than 2^31 elements away") {
  const std::int64_t d = 64, far = (std::int64_t{1} << 31) + d;
  for (const bool deterministic : {false, true}) {
    // Sequences far apart, then rows of which the last ones are far away.
    Problem problem = problem_of(Type::kBFloat16, {2, 2, 2, 40, 40, d}, true);
    check_far<fa::bfloat16>(problem, {far, 40 * d, d}, 2 * 40 * d, deterministic);
    check_far<fa::bfloat16>(problem, {2 * d, d, far / 39 / d * d + d}, 4 * d, deterministic);
    problem.type = Type::kFloat32;
    check_far<float>(problem, {far, 40 * d, d}, 2 * 40 * d, deterministic);
    check_far<float>(problem, {2 * d, d, far / 39 / d * d + d}, 4 * d, deterministic);
  }
}

#if defined(__CUDACC__)
TEST_CASE("a workspace and a dQ of more than 2^31 elements") {
  // Many sequences that are all the same one: what the call only reads lies at the same place. O
  // does not, since the interface refuses an O whose rows overlap, here as in the forward pass.
  const std::int64_t batch = 65535, heads = 4, n = 128, n_k = 16, d = 64;
  const Problem one = problem_of(Type::kBFloat16, {1, heads, heads, n, n_k, d}, true);
  const auto in = backward::make_inputs(one, Values::kNormal, 1);
  const backward::Checker of(one, in);
  const std::int64_t q_size = heads * n * d, k_size = heads * n_k * d;
  const auto memory_of = [&](std::int64_t elements) {
    return untouched(2 * static_cast<std::size_t>(elements));
  };
  const auto d_q = memory_of(batch * q_size), d_k = memory_of(batch * k_size),
             d_v = memory_of(batch * k_size), o = memory_of(batch * q_size);
  const auto lse = untouched(sizeof(float) * static_cast<std::size_t>(batch * heads * n));
  if (!d_q || !d_k || !d_v || !o || !lse) return;
  using H = fa::bfloat16;
  const auto typed = [](const Tensor<float, 4>& values) {
    return DeviceBuffer<H>(converted<H>(values));
  };
  auto q = typed(in.forward.q), k = typed(in.forward.k), v = typed(in.forward.v),
       d_o = typed(in.d_o);
  const auto one_o = converted<H>(in.o);
  for (std::int64_t i = 0; i < batch; ++i) {
    device_copy(static_cast<H*>(o.get()) + i * q_size, one_o.data(),
                sizeof(H) * static_cast<std::size_t>(q_size), CopyKind::kToDevice);
    device_copy(static_cast<float*>(lse.get()) + i * heads * n, in.lse.data(),
                sizeof(float) * static_cast<std::size_t>(heads * n), CopyKind::kToDevice);
  }
  G g = given_gradient(one, false);
  set_tensors(g,
              {q.data(), k.data(), v.data(), o.get(), d_o.data(), d_q.get(), d_k.get(), d_v.get()},
              {0, n * d, d}, {0, n_k * d, d});
  g.attention.batch = batch;
  g.attention.lse = static_cast<float*>(lse.get());
  g.attention.o_strides.batch = g.d_q_strides.batch = q_size;
  g.d_k_strides.batch = g.d_v_strides.batch = k_size;
  REQUIRE(fa_backward_workspace_bytes(&g) / sizeof(float) > std::size_t{1} << 31);
  run(g, !on_hopper());
  for (const std::int64_t sequence : {std::int64_t{0}, batch - 1}) {
    const auto result = [&](void* from, std::int64_t size, const Shape<4>& shape) {
      Tensor<H, 4> host(shape);
      device_copy(host.data(), static_cast<H*>(from) + sequence * size,
                  sizeof(H) * static_cast<std::size_t>(size), CopyKind::kToHost);
      return converted<float>(host);
    };
    check_result(
        of, one, fa_backward_kernel_name(&g),
        Gradients{result(g.d_q, q_size, one.shape_of_q()), result(g.d_k, k_size, one.shape_of_kv()),
                  result(g.d_v, k_size, one.shape_of_kv())});
  }
}
#endif

}  // namespace
}  // namespace fa::FA_TARGET
