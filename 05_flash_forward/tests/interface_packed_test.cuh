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
#include "common/attention/tests/packed_tensors.cuh"
#include "common/attention/tests/problems.hpp"

namespace fa::FA_TARGET {
namespace {

using namespace attention;

// A call with its memory.
class PackedCall {
 public:
  PackedCall(const AttentionShape& shape, bool causal, const PackedLengths& lengths)
      : problems_(packed_problems(shape, causal, lengths)),
        q_(lengths.q, shape.heads, shape.head_dim),
        k_(lengths.k, shape.kv_heads, shape.head_dim),
        v_(lengths.k, shape.kv_heads, shape.head_dim),
        o_(lengths.q, shape.heads, shape.head_dim),
        lse_(shape.heads * q_.shape[2]),
        cu_q_(static_cast<std::int64_t>(q_.begins.size())),
        cu_k_(static_cast<std::int64_t>(k_.begins.size())),
        counter_(4) {
    Problem all = problems_.front();
    all.shape.batch = 1;
    all.shape.length_q = q_.shape[2], all.shape.length_k = k_.shape[2];
    for (std::size_t i = 0; i < problems_.size(); ++i) {
      inputs_.push_back(is_empty(problems_[i]) ? Inputs{}
                                               : make_inputs(problems_[i], Values::kNormal, i + 1));
    }
    write_inputs();
    attention = given_attention<fa_attention>(all);
    q_.give(attention.q, attention.q_strides);
    k_.give(attention.k, attention.k_strides);
    v_.give(attention.v, attention.v_strides);
    o_.give(attention.o, attention.o_strides);
    attention.lse = lse_.data();
    counter_.zero();
    attention.workspace = counter_.data();
    attention.workspace_bytes = 16;
    set_cu_seqlens(q_.begins, k_.begins);
    packed.size = sizeof packed;
    packed.cu_seqlens_q = cu_q_.data();
    packed.cu_seqlens_k = cu_k_.data();
    packed.sequences = static_cast<std::int64_t>(problems_.size());
  }

  fa_attention attention{};
  fa_packed packed{};

  void set_cu_seqlens(const Lengths& q, const Lengths& k) {
    cu_q_.upload(q.data());
    cu_k_.upload(k.data());
  }
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
  // The same for the kernels.
  Attention<bfloat16> of_kernels() const {
    const fa_attention& a = attention;
    const auto strides = [](const fa_strides& s) { return RowStrides{s.batch, s.head, s.row}; };
    return {static_cast<const bfloat16*>(a.q),
            static_cast<const bfloat16*>(a.k),
            static_cast<const bfloat16*>(a.v),
            static_cast<bfloat16*>(a.o),
            a.lse,
            strides(a.q_strides),
            strides(a.k_strides),
            strides(a.v_strides),
            strides(a.o_strides),
            1,
            static_cast<int>(a.heads),
            static_cast<int>(a.kv_heads),
            static_cast<int>(a.length_q),
            static_cast<int>(a.length_k),
            static_cast<int>(a.head_dim),
            static_cast<int>(a.head_dim),
            static_cast<float>(a.scale),
            a.causal != 0,
            {}};
  }
  PackedSequences sequences() const {
    const auto count = static_cast<int>(packed.sequences);
    return {{packed.cu_seqlens_q, count, static_cast<int>(attention.length_q)},
            {packed.cu_seqlens_k, count, static_cast<int>(attention.length_k)}};
  }
  unsigned* counter() { return counter_.data(); }

  // Every element of a sequence becomes NaN, of all inputs; check() skips it then.
  void poison(std::size_t sequence) {
    for (Tensor<float, 4>* x : {&inputs_[sequence].q, &inputs_[sequence].k, &inputs_[sequence].v}) {
      std::fill_n(x->data(), x->count(), NAN);
    }
    write_inputs();
    poisoned_ = sequence;
  }
  // Checks each sequence with lesson 01.
  void check(const std::string& name) {
    device_synchronize();
    const Tensor<float, 4> o = o_.read();
    CHECK(o_.gaps_are_poison());
    const auto lse = lse_.tensor<float, 3>({1, o.size(1), o.size(2)});
    for (std::size_t i = 0; i < problems_.size(); ++i) {
      if (i == poisoned_ || problems_[i].shape.length_q == 0) continue;
      CAPTURE(i);
      const Outputs own{o_.sequence(o, i),
                        converted<float>(lse.view().narrow(2, o_.begins[i], o_.begins[i + 1]))};
      if (is_empty(problems_[i])) {
        CHECK(all_are(own.o, 0));
        CHECK(all_are(own.lse, -INFINITY));
        continue;
      }
      check_result(flash::Checker(problems_[i], inputs_[i]), problems_[i], name, own);
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

  std::vector<Problem> problems_;
  std::vector<Inputs> inputs_;
  PackedTensor q_, k_, v_, o_;
  DeviceBuffer<float> lse_;
  DeviceBuffer<std::int32_t> cu_q_, cu_k_;
  DeviceBuffer<unsigned> counter_;
  std::size_t poisoned_ = std::numeric_limits<std::size_t>::max();
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
      launch_packed_persistent(call.of_kernels(), call.sequences(), Stream(), call.counter());
      call.check("02_ragged_maps");
    }
  });
  PackedCall call({1, 2, 1, 0, 0, 64}, false, {{70, 20, 90}, {70, 20, 90}});
  call.poison(1);
  launch_packed_persistent(call.of_kernels(), call.sequences(), Stream(), nullptr);
  call.check("02_ragged_maps");
}

TEST_CASE("packed sequences without TMA") {
  if (!can_run(device_properties(), kNeedsMma)) return;
  PackedCall call({1, 4, 2, 0, 0, 40}, true, odd_lengths());
  launch_packed<64>(call.of_kernels(), call.sequences(), Stream());
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
  CHECK(call.says([](auto& a, auto&) { a.type = 0; }) ==
        "type is 0 (float32); fa_forward_packed allows 1 (float16) and 2 (bfloat16)");
  CHECK(call.says([](auto& a, auto&) { a.head_dim = a.head_dim_v = 136; }) ==
        "head_dim is 136; fa_forward_packed allows multiples of 8 from 8 to 128");
  CHECK(call.says([](auto& a, auto&) { a.dropout = 0.5; }) ==
        "dropout is 0.5; fa_forward_packed allows 0");
  CHECK(call.says([](auto& a, auto&) { a.batch = 2; }) == "batch is 2; fa_forward_packed allows 1");
  CHECK(call.says([](auto&, auto& p) { p.size = 8; }) ==
        "size is 8; fa_packed has " + std::to_string(sizeof(fa_packed)) + " bytes in this library");
  CHECK(call.says([](auto&, auto& p) { p.sequences = 0; }) ==
        "sequences is 0; allowed are 1 to 65535");
  CHECK(call.says([](auto&, auto& p) { p.check = 2; }) == "check is 2; allowed are 0 and 1");
  CHECK(call.says([](auto&, auto& p) { p.cu_seqlens_k = nullptr; }) ==
        "cu_seqlens_k is a null pointer");
  CHECK(call.says([](auto& a, auto& p) { a.o = const_cast<std::int32_t*>(p.cu_seqlens_q); })
            .find("overlaps cu_seqlens_q") != std::string::npos);
  CHECK(call.says([](auto& a, auto&) { a.length_q = 1000000000, a.heads = 65532; })
            .find("tiles of 128 rows in 7 sequences") != std::string::npos);
  CHECK(fa_forward_packed(&call.attention, nullptr) == FA_STATUS_REFUSED);
  CHECK(std::string(fa_last_error()) == "fa_packed is a null pointer");
}

TEST_CASE("cu_seqlens that are not allowed are refused when a call asks for the check") {
  PackedCall call({1, 2, 1, 0, 0, 64}, true, {{5, 3, 2}, {5, 3, 2}});
  const auto says = [&](const Lengths& q, const Lengths& k) {
    call.set_cu_seqlens(q, k);
    return call.says([](auto&, auto& p) { p.check = 1; });
  };
  CHECK(says({0, 5, 8, 10}, {0, 5, 8, 10}) == "");
  CHECK(says({1, 5, 8, 10}, {0, 5, 8, 10}) == "cu_seqlens_q[0] is 1; allowed is 0");
  CHECK(says({0, 5, 4, 10}, {0, 5, 8, 10}) ==
        "cu_seqlens_q[2] is 4; allowed are 5 and more, the element before it");
  CHECK(says({0, 5, 8, 10}, {0, 5, 8, 11}) ==
        "cu_seqlens_k[3] is 11; allowed is 10, which is length_k");
}

TEST_CASE("without the check wrong cu_seqlens give wrong rows, but no crash") {
  PackedCall call({1, 2, 1, 0, 0, 64}, true, {{200, 3, 97}, {200, 3, 97}});
  for (const Lengths& wrong : {Lengths{0, 250, 100, 300}, Lengths{-7, 1 << 30, -(1 << 30), 1000},
                               Lengths{300, 200, 100, 0}, Lengths{7, 7, 7, 7}}) {
    call.set_cu_seqlens(wrong, wrong);
    CHECK(call.says() == "");
    if (!has_hopper()) continue;
    launch_packed_persistent(call.of_kernels(), call.sequences(), Stream(), call.counter());
    device_synchronize();
  }
  call.set_cu_seqlens({0, 200, 203, 300}, {0, 200, 203, 300});
  CHECK(call.says() == "");
  call.check("fa_forward_packed");
}

}  // namespace
}  // namespace fa::FA_TARGET
