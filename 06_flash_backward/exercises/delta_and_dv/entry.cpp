#include "06_flash_backward/exercises/plain.hpp"
#include "common/classroom/prelude_lab.hpp"
#include "student/delta_and_dv.cuh"

using namespace fa::classroom;
using namespace fa::FA_TARGET;

// Launches one of the two kernels.
// @param lse_counts whether the LSE is in global memory; else it is in the host's memory, and the
//                   lab does not count reads of it
static Launched launched(const fa::backward::plain::PackedInputs& in, bool of_delta,
                         bool lse_counts = true) {
  return watched([&] {
    const auto q = on_device(in.q), o = on_device(in.o), d_o = on_device(in.d_o),
               k = on_device(in.k), lse = on_device(in.lse);
    DeviceBuffer<float> delta(std::int64_t{in.length_q} * in.heads),
        d_v(std::int64_t{in.length_k} * in.heads * 32);
    fa::FA_TARGET::student::Packed a{q.data(),    o.data(),     d_o.data(), k.data(),
                                     lse.data(),  delta.data(), d_v.data(), in.heads,
                                     in.length_q, in.length_k,  in.scale,   in.causal};
    if (!lse_counts) a.lse = in.lse.data();
    const auto heads = static_cast<unsigned>(in.heads);
    if (of_delta) {
      launch(fa::FA_TARGET::student::row_delta,
             {{static_cast<unsigned>(ceil_div(in.length_q, 4)), heads}, {32, 4}}, a);
      return from_device(delta);
    } else {
      launch(fa::FA_TARGET::student::value_gradients,
             {{static_cast<unsigned>(ceil_div(in.length_k, 32)), heads}, {32, 8}}, a);
      return from_device(d_v);
    }
  });
}

FA_ENTRY(row_delta, [](const fa::backward::plain::PackedInputs& in) { return launched(in, true); });

FA_ENTRY(value_gradients,
         [](const fa::backward::plain::PackedInputs& in) { return launched(in, false); });

FA_ENTRY(value_gradients_without_counting_lse,
         [](const fa::backward::plain::PackedInputs& in) { return launched(in, false, false); });

// Blocks of 2^31 elements and more; of the tensors only their rows exist. One head, no mask.
static Launched far(const fa::backward::plain::PackedInputs& in, bool of_delta) {
  Launched result;
  const auto q = on_device(in.q), o = on_device(in.o), d_o = on_device(in.d_o), k = on_device(in.k),
             lse = on_device(in.lse);
  DeviceBuffer<float> delta(in.length_q), d_v(std::int64_t{in.length_k} * 32);
  constexpr unsigned first = 1u << 27;  // row; it has 32 elements
  fa::FA_TARGET::student::Packed a{q.data(),    o.data(),     d_o.data(), k.data(),
                                   lse.data(),  delta.data(), d_v.data(), in.heads,
                                   in.length_q, in.length_k,  in.scale,   in.causal};
  constexpr std::int64_t before = std::int64_t{first} * 32;
  if (of_delta) {
    a.o -= before;
    a.d_o -= before;
    a.delta -= first;
    a.length_q += first;
    launch(far_blocks<fa::FA_TARGET::student::row_delta, fa::FA_TARGET::student::Packed>,
           {{static_cast<unsigned>(ceil_div(in.length_q, 4))}, {32, 4}}, fa::Size(first / 4, 0),
           fa::Size(first / 4 + 2), a);
    result.out = from_device(delta);
  } else {
    a.k -= before;
    a.d_v -= before;
    a.length_k += first;
    launch(far_blocks<fa::FA_TARGET::student::value_gradients, fa::FA_TARGET::student::Packed>,
           {{static_cast<unsigned>(ceil_div(in.length_k, 32))}, {32, 8}}, fa::Size(first / 32, 0),
           fa::Size(first / 32 + 1), a);
    result.out = from_device(d_v);
  }
  return result;
}

FA_ENTRY(far_delta, [](const fa::backward::plain::PackedInputs& in) { return far(in, true); });
FA_ENTRY(far_d_v, [](const fa::backward::plain::PackedInputs& in) { return far(in, false); });
