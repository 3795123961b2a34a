/// @file
/// Which kernels compute gradients. The training program and the C interface share it.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>

#include "05_flash_forward/src/dispatch.cuh"
#include "06_flash_backward/kernels/04_atomics.cuh"
#include "06_flash_backward/kernels/06_swizzled_pipeline.cuh"
#include "06_flash_backward/kernels/07_deterministic.cuh"
#include "06_flash_backward/kernels/17_split_tf32.cuh"
#include "06_flash_backward/kernels/19_split_groups.cuh"
#include "06_flash_backward/kernels/20_split_wide_groups.cuh"
#include "06_flash_backward/kernels/any_gpu.cuh"
#include "06_flash_backward/kernels/gradient.cuh"
#include "common/attention/shape.hpp"

namespace fa::FA_TARGET {

/// Columns that the kernels with TMA, 08 to 16 and 18 to 20, are compiled for; 0 for a problem that
/// they do not take, whatever its strides.
template <class T>
int tma_columns(const Attention<T>& a) {
  if (sizeof(T) != 2 || a.dropout.threshold != 0) return 0;
  return with_head_dim<64, 96, 128, 192, 256>(a.head_dim,
                                              [](auto d) { return decltype(d)::value; });
}

/// Whether the kernels with TMA take a problem: see can_use_tma(). Blocks of keys must be countable
/// as those of queries are.
template <class T>
bool can_use_tma_backward(const AttentionGradient<T>& a) {
  Attention<T> gradients = a;  // those of the tensors, in their place
  gradients.q_strides = a.d_o_strides;
  gradients.o_strides = a.d_q_strides;
  gradients.k_strides = a.d_k_strides;
  gradients.v_strides = a.d_v_strides;
  const std::int64_t blocks_of_keys =
      std::int64_t{a.batch} * a.kv_heads * ceil_div<std::int64_t>(a.length_k, kKeys);
  return tma_columns(a) > 0 && can_use_tma<T>(a) && can_use_tma<T>(gradients) &&
         blocks_of_keys < std::numeric_limits<int>::max() / 2;
}

/// Whether every run gives the same bits. On a Hopper GPU it does for the widest heads without
/// dropout: by step 13, or by step 07 where strides rule out step 13, so that neither needs
/// d_q_accum.
/// @param requested whether the caller asked for it
template <class T>
bool is_deterministic(const Attention<T>& a, bool requested, const DeviceProperties& device) {
  return requested || (prefers_hopper(device) && tma_columns(a) > kTransposedColumns);
}

/// Shared memory of a block of step 06, or of 07, at least.
inline std::size_t sm_80_backward_bytes(std::int64_t head_dim, bool deterministic) {
  return with_head_dim<32, 64, 128, 256>(head_dim, [=](auto d) {
    return deterministic ? std::max(least_keys_bytes<d>(), least_queries_bytes<d>())
                         : least_keys_bytes<d>();
  });
}

/// Whether a device can run the kernels without Hopper's instructions. They have the same columns
/// for all tensors.
inline bool runs_backward(const AttentionGradient<float>& a, bool /*deterministic*/,
                          const DeviceProperties& device) {
  const std::size_t bytes =
      with_head_dim<32, 64, 128, 256>(a.head_dim, [](auto d) { return kTwoKernelsBytes<d>; });
  return a.head_dim_v == a.head_dim && can_run(device, Needs{}.with_shared(bytes));
}
/// The same for the 16-bit types.
template <class T>
bool runs_backward(const Attention<T>& a, bool deterministic, const DeviceProperties& device) {
  return a.head_dim_v == a.head_dim &&
         can_run(device, kNeedsMma.with_shared(sm_80_backward_bytes(a.head_dim, deterministic)));
}

/// Whether step 17 is chosen for a problem in float32; not in the lab, as step 17 of lesson 05.
inline bool prefers_split_tf32(const Attention<float>& a, bool deterministic,
                               const DeviceProperties& device) {
  const std::size_t bytes =
      with_head_dim<32, 64, 128>(a.head_dim, [](auto d) { return kSplitBackwardBytes<d>; });
  return !deterministic && device.compute_capability != 0 && a.head_dim <= 128 &&
         can_run(device, kNeedsMma.with_shared(bytes));
}

/// What backward_kernels() need.
inline Workspace workspace_of(const Attention<float>&, bool /*requested*/,
                              const DeviceProperties& /*device*/ = device_properties()) {
  return {0};  // steps 04 and 17 add to dQ itself
}
/// Floats of d_kv_parts in the kernels for Hopper.
/// @param tma columns of q: see tma_columns()
template <class T>
std::int64_t kv_part_floats(const Attention<T>& a, int tma, bool deterministic,
                            const DeviceProperties& device) {
  if (tma == 0) return 0;
  if (tma < kWideHeads) {
    return d_kv_floats(a, kKeyWarpgroups * kKeys, 2 * tma, parts_of_groups(a, device),
                       deterministic);
  }
  const int columns = tma + (a.head_dim_v == a.head_dim ? tma : kMlaHeadDimV);
  return deterministic ? d_kv_floats(a, kKeys, columns, parts_of_wide_groups(a, device))
                       : d_kv_floats(a, kPairKeys, columns, parts_of_pair_groups(a, device));
}

/// What backward_kernels() need in the 16-bit types, for any strides.
/// @param requested whether every run must give the same bits
template <class T>
Workspace workspace_of(const Attention<T>& a, bool requested,
                       const DeviceProperties& device = device_properties()) {
  const bool deterministic = is_deterministic(a, requested, device);
  const int tma = prefers_hopper(device) ? tma_columns(a) : 0;
  const std::int64_t parts = kv_part_floats(a, tma, deterministic, device);
  if (!runs_backward(a, deterministic, device)) {
    return {a.head_dim_v != a.head_dim && !deterministic ? tma : 0, false, parts};
  }
  int sm_80 = 0;  // columns of step 06
  if (!deterministic)
    sm_80 = with_head_dim<32, 64, 128, 256>(a.head_dim, [](auto d) { return decltype(d)::value; });
  if (tma >= kWideHeads) return {deterministic ? 0 : std::max(sm_80, tma), false, parts};
  return {std::max(sm_80, tma), tma > 0, parts};
}

/// The kernels that compute a problem.
struct BackwardKernels {
  std::function<void(const Stream&)> launch;
  /// Name of their file in kernels/.
  const char* name;
  /// Columns that they are compiled for.
  int columns;
  /// The same of v and o.
  int columns_v = columns;
};

/// Kernels for what no other ones support.
template <class T>
BackwardKernels any_gpu_kernels(const AttentionGradient<T>& a) {
  return {[=](const Stream& stream) { launch_backward_any_gpu(a, stream); }, "any_gpu",
          kAnyGpuColumns};
}

/// The fastest kernels for gradients in float32 with a head dimension that is a multiple of 8 up
/// to 256.
/// @param a             with a workspace for workspace_of()
/// @param deterministic whether every run must give the same bits
/// @param device        the choice depends on nothing else
inline BackwardKernels backward_kernels(const AttentionGradient<float>& a, bool deterministic,
                                        const DeviceProperties& device = device_properties()) {
  if (!runs_backward(a, deterministic, device)) return any_gpu_kernels(a);
  if (prefers_split_tf32(a, deterministic, device)) {
    return with_head_dim<32, 64, 128>(a.head_dim, [&](auto columns) -> BackwardKernels {
      constexpr int d = decltype(columns)::value;
      return {[=](const Stream& stream) { launch_backward_split_tf32<d>(a, stream); },
              "17_split_tf32", d};
    });
  }
  return with_head_dim<32, 64, 128, 256>(a.head_dim, [&](auto columns) -> BackwardKernels {
    constexpr int d = decltype(columns)::value;
    if (deterministic) {
      return {[=](const Stream& stream) { launch_backward_two_kernels<d>(a, stream); },
              "03_two_kernels", d};
    }
    return {[=](const Stream& stream) { launch_backward_atomics<d>(a, stream); }, "04_atomics", d};
  });
}

/// The fastest kernels without Hopper's instructions, for the 16-bit types.
template <class T>
BackwardKernels sm_80_kernels(const AttentionGradient<T>& a, bool deterministic,
                              const DeviceProperties& device) {
  if (!runs_backward(a, deterministic, device)) return any_gpu_kernels(a);
  return with_head_dim<32, 64, 128, 256>(a.head_dim, [&](auto columns) -> BackwardKernels {
    constexpr int d = decltype(columns)::value;
    if (deterministic) {
      return {[=](const Stream& stream) { launch_backward_deterministic<d>(a, stream, device); },
              "07_deterministic", d};
    }
    return {[=](const Stream& stream) { launch_backward_swizzled_pipeline<d>(a, stream, device); },
            "06_swizzled_pipeline", d};
  });
}

/// Step 15, or with divided groups, where heads of K and V are few, step 19.
template <int d, class T>
BackwardKernels narrow_kernels(const AttentionGradient<T>& a, bool deterministic,
                               const DeviceProperties& device) {
  const int parts = parts_of_groups(a, device);
  if (parts == 1) {
    return {[=](const Stream& stream) { launch_backward_dependent<d>(a, deterministic, stream); },
            "15_dependent_launch", d};
  }
  return {[=](const Stream& stream) {
            launch_backward_split_groups<d>(a, parts, deterministic, stream);
          },
          "19_split_groups", d};
}
/// Step 13, or with divided groups step 20.
template <int d, int columns_v, class T>
BackwardKernels wide_kernels(const AttentionGradient<T>& a, const DeviceProperties& device) {
  const int parts = parts_of_wide_groups(a, device);
  if (parts == 1) {
    return {[=](const Stream& stream) { launch_backward_wide_heads<d, columns_v>(a, stream); },
            "13_wide_heads", d, columns_v};
  }
  return {[=](const Stream& stream) { launch_backward_split_wide<d, columns_v>(a, parts, stream); },
          "20_split_wide_groups", d, columns_v};
}
/// Step 18, or with divided groups step 20.
template <int columns_v, class T>
BackwardKernels pair_kernels(const AttentionGradient<T>& a, const DeviceProperties& device) {
  const int parts = parts_of_pair_groups(a, device);
  if (parts == 1) {
    return {[=](const Stream& stream) { launch_backward_pairs<columns_v>(a, stream); },
            "18_block_pairs", kTransposedColumns, columns_v};
  }
  return {[=](const Stream& stream) { launch_backward_split_pairs<columns_v>(a, parts, stream); },
          "20_split_wide_groups", kTransposedColumns, columns_v};
}

/// The fastest kernels with Hopper's instructions, for a problem for which can_use_tma_backward()
/// holds.
template <class T>
BackwardKernels sm_90_kernels(const AttentionGradient<T>& a, bool deterministic,
                              const DeviceProperties& device) {
  if (a.head_dim_v != a.head_dim) {
    return deterministic ? wide_kernels<kMlaHeadDim, kMlaHeadDimV>(a, device)
                         : pair_kernels<kMlaHeadDimV>(a, device);
  }
  if (a.head_dim >= kWideHeads && !deterministic) return pair_kernels<192>(a, device);
  if (a.head_dim >= kWideHeads) {
    return with_head_dim<192, 256>(a.head_dim, [&](auto columns) {
      constexpr int d = decltype(columns)::value;
      return wide_kernels<d, d>(a, device);
    });
  }
  return with_head_dim<64, 96, 128>(a.head_dim, [&](auto columns) {
    return narrow_kernels<decltype(columns)::value>(a, deterministic, device);
  });
}

/// The fastest kernels for the 16-bit types; arguments as for float32.
template <class T>
BackwardKernels backward_kernels(const AttentionGradient<T>& a, bool requested,
                                 const DeviceProperties& device = device_properties()) {
  static_assert(sizeof(T) == 2, "half or bfloat16");
  const bool deterministic = is_deterministic(a, requested, device);
  return prefers_hopper(device) && can_use_tma_backward(a)
             ? sm_90_kernels(a, deterministic, device)
             : sm_80_kernels(a, deterministic, device);
}

}  // namespace fa::FA_TARGET
