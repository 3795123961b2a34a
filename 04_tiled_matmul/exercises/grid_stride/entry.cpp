#include "04_tiled_matmul/exercises/puzzle_entry.hpp"
#include "student/grid_stride.cuh"

using namespace fa::classroom;
using namespace fa::FA_TARGET;

FA_ENTRY(run, [](const Puzzle& p) {
  return play(p, [&](const auto& in, float* out, const auto& launched) {
    launch(saxpy_any, launched, 2.5f, in[0], in[1], out, p.sizes[0]);
  });
});
