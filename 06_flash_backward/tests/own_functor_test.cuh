// A functor of one's own, as chapter 10 of lesson 05 and chapter 9 of lesson 06 write it: its rule
// for tiles, its derivative, and the kernels of both passes with it beside lesson 01, in the lab and,
// where this build has one, on a GPU. To try another functor, change what stands before the first
// test; then
//
//     cmake --build build/learn --target own_functor
#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "01_naive_attention/score_functor.hpp"
#include "05_flash_forward/kernels/functors/01_score_functor.cuh"
#include "05_flash_forward/kernels/functors/02_persistent.cuh"
#include "06_flash_backward/kernels/functors/01_score_functor.cuh"
#include "06_flash_backward/kernels/functors/02_hopper.cuh"
#include "06_flash_backward/src/gradient_rows.cuh"
#include "common/check/acceptance.hpp"
#include "common/tensor/random.hpp"

namespace fa::FA_TARGET {
namespace {

// clang-format off
//! [first_and_window]
/// The first tokens, and a window that ends at the query's place.
struct FirstAndWindow : PlainScores {
  int first, window, shift;

  FirstAndWindow(int the_first, int the_window, int the_shift)
      : first(the_first), window(the_window), shift(the_shift) {}
  __host__ __device__ bool visible(int, int, int query, int key) const {
    const int place = query + shift;
    return key <= place && (key < first || place - key < window);
  }
  __host__ __device__ TileKind tile_kind(const ScoreTile& t) const {
    const int place0 = t.first_query + shift, place1 = t.last_query + shift;
    const bool later = t.first_key > place1;
    const bool left_behind = place0 - t.last_key >= window;
    if (later || (t.first_key >= first && left_behind)) {
      return TileKind::kSkipped;
    }
    const bool in_window = place1 - t.first_key < window;
    return t.last_key <= place0 && (t.last_key < first || in_window)
               ? TileKind::kWhole
               : TileKind::kPartial;
  }
};
//! [first_and_window]

/// Scores that shrink with the distance of the key, at each head's rate.
struct Faded : PlainScores {
  static constexpr bool changes_scores = true;
  const float* rates;  // [heads]
  int shift;

  Faded(const float* the_rates, int the_shift)
      : rates(the_rates), shift(the_shift) {}
  template <class R>
  __host__ __device__ R score(R s, int, int head, int query, int key) const {
    return s / divisor<Number<R>>(head, query, key);
  }
  template <class R>
  __host__ __device__ R derivative(R, int, int head, int query,
                                   int key) const {
    return 1 / divisor<Number<R>>(head, query, key);
  }

 private:
  template <class N>
  __host__ __device__ N divisor(int head, int query, int key) const {
    const int distance = query + shift - key;
    const int size = distance < 0 ? -distance : distance;
    return 1 + N(rates[head]) * std::log(N(1 + size));
  }
};
//! [own]
using Own = Masked<FirstAndWindow, Faded>;  // or one of the two alone
constexpr float kRates[] = {0.0f, 0.25f, 1.0f, 3.0f};  // of the heads

// The functors to test. `rates` is in the memory where they run.
std::vector<Own> own_functors(int shift, const float* rates) {
  const Faded scores(rates, shift);
  return {Own(FirstAndWindow(4, 40, shift), scores),
          Own(FirstAndWindow(0, 7, shift), scores),
          Own(FirstAndWindow(30, 1, shift), scores),
          Own(FirstAndWindow(70, 500, shift), scores)};
}
// The mask in other words.
bool sees(const Own& f, int query, int key) {
  const int place = query + f.mask.shift;
  return key <= place && (key < f.mask.first || key > place - f.mask.window);
}
//! [own]
// clang-format on

struct Lengths {
  int q, k;
};
constexpr Lengths kLengths[] = {{200, 200}, {130, 257}, {257, 130}, {1, 90}};

TEST_CASE("the rule of a functor of one's own agrees with its definition") {
  for (const auto& [length_q, length_k] : kLengths) {
    for (const Own& f : own_functors(length_k - length_q, kRates)) {
      int differing = 0, lost = 0, shown = 0;
      for (const auto& [m, n] : {std::pair{16, 8}, {64, 48}, {5, 32}}) {
        for (int query0 = 0; query0 < length_q; query0 += m) {
          for (int key0 = 0; key0 < length_k; key0 += n) {
            const ScoreTile tile{0,      0,
                                 query0, std::min(query0 + m, length_q) - 1,
                                 key0,   std::min(key0 + n, length_k) - 1};
            const TileKind kind = Own::needs_map ? TileKind::kPartial : f.tile_kind(tile);
            for (int i = tile.first_query; i <= tile.last_query; ++i) {
              for (int j = tile.first_key; j <= tile.last_key; ++j) {
                const bool seen = sees(f, i, j);
                differing += f.visible(0, 0, i, j) != seen;
                lost += kind == TileKind::kSkipped && seen;
                shown += kind == TileKind::kWhole && !seen;
              }
            }
          }
        }
      }
      CHECK(differing == 0);
      CHECK(lost == 0);
      CHECK(shown == 0);
    }
  }
}

TEST_CASE("the derivative of a functor of one's own agrees with central differences") {
  const Own f = own_functors(0, kRates)[0];
  const ScoreFunctor reference = reference_of(f);
  for (int head = 0; head < 4; ++head) {
    for (const int key : {0, 120, 150}) {
      for (const double s : {-30.0, -3.0, -0.4, 0.0, 0.9, 2.5, 12.0}) {
        CHECK(f.derivative(s, 0, head, 150, key) ==
              doctest::Approx(reference.derivative(s, 0, head, 150, key)).epsilon(1e-6));
      }
    }
  }
}

// clang-format off
//! [forward]
// O and LSE, from Q, K and V.
template <class Functor>
void forward(const Attention<half>& a, const Functor& functor, bool hopper) {
  if (hopper) {
    DeviceBuffer<TileKind> map(persistent_functor_workspace(a));
    DeviceBuffer<unsigned> counter(1);  // the next tile
    counter.zero();
    launch_persistent_functor(a, functor, Stream{}, map.data(),
                              counter.data());
  } else {
    DeviceBuffer<TileKind> map(score_functor_workspace<64>(a));
    launch_score_functor<64>(a, functor, Stream{}, map.data());
  }
}
//! [forward]

//! [backward]
// dQ, dK and dV, from dO and what the forward pass has read and written.
template <class Functor>
void backward(AttentionGradient<half>& a, const Functor& functor,
              bool hopper) {
  const Workspace what = hopper ? Workspace{128, true} : Workspace{64};
  DeviceBuffer<float> floats(workspace_floats(a, what));
  set_workspace(a, floats.data(), what);
  if (hopper) {
    DeviceBuffer<TileKind> map(hopper_functor_workspace(a));
    launch_backward_hopper_functor(a, functor, Stream{}, map.data());
  } else {
    DeviceBuffer<TileKind> map(backward_functor_workspace<64>(a));
    launch_backward_score_functor<64>(a, functor, Stream{}, map.data());
  }
}
//! [backward]
// clang-format on

// What both passes give with a functor, by kernels for sm_80 or for Hopper, beside lesson 01.
void check_kernels(const AttentionShape& shape, std::size_t number, bool hopper) {
  Problem problem;
  problem.shape = shape;
  problem.type = Type::kFloat16;
  const Shape<4> of_q = problem.shape_of_q(), of_k = problem.shape_of_kv();
  const Shape<3> rows{shape.batch, shape.heads, shape.length_q};
  const auto q = normal_tensor<fa::half, 4>(of_q, 1), k = normal_tensor<fa::half, 4>(of_k, 2);
  const auto v = normal_tensor<fa::half, 4>(of_k, 3), d_o = normal_tensor<fa::half, 4>(of_q, 4);
  Tensor<float, 4> no_o(of_q);
  Tensor<float, 3> no_lse(rows);
  poison(no_o.view()), poison(no_lse.view());
  const auto wide = [](const auto& x) { return converted<float>(x); };
  DeviceGradient<half> on_device(problem, {{wide(q), wide(k), wide(v)}, no_o, no_lse, wide(d_o)});
  AttentionGradient<half>& a = on_device.a;  // an Attention, and the gradients
  const int shift = a.length_k - a.length_q;
  DeviceBuffer<float> rates(4);
  rates.upload(kRates);
  const Own functor = own_functors(shift, rates.data())[number];
  forward(a, functor, hopper);
  backward(a, functor, hopper);

  const ScoreFunctor reference = reference_of(own_functors(shift, kRates)[number]);
  const auto q64 = converted<double>(q), k64 = converted<double>(k), v64 = converted<double>(v),
             d_o64 = converted<double>(d_o);
  const double scale = static_cast<double>(a.scale);
  const auto ref = naive::forward<double>(q64.view(), k64.view(), v64.view(), reference, scale);
  const auto plain = naive::forward<fa::half>(q.view(), k.view(), v.view(), reference, scale);
  const auto d_ref =
      naive::backward<double>(q64.view(), k64.view(), v64.view(), d_o64.view(), reference, scale);
  const auto d_plain =
      naive::backward<fa::half>(q.view(), k.view(), v.view(), d_o.view(), reference, scale);
  const auto found = on_device.result();
  const auto typed = [](const Tensor<float, 4>& x) { return converted<fa::half>(x); };
  const double factor = kGradientFactor;
  for (const Verdict& verdict :
       {accept("o", typed(on_device.o.host()), ref.o, plain.o),
        accept("lse", on_device.lse.tensor<float, 3>(rows), ref.lse, plain.lse),
        accept("d_q", typed(found.d_q), d_ref.d_q, d_plain.d_q, factor),
        accept("d_k", typed(found.d_k), d_ref.d_k, d_plain.d_k, factor),
        accept("d_v", typed(found.d_v), d_ref.d_v, d_plain.d_v, factor)}) {
    CHECK_MESSAGE(verdict.accepted, verdict.report());
  }
}

TEST_CASE("attention with a functor of one's own, and its gradients, are those of lesson 01") {
  for (const bool hopper : {false, true}) {
    if (!can_run(device_properties(), hopper ? kNeedsHopper : kNeedsMma)) continue;
    CAPTURE(hopper);
    for (std::size_t number = 0; number < own_functors(0, kRates).size(); ++number) {
      CAPTURE(number);
      for (const auto& [length_q, length_k] : kLengths) {
        check_kernels({1, 4, 2, length_q, length_k, 64}, number, hopper);
      }
      check_kernels({2, 2, 1, 77, 133, 40}, number, hopper);
    }
  }
}

}  // namespace
}  // namespace fa::FA_TARGET
