// fa_backward_packed(), as a program in C would call it, and the kernels for TMA that the library
// launches on Hopper GPUs only.
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "06_flash_backward/kernels/packed/02_ragged_maps.cuh"
#include "06_flash_backward/src/problem.hpp"
#include "06_flash_backward/tests/gradient_call.cuh"
#include "common/testing/process.hpp"

namespace fa::FA_TARGET {
namespace {

// A call with its memory.
class PackedGradientCall : public PackedList<fa_packed> {
 public:
  PackedGradientCall(const AttentionShape& shape, bool causal, const PackedLengths& lengths)
      : PackedList(shape, causal, lengths),
        q_(lengths.q, shape.heads, shape.head_dim),
        k_(lengths.k, shape.kv_heads, shape.head_dim),
        v_(lengths.k, shape.kv_heads, shape.head_dim),
        o_(lengths.q, shape.heads, shape.head_dim),
        d_o_(lengths.q, shape.heads, shape.head_dim),
        d_q_(lengths.q, shape.heads, shape.head_dim),
        d_k_(lengths.k, shape.kv_heads, shape.head_dim),
        d_v_(lengths.k, shape.kv_heads, shape.head_dim),
        lse_(shape.heads * q_.shape[2]) {
    for (std::size_t i = 0; i < problems.size(); ++i) {
      inputs_.push_back(is_empty(problems[i])
                            ? backward::Inputs{}
                            : backward::make_inputs(problems[i], Values::kNormal, i + 1));
    }
    write_inputs();
    gradient = given_gradient(whole(), false);
    fa_attention& a = gradient.attention;
    q_.give(a.q, a.q_strides), k_.give(a.k, a.k_strides), v_.give(a.v, a.v_strides);
    o_.give(a.o, a.o_strides), d_o_.give(gradient.d_o, gradient.d_o_strides);
    d_q_.give(gradient.d_q, gradient.d_q_strides), d_k_.give(gradient.d_k, gradient.d_k_strides);
    d_v_.give(gradient.d_v, gradient.d_v_strides);
    a.lse = lse_.data();
  }

  fa_gradient gradient{};

  Problem whole() const { return all(q_.shape[2], k_.shape[2]); }
  // What is said about the call with something changed; "" when it succeeds.
  std::string says(const std::function<void(fa_gradient&, fa_packed&)>& change) {
    fa_gradient g = gradient;
    fa_packed p = packed;
    DeviceBuffer<char> workspace(
        static_cast<std::int64_t>(fa_backward_packed_workspace_bytes(&g, &p)));
    g.workspace = workspace.data();
    g.workspace_bytes = static_cast<std::size_t>(workspace.count());
    change(g, p);
    const int status = fa_backward_packed(&g, &p);
    const std::string said = fa_backward_last_error();
    CHECK((status == FA_STATUS_OK) == said.empty());
    device_synchronize();
    return said;
  }
  std::string says() {
    return says([](auto&, auto&) {});
  }
  // Launches the kernels for TMA.
  template <int d>
  void launch_tma() {
    const PackedSequences of = sequences(whole());
    AttentionGradient<bfloat16> a = of_kernels();
    const Workspace needed{d, true};
    auto padded = with_slots(a, of);
    DeviceBuffer<float> workspace(workspace_floats(padded, needed));
    set_workspace(padded, workspace.data(), needed);
    padded.length_q = a.length_q;
    launch_backward_packed_tma<d>(padded, of, Stream());
    device_synchronize();
  }
  // Every element of a sequence becomes NaN, of all inputs; check() skips it then.
  void poison(std::size_t sequence) {
    backward::Inputs& in = inputs_[sequence];
    for (Tensor<float, 4>* x : {&in.forward.q, &in.forward.k, &in.forward.v, &in.o, &in.d_o}) {
      std::fill_n(x->data(), x->count(), NAN);
    }
    write_inputs();
    poisoned = sequence;
  }
  // Checks each sequence with lesson 01.
  void check(const std::string& name) {
    const Tensor<float, 4> d_q = d_q_.read(), d_k = d_k_.read(), d_v = d_v_.read();
    CHECK(d_q_.gaps_are_poison());
    CHECK(d_k_.gaps_are_poison());
    CHECK(d_v_.gaps_are_poison());
    for (std::size_t i = 0; i < problems.size(); ++i) {
      if (i == poisoned) continue;
      CAPTURE(i);
      if (is_empty(problems[i])) {
        if (problems[i].shape.length_q > 0) CHECK(all_are(d_q_.sequence(d_q, i), 0));
        if (problems[i].shape.length_k > 0) CHECK(all_are(d_k_.sequence(d_k, i), 0));
        if (problems[i].shape.length_k > 0) CHECK(all_are(d_v_.sequence(d_v, i), 0));
        continue;
      }
      const backward::Gradients own{d_q_.sequence(d_q, i), d_k_.sequence(d_k, i),
                                    d_v_.sequence(d_v, i)};
      check_result(backward::Checker(problems[i], inputs_[i]), problems[i], name, own);
    }
  }

 private:
  void write_inputs() {
    std::vector<Tensor<float, 4>> q, k, v, o, d_o;
    std::vector<float> lse(static_cast<std::size_t>(lse_.count()), -INFINITY);
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const backward::Inputs& in = inputs_[i];
      q.push_back(in.forward.q), k.push_back(in.forward.k), v.push_back(in.forward.v);
      o.push_back(in.o), d_o.push_back(in.d_o);
      for (std::int64_t at = 0; at < in.lse.count(); ++at) {
        const std::int64_t length = in.lse.size(2);
        lse[static_cast<std::size_t>(at / length * q_.shape[2] + q_.begins[i] + at % length)] =
            in.lse.data()[at];
      }
    }
    q_.write(q), k_.write(k), v_.write(v), o_.write(o), d_o_.write(d_o);
    lse_.upload(lse.data());
  }
  AttentionGradient<bfloat16> of_kernels() const {
    AttentionGradient<bfloat16> to{};
    static_cast<Attention<bfloat16>&>(to) =
        kernels_attention<bfloat16>(whole(), gradient.attention);
    const auto place = [](auto& pointer, RowStrides& strides, const void* data,
                          const fa_strides& s) {
      pointer = static_cast<std::decay_t<decltype(pointer)>>(const_cast<void*>(data));
      strides = {s.batch, s.head, s.row};
    };
    place(to.d_o, to.d_o_strides, gradient.d_o, gradient.d_o_strides);
    place(to.d_q, to.d_q_strides, gradient.d_q, gradient.d_q_strides);
    place(to.d_k, to.d_k_strides, gradient.d_k, gradient.d_k_strides);
    place(to.d_v, to.d_v_strides, gradient.d_v, gradient.d_v_strides);
    return to;
  }

  std::vector<backward::Inputs> inputs_;
  PackedTensor q_, k_, v_, o_, d_o_, d_q_, d_k_, d_v_;
  DeviceBuffer<float> lse_;
};

TEST_CASE("fa_backward_packed() computes the gradients of each of several packed sequences") {
  for (const bool causal : {false, true}) {
    for (const std::int64_t head_dim : {40, 128}) {
      CAPTURE(causal);
      CAPTURE(head_dim);
      PackedGradientCall call({1, 4, 2, 0, 0, head_dim}, causal, odd_lengths());
      REQUIRE(call.says([](auto&, auto& p) { p.check = 1; }) == "");
      call.check("fa_backward_packed");
    }
  }
}

TEST_CASE("gradients with maps of TMA that end where a packed sequence ends") {
  if (!has_hopper()) return;
  for (const bool causal : {false, true}) {
    CAPTURE(causal);
    PackedGradientCall narrow({1, 4, 2, 0, 0, 40}, causal, odd_lengths());
    narrow.launch_tma<64>();
    narrow.check("02_ragged_maps");
    PackedGradientCall wide({1, 2, 1, 0, 0, 128}, causal, odd_lengths());
    wide.launch_tma<128>();
    wide.check("02_ragged_maps");
  }
}

TEST_CASE("what a neighbour holds does not matter for the gradients") {
  PackedGradientCall call({1, 2, 1, 0, 0, 64}, true, {{70, 20, 90}, {70, 20, 90}});
  call.poison(1);
  REQUIRE(call.says() == "");
  call.check("fa_backward_packed");
  if (!has_hopper()) return;
  call.launch_tma<64>();
  call.check("02_ragged_maps");
}

TEST_CASE("fa_backward_packed() refuses what it cannot compute") {
  PackedGradientCall call({1, 2, 1, 0, 0, 64}, true, {{5, 3, 2}, {5, 3, 2}});
  const auto refused = [&](const char* message, auto change) {
    const std::string said = call.says(change);
    CAPTURE(said);
    CHECK(testing::contains(said, message));
  };
  refused("deterministic is 1", [](auto& g, auto&) { g.deterministic = 1; });
  refused("batch is 2", [](auto& g, auto&) { g.attention.batch = 2; });
  refused("workspace_bytes is 16", [](auto& g, auto&) { g.workspace_bytes = 16; });
  refused(" overlaps ",  // and what else lies there

          [](auto& g, auto& p) { g.d_k = const_cast<std::int32_t*>(p.cu_seqlens_k); });
#if defined(__CUDACC__)
  static std::int32_t here[4] = {};
  refused("cu_seqlens_k is at address", [](auto&, auto& p) { p.cu_seqlens_k = here; });
#endif
  call.set_cu_seqlens({0, 5, 4, 10}, {0, 5, 8, 10});
  refused("cu_seqlens_q[2] is 4", [](auto&, auto& p) { p.check = 1; });
  CHECK(fa_backward_packed_workspace_bytes(&call.gradient, nullptr) == 0);
}

TEST_CASE("without the check wrong cu_seqlens give wrong gradients, but no crash") {
  PackedGradientCall call({1, 2, 1, 0, 0, 64}, true, {{200, 3, 97}, {200, 3, 97}});
  for (const Lengths& wrong : {Lengths{0, 250, 100, 300}, Lengths{-7, 1 << 30, -(1 << 30), 1000},
                               Lengths{300, 200, 100, 0}, Lengths{7, 7, 7, 7}}) {
    call.set_cu_seqlens(wrong, wrong);
    CHECK(call.says() == "");
    if (has_hopper()) call.launch_tma<64>();
  }
}

}  // namespace
}  // namespace fa::FA_TARGET
