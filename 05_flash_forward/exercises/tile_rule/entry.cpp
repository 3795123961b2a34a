#include "05_flash_forward/exercises/tile_kinds.hpp"
#include "common/classroom/prelude_lab.hpp"
#include "student/tile_rule.cuh"

using namespace fa::classroom;

FA_ENTRY(kinds, [](const Mask& m) {
  return tile_kinds(m, fa::FA_TARGET::Band(m.reach, m.length_k - m.length_q));
});
FA_ENTRY(pairs, [](const Mask& m) {
  return visible_pairs(m, fa::FA_TARGET::Band(m.reach, m.length_k - m.length_q));
});
