// The C interface: looks at what it is given, and launches a kernel. Compiled by nvcc for GPUs, and
// as C++ for the lab: see common/gpu/target.hpp.
#include <cmath>

#include "05_flash_forward/interface/checks.cuh"
#include "05_flash_forward/interface/decode.cuh"
#include "05_flash_forward/interface/functors.cuh"
#include "05_flash_forward/interface/packed.cuh"

namespace fa::FA_TARGET {
namespace {

int forward(const fa_attention* given) {
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

std::size_t bytes_of_workspace(const fa_attention* given) {
  std::size_t bytes = 0;
  guarded([&] {
    check_problem(given);
    with_attention(*given,
                   [&](const auto& a, const char*) { bytes = forward_kernel(a).workspace_bytes; });
  });
  return bytes;
}

const char* name_of_kernel(const fa_attention* given) {
  const int status = guarded([&] {
    check_problem(given);
    with_attention(*given, [&](const auto& a, const char* type) {
      const auto kernel = forward_kernel(a);
      note_kernel(kernel.name, type, kernel.head_dim, kernel.head_dim_v, *given);
    });
  });
  return status == FA_STATUS_OK ? last_name().c_str() : nullptr;
}

}  // namespace
}  // namespace fa::FA_TARGET

int fa_forward(const fa_attention* attention) {
  return fa::FA_TARGET::forward(attention);
}

int fa_decode(const fa_attention* attention, const fa_cache* cache) {
  return fa::FA_TARGET::decode(attention, cache);
}

size_t fa_decode_workspace_bytes(const fa_attention* attention, const fa_cache* cache) {
  return fa::FA_TARGET::bytes_of_decode_workspace(attention, cache);
}

const char* fa_decode_kernel_name(const fa_attention* attention, const fa_cache* cache) {
  return fa::FA_TARGET::decode_kernel_name(attention, cache);
}

int fa_append(const fa_attention* attention, const fa_cache* cache, const fa_new_keys* new_keys) {
  return fa::FA_TARGET::append(attention, cache, new_keys);
}

int fa_forward_packed(const fa_attention* attention, const fa_packed* packed) {
  return fa::FA_TARGET::forward_packed(attention, packed);
}

int fa_forward_functor(const fa_attention* attention, const fa_functor* functor) {
  return fa::FA_TARGET::forward_functor(attention, functor);
}

size_t fa_functor_workspace_bytes(const fa_attention* attention, const fa_functor* functor) {
  return fa::FA_TARGET::bytes_of_functor_workspace(attention, functor);
}

size_t fa_workspace_bytes(const fa_attention* attention) {
  return fa::FA_TARGET::bytes_of_workspace(attention);
}

const char* fa_kernel_name(const fa_attention* attention) {
  return fa::FA_TARGET::name_of_kernel(attention);
}

double fa_default_scale(int64_t head_dim) {
  return head_dim < 1 ? 0 : 1 / std::sqrt(static_cast<double>(head_dim));
}

const char* fa_runs_on() {
  return fa::FA_TARGET::kRunsOn;
}

const char* fa_last_error() {
  return fa::FA_TARGET::last_error().c_str();
}
