#include "06_flash_backward/exercises/packed.hpp"
#include "common/classroom/prelude_lab.hpp"
#include "student/delta_and_dv.cuh"

using namespace fa::classroom;
using namespace fa::FA_TARGET;

// Launches one of the two kernels.
static Launched launched(const PackedInputs& in, bool of_delta) {
  Launched result;
  result.seen = watch([&] {
    const auto q = on_device(in.q), o = on_device(in.o),
               d_o = on_device(in.d_o), k = on_device(in.k),
               lse = on_device(in.lse);
    DeviceBuffer<float> delta(std::int64_t{in.length_q} * in.heads),
        d_v(std::int64_t{in.length_k} * in.heads * 32);
    const fa::FA_TARGET::student::Packed a{
        q.data(),    o.data(),     d_o.data(), k.data(),
        lse.data(),  delta.data(), d_v.data(), in.heads,
        in.length_q, in.length_k,  in.scale,   in.causal};
    const auto heads = static_cast<unsigned>(in.heads);
    if (of_delta) {
      launch(
          fa::FA_TARGET::student::row_delta,
          {{static_cast<unsigned>(ceil_div(in.length_q, 4)), heads}, {32, 4}},
          a);
      result.out = from_device(delta);
    } else {
      launch(fa::FA_TARGET::student::value_gradients,
             {{static_cast<unsigned>(ceil_div(in.length_k, 32)), heads},
              {32, 8}},
             a);
      result.out = from_device(d_v);
    }
  });
  return result;
}

FA_ENTRY(row_delta,
         [](const PackedInputs& in) { return launched(in, true); });

FA_ENTRY(value_gradients,
         [](const PackedInputs& in) { return launched(in, false); });
