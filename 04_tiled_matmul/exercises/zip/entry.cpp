#include "common/classroom/prelude_lab.hpp"
#include "student/zip.cuh"

using namespace fa::classroom;
using namespace fa::FA_TARGET;

FA_ENTRY(run, [](const std::string& puzzle) {
  return play(puzzle, [](const auto& in, float* out, const auto& sizes,
                         const auto& launched) {
    launch(zip_backwards, launched, in[0], in[1], out, sizes[0]);
  });
});
