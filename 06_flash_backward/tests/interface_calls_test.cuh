// fa_backward_packed() and fa_backward_functor(), as a program in C would call them, and the kernels
// for TMA that the library launches on Hopper GPUs only.
#include <doctest/doctest.h>

#include "06_flash_backward/kernels/packed/02_ragged_maps.cuh"
#include "06_flash_backward/tests/gradient_call.cuh"

namespace fa::FA_TARGET {
namespace {

// A call, and the kernels for TMA on its memory.
struct Call : PackedGradientCall<fa::bfloat16> {
  using PackedGradientCall::PackedGradientCall;
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
  AttentionGradient<bfloat16> of_kernels() const {
    AttentionGradient<bfloat16> to{};
    static_cast<Attention<bfloat16>&>(to) =
        kernels_attention<bfloat16>(whole(), gradient.attention);
    const auto strides = [](const fa_strides& s) { return RowStrides{s.batch, s.head, s.row}; };
    const G& g = gradient;
    to.d_o = static_cast<const bfloat16*>(g.d_o), to.d_o_strides = strides(g.d_o_strides);
    to.d_q = static_cast<bfloat16*>(g.d_q), to.d_q_strides = strides(g.d_q_strides);
    to.d_k = static_cast<bfloat16*>(g.d_k), to.d_k_strides = strides(g.d_k_strides);
    to.d_v = static_cast<bfloat16*>(g.d_v), to.d_v_strides = strides(g.d_v_strides);
    return to;
  }
  void check() { check_accepted(verdicts()); }
};

TEST_CASE("gradients with maps of TMA that end where a packed sequence ends") {
  if (!has_hopper()) return;
  for (const bool causal : {false, true}) {
    CAPTURE(causal);
    Call narrow({1, 4, 2, 0, 0, 40}, causal, odd_lengths());
    narrow.launch_tma<64>();
    narrow.check();
    Call wide({1, 2, 1, 0, 0, 128}, causal, odd_lengths());
    wide.launch_tma<128>();
    wide.check();
  }
}

TEST_CASE("what a neighbour holds does not matter for the gradients") {
  Call call({1, 2, 1, 0, 0, 64}, true, {{70, 20, 90}, {70, 20, 90}});
  call.poison(1);
  REQUIRE(call.says() == "");
  call.check();
  if (!has_hopper()) return;
  call.launch_tma<64>();
  call.check();
}

TEST_CASE("fa_backward_packed() refuses what it cannot compute") {
  Call call({1, 2, 1, 0, 0, 64}, true, {{5, 3, 2}, {5, 3, 2}});
  const auto refused = [&](const char* message, auto change) {
    check_said(call.says(change), message);
  };
  refused("deterministic is 1", [](auto& g, auto&) { g.deterministic = 1; });
  refused("batch is 2", [](auto& g, auto&) { g.attention.batch = 2; });
  refused("workspace_bytes is 16", [](auto& g, auto&) { g.workspace_bytes = 16; });
  refused(" overlaps ",  // and what else lies there

          [](auto& g, auto& p) { g.d_k = const_cast<std::int32_t*>(p.cu_seqlens_k); });
#if defined(__CUDACC__)
  static std::int32_t here[4] = {};
  refused("cu_seqlens_k is at address", [](G&, fa_packed& p) { p.cu_seqlens_k = here; });
#endif
  call.set_cu_seqlens({0, 5, 4, 10}, {0, 5, 8, 10});
  refused("cu_seqlens_q[2] is 4", [](auto&, auto& p) { p.check = 1; });
  CHECK(fa_backward_packed_workspace_bytes(&call.gradient, nullptr) == 0);
}

TEST_CASE("without the check wrong cu_seqlens give wrong gradients, but no crash") {
  Call call({1, 2, 1, 0, 0, 64}, true, {{200, 3, 97}, {200, 3, 97}});
  for (const Lengths& wrong : {Lengths{0, 250, 100, 300}, Lengths{-7, 1 << 30, -(1 << 30), 1000},
                               Lengths{300, 200, 100, 0}, Lengths{7, 7, 7, 7}}) {
    call.set_cu_seqlens(wrong, wrong);
    CHECK(call.says() == "");
    if (has_hopper()) call.launch_tma<64>();
  }
}

TEST_CASE("the kernels of gradients end when cu_seqlens change while they run") {
  if (!device_available()) return;
  Call call({1, 8, 8, 0, 0, 64}, true, {{1400, 20, 1580}, {1400, 20, 1580}});
  check_while_lengths_change(call);
}

TEST_CASE("fa_backward_functor() refuses what it cannot compute") {
  const Problem problem = problem_of(Type::kBFloat16, {2, 4, 2, 70, 131, 40});
  FunctorGradientCall<fa::bfloat16> call(
      problem, backward::functors::functor_inputs(problem, of_kind(FunctorKind::kSinks),
                                                  Values::kNormal, 1));
  const auto same = [](auto&, auto&, auto&, auto&) {};
  CHECK(call.says(same) == "");
  check_accepted(call.verdicts());
  CHECK(call.says([](auto&, auto&, auto&, auto& of_sinks) { of_sinks = nullptr; }) == "");
  const auto refused = [&](const char* message, auto change) {
    check_said(call.says(change), message);
  };
  refused("deterministic is 1", [](auto& g, auto&...) { g.deterministic = 1; });
  refused("causal is 1", [](auto& g, auto&...) { g.attention.causal = 1; });
  refused("kind is 11", [](auto&, auto& f, auto&...) { f.kind = 11; });
  refused("sinks is a null pointer", [](auto&, auto& f, auto&...) { f.sinks = nullptr; });
  refused("d_sinks is given", [](auto&, auto& f, auto&...) { f.kind = FA_FUNCTOR_CAUSAL; });
  refused("d_bias is given",
          [](auto&, auto&, auto& of_bias, auto& of_sinks) { of_bias = of_sinks; });
  refused("workspace_bytes is 16", [](auto& g, auto&...) { g.workspace_bytes = 16; });
  refused("overlaps",
          [](auto& g, auto&, auto&, auto& of_sinks) { of_sinks = static_cast<float*>(g.d_q); });
  CHECK(fa_backward_functor(&call.gradient, nullptr, nullptr, nullptr) == FA_STATUS_REFUSED);
#if defined(__CUDACC__)
  alignas(16) static float memory[64] = {};
  float* const here = memory;
  refused("sinks is at address", [=](G&, fa_functor& f, float*&, float*&) { f.sinks = here; });
  refused("d_sinks is at address",
          [=](G&, fa_functor&, float*&, float*& of_sinks) { of_sinks = here; });
#endif
}

}  // namespace
}  // namespace fa::FA_TARGET
