/// @file
/// The persistent kernel of the C interfaces on Hopper GPUs: what it computes is a policy, and the
/// work of fa_forward() is one of them. The ladder explains each of its parts.
#pragma once

#include "05_flash_forward/library/hopper_loop.cuh"
#include "common/attention/shape.hpp"

namespace fa::FA_TARGET {

/// Attention in 16 bits. A consumer warpgroup processes 64 queries of each tile.
/// @tparam Tile a HopperTile
/// @tparam Work see ForwardWork
template <class Tile, class Work>
__global__ void __launch_bounds__(kWarpgroup*(Tile::consumers + 1), 1)
    flash_hopper(const __grid_constant__ Work work) {
  auto& shared = *dynamic_shared<typename Work::template Shared<Tile>>();
  work.prepare(shared);
  init_barriers(shared);
  const int warpgroup = warpgroup_index();
  if (warpgroup == Tile::consumers) {  // the producer
    setmaxnreg_dec<kProducerRegisters<Tile>>();
    work.produce(shared);
    return;
  }
  setmaxnreg_inc<kConsumerRegisters<Tile>>();
  ConsumerState<Tile> read;
  if (warpgroup == Tile::consumers - 1) {
    scheduler_barrier_arrive<Tile>(warpgroup);  // warpgroup 0 is first
  }
  auto last_store = [&] {
    if constexpr (kWritesFromRegisters<Tile>) {
      return NoStore{};
    } else {
      return PendingStore<Tile>{shared, warpgroup};
    }
  }();
  typename Work::template Own<Tile> own;  // the warpgroup's part of a tile
  for (; work.next(shared, read.work, warpgroup, own); read.next_tile()) {
    const auto& maps = work.maps(own);
    auto scores = work.scores(shared, maps, warpgroup, own);
    WarpgroupOutput<Tile> o = {};
    RowState rows = work.first_rows(own);
    shared.q_pipe[warpgroup].consumer_wait(read.q);
    hopper_mainloop<Tile>(o, rows, shared, read, scores, last_store,
                          warpgroup);
    if constexpr (decltype(scores)::tiles == KeyTiles::kOwn) {
      last_store.release_q();  // if there was no tile of keys
    }
    if constexpr (kWritesFromRegisters<Tile>) {
      write_output_from_registers<Tile>(maps.a, o, rows, scores.query0,
                                        own.head, own.batch);
    } else {
      last_store.issued(
          write_output<Tile>(maps, o, rows, shared.q[read.q.stage][warpgroup],
                             scores.query0, own.head, own.batch),
          read.q);
    }
  }
  last_store.release_q();
  if (warpgroup == 0) {
    scheduler_barrier_sync<Tile>(warpgroup);  // takes up the last arrival
  }
}

/// Launches it.
/// @param with_pdl before the kernel ahead of it has ended
template <class Tile, class Work>
void launch_hopper(const Stream& stream, unsigned blocks, const Work& work,
                   bool with_pdl = false) {
  Launch sizes{{blocks},
               kWarpgroup * (Tile::consumers + 1),
               sizeof(typename Work::template Shared<Tile>),
               Tile::stages};
  sizes.with_pdl = with_pdl;
  launch(stream, flash_hopper<Tile, Work>, sizes, work);
}

/// The policy of hopper_mainloop() for a warpgroup of a tile.
/// @tparam kind kAll or kOwn
template <class Tile, KeyTiles kind = KeyTiles::kAll, class T>
__device__ CausalScores<T, kind> causal_scores(const Attention<T>& a,
                                               int block, int warpgroup) {
  const int query0 = Tile::first_query(a, block, warpgroup);
  const int loaded = loaded_tiles<Tile>(a, block);
  KeyRange range{};
  range.edge = visible_keys(a, query0) / Tile::block_n;
  range.first = loaded - 1;
  if constexpr (kind == KeyTiles::kOwn) {
    const int visible =
        query0 < a.length_q ? visible_keys(a, query0 + kQueries - 1) : 0;
    range.first = ceil_div(visible, Tile::block_n) - 1;
    range.skipped = loaded - 1 - range.first;
    range.first_half = visible - range.first * Tile::block_n <= kHalfKeys;
  }
  return {a, query0, range};
}

/// What work has that does not replace it.
struct PlainWork {
  /// All threads call it before the barriers are initialised.
  template <class Shared>
  __device__ void prepare(Shared&) const {}
  /// The state of the rows before the first key.
  template <class Own>
  __device__ RowState first_rows(const Own&) const {
    return empty_row_state();
  }
};

/// What fa_forward() computes.
/// @tparam Maps TmaAttention, or as load_work_tile() takes them
/// @tparam kind kAll or kOwn
template <class Maps, KeyTiles kind>
struct ForwardWork : PlainWork {
  /// What a block keeps in shared memory.
  template <class Tile>
  using Shared = PersistentShared<Tile>;
  /// What a consumer warpgroup reads of a tile: at least which one it is.
  template <class Tile>
  using Own = WorkTile;
  Maps all;
  TileScheduler scheduler;
  unsigned* tile_counter;

  /// The producer's warpgroup: it loads, and passes tiles on.
  template <class Tile>
  __device__ void produce(PersistentShared<Tile>& shared) const {
    fa::FA_TARGET::produce(shared, all, scheduler, tile_counter);
  }
  /// A consumer reads the block's next tile.
  /// @return false when none is left
  template <class Tile>
  __device__ bool next(PersistentShared<Tile>& shared,
                       const PipelineState<1>& read, int,
                       WorkTile& own) const {
    return next_work_tile(shared, read, own);
  }
  /// The problem that a tile belongs to, and its maps.
  __device__ const Maps& maps(const WorkTile&) const { return all; }
  /// See causal_scores().
  template <class Tile>
  __device__ auto scores(PersistentShared<Tile>&, const Maps& maps,
                         int warpgroup, const WorkTile& own) const {
    return causal_scores<Tile, kind>(maps.a, own.block, warpgroup);
  }
};

/// A tile of two warpgroups, of which the first one counts its queries from the front of the sequence,
/// and the second one from its end: what one has less, the other has more.
template <class T, int d>
struct MirroredForwardTile
    : HopperTile<T, d, d == 256 ? 80 : 128, 2, d == 64 ? 3 : 2> {
  /// As in HopperTile, for these warpgroups.
  __device__ static int first_query(const Attention<T>& a, int block,
                                    int warpgroup) {
    const int last =
        2 * ceil_div(a.length_q, MirroredForwardTile::block_m) - 1;
    return kQueries * (warpgroup == 0 ? block : last - block);
  }
};

/// How fa_forward() divides a problem.
enum class ForwardForm {
  kWhole,  ///< each warpgroup computes all tiles of keys of its block
  kOwn,  ///< those that it needs: fewer at the edge of a mask, and half tiles
  kMirrored  ///< likewise, with mirrored tiles, for problems with no more tiles than SMs
};

/// Launches it with a block for each SM, or for each tile of queries if these are fewer.
/// @tparam d            64, 96, 128, 192 or 256 columns, at least head_dim; mirrored 64, 128 or 256
/// @tparam columns_v    at least head_dim_v: d, or 128 with 192
/// @param  a            for which can_use_tma() holds
/// @param  tile_counter as in launch_persistent()
template <ForwardForm form, int d, int columns_v = d, class T>
void launch_forward(const Attention<T>& a, const Stream& stream,
                    unsigned* tile_counter) {
  constexpr bool mirrored = form == ForwardForm::kMirrored;
  constexpr KeyTiles kind =
      form == ForwardForm::kWhole ? KeyTiles::kAll : KeyTiles::kOwn;
  using Tile = std::conditional_t<mirrored, MirroredForwardTile<T, d>,
                                  HopperTileFor<T, d, columns_v>>;
  TileScheduler scheduler = tile_scheduler(a, Tile::block_m);
  if (mirrored) scheduler.heads_together = 0;  // all tiles are alike
  launch_hopper<Tile>(
      stream, persistent_blocks(scheduler),
      ForwardWork<TmaAttention<T>, kind>{
          {}, tma_attention<Tile>(a), scheduler, tile_counter});
}

FA_LAUNCH_16_BIT(forward, Attention, (const Stream&, unsigned*),
                 launch_forward, (ForwardForm::kOwn, 64),
                 (ForwardForm::kOwn, 96), (ForwardForm::kOwn, 128),
                 (ForwardForm::kOwn, 192), (ForwardForm::kOwn, 256),
                 (ForwardForm::kOwn, kMlaHeadDim, kMlaHeadDimV));
FA_LAUNCH_16_BIT(forward, Attention, (const Stream&, unsigned*),
                 launch_forward, (ForwardForm::kWhole, 128),
                 (ForwardForm::kMirrored, 64), (ForwardForm::kMirrored, 128),
                 (ForwardForm::kMirrored, 256));

}  // namespace fa::FA_TARGET
