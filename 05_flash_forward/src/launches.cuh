/// @file
/// The launch functions of the ladder whose kernels take long to compile: see common/gpu/parts.hpp.
#pragma once

#include "05_flash_forward/kernels/04_register_tiles.cuh"
#include "05_flash_forward/kernels/05_tensor_cores.cuh"
#include "05_flash_forward/kernels/06_swizzle.cuh"
#include "05_flash_forward/kernels/07_pipeline.cuh"
#include "05_flash_forward/kernels/08_edge_masks.cuh"
#include "05_flash_forward/kernels/09_wgmma.cuh"
#include "05_flash_forward/kernels/10_warp_specialized.cuh"
#include "05_flash_forward/kernels/11_overlap.cuh"
#include "05_flash_forward/kernels/12_ping_pong.cuh"
#include "05_flash_forward/kernels/13_persistent.cuh"
#include "05_flash_forward/kernels/14_lazy_rescaling.cuh"
#include "05_flash_forward/kernels/15_warpgroup_tiles.cuh"
#include "05_flash_forward/kernels/16_mirrored_tiles.cuh"
#include "05_flash_forward/kernels/17_split_tf32.cuh"
#include "05_flash_forward/kernels/any_gpu.cuh"
#include "common/attention/shape.hpp"
#include "common/gpu/parts.hpp"

namespace fa::FA_TARGET {

/// @cond
// @{ What forward_kernel() chooses from.
#define FA_FLOAT(...) FA_LAUNCH(forward_float, __VA_ARGS__(const Attention<float>&, const Stream&))
FA_FLOAT(launch_register_tiles<FloatTile<32>>);
FA_FLOAT(launch_register_tiles<FloatTile<64>>);
FA_FLOAT(launch_register_tiles<FloatTile<128>>);
FA_FLOAT(launch_register_tiles<FloatTile<256>>);
FA_FLOAT(launch_register_tiles<FloatTile<64, true>>);
FA_FLOAT(launch_register_tiles<FloatTile<128, true>>);
FA_FLOAT(launch_register_tiles<FloatTile<256, true>>);
FA_FLOAT(launch_split_tf32<SplitForwardTile<32>>);
FA_FLOAT(launch_split_tf32<SplitForwardTile<64>>);
FA_FLOAT(launch_split_tf32<SplitForwardTile<128>>);
FA_FLOAT(launch_any_gpu<float>);
#undef FA_FLOAT

#define FA_CHOSEN(parameters, ...) FA_LAUNCH_16_BIT(forward, Attention, parameters, __VA_ARGS__)
FA_CHOSEN((const Stream&), launch_any_gpu);
FA_CHOSEN((const Stream&), launch_edge_masks<ForwardTileFor<32>>);
FA_CHOSEN((const Stream&), launch_edge_masks<ForwardTileFor<64>>);
FA_CHOSEN((const Stream&), launch_edge_masks<ForwardTileFor<128>>);
FA_CHOSEN((const Stream&), launch_edge_masks<ForwardTileFor<256>>);
FA_CHOSEN((const Stream&), launch_edge_masks<SmallForwardTile256>);
FA_CHOSEN((const Stream&, unsigned*), launch_lazy_rescaling);
FA_CHOSEN((const Stream&, unsigned*), launch_warpgroup_tiles<64>);
FA_CHOSEN((const Stream&, unsigned*), launch_warpgroup_tiles<96>);
FA_CHOSEN((const Stream&, unsigned*), launch_warpgroup_tiles<128>);
FA_CHOSEN((const Stream&, unsigned*), launch_warpgroup_tiles<192>);
FA_CHOSEN((const Stream&, unsigned*), launch_warpgroup_tiles<256>);
FA_CHOSEN((const Stream&, unsigned*), launch_warpgroup_tiles<kMlaHeadDim, kMlaHeadDimV>);
FA_CHOSEN((const Stream&), launch_mirrored_tiles<64>);
FA_CHOSEN((const Stream&), launch_mirrored_tiles<128>);
FA_CHOSEN((const Stream&), launch_mirrored_tiles<256>);
#undef FA_CHOSEN
// @}

// @{ Other rungs.
#define FA_RUNG(parameters, ...) FA_LAUNCH_16_BIT(forward_rungs, Attention, parameters, __VA_ARGS__)
FA_RUNG((const Stream&), launch_tensor_cores);
FA_RUNG((const Stream&), launch_swizzle);
FA_RUNG((const Stream&), launch_pipeline);
FA_RUNG((const Stream&), launch_wgmma);
FA_RUNG((const Stream&), launch_warp_specialized);
FA_RUNG((const Stream&), launch_overlap);
FA_RUNG((const Stream&), launch_ping_pong);
FA_RUNG((const Stream&, unsigned*), launch_persistent);
#undef FA_RUNG
// @}
/// @endcond

}  // namespace fa::FA_TARGET
