/// @file
/// Attention in 8 bits. Q, K and V are e4m3, wgmma computes twice as fast as with 16 bits, and P is
/// rounded to e4m3 in registers. Scales enter where they cost nothing: those of Q and K in the
/// factor of the exponent, that of V at the end.
///
/// Source: Shah et al., FlashAttention-3, NeurIPS 2024, section 3.3.
#pragma once

#include "05_flash_forward/kernels/fp8/transpose_v.cuh"
#include "05_flash_forward/library/hopper_kernel.cuh"

namespace fa::FA_TARGET {

/// Tile sizes, as HopperTile, whose T is the type of O.
/// @tparam promoted whether sums of P V are added to O in float32 after each tile of keys
template <int head_dim, int keys, int warpgroups, int stage_count,
          bool promoted>
struct Fp8Tile
    : HopperTile<bfloat16, head_dim, keys, warpgroups, stage_count> {
  static constexpr bool promotes = promoted;
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

/// @{ Registers of a thread: with 256 columns O, S and P take 208.
template <int keys, bool promoted>
constexpr int kProducerRegisters<Fp8Tile<256, keys, 2, 2, promoted>> = 24;
template <int keys, bool promoted>
constexpr int kConsumerRegisters<Fp8Tile<256, keys, 2, 2, promoted>> = 240;
/// @}

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

/// P, and O += P V, in 8 bits: a policy of hopper_mainloop(). l is the sum of P before it is rounded. A
/// sum of rounded P would make rounding errors that all elements share cancel, which matters only
/// where the mean of V is much larger than its deviation: there O has an error of 2^-10, less than
/// that of rounding it to bfloat16. But LSE would have that error, too.
template <int d, int keys, int warpgroups, int stages, bool promoted>
struct TilePv<Fp8Tile<d, keys, warpgroups, stages, promoted>> {
  using Tile = Fp8Tile<d, keys, warpgroups, stages, promoted>;
  // For S beside the sums of 256 columns there are no registers: P V is
  // computed before it, for 128 columns at a time.
  static constexpr bool overlaps = !Tile::promotes || d < 256;
  // P times 2^6 changes exponents only, and O and l both have it. e4m3 holds
  // 2^-6 to 448 with all its bits: the larger the factor, the smaller P may
  // be; the smaller it is, the more a maximum may grow before O is rescaled.
  static constexpr int exponent = 6;
  // P up to 2^8.75, which is less than 448.
  static constexpr float rescale_threshold = 8.75f - exponent;
  std::uint32_t p[keys / 32][4];  // left operands of 32 keys each
  static constexpr int sum_count = overlaps ? d / 2 : 64;
  float sums[sum_count];  // of P V, where they are not O

  /// Rounds P of the first 2 r keys; that of the others is 0. See key_at().
  template <int column, int r>
  __device__ void set_probs(const float (&s)[r]) {
#pragma unroll
    for (int i = 0; i < keys / 32; ++i) {
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
  /// Issues O += P V, or sums = P V.
  template <class V>
  __device__ void issue(float (&o)[d / 2], const V& v) {
    if constexpr (!Tile::promotes) {
      issue_fp8_pv(o, p, v, true);
    } else if constexpr (overlaps) {
      issue_fp8_pv(sums, p, v, false);
    } else {
#pragma unroll
      for (int first = 0; first < d / 2; first += sum_count) {
        issue_fp8_pv(sums, p, v, false, 2 * first);
        add_sums(o, first);
      }
    }
  }
  /// Waits for what issue() left in flight.
  __device__ void wait(float (&o)[d / 2]) {
    if constexpr (!Tile::promotes) {
      wgmma_wait<0>(o, p);
    } else if constexpr (overlaps) {
      add_sums(o, 0);
    }
  }
  /// Promotion: the sums of a tile of keys are added to O in float32.
  //! [add_sums]
  __device__ void add_sums(float (&o)[d / 2], int first) {
    wgmma_wait<0>(sums, p);
#pragma unroll
    for (int i = 0; i < sum_count; ++i) o[first + i] += sums[i];
  }
  //! [add_sums]
};

/// What the kernel is given: TMA maps, which load_work_tiles() takes, and the tensors.
struct Fp8Maps {
  TensorMap q;
  TensorMap k;
  TransposedMap v;
  Fp8Attention a;
};

/// The problem as one head sees it: the scale of its scores contains those of Q and K.
struct Fp8Head {
  Attention<bfloat16> a;
  float v_descale;
};

/// The scores of a head.
/// @tparam exponent P is stored times 2^exponent
template <int exponent>
struct Fp8Scores : CausalScores<bfloat16, KeyTiles::kOwn> {
  float v_descale;

  /// Takes the factors of P and V out of O and l.
  template <int r>
  __device__ void end(float (&o)[r], RowState& rows) const {
    // O and l are those of P times 2^exponent.
    constexpr float probs_scale = 1.0f / (1 << exponent);
    const float o_scale = v_descale * probs_scale;
    rows.l[0] *= probs_scale;
    rows.l[1] *= probs_scale;
#pragma unroll
    for (float& x : o) x *= o_scale;
  }
};

/// Attention in 8 bits, in flash_hopper().
struct Fp8Work : ForwardWork<Fp8Maps, KeyTiles::kOwn> {
  /// @{ As ForwardWork has it.
  template <class Tile>
  __device__ void produce(PersistentShared<Tile>& shared) const {
    grid_dependency_wait();  // V^T is complete
    ForwardWork::produce(shared);
  }
  __device__ Fp8Head maps(const WorkTile& own) const {
    const Fp8Attention& a = all.a;
    const int kv_head = own.batch * a.kv_heads + kv_head_of(a, own.head);
    const float score_scale =
        a.scale * a.q_descale[kv_head] * a.k_descale[kv_head];
    Fp8Head head{a, a.v_descale[kv_head]};
    head.a.scale = score_scale;
    return head;
  }
  template <class Tile>
  __device__ auto scores(PersistentShared<Tile>&, const Fp8Head& head,
                         int warpgroup, const WorkTile& own) const {
    return Fp8Scores<TilePv<Tile>::exponent>{
        causal_scores<Tile, KeyTiles::kOwn>(head.a, own.block, warpgroup),
        head.v_descale};
  }
  /// @}
};

/// What the kernel is given, with the map of V or of V^T.
/// @param a with a head_dim that is a multiple of 16, and strides that TMA supports
/// @throws std::invalid_argument for others
template <class Tile>
Fp8Maps fp8_maps(const Fp8Attention& a, const TensorMap& v) {
  if (a.head_dim % 16 != 0) {
    throw std::invalid_argument(fmt::format(
        "a head_dim of {}; allowed with 8 bits are multiples of 16",
        a.head_dim));
  }
  const auto map = [&](const e4m3* data, const RowStrides& strides, int heads,
                       int rows, int box_rows) {
    return tensor_map(data, {a.batch, heads, rows, a.head_dim},
                      {strides.batch, strides.head, strides.row}, box_rows);
  };
  return {map(a.q8, a.q_strides, a.heads, a.length_q, kQueries),
          map(a.k8, a.k_strides, a.kv_heads, a.length_k, Tile::block_n),
          {v},
          a};
}

/// Launches the kernels: V is transposed, then attention begins.
/// @tparam d            64, 128 or 256 columns, at least head_dim
/// @param  tile_counter as in launch_forward()
/// @throws as fp8_maps()
template <int d, bool promoted>
void launch_fp8(const Fp8Attention& a, const Stream& stream,
                unsigned* tile_counter) {
  using Tile = Fp8TileFor<d, promoted>;
  const std::int64_t keys = transposed_keys(a);
  const std::int64_t of_head = a.head_dim * keys;
  const Fp8Maps maps = fp8_maps<Tile>(
      a, tensor_map<e4m3>(a.v_transposed,
                          {a.batch, a.kv_heads, a.head_dim, keys},
                          {a.kv_heads * of_head, of_head, keys}, Tile::d,
                          Tile::v_panel_bytes));
  launch_transpose_v(a, stream);
  const TileScheduler scheduler = tile_scheduler(a, Tile::block_m);
  launch_hopper<Tile>(stream, persistent_blocks(scheduler),
                      Fp8Work{{{}, maps, scheduler, tile_counter}}, true);
}

FA_LAUNCH(fp8, launch_fp8<64, false>(const Fp8Attention&, const Stream&,
                                     unsigned*));
FA_LAUNCH(fp8, launch_fp8<128, false>(const Fp8Attention&, const Stream&,
                                      unsigned*));
FA_LAUNCH(fp8, launch_fp8<256, false>(const Fp8Attention&, const Stream&,
                                      unsigned*));

/// The part of a row that all steps with 8 bits share.
template <bool promoted, class Row>
auto fp8_row(const Row& row) {
  return row.hopper()
      .head_dims(HeadDims<64, 128, 256>{})
      .over_keys(Fp8TileFor<64, promoted>{}, 3)
      .over_keys(Fp8TileFor<128, promoted>{}, 2)
      .over_keys(Fp8TileFor<256, promoted>{}, 2)
      .persistent();
}

/// The row of a step with V^T in global memory.
template <bool promoted, class Row>
auto transposed_row(const Row& row) {
  return fp8_row<promoted>(row)
      .array(e4m3{}, [](const auto& a, auto) { return transposed_size(a); })
      .tile_counter()
      .launch([](auto& a, auto d, auto& stream, e4m3* v_transposed,
                 unsigned* tile_counter) {
        a.v_transposed = v_transposed;
        launch_fp8<d, promoted>(a, stream, tile_counter);
      });
}

FA_STEP_ROW(fp8, 1) {
  return transposed_row<false>(
      row("01_e4m3", "Q, K, V and P in 8 bits", bfloat16{}));
}

}  // namespace fa::FA_TARGET
