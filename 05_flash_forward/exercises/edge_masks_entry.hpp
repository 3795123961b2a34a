/// @file
/// The entry of exercises that complete step 08's kernel. Include it after the student's file.
#pragma once

#include "05_flash_forward/exercises/attention.hpp"
#include "common/classroom/launches.hpp"

using namespace fa::classroom;
using namespace fa::FA_TARGET;

// Launches the kernel with a tile.
template <class Tile>
void launch_edge_masks(const Attention<half>& a) {
  launch(
      flash_edge_masks<Tile, half, false>,
      {{static_cast<unsigned>(ceil_div(a.length_q, Tile::block_m)), static_cast<unsigned>(a.heads)},
       {Tile::threads},
       pipeline_bytes<Tile, half>()},
      a);
}

// 32 queries in two warps and 16 keys, or 64 queries in two warps and 32 keys.
FA_ENTRY(run, [](const Inputs& in, bool large) {
  return run<half>(in, [=](const Attention<half>& a) {
    large ? launch_edge_masks<ForwardTile<32, 32, 2, 32>>(a)
          : launch_edge_masks<ForwardTile<32, 16, 2, 16>>(a);
  });
});
