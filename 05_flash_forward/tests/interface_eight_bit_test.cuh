// fa_decode() and fa_append() with a cache in 8 bits.
#include <cmath>
#include <string>

#include <doctest/doctest.h>

#include "05_flash_forward/tests/forward_calls.cuh"

namespace fa::FA_TARGET {
namespace {

// What a cache holds: codes of about `size`, and scales of about 2^exponent, one for all or one for
// each head of each page.
struct Codes {
  float size = 1;
  int k_exponent = 0, v_exponent = 0;
  bool per_head = true;
  float q_size = 1;
  Values values = Values::kNormal;
};

// Keys and values are those of the cache: lesson 01 sees codes times scales. A code has four
// significant bits and a scale three, so that they are numbers of 16 bits, too.
template <class H>
struct EightBitCall : DecodeCall<H, fa::e4m3> {
  EightBitCall(const Problem& p, const DecodeInputs& in, std::int64_t page_size, const Codes& codes)
      : DecodeCall<H, fa::e4m3>(p, in, page_size),
        device_k_scales(this->shape_of_cache()[0] * p.shape.kv_heads),
        device_v_scales(device_k_scales.count()) {
    const auto give = [&](auto& scales, auto& device, auto& rows, int exponent) {
      for (int i = 0; i < device.count(); ++i) {
        const int place = codes.per_head ? i * 7 % 11 : 3;
        scales.push_back(std::ldexp(4 + static_cast<float>(place % 4), exponent - 2 - place / 4));
        if (page_size > 0 && codes.per_head && i < p.shape.kv_heads) {
          scales.back() = NAN;  // no sequence has page 0
        }
      }
      device.upload(scales.data());
      for_each_index(rows.shape(), [&](const Shape<4>& at) {
        const auto code = static_cast<fa::e4m3>(rows.view()[at] * codes.size);
        rows.view()[at] = static_cast<float>(code) * scales[this->scale_of(at)];
      });
    };
    give(this->k_scales, device_k_scales, this->inputs.k, codes.k_exponent);
    give(this->v_scales, device_v_scales, this->inputs.v, codes.v_exponent);
    this->cache.type = FA_CACHE_E4M3;
    this->cache.scale_per_head = codes.per_head;
    this->cache.k_scales = device_k_scales.data(), this->cache.v_scales = device_v_scales.data();
    this->set_lengths(in.lengths_k);
    this->give_workspace();
  }
  DeviceBuffer<float> device_k_scales, device_v_scales;
};

template <class H = fa::bfloat16>
EightBitCall<H> call_of(const AttentionShape& shape, const Lengths& lengths, std::int64_t page_size,
                        const Codes& codes = {}) {
  const Problem problem = problem_of(type_of<H>(), shape, true);
  DecodeInputs in = flash::decode::decode_inputs(problem, codes.values, 1);
  for (std::int64_t i = 0; i < in.q.count(); ++i) in.q.data()[i] *= codes.q_size;
  in.lengths_k = lengths;
  return {problem, in, page_size, codes};
}

TEST_CASE("a cache in 8 bits: groups, head dimensions, lengths, pages and scales") {
  for (const AttentionShape& shape : {AttentionShape{3, 4, 4, 1, 300, 64},
                                      {3, 8, 2, 1, 300, 128},
                                      {3, 8, 1, 2, 300, 80},
                                      {3, 8, 1, 5, 300, 128},
                                      {3, 4, 2, 33, 300, 48},
                                      {3, 20, 1, 1, 300, 16}}) {
    for (const std::int64_t page_size : {0, 16, 64}) {
      for (const bool per_head : {false, true}) {
        CAPTURE(shape.head_dim);
        CAPTURE(page_size);
        CAPTURE(per_head);
        const Codes codes{1, 0, 0, per_head};
        auto call = call_of(shape, {300, 0, 77}, page_size, codes);
        for (const Lengths& of : {Lengths{300, 0, 77}, {1, 129, 64}, {}}) call.check(of);
        call_of<fa::half>(shape, {300, 0, 77}, page_size, codes).check({300, 0, 77});
      }
    }
  }
}

TEST_CASE("a cache in 8 bits: more tiles than a warp looks up at once, and items of many parts") {
  for (const int head_dim : {64, 128}) {
    for (const std::int64_t page_size : {0, 16}) {
      call_of({1, 16, 16, 1, 2500, head_dim}, {2500}, page_size).check({2500});
      auto call = call_of({2, 4, 1, 1, 3000, head_dim}, {3000, 5}, page_size);
      for (const std::int32_t length : {3000, 2900, 1, 0, 3000}) call.check({length, 77});
    }
  }
}

TEST_CASE("a cache in 8 bits: scales of any size, subnormal codes, and codes that saturate") {
  for (const float size : {1.0f, 0x1p-8f, 300.0f}) {
    for (const auto& exponents : {std::pair{0, -10}, {-10, 10}, {3, 0}}) {
      CAPTURE(size);
      CAPTURE(exponents.first);
      const int of_size = -std::ilogb(size);
      const Codes codes{size, exponents.first + of_size, exponents.second + of_size};
      call_of({2, 8, 2, 1, 200, 64}, {200, 77}, 16, codes).check({200, 77});
      call_of<fa::half>({2, 8, 2, 1, 200, 64}, {200, 77}, 16, codes).check({200, 77});
    }
  }
}

TEST_CASE("a cache in 8 bits: queries that float16 does not hold, and scores that rise") {
  for (const float q_size : {0x1p-120f, 0x1p-20f, 1.0f, 0x1p30f, 0x1p100f}) {
    for (const Values values : {Values::kNormal, Values::kLarge, Values::kRising}) {
      CAPTURE(q_size);
      const Codes codes{1, 0, 0, true, q_size, values};
      call_of({1, 8, 2, 1, 300, 64}, {300}, 16, codes).check({300});
    }
  }
}

TEST_CASE("NaN in a cache of 8 bits is not lost") {
  auto call = call_of({1, 2, 1, 1, 100, 64}, {100}, 0);
  call.set_lengths({99});  // NaN from here on
  call.lengths.upload(Lengths{100}.data());
  REQUIRE(call.says(kSame) == "");
  CHECK(std::isnan(call.outputs().o(0, 1, 0, 5)));
}

TEST_CASE("fa_append() rounds for a cache in 8 bits what fa_decode() reads") {
  for (const std::int64_t page_size : {0, 16, 64}) {
    for (const bool per_head : {false, true}) {
      auto call = call_of({3, 8, 2, 5, 200, 80}, {200, 0, 77}, page_size, {1, 2, -3, per_head});
      for (const Lengths& of : {Lengths{200, 0, 77}, {65, 1, 2}, {}}) call.check_append(of);
    }
  }
}

TEST_CASE("fa_append() rounds to the nearest code, up to 448, and keeps NaN") {
  auto call = call_of<fa::half>({1, 1, 1, 1, 3, 16}, {}, 0, {1, 0, 0, false});
  // Times the scale, which is 1.75.
  const float given[] = {448,     -464,     465,        30000,  -30000, NAN,     INFINITY, 1.0625f,
                         1.1875f, 0x1p-10f, 0x1.8p-10f, -0.25f, 3,      0x1p-9f, 17,       19};
  const float wanted[] = {448,   -448, 448,     448,    -448, NAN,     448, 1,
                          1.25f, 0,    0x1p-9f, -0.25f, 3,    0x1p-9f, 16,  20};
  Tensor<float, 4> rows({1, 1, 1, 16});
  for (int i = 0; i < 16; ++i) rows.data()[i] = given[i] * call.k_scales[0];
  call.new_k.write(rows), call.new_v.write(rows);
  REQUIRE(call.append_says(kSame) == "");
  const auto k = read(call.k);
  for (int i = 0; i < 16; ++i) {
    CAPTURE(given[i]);
    CHECK((k(0, 0, 2, i) == wanted[i] || (std::isnan(wanted[i]) && std::isnan(k(0, 0, 2, i)))));
  }
}

TEST_CASE("a cache in 8 bits refuses what its kernel does not compute") {
  auto call = call_of({3, 8, 2, 1, 200, 80}, {200, 0, 77}, 16);
  const auto refused = [&](const char* message, auto change) {
    check_said(call.says(change), message);
    check_said(call.append_says([&](auto& a, auto& c, auto&) { change(a, c); }), message);
  };
  CHECK(std::string(fa_decode_kernel_name(&call.attention, &call.cache)) == "eight_bit_cache");
  refused("the type of the cache is 2", [](auto&, auto& c) { c.type = 2; });
  refused("type is 0 (float32)", [](auto& a, auto&) { a.type = 0; });
  refused("head_dim is 72; a cache in 8 bits",
          [](auto& a, auto&) { a.head_dim = a.head_dim_v = 72; });
  refused("head_dim is 144", [](auto& a, auto&) { a.head_dim = a.head_dim_v = 144; });
  refused("kernel is 5; a cache in 8 bits", [](auto&, auto& c) { c.kernel = 5; });
  refused("scale_per_head is 2", [](auto&, auto& c) { c.scale_per_head = 2; });
  refused("k_scales is a null pointer", [](auto&, auto& c) { c.k_scales = nullptr; });
  refused("v_scales is a null pointer", [](auto&, auto& c) { c.v_scales = nullptr; });
  refused("stride of k is 88 elements", [](auto& a, auto&) { a.k_strides.row = 88; });
  refused("cu_seqlens_q is not a null", [](auto&, auto& c) { c.cu_seqlens_q = c.lengths_k; });
  check_said(call.says([](auto& a, auto& c) { a.o = const_cast<float*>(c.v_scales); }),
             "overlaps v_scales");
}

}  // namespace
}  // namespace fa::FA_TARGET
