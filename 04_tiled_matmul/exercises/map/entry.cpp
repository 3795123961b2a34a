#include "common/classroom/prelude_lab.hpp"
#include "student/map.cuh"

using namespace fa::classroom;
using namespace fa::FA_TARGET;

FA_ENTRY(run, [](const std::string& puzzle) {
  return play(puzzle, [](const auto& in, float* out, const auto&,
                         const auto& launched) {
    launch(to_fahrenheit, launched, in[0], out);
  });
});
