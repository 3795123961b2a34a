// fa_backward_packed(), as a program in C would call it, and the kernels for TMA that the library
// launches on Hopper GPUs only.
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "06_flash_backward/kernels/packed/02_ragged_maps.cuh"
#include "06_flash_backward/src/problem.hpp"
#include "06_flash_backward/tests/gradient_call.cuh"
#include "common/attention/tests/packed_tensors.cuh"

namespace fa::FA_TARGET {
namespace {

// A call with its memory.
class PackedGradientCall {
 public:
  PackedGradientCall(const AttentionShape& shape, bool causal, const PackedLengths& lengths)
      : problems_(packed_problems(shape, causal, lengths)),
        q_(lengths.q, shape.heads, shape.head_dim),
        k_(lengths.k, shape.kv_heads, shape.head_dim),
        v_(lengths.k, shape.kv_heads, shape.head_dim),
        o_(lengths.q, shape.heads, shape.head_dim),
        d_o_(lengths.q, shape.heads, shape.head_dim),
        d_q_(lengths.q, shape.heads, shape.head_dim),
        d_k_(lengths.k, shape.kv_heads, shape.head_dim),
        d_v_(lengths.k, shape.kv_heads, shape.head_dim),
        lse_(shape.heads * q_.shape[2]),
        cu_q_(static_cast<std::int64_t>(q_.begins.size())),
        cu_k_(static_cast<std::int64_t>(k_.begins.size())) {
    for (std::size_t i = 0; i < problems_.size(); ++i) {
      inputs_.push_back(is_empty(problems_[i])
                            ? backward::Inputs{}
                            : backward::make_inputs(problems_[i], Values::kNormal, i + 1));
    }
    write_inputs();
    Problem all = problems_.front();
    all.shape.length_q = q_.shape[2], all.shape.length_k = k_.shape[2];
    gradient = given_gradient(all, false);
    fa_attention& a = gradient.attention;
    q_.give(a.q, a.q_strides), k_.give(a.k, a.k_strides), v_.give(a.v, a.v_strides);
    o_.give(a.o, a.o_strides), d_o_.give(gradient.d_o, gradient.d_o_strides);
    d_q_.give(gradient.d_q, gradient.d_q_strides), d_k_.give(gradient.d_k, gradient.d_k_strides);
    d_v_.give(gradient.d_v, gradient.d_v_strides);
    a.lse = lse_.data();
    set_cu_seqlens(q_.begins, k_.begins);
    packed.size = sizeof packed;
    packed.cu_seqlens_q = cu_q_.data();
    packed.cu_seqlens_k = cu_k_.data();
    packed.sequences = static_cast<std::int64_t>(problems_.size());
  }

  fa_gradient gradient{};
  fa_packed packed{};

  void set_cu_seqlens(const Lengths& q, const Lengths& k) {
    cu_q_.upload(q.data());
    cu_k_.upload(k.data());
  }
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
    const fa_attention& g = gradient.attention;
    const PackedSequences sequences{
        {packed.cu_seqlens_q, static_cast<int>(packed.sequences), static_cast<int>(g.length_q)},
        {packed.cu_seqlens_k, static_cast<int>(packed.sequences), static_cast<int>(g.length_k)}};
    AttentionGradient<bfloat16> a = of_kernels();
    const Workspace needed{d, true};
    DeviceBuffer<float> workspace(workspace_floats(with_slots(a, sequences), needed));
    auto padded = with_slots(a, sequences);
    set_workspace(padded, workspace.data(), needed);
    padded.length_q = a.length_q;
    launch_backward_packed_tma<d>(padded, sequences, Stream());
    device_synchronize();
  }
  // Every element of a sequence becomes NaN, of all inputs; check() skips it then.
  void poison(std::size_t sequence) {
    backward::Inputs& in = inputs_[sequence];
    for (Tensor<float, 4>* x : {&in.forward.q, &in.forward.k, &in.forward.v, &in.o, &in.d_o}) {
      std::fill_n(x->data(), x->count(), NAN);
    }
    write_inputs();
    poisoned_ = sequence;
  }
  // Checks each sequence with lesson 01.
  void check(const std::string& name) {
    const Tensor<float, 4> d_q = d_q_.read(), d_k = d_k_.read(), d_v = d_v_.read();
    CHECK(d_q_.gaps_are_poison());
    CHECK(d_k_.gaps_are_poison());
    CHECK(d_v_.gaps_are_poison());
    for (std::size_t i = 0; i < problems_.size(); ++i) {
      if (i == poisoned_) continue;
      CAPTURE(i);
      if (is_empty(problems_[i])) {
        if (problems_[i].shape.length_q > 0) CHECK(all_are(d_q_.sequence(d_q, i), 0));
        if (problems_[i].shape.length_k > 0) CHECK(all_are(d_k_.sequence(d_k, i), 0));
        if (problems_[i].shape.length_k > 0) CHECK(all_are(d_v_.sequence(d_v, i), 0));
        continue;
      }
      const backward::Gradients own{d_q_.sequence(d_q, i), d_k_.sequence(d_k, i),
                                    d_v_.sequence(d_v, i)};
      check_result(backward::Checker(problems_[i], inputs_[i]), problems_[i], name, own);
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
    const fa_gradient& g = gradient;
    const fa_attention& a = g.attention;
    const auto place = [](auto& pointer, RowStrides& strides, const void* data,
                          const fa_strides& s) {
      pointer = static_cast<std::decay_t<decltype(pointer)>>(const_cast<void*>(data));
      strides = {s.batch, s.head, s.row};
    };
    place(to.q, to.q_strides, a.q, a.q_strides), place(to.k, to.k_strides, a.k, a.k_strides);
    place(to.v, to.v_strides, a.v, a.v_strides), place(to.o, to.o_strides, a.o, a.o_strides);
    place(to.d_o, to.d_o_strides, g.d_o, g.d_o_strides);
    place(to.d_q, to.d_q_strides, g.d_q, g.d_q_strides);
    place(to.d_k, to.d_k_strides, g.d_k, g.d_k_strides);
    place(to.d_v, to.d_v_strides, g.d_v, g.d_v_strides);
    to.lse = a.lse;
    to.batch = 1;
    to.heads = static_cast<int>(a.heads), to.kv_heads = static_cast<int>(a.kv_heads);
    to.length_q = static_cast<int>(a.length_q), to.length_k = static_cast<int>(a.length_k);
    to.head_dim = to.head_dim_v = static_cast<int>(a.head_dim);
    to.scale = static_cast<float>(a.scale);
    to.causal = a.causal != 0;
    return to;
  }

  std::vector<Problem> problems_;
  std::vector<backward::Inputs> inputs_;
  PackedTensor q_, k_, v_, o_, d_o_, d_q_, d_k_, d_v_;
  DeviceBuffer<float> lse_;
  DeviceBuffer<std::int32_t> cu_q_, cu_k_;
  std::size_t poisoned_ = std::numeric_limits<std::size_t>::max();
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
  CHECK(call.says([](auto& g, auto&) { g.deterministic = 1; }) ==
        "deterministic is 1; fa_backward_packed allows 0");
  CHECK(call.says([](auto& g, auto&) { g.attention.batch = 2; }) ==
        "batch is 2; fa_backward_packed allows 1");
  CHECK(call.says([](auto& g, auto&) { g.workspace_bytes = 16; }).substr(0, 33) ==
        "workspace_bytes is 16; allowed ar");
  CHECK(call.says([](auto& g, auto& p) { g.d_k = const_cast<std::int32_t*>(p.cu_seqlens_k); })
            .find("overlaps cu_seqlens_k") != std::string::npos);
  call.set_cu_seqlens({0, 5, 4, 10}, {0, 5, 8, 10});
  CHECK(call.says([](auto&, auto& p) { p.check = 1; }) ==
        "cu_seqlens_q[2] is 4; allowed are 5 and more, the element before it");
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
