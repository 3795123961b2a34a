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

int backward(const fa_gradient* given) {
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
      launch_backward(gradient, deterministic, stream_of(a));
    });
  });
}

std::size_t bytes_of_workspace(const fa_gradient* given) {
  std::size_t bytes = 0;
  guarded([&] {
    check_gradient(given);
    with_gradient(*given, [&](const auto& gradient, const char*) {
      bytes = workspace_bytes(gradient, given->deterministic != 0);
    });
  });
  return bytes;
}

const char* name_of_kernels(const fa_gradient* given) {
  const int status = guarded([&] {
    check_gradient(given);
    with_gradient(*given, [&](const auto& gradient, const char* type) {
      const auto kernels = backward_kernels(gradient, given->deterministic != 0);
      note_kernel(kernels.name, type, kernels.columns, kernels.columns_v, given->attention);
    });
  });
  return status == FA_STATUS_OK ? last_name().c_str() : nullptr;
}

}  // namespace
}  // namespace fa::FA_TARGET

int fa_backward(const fa_gradient* gradient) {
  return fa::FA_TARGET::backward(gradient);
}

size_t fa_backward_workspace_bytes(const fa_gradient* gradient) {
  return fa::FA_TARGET::bytes_of_workspace(gradient);
}

int fa_backward_functor(const fa_gradient* gradient, const fa_functor* functor, float* d_bias,
                        float* d_sinks) {
  return fa::FA_TARGET::backward_functor(gradient, functor, d_bias, d_sinks);
}

size_t fa_backward_functor_workspace_bytes(const fa_gradient* gradient, const fa_functor* functor) {
  return fa::FA_TARGET::bytes_of_functor_workspace(gradient, functor);
}

int fa_backward_packed(const fa_gradient* gradient, const fa_packed* packed) {
  return fa::FA_TARGET::backward_packed(gradient, packed);
}

size_t fa_backward_packed_workspace_bytes(const fa_gradient* gradient, const fa_packed* packed) {
  return fa::FA_TARGET::bytes_of_packed_workspace(gradient, packed);
}

const char* fa_backward_kernel_name(const fa_gradient* gradient) {
  return fa::FA_TARGET::name_of_kernels(gradient);
}

const char* fa_backward_runs_on() {
  return fa::FA_TARGET::kRunsOn;
}

const char* fa_backward_last_error() {
  return fa::FA_TARGET::last_error().c_str();
}
