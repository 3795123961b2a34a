#include "common/classroom/grader.hpp"
#include "common/classroom/launches.hpp"
#include "common/gpu/hopper.cuh"

using namespace fa::classroom;
using fa::FA_TARGET::kWarpgroup;
using fa::FA_TARGET::SwizzledTile;

namespace {

constexpr int kHeadDim = FA_HEAD_DIM, kRows = 64;

// What a thread holds of rows x columns sums, as wgmma divides them.
template <int columns>
using Sums = float[kRows * columns / kWarpgroup];

using Tile = SwizzledTile<fa::half, kRows, kHeadDim>;

struct Block {
  Tile k, v, q[2], d_o[2];
};

template <int columns>
constexpr double registers() {
  return sizeof(Sums<columns>) / sizeof(float);
}

// The largest head_dim whose sums fit.
double largest(int sums, double beside) {
  int result = 0;
  for (int d = 16; d <= 256; d += 16) {
    if (sums * kRows * d / kWarpgroup + beside <= 240) result = d;
  }
  return result;
}

}  // namespace

FA_QUESTIONS {
  const double one = registers<kHeadDim>(), both = 2 * one, scores = registers<kRows>();
  const double ring = sizeof(Block), place = sizeof(Sums<kRows>) * double{kWarpgroup};
  return {
      exactly("both_sums", both,
              {{one, "this is one of the two"},
               {2 * kRows * kHeadDim, "these are the sums of the whole warpgroup"}}),
      exactly("one_sum", one,
              {{both, "these are both"}, {one / 2, "sums have 32 bits: one register each"}}),
      exactly("largest", largest(2, scores),
              {{largest(2, 0), "S^T needs registers, too"},
               {largest(1, scores), "there are two sums, dK and dV"}}),
      exactly("ring_bytes", ring,
              {{4.0 * Tile::bytes, "Q and dO have two stages each"},
               {2 * ring, "an element has 2 bytes, not 4"}}),
      exactly("hand_over_bytes", 2 * place,
              {{place, "P is written and read"},
               {4 * place, "P has two places, but a step uses one of them"}}),
      nearly(0.01, "limit", 5.0 / 7,
             {{7.0 / 5, "this is the time; the speed is its inverse"},
              {2.0 / 7, "these are the matmuls that are repeated; what is left is the speed"}})};
}
