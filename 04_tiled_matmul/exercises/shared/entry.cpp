#include "common/classroom/prelude_lab.hpp"
#include "student/shared.cuh"

using namespace fa::classroom;
using namespace fa::FA_TARGET;

FA_ENTRY(run, [](const std::string& puzzle) {
  return play(puzzle, [](const auto& in, float* out, const auto& sizes,
                         const auto& launched) {
    launch(reverse_pieces, launched, in[0], out, sizes[0]);
  });
});
