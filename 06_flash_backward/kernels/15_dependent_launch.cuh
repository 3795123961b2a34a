/// @file
/// Programmatic dependent launch: of the three kernels of a backward pass each may start before the
/// one before it has ended. Its blocks become resident as SMs become free, initialize their
/// barriers and wait in grid_dependency_wait() for what the kernel before writes. Launching a
/// kernel takes some microseconds, which a small problem notices.
///
/// Source: NVIDIA, CUDA C++ Programming Guide, programmatic dependent launch and synchronization.
#pragma once

#include "06_flash_backward/kernels/11_ordered_dq.cuh"
#include "06_flash_backward/kernels/14_persistent.cuh"

namespace fa::FA_TARGET {

/// The first kernel of a pass: the second one may start at once.
template <int d, class T>
__global__ void dependent_preprocess(AttentionGradient<T> a) {
  launch_dependents();
  preprocess_rows_and_counter<d>(a);
}

/// The second one, as in step 14.
//! [start]
template <class Tile, bool ordered, class T>
__global__ void __launch_bounds__(kWarpgroup*(kKeyWarpgroups + 1), 1)
    dependent_persistent(const __grid_constant__ TmaGradient<T> maps,
                         const TileScheduler scheduler) {
  auto& shared = *dynamic_shared<PersistentBackwardShared<Tile>>();
  launch_dependents();
  shared.init();
  grid_dependency_wait();  // for delta, LSE, semaphores and the tile counter
  persistent_block<Tile, ordered>(shared, maps, scheduler);
}
//! [start]
/// The second one, in the order of step 11.
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(kKeyWarpgroups + 1), 1)
    dependent_ordered_tiles(const __grid_constant__ TmaGradient<T> maps,
                            const TileScheduler scheduler) {
  auto& shared = *dynamic_shared<OrderedTilesShared<Tile>>();
  launch_dependents();
  shared.init();
  grid_dependency_wait();
  ordered_tiles_block(shared, maps, scheduler);
}
/// The second one, as in step 12.
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(kKeyWarpgroups + 1), 1)
    dependent_store_then_reduce(const __grid_constant__ TmaGradient<T> maps,
                                const TileScheduler scheduler) {
  auto& shared = *dynamic_shared<DelayedBackwardShared<Tile>>();
  launch_dependents();
  shared.init();
  grid_dependency_wait();
  store_then_reduce_block(shared, maps, scheduler);
}

/// The third one.
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup* kKeyWarpgroups)
    dependent_postprocess(const __grid_constant__ TmaGradient<T> maps) {
  grid_dependency_wait();  // for the sums of dQ
  postprocess_m_block<Tile>(maps);
}

/// Launches the three kernels of a pass. The first one has no attribute: a pass does not overlap
/// with what stands before it on the stream.
/// @tparam Shared of the second kernel
//! [launch]
template <class Tile, class Shared, class T>
void launch_dependent(void (*second)(TmaGradient<T>, TileScheduler),
                      const Size& grid, const AttentionGradient<T>& a,
                      const TileScheduler& scheduler, const Stream& stream) {
  constexpr int d = Tile::d;
  launch(stream, dependent_preprocess<d, T>, preprocess_launch<d>(a), a);
  const TmaGradient<T> maps = tma_gradient<Tile>(a);
  Launch sizes{grid, kWarpgroup * (kKeyWarpgroups + 1), sizeof(Shared),
               Tile::stages};
  sizes.with_pdl = true;
  launch(stream, second, sizes, maps, scheduler);
  sizes = tma_postprocess_launch<Tile>(a);
  sizes.with_pdl = true;
  launch(stream, dependent_postprocess<Tile, T>, sizes, maps);
}
//! [launch]

/// Launches the step: as step 14 where persistent blocks are faster, or else as step 12 or in the
/// order of step 11.
/// @param a             with a Workspace{d, true}
/// @param deterministic whether every run gives the same bits
template <int d, class T>
void launch_backward_dependent(const AttentionGradient<T>& a,
                               bool deterministic, const Stream& stream) {
  using Tile = HopperBackwardTileFor<T, d>;
  const TileScheduler scheduler = n_block_scheduler<Tile>(a, deterministic);
  if constexpr (d == 64) {
    if (prefers_persistent_blocks(a)) {
      launch_dependent<Tile, PersistentBackwardShared<Tile>>(
          deterministic ? dependent_persistent<Tile, true, T>
                        : dependent_persistent<Tile, false, T>,
          persistent_grid(scheduler), a, scheduler, stream);
      return;
    }
  }
  const Size grid = grid_of_work(scheduler);
  if (deterministic) {
    launch_dependent<Tile, OrderedTilesShared<Tile>>(
        dependent_ordered_tiles<Tile, T>, grid, a, scheduler, stream);
  } else {
    launch_dependent<Tile, DelayedBackwardShared<Tile>>(
        dependent_store_then_reduce<Tile, T>, grid, a, scheduler, stream);
  }
}

FA_LAUNCH_16_BIT(backward_hopper, AttentionGradient, (bool, const Stream&),
                 launch_backward_dependent, (64), (96), (128));

FA_STEP_ROW(backward, 15) {
  return row("15_dependent_launch", "programmatic dependent launch", half{},
             bfloat16{})
      .hopper()
      .any_order()
      .head_dims(HeadDims<64, 96, 128>{})
      .over_queries(HopperBackwardTileFor<half, 64>{}, 2)
      .over_queries(HopperBackwardTileFor<half, 96>{}, 2)
      .over_queries(HopperBackwardTileFor<half, 128>{}, 2)
      .memory_is("4 N D + 8 N + N / 8 + 4",
                 [](auto n, auto d) { return 4 * n * d + 8 * n + n / 8 + 4; })
      .workspace([](auto&, auto d) {
        return Workspace{d, true};
      })
      .launch([](auto& a, auto d, auto& stream) {
        launch_backward_dependent<d>(a, false, stream);
      });
}

}  // namespace fa::FA_TARGET
