// Descriptors and layouts of tcgen05 against CUTLASS's own, which were written by people with a GPU
// for it: an independent witness, since no B200 has run our kernels. CUTLASS computes them at
// compile time, so these tests need its headers but no GPU.
#include <cstdint>
#include <cute/atom/mma_traits_sm100.hpp>
#include <cute/tensor.hpp>

// CUDA's headers, which CUTLASS includes, and the lab have their own.
#undef __global__
#undef __device__
#undef __host__
#undef __grid_constant__
#undef __forceinline__
#undef __align__
#undef __shared__

#include <doctest/doctest.h>

#include "common/gpu/blackwell.cuh"
#include "common/gpu/launch.cuh"

namespace fa::FA_TARGET {
namespace {

namespace umma = cute::UMMA;
using cute::Int;

template <Major major>
constexpr umma::Major kCute = major == Major::kMN ? umma::Major::MN : umma::Major::K;

template <class T, class CuteType, int n, Major a, Major b>
void check_instruction() {
  constexpr auto theirs =
      umma::make_instr_desc<CuteType, CuteType, float, kTensorLanes, n, kCute<a>, kCute<b>>();
  CHECK(tcgen05_descriptor<T>(n, a, b) == static_cast<std::uint32_t>(theirs));
}

template <class T, class CuteType, int... eights>
void check_instructions(std::integer_sequence<int, eights...>) {
  (check_instruction<T, CuteType, 16 * (eights + 1), Major::kK, Major::kK>(), ...);
  (check_instruction<T, CuteType, 16 * (eights + 1), Major::kK, Major::kMN>(), ...);
  (check_instruction<T, CuteType, 16 * (eights + 1), Major::kMN, Major::kK>(), ...);
  (check_instruction<T, CuteType, 16 * (eights + 1), Major::kMN, Major::kMN>(), ...);
}

TEST_CASE("instruction descriptors are CUTLASS's, for both types and all columns") {
  check_instructions<half, cute::half_t>(std::make_integer_sequence<int, 16>{});
  check_instructions<bfloat16, cute::bfloat16_t>(std::make_integer_sequence<int, 16>{});
}

// The descriptor of 16 columns from k on, or 16 rows, of a tile in dynamic shared memory.
template <Major major, class Tile>
__global__ void describe(std::uint64_t* out) {
  Tile& tile = *dynamic_shared<Tile>();
  constexpr int depth = major == Major::kK ? Tile::cols : Tile::rows;
  for (int k = 0; k < depth; k += 16) {
    if constexpr (major == Major::kK) {
      out[k / 16] = tcgen05_bits(tile.by_rows(0, k));
    } else {
      out[k / 16] = tcgen05_bits(tile.by_columns(k, 0));
    }
  }
}

// Of an operand with so many rows or columns, and so deep.
template <Major major, int panel_bytes, int size, int depth>
void check_operand() {
  constexpr bool mn = major == Major::kMN;
  constexpr bool wide = panel_bytes == kPanelBytes;
  CAPTURE(mn);
  CAPTURE(wide);
  CAPTURE(size);
  using T = cute::half_t;
  using Tile = SwizzledTile<half, mn ? depth : size, mn ? size : depth, panel_bytes>;
  using KAtom = std::conditional_t<wide, umma::Layout_K_SW128_Atom<T>, umma::Layout_K_SW64_Atom<T>>;
  using MnAtom =
      std::conditional_t<wide, umma::Layout_MN_SW128_Atom<T>, umma::Layout_MN_SW64_Atom<T>>;
  // Panels one behind the other: across K, or across M or N.
  using Order =
      std::conditional_t<mn, cute::Step<cute::_2, cute::_1>, cute::Step<cute::_1, cute::_2>>;
  const auto layout = cute::tile_to_shape(std::conditional_t<mn, MnAtom, KAtom>{},
                                          cute::Shape<Int<size>, Int<depth>>{}, Order{});
  const auto swizzled = cute::as_position_independent_swizzle_layout(layout);
  const auto tile = std::make_unique<Tile>();
  int elsewhere = 0;
  for (int i = 0; i < size; ++i) {
    for (int k = 0; k < depth; ++k) {
      const int row = mn ? k : i, col = mn ? i : k;
      elsewhere += tile->at(row, col / 8 * 8) + col % 8 - tile->data != swizzled(i, k);
    }
  }
  CHECK(elsewhere == 0);

  DeviceBuffer<std::uint64_t> out(depth / 16);
  launch(describe<major, Tile>, {{1}, {1}, sizeof(Tile)}, out.data());
  std::uint64_t ours[depth / 16];
  out.download(ours);
  const auto tensor = cute::make_tensor(cute::make_smem_ptr(static_cast<T*>(nullptr)), layout);
  const auto compare = [&](auto step) {
    constexpr int k = 16 * decltype(step)::value;
    umma::SmemDescriptor theirs = umma::make_umma_desc<kCute<major>>(cute::local_tile(
        tensor, cute::Shape<Int<size>, Int<16>>{}, cute::make_coord(Int<0>{}, Int<k / 16>{})));
    // On the host it has no address: that of the first element, before it is swizzled.
    theirs.start_address_ =
        static_cast<std::uint16_t>(cute::get_nonswizzle_portion(layout)(0, k) * 2 >> 4);
    // Not used by K-major operands, and by those of one panel.
    umma::SmemDescriptor own;
    own.desc_ = ours[k / 16];
    if (!mn || size <= panel_bytes / 2) own.leading_byte_offset_ = theirs.leading_byte_offset_;
    CHECK(own.desc_ == theirs.desc_);
  };
  compare(std::integral_constant<int, 0>{});
  compare(std::integral_constant<int, 1>{});
  compare(std::integral_constant<int, depth / 16 - 1>{});
}

template <Major major, int panel_bytes>
void check_operands() {
  check_operand<major, panel_bytes, 64, 64>();
  check_operand<major, panel_bytes, 128, 64>();
  check_operand<major, panel_bytes, 128, 128>();
  check_operand<major, panel_bytes, 192, 64>();
  check_operand<major, panel_bytes, 256, 64>();
}

TEST_CASE("tiles in shared memory and their descriptors are CUTLASS's, element by element") {
  check_operands<Major::kK, kPanelBytes>();
  check_operands<Major::kMN, kPanelBytes>();
  check_operands<Major::kK, kNarrowPanelBytes>();
  check_operands<Major::kMN, kNarrowPanelBytes>();
}

TEST_CASE("row i and column j of accumulators, and of A, are where CUTLASS has them") {
  constexpr int n = 256;
  constexpr auto mode = umma::TmemAllocMode::NonInterleaved;
  const auto sums = cute::make_tensor<umma::tmem_frg_1sm<float, std::int32_t, mode>>(
      cute::Shape<cute::Shape<Int<kTensorLanes>, Int<n>>, cute::_1, cute::_1>{});
  const auto left = cute::make_tensor<umma::tmem_frg_1sm<cute::half_t, cute::half_t, mode>>(
      cute::Shape<cute::Shape<Int<kTensorLanes>, Int<16>>, cute::_1, cute::_4>{});
  int elsewhere = 0;
  for (int i = 0; i < kTensorLanes; ++i) {
    for (int j = 0; j < n; ++j) {
      elsewhere += sums.layout()(cute::make_coord(i, j), 0, 0) != (i << 16) + j;
    }
    // Theirs counts elements of 16 bits: two in a column, 8 columns for each 16 elements of depth.
    for (int k = 0; k < 64; ++k) {
      elsewhere += left.layout()(cute::make_coord(i, k % 16), 0, k / 16) !=
                   2 * ((i << 16) + k / 16 * 8) + k % 16;
    }
  }
  CHECK(elsewhere == 0);
}

}  // namespace
}  // namespace fa::FA_TARGET
