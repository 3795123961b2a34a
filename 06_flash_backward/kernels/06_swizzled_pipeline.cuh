/// @file
/// What lesson 05 does in steps 06 to 08: tiles are swizzled and read by ldmatrix, which transposes
/// where a matmul needs it; cp.async loads the next tiles of Q and dO while the tensor cores work;
/// only tiles at the edge of the mask pay for it. New is that P and dS are computed between the mma
/// instructions of another matmul. The loop is swizzled_pipeline_block(), which others use, too.
#pragma once

#include "06_flash_backward/library/mma_block.cuh"

namespace fa::FA_TARGET {

/// The kernel.
template <class Tile, class T, bool has_dropout>
__global__ void __launch_bounds__(Tile::threads, Tile::warps == 4 ? 2 : 1)
    flash_backward_swizzled_pipeline(AttentionGradient<T> a) {
  swizzled_pipeline_block<Tile, has_dropout>(a, blockIdx.x * Tile::block_n,
                                             blockIdx.y, blockIdx.z);
}

/// Launches the step.
/// @param a      with a Workspace{d}
/// @param device where; it decides on the tile
template <int d, class T>
void launch_backward_swizzled_pipeline(
    const AttentionGradient<T>& a, const Stream& stream,
    const DeviceProperties& device = device_properties()) {
  with_swizzled_tile<d, T>(device, [&](auto tile) {
    using Tile = decltype(tile);
    const std::size_t bytes = swizzled_backward_bytes<Tile, T>();
    launch(stream, preprocess_16_bit<d, T>, preprocess_launch<d>(a), a);
    launch(stream,
           a.dropout.threshold > 0
               ? flash_backward_swizzled_pipeline<Tile, T, true>
               : flash_backward_swizzled_pipeline<Tile, T, false>,
           {grid_of_keys(a, Tile::block_n), Tile::threads, bytes,
            kPipelineStages},
           a);
    launch(stream, postprocess_d_q<Tile, T>, postprocess_launch<Tile>(a), a);
  });
}

FA_LAUNCH_16_BIT(backward_mma, AttentionGradient,
                 (const Stream&, const DeviceProperties&),
                 launch_backward_swizzled_pipeline, (32), (64), (128), (256));

FA_STEP_ROW(backward, 6) {
  return row("06_swizzled_pipeline",
             "swizzle, cp.async, P and dS between matmuls", half{},
             bfloat16{})
      .needs(kNeedsMma)
      .any_order()
      .head_dims(HeadDims<32, 64, 128, 256>{})
      .over_queries(SwizzledBackwardTile<64>{}, kPipelineStages)
      .over_queries(SwizzledBackwardTile<256>{}, kPipelineStages)
      .shared_bytes([](auto d) { return least_keys_bytes<d>(); })
      .memory_is("4 N D + 8 N",
                 [](auto n, auto d) { return 4 * n * d + 8 * n; })
      .workspace([](auto&, auto d) { return Workspace{d}; })
      .launch([](auto& a, auto d, auto& stream) {
        launch_backward_swizzled_pipeline<d>(a, stream);
      });
}

}  // namespace fa::FA_TARGET
