// The C interface: looks at what it is given, and launches a kernel. Compiled by nvcc for GPUs, and
// as C++ for the lab: see common/gpu/target.hpp.
#include <cmath>

#include "05_flash_forward/interface/checks.cuh"
#include "05_flash_forward/interface/decode.cuh"
#include "05_flash_forward/interface/functors.cuh"
#include "05_flash_forward/interface/packed.cuh"

int fa_forward(const fa_attention* given) {
  return guarded([&] {
    check_problem(given);
    const CurrentGpu gpu(checked_gpu(checked_call(*given)));
    with_attention(*given, [&](const auto& a, const char*) {
      const ForwardKernel kernel = forward_kernel(a);
      check_workspace(*given, kernel.workspace_bytes);
      kernel.launch(stream_of(*given), static_cast<unsigned*>(given->workspace));
    });
  });
}

size_t fa_workspace_bytes(const fa_attention* given) {
  return guarded_bytes([&](std::size_t& bytes) {
    check_problem(given);
    with_attention(*given,
                   [&](const auto& a, const char*) { bytes = forward_kernel(a).workspace_bytes; });
  });
}

const char* fa_kernel_name(const fa_attention* given) {
  return guarded_name([&] {
    check_problem(given);
    with_attention(*given, [&](const auto& a, const char* type) {
      const auto kernel = forward_kernel(a);
      note_kernel(kernel.name, type, kernel.head_dim, kernel.head_dim_v, *given);
    });
  });
}

double fa_default_scale(int64_t head_dim) {
  return head_dim < 1 ? 0 : 1 / std::sqrt(static_cast<double>(head_dim));
}

const char* fa_runs_on() {
  return kRunsOn;
}

const char* fa_last_error() {
  return last_error().c_str();
}
