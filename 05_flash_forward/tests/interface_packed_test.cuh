// fa_forward_packed(), as a program in C would call it, and the kernels for TMA that the library
// launches on Hopper GPUs only.
#include <doctest/doctest.h>

#include "05_flash_forward/kernels/packed/01_list_of_slots.cuh"
#include "05_flash_forward/kernels/packed/02_ragged_maps.cuh"
#include "05_flash_forward/tests/forward_calls.cuh"

namespace fa::FA_TARGET {
namespace {

// A call, and the kernels for TMA on its memory.
struct Call : PackedCall<fa::bfloat16> {
  using PackedCall::PackedCall;
  Attention<bfloat16> of_kernels() const { return kernels_attention<bfloat16>(whole(), attention); }
  void launch_tma(bool has_counter) {
    launch_packed_persistent(of_kernels(), sequences(whole()), Stream(),
                             has_counter ? counter.data() : nullptr);
    device_synchronize();
  }
  void check() { check_accepted(verdicts()); }
};

TEST_CASE("what a neighbour holds does not matter, nor whether there is a workspace") {
  Call call({1, 2, 1, 0, 0, 64}, true, {{70, 20, 90}, {70, 20, 90}});
  call.poison(1);
  REQUIRE(call.says([](auto& a, auto&) { a.workspace = nullptr; }) == "");
  call.check();
}

TEST_CASE("the maps of TMA end where a packed sequence ends") {
  if (!has_hopper()) return;
  for (const bool causal : {false, true}) {
    for (const std::int64_t head_dim : {40, 128}) {
      CAPTURE(causal);
      CAPTURE(head_dim);
      Call call({1, 4, 2, 0, 0, head_dim}, causal, odd_lengths());
      for (int i = 0; i < 2; ++i) {  // the counter is ready for the next call
        call.launch_tma(true);
        call.check();
      }
    }
  }
  Call call({1, 2, 1, 0, 0, 64}, false, {{70, 20, 90}, {70, 20, 90}});
  call.poison(1);
  call.launch_tma(false);
  call.check();
}

TEST_CASE("tokens that are too far apart for the maps of TMA select another kernel") {
  Call call({1, 2, 1, 0, 0, 64}, false, {{5, 3}, {5, 3}});
  Attention<bfloat16> a = call.of_kernels();
  const PackedSequences sequences = call.sequences(call.whole());
  for (RowStrides* strides : {&a.q_strides, &a.k_strides, &a.v_strides, &a.o_strides}) {
    const std::int64_t own = strides->row;
    strides->row = kRaggedWrap - 8;
    CHECK(can_use_packed_tma(a, sequences));
    strides->row = kRaggedWrap;
    CHECK_FALSE(can_use_packed_tma(a, sequences));
    strides->row = own;
  }
  if (!has_hopper()) return;
  const auto map = [&](std::int64_t row) { ragged_map(a.q, {8, 2, 64}, {row, 64}, 64); };
  CHECK_NOTHROW(map(kRaggedWrap - 8));
  CHECK_THROWS(map(kRaggedWrap + 8));
}

TEST_CASE("packed sequences without TMA") {
  if (!can_run(device_properties(), kNeedsMma)) return;
  Call call({1, 4, 2, 0, 0, 40}, true, odd_lengths());
  launch_packed<64>(call.of_kernels(), call.sequences(call.whole()), Stream());
  call.check();
}

TEST_CASE("more sequences than a block takes tiles, most of them of one token") {
  PackedLengths lengths;
  for (int i = 0; i < 37; ++i) {
    lengths.q.push_back(i == 20 ? 150 : i % 3);
    lengths.k.push_back(i == 20 ? 150 : i % 3);
  }
  Call call({1, 3, 1, 0, 0, 64}, true, lengths);
  REQUIRE(call.says() == "");
  call.check();
}

TEST_CASE("fa_forward_packed() refuses what it cannot compute") {
  Call call({1, 4, 2, 0, 0, 40}, true, odd_lengths());
  const auto refused = [&](const char* message, auto change) {
    check_said(call.says(change), message);
  };
  refused("type is 0 (float32)", [](auto& a, auto&) { a.type = 0; });
  refused("head_dim is 136", [](auto& a, auto&) { a.head_dim = a.head_dim_v = 136; });
  refused("dropout is 0.5", [](auto& a, auto&) { a.dropout = 0.5; });
  refused("batch is 2", [](auto& a, auto&) { a.batch = 2; });
  refused("size is 8", [](auto&, auto& p) { p.size = 8; });
  refused("sequences is 0", [](auto&, auto& p) { p.sequences = 0; });
  refused("check is 2", [](auto&, auto& p) { p.check = 2; });
  refused("cu_seqlens_k is a null pointer", [](auto&, auto& p) { p.cu_seqlens_k = nullptr; });
  refused(" overlaps ",  // and what else lies there

          [](auto& a, auto& p) { a.o = const_cast<std::int32_t*>(p.cu_seqlens_q); });
  refused("tiles of 128 rows in 7 sequences",
          [](auto& a, auto&) { a.length_q = 1000000000, a.heads = 65532; });
  CHECK(fa_forward_packed(&call.attention, nullptr) == FA_STATUS_REFUSED);
  // cu_seqlens that are not allowed are refused when a call asks for the check.
  Call checked({1, 2, 1, 0, 0, 64}, true, {{5, 3, 2}, {5, 3, 2}});
  const auto says = [&](const Lengths& q, const Lengths& k) {
    checked.set_cu_seqlens(q, k);
    return checked.says([](auto&, auto& p) { p.check = 1; });
  };
  CHECK(says({0, 5, 8, 10}, {0, 5, 8, 10}) == "");
  check_said(says({1, 5, 8, 10}, {0, 5, 8, 10}), "cu_seqlens_q[0] is 1");
  check_said(says({0, 5, 4, 10}, {0, 5, 8, 10}), "cu_seqlens_q[2] is 4");
  check_said(says({0, 5, 8, 10}, {0, 5, 8, 11}), "cu_seqlens_k[3] is 11");
}

TEST_CASE("without the check wrong cu_seqlens give wrong rows, but no crash") {
  Call call({1, 2, 1, 0, 0, 64}, true, {{200, 3, 97}, {200, 3, 97}});
  for (const Lengths& wrong : {Lengths{0, 250, 100, 300}, Lengths{-7, 1 << 30, -(1 << 30), 1000},
                               Lengths{300, 200, 100, 0}, Lengths{7, 7, 7, 7}}) {
    call.set_cu_seqlens(wrong, wrong);
    CHECK(call.says() == "");
    if (has_hopper()) call.launch_tma(true);
  }
  call.set_cu_seqlens({0, 200, 203, 300}, {0, 200, 203, 300});
  CHECK(call.says() == "");
  call.check();
}

TEST_CASE("a kernel ends when cu_seqlens change while it runs") {
  if (!device_available()) return;
  Call call({1, 8, 8, 0, 0, 64}, true, {{1400, 20, 1580}, {1400, 20, 1580}});
  check_while_lengths_change(call);
}

}  // namespace
}  // namespace fa::FA_TARGET
