/// @file
/// The scheduler barriers of steps 12 to 16: named barriers by which the consumer warpgroups issue
/// their matmuls in turn.
#pragma once

#include "common/gpu/hopper.cuh"

namespace fa::FA_TARGET {

/// The scheduler barrier of a consumer warpgroup: a named barrier after those of write_output().
template <class Tile>
__device__ int scheduler_barrier_id(int warpgroup) {
  return 1 + Tile::consumers + warpgroup;
}

/// Waits until the warpgroup before this one has issued its matmuls.
//! [scheduler_barrier]
template <class Tile>
__device__ void scheduler_barrier_sync(int warpgroup) {
  named_barrier_wait(scheduler_barrier_id<Tile>(warpgroup), 2 * kWarpgroup);
}
/// Lets the next warpgroup issue its matmuls.
template <class Tile>
__device__ void scheduler_barrier_arrive(int warpgroup) {
  const int next = warpgroup + 1 == Tile::consumers ? 0 : warpgroup + 1;
  named_barrier_arrive(scheduler_barrier_id<Tile>(next), 2 * kWarpgroup);
}
//! [scheduler_barrier]

}  // namespace fa::FA_TARGET
