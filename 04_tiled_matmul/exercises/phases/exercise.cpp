#include "common/classroom/grader.hpp"
#include "common/classroom/launches.hpp"
#include "common/gpu/hopper.cuh"

using namespace fa::classroom;
using namespace fa::FA_TARGET;

namespace {

constexpr int kStages = FA_STAGES, kTile = FA_TILE, kRow = FA_ROW, kCol = FA_COL;
using TileA = SwizzledTile<bfloat16, 128, 64>;
using TileB = SwizzledTile<bfloat16, 64, 192>;

}  // namespace

FA_QUESTIONS {
  PipelineState<kStages> state;
  for (int tile = 0; tile < kTile; ++tile) state.advance();
  static TileA a;
  const auto* begin = reinterpret_cast<const char*>(a.data);
  const auto* piece = reinterpret_cast<const char*>(a.at(kRow, kCol / 8 * 8));
  const auto element = static_cast<double>(piece - begin + kCol % 8 * 2);
  const MatrixDescriptor<Major::kMN> from{0};
  const auto step = static_cast<double>((from + 16 * kPanelBytes).low);
  const double stage = state.stage, parity = state.parity;
  const double bytes = TileA::bytes + TileB::bytes;
  return {exactly("stage", stage,
                  {{kTile / kStages, "this is the round; the stage is the remainder"},
                   {stage + 1, "stages and tiles are numbered from 0"}}),
          exactly("consumer_parity", parity,
                  {{1 - parity,
                    "the first round has parity 0: the consumer waits for the parity of its round"},
                   {kTile / kStages, "this is the round; the parity is its last bit"}}),
          exactly("producer_parity", 1 - parity,
                  {{parity,
                    "this is the consumer's. In round 0 the producer waits for parity 1, which "
                    "returns at once"}}),
          exactly("expected_bytes", bytes,
                  {{bytes / 2, "an element has two bytes"},
                   {TileA::bytes, "this is A alone; both tiles report to the barrier"},
                   {2 * bytes, "an element has two bytes, not four"}}),
          exactly("element_bytes", element,
                  {{kRow * kPanelBytes + 2 * kCol,
                    "this is without the swizzle: piece p of row r lies at p ^ (r % 8)"},
                   {element / 2, "this counts elements; an element has two bytes"},
                   {element - kCol % 8 * 2,
                    "this is the beginning of the piece; the element is inside of it"}}),
          exactly("step_mn", step,
                  {{16 * kPanelBytes, "these are bytes; a descriptor counts units of 16"},
                   {2, "this is K-major, where 16 steps of k are 32 bytes"},
                   {TileB::panel_size * 2 / 16,
                    "this is the distance from a panel to the next: LBO, for columns"}})};
}
