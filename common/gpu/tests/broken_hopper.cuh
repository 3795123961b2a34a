/// @file
/// Kernels for Hopper and Blackwell with one mistake each, beside their right twins: what the watched lab is
/// measured by. A line that takes part in a mistake has its name in a comment at its end. On a GPU
/// most of the broken ones give wrong numbers now and then, and some never end: run them in the
/// lab. For the same reason kernels stand here that a GPU ends with an error, after which a program
/// cannot use it any more.
#pragma once

#include <vector>

#include "common/gpu/tests/broken_clusters.cuh"
#include "common/gpu/tests/broken_copies.cuh"
#include "common/gpu/tests/broken_tcgen05.cuh"
#include "common/gpu/tests/broken_warps.cuh"
#include "common/gpu/tests/broken_wgmma.cuh"

namespace fa::FA_TARGET {

/// All of them.
inline std::vector<BrokenHopperKernel> broken_hopper_kernels() {
  std::vector<BrokenHopperKernel> all;
  for (const auto& kernels :
       {broken_copies(), broken_wgmma(), broken_clusters(), broken_warps(), broken_tcgen05()}) {
    all.insert(all.end(), kernels.begin(), kernels.end());
  }
  return all;
}

}  // namespace fa::FA_TARGET
