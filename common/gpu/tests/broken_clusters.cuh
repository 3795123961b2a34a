/// @file
/// Broken kernels of clusters of two blocks: see broken_hopper.cuh.
#pragma once

#include <vector>

#include "common/gpu/tests/broken_hopper_base.cuh"

namespace fa::FA_TARGET {

/// All threads of the cluster meet.
__device__ inline void cluster_meet() {
  cluster_arrive();
  cluster_wait();
}

/// What is wrong with threads that use another block's memory.
enum class Peers { kRight, kNoWait, kEnds };

/// Each thread of a cluster of two reads what its twin in the other block has written, and no block
/// ends while the other one may still read.
__global__ inline void reads_peer(Peers how, float* out) {
  float* const row = dynamic_shared<float>();
  const unsigned i = threadIdx.x;
  row[i] = 1;  // peers: written
  if (how == Peers::kNoWait) {
    __syncthreads();
  } else {
    cluster_meet();
  }
  const float* const from = peer_shared(row + i, 1 - cluster_rank());
  out[64 * blockIdx.x + i] = *from;  // peers: read
  if (how != Peers::kEnds) cluster_meet();
}

/// Block 1 arrives at a barrier of block 0; which may not be made yet, or may be over.
__global__ inline void arrives_at_peer(Peers how, float* out) {
  auto& shared = *dynamic_shared<HopperShared>();
  const unsigned i = threadIdx.x;
  const int rank = cluster_rank();
  if (i == 0) {
    shared.empty.init(1);  // peer: the barrier
    fence_barrier_init();
  }
  if (how == Peers::kNoWait) {
    __syncthreads();
  } else {
    cluster_meet();
  }
  if (rank == 1 && i == 0) {
    shared.empty.arrive_at_peer(0);  // peer: arrives
  }
  if (rank == 0 && how != Peers::kEnds) shared.empty.wait(0);
  out[64 * rank + i] = 1;
  if (how != Peers::kEnds) cluster_meet();
}

/// Block 0 loads two tiles, one after the other, to both blocks. Both have released the first one
/// before the second copy begins; or block 0 waits for its own release only.
__global__ inline void multicast_too_early(bool broken, const __grid_constant__ TensorMap map,
                                           half* out) {
  auto& shared = *dynamic_shared<HopperShared>();
  HopperTile& tile = shared.tiles[0];
  const unsigned i = threadIdx.x;
  const int rank = cluster_rank();
  if (i == 0) {
    shared.full[0].init(1);
    shared.empty.init(broken ? 64 : 128);  // of one block, or of two
    fence_barrier_init();
  }
  cluster_meet();
  for (int t = 0; t < 2; ++t) {
    if (i == 0) {
      shared.full[0].arrive_and_expect(HopperTile::bytes);
      if (rank == 0) {
        if (t > 0) shared.empty.wait(0);
        tma_load_multicast(  // multicast: begun
            tile.data, map, shared.full[0], 0, 64 * t, 3);
      }
    }
    shared.full[0].wait(t);
    out[64 * rank + i] = tile.data[i];
    if (t == 0 && (rank == 0 || !broken)) shared.empty.arrive_at_peer(0);
  }
  cluster_meet();
}

/// Block 0 sends rows to block 1, and writes the next one.
__global__ inline void overwritten_copy_to_peer(bool broken, float* out) {
  auto& shared = *dynamic_shared<HopperShared>();
  auto* const row = reinterpret_cast<float*>(shared.tiles[0].data);
  auto* const sent = reinterpret_cast<float*>(shared.tiles[1].data);
  const unsigned i = threadIdx.x;
  const int rank = cluster_rank();
  if (i == 0) {
    shared.full[0].init(1);
    fence_barrier_init();
    if (rank == 1) shared.full[0].arrive_and_expect(4 * 64);
  }
  row[i] = 1;
  fence_async_proxy();
  cluster_meet();
  if (rank == 0 && i == 0) {
    bulk_copy_to_peer(sent, row, 4 * 64, shared.full[0], 1);  // sent: begun
  }
  if (rank == 1) {
    shared.full[0].wait(0);
    out[i] = sent[i];
  }
  if (!broken) cluster_meet();  // the row has been read
  if (rank == 0) row[i] = 2;    // sent: overwritten
  cluster_meet();
}

/// All of this file.
inline std::vector<BrokenHopperKernel> broken_clusters() {
  return in_file(
      "broken_clusters.cuh",
      {
          {{"no_cluster_wait", "Blocks of a cluster race.", "race", "peers: written", "peers: read",
            hopper(reads_peer, Peers::kNoWait, 64, 2)}},
          {{"peer_has_ended", "A block ends while another reads its memory.", "cluster",
            "peers: read", "", hopper(reads_peer, Peers::kEnds, 64, 2)}},
          {{"peer_barrier_not_made", "A block may not have made its barrier yet.", "barrier",
            "peer: arrives", "peer: the barrier", hopper(arrives_at_peer, Peers::kNoWait, 64, 2)}},
          {{"arrives_at_the_end", "A block ends before others arrive there.", "cluster",
            "peer: arrives", "", hopper(arrives_at_peer, Peers::kEnds, 64, 2)}},
          {{"multicast_too_early", "A copy comes before a peer is ready.", "race",
            "multicast: begun", "multicast: begun", hopper(multicast_too_early, true, 64, 2)}},
          {{"overwritten_copy_to_peer", "A row is written while it is sent.", "race",
            "sent: overwritten", "sent: begun", hopper(overwritten_copy_to_peer, true, 64, 2)}},
      });
}

}  // namespace fa::FA_TARGET
