// The C interface: looks at what it is given, and launches a kernel. Compiled by nvcc for GPUs, and as C++ for the
// lab: see common/gpu/target.hpp.
#include <cmath>

#include "05_flash_forward/interface/checks.cuh"

namespace fa::FA_TARGET {
namespace {

int forward(const fa_attention* given) {
  return guarded([&] {
    check_problem(given);
    check_memory(*given);
    const OnItsGpu gpu({{"q", given->q},
                        {"k", given->k},
                        {"v", given->v},
                        {"o", given->o},
                        {"lse", given->lse}});
    with_attention(*given, [&](const auto& a, const char*) {
      launch_forward(a, stream_of(*given));
    });
  });
}

const char* name_of_kernel(const fa_attention* given) {
  const int status = guarded([&] {
    check_problem(given);
    with_attention(*given, [&](const auto& a, const char* type) {
      const auto kernel = forward_kernel(a);
      note_kernel(kernel.name, type, kernel.head_dim, *given);
    });
  });
  return status == FA_STATUS_OK ? last_name().c_str() : nullptr;
}

}  // namespace
}  // namespace fa::FA_TARGET

int fa_forward(const fa_attention* attention) {
  return fa::FA_TARGET::forward(attention);
}

const char* fa_kernel_name(const fa_attention* attention) {
  return fa::FA_TARGET::name_of_kernel(attention);
}

double fa_default_scale(int64_t head_dim) {
  return head_dim < 1 ? 0 : 1 / std::sqrt(static_cast<double>(head_dim));
}

const char* fa_runs_on() {
  return fa::FA_TARGET::runs_on();
}

const char* fa_last_error() {
  return fa::FA_TARGET::last_error().c_str();
}
