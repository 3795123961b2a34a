/// @file
/// Attention in 8 bits. Q, K and V are e4m3, wgmma computes twice as fast as with 16 bits, and P is
/// rounded to e4m3 in registers. Scales enter where they cost nothing: those of Q and K in the
/// factor of the exponent, that of V at the end.
///
/// Source: Shah et al., FlashAttention-3, NeurIPS 2024, section 3.3.
#pragma once

#include "05_flash_forward/kernels/15_warpgroup_tiles.cuh"
#include "05_flash_forward/kernels/fp8/transpose_v.cuh"

namespace fa::FA_TARGET {

/// Tile sizes, as HopperTile, whose T is the type of O.
/// @tparam promoted whether sums of P V are added to O in float32 after each tile of keys
/// @tparam exponent P is stored times 2^exponent. That changes exponents only, and O and l both have
///                  it. e4m3 holds 2^-6 to 448 with all its bits: the larger the factor, the smaller
///                  P may be; the smaller it is, the more a maximum may grow before O is rescaled.
template <int head_dim, int keys, int warpgroups, int stage_count,
          bool promoted, int exponent = 6>
struct Fp8Tile
    : HopperTile<bfloat16, head_dim, keys, warpgroups, stage_count> {
  static constexpr bool promotes = promoted;
  static constexpr int probs_exponent = exponent;
  // In powers of two: P up to 2^8.75, which is less than 448.
  static constexpr float rescale_threshold = 8.75f - exponent;
  // Whether P V is in flight beside the next S. For sums of 256 columns there are no registers then.
  static constexpr bool overlaps = !promotes || head_dim < 256;
  // Of a thread. With 256 columns O, S and P take 208.
  static constexpr int producer_registers =
      head_dim == 256
          ? 24
          : kProducerRegisters<
                HopperTile<bfloat16, head_dim, keys, warpgroups, 1>>;
  static constexpr int consumer_registers =
      head_dim == 256
          ? 240
          : kConsumerRegisters<
                HopperTile<bfloat16, head_dim, keys, warpgroups, 1>>;
  using QTile = SwizzledTile<e4m3, kQueries, head_dim>;
  using KTile = SwizzledTile<e4m3, keys, head_dim>;
  // V^T: 128 keys, or in narrow panels 64, are a row of a panel.
  static constexpr int v_panel_bytes =
      keys % 128 == 0 ? kPanelBytes : kNarrowPanelBytes;
  using VTile = SwizzledTile<e4m3, head_dim, keys, v_panel_bytes>;
};

/// The tile for a head dimension.
template <int d, bool promoted>
using Fp8TileFor = Fp8Tile<d,
                           d == 128 && !promoted ? 192 : 128,  // keys
                           d == 64 ? 3 : 2,                    // warpgroups
                           d == 64 ? 3 : 2,                    // stages
                           promoted>;

/// P in registers, as left operands of 32 keys each.
template <class Tile>
using Fp8Probs = std::uint32_t[Tile::block_n / 32][4];

/// Rounds P of the first 2 r keys of a tile; that of the others is 0. See key_at().
template <int parts, int r>
__device__ void round_probs(std::uint32_t (&p)[parts][4],
                            const float (&s)[r]) {
#pragma unroll
  for (int i = 0; i < parts; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      // a[j] of a left operand: row j % 2, the first or second 16 keys
      const int h = j % 2, first = 8 * i + j / 2 * 4;
      p[i][j] = first >= r / 2 ? 0
                               : pack4<e4m3>(row_element(s, h, first),
                                             row_element(s, h, first + 1),
                                             row_element(s, h, first + 2),
                                             row_element(s, h, first + 3));
    }
  }
}

/// lazy_online_softmax() with P times 2^probs_exponent. l is the sum of P before it is rounded. A sum
/// of rounded P would make rounding errors that all elements share cancel, which matters only where
/// the mean of V is much larger than its deviation: there O has an error of 2^-10, less than that of
/// rounding it to bfloat16. But LSE would have that error, too.
/// @param exponent_scale scale / ln 2, times the scales of Q and K
template <class Tile, bool masked, int r>
__device__ bool fp8_online_softmax(float (&s)[r], RowState& rows,
                                   float (&rescale)[2],
                                   float exponent_scale) {
  float largest[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) largest[h] = lane_max(s, h);
  const auto grows = [&](int h) {  // false for NaN: both are -infinity
    return (largest[h] - rows.m[h]) * exponent_scale >
           Tile::rescale_threshold;
  };
  const bool rescaled = __any_sync(kAllLanes, grows(0) || grows(1));
  if (rescaled) raise_max<masked>(rows, largest, rescale, exponent_scale);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float offset = exponent_offset<masked>(rows.m[h], exponent_scale) -
                         Tile::probs_exponent;
    float sums[2] = {rows.l[h], 0};
#pragma unroll
    for (int i = 0; i < r / 2; ++i) {
      float& x = row_element(s, h, i);
      x = exp2_approx(x * exponent_scale - offset);
      sums[i % 2] += x;
    }
    rows.l[h] = sums[0] + sums[1];
  }
  return rescaled;
}

/// Issues sums = P V, or sums += P V, for 2 r columns of V from one on, a multiple of 8.
template <class V, int r, int parts>
__device__ void issue_fp8_pv(float (&sums)[r], std::uint32_t (&p)[parts][4],
                             const V& v_transposed, bool adds,
                             int column = 0) {
  FA_STAMP(kIssueOutput, 0);
  wgmma_fence(sums, p);
#pragma unroll
  for (int i = 0; i < parts; ++i) {
    wgmma<e4m3>(sums, p[i], v_transposed.by_rows(column, 32 * i),
                adds || i > 0);
  }
  wgmma_commit(sums, p);
}

/// The loop of a consumer warpgroup over the tiles of keys, that of step 15: adds to O and to the
/// state of its rows.
/// @param exponent_scale as in fp8_online_softmax()
template <class Tile>
__device__ void fp8_mainloop(WarpgroupOutput<Tile>& o, RowState& rows,
                             PersistentShared<Tile>& shared,
                             ConsumerState<Tile>& read, const Fp8Attention& a,
                             const TileRange& range, float exponent_scale,
                             int warpgroup) {
  const int query0 = range.query0;
  const bool releases = threadIdx.x % kWarp == 0;
  const auto& q = shared.q[read.q.stage][warpgroup];
  const auto release_k = [&] {
    if (releases) shared.k_pipe.consumer_release(read.k);
    read.k.advance();
  };
  const auto release_v = [&] {
    if (releases) shared.v_pipe.consumer_release(read.v);
    read.v.advance();
  };
  const auto release_q = [&] {
    if (releases) shared.q_pipe[warpgroup].consumer_release(read.q);
  };
  Fp8Probs<Tile> p;
  // Of P V, where they are not O: all columns, or 128 of 256.
  constexpr int sum_count = !Tile::promotes  ? 1
                            : Tile::overlaps ? Tile::d / 2
                                             : 64;
  float sums[sum_count];
  const auto begin_pv = [&] {
    shared.v_pipe.consumer_wait(read.v);
    const auto& v = shared.v[read.v.stage];
    if constexpr (Tile::promotes) {
      issue_fp8_pv(sums, p, v, false);
    } else {
      issue_fp8_pv(o, p, v, true);
    }
  };
  //! [end_pv]
  const auto end_pv = [&] {
    if constexpr (Tile::promotes) {
      wgmma_wait<0>(sums, p);
#pragma unroll
      for (int i = 0; i < sum_count; ++i) o[i] += sums[i];
    } else {
      wgmma_wait<0>(o, p);
    }
    release_v();
  };
  //! [end_pv]
  float rescale[2];
  for (int i = 0; i < range.skipped; ++i) {
    shared.k_pipe.consumer_wait(read.k);
    __syncwarp();  // all lanes have seen the phase
    release_k();
    scheduler_barrier_sync<Tile>(warpgroup);
    scheduler_barrier_arrive<Tile>(warpgroup);
    shared.v_pipe.consumer_wait(read.v);
    __syncwarp();
    release_v();
  }
  if (range.tiles == 0) return release_q();
  int tile = range.tiles - 1;  // the edge first
  // S, P and P V one after the other, P V for 128 columns at a time.
  const auto step_in_order = [&](auto edge) {
    constexpr bool masked = decltype(edge)::value;
    WarpgroupScores<Tile> s;
    shared.k_pipe.consumer_wait(read.k);
    scheduler_barrier_sync<Tile>(warpgroup);
    issue_qk(s, q, shared.k[read.k.stage]);
    scheduler_barrier_arrive<Tile>(warpgroup);
    wgmma_wait<0>(s);
    release_k();
    if (tile == 0) release_q();
    if constexpr (masked) {
      apply_mask(s, a, query0, tile * Tile::block_n);
    }
    if (fp8_online_softmax<Tile, masked>(s, rows, rescale, exponent_scale)) {
      rescale_o(o, rescale);
    }
    round_probs(p, s);
    shared.v_pipe.consumer_wait(read.v);
#pragma unroll
    for (int first = 0; first < Tile::d / 2; first += sum_count) {
      issue_fp8_pv(sums, p, shared.v[read.v.stage], false, 2 * first);
      wgmma_wait<0>(sums, p);
#pragma unroll
      for (int i = 0; i < sum_count; ++i) o[first + i] += sums[i];
    }
    release_v();
  };
  // S = Q K^T of the first tile or its first half: there is no P V beside it
  const auto first = [&](auto keys) {
    float s[decltype(keys)::value / 2];
    shared.k_pipe.consumer_wait(read.k);
    scheduler_barrier_sync<Tile>(warpgroup);
    issue_qk(s, q, shared.k[read.k.stage]);
    scheduler_barrier_arrive<Tile>(warpgroup);
    wgmma_wait<0>(s);
    release_k();
    if (tile == 0) release_q();
    if (tile >= range.unmasked_tiles) {
      apply_mask(s, a, query0, tile * Tile::block_n);
    }
    fp8_online_softmax<Tile, true>(s, rows, rescale, exponent_scale);
    round_probs(p, s);
  };
  const auto step = [&](auto edge) {
    constexpr bool masked = decltype(edge)::value;
    WarpgroupScores<Tile> s;
    // S = Q K^T, not scaled
    shared.k_pipe.consumer_wait(read.k);
    scheduler_barrier_sync<Tile>(warpgroup);
    issue_qk(s, q, shared.k[read.k.stage]);
    begin_pv();  // O += P V of the tile before
    scheduler_barrier_arrive<Tile>(warpgroup);
    wgmma_wait<1>(s);  // S has been computed, P V is in flight
    release_k();
    if (tile == 0) release_q();
    if constexpr (masked) {
      apply_mask(s, a, query0, tile * Tile::block_n);
    }
    // P = exp2(exponent_scale (S - m))
    const bool rescaled =
        fp8_online_softmax<Tile, masked>(s, rows, rescale, exponent_scale);
    end_pv();
    round_probs(p, s);
    fence_operand(p);  // among the exponentials, not after the branch
    if (rescaled) rescale_o(o, rescale);
  };
  if constexpr (Tile::overlaps) {
    if (range.starts_with_half) {
      first(std::integral_constant<int, kHalfTile>{});
    } else {
      first(std::integral_constant<int, Tile::block_n>{});
    }
    for (--tile; tile >= range.unmasked_tiles; --tile) step(std::true_type{});
    for (; tile >= 0; --tile) step(std::false_type{});
    begin_pv();  // of the last tile
    end_pv();
  } else {
    for (; tile >= range.unmasked_tiles; --tile) {
      step_in_order(std::true_type{});
    }
    for (; tile >= 0; --tile) step_in_order(std::false_type{});
  }
}

/// What the kernel is given: TMA maps, which load_work_tiles() takes, and the tensors.
struct Fp8Maps {
  TensorMap q;
  TensorMap k;
  TransposedMap v;
  Fp8Attention a;
};

/// Attention in 8 bits. A consumer warpgroup processes 64 queries of each tile.
/// @tparam Tile an Fp8Tile
template <class Tile>
__global__ void __launch_bounds__(kWarpgroup*(Tile::consumers + 1), 1)
    flash_fp8(const __grid_constant__ Fp8Maps maps,
              const TileScheduler scheduler, unsigned* tile_counter) {
  auto& shared = *dynamic_shared<PersistentShared<Tile>>();
  init_barriers(shared);
  const int warpgroup = warpgroup_index();
  if (warpgroup == Tile::consumers) {  // the producer
    setmaxnreg_dec<Tile::producer_registers>();
    grid_dependency_wait();  // V^T is complete
    produce(shared, maps, scheduler, tile_counter);
    return;
  }
  setmaxnreg_inc<Tile::consumer_registers>();
  const Fp8Attention& a = maps.a;
  ConsumerState<Tile> read;
  if (warpgroup == Tile::consumers - 1) {
    scheduler_barrier_arrive<Tile>(warpgroup);  // warpgroup 0 is first
  }
  WorkTile work;
  for (; next_work_tile(shared, read.work, work); read.next_tile()) {
    const TileRange range = tile_range<Tile>(a, work.block, warpgroup);
    const int kv_head = work.batch * a.kv_heads + kv_head_of(a, work.head);
    //! [score_scale]
    const float score_scale =
        a.scale * a.q_descale[kv_head] * a.k_descale[kv_head];
    //! [score_scale]
    WarpgroupOutput<Tile> o = {};
    RowState rows = empty_row_state();
    shared.q_pipe[warpgroup].consumer_wait(read.q);
    fp8_mainloop<Tile>(o, rows, shared, read, a, range, score_scale * kLog2E,
                       warpgroup);
    //! [o_scale]
    // O and l are those of P times 2^probs_exponent.
    constexpr float probs_scale = 1.0f / (1 << Tile::probs_exponent);
    const float o_scale = a.v_descale[kv_head] * probs_scale;
    rows.l[0] *= probs_scale;
    rows.l[1] *= probs_scale;
#pragma unroll
    for (float& x : o) x *= o_scale;
    //! [o_scale]
    Attention<bfloat16> out = a;
    out.scale = score_scale;
    write_output_from_registers<Tile>(out, o, rows, range.query0, work.head,
                                      work.batch);
  }
  if (warpgroup == 0) {
    scheduler_barrier_sync<Tile>(warpgroup);  // the last arrival
  }
}

/// Launches the kernels: V is transposed, then attention begins.
/// @tparam Tile         an Fp8Tile with at least head_dim columns
/// @param  a            with a head_dim that is a multiple of 16, and strides that TMA supports
/// @param  tile_counter as in launch_warpgroup_tiles()
/// @throws std::invalid_argument for others
template <class Tile>
void launch_fp8_tiles(const Fp8Attention& a, const Stream& stream,
                      unsigned* tile_counter) {
  if (a.head_dim % 16 != 0) {
    throw std::invalid_argument(fmt::format(
        "a head_dim of {}; allowed with 8 bits are multiples of 16",
        a.head_dim));
  }
  const std::int64_t keys = transposed_keys(a);
  const std::int64_t of_head = a.head_dim * keys;
  const auto map = [&](const e4m3* data, const RowStrides& strides, int heads,
                       int rows, int box_rows) {
    return tensor_map(data, {a.batch, heads, rows, a.head_dim},
                      {strides.batch, strides.head, strides.row}, box_rows);
  };
  const Fp8Maps maps{
      map(a.q8, a.q_strides, a.heads, a.length_q, kQueries),
      map(a.k8, a.k_strides, a.kv_heads, a.length_k, Tile::block_n),
      {tensor_map<e4m3>(a.v_transposed,
                        {a.batch, a.kv_heads, a.head_dim, keys},
                        {a.kv_heads * of_head, of_head, keys}, Tile::d,
                        Tile::v_panel_bytes)},
      a};
  launch_transpose_v(a, stream);
  const TileScheduler scheduler = tile_scheduler(a, Tile::block_m);
  Launch sizes{{persistent_blocks(scheduler)},
               {kWarpgroup * (Tile::consumers + 1)},
               sizeof(PersistentShared<Tile>),
               Tile::stages};
  sizes.with_pdl = true;
  launch(stream, flash_fp8<Tile>, sizes, maps, scheduler, tile_counter);
}

/// The same with the tile for a head dimension.
/// @tparam d 64, 128 or 256
template <int d, bool promoted>
void launch_fp8(const Fp8Attention& a, const Stream& stream,
                unsigned* tile_counter) {
  launch_fp8_tiles<Fp8TileFor<d, promoted>>(a, stream, tile_counter);
}

FA_LAUNCH(fp8, launch_fp8<64, false>(const Fp8Attention&, const Stream&,
                                     unsigned*));
FA_LAUNCH(fp8, launch_fp8<128, false>(const Fp8Attention&, const Stream&,
                                      unsigned*));
FA_LAUNCH(fp8, launch_fp8<256, false>(const Fp8Attention&, const Stream&,
                                      unsigned*));

/// The row of a step with 8 bits.
template <bool promoted, class Row>
auto fp8_row(const Row& row) {
  return row.hopper()
      .head_dims(HeadDims<64, 128, 256>{})
      .over_keys(Fp8TileFor<64, promoted>{}, 3)
      .over_keys(Fp8TileFor<128, promoted>{}, 2)
      .over_keys(Fp8TileFor<256, promoted>{}, 2)
      .persistent()
      .array(e4m3{}, [](const auto& a, auto) { return transposed_size(a); })
      .tile_counter()
      .launch([](auto& a, auto d, auto& stream, e4m3* v_transposed,
                 unsigned* tile_counter) {
        a.v_transposed = v_transposed;
        launch_fp8<d, promoted>(a, stream, tile_counter);
      });
}

/// The step's row: see common/attention/host/step_row.cuh.
template <class Row>
auto fp8_step(std::integral_constant<int, 1>, Row row) {
  return fp8_row<false>(
      row("01_e4m3", "Q, K, V and P in 8 bits", bfloat16{}));
}

}  // namespace fa::FA_TARGET
