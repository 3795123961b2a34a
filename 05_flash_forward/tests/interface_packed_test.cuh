// fa_forward_packed(), as a program in C would call it, and the kernels for TMA that the library
// launches on Hopper GPUs only.
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "05_flash_forward/interface/flash_attention.h"
#include "05_flash_forward/kernels/packed/01_list_of_slots.cuh"
#include "05_flash_forward/kernels/packed/02_ragged_maps.cuh"
#include "05_flash_forward/src/checker.hpp"
#include "common/attention/tests/placed.cuh"
#include "common/testing/process.hpp"

namespace fa::FA_TARGET {
namespace {

using namespace attention;

// A call with its memory.
class PackedCall : public PackedList<fa_packed> {
 public:
  PackedCall(const AttentionShape& shape, bool causal, const PackedLengths& lengths)
      : PackedList(shape, causal, lengths),
        q_(lengths.q, shape.heads, shape.head_dim),
        k_(lengths.k, shape.kv_heads, shape.head_dim),
        v_(lengths.k, shape.kv_heads, shape.head_dim),
        o_(lengths.q, shape.heads, shape.head_dim),
        lse_(shape.heads * q_.shape[2]),
        counter_(4) {
    for (std::size_t i = 0; i < problems.size(); ++i) {
      inputs_.push_back(is_empty(problems[i]) ? Inputs{}
                                              : make_inputs(problems[i], Values::kNormal, i + 1));
    }
    write_inputs();
    attention = given_attention<fa_attention>(whole());
    q_.give(attention.q, attention.q_strides);
    k_.give(attention.k, attention.k_strides);
    v_.give(attention.v, attention.v_strides);
    o_.give(attention.o, attention.o_strides);
    attention.lse = lse_.data();
    counter_.zero();
    attention.workspace = counter_.data();
    attention.workspace_bytes = 16;
  }

  fa_attention attention{};

  // What is said about the call with something changed; "" when it succeeds.
  std::string says(const std::function<void(fa_attention&, fa_packed&)>& change) {
    fa_attention a = attention;
    fa_packed p = packed;
    change(a, p);
    const int status = fa_forward_packed(&a, &p);
    const std::string said = fa_last_error();
    CHECK((status == FA_STATUS_OK) == said.empty());
    device_synchronize();
    return said;
  }
  std::string says() {
    return says([](auto&, auto&) {});
  }
  // Launches the kernels for TMA.
  void launch_tma(bool has_counter) {
    launch_packed_persistent(of_kernels(), sequences(whole()), Stream(),
                             has_counter ? counter_.data() : nullptr);
    device_synchronize();
  }
  Problem whole() const { return all(q_.shape[2], k_.shape[2]); }
  Attention<bfloat16> of_kernels() const { return kernels_attention<bfloat16>(whole(), attention); }

  // Every element of a sequence becomes NaN, of all inputs; check() skips it then.
  void poison(std::size_t sequence) {
    for (Tensor<float, 4>* x : {&inputs_[sequence].q, &inputs_[sequence].k, &inputs_[sequence].v}) {
      std::fill_n(x->data(), x->count(), NAN);
    }
    write_inputs();
    poisoned = sequence;
  }
  // Checks each sequence with lesson 01.
  void check(const std::string& name) {
    device_synchronize();
    const Tensor<float, 4> o = o_.read();
    CHECK(o_.gaps_are_poison());
    const auto lse = lse_.tensor<float, 3>({1, o.size(1), o.size(2)});
    for (std::size_t i = 0; i < problems.size(); ++i) {
      if (i == poisoned || problems[i].shape.length_q == 0) continue;
      CAPTURE(i);
      const Outputs own{o_.sequence(o, i),
                        converted<float>(lse.view().narrow(2, o_.begins[i], o_.begins[i + 1]))};
      if (is_empty(problems[i])) {
        CHECK(all_are(own.o, 0));
        CHECK(all_are(own.lse, -INFINITY));
        continue;
      }
      check_result(flash::Checker(problems[i], inputs_[i]), problems[i], name, own);
    }
  }

 private:
  void write_inputs() {
    std::vector<Tensor<float, 4>> q, k, v;
    for (const Inputs& in : inputs_) {
      q.push_back(in.q), k.push_back(in.k), v.push_back(in.v);
    }
    q_.write(q), k_.write(k), v_.write(v);
  }

  std::vector<Inputs> inputs_;
  PackedTensor q_, k_, v_, o_;
  DeviceBuffer<float> lse_;
  DeviceBuffer<unsigned> counter_;
};

// Calls visit(call) for packed sequences, causal or not, with 64 and 128 columns.
template <class Visit>
void for_each_call(Visit visit) {
  for (const bool causal : {false, true}) {
    for (const std::int64_t head_dim : {40, 128}) {
      CAPTURE(causal);
      CAPTURE(head_dim);
      PackedCall call({1, 4, 2, 0, 0, head_dim}, causal, odd_lengths());
      visit(call);
    }
  }
}

TEST_CASE("fa_forward_packed() computes each of several packed sequences") {
  for_each_call([](PackedCall& call) {
    call.packed.check = 1;
    REQUIRE(call.says() == "");
    call.check("fa_forward_packed");
  });
}

TEST_CASE("what a neighbour holds does not matter, nor whether there is a workspace") {
  PackedCall call({1, 2, 1, 0, 0, 64}, true, {{70, 20, 90}, {70, 20, 90}});
  call.poison(1);
  REQUIRE(call.says([](auto& a, auto&) { a.workspace = nullptr; }) == "");
  call.check("fa_forward_packed");
}

TEST_CASE("the maps of TMA end where a packed sequence ends") {
  if (!has_hopper()) return;
  for_each_call([](PackedCall& call) {
    for (int i = 0; i < 2; ++i) {  // the counter is ready for the next call
      call.launch_tma(true);
      call.check("02_ragged_maps");
    }
  });
  PackedCall call({1, 2, 1, 0, 0, 64}, false, {{70, 20, 90}, {70, 20, 90}});
  call.poison(1);
  call.launch_tma(false);
  call.check("02_ragged_maps");
}

TEST_CASE("tokens that are too far apart for the maps of TMA select another kernel") {
  PackedCall call({1, 2, 1, 0, 0, 64}, false, {{5, 3}, {5, 3}});
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
  PackedCall call({1, 4, 2, 0, 0, 40}, true, odd_lengths());
  launch_packed<64>(call.of_kernels(), call.sequences(call.whole()), Stream());
  call.check("01_list_of_slots");
}

TEST_CASE("more sequences than a block takes tiles, most of them of one token") {
  PackedLengths lengths;
  for (int i = 0; i < 37; ++i) {
    lengths.q.push_back(i == 20 ? 150 : i % 3);
    lengths.k.push_back(i == 20 ? 150 : i % 3);
  }
  PackedCall call({1, 3, 1, 0, 0, 64}, true, lengths);
  REQUIRE(call.says() == "");
  call.check("fa_forward_packed");
}

TEST_CASE("fa_forward_packed() refuses what it cannot compute") {
  PackedCall call({1, 4, 2, 0, 0, 40}, true, odd_lengths());
  const auto refused = [&](const char* message, auto change) {
    const std::string said = call.says(change);
    CAPTURE(said);
    CHECK(testing::contains(said, message));
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
  PackedCall checked({1, 2, 1, 0, 0, 64}, true, {{5, 3, 2}, {5, 3, 2}});
  const auto says = [&](const Lengths& q, const Lengths& k) {
    checked.set_cu_seqlens(q, k);
    return checked.says([](auto&, auto& p) { p.check = 1; });
  };
  CHECK(says({0, 5, 8, 10}, {0, 5, 8, 10}) == "");
  CHECK(testing::contains(says({1, 5, 8, 10}, {0, 5, 8, 10}), "cu_seqlens_q[0] is 1"));
  CHECK(testing::contains(says({0, 5, 4, 10}, {0, 5, 8, 10}), "cu_seqlens_q[2] is 4"));
  CHECK(testing::contains(says({0, 5, 8, 10}, {0, 5, 8, 11}), "cu_seqlens_k[3] is 11"));
}

TEST_CASE("without the check wrong cu_seqlens give wrong rows, but no crash") {
  PackedCall call({1, 2, 1, 0, 0, 64}, true, {{200, 3, 97}, {200, 3, 97}});
  for (const Lengths& wrong : {Lengths{0, 250, 100, 300}, Lengths{-7, 1 << 30, -(1 << 30), 1000},
                               Lengths{300, 200, 100, 0}, Lengths{7, 7, 7, 7}}) {
    call.set_cu_seqlens(wrong, wrong);
    CHECK(call.says() == "");
    if (has_hopper()) call.launch_tma(true);
  }
  call.set_cu_seqlens({0, 200, 203, 300}, {0, 200, 203, 300});
  CHECK(call.says() == "");
  call.check("fa_forward_packed");
}

}  // namespace
}  // namespace fa::FA_TARGET
