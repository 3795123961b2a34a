/// @file
/// What steps 13 to 16 share: the pipelines of a persistent block, its producer, which takes tiles
/// of queries from the tile scheduler, and the asynchronous store of O.
#pragma once

#include "05_flash_forward/kernels/hopper_forward.cuh"
#include "common/attention/tile_scheduler.cuh"

namespace fa::FA_TARGET {

/// The tile for so many columns of Q and K, and of V and O: as large as registers and shared memory
/// allow.
template <class T, int d, int columns_v = d>
using HopperTileFor = HopperTile<T, d,
                                 d != columns_v ? 96
                                 : d == 96      ? 112
                                 : d == 192     ? 80
                                 : d == 256     ? 64
                                                : 128,
                                 d <= 96 ? 3 : 2,  // consumer warpgroups
                                 d == 64 ? 3 : 2,  // stages of K and of V
                                 columns_v>;

/// Stages of a warpgroup's Q: two, so that the next Q is loaded while O, which takes the place of
/// Q, is stored; one where shared memory does not suffice.
template <class Tile>
constexpr int kQueryStages = Tile::d == 256 ? 1 : 2;

/// Whether O is written from registers. With one stage of Q the next Q would wait for the store of
/// O; so it can be loaded when the last S has been computed. In the place of a Q of 8 bits there is
/// no room for O.
template <class Tile>
constexpr bool kWritesFromRegisters =
    kQueryStages<Tile> == 1 || Tile::QTile::size == 1;

/// Shared memory of a block in steps 13 to 16.
template <class Tile>
struct PersistentShared {
  typename Tile::QTile q[kQueryStages<Tile>][Tile::consumers];
  typename Tile::KTile k[Tile::stages];
  typename Tile::VTile v[Tile::stages];
  Pipeline<kQueryStages<Tile>> q_pipe[Tile::consumers];
  Pipeline<Tile::stages> k_pipe;
  Pipeline<Tile::stages> v_pipe;
  Pipeline<1> work_pipe;  // from the thread with the tile scheduler
  WorkTile work;
};

/// Initialises a block's barriers; all threads call it.
/// @param loaders threads that load
template <class Tile>
__device__ void init_barriers(PersistentShared<Tile>& shared,
                              int loaders = 1) {
  if (threadIdx.x == 0) {
    // The thread that stores O, or a lane of each warp.
    for (auto& pipe : shared.q_pipe)
      pipe.init(kWritesFromRegisters<Tile> ? 4 : 1);
    shared.k_pipe.init(4 * Tile::consumers);
    shared.v_pipe.init(4 * Tile::consumers);
    // A lane of each warp of the consumers, and the threads that load.
    shared.work_pipe.init(4 * Tile::consumers + loaders);
    fence_barrier_init();
  }
  __syncthreads();  // the barriers are initialised
}

/// Tiles of keys that a block loads for a tile of queries: one at least, so that each tile of
/// queries takes the same steps.
template <class Tile, class T>
__device__ int loaded_tiles(const Attention<T>& a, int block) {
  const int last = Tile::first_query(a, block, Tile::consumers - 1);
  const int visible = visible_keys(a, last + kQueries - 1);
  return visible > Tile::block_n ? ceil_div(visible, Tile::block_n) : 1;
}

/// Gives each persistent block the indices of its tiles: the first is blockIdx.x, the others come
/// from a counter in global memory that all blocks share.
struct TileCounter {
  unsigned* counter;  ///< null: blocks take every gridDim.x-th tile
  int tiles;          ///< of all blocks

  //! [counter]
  /// Unused if each block has at most one tile, or without a workspace.
  __device__ bool is_used() const {
    return counter != nullptr && tiles > static_cast<int>(gridDim.x);
  }
  /// The block's tile after this one; a value of at least `tiles` means that
  /// none is left.
  __device__ int next(int tile_index) const {
    const int grid = gridDim.x;
    return is_used() ? grid + int(atomicAdd(counter, 1u)) : tile_index + grid;
  }
  /// A block calls this with its last index. All blocks together call next()
  /// once for each tile.
  __device__ void finish(int last) const {
    const int grid = gridDim.x;
    if (is_used() && last == tiles + grid - 1) *counter = 0;
  }
  //! [counter]
};

/// The producer's states of the pipelines of a tile's Q, K and V.
template <class Tile>
struct ProducerState {
  PipelineState<kQueryStages<Tile>> q;
  PipelineState<Tile::stages> k;
  PipelineState<Tile::stages> v;
};

/// Loads a tile of V from a key on. An overload for another type of map may load it elsewhere.
template <class Tile, class Map>
__device__ void load_v(PersistentShared<Tile>& shared, const Map& v,
                       const PipelineState<Tile::stages>& write, int key0,
                       int kv_head, int batch) {
  load_tile(shared.v[write.stage], v,
            shared.v_pipe.producer_acquire(write, Tile::VTile::bytes), key0,
            kv_head, batch, CacheHint::kEvictLast);
}

/// The producer's thread loads Q, K and V of a tile. K is a tile ahead of V: S comes before P V.
/// @param maps  TmaAttention, or maps of one sequence
/// @param tiles of keys, at least one
template <class Tile, class Maps>
__device__ void load_work_tile(PersistentShared<Tile>& shared,
                               const Maps& maps, const WorkTile& work,
                               int tiles, ProducerState<Tile>& write) {
  const int kv_head = kv_head_of(maps.a, work.head);
  const auto load_q = [&](int i) {
    load_tile(shared.q[write.q.stage][i], maps.q,
              shared.q_pipe[i].producer_acquire(write.q, Tile::QTile::bytes),
              Tile::first_query(maps.a, work.block, i), work.head, work.batch,
              CacheHint::kEvictFirst);
  };
  const auto load_k = [&](int tile) {
    load_tile(shared.k[write.k.stage], maps.k,
              shared.k_pipe.producer_acquire(write.k, Tile::KTile::bytes),
              tile * Tile::block_n, kv_head, work.batch,
              CacheHint::kEvictLast);
    write.k.advance();
  };
  load_q(0);
  load_k(tiles - 1);  // warpgroup 0 can start
#pragma unroll 1      // the producer has few registers
  for (int i = 1; i < Tile::consumers; ++i) load_q(i);
#pragma unroll 1
  for (int tile = tiles - 1; tile >= 0; --tile) {
    if (tile > 0) load_k(tile - 1);
    load_v(shared, maps.v, write.v, tile * Tile::block_n, kv_head,
           work.batch);
    write.v.advance();
  }
}

/// Passes a tile to all who need it, and returns when they have begun it. One thread calls it.
/// @param state of work_pipe; on return that of the next tile
//! [pass_tile]
template <class Tile>
__device__ void pass_tile(PersistentShared<Tile>& shared,
                          PipelineState<1>& state, const WorkTile& work) {
  shared.work = work;
  shared.work_pipe.full[0].arrive();
  if (work.block < 0) return;  // the last one
  shared.work_pipe.empty[0].wait(state.parity);
  state.advance();
}
//! [pass_tile]

/// The loop of the thread with the tile scheduler. It draws a tile when the one before it has begun.
/// @param tile_counter null: a static schedule
//! [schedule_tiles]
template <class Tile>
__device__ void schedule_tiles(PersistentShared<Tile>& shared,
                               const TileScheduler& scheduler,
                               unsigned* tile_counter) {
  const TileCounter counter{tile_counter,
                            scheduler.total_heads * scheduler.blocks};
  PipelineState<1> state;
  int tile_index = blockIdx.x;
  for (; tile_index < counter.tiles; tile_index = counter.next(tile_index)) {
    pass_tile(shared, state, work_tile(tile_index, scheduler));
  }
  pass_tile(shared, state, {-1, 0, 0});
  counter.finish(tile_index);
}
//! [schedule_tiles]

/// The loop of the thread that loads.
/// @param maps TmaAttention, or as load_work_tile() takes them
template <class Tile, class Maps>
__device__ void load_work_tiles(PersistentShared<Tile>& shared,
                                const Maps& maps) {
  PipelineState<1> read;
  ProducerState<Tile> write;
  for (;; read.advance(), write.q.advance()) {
    shared.work_pipe.consumer_wait(read);
    const WorkTile work = shared.work;
    shared.work_pipe.consumer_release(read);
    if (work.block < 0) return;
    load_work_tile(shared, maps, work, loaded_tiles<Tile>(maps.a, work.block),
                   write);
  }
}

/// The producer's warpgroup: a thread of its first warp loads, one of its second warp has the tile
/// scheduler.
template <class Tile, class Maps>
__device__ void produce(PersistentShared<Tile>& shared, const Maps& maps,
                        const TileScheduler& scheduler,
                        unsigned* tile_counter) {
  const int thread = threadIdx.x % kWarpgroup;
  if (thread == 0) load_work_tiles(shared, maps);
  if (thread == kWarp) schedule_tiles(shared, scheduler, tile_counter);
}

/// A consumer's states of all pipelines.
template <class Tile>
struct ConsumerState {
  PipelineState<1> work;
  PipelineState<kQueryStages<Tile>> q;
  PipelineState<Tile::stages> k;
  PipelineState<Tile::stages> v;

  /// After a tile of queries.
  __device__ void next_tile() {
    work.advance();
    q.advance();
  }
};

/// A consumer reads the block's next tile.
/// @return false when none is left
//! [next_work_tile]
template <class Tile>
__device__ bool next_work_tile(PersistentShared<Tile>& shared,
                               const PipelineState<1>& read, WorkTile& work) {
  shared.work_pipe.consumer_wait(read);
  const WorkTile& next = shared.work;
  work = {warp_uniform(next.block), warp_uniform(next.head),
          warp_uniform(next.batch)};
  __syncwarp();  // all lanes have read it: a shuffle orders no memory
  if (threadIdx.x % kWarp == 0) shared.work_pipe.consumer_release(read);
  return work.block >= 0;
}
//! [next_work_tile]

/// The TMA store of the last tile's O from the place of its Q. Its completion is awaited only after
/// the next S has been issued. Q has two stages.
template <class Tile>
struct PendingStore {
  PersistentShared<Tile>& shared;
  const int warpgroup;
  PipelineState<kQueryStages<Tile>> q{};
  bool is_own = false;  // this thread issued the store

  /// After write_output(), with its result.
  __device__ void issued(bool own,
                         const PipelineState<kQueryStages<Tile>>& q_read) {
    is_own = own;
    q = q_read;
  }
  /// Releases the stage of Q when TMA has read O from it, if that has not been done.
  //! [release_q]
  __device__ void release_q() {
    if (!is_own) return;
    bulk_wait_read<0>();
    shared.q_pipe[warpgroup].consumer_release(q);
    is_own = false;
  }
  //! [release_q]
};

/// Rounds a lane's part of O in its row h and stores it. Neighbouring lanes exchange halves, so that
/// each stores four columns, and four lanes a sector of 32 bytes.
/// @param row    of O; null where there is none
/// @param factor 1 / l of the row
template <int d, class T, int r>
__device__ void store_row(T* row, const float (&o)[r], int h, float factor,
                          int columns) {
  const int lane = threadIdx.x % 4;
  const bool odd = lane % 2 == 1;
  const int own_col = lane % 2 * 8 + lane / 2 * 4;
#pragma unroll
  for (int col = 0; col < d; col += 16) {
    const auto rounded = [&](int i) {
      return pack2<T>(factor * row_element(o, h, i),
                      factor * row_element(o, h, i + 1));
    };
    // Columns 0 to 7 and 8 to 15: the even lane of two keeps the first ones.
    const std::uint64_t low = rounded(col / 4), high = rounded(col / 4 + 2);
    const std::uint64_t other = __shfl_xor_sync(
        kAllLanes, static_cast<std::uint32_t>(odd ? low : high), 1);
    if (row == nullptr || col + own_col >= columns) continue;
    *reinterpret_cast<std::uint64_t*>(row + col + own_col) =
        odd ? other | high << 32 : low | other << 32;
  }
}

/// write_output() straight from registers.
template <class Tile, class T>
__device__ void write_output_from_registers(const Attention<T>& a,
                                            const WarpgroupOutput<Tile>& o,
                                            const RowState& rows, int query0,
                                            int head, int batch) {
  float factor[2];
  write_lse(factor, a, rows, query0, head, batch);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int query = query0 + lane_row(h);
    T* const row = a.o + batch * a.o_strides.batch + head * a.o_strides.head +
                   query * a.o_strides.row;
    store_row<Tile::columns_v>(query < a.length_q ? row : nullptr, o, h,
                               factor[h], a.head_dim_v);
  }
}

/// One block for each SM, or for each tile of queries if these are fewer.
inline unsigned persistent_blocks(const TileScheduler& scheduler) {
  const std::int64_t tiles =
      std::int64_t{scheduler.total_heads} * scheduler.blocks;
  return static_cast<unsigned>(
      std::min<std::int64_t>(tiles, device_properties().sm_count));
}

}  // namespace fa::FA_TARGET
