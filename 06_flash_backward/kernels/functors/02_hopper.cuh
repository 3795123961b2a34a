/// @file
/// The gradients of attention with a functor in the kernel of step 12. A block owns keys; the tiles
/// of queries that see them are a range, or those that tile_kind() does not skip. P and dS are
/// those of functors/01, the order of the matmuls is that of step 10. A lane has two keys and many
/// queries of a tile, so queries() masks here as keys() does in the forward pass.
///
/// Source: Dong et al., FlexAttention, 2024, section 4; Shah et al., FlashAttention-3, NeurIPS 2024.
#pragma once

#include "06_flash_backward/kernels/sink_gradients.cuh"
#include "06_flash_backward/library/hopper_block.cuh"
#include "common/attention/functor_instances.cuh"
#include "common/attention/visible_tiles.cuh"

namespace fa::FA_TARGET {

/// A block of keys, and the tiles of queries that see it: those of a range, or all
/// that are not skipped.
struct SeenBlock : NBlock {
  int whole_begin, whole_end;  ///< tiles of a range that need no mask
};
/// The same with the functor.
template <class Functor>
struct FunctorBlock : SeenBlock {
  const Functor& functor;
};

/// What a block keeps in shared memory: step 10's, and what registers have no room for.
template <class Tile>
struct FunctorBackwardShared : DelayedBackwardShared<Tile> {
  SeenBlock block;
};

/// The block with keys from index * block_n on.
template <class Tile, class T, class Functor>
__device__ FunctorBlock<Functor> functor_block(const AttentionGradient<T>& a,
                                               const Functor& functor,
                                               const WorkTile& work) {
  const int key0 = work.block * Tile::block_n;
  const int tiles = ceil_div(a.length_q, Tile::block_m);
  if constexpr (!Functor::shows_ranges) {
    return {{{key0, work.head, work.batch, {0, tiles, 0}}, 0, 0}, functor};
  } else {
    const int last = smaller(key0 + Tile::block_n, a.length_k) - 1;
    const VisibleTiles range = visible_tiles(
        functor.queries(work.batch, key0), functor.queries(work.batch, last),
        a.length_q, Tile::block_m);
    const bool ragged = key0 + Tile::block_n > a.length_k;
    // Where all queries see all keys, each block of a head begins with another
    // tile, as in step 12.
    const int start =
        std::is_same_v<Functor, AllKeys>
            ? static_cast<int>(std::int64_t{key0} * range.end / a.length_k)
            : range.begin;
    return {{{key0, work.head, work.batch, {range.begin, range.end, start}},
             range.whole_begin,
             ragged ? 0 : range.whole_end},
            functor};
  }
}

/// A tile of queries that sees a block of keys, and the way to the next one.
template <class Tile, class T, class Functor>
struct VisibleMBlock {
  const AttentionGradient<T>& a;
  const Functor& functor;
  const SeenBlock& block;
  int head, m_block;
  bool whole = false;

  /// The first one.
  __device__ VisibleMBlock(const AttentionGradient<T>& the_a,
                           const Functor& the_functor,
                           const SeenBlock& the_block)
      : a(the_a),
        functor(the_functor),
        block(the_block),
        head(query_heads(a, block).first),
        m_block(block.m_blocks.start) {
    if (block.m_blocks.min >= block.m_blocks.max) head = end();
    find();
  }
  /// Whether there is one.
  __device__ bool exists() const { return head < end(); }
  /// Takes the next one.
  __device__ void next() {
    step();
    find();
  }

 private:
  __device__ int end() const {
    const QueryHeads heads = query_heads(a, block);
    return heads.first + heads.count;
  }
  __device__ void step() {
    if (++m_block == block.m_blocks.max) m_block = block.m_blocks.min;
    if (m_block == block.m_blocks.start) ++head;
  }
  // Looks at this tile; without ranges, steps until one is not skipped.
  __device__ void find() {
    if constexpr (!Functor::shows_ranges) {
      for (; exists(); step()) {
        const TileKind kind = tile_kind<Tile::block_m, Tile::block_n>(
            a, functor, block.batch, head, m_block * Tile::block_m,
            block.key0);
        whole = kind == TileKind::kWhole;
        if (kind != TileKind::kSkipped) return;
      }
    } else {
      whole = block.whole_begin <= m_block && m_block < block.whole_end;
    }
  }
};

/// Calls visit(head, query0) for each tile of queries that sees a block of keys, in order.
template <class Tile, class T, class Functor, class Visit>
__device__ void for_each_m_block(const AttentionGradient<T>& a,
                                 const FunctorBlock<Functor>& block,
                                 Visit visit) {
  VisibleMBlock<Tile, T, Functor> at(a, block.functor, block);
#pragma unroll 1  // registers may be few
  for (; at.exists(); at.next()) visit(at.head, at.m_block * Tile::block_m);
}

/// An MMA warpgroup and its accumulators: step 10's with a functor.
template <class Tile, class Functor>
struct FunctorMmaWarpgroup
    : DelayedMmaWarpgroup<Tile, FunctorBackwardShared<Tile>> {
  using Base = DelayedMmaWarpgroup<Tile, FunctorBackwardShared<Tile>>;
  using Base::a;
  using Base::at;
  using Base::d_k;
  using Base::d_v;
  using Base::k;
  using Base::key0;
  using Base::shared;
  using Base::warpgroup;
  using typename Base::T;

  /// A tile of queries that the warpgroup's keys are seen by, and its head.
  struct At {
    const Functor& functor;
    int head, query0;
  };
  /// Whether dS is P * (dP - delta), so that P serves for both.
  static constexpr bool keeps_probs =
      !Functor::changes_scores || Functor::shifts_scores;

  /// Which queries of the tile see a key of this lane: sees(h, i), for the score that
  /// row_element() has for h and i.
  template <class Visit>
  __device__ void with_visibility(const At& of, Visit visit) const {
    const int query = of.query0 + lane_column();
    if constexpr (Functor::has_words) {
      static_assert(Tile::block_m <= 128, "a bit for each element of a row");
      // Both keys of the lane are of the same 32.
      const int key = key0 + lane_row(0);
      std::uint32_t seen[2] = {0, 0};
#pragma unroll
      for (int i = 0; i < Tile::block_m / 4; ++i) {
        const int i_query = query + element_column(i);
        if (i_query >= a.length_q || key >= a.length_k) continue;
        const std::uint32_t word =
            of.functor.word(shared.block.batch, of.head, i_query, key) >>
            key % 32;
        seen[0] |= (word & 1) << i;
        seen[1] |= (word >> 8 & 1) << i;
      }
      if (key + 8 >= a.length_k) seen[1] = 0;
      visit([&](int h, int i) { return (seen[h] >> i & 1) != 0; });
    } else if constexpr (!Functor::shows_ranges) {
      visit([&](int h, int i) {
        const int i_query = query + element_column(i);
        const int key = key0 + lane_row(h);
        return i_query < a.length_q && key < a.length_k &&
               of.functor.visible(shared.block.batch, of.head, i_query, key);
      });
    } else {
      IndexRange seen[2];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int key = key0 + lane_row(h);
        seen[h] = key < a.length_k
                      ? of.functor.queries(shared.block.batch, key)
                      : IndexRange{0, 0};
        seen[h] = {seen[h].begin - query, seen[h].end - query};
      }
      visit([&](int h, int i) {
        return seen[h].begin <= element_column(i) &&
               element_column(i) < seen[h].end;
      });
    }
  }

  /// P^T = exp2(S'^T / ln 2 - LSE), and P^T * score'(S^T) for dS.
  /// @param s    S^T without the scale; on return P^T, or P^T * score'(S^T)
  /// @param p    on return P^T, rounded, if the derivative is not 1
  /// @param sees as with_visibility() has it; P is 0 where it is false
  template <class Sees>
  __device__ void functor_probs(TransposedScores<Tile>& s,
                                RoundedScores<Tile>& p, const At& of,
                                Sees sees) const {
    const float scale = unit_of(of.functor, a.scale) * kLog2E;
    const auto lane =
        lane_scores(a, of.functor, shared.block.batch, of.head,
                    of.query0 + lane_column(), key0 + lane_row(0));
#pragma unroll
    for (int j = 0; j < Tile::block_m / 8; ++j) {
      float lse[2];  // of two neighbouring queries
      load2(lse, shared.lse[at.stage] + 8 * j + lane_column());
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float probs[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& x = row_element(s, h, 2 * j + e);
          float changed = x, derivative = 1;
          if constexpr (Functor::changes_scores) {
            changed = lane.score(x, 8 * j + e, 8 * h);
          }
          if constexpr (!keeps_probs) {
            derivative = lane.derivative(x, changed, 8 * j + e, 8 * h);
          }
          probs[e] =
              exp2_approx(changed_exponent<Functor>(changed, scale, lse[e]));
          if (!sees(h, 2 * j + e)) probs[e] = 0;
          // -infinity masks, and may have no derivative
          if (kWideScores<Functor> && changed == -INFINITY) derivative = 0;
          x = probs[e] * derivative;
        }
        if constexpr (keeps_probs) continue;
        p[j / 2][j % 2 * 2 + h] = pack2<T>(probs[0], probs[1]);
      }
    }
  }

  /// Adds dS' to the gradient of a parameter.
  __device__ void add_gradients(const TransposedScores<Tile>& d_s,
                                const At& of) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int i = 0; i < Tile::block_m / 4; ++i) {
        const float g = row_element(d_s, h, i);
        // 0 where there is no such query or key
        if (g == 0) continue;
        of.functor.add_gradient(g, shared.block.batch, of.head,
                                of.query0 + lane_column() + element_column(i),
                                key0 + lane_row(h));
      }
    }
  }

  /// A tile of queries.
  /// @tparam first whether it is the block's first one
  /// @param  whole whether it needs no mask
  template <bool first>
  __device__ void step(const At& of, bool whole) {
    TransposedScores<Tile> p, d_s;  // at first S^T and dP^T
    RoundedScores<Tile> p_operand, d_s_operand;
    QueryGradient<Tile> d_q;  // of the previous tile
    // S^T = K Q^T, dP^T = V dO^T
    shared.q_pipe.consumer_wait(at);
    issue_gemm_nt(p, k[warpgroup], shared.q[at.stage]);
    this->template wait_for_d_o<first>();
    this->issue_d_p(d_s);
    // P = exp(score(scale S) - LSE), then P * score'(scale S)
    wgmma_wait<1>(p);
    if (whole) {
      functor_probs(p, p_operand, of, [](int, int) { return true; });
    } else {
      with_visibility(
          of, [&](auto sees) { functor_probs(p, p_operand, of, sees); });
    }
    // dS = P * score'(scale S) * (dP - delta), elementwise
    wgmma_wait<0>(d_s);
    score_gradients(d_s, p, shared.delta[at.stage]);
    if constexpr (Functor::has_gradient) {
      static_assert(keeps_probs, "dS is the gradient of S' as well");
      add_gradients(d_s, of);
    }
    round_to_operand<T>(d_s_operand, d_s);
    if constexpr (keeps_probs) round_to_operand<T>(p_operand, p);
    // dQ = dS K of the previous tile, dV += P^T dO, dK += dS^T Q
    if constexpr (!first) this->wait_for_previous_d_s();
    store_d_s(shared.d_s[at.stage], d_s_operand, warpgroup * kKeys);
    if constexpr (!first) this->issue_previous_d_q(d_q);
    issue_gemm_rs(d_v, p_operand, shared.d_o[at.stage]);
    issue_gemm_rs(d_k, d_s_operand, shared.q[at.stage]);
    if constexpr (!first) {
      wgmma_wait<2>(d_q);
      send_d_q<Tile>(shared, d_q, warpgroup, at.stage ^ 1);
    }
    fence_async_proxy();  // makes dS visible to wgmma
    __syncwarp();
    if (threadIdx.x % kWarp == 0) shared.d_s_full[at.stage].arrive();
    wgmma_wait<1>(d_v, p_operand);
    release_stage(shared.d_o_pipe, at);
    wgmma_wait<0>(d_k, d_s_operand);
    release_stage(shared.q_pipe, at);
    at.advance();
  }

  /// A tile of queries none of which sees the warpgroup's keys: dS is 0. Only dQ of the previous
  /// tile is computed.
  template <bool first>
  __device__ void skip() {
    shared.q_pipe.consumer_wait(at);
    this->template wait_for_d_o<first>();
    if constexpr (!first) this->wait_for_previous_d_s();
    const RoundedScores<Tile> zeros = {};
    store_d_s(shared.d_s[at.stage], zeros, warpgroup * kKeys);
    if constexpr (!first) {
      QueryGradient<Tile> d_q;
      this->issue_previous_d_q(d_q);
      wgmma_wait<0>(d_q);
      send_d_q<Tile>(shared, d_q, warpgroup, at.stage ^ 1);
    }
    fence_async_proxy();  // makes dS visible to wgmma
    __syncwarp();
    if (threadIdx.x % kWarp == 0) shared.d_s_full[at.stage].arrive();
    release_stage(shared.d_o_pipe, at);
    release_stage(shared.q_pipe, at);
    at.advance();
  }
  /// Whether tiles are skipped. Registers do not suffice for the gradient of a
  /// bias as well.
  static constexpr bool skips =
      Functor::shows_ranges && !Functor::has_gradient;
  /// The tiles of queries that see a key of the warpgroup.
  __device__ VisibleTiles own_tiles(const Functor& functor) const {
    if (key0 >= a.length_k) return {0, 0, 0, 0};
    const int batch = shared.block.batch;
    const int last = smaller(key0 + kKeys, a.length_k) - 1;
    return visible_tiles(functor.queries(batch, key0),
                         functor.queries(batch, last), a.length_q,
                         Tile::block_m);
  }

  /// All tiles of a block: see DelayedMmaWarpgroup.
  __device__ void mainloop(const Functor& functor) {
    const SeenBlock& block = shared.block;
    VisibleMBlock<Tile, T, Functor> tile(a, functor, block);
    if (!tile.exists()) return;
    int begin = 0, end = 0;  // of the tiles that are not skipped
    if constexpr (skips) {
      const VisibleTiles own = own_tiles(functor);
      begin = warp_uniform(own.begin);
      end = warp_uniform(own.end);
    }
    const auto take = [&](auto first) {
      if constexpr (skips) {
        if (tile.m_block < begin || end <= tile.m_block) {
          skip<decltype(first)::value>();
          return;
        }
      }
      step<decltype(first)::value>(
          {functor, tile.head, tile.m_block * Tile::block_m}, tile.whole);
    };
    take(std::true_type{});
    for (tile.next(); tile.exists(); tile.next()) take(std::false_type{});
    QueryGradient<Tile> d_q;  // of the last tile
    this->wait_for_previous_d_s();
    this->issue_previous_d_q(d_q);
    wgmma_wait<0>(d_q);
    send_d_q<Tile>(shared, d_q, warpgroup, at.stage ^ 1);
  }
};

/// dK, dV, and d_q_accum: a block owns keys and loops over the queries that see them.
/// @tparam Tile    HopperBackwardTile
/// @tparam Functor see score_functors.cuh
template <class Tile, class T, class Functor>
__global__ void __launch_bounds__(kWarpgroup*(kKeyWarpgroups + 1), 1)
    flash_backward_hopper_functor(const __grid_constant__ TmaGradient<T> maps,
                                  const __grid_constant__ Functor functor,
                                  const TileScheduler scheduler) {
  auto& shared = *dynamic_shared<FunctorBackwardShared<Tile>>();
  const AttentionGradient<T>& a = maps.a;
  WorkTile work = work_tile(blockIdx.x, scheduler);
  // As in longest_first_n_block().
  if (scheduler.heads_together > 0) {
    work.block = scheduler.blocks - 1 - work.block;
  }
  const FunctorBlock<Functor> block = functor_block<Tile>(a, functor, work);
  if (threadIdx.x == 0) shared.block = block;
  shared.init();
  const int warpgroup = warpgroup_index();
  if (warpgroup == kKeyWarpgroups) {
    setmaxnreg_dec<kBackwardProducerRegisters<Tile>>();
    const int warp = threadIdx.x / kWarp % 4;
    if (threadIdx.x % kWarp != 0) return;
    if (warp == 0) load_queries(shared, maps, block);
    if (warp > 0 && warp <= kKeyWarpgroups) {
      store_or_reduce_d_q<Tile>(shared, a, block, warp - 1,
                                !std::is_same_v<Functor, AllKeys>);
    }
    return;
  }
  setmaxnreg_inc<kBackwardConsumerRegisters<Tile>>();
  FunctorMmaWarpgroup<Tile, Functor> mma{
      {shared, shared.k, shared.v, a, warpgroup,
       shared.block.key0 + warpgroup * kKeys}};
  mma.mainloop(functor);
  epilogue<Tile>(shared, maps, shared.block, mma.d_k, mma.d_v);
}

/// Whether a query of this block's sequence sees a key.
template <class T, class Functor>
__device__ bool sees_keys(const AttentionGradient<T>& a,
                          const Functor& functor, int query) {
  if (query >= a.length_q) return false;
  const IndexRange keys = functor.keys(blockIdx.z, query);
  return larger(keys.begin, 0) < smaller(keys.end, a.length_k);
}

/// The row statistics of step 12, and zeros in d_q_accum where no block may store: for tiles of
/// queries that see no key, and for all where the mask shows no ranges.
/// @tparam d columns of d_q_accum, at least head_dim
template <int d, class T, class Functor>
__global__ void preprocess_functor(AttentionGradient<T> a, Functor functor) {
  with_row_delta<d>(a, [&](const auto& head, int row, int col, float delta) {
    const std::int64_t padded = head.padded_row + row;
    bool seen = false;
    if constexpr (Functor::shows_ranges) {
      const int first = row / kSemaphoreRows * kSemaphoreRows;
      const int last = smaller(first + kSemaphoreRows, a.length_q) - 1;
      seen = sees_keys(a, functor, first) || sees_keys(a, functor, last);
    }
    if (!seen) zero_d_q_accum<d>(a, padded, col);
    if (col > 0) return;
    if (row % kSemaphoreRows < 2) {
      a.d_q_semaphores[padded / kSemaphoreRows * 2 + row % kSemaphoreRows] =
          0;
    }
    store_row_statistics(a, head, row, delta);
  });
}

/// Bytes of workspace for tiles that launch_backward_hopper_functor() needs for a functor with
/// needs_map.
template <class T>
std::int64_t hopper_functor_workspace(const Attention<T>& a) {
  using Tile = HopperBackwardTileFor<T, 128>;
  return tile_map_bytes(a, Tile::block_m, Tile::block_n);
}

/// Launches the kernels: row statistics, sinks where there are some, the gradients.
/// @param a     with a Workspace{128, true} and at most 128 columns, for which can_use_tma() holds;
///              as in launch_backward_score_functor()
/// @param kinds of the device, hopper_functor_workspace() bytes
template <class T, class Functor>
void launch_backward_hopper_functor(const AttentionGradient<T>& a,
                                    const Functor& functor,
                                    const Stream& stream, TileKind* kinds) {
  constexpr int d = 128;
  using Tile = HopperBackwardTileFor<T, d>;
  launch(stream, preprocess_functor<d, T, Functor>, preprocess_launch<d>(a),
         a, functor);
  launch_sink_gradients(a, functor, stream);
  const TmaGradient<T> maps = tma_gradient<Tile>(a);
  // The order of a causal mask: the first keys, which the most queries may see, first.
  AttentionGradient<T> ordered = a;
  ordered.causal = !std::is_same_v<Functor, AllKeys>;
  const TileScheduler scheduler = n_block_scheduler<Tile>(ordered);
  with_tile_kinds<Tile::block_m, Tile::block_n>(
      static_cast<const Attention<T>&>(a), functor, kinds, stream,
      [&](const auto& with_kinds) {
        using F = std::decay_t<decltype(with_kinds)>;
        launch(stream, flash_backward_hopper_functor<Tile, T, F>,
               {grid_of_work(scheduler), kWarpgroup * (kKeyWarpgroups + 1),
                sizeof(FunctorBackwardShared<Tile>), Tile::stages},
               maps, with_kinds, scheduler);
      });
  launch_tma_postprocess<Tile>(maps, stream);
}

/// launch_backward_hopper_functor() with the functor of a spec.
template <class T>
void launch_backward_functor_hopper(const AttentionGradient<T>& a,
                                    const FunctorSpec& spec,
                                    const Stream& stream, TileKind* kinds) {
  with_functor(spec, a.length_q, a.length_k, [&](const auto& functor) {
    launch_backward_hopper_functor(a, functor, stream, kinds);
  });
}

FA_LAUNCH(backward_functor_hopper,
          launch_backward_functor_hopper(const AttentionGradient<bfloat16>&,
                                         const FunctorSpec&, const Stream&,
                                         TileKind*));

FA_STEP_ROW(backward_functor, 2) {
  return row("02_hopper", "the same with wgmma, TMA and producers",
             bfloat16{})
      .without_functor("12_store_then_reduce")
      .hopper()
      .any_order()
      .head_dims(HeadDims<128>{})
      .tile(64, 128, 2, 0, 128)
      .workspace([](auto&, auto d) {
        return Workspace{d, true};
      })
      .array(TileKind{},
             [](const auto& a, auto) { return hopper_functor_workspace(a); })
      .launch([](auto& a, auto, auto& stream, TileKind* kinds) {
        launch_backward_functor_hopper(a, a.spec, stream, kinds);
      });
}

}  // namespace fa::FA_TARGET
