#include "04_tiled_matmul/kernels/03_transpose_shared.cuh"
#include "common/classroom/lab.hpp"
#include "common/classroom/launches.hpp"

using namespace fa::classroom;
using namespace fa::FA_TARGET;

namespace {

constexpr int kSize = FA_SIZE;

template <class Kernel>
Seen run(Kernel kernel) {
  const Seen seen = watch([&] {
    const auto in = on_device(random_floats(kSize * kSize, 1));
    DeviceBuffer<float> out(kSize * kSize);
    launch(kernel,
           {{kSize / kTransposeTile, kSize / kTransposeTile}, {kTransposeTile, kTransposeTile}},
           in.data(), out.data(), kSize, kSize);
  });
  needs_watching(seen);
  return seen;
}

}  // namespace

FA_QUESTIONS {
  const Seen naive = run(transpose_naive), unpadded = run(transpose_shared<0>),
             padded = run(transpose_shared<1>);
  const auto of_naive = static_cast<double>(naive.sectors),
             of_shared = static_cast<double>(unpadded.sectors),
             with = static_cast<double>(padded.wavefronts),
             without = static_cast<double>(unpadded.wavefronts);
  const double numbers = kSize * kSize;
  return {exactly("naive_sectors", of_naive,
                  {{of_shared,
                    "this is reading and writing whole rows; the naive kernel writes a column with "
                    "each warp"},
                   {numbers,
                    "these are the sectors that are written; those that are read count as well"}}),
          exactly("shared_sectors", of_shared,
                  {{of_shared / 2, "these are the sectors that are read; as many are written"},
                   {2 * 4 * numbers, "these are bytes; a sector has 32 of them"},
                   {2 * numbers, "these are numbers; 8 of them share a sector"}}),
          exactly("unpadded_wavefronts", without,
                  {{with, "this is without conflicts; a column of 32 x 32 lies in one bank"},
                   {numbers, "these are the loads; the stores take wavefronts as well"},
                   {2 * numbers,
                    "only the loads go by columns; the stores go by rows, without a conflict"}}),
          exactly("padded_wavefronts", with,
                  {{with / 2, "these are the stores; the loads take as many"},
                   {without,
                    "this is without a pad; with 33 columns neighbours of a column lie in "
                    "neighbouring banks"}})};
}
