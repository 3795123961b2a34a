/// @file
/// The launch functions of the ladder whose kernels take long to compile: see common/gpu/parts.hpp.
#pragma once

#include "06_flash_backward/kernels/04_atomics.cuh"
#include "06_flash_backward/kernels/05_tensor_cores.cuh"
#include "06_flash_backward/kernels/07_deterministic.cuh"
#include "06_flash_backward/kernels/08_wgmma.cuh"
#include "06_flash_backward/kernels/15_dependent_launch.cuh"
#include "06_flash_backward/kernels/16_transposed_gradients.cuh"
#include "06_flash_backward/kernels/17_split_tf32.cuh"
#include "06_flash_backward/kernels/19_split_groups.cuh"
#include "06_flash_backward/kernels/20_split_wide_groups.cuh"
#include "06_flash_backward/kernels/any_gpu.cuh"
#include "common/attention/shape.hpp"
#include "common/gpu/parts.hpp"

namespace fa::FA_TARGET {

/// @cond
// @{ What backward_kernels() chooses from.
#define FA_FLOAT(...) \
  FA_LAUNCH(backward_float, __VA_ARGS__(const AttentionGradient<float>&, const Stream&))
FA_FLOAT(launch_backward_two_kernels<32>);
FA_FLOAT(launch_backward_two_kernels<64>);
FA_FLOAT(launch_backward_two_kernels<128>);
FA_FLOAT(launch_backward_two_kernels<256>);
FA_FLOAT(launch_backward_atomics<32>);
FA_FLOAT(launch_backward_atomics<64>);
FA_FLOAT(launch_backward_atomics<128>);
FA_FLOAT(launch_backward_atomics<256>);
FA_FLOAT(launch_backward_split_tf32<32>);
FA_FLOAT(launch_backward_split_tf32<64>);
FA_FLOAT(launch_backward_split_tf32<128>);
FA_FLOAT(launch_backward_any_gpu<float>);
#undef FA_FLOAT

#define FA_MMA(...)                                                                           \
  FA_LAUNCH_16_BIT(backward_mma, AttentionGradient, (const Stream&, const DeviceProperties&), \
                   __VA_ARGS__)
FA_MMA(launch_backward_swizzled_pipeline<32>);
FA_MMA(launch_backward_swizzled_pipeline<64>);
FA_MMA(launch_backward_swizzled_pipeline<128>);
FA_MMA(launch_backward_swizzled_pipeline<256>);
FA_MMA(launch_backward_deterministic<32>);
FA_MMA(launch_backward_deterministic<64>);
FA_MMA(launch_backward_deterministic<128>);
FA_MMA(launch_backward_deterministic<256>);
#undef FA_MMA
FA_LAUNCH_16_BIT(backward_mma, AttentionGradient, (const Stream&), launch_backward_any_gpu);

#define FA_HOPPER(parameters, ...) \
  FA_LAUNCH_16_BIT(backward_hopper, AttentionGradient, parameters, __VA_ARGS__)
FA_HOPPER((bool, const Stream&), launch_backward_dependent<64>);
FA_HOPPER((bool, const Stream&), launch_backward_dependent<96>);
FA_HOPPER((bool, const Stream&), launch_backward_dependent<128>);
FA_HOPPER((int, bool, const Stream&), launch_backward_split_groups<64>);
FA_HOPPER((int, bool, const Stream&), launch_backward_split_groups<96>);
FA_HOPPER((int, bool, const Stream&), launch_backward_split_groups<128>);
#undef FA_HOPPER

#define FA_WIDE(parameters, ...) \
  FA_LAUNCH_16_BIT(backward_wide, AttentionGradient, parameters, __VA_ARGS__)
FA_WIDE((const Stream&), launch_backward_wide_heads<192>);
FA_WIDE((const Stream&), launch_backward_wide_heads<256>);
FA_WIDE((const Stream&), launch_backward_wide_heads<kMlaHeadDim, kMlaHeadDimV>);
FA_WIDE((int, const Stream&), launch_backward_split_wide<192, 192>);
FA_WIDE((int, const Stream&), launch_backward_split_wide<256, 256>);
FA_WIDE((int, const Stream&), launch_backward_split_wide<kMlaHeadDim, kMlaHeadDimV>);
FA_WIDE((const Stream&), launch_backward_pairs<kMlaHeadDimV>);
FA_WIDE((const Stream&), launch_backward_pairs<192>);
FA_WIDE((int, const Stream&), launch_backward_split_pairs<kMlaHeadDimV>);
FA_WIDE((int, const Stream&), launch_backward_split_pairs<192>);
#undef FA_WIDE
// @}

// @{ Other rungs.
#define FA_RUNG(...) \
  FA_LAUNCH_16_BIT(backward_rungs, AttentionGradient, (const Stream&), __VA_ARGS__)
FA_RUNG(launch_backward_tensor_cores<64>);
FA_RUNG(launch_backward_tensor_cores<128>);
FA_RUNG(launch_backward_wgmma<64>);
FA_RUNG(launch_backward_wgmma<128>);
FA_RUNG(launch_backward_warp_specialized<64>);
FA_RUNG(launch_backward_warp_specialized<128>);
FA_RUNG(launch_backward_delayed_dq<64>);
FA_RUNG(launch_backward_delayed_dq<128>);
FA_RUNG(launch_backward_ordered_dq<64>);
FA_RUNG(launch_backward_ordered_dq<96>);
FA_RUNG(launch_backward_ordered_dq<128>);
FA_RUNG(launch_backward_store_then_reduce<64>);
FA_RUNG(launch_backward_store_then_reduce<96>);
FA_RUNG(launch_backward_store_then_reduce<128>);
FA_RUNG(launch_backward_persistent<false>);
FA_RUNG(launch_backward_transposed);
#undef FA_RUNG
// @}
/// @endcond

}  // namespace fa::FA_TARGET
