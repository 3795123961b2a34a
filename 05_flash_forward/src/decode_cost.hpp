/// @file
/// A model of how long a kernel takes to decode: what fa_decode() chooses by.
#pragma once

#include <algorithm>
#include <cmath>

#include "common/gpu/device.hpp"

namespace fa {

/// What kernels reach on a GPU. FLOPs are those of an SM for each clock, at the highest clock, as
/// interface/decode.py prints them for an H200; an SM of Hopper has 4096 with operands of 16 bits.
/// All other constants were set by hand to fit that program's times.
struct DecodeRates {
  double forward = 2885;            ///< wgmma, 128 queries of a head: fa_forward() on Hopper
  double chunks = 2743;             ///< step 07, with rows for both warpgroups
  double half_chunks = 1700;        ///< step 07, with rows for one of them
  double wgmma = 1754;              ///< step 06
  double mma_forward = 1300;        ///< fa_forward() elsewhere
  double mma = 856;                 ///< steps 02, 04 and 05
  double bandwidth = 0.87;          ///< of that of the memory by clock and width
  double item_clocks = 3000;        ///< before the first tile of an item, and after its last one
  double row_clocks = 1000;         ///< steps 02, 04 and 05: of a row that a warp writes
  double merged_row_clocks = 3500;  ///< more in 04 and 05, where blocks share the item: one merges
  double merge = 3e-6;              ///< seconds of a kernel that merges states, beside moving them
  double chunks_start = 4e-6;       ///< seconds that step 07 takes longer to begin and to end
};

/// What a kernel has to do.
struct DecodeWork {
  double rate;         ///< FLOPs of an SM for each clock, one of DecodeRates
  double items;        ///< tiles of rows, of all heads and sequences
  double item_flops;   ///< of an item, what the tiles have beyond its rows included
  int parts;           ///< of each item's keys
  bool even;           ///< blocks have as many tiles each, whatever the items are
  double bytes;        ///< of K and V, Q and O, each once
  double state_bytes;  ///< written, and read by the merge
  double start;        ///< further seconds of the launch
  /// Of an item, beside those that all kernels need: where a warp has several rows, one by one.
  double finish_clocks = 0;
};

/// Seconds that a kernel takes: waves of blocks, or the memory if this takes longer, and the states.
inline double decode_seconds(const DecodeWork& work, const DeviceProperties& gpu,
                             const DecodeRates& rates = {}) {
  const double sms = std::max(1, gpu.sm_count);
  const double clock = gpu.clock_hz > 0 ? gpu.clock_hz : 1e9;
  const double bandwidth =
      rates.bandwidth * (gpu.memory_bandwidth > 0 ? gpu.memory_bandwidth : 1e12);
  const double blocks = work.items * work.parts / sms;
  const double waves = work.even ? std::max(1.0, blocks) : std::ceil(blocks);
  const double busy = work.even ? work.items / sms : waves / work.parts;  // items of an SM
  const double of_item = rates.item_clocks + work.finish_clocks;
  const double compute = (waves * of_item + busy * work.item_flops / work.rate) / clock;
  const double states = work.parts == 1 ? 0 : rates.merge + 2 * work.state_bytes / bandwidth;
  return work.start + std::max(compute, work.bytes / bandwidth) + states;
}

}  // namespace fa
