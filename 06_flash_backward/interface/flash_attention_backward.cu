// The C interface: looks at what it is given, and launches kernels. Compiled by nvcc for GPUs, and
// as C++ for the lab: see common/gpu/target.hpp.
#include "06_flash_backward/interface/functors.cuh"
#include "06_flash_backward/interface/gradient_checks.cuh"
#include "06_flash_backward/interface/packed.cuh"

namespace fa::FA_TARGET {
namespace {

template <class T>
std::size_t workspace_bytes(const AttentionGradient<T>& a, bool deterministic) {
  return sizeof(float) *
         static_cast<std::size_t>(workspace_floats(a, workspace_of(a, deterministic)));
}

}  // namespace
}  // namespace fa::FA_TARGET

int fa_backward(const fa_gradient* given) {
  return guarded([&] {
    check_gradient(given);
    const fa_gradient& g = *given;
    const fa_attention& a = g.attention;
    const CurrentGpu gpu(checked_gpu(checked_call(g)));
    const bool deterministic = g.deterministic != 0;
    with_gradient(g, [&](auto gradient, const char*) {
      check_workspace_bytes(g.workspace_bytes, workspace_bytes(gradient, deterministic));
      set_workspace(gradient, static_cast<float*>(g.workspace),
                    workspace_of(gradient, deterministic));
      backward_kernels(gradient, deterministic).launch(stream_of(a));
    });
  });
}

size_t fa_backward_workspace_bytes(const fa_gradient* given) {
  return guarded_bytes([&](std::size_t& bytes) {
    check_gradient(given);
    with_gradient(*given, [&](const auto& gradient, const char*) {
      bytes = workspace_bytes(gradient, given->deterministic != 0);
    });
  });
}

const char* fa_backward_kernel_name(const fa_gradient* given) {
  return guarded_name([&] {
    check_gradient(given);
    with_gradient(*given, [&](const auto& gradient, const char* type) {
      const auto kernels = backward_kernels(gradient, given->deterministic != 0);
      note_kernel(kernels.name, type, kernels.columns, kernels.columns_v, given->attention);
    });
  });
}

const char* fa_backward_runs_on() {
  return kRunsOn;
}

const char* fa_backward_last_error() {
  return last_error().c_str();
}
