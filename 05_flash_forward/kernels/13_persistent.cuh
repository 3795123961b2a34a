/// @file
/// As many blocks as multiprocessors, and each takes the next work that nobody has: while its consumers finish a block
/// of queries, its producer fetches for the next one. Under the causal mask the blocks with the most keys go first,
/// and only so many heads at a time that their K and V stay in the L2 cache.
#pragma once

#include "05_flash_forward/kernels/12_ping_pong.cuh"

namespace fa::FA_TARGET {

/// A block of queries of a head.
struct Work {
  int block;  ///< of queries; negative: there is none
  int head;   ///< of a sequence
  int batch;  ///< the sequence
};

/// The order of work.
struct WorkOrder {
  int blocks;   ///< of queries in a head
  int heads;    ///< of a sequence
  int all;      ///< heads of all sequences
  int section;  ///< heads that go together, the blocks with the most keys first; 0: one head after the other
};

/// Which work a ticket is for.
//! [order]
__device__ inline Work work_of(int ticket, const WorkOrder& order) {
  int block, head;
  if (order.section == 0) {
    block = ticket % order.blocks;
    head = ticket / order.blocks;
  } else {
    const int of_section = order.section * order.blocks;
    const int first = ticket / of_section * order.section;
    const int left = order.all - first;
    const int heads = left < order.section ? left : order.section;
    const int rest = ticket % of_section;
    block = order.blocks - 1 - rest / heads;
    head = first + rest % heads;
  }
  return {block, head % order.heads, head / order.heads};
}
//! [order]

/// What a block keeps in shared memory. Of Q there are two stages, too: the next one comes while O leaves.
template <class Tile>
struct PersistentShared {
  typename Tile::QTile q[Tile::q_stages][Tile::consumers];  ///< at the end O
  typename Tile::KvTile k[Tile::stages];                    ///< tiles of keys
  typename Tile::KvTile v[Tile::stages];                    ///< their values
  Pipeline<Tile::q_stages> q_pipe[Tile::consumers];  ///< of a consumer's q
  Pipeline<Tile::stages> k_pipe;                     ///< of k
  Pipeline<Tile::stages> v_pipe;                     ///< of v
  Pipeline<2> work_pipe;                             ///< of work
  Work work[2];                                      ///< that comes next
};

/// Initialises a block's barriers; all threads call it.
template <class Tile>
__device__ void init_barriers(PersistentShared<Tile>& shared) {
  if (threadIdx.x == 0) {
    for (auto& pipe : shared.q_pipe) pipe.init(1);  // who stored O frees
    shared.k_pipe.init(4 * Tile::consumers);
    shared.v_pipe.init(4 * Tile::consumers);
    shared.work_pipe.init(4 * Tile::consumers);
    fence_barrier_init();
  }
  __syncthreads();  // the barriers are ready
}

/// Tiles of keys that a block of queries needs; one where it sees no key, so that all blocks are alike.
template <class Tile, class T>
__device__ int tiles_of(const Attention<T>& a, int block) {
  const int seen = keys_seen(a, block * Tile::block_m + Tile::block_m - 1);
  return seen > Tile::block_n ? ceil_div(seen, Tile::block_n) : 1;
}

/// Where the rings of the producer's thread stand.
template <class Tile>
struct FetchPlaces {
  RingPlace<Tile::q_stages> q;  ///< of Q
  RingPlace<Tile::stages> k;    ///< of K
  RingPlace<Tile::stages> v;    ///< of V
};

/// What the producer's thread does for one work. K goes a tile ahead of V: its scores come before the values.
/// @param shared the block's
/// @param maps   of the tensors
/// @param work   which
/// @param tiles  of keys that it needs, at least one
/// @param at     where the rings stand
//! [fetch_work]
template <class Tile, class T>
__device__ void fetch_work(PersistentShared<Tile>& shared,
                           const MappedAttention<T>& maps, const Work& work,
                           int tiles, FetchPlaces<Tile>& at) {
  const int kv_head = work.head / (maps.a.heads / maps.a.kv_heads);
  const auto fetch_q = [&](int i) {
    load_tile(shared.q[at.q.stage][i], maps.q,
              shared.q_pipe[i].acquire(at.q, Tile::QTile::bytes),
              work.block * Tile::block_m + i * kQueries, work.head,
              work.batch, Keep::kShort);
  };
  const auto fetch_k = [&](int tile) {
    load_tile(shared.k[at.k.stage], maps.k,
              shared.k_pipe.acquire(at.k, Tile::KvTile::bytes),
              tile * Tile::block_n, kv_head, work.batch, Keep::kLong);
    at.k.advance();
  };
  fetch_q(0);
  fetch_k(tiles - 1);  // the first consumer can begin
#pragma unroll 1       // registers are few here
  for (int i = 1; i < Tile::consumers; ++i) fetch_q(i);
#pragma unroll 1
  for (int tile = tiles - 1; tile >= 0; --tile) {
    if (tile > 0) fetch_k(tile - 1);
    load_tile(shared.v[at.v.stage], maps.v,
              shared.v_pipe.acquire(at.v, Tile::KvTile::bytes),
              tile * Tile::block_n, kv_head, work.batch, Keep::kLong);
    at.v.advance();
  }
}
//! [fetch_work]

/// All that the producer's thread does.
/// @param shared the block's
/// @param maps   of the tensors
/// @param order  of work
//! [draw]
template <class Tile, class T>
__device__ void produce_all(PersistentShared<Tile>& shared,
                            const MappedAttention<T>& maps,
                            const WorkOrder& order) {
  const int grid = gridDim.x, all = order.all * order.blocks;
  RingPlace<2> at;
  FetchPlaces<Tile> places;
  for (int ticket = blockIdx.x;; at.advance(), places.q.advance()) {
    // The next tile is drawn early: the fetches of this one hide the latency.
    const int next =
        maps.tile_counter == nullptr
            ? ticket + grid
            : grid + static_cast<int>(atomicAdd(maps.tile_counter, 1u));
    const bool over = ticket >= all;
    const Work work = over ? Work{-1, 0, 0} : work_of(ticket, order);
    shared.work_pipe.empty[at.stage].wait(at.parity ^ 1);
    shared.work[at.stage] = work;
    shared.work_pipe.full[at.stage].arrive();
    if (over) {
      // A block draws for each work and once more. The last draw resets the
      // counter for the next launch.
      if (maps.tile_counter != nullptr && next == all + 2 * grid - 1) {
        *maps.tile_counter = 0;
      }
      return;
    }
    fetch_work(shared, maps, work, tiles_of<Tile>(maps.a, work.block),
               places);
    ticket = next;
  }
}
//! [draw]

/// A consumer takes the block's next work.
/// @param shared the block's
/// @param at     where the ring of work stands
/// @param work   what it is
/// @return false when there is none
//! [take_work]
template <class Tile>
__device__ bool take_work(PersistentShared<Tile>& shared,
                          const RingPlace<2>& at, Work& work) {
  shared.work_pipe.wait(at);
  const Work& next = shared.work[at.stage];
  work = {warp_uniform(next.block), warp_uniform(next.head),
          warp_uniform(next.batch)};
  __syncwarp();  // all lanes have read it: a shuffle orders no memory
  if (threadIdx.x % kWarp == 0) shared.work_pipe.free(at);
  return work.block >= 0;
}
//! [take_work]

/// O of the block before on its way to TMA, in the place of Q. Nobody waits for it before the next scores are begun,
/// unless there is one place only.
template <class Tile>
struct LastOutput {
  PersistentShared<Tile>& shared;  ///< the block's
  const int warpgroup;             ///< whose
  RingPlace<Tile::q_stages> at{};  ///< of that Q
  bool is_own = false;             ///< this thread waits for it

  /// O has been left.
  /// @param own  whether this thread waits for it
  /// @param q_at where it stands
  __device__ void left(bool own, const RingPlace<Tile::q_stages>& q_at) {
    is_own = own;
    at = q_at;
    if constexpr (Tile::q_stages == 1) free_q();  // the next Q needs it now
  }
  /// Lets Q come when TMA has read O, if that has not been done.
  //! [free_q]
  __device__ void free_q() {
    if (!is_own) return;
    bulk_wait_read<0>();
    shared.q_pipe[warpgroup].free(at);
    is_own = false;
  }
  //! [free_q]
};

/// What a block does.
/// @tparam Tile     HopperTile
/// @tparam patience of take_scores()
/// @param maps  what is computed
/// @param order of work
//! [persistent]
template <class Tile, int patience, class T>
__device__ void persistent_block(const MappedAttention<T>& maps,
                                 const WorkOrder& order) {
  auto& shared = *dynamic_shared<PersistentShared<Tile>>();
  init_barriers(shared);
  const int warpgroup = warpgroup_index();
  if (warpgroup == Tile::consumers) {
    keep_registers<kProducerRegisters<Tile>>();
    if (threadIdx.x % kWarpgroup == 0) produce_all(shared, maps, order);
    return;
  }
  take_registers<kConsumerRegisters<Tile>>();
  const Attention<T>& a = maps.a;
  RingPlace<2> at;
  RingPlace<Tile::q_stages> q_at;
  RingPlace<Tile::stages> k_at, v_at;
  if (warpgroup == Tile::consumers - 1) give_turn<Tile>(warpgroup);
  LastOutput<Tile> last{shared, warpgroup};
  for (;; at.advance(), q_at.advance()) {
    Work work;
    if (!take_work(shared, at, work)) break;
    const int query0 = work.block * Tile::block_m + warpgroup * kQueries;
    WarpgroupSums<Tile> o = {};
    LaneRows rows = no_keys();
    auto& q = shared.q[q_at.stage][warpgroup];
    shared.q_pipe[warpgroup].wait(q_at);
    consume<Tile, patience>(
        o, rows, shared, q, a, query0, tiles_of<Tile>(a, work.block), k_at,
        v_at, [&] { wait_for_turn<Tile>(warpgroup); },
        [&] { give_turn<Tile>(warpgroup); }, [&] { last.free_q(); });
    last.left(
        write_output<Tile>(maps, o, rows, q, query0, work.head, work.batch),
        q_at);
  }
  last.free_q();
  if (warpgroup == 0) wait_for_turn<Tile>(warpgroup);  // the last one given
}
//! [persistent]

/// Launch: blocks of 128 x (consumers + 1); as many as multiprocessors, or as work; sizeof(PersistentShared<Tile>).
/// maps.tile_counter points to a 0, and the launch leaves a 0 there; null: blocks take tiles in a fixed order.
/// @tparam Tile HopperTile
/// @param maps  what is computed
/// @param order of work
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(Tile::consumers + 1), 1)
    flash_persistent(const __grid_constant__ MappedAttention<T> maps,
                     const WorkOrder order) {
  persistent_block<Tile, 0>(maps, order);
}

}  // namespace fa::FA_TARGET
